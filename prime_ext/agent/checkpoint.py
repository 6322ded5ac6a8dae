"""Checkpoints: what was saved at the end of a turn."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from prime_ext.kernel.newest import newest_recorded
from prime_ext.session.records import Checkpoint

if TYPE_CHECKING:
    from prime_ext.session.session import Session


async def checkpoint(session: Session, root: Path, turn: str) -> Checkpoint:
    """Return the record of where a turn has led: the last snapshot, and the notebook's version.

    Parameters
    ----------
    root:
        The server's root folder.
    """
    return Checkpoint(
        snapshot_id=newest_recorded(session.log).snapshot_id or None,
        notebook_hash=await asyncio.to_thread(_hash, root / session.notebook),
        turn=turn,
    )


def _hash(file: Path) -> str | None:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None
