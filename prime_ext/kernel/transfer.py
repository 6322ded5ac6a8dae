"""Transfer of snapshots between a session's folder and a kernel that cannot access it.

The folder always holds the heads, which tell what can be restored. The segments, which hold nearly
all of the bytes, are in the folder too, or at the URL of the store. The kernel uses a directory of
its own (``prime_ext.state.scratch``), and this module synchronizes the two. Only files that the
other side lacks are sent, in pieces, a few at a time, as binary buffers of private messages on the
control channel, while the user's cells run.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prime_ext.errors import PrimeError
from prime_ext.kernel import foreign

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from prime_ext.state import Manifest

    Ask = Callable[..., Awaitable[dict[str, Any]]]

PIECE_BYTES = 1 << 20
"""Size of a piece, well below the message size limits of proxies and servers (often 10 MiB)."""

WINDOW = 8
"""Pieces in flight at once. It bounds the memory used on both sides, and the bytes sent per round
trip on a slow line."""

PIECE_SECONDS = 120.0
PULL_SECONDS = 3600.0
_ATTEMPTS = 3


@dataclass(frozen=True)
class Transfer:
    """Transfers between one session's folder and its directory on the kernel's machine.

    Parameters
    ----------
    ask:
        ``ask(op, params, timeout=, buffers=)`` sends a request to the kernel. It adds the
        parameters that identify the directory.
    folder, key:
        The session's folder and signing key.
    has_store:
        Whether segments are kept at the URL of the store.
    problem:
        Why the configured store cannot be used; ``None`` if it can or there is none.
    """

    ask: Ask
    folder: Path
    key: bytes
    has_store: bool
    problem: str | None = None

    async def follow(self) -> None:
        """Make the heads in the kernel's directory the same as those in the folder."""
        from prime_ext.state import replica

        theirs: dict[str, str] = (await self._ask("files_look", {}))["heads"]
        ours = await asyncio.to_thread(replica.heads, self.folder)
        changed = [name for name, digest in ours.items() if theirs.get(name) != digest]
        gone = [name for name in theirs if name not in ours]
        for name in changed:
            await self._send(name)
        has_record = await asyncio.to_thread(replica.path_of(self.folder, "verified").exists)
        if changed and has_record:
            await self._send("verified")
            changed.append("verified")
        if changed or gone:
            await self._ask("files_settle", {"names": changed, "gone": gone})

    async def send_segments(self, generation: str) -> None:
        """Send the segments of a generation that the kernel's directory lacks.

        Raises
        ------
        PrimeError
            ``store_unavailable`` if segments are at the URL and the store cannot be used. Segments
            that no longer exist anywhere are no error here: the restore reports the affected names.
        """

        params = {"generation": generation}
        lacking = (await self._ask("files_lacking", params, buffers=[self.key]))["names"]
        here = [n for n in lacking if await asyncio.to_thread(_is_whole, self.folder, n)]
        for name in here:
            await self._send(name)
        if here:
            await self._ask("files_settle", {"names": here, "gone": []})
        there = [name for name in lacking if name not in here]
        if there and self.problem is not None:
            raise PrimeError(
                self.problem,
                code="store_unavailable",
                hint="Try again once the kernel can use SnapshotConfig.store.",
                status=503,
            )
        if there and self.has_store:
            await self._ask("files_pull", {"names": there}, seconds=PULL_SECONDS)

    async def fetch(self) -> str | None:
        """Transfer the kernel's current snapshot into the folder.

        Returns ``None``, or why the store could not be used; the segments are in the folder then.

        Raises
        ------
        PrimeError
            ``snapshot_too_large`` for the disk, ``snapshot_corrupt``, or an error of the
            connection. The folder then still holds its former snapshots.
        """
        from prime_ext.state import replica

        head = await self._fetch_small("current")
        manifest = await asyncio.to_thread(self._parse, head)
        problem = await self._push(manifest) if self.has_store else self.problem
        lacking: list[str] = []
        if not self.has_store or problem is not None:
            lacking = await asyncio.to_thread(replica.missing, self.folder, manifest)
        await asyncio.to_thread(self._prepare, manifest, lacking)
        for name in lacking:
            await self._fetch(name)
        await asyncio.to_thread(_refuse, replica.commit, self.folder, self.key, head, lacking)
        return problem

    async def fetch_verified(self) -> None:
        """Fetch the record of what the kernel's process verified when it read the snapshot back."""
        record = await self._fetch_small("verified")
        await asyncio.to_thread(self._write_record, record)

    async def _push(self, manifest: Manifest) -> str | None:
        from prime_ext.state import replica

        keep = await asyncio.to_thread(replica.needed, self.folder, self.key)
        if keep is not None:  # None: a head is unreadable, so remove nothing
            keep |= await asyncio.to_thread(foreign.segments, self.folder)
        try:
            await self._ask(
                "files_push",
                {"keep": None if keep is None else sorted(keep)},
                buffers=[self.key],
                seconds=PULL_SECONDS,
            )
        except PrimeError as error:
            if error.code != "store_unavailable":
                raise
            return error.message
        return None

    # -- pieces -----------------------------------------------------------------------------

    async def _send(self, name: str) -> None:
        from prime_ext.state import replica

        size = (await asyncio.to_thread(os.stat, replica.path_of(self.folder, name))).st_size

        async def send(offset: int) -> None:
            piece, _ = await asyncio.to_thread(
                _refuse, replica.get, self.folder, name, offset, PIECE_BYTES
            )
            await self._ask("files_write", {"name": name, "offset": offset}, buffers=[piece])

        # The first piece truncates the file, so it must arrive before all others.
        await send(0)
        for offsets in _windows(PIECE_BYTES, size):
            await asyncio.gather(*map(send, offsets))

    async def _fetch(self, name: str) -> None:
        from prime_ext.state import replica

        async def fetch(offset: int) -> int:
            piece, size = await self._piece(name, offset)
            await asyncio.to_thread(_refuse, replica.put, self.folder, name, offset, piece)
            return size

        size = await fetch(0)
        for offsets in _windows(PIECE_BYTES, size):
            await asyncio.gather(*map(fetch, offsets))

    async def _fetch_small(self, name: str) -> bytes:
        """Fetch a small file into memory: a head, or the record of what was verified."""
        first, size = await self._piece(name, 0)
        pieces = [first]
        for offsets in _windows(PIECE_BYTES, size):
            found = await asyncio.gather(*(self._piece(name, offset) for offset in offsets))
            pieces.extend(piece for piece, _ in found)
        return b"".join(pieces)

    async def _piece(self, name: str, offset: int) -> tuple[bytes, int]:
        params = {"name": name, "offset": offset, "length": PIECE_BYTES}
        answer = await self._ask("files_read", params)
        piece, size = bytes(answer["buffers"][0]), int(answer["size"])
        if len(piece) != min(PIECE_BYTES, max(0, size - offset)):
            raise PrimeError(
                f"The kernel's file {name} changed while it was read.", code="snapshot_corrupt"
            )
        return piece, size

    async def _ask(
        self,
        op: str,
        params: dict[str, Any],
        *,
        buffers: Sequence[bytes] = (),
        seconds: float = PIECE_SECONDS,
    ) -> dict[str, Any]:
        """Send a request, with retries after a broken connection: all operations are idempotent."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self.ask(op, params, timeout=seconds, buffers=buffers)
            except PrimeError as error:
                if error.code != "kernel_connection_lost":
                    raise
        return await self.ask(op, params, timeout=seconds, buffers=buffers)

    # -- the folder -------------------------------------------------------------------------

    def _parse(self, head: bytes) -> Manifest:
        from prime_ext.state import replica
        from prime_ext.state.format import parse_head

        parsed = _refuse(parse_head, head, self.key, self.folder)
        manifest: Manifest = parsed.manifest
        for name in manifest.segments():
            _refuse(replica.path_of, self.folder, name)
        return manifest

    def _prepare(self, manifest: Manifest, lacking: list[str]) -> None:
        from prime_ext.state import writer

        _refuse(writer.make_directories, self.folder)
        needed = sum(manifest.segments()[name] for name in lacking)
        free = shutil.disk_usage(self.folder).free
        if needed > free * 0.9:
            raise PrimeError(
                f"The snapshot takes {needed / 1e6:,.0f} MB, and the server's disk has "
                f"{free / 1e6:,.0f} MB left.",
                code="snapshot_too_large",
                hint="Delete variables that can be made again, or set SnapshotConfig.store.",
            )

    def _write_record(self, record: bytes) -> None:
        from prime_ext.state import replica

        _refuse(replica.put, self.folder, "verified", 0, record)
        _refuse(replica.settle, self.folder, ["verified"])


def _windows(start: int, size: int) -> list[range]:
    """Return the offsets of the pieces from ``start`` on, in groups of `WINDOW`."""
    step = PIECE_BYTES * WINDOW
    return [
        range(first, min(first + step, size), PIECE_BYTES) for first in range(start, size, step)
    ]


def _is_whole(folder: Path, name: str) -> bool:
    from prime_ext.state import replica

    try:
        return replica.path_of(folder, name).stat().st_size > 0
    except OSError:
        return False


def _refuse(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the snapshot library and convert its errors to `PrimeError`."""
    from prime_ext.state import SnapshotCorrupt, SnapshotError, SnapshotMissing, SnapshotRefused

    try:
        return function(*arguments)
    except SnapshotError as error:
        code = {
            SnapshotCorrupt: "snapshot_corrupt",
            SnapshotMissing: "snapshot_missing",
            SnapshotRefused: "snapshot_refused",
        }.get(type(error), "snapshot_write_error")
        raise PrimeError(str(error), code=code) from error
    except OSError as error:
        raise PrimeError(
            f"The session's folder cannot be written to: {error}.",
            code="snapshot_write_error",
            hint="The snapshot before is untouched.",
        ) from error
