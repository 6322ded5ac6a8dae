"""A session's script through the real agent: its loop, its records, its SDK, over loopback.

What stands in is the model behind the test API, which answers what the script says, and what the
tools do, which takes the script's time and returns its results. There is no kernel: no variables
are saved.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.context_figures import LATENCY, Purpose, Run, Sent, Wait, common_tokens
from bench.headless import NOTEBOOK, extension, serving
from bench.session_script import Script, Step, Turn
from bench.virtual_time import LoopClock
from prime_ext.agent.service import AgentService
from prime_ext.agent.session_context import SessionContext
from prime_ext.context.summary import INSTRUCTION
from prime_ext.models.capabilities import known_capabilities
from prime_ext.session.records import CompactionEnd, Error, PrefireEnd, PrefireStart
from prime_ext.session.session import Session
from tests.messages_api.prompt import Position
from tests.messages_api.received import Received
from tests.messages_api.script import Answer, Text, ToolCall
from tests.messages_api.script import Reply as ScriptedReply
from tests.messages_api.server import MessagesAPI


class Observer:
    """Answers for the model, and reduces each request to its figures once it is over."""

    def __init__(self, model: str, summary: str, run: Run) -> None:
        self._steps: deque[Step] = deque()
        self._summary = summary
        self._run = run
        self._price = known_capabilities(model).price
        self._pending: list[tuple[Received, Purpose, str]] = []
        self._prompt: list[Position] = []
        self._prompt_at = 0.0
        self._rewritten = ""
        self._compacting = False
        self._answered: tuple[Any, ScriptedReply] | None = None
        """Messages of the conversation's last request, and its answer."""
        self._note: Purpose = "note"

    def expect(self, steps: Iterable[Step]) -> None:
        """Answer the next requests of the conversation with these."""
        self._steps.extend(steps)

    def respond(self, received: Received) -> Answer:
        """The script's next reply, or the summary that is asked for."""
        self.settle()
        if not self._run.frozen:
            self._run.frozen = {
                key: [_unmarked(block) for block in received.body[key]]
                for key in ("system", "tools")
            }
        if received.user_text.startswith(INSTRUCTION):
            self._pending.append((received, "summary" if self._compacting else self._note, ""))
            return ScriptedReply((Text(self._summary),))
        self._pending.append((received, "turn", self._rewritten))
        self._rewritten = ""
        messages = received.body["messages"]
        if self._answered is not None and self._answered[0] == messages:
            self._run.problems.append(f"A request was sent again at {received.at:,.0f} s.")
            return self._answered[1]
        step = self._steps.popleft()
        calls = (ToolCall(call.name, call.arguments, call.id) for call in step.calls)
        reply = ScriptedReply((Text(step.text), *calls))
        self._answered = (messages, reply)
        return reply

    def see(self, record: dict[str, Any]) -> None:
        """Take note of a record that has just been written."""
        if record["kind"] == "prefire_start":
            self._note = "rolled note" if record.get("rolled") else "note"

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Time each compaction as the turn waits for it: by the clock, on top of virtual time."""
        compact = SessionContext.compact

        async def timed(*arguments: Any) -> CompactionEnd:
            loop = asyncio.get_running_loop()
            virtual, clock, worked = loop.time(), time.perf_counter(), time.process_time()
            self._compacting = True
            try:
                end = await compact(*arguments)
            finally:
                self._compacting = False
            if end.outcome != "ok":
                self._run.problems.append(f"compaction {end.outcome}: {end.reason}")
                return end
            self._rewritten = end.path or ""
            self._run.waits.append(
                Wait(
                    self._rewritten,
                    loop.time() - virtual + time.perf_counter() - clock,
                    end.request_tokens,
                    end.tokens_before,
                    end.tokens_after,
                    time.process_time() - worked,
                )
            )
            return end

        with patch.object(SessionContext, "compact", timed):
            yield

    def settle(self) -> None:
        """Take the figures of the requests that are over, and let go of what they held."""
        still = []
        for received, purpose, rewritten in self._pending:
            if received.done.is_set():
                if received.usage:  # else who sent it left before it was looked at
                    self._count(received, purpose, rewritten)
            else:
                still.append((received, purpose, rewritten))
        self._pending = still

    def _count(self, received: Received, purpose: Purpose, rewritten: str) -> None:
        usage, prompt = received.usage, received.positions
        cached = usage["cache_read_input_tokens"]
        self._run.requests.append(
            Sent(
                purpose,
                received.at,
                usage["input_tokens"] + usage["cache_creation_input_tokens"] + cached,
                cached,
                usage["output_tokens"],
                self._price.cost(usage) if self._price else 0.0,
                common_tokens(prompt, self._prompt),
                received.at - self._prompt_at,
                rewritten,
            )
        )
        if purpose == "turn":
            self._prompt, self._prompt_at = prompt, received.at
        received.positions, received.body, received.reply = [], {}, []


def _unmarked(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "cache_control"}


class Person:
    """Uses a session as a person does, in the script's time."""

    def __init__(self, service: AgentService, session: Session, observer: Observer) -> None:
        self.session = session
        self._service = service
        self._observer = observer
        self._ends: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def watch(self) -> None:
        """Follow the session, as its panel does."""
        async with self.session.subscribe() as frames:
            async for frame in frames:
                if frame["type"] == "record":
                    self._observer.see(frame["record"])
                    if frame["record"]["kind"] == "turn_end":
                        self._ends.put_nowait(frame["record"])

    async def take(self, turn: Turn) -> None:
        """Pause, send the turn's message, and wait for the turn to end.

        Raises
        ------
        RuntimeError
            If it ends otherwise than with a reply.
        """
        await asyncio.sleep(turn.pause_s)
        self._observer.expect(turn.steps)
        await self._service.submit(self.session, turn.text, None, "ada")
        end = await self._ends.get()
        if end["status"] != "ok":
            raise RuntimeError(f"A turn ended with {end}: {errors_of(self.session)}")


