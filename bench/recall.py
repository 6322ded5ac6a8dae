"""What is left of exact details after five compactions: without looking, and by searching.

200 facts that nobody could guess are planted in a session that the real agent then compacts five
times. The model's own summaries say nothing of them, so that what stands in the context afterwards
is what code has kept; everything else has to be found with ``session_search``, called by the model
with the words it would know. Then how fast a search is on a log of 100 MB.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench import virtual_time
from bench.context_engine import Observer, person
from bench.context_figures import LATENCY, Run, percentile
from bench.filler import WORDS, text_of
from bench.headless import extension, serving
from bench.report import Measure, markdown, put_into, report
from bench.session_script import Call, Script, Step, Turn
from bench.virtual_time import LoopClock
from prime_ext.session.log import SessionLog
from prime_ext.session.recall import Recall
from prime_ext.session.records import (
    AssistantMessage,
    CompactionEnd,
    ToolResult,
    UserMessage,
)
from prime_ext.session.session import Session
from tests.messages_api.server import MessagesAPI

MODEL, WINDOW = "claude-haiku-4-5", 200_000
COMPACTIONS = 5
FILLER_TOKENS = 2_500
FILLER_TURNS = 60
FACTS_OF_A_PLACE = 40
LOG_BYTES = 100_000_000

SUMMARY = "## Goal\nThe work goes on as it was asked for.\n## Next steps\nThe next open point."
"""What the model answers when it is asked for a summary: nothing that was planted."""


@dataclass(frozen=True)
class Fact:
    """A detail: what a model would search for, and what it then has to be told exactly."""

    place: str
    query: str
    exact: tuple[str, ...]
    text: str
    """As it is planted."""

    def is_in(self, entry: str) -> bool:
        """Whether all of it can be read there."""
        return all(part in entry for part in self.exact)


def path_with_line(name: str, rng: random.Random) -> tuple[str, tuple[str, ...], str]:
    path, line = f"src/loaders/{name}.py", str(rng.randint(100, 999))
    return name, (path, line), f"{path}:{line}"


def flag(name: str, rng: random.Random) -> tuple[str, tuple[str, ...], str]:
    text = f"--{name}-delay={rng.randint(101, 998)}ms"
    return f"{name}-delay", (text,), text


def value(name: str, rng: random.Random) -> tuple[str, tuple[str, ...], str]:
    text = f"{name}_rate = 0.{rng.randint(10_001, 99_998)}"
    return f"{name}_rate", (text,), text


def error(name: str, rng: random.Random) -> tuple[str, tuple[str, ...], str]:
    text = f"ValueError: column '{name}' has {rng.randint(11, 98)} rows of {rng.randint(300, 999)}"
    return f"column {name}", (text,), text


KINDS = (path_with_line, flag, value, error)
KEPT_PLACES = ("user message", "tool error", "file edit")
"""Where a fact is planted that has to stand in the context without a search."""
PLACES = (*KEPT_PLACES, "reply", "output", "capped output")


def facts(rng: random.Random) -> list[Fact]:
    """The facts of all places, mixed."""
    found = []
    number = 0
    for place in PLACES:
        count = FACTS_OF_A_PLACE if place in (*KEPT_PLACES, "reply") else FACTS_OF_A_PLACE // 2
        for index in range(count):
            # A name that is no word, so that it is in no other record.
            name = f"{rng.choice('bdgkmprtz')}{rng.choice('aeiou')}x{number:03d}"
            kind = error if place == "tool error" else KINDS[index % len(KINDS)]
            query, exact, text = kind(name, rng)
            if place == "tool error":
                line = str(rng.randint(100, 999))
                exact = (*exact, f"src/jobs/{name}.py", line)
                text = (
                    f"Traceback (most recent call last):\n"
                    f'  File "src/jobs/{name}.py", line {line}, in run\n'
                    f"    check(frame)\n{text}"
                )
            found.append(Fact(place, query, exact, text))
            number += 1
    rng.shuffle(found)
    return found


class _Planting:
    """Makes a script of facts and of filler between them."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._calls = 0

    def script(self, planted: Sequence[Fact], filler_tokens: int) -> Script:
        """Turns with a fact or two each, and filler so that the contexts fill."""
        turns = [
            self._turn(list(planted[start : start + 4]), filler_tokens)
            for start in range(0, len(planted), 4)
        ]
        return Script("planted facts", MODEL, WINDOW, tuple(turns))

    def filler_turns(self, count: int, tokens: int) -> list[Turn]:
        """Turns without any fact."""
        return [self._turn([], tokens) for _ in range(count)]

    def _turn(self, planted: list[Fact], filler_tokens: int) -> Turn:
        asked = [fact.text for fact in planted if fact.place == "user message"]
        words = text_of(12, f"question {self._calls}").replace("\n", " ")
        question = ". ".join([f"Please {words}", *(f"Keep {text}" for text in asked)])
        steps = [
            self._step(fact, filler_tokens) for fact in planted if fact.place != "user message"
        ]
        said = [fact.text for fact in planted if fact.place == "reply"]
        last = "\n".join(
            [text_of(60, f"end {self._calls}"), *(f"I found {text}." for text in said)]
        )
        return Turn(30.0, question, (*steps, self._filler(filler_tokens), Step(last)))

    def _step(self, fact: Fact, filler_tokens: int) -> Step:
        before = text_of(self._around(filler_tokens // 2), f"before {fact.query}")
        after = text_of(self._around(filler_tokens // 2), f"after {fact.query}")
        if fact.place == "tool error":
            return self._call("run_code", {"code": f"run({fact.query!r})"}, fact.text, failed=True)
        if fact.place == "file edit":
            return self._edit(fact)
        if fact.place == "output":
            return self._call(
                "run_code", {"code": "report()"}, f"{before}\nresult: {fact.text}\n{after}"
            )
        if fact.place == "capped output":
            long = "\n".join(text_of(4_000, f"{fact.query} {part}") for part in range(4))
            middle = len(long) // 2
            text = f"{long[:middle]}\nresult: {fact.text}\n{long[middle:]}"
            return self._call("run_code", {"code": "report(all=True)"}, text)
        return self._filler(filler_tokens)

    def _edit(self, fact: Fact) -> Step:
        changed, _, line = fact.text.partition(":")
        if line.isdigit():  # the place itself is the fact
            old, new = f"# see line {line}", f"# line {line} of {changed} is right as it is"
        else:
            changed, old, new = f"conf/{fact.query.split()[-1]}.toml", "# to be set", fact.text
        return self._call("edit_file", {"path": changed, "old": old, "new": new}, "Edited.")

    def _filler(self, tokens: int) -> Step:
        """Mostly code: long outputs would be pruned, and no summary be needed."""
        code = text_of(self._around(tokens), f"filler {self._calls}")
        return self._call("run_code", {"code": code}, text_of(100, f"output {self._calls}"))

    def _call(
        self, tool: str, arguments: dict[str, Any], result: str, *, failed: bool = False
    ) -> Step:
        self._calls += 1
        id = f"toolu_{self._calls:05d}"  # noqa: A001
        return Step("Next.", (Call(id, tool, arguments, result, 1.0, failed),))

    def _around(self, tokens: int) -> int:
        return round(tokens * self._rng.uniform(0.5, 1.5))


def searching(planted: Sequence[Fact]) -> Turn:
    """The model looks each fact up, several at once."""
    steps = []
    for first in range(0, len(planted), 5):
        calls = tuple(
            Call(_search_id(fact), "session_search", {"query": fact.query, "limit": 5}, "", 0.0)
            for fact in planted[first : first + 5]
        )
        steps.append(Step("I look it up.", calls))
    return Turn(30.0, "What were all these details?", (*steps, Step("There they are.")))


def _search_id(fact: Fact) -> str:
    return f"toolu_search_{fact.query.replace(' ', '_')}"


async def look_back(planted: Sequence[Fact]) -> tuple[list[Measure], dict[str, Any]]:
    """Plant the facts, compact often enough, and see what is there."""
    planting = _Planting(random.Random(1))
    script = planting.script(planted, FILLER_TOKENS)
    filler = planting.filler_turns(FILLER_TURNS, FILLER_TOKENS)
    search = searching(planted)
    whole = replace(script, turns=(*script.turns, *filler, search))
    api = MessagesAPI(clock=LoopClock(), latency=LATENCY)
    api.set_window(MODEL, WINDOW)
    observer = Observer(MODEL, SUMMARY, Run(script.name, "prime", WINDOW, 0))
    api.respond = observer.respond
    with tempfile.TemporaryDirectory() as folder:
        async with (
            serving(api),
            extension(whole, Path(folder), api, {}) as service,
            person(service, observer) as ada,
        ):
            for turn in script.turns:
                await ada.take(turn)
            last_fact = ada.session.log.last_seq
            for turn in filler:
                done = summaries(ada.session)
                if len(done) >= COMPACTIONS and (done[-1].kept_from_seq or 0) > last_fact:
                    break
                await ada.take(turn)
            await ada.take(search)
            return _found(planted, ada.session)


def summaries(session: Session) -> list[CompactionEnd]:
    """The compactions that put a summary in the place of messages."""
    return [
        record
        for record in session.records_of("compaction_end")
        if isinstance(record, CompactionEnd) and record.summary
    ]


def _found(planted: Sequence[Fact], session: Session) -> tuple[list[Measure], dict[str, Any]]:
    done = summaries(session)
    summary = done[-1].summary or ""
    answers = {
        record.tool_use_id: "\n".join(block["text"] for block in record.content)
        for record in session.records_of("tool_result")
        if isinstance(record, ToolResult) and record.name == "session_search"
    }
    hits = {fact: answers[_search_id(fact)].split("<record ")[1:] for fact in planted}
    searched = [fact for fact in planted if any(map(fact.is_in, hits[fact]))]
    stands = [fact for fact in planted if any(map(fact.is_in, summary.split("\n- ")))]
    kept = [fact for fact in planted if fact.place in KEPT_PLACES]
    measures = [
        Measure("compactions", len(done), "", at_least=COMPACTIONS),
        Measure("facts", len(planted), "", at_least=200),
        _share_of("found by session_search", searched, planted, 100),
        _share_of(
            "in the summary turn: tool errors, file edits, user messages",
            [fact for fact in kept if fact in stands],
            kept,
            90,
        ),
    ]
    for place in PLACES:
        there = [fact for fact in planted if fact.place == place]
        measures.append(
            _share_of(f"in the summary turn: {place}", [f for f in there if f in stands], there)
        )
    measures.append(Measure("summary turn", len(summary), "chars"))
    lost = {
        "not found": {
            fact.query: answers[_search_id(fact)] for fact in planted if fact not in searched
        },
        "not in the summary turn": [fact.text for fact in kept if fact not in stands],
    }
    return measures, lost


def _share_of(
    name: str, found: Sequence[Fact], all_: Sequence[Fact], at_least: float | None = None
) -> Measure:
    return Measure(name, 100 * len(found) / len(all_), "%", samples=len(all_), at_least=at_least)


# --- how fast --------------------------------------------------------------------------------


def write_log(path: Path, planted: Sequence[Fact]) -> None:
    """A log of ``LOG_BYTES``: long outputs, some of them with a fact."""
    rng = random.Random(100)
    log = SessionLog.open(path)
    unplanted = list(planted)
    number = 0
    while path.stat().st_size < LOG_BYTES:
        number += 1
        text = text_of(rng.randint(200, 2_000), f"log {number}")
        if unplanted and number % 40 == 0:
            text += f"\n{unplanted.pop().text}\n"
        content = [{"type": "text", "text": text}]
        kinds = (
            UserMessage(text=text, content=content),
            AssistantMessage(content=content, model=MODEL),
            ToolResult(tool_use_id=f"toolu_{number}", name="run_code", content=content),
        )
        log.append(kinds[number % len(kinds)])
    log.close()


def searches(planted: Sequence[Fact]) -> dict[str, list[str]]:
    """What is searched for, by kind."""
    rng = random.Random(3)
    return {
        "a name": [fact.query for fact in planted[:100]],
        "two common words": [" ".join(rng.sample(WORDS, 2)) for _ in range(50)],
        "a phrase": [f'"{" ".join(rng.sample(WORDS, 2))}"' for _ in range(50)],
        "the middle of a name": [fact.query.split()[-1][1:] for fact in planted[:20]],
        "nothing that is there": [f"zzq{number}" for number in range(20)],
    }


def how_fast(planted: Sequence[Fact]) -> list[Measure]:
    """Building the index of a large log, and searching it."""
    measures = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        write_log(path, planted)
        log = SessionLog.open(path)
        recall = Recall(Path(folder), log)
        started = time.perf_counter()
        recall.catch_up()
        measures.append(Measure("index of 100 MB, rebuilt", time.perf_counter() - started, "s"))
        for kind, queries in searches(planted).items():
            took = [_milliseconds(recall, query) for query in queries]
            name = f"search for {kind}"
            measures.append(Measure(f"{name}, median", percentile(took, 0.5), "ms"))
            measures.append(Measure(f"{name}, 95 %", percentile(took, 0.95), "ms"))
        recall.close()
        log.close()
    return measures


def _milliseconds(recall: Recall, query: str) -> float:
    started = time.perf_counter()
    recall.search(query, limit=10)
    return (time.perf_counter() - started) * 1000


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.recall")
    parser.add_argument(
        "--markdown", type=Path, help="a page with the marks `bench.recall`, for the table"
    )
    options = parser.parse_args(arguments)
    planted = facts(random.Random(200))
    measures, lost = virtual_time.run(look_back(planted))
    measures += how_fast(planted)
    if options.markdown:
        put_into(options.markdown, "bench.recall", markdown(measures))
    return report("recall", measures, lost=lost)


if __name__ == "__main__":
    sys.exit(main())
