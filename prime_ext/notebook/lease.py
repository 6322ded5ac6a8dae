"""The lease: which connected browser client, if any, may write an open notebook.

A notebook that is open in a browser has unsaved edits, undo history and a cursor that the server
cannot see, so while a client has it open that client is the only writer: operations go to it over
its session stream and are acknowledged. The first client to claim a notebook holds its lease until
it releases the lease or is gone; then the lease passes to the next claimant.

A client whose connection drops may only be reloading the page or changing networks, so it has a
grace period to reconnect. Operations that it has not acknowledged are kept and sent again when it
is back; they are idempotent. Only after the grace period does ``LeaseLost`` tell the document to
write the file itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

GRACE_S = 15.0
"""Grace period of a disconnected holder, in seconds: a page reload on a slow machine."""
HANDOVER_S = 3.0
"""Grace period while another client waits for the lease, in seconds."""
ACK_S = 30.0
"""Timeout for the acknowledgement of an operation, such as saving a large notebook, in seconds."""
SETTLE_S = 2.0
"""Time for a new connection to claim the notebooks that it has open, in seconds."""

ACTIONS = ("claim", "release", "saved", "loaded")
"""What a page can say of a notebook that it has open."""

Send = Callable[[dict[str, Any]], None]


class LeaseLost(Exception):
    """No browser has the notebook open any more; write the file instead."""


class OperationRefused(Exception):
    """The browser could not apply an operation.

    ``code`` is one of ``cell_not_found`` (for ``cell_id``), ``cell_conflict`` (``source`` is the
    current source of the cell), ``run_unknown``, ``run_superseded``, ``save_conflict``,
    ``save_failed`` and ``operation_failed``. ``is_behind`` says that the page lacks changes of the
    file, which it could not merge with what is unsaved there.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        cell_id: str | None = None,
        source: str | None = None,
        is_behind: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.cell_id = cell_id
        self.source = source
        self.is_behind = is_behind


class LeaseClient:
    """One connection of a browser client, created by ``LeaseHub.connect``."""

    def __init__(self, hub: LeaseHub, send: Send) -> None:
        self._hub = hub
        self._send = send
        self.key: str | None = None
        """Id of the page, if it has sent one; stays the same after a reconnection."""
        self.versions: dict[str, str] = {}
        """Notebook path → version of the file that the page shows, as it said last."""
        self.connected_at = time.monotonic()
        self.spoken = False

    def send(self, frame: dict[str, Any]) -> None:
        """Send a frame to the client, if it is still there."""
        try:
            self._send(frame)
        except Exception as error:
            # The socket is closing, whatever the type of the error.
            self._hub.log.debug("A lease client is out of reach: %s", error)

    def receive(self, frame: dict[str, Any]) -> None:
        """Process a ``lease`` or ``ack`` frame; reply to a malformed one with an error frame."""
        kind = frame.get("type")
        if kind == "lease":
            notebook, action, key = frame.get("notebook"), frame.get("action"), frame.get("client")
            if not isinstance(notebook, str) or action not in ACTIONS:
                self._refuse(f"A lease frame needs `notebook` and `action`: {', '.join(ACTIONS)}.")
                return
            self.key = key if isinstance(key, str) else self.key
            self.spoken = True
            said = frame.get("version")
            version = said if isinstance(said, str) else None
            if action == "claim":
                self._hub.claim(self, notebook, version)
            elif action == "release":
                self._hub.release(self, notebook)
            else:
                self._hub.show(self, notebook, version, saved=action == "saved")
        elif kind == "ack":
            if not isinstance(frame.get("op_id"), str) or not isinstance(frame.get("ok"), bool):
                self._refuse("An ack frame needs `op_id` and `ok`.")
                return
            self._hub.acknowledge(self, frame)
        else:
            self._refuse(f"Unknown frame type {kind!r}.")

    def disconnect(self) -> None:
        """Handle the closed connection; the grace period of its leases begins."""
        self._hub.disconnect(self)

    def _refuse(self, message: str) -> None:
        self.send({"type": "error", "code": "bad_frame", "message": message})


@dataclass
class _Pending:
    """An operation that was sent or waits for a holder, and is not acknowledged yet."""

    operation: dict[str, Any]
    result: asyncio.Future[dict[str, Any]]
    timer: asyncio.TimerHandle | None = None


