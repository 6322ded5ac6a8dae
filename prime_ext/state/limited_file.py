"""An in-memory file with a size limit, for pickles that are kept only if they are small."""

from __future__ import annotations

import io
from typing import Any


class TooLarge(Exception):
    """The write would exceed the limit."""


class LimitedFile(io.BytesIO):
    """A file that raises `TooLarge` beyond ``limit`` bytes, which ends the pickling."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self._limit:
            raise TooLarge
        return super().write(data)
