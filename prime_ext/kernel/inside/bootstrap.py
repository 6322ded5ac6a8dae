"""Handlers for our own message types inside the user's kernel, which leave no trace there.

This file is sent as source, once for each kernel process, since the kernel's environment need not
contain the package. It imports only the standard library and runs on Python 3.8 and later. It is
executed as the body of a module that is not in ``sys.modules`` and binds no name in the namespace;
the only reference to it is in the kernel's table of message handlers.

Two message types are added to ipykernel's:

``prime_request`` on the control channel inspects the namespace. A separate thread answers it, so it
neither waits for a running cell nor delays an interrupt. On the shell channel, between cells, it
saves and restores the namespace. Nothing is published on IOPub for it: no front end shows the
kernel as busy, and idle culling does not count it as activity.

``prime_execute_request`` on the shell channel is an ``execute_request`` that is not aborted when
another client's cell fails and can be withdrawn while it is queued. With ``store_history`` false it
leaves ``In``, ``Out``, ``_`` and the last result unchanged.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import threading
import uuid
from typing import Any

REQUEST = "prime_request"
EXECUTE = "prime_execute_request"

_MISSING = object()


class Refusal(Exception):
    """An operation that cannot be performed, with a message for the user."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class RequestHandler:
    """Handles our message types in one kernel process."""

    def __init__(self, kernel: Any, operations: Any) -> None:
        self.kernel = kernel
        self.operations = operations
        self.token = uuid.uuid4().hex
        self.withdrawn: set[str] = set()
        self.begun: set[str] = set()
        self.patched: list[str] = []
        self.last_cell: tuple[Any, Any] | None = None

    def install(self) -> None:
        kernel = self.kernel
        kernel.shell_handlers[REQUEST] = self.on_shell
        kernel.control_handlers[REQUEST] = self.on_control
        kernel.shell_handlers[EXECUTE] = self.on_execute
        self._keep_quiet()
        self._keep_parent()

    def remove(self) -> None:
        """Undo ``install``, except for the handlers: the next installation replaces them."""
        for name in self.patched:
            self.kernel.__dict__.pop(name, None)

    def _patch(self, name: str, function: Any) -> None:
        self.kernel.__dict__[name] = function
        self.patched.append(name)

    # -- leaving no trace -------------------------------------------------------------------

    def _keep_quiet(self) -> None:
        kernel = self.kernel
        publish = getattr(kernel, "_publish_status", None)
        if publish is None:
            return

        def publish_status(status: Any, channel: Any, parent: Any = None) -> None:
            if _msg_type(parent or kernel.get_parent(channel)) != REQUEST:
                if parent is None:
                    publish(status, channel)
                else:
                    publish(status, channel, parent)

        self._patch("_publish_status", publish_status)

    def _keep_parent(self) -> None:
        # Output of the user's background threads belongs to the cell that ran last, which the shell
        # knows from ``set_parent``. For our requests only the kernel's base class sets the parent.
        kernel = self.kernel
        original = kernel.set_parent
        base: Any = next(c for c in reversed(type(kernel).__mro__) if "set_parent" in c.__dict__)

        def set_parent(ident: Any, parent: Any, channel: str = "shell") -> None:
            if _msg_type(parent) == REQUEST:
                base.set_parent(kernel, ident, parent, channel)
                return
            original(ident, parent, channel)
            if channel == "shell" and not _is_aside(parent):
                self.last_cell = (ident, parent)

        self._patch("set_parent", set_parent)

    def _give_parent_back(self) -> None:
        # Later: the idle status of the running request is still to be sent with its own parent.
        if self.last_cell is not None:
            ident, parent = self.last_cell
            asyncio.get_event_loop().call_soon(self.kernel.set_parent, ident, parent, "shell")

    # -- requests ---------------------------------------------------------------------------

    def on_control(self, stream: Any, ident: Any, parent: Any) -> None:
        """Answer from a thread, so that the control channel is free again at once."""
        loop = _current_loop()

        def work() -> None:
            content, buffers = self._perform(parent)
            loop.add_callback(self._reply, stream, ident, parent, content, buffers)

        if parent["content"].get("op") in ("ping", "withdraw"):
            self._reply(stream, ident, parent, *self._perform(parent))
        else:
            threading.Thread(target=work, name="prime_request", daemon=True).start()

    def on_shell(self, stream: Any, ident: Any, parent: Any) -> None:
        """Answer between two cells, on the thread that runs them."""
        msg_id = parent["header"]["msg_id"]
        self.begun.add(msg_id)
        try:
            content, buffers = self._perform(parent)
        finally:
            self.begun.discard(msg_id)
        self._reply(stream, ident, parent, content, buffers)

    def _perform(self, parent: Any) -> tuple[dict[str, Any], list[Any]]:
        content = parent["content"]
        try:
            if parent["header"]["msg_id"] in self.withdrawn:
                self.withdrawn.discard(parent["header"]["msg_id"])
                raise Refusal("withdrawn", "It was withdrawn before it began.")
            if content.get("op") == "ping":
                result: dict[str, Any] = {
                    "token": self.token,
                    "pid": os.getpid(),
                    "python": sys.version,
                }
            elif content.get("op") == "withdraw":
                result = self._withdraw(content["params"]["msg_id"])
            elif content.get("op") not in self.operations:
                raise Refusal("unknown_operation", f"No such operation: {content.get('op')!r}")
            else:
                operation = self.operations[content["op"]]
                result = operation(self.kernel, content.get("params") or {}, parent["buffers"])
            buffers: list[Any] = result.pop("buffers", [])
            return {"status": "ok", "result": result}, buffers
        except BaseException as error:  # An interrupt or SystemExit as well.
            return {
                "status": "error",
                "code": _code_of(error),
                "ename": type(error).__name__,
                "evalue": _said_by(error),
            }, []

    def _reply(self, stream: Any, ident: Any, parent: Any, content: Any, buffers: Any) -> None:
        self.kernel.session.send(
            stream, "prime_reply", _sendable(content), parent, ident=ident, buffers=buffers or None
        )

    # -- execution --------------------------------------------------------------------------

    def _withdraw(self, msg_id: str) -> dict[str, Any]:
        if msg_id in self.begun:
            return {"withdrawn": False}
        self.withdrawn.add(msg_id)
        return {"withdrawn": True}

    async def on_execute(self, stream: Any, ident: Any, parent: Any) -> None:
        msg_id = parent["header"]["msg_id"]
        self.begun.add(msg_id)
        try:
            if msg_id in self.withdrawn:
                self.withdrawn.discard(msg_id)
                content = {"status": "aborted"}
                self.kernel.session.send(stream, "execute_reply", content, parent, ident=ident)
                return
            history = None
            if _is_aside(parent):
                history = HistoryState(self.kernel.shell)
            try:
                answer = self.kernel.shell_handlers["execute_request"](stream, ident, parent)
                if inspect.isawaitable(answer):
                    await answer
            finally:
                if history is not None:
                    history.restore()
                    self._give_parent_back()
        finally:
            self.begun.discard(msg_id)


