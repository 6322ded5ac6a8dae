"""The routes of the test API: authentication, bodies, errors, streams."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from tornado import iostream, web

from tests.messages_api.errors import ApiError
from tests.messages_api.prompt import REQUEST_OVERHEAD
from tests.messages_api.received import Received
from tests.messages_api.script import Failure, Latency, Reply
from tests.messages_api.server_side import COMPACTION_BETA, as_iteration
from tests.messages_api.stream import Event, Rendered, events

if TYPE_CHECKING:
    from tests.messages_api.server import Checked, MessagesAPI

MAX_BODY = 32 * 1024 * 1024
VERSIONS = ("2023-06-01", "2026-10-21")


class ApiHandler(web.RequestHandler):
    """Authentication and errors, the same for every route."""

    def initialize(self, api: MessagesAPI) -> None:
        self.api = api
        self.request_id = api.new_id("req")
        self.left = asyncio.Event()
        headers = {name.lower(): value for name, value in self.request.headers.get_all()}
        self.received = Received(self.request.path, headers, {}, api.clock.now())

    def check_access(self) -> None:
        headers = self.received.headers
        given = headers.get("x-api-key")
        bearer = headers.get("authorization", "")
        if given is None and bearer.startswith("Bearer "):
            given = bearer.removeprefix("Bearer ")
        if given is None:
            raise ApiError(401, "x-api-key header is required")
        if given != self.api.key:
            raise ApiError(401, "invalid x-api-key")
        version = headers.get("anthropic-version")
        if version is None:
            raise ApiError(400, "anthropic-version: header is required")
        if version not in VERSIONS:
            raise ApiError(400, f'anthropic-version: "{version}" is not a valid version')

    @property
    def knows_compaction(self) -> bool:
        """Whether the client sends the beta header of compaction on demand."""
        return COMPACTION_BETA in self.received.headers.get("anthropic-beta", "")

    def read_body(self) -> dict[str, Any]:
        if len(self.request.body) > MAX_BODY:
            raise ApiError(413, "Request exceeds the maximum size")
        if "application/json" not in self.received.headers.get("content-type", ""):
            raise ApiError(400, "Content-Type: must be application/json")
        try:
            body = json.loads(self.request.body)
        except ValueError:
            raise ApiError(400, "The request body is not valid JSON") from None
        if not isinstance(body, dict):
            raise ApiError(400, "The request body is not a JSON object")
        self.received.body = body
        return body

    def fail(self, error: ApiError) -> None:
        self.received.status = error.status
        self.received.error = error.message
        self.received.done.set()
        self.set_status(error.status)
        for name, value in error.headers.items():
            self.set_header(name, value)
        self.send_json(error.body(self.request_id))

    def send_json(self, body: dict[str, Any]) -> None:
        self.set_header("request-id", self.request_id)
        self.set_header("content-type", "application/json")
        self.finish(json.dumps(body))

    def on_connection_close(self) -> None:
        self.received.closed.set()
        self.received.done.set()
        self.left.set()

    def on_finish(self) -> None:
        self.received.done.set()


class MessagesHandler(ApiHandler):
    content_type = "text/event-stream; charset=utf-8"
    """Of a stream."""

    async def post(self, *_: str) -> None:
        await self.answer()

    async def answer(self) -> None:
        """Check the request and send what the script says."""
        try:
            self.check_access()
            self.read_body()
            checked = self.api.check(self.received)
        except ApiError as error:
            self.api.arrived(self.received)
            self.fail(error)
            return
        self.received.positions = checked.positions
        self.api.arrived(self.received)
        answer = self.api.answer(self.received)
        if isinstance(answer, Failure):
            self.fail(
                ApiError(answer.status, answer.message, kind=answer.kind, headers=answer.headers)
            )
            return
        await self._reply(answer, checked)

    async def _reply(self, reply: Reply, checked: Checked) -> None:
        api, received = self.api, self.received
        started = api.clock.now()
        latency = reply.latency or api.latency
        lookup = api.cache.look_up(checked.positions, checked.salt, checked.spec, started)
        usage = dict(lookup.usage)
        usage["input_tokens"] += REQUEST_OVERHEAD
        # Who leaves before the reply begins has been read to all the same.
        received.usage = {**usage, "output_tokens": 0}
        rendered = api.render(reply, received, checked)
        await api.clock.sleep(latency.before_first(lookup.uncached_tokens))
        api.cache.commit(lookup, started, api.clock.now())
        message_id = api.new_id("msg")
        compacts = received.body.get("compaction") is not None
        shown = {**usage, "output_tokens": 1}
        whole = {**usage, "output_tokens": rendered.output_tokens}
        if compacts:
            shown, whole = as_iteration(shown), as_iteration(whole)
        message = {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": checked.spec.id,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**shown, "service_tier": "standard"},
            **api.diagnose(received, checked, message_id),
        }
        closing: dict[str, Any] = {}
        if checked.applied_edits is not None:
            closing = {"context_management": {"applied_edits": checked.applied_edits}}
        received.status = 200
        received.usage = {**usage, "output_tokens": rendered.output_tokens}
        received.first_token_s = api.clock.now() - started
        if received.body.get("stream"):
            if compacts:  # the block comes whole
                await api.clock.sleep(latency.of_output(rendered.output_tokens))
            await self._stream(reply, rendered, message, latency, whole, closing)
        else:
            await api.clock.sleep(latency.of_output(rendered.output_tokens))
            self._conclude(rendered)
            self.send_json(
                {
                    **message,
                    "content": rendered.content,
                    "stop_reason": rendered.stop_reason,
                    "usage": {**message["usage"], **whole},
                    **closing,
                }
            )

    def _conclude(self, rendered: Rendered) -> None:
        """Note what became of the request before the client can see that it is over."""
        received = self.received
        received.reply = rendered.content
        received.duration_s = self.api.clock.now() - received.at
        received.done.set()

    async def _stream(
        self,
        reply: Reply,
        rendered: Rendered,
        message: dict[str, Any],
        latency: Latency,
        usage: dict[str, Any],
        closing: dict[str, Any],
    ) -> None:
        self.set_header("request-id", self.request_id)
        self.set_header("content-type", self.content_type)
        self.set_header("cache-control", "no-cache")
        try:
            for number, event in enumerate(events(rendered, message, usage, closing)):
                at_fault = reply.fault is not None and number == reply.fault.after
                if at_fault and await self._misbehave(reply):
                    return
                await self.api.clock.sleep(latency.of_output(event.tokens))
                if event.name == "message_stop":
                    self._conclude(rendered)
                await self._send(event)
            self.finish()
        except iostream.StreamClosedError:
            self.received.closed.set()
            self.received.done.set()

    def encode(self, event: Event) -> bytes:
        return event.encode()

    async def _send(self, event: Event) -> None:
        self.write(self.encode(event))
        await self.flush()

    async def _misbehave(self, reply: Reply) -> bool:
        """Act out the reply's fault; whether the stream is over with it."""
        fault = reply.fault
        assert fault is not None
        if fault.kind == "pause":
            await self._first(self.api.paused())
            return self.left.is_set()
        if fault.kind == "stall":
            await self._first(self.api.stopping())
            return True
        if fault.kind == "malformed":
            self.write(b'event: content_block_delta\ndata: {"type": "content_block_del\n\n')
            await self.flush()
            self.finish()
            return True
        if fault.kind == "error":
            error = {"type": fault.error_type, "message": "Scripted failure in the stream"}
            await self._send(Event("error", {"type": "error", "error": error}))
            self.finish()
            return True
        connection = self.request.connection
        assert connection is not None
        connection.stream.close()  # type: ignore[attr-defined]
        return True

    async def _first(self, waiting: Any) -> None:
        """Wait for ``waiting``, the client's leaving, or the end of the server."""
        tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(self.left.wait())]
        tasks.append(asyncio.ensure_future(self.api.stopping()))
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class CountHandler(ApiHandler):
    def post(self) -> None:
        self.api.other_requests.append(self.received)
        try:
            self.check_access()
            self.read_body()
            if self.api.counts_failures:
                failure = self.api.counts_failures.popleft()
                raise ApiError(failure.status, failure.message, headers=failure.headers)
            checked = self.api.check(self.received, counting=True)
        except ApiError as error:
            self.fail(error)
            return
        self.received.status = 200
        self.send_json({"input_tokens": checked.tokens})


