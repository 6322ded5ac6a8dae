"""Request handlers of the REST API and the WebSocket.

They parse and authorise requests and delegate to ``AgentService``. ``openapi.yaml`` describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tornado.web import RequestHandler

API = "/prime/api/"

_SESSION = "sessions/([^/]+)"


def handlers(base_url: str = "") -> list[tuple[str, type[RequestHandler]]]:
    """Return ``(pattern, class)`` of every handler, for the extension application to register.

    Parameters
    ----------
    base_url:
        Prefix of ``/prime/api/``, needed only if the caller does not prepend it to the patterns.
    """
    from prime_ext.handlers import server, sessions, snapshots, stream

    routes: list[tuple[str, type[RequestHandler]]] = [
        ("status", server.StatusHandler),
        ("models", server.ModelsHandler),
        ("variables", server.VariablesHandler),
        ("credentials", server.CredentialsHandler),
        (r"openapi\.yaml", server.DescriptionHandler),
        ("sessions", sessions.SessionsHandler),
        (_SESSION, sessions.SessionHandler),
        (f"{_SESSION}/messages", sessions.MessagesHandler),
        (f"{_SESSION}/records", sessions.RecordsHandler),
        (f"{_SESSION}/search", sessions.SearchHandler),
        (f"{_SESSION}/interrupt", sessions.InterruptHandler),
        (f"{_SESSION}/compact", sessions.CompactHandler),
        (f"{_SESSION}/approvals/([^/]+)", sessions.ApprovalHandler),
        (f"{_SESSION}/turns/([^/]+)/revert", sessions.RevertHandler),
        (f"{_SESSION}/queue/send", sessions.SendQueuedHandler),
        (f"{_SESSION}/queue/([0-9]{{1,15}})", sessions.QueueHandler),
        (f"{_SESSION}/snapshots", snapshots.SnapshotsHandler),
        (
            f"{_SESSION}/snapshots/([A-Za-z0-9_-][A-Za-z0-9._-]*)/restore",
            snapshots.RestoreHandler,
        ),
        (f"{_SESSION}/stream", stream.StreamHandler),
        (".*", server.NotFoundHandler),
    ]
    return [(base_url.rstrip("/") + API + path, handler) for path, handler in routes]
