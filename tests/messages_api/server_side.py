"""Context editing and compaction on demand: what a request may ask for, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.messages_api.catalogue import ModelSpec
from tests.messages_api.errors import refuse
from tests.messages_api.prompt import block_tokens
from tests.messages_api.stream import Block, Rendered

EDITING_BETA = "context-management-2025-06-27"
COMPACTION_BETA = "compact-2026-09-04"
MAX_INSTRUCTIONS = 16_384
CLEAR_TOOL_USES = "clear_tool_uses_20250919"
DEFAULT_TRIGGER = {"type": "input_tokens", "value": 100_000}
DEFAULT_KEEP = {"type": "tool_uses", "value": 3}
PLACEHOLDER = "[Old tool result content cleared]"


def check(
    body: dict[str, Any], messages: list[dict[str, Any]], spec: ModelSpec, betas: set[str]
) -> None:
    """Both parameters, and where a block may stand."""
    if body.get("compaction") is not None:
        if COMPACTION_BETA not in betas:
            raise refuse("compaction", f"requires anthropic-beta: {COMPACTION_BETA}")
        _check_compaction(body, messages, spec)
    if body.get("context_management") is not None:
        if EDITING_BETA not in betas:
            raise refuse("context_management", "Extra inputs are not permitted")
        check_edits(body["context_management"], spec)
    _check_block(messages, spec)


def _check_compaction(
    body: dict[str, Any], messages: list[dict[str, Any]], spec: ModelSpec
) -> None:
    asked = body["compaction"]
    if asked.get("type") != "summarize":
        raise refuse("compaction.type", "Input should be 'summarize'")
    for key in asked:
        if key not in ("type", "instructions"):
            raise refuse(f"compaction.summarize.{key}", "Extra inputs are not permitted")
    instructions = asked.get("instructions") or ""
    if not isinstance(instructions, str) or len(instructions) > MAX_INSTRUCTIONS:
        raise refuse(
            "compaction.summarize.instructions",
            f"String should have at most {MAX_INSTRUCTIONS} characters",
        )
    if not spec.compacts:
        raise refuse("compaction", f"not supported for {spec.id}")
    for key in ("context_management", "stop_sequences"):
        if body.get(key):
            raise refuse("", f"`{key}` cannot be combined with `compaction`")
    if (body.get("output_config") or {}).get("format"):
        raise refuse("", "`output_config.format` cannot be combined with `compaction`")
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        raise refuse("", "`tool_choice` that forces a tool cannot be combined with `compaction`")
    last = messages[-1]
    if last["role"] == "assistant" and any(b["type"] == "tool_use" for b in last["content"]):
        raise refuse(
            "messages",
            "the last assistant turn has a tool call without a result",
            code="compaction_incomplete_turn",
        )
    if all(b["type"] == "compaction" for m in messages for b in m["content"]):
        raise refuse(
            "messages", "there is nothing to summarize", code="compaction_nothing_to_summarize"
        )


def _check_block(messages: list[dict[str, Any]], spec: ModelSpec) -> None:
    places = [
        (i, j)
        for i, message in enumerate(messages)
        for j, block in enumerate(message["content"])
        if block["type"] == "compaction"
    ]
    if not places:
        return
    if not spec.compacts:
        raise refuse("messages.0.content.0", f"compaction blocks are not supported for {spec.id}")
    if len(places) > 1:
        raise refuse(
            "messages", "more than one compaction block", code="compaction_block_ambiguous"
        )
    if places[0] != (0, 0):
        raise refuse(
            f"messages.{places[0][0]}.content.{places[0][1]}",
            "the compaction block must come first",
            code="compaction_block_misplaced",
        )


def check_edits(asked: dict[str, Any], spec: ModelSpec) -> None:
    """What a request may have left out of its messages."""
    for key in asked:
        if key != "edits":
            raise refuse(f"context_management.{key}", "Extra inputs are not permitted")
    for i, edit in enumerate(asked.get("edits") or []):
        where = f"context_management.edits.{i}"
        if edit.get("type") != CLEAR_TOOL_USES:
            raise refuse(where, f"Input tag {edit.get('type')!r} is not served here")
        if not spec.clears_tool_uses:
            raise refuse(where, f"{CLEAR_TOOL_USES} is not supported for {spec.id}")
        for key in edit:
            if key not in ("type", "trigger", "keep"):
                raise refuse(f"{where}.{key}", "Extra inputs are not served here")
        _check_amount(edit.get("keep", DEFAULT_KEEP), ("tool_uses",), f"{where}.keep")
        _check_amount(
            edit.get("trigger", DEFAULT_TRIGGER), ("input_tokens", "tool_uses"), f"{where}.trigger"
        )


def _check_amount(amount: object, kinds: tuple[str, ...], where: str) -> None:
    if not isinstance(amount, dict) or set(amount) != {"type", "value"}:
        raise refuse(where, "Input should be an object with `type` and `value`")
    if amount["type"] not in kinds:
        raise refuse(f"{where}.type", f"Input should be one of {', '.join(kinds)}")
    if not isinstance(amount["value"], int) or amount["value"] < 1:
        raise refuse(f"{where}.value", "Input should be greater than or equal to 1")


def edited(
    messages: list[dict[str, Any]], asked: dict[str, Any] | None, tokens: int, spec: ModelSpec
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What the model reads of ``messages``, and the ``applied_edits`` of the reply.

    ``tokens`` is the size of the prompt as it was sent.
    """
    applied = []
    for edit in (asked or {}).get("edits") or []:
        uses = [
            block["id"]
            for message in messages
            for block in message["content"]
            if block["type"] == "tool_use"
        ]
        trigger = edit.get("trigger", DEFAULT_TRIGGER)
        size = len(uses) if trigger["type"] == "tool_uses" else tokens
        if size <= trigger["value"]:
            continue
        keep = edit.get("keep", DEFAULT_KEEP)["value"]
        gone = set(uses[: max(0, len(uses) - keep)])
        before = _result_tokens(messages, gone, spec)
        messages = [
            {
                "role": message["role"],
                "content": [
                    {**block, "content": PLACEHOLDER}
                    if block["type"] == "tool_result" and block["tool_use_id"] in gone
                    else block
                    for block in message["content"]
                ],
            }
            for message in messages
        ]
        cleared = before - _result_tokens(messages, gone, spec)
        if gone:
            applied.append(
                {
                    "type": CLEAR_TOOL_USES,
                    "cleared_tool_uses": len(gone),
                    "cleared_input_tokens": max(0, cleared),
                }
            )
    return messages, applied


def _result_tokens(messages: list[dict[str, Any]], ids: set[str], spec: ModelSpec) -> int:
    return sum(
        block_tokens(block, spec)
        for message in messages
        for block in message["content"]
        if block["type"] == "tool_result" and block["tool_use_id"] in ids
    )


def as_compaction(rendered: Rendered, sign: Any) -> Rendered:
    """A reply to a request for a compaction: the block alone, or nothing at all.

    ``sign`` gives the signature of a summary.
    """
    kinds = [block.whole["type"] for block in rendered.blocks]
    text = "".join(b.whole["text"] for b in rendered.blocks if b.whole["type"] == "text").strip()
    if rendered.stop_reason != "end_turn" or "tool_use" in kinds or not text:
        return replace(rendered, blocks=())
    block = {"type": "compaction", "content": text, "signature": sign(text)}
    return replace(rendered, blocks=(Block(block, (), block),), stop_reason="compaction")


def as_iteration(usage: dict[str, Any]) -> dict[str, Any]:
    """The ``usage`` of a compaction: an entry of its own beside sums that are zero."""
    zero = {
        "input_tokens": 0,
        "output_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
    return {**zero, "iterations": [{"type": "compaction", **usage}]}