class ModelsHandler(ApiHandler):
    def get(self) -> None:
        self.api.other_requests.append(self.received)
        try:
            self.check_access()
            if not self.api.lists_models:
                raise ApiError(404, "Not found")
            data = self._page()
        except ApiError as error:
            self.fail(error)
            return
        self.send_json(data)

    def _page(self) -> dict[str, Any]:
        specs = sorted(self.api.models.values(), key=lambda spec: spec.created_at, reverse=True)
        lifecycle = self.get_query_arguments("lifecycle") + self.get_query_arguments("lifecycle[]")
        specs = [spec for spec in specs if not lifecycle or spec.lifecycle in lifecycle]
        ids = [spec.id for spec in specs]
        after = self.get_query_argument("after_id", "")
        limit = int(self.get_query_argument("limit", "20"))
        start = ids.index(after) + 1 if after in ids else 0
        page = specs[start : start + limit]
        return {
            "data": [spec.info(compaction_beta=self.knows_compaction) for spec in page],
            "has_more": start + limit < len(specs),
            "first_id": page[0].id if page else None,
            "last_id": page[-1].id if page else None,
        }


class ModelHandler(ApiHandler):
    def get(self, model_id: str) -> None:
        self.api.other_requests.append(self.received)
        try:
            self.check_access()
            spec = self.api.models.get(model_id)
            if spec is None or not self.api.lists_models:
                raise ApiError(404, f"model: {model_id}")
        except ApiError as error:
            self.fail(error)
            return
        self.send_json(spec.info(compaction_beta=self.knows_compaction))


class UnknownHandler(ApiHandler):
    def prepare(self) -> None:
        self.fail(ApiError(404, "Not found"))
