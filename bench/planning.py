"""What planning a request costs on the event loop, and what a long session takes.

``python -m bench.planning [--markdown docs/compaction.md]``

The real agent takes one long turn on a context that holds all the records; its model answers at
once. The parts are timed where the agent calls them, in processor time of the loop's thread. What
the agent gives to other threads is not on the loop; it is reported, but held to nothing. Opening,
projecting, reading and searching are timed by the clock, in a session of 40,000 records of which
compactions have left the newest in the context.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import inspect
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from bench.filler import text_of
from bench.headless import NOTEBOOK, extension, serving
from bench.report import Measure, markdown, median, put_into, report
from bench.session_script import Call, Script, Step, Turn
from prime_ext.agent.session_context import SessionContext
from prime_ext.agent.turn import Turn as AgentTurn
from prime_ext.compaction.meter import ContextMeter
from prime_ext.context.prefix import PrefixProof
from prime_ext.context.projector import Projector
from prime_ext.context.summary import OPEN
from prime_ext.models.anthropic import AnthropicModel
from prime_ext.models.model import ModelRequest, Reply
from prime_ext.session.log import SessionLog
from prime_ext.session.records import (
    AssistantMessage,
    CompactionEnd,
    SessionStart,
    ToolResult,
    UserMessage,
)
from prime_ext.session.session import Session
from tests.messages_api.server import MessagesAPI

_Result = TypeVar("_Result")

MODEL, WINDOW = "claude-sonnet-5-5", 1_000_000
RECORDS = 10_000
"""In the context that is planned on."""
LONG_RECORDS = 40_000
"""In the session that is opened and searched."""
COMPACT_EVERY = 8_000
PAGE_RECORDS = 200
REQUESTS = 60
WARM_UP = 10
"""Requests that are not counted: the first reads and measures the whole session."""
TARGET_MS = 5.0
CONTEXT_TOKENS = 450_000
"""As the model reports it."""

PARTS: dict[str, tuple[type, str]] = {
    "projecting": (Projector, "now"),
    "measuring": (ContextMeter, "context_tokens"),
    "learning from the usage": (ContextMeter, "observe"),
    "planning a note or prune": (SessionContext, "prefire"),
    "building the request, cache marks": (AgentTurn, "_build"),
    "proving the prefix": (PrefixProof, "check"),
    "recording": (Session, "append"),
}
PLANNING = tuple(part for part in PARTS if part != "recording")


@dataclass
class Spent:
    """Milliseconds of processor time by part, request by request."""

    requests: list[dict[str, float]] = field(default_factory=list)
    elsewhere: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """What parts took in other threads, altogether."""
    between: list[float] = field(default_factory=list)
    """All that the loop's thread did from a reply to the next request."""
    _loop_thread: int = field(default_factory=threading.get_ident)
    _open: list[float] = field(default_factory=list)
    """What the parts that are open have spent in parts inside them."""
    _replied_at: float | None = None

    def begin(self) -> float:
        """A part begins; returns the time."""
        if threading.get_ident() == self._loop_thread:
            self._open.append(0.0)
        return time.thread_time()

    def end(self, part: str, started: float) -> None:
        """A part ends; what parts inside it took is theirs alone."""
        took = (time.thread_time() - started) * 1000
        if threading.get_ident() != self._loop_thread:
            self.elsewhere[part] += took
            return
        inside = self._open.pop()
        if self._open:
            self._open[-1] += took
        if self.requests:
            request = self.requests[-1]
            request[part] = request.get(part, 0.0) + took - inside

    def requested(self) -> None:
        """A request reaches the model."""
        if self._replied_at is not None:
            self.between.append((time.thread_time() - self._replied_at) * 1000)

    def replied(self) -> None:
        """The model has answered: the next request begins."""
        self.requests.append({})
        self._replied_at = time.thread_time()


