"""Redaction of keys from the server's log, including messages of other packages.

With a kernel gateway, Jupyter Server logs the environment that it starts a kernel with, which is
its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable


class LogRedaction(logging.Filter):
    """Apply ``redact`` to every log message; never suppress one."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            return True  # the handler reports the malformed message
        clean = self._redact(message)
        if clean != message:
            record.msg, record.args = clean, ()
        return True
