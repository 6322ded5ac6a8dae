"""What runs inside the user's kernel: our own message types, answered without a trace.

This file is sent as source, once for each kernel process, to kernels that need not have the
package; it imports the standard library alone and runs on Python 3.8 and later. It is executed
as the body of a module that is not in ``sys.modules`` and leaves no name behind; the one
reference to it is in the kernel's table of message handlers.

Two message types are added to ipykernel's:

``prime_request`` on the control channel looks at the namespace. It is answered by a thread of
its own, so that it neither waits for a running cell nor holds up an interrupt. On the shell
channel, between cells, it saves and restores the namespace. Nothing is published on IOPub for
it: no front end shows the kernel as busy, and idle culling does not count it as activity.

``prime_execute_request`` on the shell channel is an ``execute_request`` that is not aborted by
the failure of somebody else's cell, can be withdrawn while it waits in the queue and, with
``store_history`` false, leaves ``In``, ``Out``, ``_`` and the last result as they were.
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
    """An operation that cannot be done, with a reason for the person who asked."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class RequestHandler:
    """Serves our message types in one kernel process."""

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
        """Undo ``install``, except for the handlers, which the next installation replaces."""
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
        # Output of a user's background thread goes to the cell that ran last. The shell learns
        # of a message through ``set_parent``; for ours only the kernel's base class does.
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
        # Not before the idle status of the running request is out, which needs its own parent.
        if self.last_cell is not None:
            ident, parent = self.last_cell
            asyncio.get_event_loop().call_soon(self.kernel.set_parent, ident, parent, "shell")

    # -- requests ---------------------------------------------------------------------------

    def on_control(self, stream: Any, ident: Any, parent: Any) -> None:
        """Answer from a thread; the control channel itself is free again at once."""
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
    """What an execution outside the history must not change, and how it was."""

    LAST = ("last_type", "last_value", "last_traceback", "last_exc")

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.hook = shell.displayhook
        self.result = shell.last_execution_result
        self.succeeded = getattr(shell, "last_execution_succeeded", True)
        self.unders = {name: getattr(self.hook, name, "") for name in ("_", "__", "___")}
        # A result outside the history is filed under the number of the cell before or the one
        # to come, depending on the version of IPython.
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
            # `_` and its like are put back if the display hook moved them; if the code itself
            # assigned to one, that is the user's variable now.
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
    """Of our own refusals. ``SystemExit`` has a ``code`` as well, which is another thing."""
    code = error.code if isinstance(error, Refusal) else getattr(type(error), "code", None)
    return code if isinstance(code, str) else "kernel_operation_failed"


def _said_by(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # The class may be the user's.
        return type(error).__name__


def _sendable(value: Any) -> Any:
    """``value`` without half surrogates in its texts, which no message can carry."""
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
    """Whether it runs code outside the history."""
    return _msg_type(message) == EXECUTE and not message["content"].get("store_history", True)


def _current_loop() -> Any:
    from tornado.ioloop import IOLoop

    return IOLoop.current()


def install(kernel: Any, operations: Any, last_cell: Any) -> RequestHandler:
    """Make ``kernel`` answer our messages.

    An earlier installation, perhaps of another version, is replaced. ``last_cell`` is the header
    of the request that ran last, as far as the server heard of it: it stays the one that gets
    the output of background threads.
    """
    previous = kernel.shell_handlers.get(REQUEST)
    if previous is not None:
        previous.__self__.remove()
    handler = RequestHandler(kernel, operations)
    if previous is not None:
        handler.token = previous.__self__.token  # It is the process that is known by it.
    handler.install()
    if last_cell is not None:
        handler.last_cell = ([], {"header": last_cell, "content": {}})
        handler._give_parent_back()
    return handler


def cover_tracks(shell: Any) -> None:
    """Undo what the request that carries this source would leave behind.

    IPython calls the ``post_execute`` callbacks after a silent request too, among them the one
    that shows and closes open figures, and remembers the request's result as the last one. For
    this one request everything is put back instead. On a subshell, the callbacks of the cell that
    runs beside it are called as ever.
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
