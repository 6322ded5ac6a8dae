"""The real SDK against the test API: what a model streams and raises."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from prime_ext.models.model import (
    BlockStart,
    ContextOverflow,
    ModelError,
    Reply,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
)
from tests.messages_api.script import (
    Failure,
    Fault,
    Thinking,
    ToolCall,
    call,
    reply,
    too_long,
)
from tests.messages_api.server import MessagesAPI
from tests.models.conftest import MakeModel, Waits, ask, collect, final, texts

TOOLS = [
    {
        "name": "run_code",
        "description": "Run Python.",
        "input_schema": {
            "type": "object",
            "properties": {"code": {"type": "string"}},
            "required": ["code"],
        },
    }
]


async def test_a_reply_streams_in_pieces_and_ends_whole(
    messages_api: MessagesAPI, model: Any
) -> None:
    said = "The mean of column a is 3.5, and here is why that is so. " * 5
    messages_api.enqueue(reply(said))
    events = await collect(model, ask())
    assert texts(events) == said
    assert sum(isinstance(event, TextDelta) for event in events) > 5
    last = events[-1]
    assert isinstance(last, Reply)
    assert last.content == [{"type": "text", "text": said}]
    assert last.stop_reason == "end_turn"
    assert last.model == "claude-sonnet-5-5"
    assert last.message_id
    sent = messages_api.requests[0].usage
    assert {key: last.usage[key] for key in sent} == sent


async def test_parallel_calls_arrive_with_their_inputs(
    messages_api: MessagesAPI, model: Any
) -> None:
    messages_api.enqueue(
        reply("Two at once.", call("run_code", code="1 + 1"), call("run_code", code='"ü\n"'))
    )
    events = await collect(model, ask(tools=TOOLS))
    starts = [event.block for event in events if isinstance(event, BlockStart)]
    assert [block["type"] for block in starts] == ["text", "tool_use", "tool_use"]
    assert starts[1]["name"] == "run_code"
    streamed = "".join(
        event.partial_json
        for event in events
        if isinstance(event, ToolInputDelta) and event.index == 2
    )
    assert json.loads(streamed) == {"code": '"ü\n"'}
    last = events[-1]
    assert isinstance(last, Reply)
    assert last.stop_reason == "tool_use"
    assert [block["input"] for block in last.content[1:]] == [{"code": "1 + 1"}, {"code": '"ü\n"'}]
    assert last.content[1]["id"] != last.content[2]["id"]


async def test_thinking_goes_back_untouched(
    messages_api: MessagesAPI, make_model: MakeModel
) -> None:
    model = make_model(thinking_tokens=2_000)
    messages_api.enqueue(
        reply(Thinking("First the mean."), "Let me see.", call("run_code", code="1")),
        reply("It is 1."),
    )
    request = ask(tools=TOOLS)
    events = await collect(model, request)
    assert [e.text for e in events if isinstance(e, ThinkingDelta)] == ["First the mean."]
    last = events[-1]
    assert isinstance(last, Reply)
    result = {"type": "tool_result", "tool_use_id": last.content[2]["id"], "content": "1"}
    messages = [
        *request.messages,
        {"role": "assistant", "content": last.content},
        {"role": "user", "content": [result]},
    ]
    # The API refuses thinking that was changed in any way.
    assert texts(await collect(model, ask(tools=TOOLS, messages=messages))) == "It is 1."
    first, second = messages_api.requests
    assert second.begins_with(first)
    assert second.body["thinking"] == {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize(
    ("name", "budget", "expected"),
    [
        ("claude-sonnet-5-5", 0, {"type": "between_tools"}),
        ("claude-opus-5-5", 0, {"type": "adaptive", "display": "summarized"}),
        ("claude-sonnet-5", 0, {"type": "disabled"}),
        ("claude-sonnet-5", 2_000, {"type": "adaptive", "display": "summarized"}),
        ("claude-haiku-4-5", 2_000, {"type": "enabled", "budget_tokens": 2_000}),
        ("claude-haiku-4-5", 99_000, {"type": "enabled", "budget_tokens": 4_095}),
    ],
)
@pytest.mark.parametrize("asked", [True, False], ids=["asked", "by id"])
async def test_thinking_is_asked_for_as_the_model_accepts_it(
    messages_api: MessagesAPI,
    make_model: MakeModel,
    name: str,
    budget: int,
    expected: dict[str, Any],
    asked: bool,
) -> None:
    messages_api.lists_models = asked
    messages_api.enqueue(reply("ok"))
    await collect(make_model(name, thinking_tokens=budget), ask())
    assert messages_api.requests[0].body["thinking"] == expected


async def test_a_tool_loop_without_its_thinking_goes_on_without_manual_thinking(
    messages_api: MessagesAPI, make_model: MakeModel
) -> None:
    model = make_model("claude-haiku-4-5", thinking_tokens=2_000)
    messages_api.enqueue(reply(call("run_code", code="1")), reply("done"))
    request = ask(tools=TOOLS)
    first = await final(model, request)
    result = {"type": "tool_result", "tool_use_id": first.content[0]["id"], "content": "1"}
    messages = [
        *request.messages,
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [result]},
    ]
    await final(model, ask(tools=TOOLS, messages=messages))
    assert "thinking" not in messages_api.requests[1].body


async def test_an_input_that_broke_off_is_reported(messages_api: MessagesAPI, model: Any) -> None:
    messages_api.enqueue(reply(ToolCall("run_code", {}, raw_json='{"code": "print(')))
    last = await final(model, ask(tools=TOOLS))
    call_id = last.content[0]["id"]
    assert last.content[0]["input"] == {}
    assert last.invalid_inputs == {call_id: '{"code": "print('}


async def test_a_call_without_arguments_is_valid(messages_api: MessagesAPI, model: Any) -> None:
    messages_api.enqueue(reply(ToolCall("run_code", {}, raw_json="")))
    last = await final(model, ask(tools=TOOLS))
    assert last.content[0]["input"] == {}
    assert not last.invalid_inputs


@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_stopping_closes_the_connection(
    messages_api: MessagesAPI, model: Any, how: str
) -> None:
    messages_api.enqueue(reply("Something long. " * 20, fault=Fault("pause", after=6)))
    arrived = asyncio.Event()

    async def read() -> None:
        async with aclosing(model.stream(ask())) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    arrived.set()
                    if how == "close":
                        return

    task = asyncio.create_task(read())
    await arrived.wait()
    if how == "cancel":
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled() == (how == "cancel")
    received = messages_api.requests[0]
    assert await asyncio.to_thread(received.closed.wait, 10)


@pytest.mark.parametrize(
    ("failure", "code", "hint"),
    [
        (Failure(401, "invalid x-api-key"), "bad_credentials", "Correct ModelConfig.api_key"),
        (Failure(403, "not yours"), "bad_credentials", "Choose another model"),
        (Failure(404, "model: x"), "model_not_found", "Choose another model"),
        (Failure(404, "File Not Found"), "not_messages_api", "Check the URL"),
        (Failure(413, "too large"), "request_too_large", "Compact"),
        (Failure(400, "Your credit balance is too low"), "bad_request", "billing"),
        (Failure(400, "tools.0: bad"), "bad_request", "log"),
    ],
    ids=["401", "403", "404", "no such path", "413", "billing", "400"],
)
async def test_what_does_not_pass_is_said_at_once(
    messages_api: MessagesAPI, model: Any, failure: Failure, code: str, hint: str
) -> None:
    messages_api.enqueue(failure)
    with pytest.raises(ModelError) as caught:
        await collect(model, ask())
    assert caught.value.code == code
    assert hint in caught.value.hint
    assert messages_api.url.removeprefix("http://") in caught.value.message
    assert len(messages_api.requests) == 1


async def test_a_prompt_that_is_too_long(messages_api: MessagesAPI, make_model: MakeModel) -> None:
    messages_api.set_window("claude-sonnet-5-5", 1_000)
    with pytest.raises(ContextOverflow) as caught:
        await collect(make_model(), ask("word " * 3_000))
    assert caught.value.maximum == 1_000
    assert caught.value.tokens is not None
    assert caught.value.tokens > 3_000

    messages_api.enqueue(too_long(205_030, 200_000))
    with pytest.raises(ContextOverflow) as caught:
        await collect(make_model(), ask())
    assert (caught.value.tokens, caught.value.maximum) == (205_030, 200_000)


async def test_a_reply_cut_by_the_window_says_so(
    messages_api: MessagesAPI, make_model: MakeModel
) -> None:
    messages_api.set_window("claude-sonnet-5-5", 60)
    messages_api.enqueue(reply("word " * 500))
    last = await final(make_model(), ask())
    assert last.stop_reason == "model_context_window_exceeded"


async def test_an_unreachable_server_is_named(
    messages_api: MessagesAPI, make_model: MakeModel, waits: Waits
) -> None:
    messages_api.stop()
    host = messages_api.url.removeprefix("http://")
    model = make_model()
    with pytest.raises(ModelError) as caught:
        await collect(model, ask())
    assert caught.value.code == "unreachable"
    assert host in caught.value.message
    assert "base_url" in caught.value.hint
    assert len(waits.seconds) == 2, "three attempts, not six"


async def test_a_wrong_key_is_refused_by_the_server(
    messages_api: MessagesAPI, make_model: MakeModel
) -> None:
    model = make_model(api_key="sk-wrong-key-987654321")
    with pytest.raises(ModelError) as caught:
        await collect(model, ask())
    assert caught.value.code == "bad_credentials"
    assert "ModelConfig.api_key" in caught.value.hint


async def test_a_key_that_the_server_repeats_is_hidden(
    messages_api: MessagesAPI, model: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    messages_api.enqueue(Failure(401, f"invalid key {messages_api.key}"))
    with pytest.raises(ModelError) as caught:
        await collect(model, ask())
    shown = repr(caught.value) + caught.value.message + caught.value.hint
    assert messages_api.key not in shown
    assert "[key]" in caught.value.message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert messages_api.key not in caplog.text


async def test_a_server_without_a_key_is_sent_none(
    messages_api: MessagesAPI, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", "/nonexistent")
    model = make_model(api_key="")
    with pytest.raises(ModelError) as caught:
        await collect(model, ask())
    assert caught.value.code == "bad_credentials"
    assert "PRIME_API_KEY" in caught.value.hint
    headers = messages_api.requests[0].headers
    assert "authorization" not in headers
    assert "x-api-key" not in headers


async def test_without_a_key_for_the_real_api_nothing_is_sent(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Without a profile of the SDK's own either.
    monkeypatch.setenv("HOME", str(tmp_path))
    model = make_model(api_key="", base_url="")
    with pytest.raises(ModelError) as caught:
        await collect(model, ask())
    assert caught.value.code == "no_credentials"
    assert "api.anthropic.com" in caught.value.message
    assert "PRIME_API_KEY" in caught.value.hint


async def test_lone_surrogates_are_replaced_the_same_way_each_time(
    messages_api: MessagesAPI, model: Any, waits: Waits
) -> None:
    messages_api.enqueue(reply("one"), reply("two"))
    request = ask("caf\u00e9 \ud800 \U0001f427 \ud83d")
    await collect(model, request)
    more = {"role": "assistant", "content": [{"type": "text", "text": "one"}]}
    await collect(model, ask(messages=[*request.messages, more, *request.messages]))
    first, second = messages_api.requests
    assert first.user_text == "caf\u00e9 \ufffd \U0001f427 \ufffd"
    assert second.begins_with(first)
    assert not waits.seconds


async def test_a_cache_miss_is_diagnosed(messages_api: MessagesAPI, model: Any) -> None:
    messages_api.enqueue(reply("one"), reply("two"), reply("three"))
    first = await final(model, ask("a"))
    assert first.cache_miss_reason is None
    same = await final(model, ask("a", previous_message_id=first.message_id))
    assert same.cache_miss_reason is None
    other = await final(model, ask("b", previous_message_id=same.message_id))
    assert other.cache_miss_reason == "messages_changed"


async def test_a_server_that_does_not_know_diagnostics_is_asked_without(
    messages_api: MessagesAPI, model: Any, waits: Waits
) -> None:
    messages_api.knows_diagnostics = False
    messages_api.enqueue(reply("one"), reply("two"))
    assert texts(await collect(model, ask())) == "one"
    assert texts(await collect(model, ask())) == "two"
    assert len(messages_api.requests) == 3, "it is refused only once"
    assert not waits.seconds


@pytest.mark.parametrize(
    ("message", "left_out"),
    [
        ("thinking: Extra inputs are not permitted", "thinking"),
        ("Unrecognized request argument supplied: thinking", "thinking"),
        ("1 validation error: body.diagnostics: extra_forbidden", "diagnostics"),
    ],
)
async def test_fields_that_a_server_does_not_know_are_left_out(
    messages_api: MessagesAPI, model: Any, message: str, left_out: str
) -> None:
    messages_api.enqueue(Failure(400, message), reply("ok"))
    assert texts(await collect(model, ask())) == "ok"
    first, second = messages_api.requests
    assert set(first.body) - set(second.body) == {left_out}


async def test_an_error_about_thinking_that_was_sent_back_is_told(
    messages_api: MessagesAPI, model: Any
) -> None:
    message = "messages.1.content.0: Invalid `signature` in `thinking` block"
    messages_api.enqueue(Failure(400, message))
    with pytest.raises(ModelError, match="Invalid `signature`"):
        await collect(model, ask())


async def test_capabilities_are_asked_once(
    messages_api: MessagesAPI, make_model: MakeModel
) -> None:
    messages_api.set_window("claude-sonnet-5-5", 333_000, 44_000)
    model = make_model()
    capabilities = await model.capabilities()
    assert (capabilities.window, capabilities.max_output) == (333_000, 44_000)
    assert capabilities.min_cache_tokens == 512
    assert capabilities.preserved_thinking
    assert capabilities.thinking_types == ("adaptive", "between_tools")
    assert capabilities.price is not None
    await asyncio.gather(*(model.capabilities() for _ in range(5)))
    assert len(messages_api.other_requests) == 1


async def test_capabilities_by_id_where_the_api_cannot_be_asked(
    messages_api: MessagesAPI, make_model: MakeModel
) -> None:
    messages_api.lists_models = False
    model = make_model("claude-haiku-4-5")
    capabilities = await model.capabilities()
    assert (capabilities.window, capabilities.min_cache_tokens) == (200_000, 4_096)
    await model.capabilities()
    assert len(messages_api.other_requests) == 1, "not asked again at once"