@asynccontextmanager
async def person(service: AgentService, observer: Observer) -> AsyncIterator[Person]:
    """Someone in a new session."""
    session = await service.start_session(NOTEBOOK, permission_mode="auto", user="ada")
    someone = Person(service, session, observer)
    watching = asyncio.create_task(someone.watch())
    try:
        yield someone
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def errors_of(session: Session) -> list[str]:
    """Every error that was recorded."""
    errors = session.records_of("error")
    return [f"{r.where} {r.code}: {r.message}" for r in errors if isinstance(r, Error)]


async def run_engine(
    script: Script, summary: str, name: str = "prime", context: dict[str, Any] | None = None
) -> Run:
    """Run ``script`` through the agent.

    Parameters
    ----------
    summary:
        What the model answers when it is asked for one, whatever was said before.
    context:
        Traits of ``ContextConfig`` that are not at their defaults.
    """
    api = MessagesAPI(clock=LoopClock(), latency=LATENCY)
    api.set_window(script.model, script.window)
    run = Run(script.name, name, script.window, 0, turns=len(script.turns))
    observer = Observer(script.model, summary, run)
    api.respond = observer.respond
    traits = {"ContextConfig": context or {}}
    with tempfile.TemporaryDirectory() as folder, observer.timing():
        async with (
            serving(api),
            extension(script, Path(folder), api, traits) as service,
            person(service, observer) as ada,
        ):
            started = asyncio.get_running_loop().time()
            for turn in script.turns:
                await ada.take(turn)
            session = ada.session
            observer.settle()
            run.threshold = service.describe(session)["state"]["threshold"]
            run.hours = (asyncio.get_running_loop().time() - started) / 3600
            run.notes = note_outcomes(session)
            run.problems += errors_of(session)
    return run


def note_outcomes(session: Session) -> Counter[str]:
    """How each note that was begun ended: ``used``, ``wasted``, or ``open``.

    A note is used by the swap or merge that it stands in, as are those that it was rolled forward
    from. It is wasted if it fails or is given up, if one that was made afresh takes its place,
    and if the compaction goes another way. It is open if the session ends before.
    """
    outcomes: Counter[str] = Counter()
    standing = 0
    rolled = False
    for record in session.records_of("prefire_start", "prefire_end", "compaction_end"):
        if isinstance(record, PrefireStart):
            rolled = record.rolled
        elif isinstance(record, PrefireEnd) and record.outcome != "ok":
            outcomes["wasted"] += 1
        elif isinstance(record, PrefireEnd):
            outcomes["wasted"] += 0 if rolled else standing
            standing = standing + 1 if rolled else 1
        elif isinstance(record, CompactionEnd) and record.outcome == "ok":
            outcomes["used" if record.path in ("swap", "merge") else "wasted"] += standing
            standing = 0
    outcomes["open"] += standing
    return +outcomes
