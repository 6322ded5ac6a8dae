"""A place to pickle into what is kept only if it is small."""

from __future__ import annotations

import io
from typing import Any


class TooLarge(Exception):
    """More was written than there is room for."""


class LimitedFile(io.BytesIO):
    """Raises `TooLarge` from ``limit`` bytes on, which ends the pickling."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self._limit:
            raise TooLarge
        return super().write(data)
