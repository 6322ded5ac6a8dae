"""What happens in a session, whoever keeps its context: turns, replies, calls, and pauses.

A script is made from a recorded session's skeleton, or generated. Texts are filler of the sizes
given; the same script always has the same texts.
"""

from __future__ import annotations

import json
import random
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.filler import text_of

HOUR = 3_600.0


@dataclass(frozen=True)
class Call:
    """A call of one of the agent's tools, and what it comes to."""

    id: str
    name: str
    arguments: dict[str, Any]
    result: str
    seconds: float
    is_error: bool = False


@dataclass(frozen=True)
class Step:
    """One reply of the model. Without calls it ends the turn."""

    text: str
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Turn:
    """A message of the person, ``pause_s`` seconds after the last reply, and what follows."""

    pause_s: float
    text: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Script:
    """A whole session."""

    name: str
    model: str
    window: int
    """Tokens that the model takes."""
    turns: tuple[Turn, ...]

    @property
    def requests(self) -> int:
        return sum(len(turn.steps) for turn in self.turns)

    def steps(self) -> Iterator[Step]:
        for turn in self.turns:
            yield from turn.steps

    def first(self, requests: int) -> Script:
        """The script's beginning, to the end of the turn in which ``requests`` is reached."""
        turns: list[Turn] = []
        sent = 0
        for turn in self.turns:
            turns.append(turn)
            sent += len(turn.steps)
            if sent >= requests:
                break
        return Script(self.name, self.model, self.window, tuple(turns))

    def widened(self) -> Script:
        """The same session, had its model taken as much as those of today do."""
        return replace(self, name=f"{self.name}, wide", window=WIDE_WINDOW)