class HistoryState:
    """The state that an execution outside the history must not change, for restoring it."""

    LAST = ("last_type", "last_value", "last_traceback", "last_exc")

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.hook = shell.displayhook
        self.result = shell.last_execution_result
        self.succeeded = getattr(shell, "last_execution_succeeded", True)
        self.unders = {name: getattr(self.hook, name, "") for name in ("_", "__", "___")}
        # Depending on its version, IPython stores a result outside the history under the number of
        # the previous cell or of the next one.
        counts = (shell.execution_count - 1, shell.execution_count)
        names = (*self.unders, *(f"_{count}" for count in counts))
        self.names = {name: shell.user_ns.get(name, _MISSING) for name in names}
        self.errors = {name: getattr(sys, name, _MISSING) for name in self.LAST}
        logs = [shell.user_ns.get("_oh")]
        for attribute in ("outputs", "output_hist_reprs", "exceptions"):
            logs.append(getattr(shell.history_manager, attribute, None))
        self.entries: list[tuple[Any, int, Any]] = []
        for log in logs:
            for count in counts if isinstance(log, dict) else ():
                entry = log.get(count, _MISSING)
                self.entries.append((log, count, list(entry) if type(entry) is list else entry))

    def restore(self) -> None:
        shell = self.shell
        shell.last_execution_result = self.result
        shell.last_execution_succeeded = self.succeeded
        moved = {name: getattr(self.hook, name, "") for name in self.unders}
        for name, value in self.unders.items():
            setattr(self.hook, name, value)
        for name, value in self.names.items():
            # Restore `_` and the like if the display hook changed them. If the code itself assigned
            # to one, it is the user's variable now.
            if name not in moved or shell.user_ns.get(name, _MISSING) is moved[name]:
                _put(shell.user_ns, name, value)
        for log, count, entry in self.entries:
            _put(log, count, entry)
        for name, value in self.errors.items():
            if value is not _MISSING:
                setattr(sys, name, value)
            elif hasattr(sys, name):
                delattr(sys, name)


