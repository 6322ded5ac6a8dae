"""Base of the REST handlers: read the request, find the session, answer in JSON."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from jupyter_server.auth.decorator import authorized as jupyter_authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web

from prime_ext.errors import PrimeError
from prime_ext.session.store import session_not_found

if TYPE_CHECKING:
    from collections.abc import Callable

    from prime_ext.agent.service import AgentService
    from prime_ext.session.session import Session
    from prime_ext.session.store import SessionStore

AUTH_RESOURCE = "prime"
"""Resource name for the authorizer.

The actions are ``read`` (change nothing), ``write`` (change data on the server) and ``execute``
(anything that makes the agent or the kernel work).
"""

MAX_BODY_BYTES = 32 << 20
"""Size limit of a request, i.e. of a message with images. Its text has a limit of its own."""

MAX_INTEGER = 2**53 - 1
"""Largest integer that every JSON parser represents exactly."""

_RANDOM_NAME = re.compile(r"[0-9a-f]{32}")

T = TypeVar("T")
Method = TypeVar("Method", bound="Callable[..., Any]")


def authorized(action: str) -> Callable[[Method], Method]:
    """Typed form of Jupyter's decorator: ask the authorizer for ``action`` on ``prime``."""
    return cast("Callable[[Method], Method]", jupyter_authorized(action))


