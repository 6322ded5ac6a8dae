"""The fields of every record."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import msgspec

Block = dict[str, Any]
"""One Messages API content block (``text``, ``image``, ``thinking``, ``tool_use``, …)."""


class Record(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag=""
):
    """Fields of every record. The log assigns ``seq``, ``id`` and ``ts`` on append."""

    kind: ClassVar[str] = ""

    seq: int = 0
    id: str = ""
    ts: str = ""
    """UTC, ISO 8601 with milliseconds and ``Z``."""
    user: str | None = None
    """Name of the Jupyter user whose action caused the record, if any."""
    turn: str | None = None
    """Id of the turn that the record belongs to."""

    @property
    def time(self) -> datetime:
        """``ts`` as a time."""
        # `fromisoformat` of Python 3.10 does not accept the suffix Z.
        return datetime.fromisoformat(self.ts.replace("Z", "+00:00"))
