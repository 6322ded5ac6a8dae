"""Rules that span blocks: order, pairing, cache marks, tool choice, thinking configuration."""

from __future__ import annotations

from typing import Any

from tests.messages_api.catalogue import ModelSpec
from tests.messages_api.errors import refuse

MAX_MARKS = 4
MIN_THINKING_BUDGET = 1_024
BINDING_BETA = "thinking-binding-controls-2026-08-01"


def check_order(messages: list[dict[str, Any]], *, compacting: bool = False) -> None:
    """The first message and the last are the user's.

    A block that stands for what was compacted may be an assistant message of its own; and a
    request for one may end with any message. A reply that was paused between the API's own tools
    comes back as the end, to go on.
    """
    if messages[0]["role"] != "user" and messages[0]["content"][0]["type"] != "compaction":
        raise refuse("messages", 'first message must use the "user" role')
    paused = messages[-1]["content"][-1]["type"] in ("server_tool_use", "web_search_tool_result")
    if messages[-1]["role"] == "assistant" and not compacting and not paused:
        raise refuse(
            "",
            "This model does not support assistant message prefill. The conversation must end "
            "with a user message.",
        )


def check_pairing(messages: list[dict[str, Any]]) -> None:
    """Each ``tool_use`` is answered in the very next message, results first, nothing else."""
    seen: set[str] = set()
    for i, message in enumerate(messages):
        if message["role"] == "assistant":
            calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
            for call_id in calls:
                if call_id in seen:
                    raise refuse("messages", "`tool_use` ids must be unique")
                seen.add(call_id)
            if calls:
                _check_answered(i, calls, messages)
        else:
            _check_results(i, message, messages)


def check_own_tools(messages: list[dict[str, Any]]) -> None:
    """Each call of the API's own tools has its result in the same reply.

    A reply that is paused may go on in a further assistant message, or behind the results of the
    other calls that it ends with.
    """
    open_calls: dict[str, str] = {}
    for i, message in enumerate(messages):
        asks = [block for block in message["content"] if block["type"] != "tool_result"]
        if message["role"] == "user" and asks and open_calls:
            call_id, name = next(iter(open_calls.items()))
            raise refuse(
                f"messages.{i - 1}",
                f"`{name}` tool use with id `{call_id}` was found without a corresponding "
                f"`{name}_tool_result` block",
            )
        for block in message["content"]:
            if block["type"] == "server_tool_use":
                open_calls[block["id"]] = block["name"]
            elif block["type"] != "web_search_tool_result":
                continue
            elif open_calls.pop(block["tool_use_id"], None) is None:
                raise refuse(
                    f"messages.{i}",
                    "unexpected `tool_use_id` found in `web_search_tool_result` blocks: "
                    f"{block['tool_use_id']}",
                )


def _check_answered(i: int, calls: list[str], messages: list[dict[str, Any]]) -> None:
    following = messages[i + 1]["content"] if i + 1 < len(messages) else []
    answered = {block["tool_use_id"] for block in following if block["type"] == "tool_result"}
    missing = [call_id for call_id in calls if call_id not in answered]
    if missing:
        raise refuse(
            f"messages.{i}",
            "`tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding "
            "`tool_result` block in the next message.",
        )


def _check_results(i: int, message: dict[str, Any], messages: list[dict[str, Any]]) -> None:
    before = messages[i - 1] if i else None
    called = (
        {block["id"] for block in before["content"] if block["type"] == "tool_use"}
        if before and before["role"] == "assistant"
        else set()
    )
    answered: set[str] = set()
    other = False
    for j, block in enumerate(message["content"]):
        if block["type"] != "tool_result":
            other = True
            continue
        call_id = block["tool_use_id"]
        where = f"messages.{i}.content.{j}"
        if call_id not in called:
            raise refuse(
                where,
                f"unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous "
                "message.",
            )
        if call_id in answered:
            raise refuse(where, "each tool_use must have a single result. Found multiple")
        if other:
            raise refuse(where, "`tool_result` blocks must come first in the message's content")
        answered.add(call_id)


