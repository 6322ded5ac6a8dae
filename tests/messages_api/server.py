"""The HTTP server: routes, authentication, validation, streaming; in a thread of its own."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tornado import web
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from tests.messages_api import clouds, conversation, server_side, shape
from tests.messages_api.cache import Diagnosis, PromptCache, fingerprint, messages_salt
from tests.messages_api.catalogue import MODELS, ModelSpec
from tests.messages_api.clock import Clock
from tests.messages_api.errors import ApiError
from tests.messages_api.handlers import (
    MAX_BODY,
    CountHandler,
    MessagesHandler,
    ModelHandler,
    ModelsHandler,
    UnknownHandler,
)
from tests.messages_api.prompt import REQUEST_OVERHEAD, Position, positions
from tests.messages_api.received import Received
from tests.messages_api.script import Answer, Failure, Latency, Reply, Responder
from tests.messages_api.stream import Rendered, render
from tests.messages_api.thinking import Prefix, Signer

START_SECONDS = 10


class MessagesAPI:
    """A Messages API on loopback.

    Parameters
    ----------
    key:
        The API key that it accepts.
    models:
        What ``GET /v1/models`` lists.
    clock:
        Runs the cache's time to live and the latency; virtual unless given.
    """

    def __init__(
        self,
        *,
        key: str = "test-key-0123456789",
        models: tuple[ModelSpec, ...] = MODELS,
        clock: Clock | None = None,
        latency: Latency | None = None,
        port: int = 0,
    ) -> None:
        self.key = key
        self.models = {spec.id: spec for spec in models}
        self.clock = clock or Clock()
        self.latency = latency or Latency()
        self.respond: Responder | None = None
        """Answers when the queue is empty."""
        self.requests: list[Received] = []
        """Every request to ``/v1/messages``, refused ones included, in order of arrival."""
        self.other_requests: list[Received] = []
        """Token counts and model queries."""
        self.lists_models = True
        """Whether the Models API is there, as it is not on every server."""
        self.knows_diagnostics = True
        """Whether the field ``diagnostics`` is known, as it is not on every server."""
        self.counts_failures: deque[Failure] = deque()
        """Failures of the next token counts."""
        self.cache = PromptCache()
        self._diagnosis = Diagnosis()
        self._signer = Signer()
        self._queue: deque[Answer] = deque()
        self._numbers = itertools.count(1)
        self._arrived = threading.Condition()
        self._port = port
        self._resumed: asyncio.Event | None = None
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    # Control

    def start(self) -> MessagesAPI:
        started = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self.serve(started.set)), name="messages-api", daemon=True
        )
        self._thread.start()
        if not started.wait(START_SECONDS):
            raise RuntimeError("The test API did not start.")
        return self

    def stop(self) -> None:
        """Close every connection and end; a second time does nothing."""
        if self._loop is None or self._stopping is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(START_SECONDS)
        self._loop = None

    def __enter__(self) -> MessagesAPI:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """What a client is given as ``base_url``."""
        return f"http://127.0.0.1:{self._port}"

    def enqueue(self, *answers: Answer) -> None:
        """Answer the next requests with these, one each."""
        self._queue.extend(answers)

    @property
    def queued(self) -> int:
        """Answers that no request has taken yet."""
        return len(self._queue)

    def resume(self) -> None:
        """Let replies with a ``pause`` go on."""
        if self._loop is not None and self._resumed is not None:
            self._loop.call_soon_threadsafe(self._resumed.set)

    def set_window(self, model: str, window: int, max_output: int | None = None) -> None:
        """Give ``model`` a smaller window, to reach its end with little text."""
        self.models[model] = self.models[model].with_window(window, max_output)

    def wait_for_requests(self, count: int, timeout: float = 30.0) -> list[Received]:
        """The first ``count`` requests to ``/v1/messages``, as soon as they have arrived.

        Blocks: from an event loop call it with ``asyncio.to_thread``.
        """
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.requests) >= count, timeout):
                raise TimeoutError(f"{len(self.requests)} of {count} requests arrived.")
            return self.requests[:count]

    # Serving

    async def serve(self, on_started: Callable[[], object]) -> None:
        """Serve on the running event loop, instead of a thread, until the task is cancelled."""
        self._loop = asyncio.get_running_loop()
        self._resumed = asyncio.Event()
        self._stopping = asyncio.Event()
        app = web.Application(
            [
                (r"/v1/messages", MessagesHandler, {"api": self}),
                (r"/v1/messages/count_tokens", CountHandler, {"api": self}),
                (r"/v1/models", ModelsHandler, {"api": self}),
                (r"/v1/models/([^/]+)", ModelHandler, {"api": self}),
                *((path, handler, {"api": self}) for path, handler in clouds.ROUTES),
            ],
            default_handler_class=UnknownHandler,
            default_handler_args={"api": self},
            log_function=lambda _handler: None,
        )
        server = HTTPServer(app, max_body_size=4 * MAX_BODY, max_buffer_size=4 * MAX_BODY)
        sockets = bind_sockets(self._port, "127.0.0.1")
        self._port = sockets[0].getsockname()[1]
        server.add_sockets(sockets)
        on_started()
        try:
            await self._stopping.wait()
        finally:
            server.stop()
            await server.close_all_connections()

    async def paused(self) -> None:
        assert self._resumed is not None
        await self._resumed.wait()
        self._resumed.clear()

    async def stopping(self) -> None:
        assert self._stopping is not None
        await self._stopping.wait()

    def arrived(self, received: Received) -> None:
        with self._arrived:
            self.requests.append(received)
            self._arrived.notify_all()

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{next(self._numbers):024d}"

    # Deciding

    def check(self, received: Received, *, counting: bool = False) -> Checked:
        """Validate a request.

        Raises
        ------
        ApiError
            As the real API would refuse it.
        """
        body = received.body
        if not self.knows_diagnostics and "diagnostics" in body:
            raise ApiError(400, "diagnostics: Extra inputs are not permitted")
        shape.check_fields(body, counting=counting)
        spec = self.models.get(body["model"])
        if spec is None or spec.lifecycle == "retired":
            raise ApiError(404, f"model: {body['model']}")
        system = shape.system_blocks(body.get("system"))
        tools = shape.tools(body.get("tools"))
        betas = {beta.strip() for beta in received.headers.get("anthropic-beta", "").split(",")}
        messages = shape.messages(body["messages"], compacted=server_side.COMPACTION_BETA in betas)
        top_level = body.get("cache_control")
        if top_level is not None:
            shape.check_cache_control(top_level, "cache_control")
        conversation.check_thinking_config(body, spec, betas)
        conversation.check_tool_use(body, tools, messages, spec)
        server_side.check(body, messages, spec, betas)
        self._signer.check_block(messages)
        conversation.check_order(messages, compacting=body.get("compaction") is not None)
        conversation.check_pairing(messages)
        conversation.check_own_tools(messages)
        conversation.check_marks(conversation.marks(system, tools, messages), top_level)
        read = self._signer.check(body, system, tools, messages, spec, tuple(self.models))
        found = positions(system, tools, read, spec, top_level)
        salt = messages_salt(body, spec, has_images=bool(shape.images(messages)))
        checked = Checked(spec, system, tools, messages, found, salt)
        asked = body.get("context_management")
        if asked is not None:
            read, applied = server_side.edited(read, asked, checked.tokens, spec)
            found = positions(system, tools, read, spec, top_level)
            checked = replace(checked, positions=found, applied_edits=applied)
        if not counting:
            if body["max_tokens"] > spec.max_output:
                raise ApiError(
                    400,
                    f"max_tokens: {body['max_tokens']} > {spec.max_output}, which is the maximum "
                    f"allowed number of output tokens for {spec.id}",
                )
            if checked.tokens > spec.window:
                raise ApiError(
                    400,
                    f"prompt is too long: {checked.tokens} tokens > {spec.window} maximum",
                )
        return checked

    def answer(self, received: Received) -> Answer:
        if self._queue:
            return self._queue.popleft()
        if self.respond is not None:
            return self.respond(received)
        return Failure(400, "The script has no reply for this request.")

    def render(self, reply: Reply, received: Received, checked: Checked) -> Rendered:
        prefix: Prefix | None = None
        signed: list[dict[str, Any]] = []

        def sign(text: str, before: list[dict[str, Any]]) -> str:
            nonlocal prefix
            if prefix is None:
                prefix = self._signer.prefix(checked.system, checked.tools, checked.messages)
            for block in before[len(signed) :]:
                prefix.add("assistant", block)
                signed.append(block)
            return self._signer.sign(text, prefix.digest(), checked.spec.id)

        body = received.body
        rendered = render(
            reply,
            checked.spec,
            max_tokens=body["max_tokens"],
            room=checked.spec.window - checked.tokens,
            shows_thinking=conversation.thinking_display(body, checked.spec) == "summarized",
            thinks=conversation.thinking_type(body, checked.spec) != "disabled",
            sign=sign,
            new_tool_id=lambda: self.new_id("toolu"),
        )
        if body.get("compaction") is not None:
            return server_side.as_compaction(
                rendered,
                lambda content: self._signer.compacted(
                    content, checked.system, checked.tools, checked.messages, checked.spec
                ),
            )
        self._signer.remember(rendered.content)
        return rendered

    def diagnose(self, received: Received, checked: Checked, message_id: str) -> dict[str, Any]:
        """The ``diagnostics`` of a reply, if the request asked for them."""
        asked = received.body.get("diagnostics")
        if asked is None:
            return {}
        now = fingerprint(checked.positions, checked.salt, checked.spec)
        found = self._diagnosis.compare(asked.get("previous_message_id"), now)
        self._diagnosis.remember(message_id, now)
        return {"diagnostics": found}


@dataclass(frozen=True)
class Checked:
    """A valid request."""

    spec: ModelSpec
    system: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    positions: list[Position]
    salt: str
    applied_edits: list[dict[str, Any]] | None = None
    """What was left out of the messages; ``None`` if nothing was asked for."""

    @property
    def tokens(self) -> int:
        """Of the whole prompt."""
        return REQUEST_OVERHEAD + sum(position.tokens for position in self.positions)
