"""One turn: requests to the model, repeated until a reply calls no more tools."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from prime_ext.agent.checkpoint import checkpoint
from prime_ext.agent.reply import StreamedReply
from prime_ext.agent.spending import Spending, TurnCaps
from prime_ext.agent.tools.compact import COMPACT_CONTEXT
from prime_ext.context.breakpoints import place_marks
from prime_ext.context.projection import Projection, open_calls
from prime_ext.context.server_side import edits
from prime_ext.errors import PrimeError
from prime_ext.models.model import (
    ContextOverflow,
    ModelError,
    ModelRequest,
    Reply,
    Retry,
)
from prime_ext.session.records import (
    AnyRecord,
    ApprovalRequest,
    AssistantMessage,
    Block,
    CompactionEnd,
    Error,
    TurnEnd,
)

if TYPE_CHECKING:
    from prime_ext.agent.approvals import Approvals
    from prime_ext.agent.calls import ToolCalls
    from prime_ext.agent.services import AgentServices
    from prime_ext.agent.session_context import SessionContext
    from prime_ext.agent.work import Work
    from prime_ext.session.session import Session


class _LimitReached(Exception):
    """The turn reached a cap, and the person did not allow it to go on."""


class _Refilled(Exception):
    """Compaction no longer helps. The error record that says so has been written."""


class Turn:
    """Carry one turn from the user's message to its ``turn_end`` record.

    Parameters
    ----------
    context:
        Context of the session, in use with the turn's model: what is sent, kept within its limits.
    spent:
        Spending of the turn so far, which follows the session's records.
    """

    def __init__(
        self,
        turn: str,
        session: Session,
        services: AgentServices,
        context: SessionContext,
        calls: ToolCalls,
        approvals: Approvals,
        work: Work,
        spent: Spending,
    ) -> None:
        config = services.model_config
        self._turn = turn
        self._session = session
        self._root = services.root
        self._context = context
        self._caps = TurnCaps(config.max_requests_per_turn, config.max_cost_per_turn)
        self._calls = calls
        self._approvals = approvals
        self._work = work
        self._log = services.log
        self._spent = spent
        self._started = time.monotonic()
        self._is_paused = False
        """Whether the last reply was paused, and its continuation has not come."""
        self._again_at = 0
        """Context size in tokens at which a compaction that did not help is tried again.

        Without it, compaction would be repeated before every request.
        """

    async def run(self) -> TurnEnd:
        """Run the turn, and return the ``turn_end`` record that it always ends with.

        The one exception is ``Suspended``: the server stops while the turn waits for a person, and
        ``go_on`` resumes the turn later. Cancelling the task stops the turn: the part of the reply
        that has arrived is recorded, open tool calls are closed, and ``turn_end`` has the status
        ``interrupted``. The ``CancelledError`` is not raised to the caller.
        """
        return await self._run([])

    async def go_on(self, records: Sequence[AnyRecord]) -> TurnEnd:
        """Resume a turn that was waiting for a person when the server stopped.

        Parameters
        ----------
        records:
            Records that the turn has written so far.
        """
        return await self._run(open_calls(records))

    async def _run(self, calls: list[Block]) -> TurnEnd:
        status = "ok"
        try:
            await self._requests(calls)
        except asyncio.CancelledError:
            status = "interrupted"
            self._session.append(self._work.interruption(self._turn))
        except _LimitReached:
            status = "limit"
        except _Refilled:
            status = "error"
        except PrimeError as failure:
            status = "error"
            where = "model" if isinstance(failure, ModelError) else "session"
            self._session.append(Error.of(failure, where=where, turn=self._turn))
        except Exception as failure:  # a bug must not leave the turn open
            status = "error"
            self._log.exception("Turn %s of session %s failed", self._turn, self._session.id)
            self._error(
                "internal_error",
                f"The turn failed unexpectedly: {type(failure).__name__}: {failure}",
                "The server's log has details. The conversation is kept; send a message to go on.",
            )
        if status == "interrupted":
            await self._calls.runs.stop()
            self._tell_if_left()
        elif not await self._settle():
            status = "interrupted"
            self._session.append(self._work.interruption(self._turn))
            self._tell_if_left()
        self._calls.close_open(self._turn)
        return self._end(status)

    async def _settle(self) -> bool:
        """Wait for a run that still goes on; return ``False`` if the turn was stopped meanwhile."""
        try:
            await self._calls.settle()
        except asyncio.CancelledError:
            return False
        return True

    def _tell_if_left(self) -> None:
        """Record an error if the code that the person stopped still runs in the kernel.

        Nothing else would show that.
        """
        if self._calls.runs.is_left:
            self._error(
                "code_still_runs",
                "The kernel was interrupted, but the code that the agent ran goes on in it.",
                "Interrupt the kernel again, or restart it, from the Kernel menu.",
                where="kernel",
            )

    async def _requests(self, calls: list[Block]) -> None:
        if calls:
            await self._answer(calls)
        while True:
            await self._check_caps()
            if not self._is_paused:  # It goes on only behind the messages that it began behind.
                await self._compact_if_due()
            reply = await self._request()
            calls = [block for block in reply.content if block["type"] == "tool_use"]
            self._is_paused = reply.stop_reason == PAUSED and bool(reply.content) and not calls
            if self._is_paused:
                continue
            await self._context.prefire()
            if not calls:
                if reply.stop_reason == WINDOW_FULL and await self._make_room():
                    continue  # the model continues where it was cut off, after a summary
                break
            if reply.stop_reason in _CUT_OFF and reply.content[-1]["type"] == "tool_use":
                # The input of a call that was cut off may still be valid JSON. Running half of it
                # would be worse than not running it.
                self._calls.refuse(calls.pop(), self._turn, _CALL_CUT_OFF)
            for call in [c for c in calls if c["id"] in reply.invalid_inputs]:
                calls.remove(call)
                self._calls.refuse(call, self._turn, _no_object(reply.invalid_inputs[call["id"]]))
            await self._answer(calls)
        if not await self._settle():
            raise asyncio.CancelledError
        self._session.publish(
            {"type": "message_complete", "turn": self._turn, "seq": self._session.log.last_seq}
        )
        await self._compact_if_due("turn_end")
        self._session.append(await checkpoint(self._session, self._root, self._turn))

    async def _answer(self, calls: list[Block]) -> None:
        self._work.enter("tool")
        await self._calls.run(calls, self._turn, self._context.result_cap)
        await self._compact_if_called(calls)

    async def _check_caps(self) -> None:
        reached = self._spent.over(self._caps)
        if reached is None:
            return
        self._work.enter("approval")
        answer = await self._approvals.ask(
            ApprovalRequest(
                call_id=f"limit-{self._turn}-{self._spent.requests}",
                what="limit",
                summary=f"This turn has used {reached}. Go on?",
                detail="Allow the same amount once more, or stop the turn here.",
                turn=self._turn,
            )
        )
        if answer.decision != "allow":
            raise _LimitReached

    async def _compact_if_due(self, trigger: str = "threshold") -> None:
        if self._context.asked is not None:
            await self._compact_now("manual", None)
            return
        threshold = self._context.limits.threshold
        tokens = await self._context.tokens()
        if tokens < threshold:
            self._again_at = 0
            return
        overhead = await self._context.overhead()
        if overhead >= threshold:
            if self._context.is_news(overhead, threshold):
                self._error(
                    "threshold_too_small",
                    f"System prompt and tools alone take {overhead} tokens, the threshold is "
                    f"{threshold}: compaction cannot help.",
                    "Raise ContextConfig.max_context_tokens.",
                )
            return
        if tokens < self._again_at:
            return
        if trigger == "threshold" and await self._context.goes_on():
            return
        await self._give_up_if_refilled()
        self._again_at = tokens + threshold // 10
        await self._compact_now(trigger, None)

    async def _make_room(self) -> bool:
        """Compact because the window is full; return whether a reply has room now."""
        record = await self._compact_now("overflow", None)
        threshold = self._context.limits.threshold
        if record.outcome == "ok" and record.tokens_after < threshold:
            return True
        self._error(WINDOW_FULL, *_STOPPED_SHORT[WINDOW_FULL])
        return False

    async def _give_up_if_refilled(self) -> None:
        filler = await self._context.refilled_by()
        if filler is None:
            return
        self._error(
            "context_refills",
            "The conversation was compacted three times in a row and was full again each time "
            f"after a few requests. Most of it are {filler.name}: about {filler.tokens:,} tokens, "
            f"the largest in record {filler.largest_seq}.",
            "Ask for smaller parts at a time, or raise ContextConfig.max_context_tokens.",
        )
        raise _Refilled

    async def _compact_if_called(self, calls: list[Block]) -> None:
        for call in calls:
            if call["name"] == COMPACT_CONTEXT:
                arguments = call["input"] if isinstance(call["input"], dict) else {}
                await self._compact_now("model", arguments.get("instructions"))
                return

    async def _compact_now(self, trigger: str, instructions: str | None) -> CompactionEnd:
        self._work.enter("compaction")
        record = await self._context.compact(trigger, instructions, self._turn)
        if record.outcome == "ok" and record.tokens_after < self._context.limits.threshold:
            self._again_at = 0
        return record

    async def _request(self) -> Reply:
        """Send the request; compact and send it again if the model's server finds it too large."""
        compacted: CompactionEnd | None = None
        while True:
            try:
                return await self._send_as_taken()
            except ModelError as refused:
                if not _is_too_large(refused):
                    raise
                # What a swap has kept verbatim may itself be too large, most likely by its images.
                if compacted is not None and compacted.path != "swap":
                    raise
                self._log.warning("The context is too large: %s", refused.message)
                if isinstance(refused, ContextOverflow):
                    self._context.learn_window(refused)
                compacted = await self._compact_now("overflow", None)
                if compacted.outcome != "ok":
                    raise

    async def _send_as_taken(self) -> Reply:
        """Send the request, again without server-side edits or thinking if these are refused."""
        while True:
            try:
                return await self._send()
            except ModelError as error:
                if error.code != "bad_request":
                    raise
                if self._context.is_server_side:
                    self._context.leave_server_side(error.message)
                elif self._context.has_thinking and "thinking" in error.message:
                    self._context.drop_thinking(error.message)
                else:
                    raise

    async def _send(self) -> Reply:
        if self._work.stopped:
            # Before Python 3.12 `asyncio.wait_for` swallows a cancellation that arrives at the
            # moment its awaitable ends. No request may be sent after a Stop.
            raise asyncio.CancelledError
        projection = self._context.projection()
        request = self._build(projection)
        proof = asyncio.create_task(self._context.prove(projection))
        self._work.enter("model")
        streamed = StreamedReply(self._session, self._turn)
        started = time.monotonic()
        first_token_ms: int | None = None
        retrying = False
        try:
            async with aclosing(self._context.model.stream(request)) as events:
                async for event in events:
                    if isinstance(event, Reply):
                        self._record(projection, event, started, first_token_ms)
                        return event
                    if isinstance(event, Retry) != retrying:
                        retrying = not retrying
                        self._work.enter("retry" if retrying else "model")
                    if first_token_ms is None and not isinstance(event, Retry):
                        first_token_ms = round((time.monotonic() - started) * 1000)
                    streamed.feed(event)
        except asyncio.CancelledError:
            self._record_cut_off(streamed, "interrupted", started)
            raise
        except ModelError:
            self._record_cut_off(streamed, "error", started)
            raise
        finally:
            await proof
        raise ModelError("The model's stream ended without a message.", code="server_error")

    def _build(self, projection: Projection) -> ModelRequest:
        system, messages = place_marks(
            projection.system, projection.wire_messages(), self._context.marks_from(projection)
        )
        return ModelRequest(
            system=system,
            tools=projection.tools,
            messages=messages,
            max_tokens=self._context.limits.max_output,
            previous_message_id=self._context.last_message_id,
            edits=edits(projection.messages),
        )

    def _record(
        self,
        projection: Projection,
        reply: Reply,
        started: float,
        first_token_ms: int | None,
    ) -> None:
        price = self._context.price
        cost = price.cost(reply.usage) if price else None
        if reply.cache_miss_reason:
            self._log.info("Prompt cache missed: %s", reply.cache_miss_reason)
        self._session.append(
            AssistantMessage(
                content=reply.content,
                model=reply.model,
                stop_reason=reply.stop_reason,
                usage=reply.usage,
                message_id=reply.message_id,
                duration_ms=round((time.monotonic() - started) * 1000),
                first_token_ms=first_token_ms,
                cost_usd=cost,
                applied_edits=reply.applied_edits,
                turn=self._turn,
            )
        )
        self._context.answered(projection, reply)
        if reply.stop_reason in _STOPPED_SHORT and reply.stop_reason != WINDOW_FULL:
            message, hint = _STOPPED_SHORT[reply.stop_reason]
            self._error(reply.stop_reason, message, hint)

    def _record_cut_off(self, streamed: StreamedReply, why: str, started: float) -> None:
        content = streamed.arrived()
        if content:
            self._session.append(
                AssistantMessage(
                    content=content,
                    model=self._context.model.id,
                    stop_reason=why,
                    duration_ms=round((time.monotonic() - started) * 1000),
                    turn=self._turn,
                )
            )
        else:
            streamed.discard()

    def _error(self, code: str, message: str, hint: str, where: str = "model") -> None:
        self._session.append(
            Error(code=code, message=message, hint=hint, where=where, turn=self._turn)
        )

    def _end(self, status: str) -> TurnEnd:
        if self._is_paused:
            self._context.left_paused()
        record = self._session.append(
            msgspec.structs.replace(
                self._spent.turn_end(status, self._turn),
                duration_ms=round((time.monotonic() - self._started) * 1000),
                context_tokens=self._context.meter.known_tokens,
            ),
            sync=True,
        )
        assert isinstance(record, TurnEnd)
        return record