def _call(id: str, tool: str, tokens: int, result: str, seconds: float, **how: Any) -> Call:  # noqa: A002
    """A call of ``tool`` whose arguments have about so many tokens."""
    path = f"src/{text_of(1, id)}/{text_of(1, id + 'f')}_{id[-4:].strip('_')}.py"
    body = text_of(max(1, tokens - 12), id)
    arguments: dict[str, dict[str, Any]] = {
        "read_file": {"path": path},
        "edit_file": {"path": path, "old": body[: len(body) // 2] or "x", "new": body},
        "write_file": {"path": path, "content": body},
        "run_code": {"code": body},
    }
    return Call(id, tool, arguments[tool], result, seconds, **how)


# --- from a recorded session -----------------------------------------------------------------

RECORDED_WINDOW = 200_000
"""Of the models that the recorded sessions ran on."""

WIDE_WINDOW = 1_000_000
"""Of the models that most sessions run on today."""


def recorded(path: Path) -> Script:
    """The script of a skeleton: each line an event ``{"t", "kind", "role", "blocks", …}``.

    Compactions of the recorded agent, and the summaries it went on from, are left out. A reply
    that was stopped ends its turn with what it had said; calls that were never answered are left
    out. Thinking is left out.
    """
    events = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]
    model = next(event["model"] for event in events if event.get("model"))
    reader = _Reader(events)
    turns = tuple(reader.turns())
    requests = sum(len(turn.steps) for turn in turns)
    return Script(f"recorded, {requests} requests", model, RECORDED_WINDOW, turns)


class _Reader:
    def __init__(self, events: list[dict[str, Any]]) -> None:
        self._events = events
        self._results = {
            block["id"]: (block.get("cl100k") or 1, event["t"])
            for event in events
            for block in event.get("blocks", ())
            if block["type"] == "tool_result"
        }
        self._tools = self._roles()

    def turns(self) -> Iterator[Turn]:
        text, pause, steps = "", 0.0, list[Step]()
        before = 0.0
        summarised_at: float | None = None
        for number, event in enumerate(self._events):
            now = event["t"]
            if event["kind"] == "compaction":
                summarised_at = now
            elif event["role"] == "assistant":
                steps.append(self._step(event, f"{number:05d}"))
            elif _tokens(event, "text") and now != summarised_at:
                if steps:
                    yield Turn(pause, text, _ended(steps))
                    text, pause, steps = "", 0.0, []
                said = text_of(_tokens(event, "text"), f"user {number}")
                text = "\n".join(filter(None, (text, said)))
                pause += now - before
            before = now
        if steps:
            yield Turn(pause, text, _ended(steps))

    def _step(self, event: dict[str, Any], number: str) -> Step:
        text = text_of(_tokens(event, "text") or 2, f"reply {number}")
        calls: list[Call] = []
        free_at = event["t"]
        for block in event["blocks"]:
            if block["type"] != "tool_use" or block["id"] not in self._results:
                continue
            tokens, answered_at = self._results[block["id"]]
            id = f"toolu_{number}_{len(calls):02d}"  # noqa: A001
            calls.append(
                _call(
                    id,
                    self._tools[block["tool"]],
                    block.get("cl100k") or 1,
                    text_of(tokens, f"result {id}"),
                    max(0.0, answered_at - free_at),
                )
            )
            free_at = max(free_at, answered_at)
        return Step(text, tuple(calls))

    def _roles(self) -> dict[str, str]:
        """Which of our tools stands for one of the recorded agent's, by what goes in and out."""
        sizes: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for event in self._events:
            for block in event.get("blocks", ()):
                if block["type"] == "tool_use" and block["id"] in self._results:
                    result, _ = self._results[block["id"]]
                    sizes[block["tool"]].append((block.get("cl100k") or 1, result))
        return {tool: _role(found) for tool, found in sizes.items()}


def _role(sizes: list[tuple[int, int]]) -> str:
    given = statistics.median(size for size, _ in sizes)
    returned = statistics.median(size for _, size in sizes)
    if returned < 60 <= given:
        return "write_file" if given > 800 else "edit_file"
    return "read_file" if given < 60 and returned > 200 else "run_code"


def _tokens(event: dict[str, Any], kind: str) -> int:
    return sum(b.get("cl100k") or 0 for b in event["blocks"] if b["type"] == kind)


def _ended(steps: list[Step]) -> tuple[Step, ...]:
    """With a reply at the end that calls nothing: the person spoke into a turn that went on."""
    return tuple(steps) if not steps[-1].calls else (*steps, Step("Stopped."))


# --- generated -------------------------------------------------------------------------------

GENERATED_NAME = "47 hours"
GENERATED_HOURS = 47.0
GENERATED_REQUESTS = 1_000
GENERATED_MODEL = "claude-sonnet-5-5"
GENERATED_WINDOW = 1_000_000

SIZE = 0.8475
"""Times the sizes below. With it the input of all requests together is 490 million tokens if
nothing is ever compacted."""

# Tool, how often, tokens of its arguments and of its result (medians), seconds it takes.
_KINDS = (
    ("run_code", 0.5, 110, 190, 4.0),
    ("read_file", 0.2, 18, 620, 0.3),
    ("edit_file", 0.2, 150, 40, 0.5),
    ("write_file", 0.1, 300, 30, 0.5),
)
_ERRORS = 0.05
"""Share of the runs that fail."""


def generated(requests: int = GENERATED_REQUESTS) -> Script:
    """Two days on one notebook: bursts of work, pauses, two nights, some long runs."""
    rng = random.Random(47)
    turns: list[Turn] = []
    sent = 0
    while sent < requests:
        length = min(requests - sent, 1 + min(30, int(rng.expovariate(1 / 7.8))))
        number = len(turns)
        steps = [
            _generated_step(rng, f"{number:04d}{index:02d}", last=index == length - 1)
            for index in range(length)
        ]
        text = text_of(_around(rng, 45), f"user {number}")
        turns.append(Turn(0.0, text, tuple(steps)))
        sent += length
    return Script(
        GENERATED_NAME,
        GENERATED_MODEL,
        GENERATED_WINDOW,
        tuple(_with_pauses(rng, turns, requests / GENERATED_REQUESTS)),
    )


def _generated_step(rng: random.Random, number: str, *, last: bool) -> Step:
    if last:
        return Step(text_of(_around(rng, 180), f"reply {number}"))
    calls = []
    for index in range(rng.choices((1, 2, 3), (0.8, 0.14, 0.06))[0]):
        tool, _, given, returned, seconds = rng.choices(_KINDS, [kind[1] for kind in _KINDS])[0]
        id = f"toolu_{number}_{index:02d}"  # noqa: A001
        failed = tool == "run_code" and rng.random() < _ERRORS
        result = text_of(_around(rng, returned), f"result {id}")
        if failed:
            result += f"\nValueError: {text_of(8, id)} at line {rng.randint(1, 400)}"
        took = seconds * rng.lognormvariate(0, 1)
        if tool == "run_code" and rng.random() < 0.012:
            took = rng.uniform(8, 50) * 60  # something is trained, or computed at length
        calls.append(_call(id, tool, _around(rng, given), result, took, is_error=failed))
    return Step(text_of(_around(rng, 25), f"reply {number}"), tuple(calls))


def _around(rng: random.Random, median: float) -> int:
    """A size as real ones are spread: most are small, a few many times the median."""
    return max(1, round(SIZE * median * min(12.0, rng.lognormvariate(0, 0.9))))


def _with_pauses(rng: random.Random, turns: list[Turn], share: float) -> Iterator[Turn]:
    """Pauses that make the session as long as it is to be."""
    worked = sum(call.seconds for turn in turns for s in turn.steps for call in s.calls)
    answered = 6.0 * sum(len(turn.steps) for turn in turns)
    pauses = [rng.lognormvariate(0, 1.1) * 150.0 for _ in turns]
    for index in range(7, len(turns), 9):
        pauses[index] = rng.uniform(20, 80) * 60
    nights = {len(turns) // 3: 8.5 * HOUR, 2 * len(turns) // 3: 9.5 * HOUR}
    left = GENERATED_HOURS * HOUR * share - worked - answered - sum(nights.values()) * (share >= 1)
    scale = max(0.1, left / sum(pauses))
    for index, turn in enumerate(turns):
        pause = nights[index] if share >= 1 and index in nights else pauses[index] * scale
        yield Turn(pause if index else 0.0, turn.text, turn.steps)