def _timed(spent: Spent, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def timed(*arguments: Any, **named: Any) -> Any:
        started = spent.begin()
        try:
            return function(*arguments, **named)
        finally:
            spent.end(part, started)

    @functools.wraps(function)
    async def timed_async(*arguments: Any, **named: Any) -> Any:
        started = spent.begin()
        try:
            return await function(*arguments, **named)
        finally:
            spent.end(part, started)

    return timed_async if inspect.iscoroutinefunction(function) else timed


@contextmanager
def watching(spent: Spent, steps: Iterator[Step]) -> Iterator[None]:
    """Time the parts; and a model that answers at once with ``steps``."""

    async def stream(_model: Any, request: ModelRequest) -> AsyncGenerator[Reply, None]:
        if request.purpose == "compaction":
            yield _reply([{"type": "text", "text": text_of(1_500, "note")}], len(spent.requests))
            return
        spent.requested()
        step = next(steps)
        content = [{"type": "text", "text": step.text}, *_calls(step)]
        reply = _reply(content, len(spent.requests))
        spent.replied()
        yield reply

    with ExitStack() as patches:
        for part, (owner, name) in PARTS.items():
            timed = _timed(spent, part, getattr(owner, name))
            patches.enter_context(patch.object(owner, name, timed))
        patches.enter_context(patch.object(AnthropicModel, "stream", stream))
        yield


def _calls(step: Step) -> list[dict[str, Any]]:
    return [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in step.calls
    ]


def _reply(content: list[dict[str, Any]], number: int) -> Reply:
    stop = "tool_use" if content[-1]["type"] == "tool_use" else "end_turn"
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": CONTEXT_TOKENS + 100 * number,
        "cache_creation_input_tokens": 100,
        "output_tokens": 60,
    }
    return Reply(content, stop, usage, MODEL)


def fill(session: Session) -> None:
    """Bring a session to ``RECORDS`` records."""
    number = session.log.last_seq
    while number < RECORDS:
        text = [{"type": "text", "text": text_of(30, f"record {number}")}]
        if number % 30 == 0:
            session.append(UserMessage(text=text[0]["text"], content=text))
        id = f"toolu_{number}"  # noqa: A001
        call = {"type": "tool_use", "id": id, "name": "run_code", "input": {"code": "1"}}
        reply = _reply([*text, call], 0)
        session.append(AssistantMessage(content=reply.content, model=MODEL, usage=reply.usage))
        session.append(ToolResult(tool_use_id=id, name="run_code", content=text))
        number = session.log.last_seq


def script() -> Script:
    """One turn of short calls."""
    calls = (
        Call(f"toolu_new_{n}", "run_code", {"code": "1"}, text_of(60, f"output {n}"), 0.0)
        for n in range(REQUESTS)
    )
    steps = (*(Step("Next.", (call,)) for call in calls), Step("Done."))
    return Script("planning", MODEL, WINDOW, (Turn(0.0, "Go on.", steps),))


async def one_turn(threshold: int) -> Spent:
    """A turn on a context of ``CONTEXT_TOKENS`` that is to be compacted at ``threshold``."""
    played = script()
    (turn,) = played.turns
    api = MessagesAPI()
    traits = {"ContextConfig": {"max_context_tokens": threshold}}
    with tempfile.TemporaryDirectory() as folder:
        async with serving(api), extension(played, Path(folder), api, traits) as service:
            session = await service.start_session(NOTEBOOK, permission_mode="auto", user="ada")
            fill(session)
            await service.close_session(session)
            spent = Spent()
            with watching(spent, iter(turn.steps)):
                after = session.log.last_seq
                await service.submit(session, turn.text, None, "ada")
                async with session.subscribe(after) as frames:
                    async for frame in frames:
                        if frame.get("record", {}).get("kind") == "turn_end":
                            break
            if frame["record"]["status"] != "ok":
                raise RuntimeError(f"The turn ended with {frame['record']}")
            return spent