PAUSED = "pause_turn"
"""The model's server has run its own tools often enough for one request. It goes on when it is sent
the conversation with this reply as its end."""
WINDOW_FULL = "model_context_window_exceeded"
_CUT_OFF = ("max_tokens", WINDOW_FULL)
_CALL_CUT_OFF = (
    "Not run: the reply reached its maximum length inside this call, so its input is incomplete. "
    "Send it again in smaller parts."
)


def _is_too_large(refused: ModelError) -> bool:
    """Return whether a request was refused for its tokens, its bytes or its number of images."""
    # The API limits the number of images, and has no code for that. Single images that it would
    # refuse are never sent.
    images = refused.code == "bad_request" and "image" in refused.message
    return images or refused.code in ("context_overflow", "request_too_large")


def _no_object(raw: str) -> str:
    """Return why a call with the input ``raw``, which is no JSON object, is not run."""
    try:
        json.loads(raw)
    except ValueError:
        what = "not valid JSON"
    else:
        what = "JSON, but not an object with the parameters by name"
    return f"Not run: the input of this call is {what}. It was: {raw[:2_000]}"


_STOPPED_SHORT = {
    "max_tokens": (
        "The reply reached its maximum length and was cut off.",
        "Ask to continue, or raise ModelConfig.max_output_tokens.",
    ),
    WINDOW_FULL: (
        "The reply was cut off because the model's window is full.",
        "Send /compact, then ask to continue.",
    ),
    "refusal": ("The model declined to answer.", "Rephrase the request."),
}
