"""How exact the token estimate is on recorded sessions, and what counting costs.

``python -m bench.tokens session.jsonl …``

Each line of a file is one event: ``{"kind": "message", "role": …, "blocks": [{"type": …,
"cl100k": …}], "usage": {"input": …, "cache_read": …, "cache_write": …, "output": …}, "model": …}``
or ``{"kind": "compaction"}``. Sizes are all it needs, no text.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.report import Measure, report
from prime_ext.context import tokens
from prime_ext.context.tokens import MESSAGE_TOKENS, Size, UsageEstimator, context_tokens

MEGABYTE = 1_000_000


def size_of(event: dict[str, Any]) -> Size:
    frames = sum(block["type"] in ("tool_use", "tool_result") for block in event["blocks"])
    text = sum(block.get("cl100k") or 0 for block in event["blocks"])
    return Size(text + MESSAGE_TOKENS * (1 + frames))


def usage_of(event: dict[str, Any]) -> dict[str, int]:
    usage = event.get("usage") or {}
    return {
        "input_tokens": usage.get("input", 0),
        "cache_read_input_tokens": usage.get("cache_read", 0),
        "cache_creation_input_tokens": usage.get("cache_write", 0),
        "output_tokens": usage.get("output", 0),
    }


def errors(events: list[dict[str, Any]]) -> Iterator[tuple[int, int]]:
    """Of each request on top of a reported one: how far the estimate is off, and the raw count."""
    model = next((event["model"] for event in events if event.get("model")), "")
    estimator = UsageEstimator.for_model(model)
    context = Size(0)
    for event in events:
        if event["kind"] == "compaction":
            estimator.drop_anchor()
            context = Size(0)
            continue
        size = size_of(event)
        usage = usage_of(event)
        actual = context_tokens(usage)
        if event["role"] == "assistant" and actual:
            if estimator.anchored:
                yield abs(estimator.estimate(context) - actual), abs(context.raw - actual)
            estimator.observe(usage, context, reply=size)
        context = context.plus(size)


def session(path: Path) -> list[Measure]:
    events = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]
    found = list(errors(events))
    off = sorted(estimate for estimate, _ in found)
    raw = [raw for _, raw in found]
    name = path.stem
    return [
        Measure(f"{name}: mean error", statistics.mean(off), "tokens", 200, len(found)),
        Measure(f"{name}: median error", statistics.median(off), "tokens", 80, len(found)),
        Measure(f"{name}: error at 95 %", off[int(len(off) * 0.95)], "tokens", 1_000, len(found)),
        Measure(f"{name}: raw count, mean error", statistics.mean(raw), "tokens"),
    ]


def counting() -> list[Measure]:
    started = time.perf_counter()
    asyncio.run(tokens.load())
    measures = [Measure("loading the tokenizer", time.perf_counter() - started, "s", 1.0)]
    source = Path(tokens.__file__).read_text("utf-8")
    noise = random.Random(0).randbytes(MEGABYTE)
    for name, text in (
        ("counting 1 MB of code", source * (MEGABYTE // len(source))),
        ("counting 1 MB of base64", base64.b64encode(noise).decode()[:MEGABYTE]),
    ):
        started = time.perf_counter()
        tokens.count_text(text)
        milliseconds = (time.perf_counter() - started) * 1000
        measures.append(Measure(name, milliseconds, "ms", 1_000))
    return measures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.tokens")
    parser.add_argument("sessions", nargs="*", type=Path)
    measures = counting()
    for path in parser.parse_args().sessions:
        measures += session(path)
    return report("tokens", measures)


if __name__ == "__main__":
    sys.exit(main())
