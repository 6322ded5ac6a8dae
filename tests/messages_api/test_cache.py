"""The prompt cache: what is written, what is found, for how long, and what loses it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.messages_api.client import (
    MODEL,
    TOOL,
    Client,
    assistant,
    call,
    marked,
    result,
    user,
)
from tests.messages_api.pictures import image, png
from tests.messages_api.script import Latency, reply
from tests.messages_api.server import MessagesAPI

LONG = "A sentence of several words that is repeated. " * 100
"""Over 900 tokens: enough for the newest models, too little for older ones."""


@pytest.fixture(autouse=True)
def always_answer(messages_api: MessagesAPI) -> None:
    messages_api.respond = lambda _request: reply("ok")


def usage(client: Client, messages: list[dict[str, Any]], **fields: Any) -> tuple[int, int, int]:
    """Tokens read from the cache, written to it, and neither."""
    answer = client.ask(messages, **fields)
    assert answer.status == 200, answer.content
    found = answer.json["usage"]
    parts = found["cache_creation"]
    assert sum(parts.values()) == found["cache_creation_input_tokens"]
    return (
        found["cache_read_input_tokens"],
        found["cache_creation_input_tokens"],
        found["input_tokens"],
    )


def test_written_at_a_mark_and_read_again(client: Client) -> None:
    system = [marked(LONG)]
    read, written, rest = usage(client, [user("one")], system=system)
    assert read == 0 < rest < written
    again, rewritten, other = usage(client, [user("two")], system=system)
    assert (again, rewritten) == (written, 0)
    assert other == rest


def test_nothing_is_written_without_a_mark(client: Client) -> None:
    for _ in range(2):
        assert usage(client, [user("one")], system=[{"type": "text", "text": LONG}])[:2] == (0, 0)


def test_a_mark_on_the_whole_request(client: Client) -> None:
    mark = {"type": "ephemeral"}
    _, written, _ = usage(client, [user(LONG)], cache_control=mark)
    messages = [user(LONG), assistant("ok"), user("more")]
    read, added, _ = usage(client, messages, cache_control=mark)
    assert read == written
    assert 0 < added < 50


def test_a_growing_conversation_is_read_to_its_end(client: Client) -> None:
    messages: list[dict[str, Any]] = []
    seen = 0
    for turn in range(5):
        messages += [user(marked(f"{turn}: {LONG}"))]
        read, written, rest = usage(client, messages)
        assert read == seen
        assert rest < 20
        seen = read + written
        messages[-1] = user(f"{turn}: {LONG}")
        messages.append(assistant("ok"))


@pytest.mark.parametrize(("model", "cached"), [(MODEL, True), ("claude-haiku-4-5", False)])
def test_the_smallest_prefix(client: Client, model: str, cached: bool) -> None:
    written = usage(client, [user("x")], system=[marked(LONG)], model=model)[1]
    assert (written > 0) == cached
    assert usage(client, [user("x")], system=[marked("short")], model=model)[:2] == (0, 0)


@pytest.mark.parametrize(("between", "found"), [(19, True), (20, False)])
def test_looking_back_20_positions(client: Client, between: int, found: bool) -> None:
    usage(client, [user(marked(LONG))])
    blocks = [f"block {i}" for i in range(between - 1)]
    read, _, _ = usage(client, [user(LONG, *blocks, marked("last"))])
    assert (read > 0) == found


def test_runs_of_calls_and_results_are_one_position(client: Client) -> None:
    usage(client, [user(marked(LONG))], tools=[TOOL])
    ids = [f"t{i}" for i in range(40)]
    results = [result(i) for i in ids]
    messages = [user(LONG), assistant(*map(call, ids)), user(*results[:-1], marked(results[-1]))]
    read, _, _ = usage(client, messages, tools=[TOOL])
    assert read > 0


def test_time_to_live(messages_api: MessagesAPI, client: Client) -> None:
    system = [marked(LONG, "1h")]
    messages = [user(marked("Short lived. " + LONG))]
    usage(client, messages, system=system)
    messages_api.clock.advance(299)
    read, written, _ = usage(client, messages, system=system)
    assert (read > 1_500, written) == (True, 0)
    messages_api.clock.advance(299)
    assert usage(client, messages, system=system)[1] == 0, "reading prolongs it"
    messages_api.clock.advance(301)
    read, written, _ = usage(client, messages, system=system)
    assert 0 < read < 1_500, "the system prompt lives an hour"
    assert written > 900
    messages_api.clock.advance(3_601)
    assert usage(client, messages, system=system)[0] == 0


def test_parts_by_time_to_live(client: Client) -> None:
    answer = client.ask([user(marked(LONG))], system=[marked(LONG, "1h")]).json["usage"]
    parts = answer["cache_creation"]
    assert parts["ephemeral_1h_input_tokens"] > 800
    assert parts["ephemeral_5m_input_tokens"] > 800


def test_readable_once_the_first_reply_has_begun(messages_api: MessagesAPI, client: Client) -> None:
    messages_api.latency = Latency(first_token_s=400)
    usage(client, [user("x")], system=[marked(LONG)])
    assert usage(client, [user("x")], system=[marked(LONG)])[0] == 0, (
        "it had expired, counted from the request's start"
    )


def test_what_invalidates(client: Client) -> None:
    tools = [marked(TOOL | {"description": LONG})]
    system = [marked(LONG)]
    messages = [user(marked(LONG))]
    base: dict[str, Any] = {"tools": tools, "system": system}
    all_of_it = usage(client, messages, **base)[1]

    def read(**changes: Any) -> int:
        given = changes.pop("messages", messages)
        return usage(client, given, **{**base, **changes})[0]

    assert read() == all_of_it
    of_system = read(tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    assert 0 < of_system < all_of_it
    assert read(thinking={"type": "between_tools"}) == of_system
    assert read(output_config={"effort": "low"}) == of_system
    assert read(messages=[user(marked(LONG), image(png(9, 9)))]) == of_system
    of_tools = read(system=[marked("Other. " + LONG)])
    assert 0 < of_tools < of_system
    assert read(tools=[marked(TOOL | {"description": "Other. " + LONG})]) == 0
    assert read(model="claude-opus-5-5") == 0
    assert read() == all_of_it


def test_marks_and_key_order_do_not_matter(client: Client) -> None:
    usage(client, [user(LONG, marked("end"))])
    swapped = {"text": LONG, "type": "text"}
    assert usage(client, [{"role": "user", "content": [swapped, marked("end", "5m")]}])[0] > 0


def test_a_refused_request_writes_nothing(messages_api: MessagesAPI, client: Client) -> None:
    assert client.ask([user(marked(LONG), " ")]).status == 400
    assert usage(client, [user(marked(LONG))])[0] == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"messages": [user("a"), assistant("ok"), user("b")]}, None),
        ({"messages": [user("z")]}, "messages_changed"),
        ({"system": "other"}, "system_changed"),
        ({"tools": [TOOL]}, "tools_changed"),
        ({"model": "claude-opus-5-5"}, "model_changed"),
        ({"output_config": {"effort": "low"}}, "unavailable"),
    ],
)
def test_diagnosis(client: Client, changes: dict[str, Any], reason: str | None) -> None:
    first = client.ask([user("a")], diagnostics={"previous_message_id": None}).json
    assert first["diagnostics"] is None
    messages = changes.pop("messages", [user("a")])
    again = client.ask(messages, diagnostics={"previous_message_id": first["id"]}, **changes).json[
        "diagnostics"
    ]
    assert (again and again["cache_miss_reason"]["type"]) == reason


def test_diagnosis_of_an_unknown_message(client: Client) -> None:
    client.ask([user("a")])
    answer = client.ask([user("a")], diagnostics={"previous_message_id": "msg_x"}).json
    assert answer["diagnostics"]["cache_miss_reason"]["type"] == "previous_message_not_found"