def _code_of(error: BaseException) -> str:
    """Code of one of our own errors. The ``code`` of ``SystemExit`` means something else."""
    code = error.code if isinstance(error, Refusal) else getattr(type(error), "code", None)
    return code if isinstance(code, str) else "kernel_operation_failed"


def _said_by(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # The class may be the user's.
        return type(error).__name__


def _sendable(value: Any) -> Any:
    """Return ``value`` without lone surrogates in its strings, which cannot be encoded as UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_sendable(key): _sendable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sendable(item) for item in value]
    return value


def _put(table: Any, key: Any, value: Any) -> None:
    if value is _MISSING:
        table.pop(key, None)
    else:
        table[key] = value


def _msg_type(message: Any) -> str | None:
    header = (message or {}).get("header") or {}
    return header.get("msg_type")


def _is_aside(message: Any) -> bool:
    """Whether ``message`` is a request to run code outside the history."""
    return _msg_type(message) == EXECUTE and not message["content"].get("store_history", True)


def _current_loop() -> Any:
    from tornado.ioloop import IOLoop

    return IOLoop.current()


def install(kernel: Any, operations: Any, last_cell: Any) -> RequestHandler:
    """Make ``kernel`` answer our messages.

    An earlier installation, perhaps of another version, is replaced. ``last_cell`` is the header of
    the last execute request that the server knows of; output of background threads continues to
    belong to it.
    """
    previous = kernel.shell_handlers.get(REQUEST)
    if previous is not None:
        previous.__self__.remove()
    handler = RequestHandler(kernel, operations)
    if previous is not None:
        handler.token = previous.__self__.token  # The token identifies the process.
    handler.install()
    if last_cell is not None:
        handler.last_cell = ([], {"header": last_cell, "content": {}})
        handler._give_parent_back()
    return handler


def cover_tracks(shell: Any) -> None:
    """Undo what the request that carries this source would leave behind.

    After every request, even a silent one, IPython calls the ``post_execute`` callbacks, one of
    which shows and closes open figures, and stores the result as the last one. For this one request
    the callbacks are skipped and the last result is restored. On a subshell, the callbacks of the
    cell that runs at the same time are called as usual.
    """
    events, trigger = shell.events, shell.events.trigger
    thread = threading.get_ident()
    result = shell.last_execution_result
    succeeded = shell.last_execution_succeeded

    def put_back(event: str, *args: Any, **kwargs: Any) -> None:
        if threading.get_ident() != thread or event != "post_execute":
            trigger(event, *args, **kwargs)
            return
        del events.trigger
        shell.last_execution_result = result
        shell.last_execution_succeeded = succeeded

    events.trigger = put_back
