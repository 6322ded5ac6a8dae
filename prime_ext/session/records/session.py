"""Records of the session as a whole: its beginning, settings, title, errors."""

from __future__ import annotations

from typing import Any, ClassVar

from prime_ext.errors import PrimeError
from prime_ext.session.records.record import Block, Record

FORMAT = 1
"""Of the logs that this version writes. It grows when an older version could no longer read a log,
or would spoil it by writing into it; new fields and kinds do neither."""


class SessionStart(Record, frozen=True, kw_only=True, omit_defaults=True, tag="session_start"):
    """First record of a session. System prompt and tools stay the same until a compaction."""

    kind: ClassVar[str] = "session_start"

    version: str
    """Version of prime_ext that started the session."""
    format: int = FORMAT
    notebook: str
    """Path of the notebook, relative to the server's root, with forward slashes."""
    provider: str
    """``offline``, ``anthropic``, ``bedrock``, ``vertex`` or ``foundry``."""
    model: str
    permission_mode: str
    system: list[Block]
    tools: list[dict[str, Any]]
    title: str | None = None
    restore: str | None = None
    """As in ``Settings``. ``None``: as configured on the server."""


class Settings(Record, frozen=True, kw_only=True, omit_defaults=True, tag="settings"):
    """A change of a session's settings. Omitted fields have not changed."""

    kind: ClassVar[str] = "settings"

    permission_mode: str | None = None
    model: str | None = None
    """Takes effect at the next compaction, or at once while the context is empty."""
    provider: str | None = None
    notebook: str | None = None
    """New path, if the notebook was renamed or the session attached to another notebook."""
    windows: dict[str, int] = {}
    """Model id → context window in tokens, as its server reported when it refused a request."""
    restore: str | None = None
    """When variables are restored automatically: ``auto``, ``always``, ``ask`` or ``never``."""
    snapshots: bool | None = None
    """Whether snapshots of the notebook's variables are taken."""
    server_side: bool | None = None
    """``False``: the model's server refused to edit or compact the context, or did not do so. From
    then on, its summary is sent as text, and previews replace the results that it had left out."""
    drops_thinking: bool = False
    """Whether the model's server refused the thinking so far, because something before it changed.
    From then on it is left out of all earlier replies."""


class Title(Record, frozen=True, kw_only=True, omit_defaults=True, tag="title"):
    kind: ClassVar[str] = "title"

    title: str


class Error(Record, frozen=True, kw_only=True, omit_defaults=True, tag="error"):
    kind: ClassVar[str] = "error"

    code: str
    message: str
    hint: str = ""
    where: str = ""
    """``model``, ``kernel``, ``notebook``, ``session`` or ``compaction``."""

    @classmethod
    def of(cls, failure: PrimeError, *, where: str, turn: str | None = None) -> Error:
        """Return the record of ``failure``."""
        return cls(
            code=failure.code,
            message=failure.message,
            hint=failure.hint,
            where=where,
            turn=turn,
        )
