"""How exact the token estimate is on a recorded session, and what counting costs.

    python bench/tokens.py session.jsonl …

Each line of a file is one event: ``{"kind": "message", "role": …, "blocks": [{"type": …,
"cl100k": …}], "usage": {"input": …, "cache_read": …, "cache_write": …, "output": …}, "model": …}``
or ``{"kind": "compaction"}``. Sizes are all it needs, no text.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prime_ext.context import tokens
from prime_ext.context.tokens import MESSAGE_TOKENS, Size, UsageEstimator, context_tokens

WARM_UP = 5
"""Requests before errors are counted: the overhead of system prompt and tools is not recorded."""


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
    """Of each request: how far the estimate is off, and how far the raw count is."""
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
    sys.stdout.write(f"  ratio learned: {estimator.ratio:.3f} in {estimator.lessons} lessons\n")


def report(path: Path) -> None:
    events = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]
    sys.stdout.write(f"{path.name}: {len(events)} events\n")
    found = list(errors(events))[WARM_UP:]
    for name, off in (
        ("estimate", sorted(estimate for estimate, _ in found)),
        ("raw count", sorted(raw for _, raw in found)),
    ):
        sys.stdout.write(
            f"  {name}: off by {statistics.mean(off):.0f} tokens in the mean, "
            f"{statistics.median(off):.0f} in the median, {off[int(len(off) * 0.95)]} at 95 %, "
            f"{off[-1]} at most ({len(off)} requests)\n"
        )


def speed() -> None:
    started = time.perf_counter()
    asyncio.run(tokens.load())
    sys.stdout.write(f"tokenizer loaded in {time.perf_counter() - started:.3f} s\n")
    source = Path(tokens.__file__).read_text("utf-8")
    for name, text in (
        ("1 MB of code", source * (1_000_000 // len(source))),
        ("1 MB of base64", ("QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9w" * 18_000)),
    ):
        started = time.perf_counter()
        count = tokens.count_text(text)
        seconds = time.perf_counter() - started
        sys.stdout.write(f"{name}: {count} tokens in {seconds * 1000:.0f} ms\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("traces", nargs="*", type=Path)
    speed()
    for path in parser.parse_args().traces:
        report(path)


if __name__ == "__main__":
    main()
