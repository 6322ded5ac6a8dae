"""Revertible writing of files: the old content is kept, and the change is recorded."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from prime_ext.agent.tools.text_files import TextFile, write_text
from prime_ext.completed import completed
from prime_ext.session.records import FileChange

if TYPE_CHECKING:
    from prime_ext.agent.tools.tool import ToolContext


class FileWriting:
    """The file changes of one tool call."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._changes: list[FileChange] = []

    async def carry_out(self, work: Callable[[FileWriting], str]) -> str:
        """Run ``work`` in a thread, record the files that it has written, and return its result.

        A thread cannot be cancelled. A cancellation of the caller is delayed until the thread ends,
        so that no file is changed without a record.
        """
        try:
            return await completed(asyncio.to_thread(work, self))
        finally:
            for change in self._changes:
                self._context.session.append(change)

    def write(self, path: Path, text: str, shown: str, like: TextFile | None) -> None:
        """Write a file with ``write_text``, and keep its old content.

        ``like`` is the existing file as it was read, or ``None`` for a new file.
        """
        before: bytes | None = None
        kept: str | None = None
        if like is not None:
            before = path.read_bytes()
            name = f"file-{content_hash(before)[:32]}.bin"
            kept = name if self._context.session.keep(name, before, text=like.text) else None
        after = write_text(path, text, shown, like=like)
        self._changes.append(
            FileChange(
                path=shown,
                before_hash=None if before is None else content_hash(before),
                after_hash=content_hash(after),
                kept=kept,
                turn=self._context.turn,
            )
        )


def content_hash(data: bytes) -> str:
    """Return the SHA-256 of ``data`` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
