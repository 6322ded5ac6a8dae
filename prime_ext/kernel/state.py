"""Saving and restoring the namespace of one notebook's kernel, wherever that kernel runs.

A kernel that can access the session's folder uses it directly. Any other uses a directory of its
own, and its snapshots are transferred to the folder or to the URL of the store: see `Transfer`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from prime_ext.errors import PrimeError
from prime_ext.kernel import foreign
from prime_ext.kernel.connection import KernelConnection
from prime_ext.kernel.refusals import kernel_busy, kernel_dead
from prime_ext.kernel.transfer import Transfer
from prime_ext.within import acquire_within

READ_SECONDS = 15.0
STATE_SECONDS = 600.0
"""Timeout for a kernel that no longer answers. Snapshots have a time budget of their own."""

VERIFY_SECONDS = 330.0
"""Timeout for reading a snapshot back, which has a budget of its own as well."""


@dataclass(frozen=True)
class _Place:
    """Where a kernel process saves the snapshots that belong into one session's folder."""

    connection: KernelConnection
    params: dict[str, Any]
    """Request parameters that identify the directory."""
    transfer: Transfer | None
    """Transfers between the directory and the folder; ``None`` if they are the same."""


class KernelState:
    """The saved namespace of a kernel.

    Parameters
    ----------
    connect:
        Returns the connection to the notebook's kernel, which is started if none runs.
    store:
        fsspec URL for kernels that cannot access the server's files; empty for none.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[KernelConnection]],
        store: str,
        log: logging.Logger,
    ) -> None:
        self._connect = connect
        self._store = store.rstrip("/")
        self._log = log
        self._shared: dict[tuple[str, int, Path], bool] = {}
        self._moving = asyncio.Lock()
        """Held while a snapshot is made or transferred: one at a time."""

    async def save(
        self,
        folder: Path,
        key: bytes,
        *,
        options: dict[str, Any],
        still: Callable[[], bool],
        wait: float,
        on_lost: Callable[[], None],
    ) -> dict[str, Any]:
        """See `NotebookKernel.save_state`."""
        started = time.monotonic()
        connection = await self._idle_connection()
        place = await self._place(connection, folder, key)
        try:
            await acquire_within(wait, self._moving)
        except asyncio.TimeoutError:
            raise kernel_busy("Its previous snapshot is still being transferred.") from None
        saving = uuid.uuid4().hex
        try:
            report = await self._capture(place, folder, key, options, still, saving)
        except BaseException:
            self._moving.release()
            raise
        # The snapshot becomes durable in the background, whether or not the caller waits for it.
        finishing = connection.spawn(self._finish(place, key, saving))
        finishing.add_done_callback(lambda _: self._moving.release())
        await asyncio.wait({finishing}, timeout=max(0.0, wait - (time.monotonic() - started)))
        if not finishing.done():

            def tell(task: asyncio.Task[Any]) -> None:
                if task.cancelled() or task.exception() is not None:
                    on_lost()

            finishing.add_done_callback(tell)
            return report
        if finishing.cancelled():  # the connection was closed
            raise kernel_dead()
        durable: dict[str, Any] = finishing.result()
        return durable

    async def _capture(
        self,
        place: _Place,
        folder: Path,
        key: bytes,
        options: dict[str, Any],
        still: Callable[[], bool],
        saving: str,
    ) -> dict[str, Any]:
        params: dict[str, Any] = {"options": options, "saving": saving}
        if place.transfer is not None:
            await place.transfer.follow()
            # Segment names are unique across all processes that save for this session.
            params["after"] = await asyncio.to_thread(_last_segment, folder, key)
        answer = await self._ask(place, "state_save", params, key, still=still)
        report: dict[str, Any] = answer["report"]
        return report

    async def _finish(self, place: _Place, key: bytes, saving: str) -> dict[str, Any]:
        """Wait until the snapshot is durable, transfer it, and have it read back."""
        try:
            params = {
                "saving": saving,
                "seconds": STATE_SECONDS - READ_SECONDS,
                "verify": place.transfer is None,
            }
            answer = await self._ask(place, "state_saved", params, key, channel="control")
            if answer["report"] is None:
                raise kernel_busy("The snapshot is not written yet.")
            report: dict[str, Any] = answer["report"]
            if place.transfer is not None:
                problem = await place.transfer.fetch()
                if problem is not None:
                    self._log.warning("Snapshots go to the server: %s", problem)
                    report["notes"].append(f"kept on the server instead of the store: {problem}")
        except PrimeError as error:
            self._log.warning("A snapshot did not get to the disk: %s", error.message)
            raise
        if place.transfer is not None and not report["unchanged"]:
            place.connection.spawn(self._read_back(place, key, saving))
        return report

    async def _read_back(self, place: _Place, key: bytes, saving: str) -> None:
        assert place.transfer is not None
        params = {"saving": saving}
        await self._ask(
            place, "state_verify", params, key, channel="control", timeout=VERIFY_SECONDS
        )
        async with self._moving:
            await place.transfer.fetch_verified()

    async def load(self, folder: Path, key: bytes, *, options: dict[str, Any]) -> dict[str, Any]:
        """See `NotebookKernel.load_state`."""
        connection = await self._connect()
        place = await self._place(connection, folder, key)
        generation = options.get("generation", "current")
        # Wait for a snapshot in progress: until it is complete, the folder holds the previous one.
        async with self._moving:
            if place.transfer is not None:
                await place.transfer.follow()
                await place.transfer.send_segments(generation)
        answer = await self._ask(place, "state_load", {"options": options}, key)
        report: dict[str, Any] = answer["report"]
        if (
            place.transfer is not None
            and not report["complete"]
            and not generation.startswith("kept")
        ):
            # The library does the same where it loads from the folder itself.
            await asyncio.to_thread(_keep, folder, generation)
        return report

    async def is_current(self, folder: Path, key: bytes) -> bool:
        """Whether saving now would give the same snapshot as the one in ``folder``."""
        connection = await self._idle_connection()
        place = await self._place(connection, folder, key)
        if place.transfer is not None:
            async with self._moving:
                await place.transfer.follow()
        elif self._moving.locked():  # A snapshot in progress is about to replace it.
            return False
        return bool((await self._ask(place, "state_current", {}, key))["current"])

    async def _idle_connection(self) -> KernelConnection:
        connection = await self._connect()
        if connection.state == "busy":
            raise kernel_busy("It runs a cell; its variables are saved when that ends.")
        return connection

    # -- where ------------------------------------------------------------------------------

    async def _place(self, connection: KernelConnection, folder: Path, key: bytes) -> _Place:
        process = (connection.kernel_id, connection.incarnation, folder)
        if process not in self._shared:
            self._shared = {process: await _shares_files(connection, folder)}
        if self._shared[process]:
            return _Place(connection, {"folder": str(folder)}, None)
        store = f"{self._store}/{folder.name}" if self._store else ""
        place = _elsewhere(connection, folder, key, store)
        if not self._store.startswith("file:"):
            return place
        try:  # The kernel uses that directory itself; check that it can.
            await _ask(connection, "files_look", place.params, timeout=READ_SECONDS)
        except PrimeError as error:
            if error.code not in ("store_unavailable", "snapshot_write_error"):
                raise
            return _elsewhere(connection, folder, key, "", error.message)
        return place

    async def _ask(
        self,
        place: _Place,
        op: str,
        params: dict[str, Any],
        key: bytes,
        *,
        channel: str = "shell",
        timeout: float = STATE_SECONDS,
        still: Callable[[], bool] = lambda: True,
    ) -> dict[str, Any]:
        """Send a request; by default on shell, so that no cell sees a half-restored namespace."""
        more = {"channel": channel, "timeout": timeout, "buffers": [key], "still": still}
        return await _ask(place.connection, op, {**place.params, **params}, **more)


def _elsewhere(
    connection: KernelConnection, folder: Path, key: bytes, store: str, problem: str | None = None
) -> _Place:
    params = {"token": folder.name, "store": store}

    async def ask(
        op: str, more: dict[str, Any], *, timeout: float, buffers: Sequence[bytes]
    ) -> dict[str, Any]:
        return await _ask(connection, op, {**params, **more}, timeout=timeout, buffers=buffers)

    return _Place(connection, params, Transfer(ask, folder, key, bool(store), problem))


async def _shares_files(connection: KernelConnection, folder: Path) -> bool:
    """Whether the process can access the folder: let it find, read and delete a random file."""
    probe = folder / f".probe-{uuid.uuid4().hex}"
    nonce = secrets.token_bytes(32)

    def show() -> None:
        probe.touch(mode=0o600)
        probe.write_bytes(nonce)

    await asyncio.to_thread(show)
    try:
        params = {"path": str(probe)}
        answer = await connection.private.ask(
            "files_probe", params, timeout=READ_SECONDS, buffers=[nonce]
        )
        return bool(answer["shared"]) and not await asyncio.to_thread(probe.exists)
    finally:
        await asyncio.to_thread(probe.unlink, missing_ok=True)


async def _ask(
    connection: KernelConnection, op: str, params: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """Request an operation that needs the snapshot library; install the library if missing."""
    code, digest = await asyncio.to_thread(_library)
    params = {**params, "digest": digest}
    try:
        return await connection.private.ask(op, params, **more)
    except PrimeError as error:
        if error.code != "state_missing":
            raise
    # Installed through the control channel: the import would block the main shell for a second.
    await connection.private.ask(
        "state_install", {"code": code, "digest": digest}, timeout=STATE_SECONDS
    )
    return await connection.private.ask(op, params, **more)


@cache
def _library() -> tuple[str, str]:
    """Return the source of the snapshot library for a kernel, and its SHA-256 digest."""
    from prime_ext.state import carry

    code = carry.code()
    return code, hashlib.sha256(code.encode()).hexdigest()


def _last_segment(folder: Path, key: bytes) -> int:
    from prime_ext.state import replica

    return max(replica.last_segment(folder, key), foreign.last_segment(folder))


def _keep(folder: Path, generation: str) -> None:
    from prime_ext.state.format import head_path
    from prime_ext.state.writer import keep_head

    keep_head(head_path(folder, generation), head_path(folder, "kept"))
