"""What the test API refuses, each by its own message."""

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
from tests.messages_api.pictures import image, jpeg, png
from tests.messages_api.script import reply
from tests.messages_api.server import MessagesAPI

VALID = [user("Hello")]
DOT = image(png(1, 1))


@pytest.fixture(autouse=True)
def always_answer(messages_api: MessagesAPI) -> None:
    messages_api.respond = lambda _request: reply("ok")


def refused(client: Client, messages: list[dict[str, Any]], message: str, **fields: Any) -> None:
    answer = client.ask(messages, **fields)
    assert answer.status == 400, answer.content
    assert answer.json["error"]["type"] == "invalid_request_error"
    assert message in answer.error


def accepted(client: Client, messages: list[dict[str, Any]], **fields: Any) -> None:
    answer = client.ask(messages, **fields)
    assert answer.status == 200, answer.content


def test_valid_requests_pass(client: Client) -> None:
    accepted(client, VALID)
    accepted(client, [{"role": "user", "content": "a string"}])
    accepted(client, VALID, system="a string", stop_sequences=["x"], metadata={"user_id": "u"})
    accepted(client, [user("a"), user("b")])
    accepted(
        client,
        [
            user("go"),
            assistant("two", call("t1"), call("t2")),
            user(result("t2"), result("t1", [{"type": "text", "text": "x"}]), "and now?"),
        ],
        tools=[TOOL],
    )


@pytest.mark.parametrize("field", ["model", "max_tokens", "messages"])
def test_required_fields(client: Client, field: str) -> None:
    body = {"model": MODEL, "max_tokens": 10, "messages": VALID}
    del body[field]
    answer = client.send(body)
    assert (answer.status, answer.error) == (400, f"{field}: Field required")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"temperature": 1.0}, "temperature: Extra inputs are not permitted"),
        ({"top_p": 1.0}, "top_p: Extra inputs"),
        ({"sytem": "typo"}, "sytem: Extra inputs"),
        ({"max_tokens": "10"}, "max_tokens: Input has the wrong type"),
        ({"max_tokens": True}, "max_tokens: Input has the wrong type"),
        ({"max_tokens": 0}, "max_tokens: Input should be greater"),
        ({"max_tokens": 128_001}, "max_tokens: 128001 > 128000"),
        ({"system": [{"type": "text", "text": " \n"}]}, "non-whitespace"),
        ({"system": [{"type": "text", "text": "x", "id": 1}]}, "Extra inputs"),
        ({"system": [image(png(1, 1))]}, "does not match any of the expected: text"),
    ],
)
def test_fields(client: Client, fields: dict[str, Any], message: str) -> None:
    refused(client, VALID, message, **fields)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "at least one message"),
        ([{"role": "system", "content": "x"}], "Input should be 'user' or 'assistant'"),
        ([assistant("hi"), user("x")], 'first message must use the "user" role'),
        ([user("x"), assistant("prefill")], "does not support assistant message prefill"),
        ([{"role": "user", "content": []}], "non-empty content"),
        ([{"role": "user", "content": ""}], "text content blocks must be non-empty"),
        ([user("   ")], "must contain non-whitespace text"),
        ([user("x"), assistant("\n"), user("y")], "must contain non-whitespace text"),
        ([{**user("x"), "name": "me"}], "messages.0.name: Extra inputs"),
        ([user({"type": "text", "text": "x", "seq": 3})], "messages.0.content.0.text.seq: Extra"),
        ([user({"type": "text"})], "text.text: Field required"),
        ([user({"type": "poem", "text": "x"})], "does not match any of the expected"),
        ([user("x"), assistant(image(png(1, 1))), user("y")], "does not match any"),
        ([user(call("t1"))], "does not match any"),
        (["x"], "Input should be an object"),
        ([{"role": "user", "content": 3}], "a string or a list"),
    ],
)
def test_messages(client: Client, messages: list[Any], message: str) -> None:
    refused(client, messages, message)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([user("x"), assistant(call("t1")), user("no result")], "were found without `tool_result`"),
        (
            [user("x"), assistant(call("t1")), user("later"), user(result("t1"))],
            "were found without `tool_result` blocks immediately after: t1",
        ),
        (
            [user("x"), assistant(call("t1"), call("t2")), user(result("t1")), user(result("t2"))],
            "immediately after: t2",
        ),
        ([user("x"), assistant(call("t1")), user("first", result("t1"))], "must come first"),
        (
            [user("x"), assistant(call("t1")), user(result("t1"), result("t1"))],
            "a single result",
        ),
        ([user(result("t1"))], "unexpected `tool_use_id`"),
        ([user("x"), assistant("y"), user(result("t9"))], "unexpected `tool_use_id`"),
        (
            [user("x"), assistant(call("t1")), user(result("t1"), result("t9"))],
            "unexpected `tool_use_id`",
        ),
        (
            [
                user("x"),
                assistant(call("t1")),
                user(result("t1")),
                assistant(call("t1")),
                user(result("t1")),
            ],
            "`tool_use` ids must be unique",
        ),
        ([user("x"), assistant(call("t 1")), user(result("t 1"))], "should match pattern"),
        (
            [user("x"), assistant({**call("t1"), "input": "{}"}), user(result("t1"))],
            "valid dictionary",
        ),
        (
            [
                user("x"),
                assistant(call("t1")),
                user(result("t1", [{"type": "text", "text": ""}])),
            ],
            "must be non-empty",
        ),
        (
            [
                user("x"),
                assistant(call("t1")),
                user(result("t1", [image(png(1, 1))], is_error=True)),
            ],
            'all content must be type "text"',
        ),
        (
            [user("x"), assistant(call("t1")), user(result("t1", [call("t2")]))],
            "does not match any",
        ),
    ],
)
def test_pairing(client: Client, messages: list[Any], message: str) -> None:
    refused(client, messages, message, tools=[TOOL])