def measures_of(where: str, spent: Spent) -> list[Measure]:
    """The parts, the sum that is held to the target, and all there is."""
    counted = spent.requests[WARM_UP:-1]
    found = [
        median(f"{where}: {part}", [request.get(part, 0.0) for request in counted], "ms")
        for part in PARTS
    ]
    sums = [sum(request.get(part, 0.0) for part in PLANNING) for request in counted]
    found.append(median(f"{where}: planning altogether", sums, "ms", TARGET_MS))
    between = spent.between[WARM_UP:]
    found.append(median(f"{where}: from a reply to the next request", between, "ms"))
    found += [
        Measure(f"{where}: {part}, in another thread", took / len(spent.requests), "ms")
        for part, took in spent.elsewhere.items()
    ]
    return found


def write_long(path: Path) -> None:
    """A log of ``LONG_RECORDS`` of a session that was compacted several times."""
    log = SessionLog.open(path)
    log.append(
        SessionStart(
            version="bench",
            notebook=NOTEBOOK,
            provider="anthropic",
            model=MODEL,
            permission_mode="auto",
            system=[],
            tools=[],
        )
    )
    while log.last_seq < LONG_RECORDS:
        number = log.last_seq
        text = [{"type": "text", "text": text_of(60, f"record {number}") + f" run_{number}"}]
        if number % 30 < 2:
            log.append(UserMessage(text=text[0]["text"], content=text))
        id = f"toolu_{number}"  # noqa: A001
        call = {"type": "tool_use", "id": id, "name": "run_code", "input": {"code": "1"}}
        reply = _reply([*text, call], 0)
        log.append(AssistantMessage(content=reply.content, model=MODEL, usage=reply.usage))
        log.append(ToolResult(tool_use_id=id, name="run_code", content=text))
        if number % COMPACT_EVERY > log.last_seq % COMPACT_EVERY:
            end = CompactionEnd(
                compaction_id=id,
                outcome="ok",
                trigger="threshold",
                tokens_before=300_000,
                tokens_after=20_000,
                path="swap",
                summary=f"{OPEN}\n{text_of(1_500, id)}",
                kept_from_seq=number - 50,
            )
            log.append(end)
    log.close()


def long_session() -> list[Measure]:
    """What opening, projecting, reading and searching a long session take, by the clock."""
    found: list[Measure] = []
    name = f"{LONG_RECORDS:,} records"

    def timed(what: str, function: Callable[[], _Result], times: int = 5) -> _Result:
        took = []
        for _ in range(times):
            started = time.perf_counter()
            result = function()
            took.append((time.perf_counter() - started) * 1000)
        found.append(median(f"{name}: {what}", took, "ms"))
        return result

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "session.jsonl")
        write_long(path)
        log = timed("opening the log", lambda: SessionLog.open(path))
        session = timed("the session in it", lambda: Session("long", Path(folder), log))
        timed("projecting it", lambda: Projector(session.context_records).now())
        middle = LONG_RECORDS // 2
        timed("a page of 200 records", lambda: log.lines(middle, PAGE_RECORDS))
        timed("the search index, rebuilt", session.recall.catch_up, 1)
        searches = {
            "a name": f"run_{middle}",
            "the middle of a name": f"un_{middle}",
            "nothing that is there": "zzq",
        }
        for what, query in searches.items():
            timed(f"search for {what}", functools.partial(session.search, query))
        session.close()
    return found


def measures() -> list[Measure]:
    """Far from the threshold; and close to it, where a note is ready and has to hold."""
    far = asyncio.run(one_turn(2 * CONTEXT_TOKENS))
    near = asyncio.run(one_turn(round(CONTEXT_TOKENS / 0.94)))
    return [*measures_of("far from the threshold", far), *measures_of("a note is ready", near)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.planning")
    parser.add_argument(
        "--markdown", type=Path, help="a page with the marks `bench.planning`, for the table"
    )
    options = parser.parse_args()
    found = [*measures(), *long_session()]
    if options.markdown:
        put_into(options.markdown, "bench.planning", markdown(found))
    return report("planning", found)


if __name__ == "__main__":
    sys.exit(main())
