"""Keys stay out of the server's log, whoever writes there.

Behind a gateway, Jupyter Server logs the environment it starts a kernel with, which is its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable


class LogRedaction(logging.Filter):
    """Passes every message, without what ``redact`` takes out of it."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            return True  # the handler reports what is wrong with it
        clean = self._redact(message)
        if clean != message:
            record.msg, record.args = clean, ()
        return True
