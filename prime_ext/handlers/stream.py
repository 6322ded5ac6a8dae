"""WebSocket handler: sends a session's records and frames, receives leases and acknowledgements."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from prime_ext.errors import PrimeError
from prime_ext.handlers.base import AUTH_RESOURCE, MAX_INTEGER, clipped_integer

if TYPE_CHECKING:
    from prime_ext.agent.service import AgentService
    from prime_ext.notebook.lease import LeaseClient
    from prime_ext.session.session import Session
    from prime_ext.session.store import SessionStore

MAX_FRAME_BYTES = 64 << 20
"""Maximum size of a client frame, which may hold a notebook with its outputs."""

MAX_ERRORS = 20
"""Number of malformed frames after which the connection is closed."""

# Close codes from 4000 on are free for applications; the last three digits are those of HTTP.
CLOSE_GOING_AWAY = 1001
CLOSE_MALFORMED = 4400
CLOSE_UNKNOWN_SESSION = 4404
CLOSE_TOO_SLOW = 4408
CLOSE_LOCKED = 4409
CLOSE_DELETED = 4410
CLOSE_FAILED = 4500

_CLOSE_WHEN = {
    "slow": (CLOSE_TOO_SLOW, "too slow; reconnect with `after`"),
    "deleted": (CLOSE_DELETED, "the session was deleted"),
    "closed": (CLOSE_GOING_AWAY, "the server stops"),
}


class LeaseFrame(msgspec.Struct, tag_field="type", tag="lease"):
    """Frame in which the client claims or releases the lease of a notebook, or says that it has
    saved the notebook or loaded its file."""

    action: Literal["claim", "release", "saved", "loaded"]
    notebook: str
    client: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    """Id of the browser page, by which it is recognised when it reconnects."""
    version: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    """Hash that the contents manager returned for the file that the page shows."""


class AckFrame(msgspec.Struct, tag_field="type", tag="ack"):
    """Frame in which the client reports that it has carried out, or refused, an operation."""

    op_id: str
    ok: bool
    result: Any = None
    error: dict[str, Any] | None = None


_client_frame = msgspec.json.Decoder(LeaseFrame | AckFrame)


class StreamHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """``WebSocket sessions/{id}/stream?after=``."""

    auth_resource = AUTH_RESOURCE

    _lease: LeaseClient | None = None
    _writer: asyncio.Task[None] | None = None
    _errors = 0

    def set_default_headers(self) -> None:
        """Set none: the headers of the REST handlers do not apply to a WebSocket."""

    def get_compression_options(self) -> dict[str, Any]:
        # The text is repetitive, so level 3 compresses it well at little cost.
        return {"compression_level": 3, "mem_level": 5}

    @property
    def max_message_size(self) -> int:
        return MAX_FRAME_BYTES

    @ws_authenticated
    async def get(self, session_id: str) -> None:
        allowed = await ensure_async(
            self.authorizer.is_authorized(self, self.current_user, "execute", AUTH_RESOURCE)
        )
        if not allowed:
            raise web.HTTPError(403)
        await super().get(session_id)

    async def open(self, session_id: str) -> None:
        """Open the stream after the handshake.

        From here on errors are reported by a frame and a close code.
        """
        super().open()
        try:
            after = clipped_integer(
                self.get_query_argument("after", ""), "after", 0, 0, MAX_INTEGER
            )
            store: SessionStore = self.settings["prime_sessions"]
            session = await store.opened(session_id)
            service: AgentService = self.settings["prime_agent"]
            # Opening the agent closes a turn that a crash cut off, and publishes the state.
            await service.agent(session)
        except PrimeError as error:
            self._refuse(error)
            self._end(_close_code(error), error.message)
            return
        except Exception:
            self.log.exception("The stream of session %s could not be opened", session_id)
            self._end(CLOSE_FAILED, "the server failed; its log says how")
            return
        if self.ws_connection is None:  # the client has disconnected meanwhile
            return
        self._lease = self.settings["prime_leases"].connect(self._send_soon)
        self._writer = asyncio.create_task(self._follow(session, after))

    async def _follow(self, session: Session, after: int) -> None:
        """Send the session's frames, at the speed at which the client receives them."""
        try:
            async with session.subscribe(after) as subscription:
                async for frame in subscription:
                    await self.write_message(msgspec.json.encode(frame).decode())
            code, reason = _CLOSE_WHEN[subscription.ended or "closed"]
            self._end(code, reason)
        except WebSocketClosedError:
            pass
        except Exception:
            self.log.exception("The stream of session %s failed", session.id)
            self._end(CLOSE_FAILED, "the server failed; reconnect with `after`")

    def on_message(self, message: str | bytes) -> None:
        """Pass a client frame (``lease`` or ``ack``) on to the lease."""
        if self._lease is None:
            return
        try:
            frame = _client_frame.decode(message)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            self._errors += 1
            if self._errors > MAX_ERRORS:
                self._end(CLOSE_MALFORMED, "too many malformed frames")
                return
            self._refuse(
                PrimeError(
                    f"The frame was not understood: {error}.",
                    code="malformed_frame",
                    hint="Frames are JSON objects of type `lease` or `ack`.",
                )
            )
            return
        try:
            self._lease.receive(msgspec.to_builtins(frame))
        except PrimeError as error:
            self._refuse(error)

    def on_close(self) -> None:
        """Clean up after a disconnect. The session itself goes on."""
        if self._writer is not None:
            self._writer.cancel()
        if self._lease is not None:
            self._lease.disconnect()
            self._lease = None

    def _refuse(self, error: PrimeError) -> None:
        self._send_soon({"type": "error", **error.to_dict()})

    def _end(self, code: int, reason: str) -> None:
        # The WebSocket protocol allows 123 bytes for the reason.
        self.close(code, reason.encode()[:123].decode(errors="ignore"))

    def _send_soon(self, frame: dict[str, Any]) -> None:
        """Send a frame without waiting.

        Lease frames need no flow control: they are few, and each follows an answer of the client.
        """
        with contextlib.suppress(WebSocketClosedError):
            sending = self.write_message(msgspec.json.encode(frame).decode())
            # If the connection fails, the frame is lost with everything else that was being sent.
            sending.add_done_callback(lambda sent: sent.cancelled() or sent.exception())


def _close_code(error: PrimeError) -> int:
    return {
        400: CLOSE_MALFORMED,
        404: CLOSE_UNKNOWN_SESSION,
        409: CLOSE_LOCKED,
        503: CLOSE_GOING_AWAY,
    }.get(error.status, CLOSE_FAILED)