def test_calls_need_their_tools(client: Client) -> None:
    messages = [user("x"), assistant(call("t1")), user(result("t1"))]
    refused(client, messages, "must define tools")


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([{"name": "a b", "input_schema": {"type": "object"}}], "should match pattern"),
        ([{"name": "x" * 129, "input_schema": {"type": "object"}}], "should match pattern"),
        ([TOOL, TOOL], "Tool names must be unique"),
        ([{"name": "a"}], "input_schema: Field required"),
        ([{"input_schema": {"type": "object"}}], "name: Field required"),
        ([{"name": "a", "input_schema": {"type": "array"}}], "should be 'object'"),
        (
            [
                {
                    "name": "a",
                    "input_schema": {"type": "object", "properties": {"x": {"type": "int"}}},
                }
            ],
            "JSON schema is invalid",
        ),
        ([{**TOOL, "handler": 1}], "Extra inputs"),
        ([{**TOOL, "type": "web_search_20250305"}], "Server tools"),
    ],
)
def test_tools(client: Client, tools: list[Any], message: str) -> None:
    refused(client, VALID, message, tools=tools)


def test_tool_choice(client: Client) -> None:
    accepted(client, VALID, tools=[TOOL], tool_choice={"type": "auto"})
    accepted(
        client,
        VALID,
        tools=[TOOL],
        model="claude-haiku-4-5",
        tool_choice={"type": "tool", "name": "run_code"},
    )
    refused(client, VALID, "while providing tools", tool_choice={"type": "auto"})
    refused(client, VALID, "'auto', 'any'", tools=[TOOL], tool_choice={"type": "some"})
    refused(client, VALID, "Thinking may not", tools=[TOOL], tool_choice={"type": "any"})
    refused(
        client,
        VALID,
        "not found in provided tools",
        tools=[TOOL],
        model="claude-haiku-4-5",
        tool_choice={"type": "tool", "name": "other"},
    )


def test_cache_marks(client: Client) -> None:
    accepted(client, [user(*[marked(f"m{i}") for i in range(4)])])
    refused(
        client,
        [user(*[marked(f"m{i}") for i in range(5)])],
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    )
    refused(
        client,
        [user(*[marked(f"m{i}") for i in range(4)])],
        "Found 5",
        cache_control={"type": "ephemeral"},
    )
    refused(
        client,
        [user(*[marked(f"m{i}") for i in range(3)])],
        "Found 5",
        system=[marked("s")],
        tools=[marked(TOOL)],
    )
    accepted(client, [user(marked("m"))], system=[marked("s", "1h")])
    refused(
        client,
        [user(marked("m", "1h"))],
        "a ttl='1h' cache_control block must not come after a ttl='5m'",
        system=[marked("s")],
    )
    refused(client, [user(marked("m", "2h"))], "Input should be '5m' or '1h'")
    thinking = {"type": "thinking", "thinking": "x", "signature": "y"}
    refused(
        client,
        [user("a"), assistant(marked(thinking), "b"), user("c")],
        "thinking.cache_control: Extra inputs",
    )


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (image(png(10, 10), "image/jpeg"), "does not match the provided media type image/jpeg"),
        (image(b"not an image"), "Could not process image"),
        (image(png(10, 10), "image/tiff"), "Input should be one of"),
        (image(png(8_001, 1)), "exceed max allowed size: 8000 pixels"),
        (image(png(10, 10, padding=6 * 1024 * 1024)), "image exceeds 5 MB maximum"),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "#"}},
            "invalid base64",
        ),
        ({"type": "image", "source": {"type": "url", "url": "http://x.org/a.png"}}, "HTTPS"),
        ({"type": "image", "source": {"type": "path", "path": "/etc"}}, "'base64' or 'url'"),
    ],
)
def test_images(client: Client, picture: dict[str, Any], message: str) -> None:
    refused(client, [user(picture, "look")], message)