@dataclass
class _Lease:
    path: str
    claims: list[LeaseClient] = field(default_factory=list)
    """Clients in the order of their claims; the first is the holder, except in a grace period."""
    pending: dict[str, _Pending] = field(default_factory=dict)
    absent: asyncio.TimerHandle | None = None
    """Timer that ends the grace period; ``None`` outside of one."""
    absent_key: str | None = None
    is_reserved: bool = False
    """Whether the lease is reserved for a page that has not claimed it yet; others must wait."""
    key: str | None = None
    """Id of the last holder's page."""
    epoch: int = 0
    waiters: set[asyncio.Future[None]] = field(default_factory=set)

    @property
    def holder(self) -> LeaseClient | None:
        return self.claims[0] if self.claims and self.absent is None else None


class LeaseHub:
    """All leases of the server, by notebook path. Must be used on one event loop.

    Parameters
    ----------
    grace_s, handover_s, ack_s, settle_s:
        Times in seconds; see the module's constants.
    """

    def __init__(
        self,
        *,
        grace_s: float = GRACE_S,
        handover_s: float = HANDOVER_S,
        ack_s: float = ACK_S,
        settle_s: float = SETTLE_S,
        log: logging.Logger | logging.LoggerAdapter[Any] | None = None,
    ) -> None:
        self.log = log or logging.getLogger(__name__)
        self._grace_s = grace_s
        self._handover_s = handover_s
        self._ack_s = ack_s
        self._settle_s = settle_s
        self._clients: set[LeaseClient] = set()
        self._leases: dict[str, _Lease] = {}
        self._announced: dict[str, float] = {}
        self._spoke: set[asyncio.Future[None]] = set()
        self.on_granted: set[Callable[[str], None]] = set()
        """Called with the path whenever a client becomes the holder."""
        self.standing: Callable[[str, str | None], dict[str, Any]] = lambda path, version: {}
        """Called with the path and the file version that a page shows, whenever the page is told
        whether it holds the lease. Returns fields to send along, on changes since that version."""
        self.on_saved: Callable[[str, str | None, str | None], None] = lambda path, old, new: None
        """Called with the path and the file versions before and after, when a page has saved."""

    # -- clients ---------------------------------------------------------------------------

    def connect(self, send: Send) -> LeaseClient:
        """Register a connection. ``send`` must not block, and may raise if the socket is closed."""
        client = LeaseClient(self, send)
        self._clients.add(client)
        return client

    def claim(self, client: LeaseClient, path: str, version: str | None = None) -> None:
        """Let a client hold the lease of a notebook, at once or after those that claimed it before.

        ``version`` is the version of the file that its page shows.
        """
        path = normal_path(path)
        self._note_version(client, path, version)
        lease = self._leases.setdefault(path, _Lease(path))
        if client in lease.claims:
            self._tell(client, path, lease.holder is client)
        elif lease.absent is not None and client.key is not None and client.key == lease.absent_key:
            lease.claims.insert(0, client)
            self._grant(lease)
        else:
            lease.claims.append(client)
            if len(lease.claims) == 1 and not lease.is_reserved:
                self._grant(lease)
            else:
                self._tell(client, path, False)
        self._wake(self._spoke)

    def release(self, client: LeaseClient, path: str) -> None:
        """Withdraw the claim of a client, whose page has closed the notebook."""
        lease = self._leases.get(normal_path(path))
        if lease is not None and client in lease.claims:
            self._leave(lease, client, wait=False)
            self._tell(client, lease.path, False)
        self._wake(self._spoke)

    def show(self, client: LeaseClient, path: str, version: str | None, *, saved: bool) -> None:
        """Note the version of the file that a page shows from now on.

        If the page has ``saved`` it, the other pages that have the notebook open are told.
        """
        path = normal_path(path)
        before = self._note_version(client, path, version)
        if saved and (version is None or version != before):
            self.on_saved(path, before, version)
            self.remind(path, but=client)

    @staticmethod
    def _note_version(client: LeaseClient, path: str, version: str | None) -> str | None:
        """Set the version that the page shows, and return the one before."""
        before = client.versions.pop(path, None)
        if version is not None:
            client.versions[path] = version
        return before

    def disconnect(self, client: LeaseClient) -> None:
        """Forget a connection; the page may come back within the grace period."""
        self._clients.discard(client)
        for lease in list(self._leases.values()):
            if client in lease.claims:
                self._leave(lease, client, wait=True)
        self._wake(self._spoke)

    def acknowledge(self, client: LeaseClient, frame: dict[str, Any]) -> None:
        """Complete the operation. Ignore an ack that is late or comes from a former holder."""
        for lease in self._leases.values():
            pending = lease.pending.get(frame["op_id"])
            if pending is None:
                continue
            if lease.holder is not client:
                return
            error = frame.get("error") or {}
            if not frame["ok"] and error.get("code") == "notebook_not_open":
                # The page has just closed the notebook: send the operation to the next claimant.
                self._leave(lease, client, wait=False)
                return
            del lease.pending[frame["op_id"]]
            self._stop_timer(pending)
            if pending.result.done():
                return
            if frame["ok"]:
                result = frame.get("result")
                pending.result.set_result(result if isinstance(result, dict) else {})
            else:
                pending.result.set_exception(
                    OperationRefused(
                        str(error.get("code") or "operation_failed"),
                        str(error.get("message") or "The browser could not apply the change."),
                        cell_id=error.get("cell_id"),
                        source=error.get("source"),
                        is_behind=error.get("behind") is True,
                    )
                )
            return

    # -- documents -------------------------------------------------------------------------

    def held(self, path: str) -> bool:
        """Whether a connected client holds the lease at this moment."""
        lease = self._leases.get(normal_path(path))
        return lease is not None and lease.holder is not None

    def epoch(self, path: str) -> int:
        """Return a number that changes when another page, unaware of any run, takes over."""
        lease = self._leases.get(normal_path(path))
        return lease.epoch if lease is not None else 0

    def remind(self, path: str, *, but: LeaseClient | None = None) -> None:
        """Have all pages that have the notebook open check whether the file has changed.

        ``but``: the page that has changed it.
        """
        lease = self._leases.get(normal_path(path))
        if lease is not None:
            for client in lease.claims:
                if client is not but:
                    self._tell(client, lease.path, client is lease.holder)

    def remind_waiting(self, path: str) -> None:
        """Tell the pages that wait for the lease which cells run; the holder is sent each run."""
        lease = self._leases.get(normal_path(path))
        if lease is not None:
            self.remind(path, but=lease.holder)

    def announce(self, path: str, *, by: str | None = None) -> None:
        """Give pages time to claim the notebook of a new session that they have been told of.

        Parameters
        ----------
        by:
            Id of the page that started the session. The user works there, so its claim precedes
            those of other pages, which may learn of the session before this page has its response.
        """
        path = normal_path(path)
        self._announced[path] = time.monotonic()
        if by is not None and path not in self._leases:
            self._leases[path] = lease = _Lease(path, absent_key=by, is_reserved=True)
            self._wait_for_absent(lease, self._grace_s)

    async def attached(self, path: str) -> bool:
        """Wait until it is certain whether a client holds the notebook, and return it.

        Wait for the end of a grace period. Give new connections, and pages that have just been told
        of the session, time to claim the notebook. Connections that are made during the wait do not
        prolong it: a client that reconnects again and again would hold up every agent.
        """
        path = normal_path(path)
        settled = time.monotonic() + self._settle_s
        while True:
            lease = self._leases.get(path)
            if lease is not None and lease.holder is not None:
                return True
            if lease is not None and lease.absent is not None:
                await self._wait(lease.waiters, None)
                continue
            fresh = [c.connected_at for c in self._clients if not c.spoken]
            if path in self._announced:
                fresh.append(self._announced[path])
            until = min(settled, max(fresh, default=0.0) + self._settle_s)
            left = until - time.monotonic()
            if not fresh or left <= 0:
                self._announced.pop(path, None)
                return False
            await self._wait(self._spoke, left)

    async def request(self, path: str, operation: dict[str, Any], op_id: str) -> dict[str, Any]:
        """Send ``operation`` to the holder and return the result in its acknowledgement.

        Raises
        ------
        LeaseLost
            If no client has the notebook open. The operation may have been applied or not.
        OperationRefused
            If the client could not apply the operation.
        """
        lease = self._leases.get(normal_path(path))
        if lease is None or (lease.holder is None and lease.absent is None):
            raise LeaseLost(path)
        pending = _Pending(operation, asyncio.get_running_loop().create_future())
        lease.pending[op_id] = pending
        if lease.holder is not None:
            self._dispatch(lease, op_id, pending)
        try:
            return await pending.result
        finally:
            lease.pending.pop(op_id, None)
            self._stop_timer(pending)

    def rename(self, old: str, new: str) -> None:
        """Move leases after the rename of a notebook or of a folder above it."""
        old, new = normal_path(old), normal_path(new)
        for client in self._clients:
            for path in list(client.versions):
                moved = moved_path(path, old, new)
                if moved is not None:
                    client.versions[moved] = client.versions.pop(path)
        for path in list(self._leases):
            moved = moved_path(path, old, new)
            if moved is None:
                continue
            lease = self._leases.pop(path)
            lease.path = moved
            there = self._leases.pop(moved, None)
            self._leases[moved] = lease
            # The browser may have claimed the new path already.
            for client in there.claims if there is not None else ():
                if client not in lease.claims:
                    self.claim(client, moved, client.versions.get(moved))

    # -- inside ----------------------------------------------------------------------------

    def _grant(self, lease: _Lease) -> None:
        holder = lease.claims[0]
        if lease.absent is not None:
            lease.absent.cancel()
            lease.absent = None
        lease.is_reserved = False
        if holder.key is None or holder.key != lease.key:
            lease.epoch += 1
        lease.key = holder.key
        self._tell(holder, lease.path, True)
        for op_id, pending in list(lease.pending.items()):
            self._dispatch(lease, op_id, pending)
        self._wake(lease.waiters)
        for callback in list(self.on_granted):
            callback(lease.path)

    def _leave(self, lease: _Lease, client: LeaseClient, *, wait: bool) -> None:
        """Remove the claim of ``client``; with ``wait``, a holder gets a grace period."""
        held = lease.holder is client
        lease.claims.remove(client)
        if not held:
            return
        for pending in lease.pending.values():
            self._stop_timer(pending)
        if wait:
            lease.absent_key = client.key
            self._wait_for_absent(lease, self._handover_s if lease.claims else self._grace_s)
        elif lease.claims:
            self._grant(lease)
        else:
            self._vacate(lease)

    def _wait_for_absent(self, lease: _Lease, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        lease.absent = loop.call_later(seconds, self._give_up, lease)

    def _give_up(self, lease: _Lease) -> None:
        """End the grace period and grant the lease to the next claimant, if any."""
        lease.absent, lease.is_reserved = None, False
        if lease.claims:
            self._grant(lease)
        else:
            self._vacate(lease)

    def _vacate(self, lease: _Lease) -> None:
        for pending in lease.pending.values():
            self._stop_timer(pending)
            if not pending.result.done():
                pending.result.set_exception(LeaseLost(lease.path))
        lease.pending.clear()
        self._wake(lease.waiters)
        if self._leases.get(lease.path) is lease:
            del self._leases[lease.path]

    def _dispatch(self, lease: _Lease, op_id: str, pending: _Pending) -> None:
        holder = lease.claims[0]
        self._stop_timer(pending)
        pending.timer = asyncio.get_running_loop().call_later(
            self._ack_s, self._revoke, lease, holder
        )
        holder.send({"type": "op", "op_id": op_id, "notebook": lease.path, "op": pending.operation})

    def _revoke(self, lease: _Lease, client: LeaseClient) -> None:
        """Revoke the lease of a connected but silent holder, such as a frozen tab."""
        if lease.holder is client:
            self.log.warning("%s: the browser does not answer, its lease is void.", lease.path)
            self._leave(lease, client, wait=False)
            self._tell(client, lease.path, False)

    def _tell(self, client: LeaseClient, path: str, held: bool) -> None:
        standing = self.standing(path, client.versions.get(path))
        client.send({"type": "lease", "notebook": path, "held": held, **standing})

    @staticmethod
    def _stop_timer(pending: _Pending) -> None:
        if pending.timer is not None:
            pending.timer.cancel()
            pending.timer = None

    @staticmethod
    def _wake(waiters: set[asyncio.Future[None]]) -> None:
        for waiter in list(waiters):
            if not waiter.done():
                waiter.set_result(None)

    @staticmethod
    async def _wait(waiters: set[asyncio.Future[None]], timeout_s: float | None) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters.add(waiter)
        try:
            await asyncio.wait([waiter], timeout=timeout_s)
        finally:
            waiters.discard(waiter)


def normal_path(path: str) -> str:
    """Normalise a notebook path as the contents service does: no slash at either end."""
    return path.strip("/")


def moved_path(path: str, old: str, new: str) -> str | None:
    """Return ``path`` after the rename of ``old`` to ``new``; ``None`` if it is not affected."""
    if path == old:
        return new
    if path.startswith(f"{old}/"):
        return new + path[len(old) :]
    return None