class PrimeHandler(APIHandler):
    """Base class of the REST handlers."""

    auth_resource = AUTH_RESOURCE
    _session: Session | None = None
    """Session of the request, once it was looked up."""

    @property
    def agent(self) -> AgentService:
        service: AgentService = self.settings["prime_agent"]
        return service

    @property
    def sessions(self) -> SessionStore:
        store: SessionStore = self.settings["prime_sessions"]
        return store

    @property
    def user(self) -> str | None:
        """Name of the user who sent the request; ``None`` if the server knows none.

        Jupyter gives users with a token, or without a password, a random name that differs between
        browsers. Such names are not used, because nobody would recognise them.
        """
        user = self.current_user
        if not user or (
            user.name.startswith("Anonymous ") and _RANDOM_NAME.fullmatch(user.username)
        ):
            return None
        return str(user.username)

    async def session(self, session_id: str) -> Session:
        """Return the session. If it is not open, it is read from the disk in a thread."""
        self._session = await self.sessions.opened(session_id)
        return self._session

    def body(self, type_: type[T], *, optional: bool = False) -> T:
        """Return the request's JSON body, validated as ``type_``.

        Parameters
        ----------
        optional:
            Whether an empty body counts as an empty object.

        Raises
        ------
        PrimeError
            400 with the name of the invalid field, or 413 if the body is too large.
        """
        raw = self.request.body
        if len(raw) > MAX_BODY_BYTES:
            raise PrimeError(
                f"The request has {len(raw) / 1e6:.0f} MB, the limit is {MAX_BODY_BYTES / 1e6:.0f}"
                " MB.",
                code="request_too_large",
                hint="Save large data to a file next to the notebook and name the file instead.",
                status=413,
            )
        if not raw.strip():
            if optional:
                raw = b"{}"
            else:
                raise PrimeError(
                    "The request has no body.",
                    code="invalid_request",
                    hint="Send a JSON object.",
                )
        try:
            return msgspec.json.decode(raw, type=type_)
        except msgspec.ValidationError as error:
            raise PrimeError(
                f"The request is not valid: {_in_json_terms(str(error))}.",
                code="invalid_request",
                hint="`GET prime/api/openapi.yaml` describes every request.",
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PrimeError(
                f"The body is not JSON: {error}.",
                code="malformed_json",
                hint="Send a JSON object in UTF-8.",
            ) from None

    def query_integer(self, name: str, default: int, least: int, most: int) -> int:
        """Return an integer from the query string, clipped to ``least`` … ``most``.

        Raises
        ------
        PrimeError
            400 if it is not an integer.
        """
        return clipped_integer(self.get_query_argument(name, ""), name, default, least, most)

    def query_flag(self, name: str) -> bool:
        """Return a ``true`` or ``false`` from the query string; missing means false.

        Raises
        ------
        PrimeError
            400 if it is anything else.
        """
        text = self.get_query_argument(name, "false")
        if text not in ("true", "false"):
            raise PrimeError(
                f"`{name}` is neither true nor false: {text[:40]!r}.",
                code="invalid_request",
                hint=f"Give `{name}=true`, or leave it out.",
            )
        return text == "true"

    def answer(self, value: Any, status: int = HTTPStatus.OK) -> None:
        """Finish the request with ``value`` as JSON."""
        self.set_status(status)
        self.set_header("Cache-Control", "no-store")
        self.finish(msgspec.json.encode(value))

    def answer_nothing(self) -> None:
        """Finish the request with status 204."""
        self.set_status(HTTPStatus.NO_CONTENT)
        self.finish()

    # --- errors ------------------------------------------------------------------------------

    def log_exception(self, typ: Any, value: BaseException | None, tb: Any) -> None:
        """Log unexpected errors in full, but not refusals (``PrimeError``)."""
        if not isinstance(self._meant(value), PrimeError):
            super().log_exception(typ, value, tb)

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        if "exc_info" in kwargs:
            typ, value, tb = kwargs["exc_info"]
            error = self._meant(value)
            if isinstance(error, PrimeError):
                status_code, typ = error.status, type(error)
            kwargs["exc_info"] = (typ, error, tb)
        super().send_error(status_code, **kwargs)

    def _meant(self, error: BaseException | None) -> BaseException | None:
        """Return ``session_not_found`` if ``error`` was caused by a deletion, else ``error``.

        The session may have been deleted while the request was reading it.
        """
        session = self._session
        lost = isinstance(error, OSError) or (
            isinstance(error, PrimeError) and error.code == "session_not_written"
        )
        if session is None or not lost or not (session.is_deleted or not session.folder.exists()):
            return error
        return session_not_found(session.id)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer ``{code, message, hint}``, without any detail of an unexpected error."""
        error = kwargs.get("exc_info", (None, None))[1]
        if not isinstance(error, PrimeError):
            error = self._explain(status_code, error)
        if status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            self.set_header("Allow", ", ".join(self.verbs()))
        self.finish(msgspec.json.encode(error.to_dict()))

    @classmethod
    def verbs(cls) -> list[str]:
        """Return the HTTP methods that this handler supports."""
        return [
            verb
            for verb in ("GET", "POST", "PUT", "PATCH", "DELETE")
            if getattr(cls, verb.lower()) is not getattr(web.RequestHandler, verb.lower())
        ]

    def _explain(self, status: int, error: BaseException | None) -> PrimeError:
        said = ""
        if isinstance(error, web.HTTPError) and error.log_message:
            said = error.log_message % error.args if error.args else error.log_message
        if status == HTTPStatus.FORBIDDEN:
            return self._explain_refusal(said)
        if status == HTTPStatus.NOT_FOUND:
            return PrimeError(
                f"There is nothing at {self.request.path}.",
                code="not_found",
                hint="`GET prime/api/openapi.yaml` lists every path.",
                status=status,
            )
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            return PrimeError(
                f"{self.request.method} is not possible at {self.request.path}.",
                code="method_not_allowed",
                hint=f"Use one of: {', '.join(self.verbs())}.",
                status=status,
            )
        if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            reason = said or HTTPStatus(status).phrase
            return PrimeError(reason, code="invalid_request", status=status)
        return PrimeError(
            "Something went wrong in the server.",
            code="internal_error",
            hint="The Jupyter server's log says what.",
            status=status,
        )

    def _explain_refusal(self, said: str) -> PrimeError:
        if not self.check_host():
            return PrimeError(
                f"The server does not answer to the name {self.request.host!r}.",
                code="host_not_allowed",
                hint="Set ServerApp.allow_remote_access, or use the address the server shows.",
                status=403,
            )
        if not self.current_user:
            return PrimeError(
                "You are not logged in.",
                code="not_authenticated",
                hint="Log in to Jupyter again and reload the page; scripts send the header "
                "`Authorization: token TOKEN`.",
                status=403,
            )
        if "xsrf" in said.lower():
            return PrimeError(
                "The request does not prove that it comes from this server's pages.",
                code="xsrf_missing",
                hint="Reload the page; scripts send the header `Authorization: token TOKEN`, or "
                "the `_xsrf` cookie again in the header `X-XSRFToken`.",
                status=403,
            )
        return PrimeError(
            "You are not allowed to do this.",
            code="not_authorized",
            hint="Ask the administrator of this server.",
            status=403,
        )


def clipped_integer(text: str, name: str, default: int, least: int, most: int) -> int:
    """Return ``text`` as an integer clipped to ``least`` … ``most``; ``default`` if it is empty.

    Raises
    ------
    PrimeError
        400 if it is anything else.
    """
    if not text:
        return default
    if not re.fullmatch(r"[+-]?[0-9]{1,400}", text):
        raise PrimeError(
            f"`{name}` is not an integer: {text[:40]!r}.",
            code="invalid_request",
            hint=f"Give a number from {least} to {most}, or leave `{name}` out.",
        )
    return max(least, min(int(text), most))


def _in_json_terms(message: str) -> str:
    """Translate Python's terms in a message of msgspec to those of JSON."""
    for python, json in (
        ("`str`", "a string"),
        ("`int`", "an integer"),
        ("`bool`", "true or false"),
        ("`null`", "null"),
        ("`array`", "an array"),
        ("`object`", "an object"),
        ("Object contains", "it contains"),
        ("Object missing", "it lacks the"),
        ("Expected", "expected"),
        ("Invalid enum value", "no such choice:"),
    ):
        message = message.replace(python, json)
    return message
