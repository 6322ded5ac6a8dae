"""Streams, scripts and faults of the test API."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.messages_api.client import MODEL, TOOL, Client, user
from tests.messages_api.clock import Clock
from tests.messages_api.script import (
    Failure,
    Fault,
    Latency,
    Thinking,
    call,
    load,
    rate_limited,
    reply,
)
from tests.messages_api.server import MessagesAPI

ROOT = Path(__file__).parents[2]


def test_events_come_as_from_the_real_api(messages_api: MessagesAPI, client: Client) -> None:
    said = "A text of more than one piece, so that it streams."
    messages_api.enqueue(reply(Thinking("Hm."), said, call("run_code", code="1")))
    answer = client.ask(
        [user("go")],
        stream=True,
        tools=[TOOL],
        thinking={"type": "adaptive", "display": "summarized"},
    )
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert answer.headers["Request-Id"].startswith("req_")
    events = list(answer.events())
    assert all(name == data["type"] for name, data in events)
    names = [name for name, _ in events]
    assert names[:3] == ["message_start", "content_block_start", "ping"]
    assert names[-2:] == ["message_delta", "message_stop"]
    assert names.count("content_block_start") == names.count("content_block_stop") == 3

    message = events[0][1]["message"]
    assert (message["content"], message["stop_reason"]) == ([], None)
    starts = [data["content_block"] for name, data in events if name == "content_block_start"]
    assert [block["type"] for block in starts] == ["thinking", "text", "tool_use"]
    assert starts[2]["input"] == {}
    deltas = [
        (data["index"], data["delta"]) for name, data in events if name == "content_block_delta"
    ]
    assert [d["type"] for i, d in deltas if i == 0] == ["thinking_delta", "signature_delta"]
    assert "".join(d["text"] for i, d in deltas if i == 1) == said
    assert sum(i == 1 for i, _ in deltas) > 1
    assert json.loads("".join(d["partial_json"] for i, d in deltas if i == 2)) == {"code": "1"}
    end = events[-2][1]
    assert end["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert end["usage"]["output_tokens"] > 1
    assert end["usage"]["input_tokens"] == message["usage"]["input_tokens"]


def test_the_script_runs_in_order_and_then_answers_loudly(
    messages_api: MessagesAPI, client: Client
) -> None:
    messages_api.enqueue(reply("one"), rate_limited(3), reply("two"))
    assert messages_api.queued == 3
    assert client.ask([user("x")]).json["content"][0]["text"] == "one"
    limited = client.ask([user("x")])
    assert (limited.status, limited.headers["Retry-After"]) == (429, "3")
    assert client.ask([user("x")]).json["content"][0]["text"] == "two"
    assert "has no reply" in client.ask([user("x")]).error


def test_every_status_has_its_type(messages_api: MessagesAPI, client: Client) -> None:
    for status, kind in (
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ):
        messages_api.enqueue(Failure(status))
        answer = client.ask([user("x")])
        assert (answer.status, answer.json["error"]["type"]) == (status, kind)
        assert answer.json["request_id"] == answer.headers["Request-Id"]


def test_a_responder_sees_the_request(messages_api: MessagesAPI, client: Client) -> None:
    messages_api.respond = lambda request: reply(request.user_text[::-1])
    assert client.ask([user("abc")]).json["content"][0]["text"] == "cba"


def test_cut_streams(messages_api: MessagesAPI, client: Client) -> None:
    messages_api.enqueue(reply("text " * 20, fault=Fault("cut", after=4)))
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        client.ask([user("x")], stream=True)


def test_malformed_streams(messages_api: MessagesAPI, client: Client) -> None:
    messages_api.enqueue(reply("text " * 20, fault=Fault("malformed", after=4)))
    answer = client.ask([user("x")], stream=True)
    with pytest.raises(ValueError, match="Unterminated string"):
        list(answer.events())


def test_errors_in_mid_stream(messages_api: MessagesAPI, client: Client) -> None:
    messages_api.enqueue(reply("text " * 20, fault=Fault("error", after=4)))
    events = list(client.ask([user("x")], stream=True).events())
    assert events[-1][1]["error"]["type"] == "overloaded_error"


def test_paused_streams_go_on(messages_api: MessagesAPI, client: Client) -> None:
    messages_api.enqueue(reply("text " * 20, fault=Fault("pause", after=4)))
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(client.ask([user("x")], stream=True)))
    thread.start()
    received = messages_api.wait_for_requests(1)[0]
    assert not received.done.is_set()
    messages_api.resume()
    thread.join(30)
    assert list(answers[0].events())[-1][0] == "message_stop"
    assert received.done.is_set()
    assert not received.closed.is_set()


def test_virtual_latency_takes_no_real_time(messages_api: MessagesAPI, client: Client) -> None:
    messages_api.latency = Latency(first_token_s=2, input_tokens_per_s=1_000, tokens_per_s=50)
    messages_api.enqueue(reply("word " * 400))
    client.ask([user("word " * 5_000)], stream=True, max_tokens=4_000)
    received = messages_api.requests[0]
    assert received.first_token_s is not None
    assert received.first_token_s == pytest.approx(2 + received.usage["input_tokens"] / 1_000, 0.01)
    assert received.duration_s is not None
    writing = received.duration_s - received.first_token_s
    assert writing == pytest.approx(received.usage["output_tokens"] / 50, 0.01)


async def test_the_real_clock_moves_by_itself() -> None:
    clock = Clock(virtual=False)
    before = clock.now()
    await clock.sleep(0.01)
    assert clock.now() - before >= 0.01


def test_a_json_script(messages_api: MessagesAPI, client: Client, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    rules = [
        {"when": {"tool_result": "42"}, "reply": [{"text": "It is 42."}]},
        {"when": {"text": "(?i)compute"}, "reply": [{"tool": "run_code", "input": {"code": "42"}}]},
        {"when": {"text": "fail"}, "error": 529},
    ]
    script.write_text(json.dumps(rules))
    messages_api.respond = load(script)
    first = client.ask([user("Compute it")], tools=[TOOL]).json["content"]
    assert first[0]["input"] == {"code": "42"}
    result = {"type": "tool_result", "tool_use_id": first[0]["id"], "content": "42"}
    messages = [user("Compute it"), {"role": "assistant", "content": first}, user(result)]
    assert client.ask(messages, tools=[TOOL]).json["content"][0]["text"] == "It is 42."
    assert client.ask([user("fail")]).status == 529
    assert "No rule" in client.ask([user("else")]).error


def test_begins_with(messages_api: MessagesAPI, client: Client) -> None:
    messages_api.respond = lambda _request: reply("ok")
    client.ask([user("a")], system="s")
    mark = {"cache_control": {"type": "ephemeral"}}
    client.ask([user({"type": "text", "text": "a", **mark}), user("b")], system="s")
    client.ask([user("A"), user("b")], system="s")
    client.ask([user("a"), user("b")], system="S")
    first, longer, other_text, other_system = messages_api.requests
    assert longer.begins_with(first)
    assert not first.begins_with(longer)
    assert not other_text.begins_with(first)
    assert not other_system.begins_with(first)


def test_as_a_command(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from tests.messages_api.script import reply\n"
        "def respond(request):\n"
        "    return reply('Hello from the script.')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.messages_api", "--script", str(script), "--key", "k-123"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://(127\.0\.0\.1:\d+)", line)
        assert found, line
        connection = http.client.HTTPConnection(found[1], timeout=30)
        body = {"model": MODEL, "max_tokens": 10, "messages": [user("x")]}
        connection.request(
            "POST",
            "/v1/messages",
            json.dumps(body),
            {
                "authorization": "Bearer k-123",
                "anthropic-version": "2023-06-01",
                "content-type": "application/json",
            },
        )
        answer = json.load(connection.getresponse())
        connection.close()
        assert answer["content"][0]["text"] == "Hello from the script."
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0