def marks(
    system: list[dict[str, Any]],
    tools: list[dict[str, Any]],
    messages: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Every cache mark in the order the prompt is read: tools, system, messages."""
    blocks = [*tools, *system]
    for message in messages:
        for block in message["content"]:
            if block["type"] == "tool_result" and isinstance(block.get("content"), list):
                blocks += block["content"]
            blocks.append(block)
    return [block["cache_control"] for block in blocks if block.get("cache_control") is not None]


def check_marks(found: list[dict[str, Any]], top_level: dict[str, Any] | None) -> None:
    """At most four, and those of an hour before those of five minutes."""
    count = len(found) + (top_level is not None)
    if count > MAX_MARKS:
        raise refuse(
            "",
            f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {count}.",
        )
    short = False
    for mark in [*found, *([top_level] if top_level else [])]:
        if mark.get("ttl", "5m") == "5m":
            short = True
        elif short:
            raise refuse(
                "",
                "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control "
                "block. Note that blocks are processed in the following order: `tools`, "
                "`system`, `messages`.",
            )


def check_tool_use(
    body: dict[str, Any],
    tools: list[dict[str, Any]],
    messages: list[dict[str, Any]],
    spec: ModelSpec,
) -> None:
    """Tools are defined where they are used; a forced choice is allowed and names one of them."""
    uses = any(
        block["type"] in ("tool_use", "tool_result")
        for message in messages
        for block in message["content"]
    )
    if uses and not tools:
        raise refuse(
            "", "Requests which include `tool_use` or `tool_result` blocks must define tools"
        )
    choice = body.get("tool_choice")
    if choice is None:
        return
    kind = choice.get("type")
    if kind not in ("auto", "any", "tool", "none"):
        raise refuse("tool_choice.type", "Input should be 'auto', 'any', 'tool' or 'none'")
    allowed = {"type"} | ({"name"} if kind == "tool" else set())
    allowed |= {"disable_parallel_tool_use"} if kind != "none" else set()
    for key in choice:
        if key not in allowed:
            raise refuse(f"tool_choice.{kind}.{key}", "Extra inputs are not permitted")
    if not tools:
        raise refuse("tool_choice", "may only be specified while providing tools")
    if kind in ("any", "tool"):
        if not spec.forced_tools or thinking_type(body, spec) not in ("disabled", "between_tools"):
            raise refuse("", "Thinking may not be enabled when tool_choice forces tool use.")
        if kind == "tool" and choice.get("name") not in {tool["name"] for tool in tools}:
            raise refuse("tool_choice", f"Tool '{choice.get('name')}' not found in provided tools")


def thinking_type(body: dict[str, Any], spec: ModelSpec) -> str:
    thinking = body.get("thinking")
    return str(thinking["type"]) if thinking else spec.thinking_default


def thinking_display(body: dict[str, Any], spec: ModelSpec) -> str:
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "between_tools":
        return "summarized"
    return str(thinking.get("display") or spec.display_default)


def drops_unbound(body: dict[str, Any]) -> bool:
    """Whether thinking whose prefix has changed is dropped, not refused."""
    binding = (body.get("thinking") or {}).get("block_binding") or {}
    return binding.get("prefix_mismatch_behavior") == "drop_block"


def check_thinking_config(body: dict[str, Any], spec: ModelSpec, betas: set[str]) -> None:
    thinking = body.get("thinking")
    if thinking is None:
        return
    kind = thinking.get("type")
    if kind not in spec.thinking_types:
        raise refuse(
            f"thinking.type.{kind}",
            f'"thinking.type.{kind}" is not supported for this model. Use one of '
            f"{', '.join(spec.thinking_types)}.",
        )
    allowed = {"type"}
    if kind in ("adaptive", "enabled"):
        allowed |= {"display"}
    if kind == "enabled":
        allowed |= {"budget_tokens"}
    if BINDING_BETA in betas:
        allowed |= {"block_binding"}
    for key in thinking:
        if key not in allowed:
            raise refuse(f"thinking.{kind}.{key}", "Extra inputs are not permitted")
    if thinking.get("display", "summarized") not in ("summarized", "omitted", None):
        raise refuse(f"thinking.{kind}.display", "Input should be 'summarized' or 'omitted'")
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int) or budget < MIN_THINKING_BUDGET:
            raise refuse(
                "thinking.enabled.budget_tokens",
                f"Input should be greater than or equal to {MIN_THINKING_BUDGET}",
            )
        if "max_tokens" in body and budget >= body["max_tokens"]:
            raise refuse("", "`max_tokens` must be greater than `thinking.budget_tokens`.")