def test_many_images_have_to_be_smaller(client: Client) -> None:
    large = image(png(2_001, 1))
    accepted(client, [user(*[large] * 20, "look")])
    refused(client, [user(*[large] * 21, "look")], "many-image requests: 2000 pixels")
    in_results = [user("x"), assistant(call("t1")), user(result("t1", [large] * 21))]
    refused(client, in_results, "many-image requests", tools=[TOOL])


def test_every_kind_of_image(client: Client) -> None:
    accepted(client, [user(image(png(30, 40)), image(jpeg(5, 6), "image/jpeg"), "look")])


def test_thinking_configuration(client: Client) -> None:
    accepted(client, VALID, thinking={"type": "adaptive", "display": "summarized"})
    accepted(client, VALID, thinking={"type": "between_tools"})
    refused(client, VALID, "is not supported", thinking={"type": "disabled"})
    haiku = {"model": "claude-haiku-4-5", "max_tokens": 2_000}
    accepted(client, VALID, thinking={"type": "enabled", "budget_tokens": 1_024}, **haiku)
    for budget, message in ((1_023, "greater than or equal to 1024"), (2_000, "must be greater")):
        refused(
            client, VALID, message, thinking={"type": "enabled", "budget_tokens": budget}, **haiku
        )
    refused(client, VALID, "Extra inputs", thinking={"type": "adaptive", "budget_tokens": 2_000})


def test_authentication(client: Client) -> None:
    body = {"model": MODEL, "max_tokens": 10, "messages": VALID}
    cases: tuple[tuple[dict[str, str | None], str], ...] = (
        ({"x-api-key": None}, "x-api-key header is required"),
        ({"x-api-key": "wrong"}, "invalid x-api-key"),
        ({"x-api-key": None, "authorization": "Bearer wrong"}, "invalid x-api-key"),
    )
    for headers, message in cases:
        answer = client.send(body, headers=headers)
        assert (answer.status, answer.error) == (401, message)
        assert answer.json["error"]["type"] == "authentication_error"
    assert client.send(body, headers={"anthropic-version": None}).status == 400
    assert client.send(body, headers={"anthropic-version": "2020-01-01"}).status == 400


def test_bodies(client: Client) -> None:
    assert client.send(b"{", headers={}).error == "The request body is not valid JSON"
    assert client.send([1]).error == "The request body is not a JSON object"
    assert client.send({}, headers={"content-type": "text/plain"}).status == 400
    large = client.send(b'"' + b"x" * (32 * 1024 * 1024) + b'"')
    assert (large.status, large.json["error"]["type"]) == (413, "request_too_large")
    assert client.send({}, "/v1/complete").status == 404


def test_models_that_are_not_served(client: Client) -> None:
    for model in ("claude-sonnet-3-9", "gpt"):
        answer = client.ask(VALID, model=model)
        assert (answer.status, answer.error) == (404, f"model: {model}")


def test_the_window(messages_api: MessagesAPI, client: Client) -> None:
    messages_api.set_window(MODEL, 2_000)
    refused(client, [user("word " * 2_000)], "tokens > 2000 maximum")
    messages_api.respond = lambda _request: reply("word " * 3_000)
    cut = client.ask([user("word " * 500)], max_tokens=100_000).json
    assert cut["stop_reason"] == "model_context_window_exceeded"
    assert 0 < sum(cut["usage"][key] for key in ("input_tokens", "output_tokens")) <= 2_000
    cut = client.ask(VALID, max_tokens=50).json
    assert cut["stop_reason"] == "max_tokens"
    assert cut["usage"]["output_tokens"] <= 50


def test_refused_requests_are_kept(messages_api: MessagesAPI, client: Client) -> None:
    client.ask([user(" ")])
    received = messages_api.requests[-1]
    assert received.status == 400
    assert received.error is not None
    assert "non-whitespace" in received.error


def test_counting_tokens(messages_api: MessagesAPI, client: Client) -> None:
    messages = [user("word " * 100)]
    body = {"model": MODEL, "messages": messages, "system": "s"}
    counted = client.send(body, "/v1/messages/count_tokens").json["input_tokens"]
    usage = client.ask(messages, system="s").json["usage"]
    assert counted == usage["input_tokens"] > 100
    answer = client.send({**body, "max_tokens": 1}, "/v1/messages/count_tokens")
    assert answer.error == "max_tokens: Extra inputs are not permitted"


def test_listing_models(client: Client) -> None:
    first = client.send(None, "/v1/models?limit=2", method="GET").json
    assert first["has_more"]
    ids = [info["id"] for info in first["data"]]
    rest = client.send(None, f"/v1/models?limit=50&after_id={first['last_id']}", method="GET").json
    assert not rest["has_more"]
    ids += [info["id"] for info in rest["data"]]
    assert len(ids) == len(set(ids))
    assert MODEL in ids
    one = client.send(None, f"/v1/models/{MODEL}", method="GET").json
    assert one["max_input_tokens"] == 1_000_000
    assert one["capabilities"]["thinking"]["types"]["between_tools"] == {"supported": True}
    assert client.send(None, "/v1/models/none", method="GET").status == 404
