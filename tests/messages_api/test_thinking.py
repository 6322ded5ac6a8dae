"""Thinking blocks that come back: whole and unchanged, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.messages_api.client import MODEL, TOOL, Client, assistant, result, user
from tests.messages_api.script import Thinking, reply
from tests.messages_api.script import call as tool_call
from tests.messages_api.server import MessagesAPI

SHOWN = {"type": "adaptive", "display": "summarized"}
OLD = "claude-sonnet-5"
BETA = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}


@pytest.fixture
def thought(messages_api: MessagesAPI, client: Client) -> list[dict[str, Any]]:
    """A reply with two thinking blocks and a call."""
    return think(messages_api, client, MODEL)


def think(messages_api: MessagesAPI, client: Client, model: str) -> list[dict[str, Any]]:
    messages_api.enqueue(
        reply(Thinking("One."), "So:", Thinking("Two."), tool_call("run_code", code="1"))
    )
    answer = client.ask([user("go")], tools=[TOOL], thinking=SHOWN, model=model).json
    assert [block["type"] for block in answer["content"]] == [
        "thinking",
        "text",
        "thinking",
        "tool_use",
    ]
    messages_api.respond = lambda _request: reply("ok")
    content: list[dict[str, Any]] = answer["content"]
    return content


def back(client: Client, content: list[dict[str, Any]], first: str = "go", **fields: Any) -> Any:
    call_id = next(block["id"] for block in content if block["type"] == "tool_use")
    messages = [user(first), assistant(*content), user(result(call_id))]
    return client.ask(messages, **{"tools": [TOOL], "thinking": SHOWN, **fields})


def test_unchanged_thinking_is_accepted(client: Client, thought: list[dict[str, Any]]) -> None:
    assert back(client, thought).status == 200


def test_thinking_left_out_altogether_is_accepted(
    client: Client, thought: list[dict[str, Any]]
) -> None:
    assert back(client, [b for b in thought if b["type"] != "thinking"]).status == 200


@pytest.mark.parametrize(
    "change",
    [
        {"thinking": "One!"},
        {"signature": "AAAA"},
        {"signature": "no base64"},
        {"thinking": ""},
    ],
)
def test_altered_thinking_is_refused(
    client: Client, thought: list[dict[str, Any]], change: dict[str, str]
) -> None:
    answer = back(client, [{**thought[0], **change}, *thought[1:]])
    assert answer.status == 400
    assert "messages.1.content.0: Invalid `signature` in `thinking` block" in answer.error


def test_a_signature_of_another_block_is_refused(
    client: Client, thought: list[dict[str, Any]]
) -> None:
    swapped = {**thought[0], "signature": thought[2]["signature"]}
    assert back(client, [swapped, *thought[1:]]).status == 400


@pytest.mark.parametrize("missing", [0, 2])
@pytest.mark.parametrize("model", [MODEL, OLD])
def test_partly_removed_thinking_is_refused(
    messages_api: MessagesAPI, client: Client, missing: int, model: str
) -> None:
    content = think(messages_api, client, model)
    answer = back(client, [b for i, b in enumerate(content) if i != missing], model=model)
    assert answer.status == 400


def test_a_changed_prefix_invalidates_bound_thinking(
    client: Client, thought: list[dict[str, Any]]
) -> None:
    for fields in (
        {"first": "went"},
        {"system": "other"},
        {"tools": [TOOL, {"name": "more", "input_schema": {"type": "object"}}]},
    ):
        answer = back(client, thought, **fields)
        assert answer.status == 400
        assert "bound to a different conversation" in answer.error
    stripped = [b for b in thought if b["type"] != "thinking"]
    assert back(client, stripped, first="went").status == 200


def test_cache_marks_are_no_change(client: Client, thought: list[dict[str, Any]]) -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    first = {"role": "user", "content": [{"type": "text", "text": "go", **mark}]}
    call_id = thought[3]["id"]
    answer = client.ask(
        [first, assistant(*thought), user({**result(call_id), **mark})],
        tools=[{**TOOL, **mark}],
        thinking=SHOWN,
    )
    assert answer.status == 200


def test_older_models_do_not_check_the_prefix(messages_api: MessagesAPI, client: Client) -> None:
    content = think(messages_api, client, OLD)
    assert back(client, content, first="went", model=OLD).status == 200


def test_a_changed_prefix_can_be_let_pass(
    messages_api: MessagesAPI, client: Client, thought: list[dict[str, Any]]
) -> None:
    binding = {**SHOWN, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    body = {
        "model": MODEL,
        "max_tokens": 100,
        "tools": [TOOL],
        "thinking": binding,
        "messages": [user("went"), assistant(*thought), user(result(thought[3]["id"]))],
    }
    assert client.send(body).status == 400, "without the beta header"
    assert client.send(body, headers=dict(BETA)).status == 200


def test_another_models_thinking_is_dropped(client: Client, thought: list[dict[str, Any]]) -> None:
    assert back(client, thought, model=OLD).status == 200


def test_text_is_left_out_unless_asked_for(messages_api: MessagesAPI, client: Client) -> None:
    messages_api.enqueue(reply(Thinking("Hidden."), "said"))
    content = client.ask([user("go")]).json["content"]
    assert content[0]["thinking"] == ""
    assert content[0]["signature"]
    messages_api.respond = lambda _request: reply("ok")
    assert client.ask([user("go"), assistant(*content), user("more")]).status == 200


def test_manual_thinking_needs_its_block_in_a_loop(
    messages_api: MessagesAPI, client: Client
) -> None:
    manual: dict[str, Any] = {
        "model": "claude-haiku-4-5",
        "max_tokens": 4_000,
        "thinking": {"type": "enabled", "budget_tokens": 1_024},
    }
    messages_api.enqueue(reply(Thinking("Hm."), tool_call("run_code", code="1")))
    content = client.ask([user("go")], tools=[TOOL], **manual).json["content"]
    messages_api.respond = lambda _request: reply("ok")
    assert back(client, content, **manual).status == 200
    answer = back(client, content[1:], **manual)
    assert answer.status == 400
    assert "Expected `thinking` or `redacted_thinking`, but found `tool_use`" in answer.error
    # Messages of one role that follow each other count as one.
    asked = [user("go"), assistant(*content[1:]), user(result(content[1]["id"])), user("and?")]
    assert client.ask(asked, tools=[TOOL], **manual).status == 400
    ended = [*asked, assistant("ok"), user("more")]
    assert client.ask(ended, tools=[TOOL], **manual).status == 200
