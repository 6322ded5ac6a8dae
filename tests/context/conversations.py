"""Random sessions, as records, for property tests."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from prime_ext.session.records import (
    AnyRecord,
    AssistantMessage,
    CompactionEnd,
    Error,
    Interrupt,
    Prune,
    SessionStart,
    Settings,
    ToolResult,
    TurnEnd,
    UserMessage,
)

SYSTEM: list[dict[str, Any]] = [{"type": "text", "text": "You work on a notebook."}]
TOOLS: list[dict[str, Any]] = [
    {"name": "run_code", "description": "Run.", "input_schema": {"type": "object"}}
]
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)

BLOCK: dict[str, Any] = {"type": "compaction", "content": "What was.", "signature": "s"}
"""A summary that the model's server has signed."""

texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["", "  \n", "fit <|endoftext|> model", "模型 数据"]
)


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def image_block() -> dict[str, Any]:
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PNG},
    }


def start() -> SessionStart:
    return SessionStart(
        version="0",
        notebook="a.ipynb",
        provider="anthropic",
        model="claude-sonnet-5-5",
        permission_mode="auto",
        system=SYSTEM,
        tools=TOOLS,
    )


@st.composite
def turns(draw: st.DrawFn, number: int, endings: tuple[str, ...]) -> list[AnyRecord]:
    """One turn, possibly cut off by a crash or a stop anywhere."""
    turn = f"t{number}"
    records: list[AnyRecord] = [
        UserMessage(text="q", content=[text_block(f"question {number}")], turn=turn)
    ]
    for step in range(draw(st.integers(0, 3))):
        calls = [
            {
                "type": "tool_use",
                "id": f"c{number}-{step}-{i}",
                "name": "run_code",
                "input": {"code": draw(texts)},
            }
            for i in range(draw(st.integers(1, 3)))
        ]
        content = [text_block(draw(texts)), *calls]
        if draw(st.booleans()):
            content.insert(0, {"type": "thinking", "thinking": "hm", "signature": "s"})
        records.append(AssistantMessage(content=content, model="m", turn=turn))
        answered = draw(st.permutations(calls)) if draw(st.booleans()) else list(calls)
        lost = draw(st.integers(0, len(calls))) if draw(st.integers(0, 9)) == 0 else 0
        for call in answered[lost:]:
            result = [text_block(draw(texts))]
            if draw(st.integers(0, 5)) == 0:
                result.append(image_block())
            records.append(
                ToolResult(
                    tool_use_id=str(call["id"]),
                    name="run_code",
                    content=result,
                    is_error=draw(st.booleans()),
                    turn=turn,
                )
            )
        if lost:
            records.append(Interrupt(phase="tool", turn=turn))
            records.append(TurnEnd(status="interrupted", turn=turn))
            return records
    ending = draw(st.sampled_from(endings))
    if ending == "paused":
        content = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
        content += [text_block("Searching.")] if draw(st.booleans()) else []
        for number in range(draw(st.integers(1, 2))):
            search_id = f"s{number}"
            search = {"type": "server_tool_use", "id": search_id, "name": "search", "input": {}}
            found = {"type": "web_search_tool_result", "tool_use_id": search_id, "content": []}
            content += [search, found] if draw(st.booleans()) else [search]
        records.append(
            AssistantMessage(content=content, model="m", stop_reason="pause_turn", turn=turn)
        )
    if ending in ("error", "paused"):
        records.append(Error(code="x", message="y", turn=turn))
    else:
        text = f"answer {number}" if ending == "reply" else " "
        records.append(AssistantMessage(content=[text_block(text)], model="m", turn=turn))
    records.append(TurnEnd(status="ok", turn=turn))
    return records


@st.composite
def sessions(
    draw: st.DrawFn, endings: tuple[str, ...] = ("reply", "blank", "error")
) -> list[AnyRecord]:
    """``session_start`` and some turns, numbered."""
    records: list[AnyRecord] = [start()]
    for number in range(draw(st.integers(1, 4))):
        records.extend(draw(turns(number, endings)))
    return numbered(records)


@st.composite
def histories(draw: st.DrawFn) -> list[AnyRecord]:
    """A session with prunes, compactions and changes of model at any point, cut off anywhere.

    Some of them are left to the model's server, which may refuse to go on with it.
    """
    records = draw(sessions(("reply", "blank", "error", "paused")))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(1, len(records)))
        what = draw(st.sampled_from(["prune", "compaction", "settings"]))
        results = [r.seq for r in records[:at] if isinstance(r, ToolResult)]
        record: AnyRecord
        if what == "prune" and results:
            record = Prune(
                compaction_id="p",
                pruned=draw(st.lists(st.sampled_from(results), unique=True)),
                tokens_before=2,
                tokens_after=1,
                by_server=draw(st.booleans()),
            )
        elif what == "compaction":
            record = CompactionEnd(
                compaction_id="c",
                outcome="ok",
                trigger="manual",
                path="digest",
                tokens_before=2,
                tokens_after=1,
                summary="<compaction-summary>s</compaction-summary>",
                kept_from_seq=draw(st.none() | st.integers(2, max(2, at))),
                block=draw(st.none() | st.just(BLOCK)),
                keeps_thinking=draw(st.booleans()),
            )
        else:
            changes = [
                Settings(model="other"),
                Settings(server_side=False),
                Settings(drops_thinking=True),
            ]
            record = draw(st.sampled_from(changes))
        records = [*records[:at], record, *records[at:]]
    return numbered(records[: draw(st.integers(1, len(records)))])


def numbered(records: list[AnyRecord]) -> list[AnyRecord]:
    return [
        msgspec.structs.replace(record, seq=seq, id=str(seq), ts="2026-01-01T00:00:00.000Z")
        for seq, record in enumerate(records, start=1)
    ]
