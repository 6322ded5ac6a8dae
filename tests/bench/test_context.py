"""The benchmark of the context: it runs, in virtual time, and counts what it says it counts."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from bench import context, report, virtual_time
from bench.filler import text_of
from bench.session_script import generated, recorded
from prime_ext.context.tokens import count_text


def test_virtual_time_waits_for_work_and_for_nothing_else() -> None:
    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        loop.call_later(7_200, str)
        await asyncio.to_thread(time.sleep, 0.05)
        await anyio.to_thread.run_sync(time.sleep, 0.05)
        worked = loop.time()
        await asyncio.gather(asyncio.sleep(3_600), asyncio.sleep(86_400))
        return worked, loop.time()

    started = time.monotonic()
    assert virtual_time.run(main()) == (0.0, 86_400)
    assert time.monotonic() - started < 60


@pytest.mark.skipif(not hasattr(socket, "TCP_CORK"), reason="only Linux can withhold bytes")
def test_virtual_time_waits_for_bytes_that_the_system_withholds() -> None:
    """As it does in a large request, if the receiver's window is nearly closed."""

    async def main() -> tuple[bytes, float]:
        loop = asyncio.get_running_loop()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.read(100))
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1") as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            writer.write(b"request")
            reply = await asyncio.wait_for(reader.read(), 120)
            writer.close()
        return reply, loop.time()

    assert virtual_time.run(main()) == (b"request", 0.0)


def test_virtual_time_does_not_wait_for_a_receiver_who_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(virtual_time, "WITHHELD_SECONDS", 0.01)

    async def main() -> tuple[int, float]:
        loop = asyncio.get_running_loop()
        left, right = socket.socketpair()
        with left, right:
            left.setblocking(False)
            right.setblocking(False)
            body = bytes(50_000_000)
            sending = asyncio.create_task(loop.sock_sendall(left, body))
            await asyncio.sleep(3_600)
            received = 0
            while received < len(body):
                received += len(await loop.sock_recv(right, 1_000_000))
            await sending
            return received, loop.time()

    assert virtual_time.run(main()) == (50_000_000, 3_600.0)


@pytest.mark.parametrize("tokens", [1, 14, 15, 800, 6_000])
def test_filler_has_the_size_asked_for(tokens: int) -> None:
    assert count_text(text_of(tokens, "a")) == pytest.approx(tokens, rel=0.01, abs=1)
    assert text_of(tokens, "a") == text_of(tokens, "a")


def test_a_generated_session_is_as_long_as_it_says() -> None:
    script = generated()
    assert script.requests == 1_000
    assert all(not turn.steps[-1].calls for turn in script.turns)
    pauses = sum(turn.pause_s for turn in script.turns)
    worked = sum(call.seconds for step in script.steps() for call in step.calls)
    assert 44 < (pauses + worked) / 3_600 < 47


def block(kind: str, tokens: int, **more: Any) -> dict[str, Any]:
    return {"type": kind, "cl100k": tokens, **more}


def skeleton(path: Path, turns: int) -> Path:
    """A recorded session in which each turn calls a tool three times; the first is stopped."""
    events: list[dict[str, Any]] = []
    now = 0.0

    def add(role: str, seconds: float, *blocks: dict[str, Any], **more: Any) -> None:
        nonlocal now
        now += seconds
        events.append({"t": now, "kind": "message", "role": role, "blocks": blocks, **more})

    def reply(*blocks: dict[str, Any]) -> None:
        add("assistant", 4, *blocks, model="claude-sonnet-4-6", stop=None)

    for turn in range(turns):
        add("user", 60, block("text", 30))
        for call in range(3):
            id = f"call_{turn}_{call}"  # noqa: A001
            reply(block("text", 20), block("tool_use", 40, tool="tool_1", id=id))
            add("user", 5, block("tool_result", 900, id=id))
        if turn:
            reply(block("text", 150))
    path.write_text("\n".join(map(json.dumps, events)), "utf-8")
    return path


def test_a_recorded_session_is_read_as_it_went(tmp_path: Path) -> None:
    script = recorded(skeleton(tmp_path / "session.jsonl", 2))
    stopped, whole = script.turns
    assert [len(step.calls) for step in stopped.steps] == [1, 1, 1, 0]
    assert whole.pause_s == 60
    assert whole.steps[0].calls[0].seconds == 5
    assert count_text(whole.steps[0].calls[0].result) == pytest.approx(900, rel=0.01)


def test_the_benchmark_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (report, context):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    session = skeleton(tmp_path / "session.jsonl", 12)
    page = tmp_path / "page.md"
    page.write_text("Before.\n<!-- bench.context -->\nold\n<!-- end of bench.context -->\nAfter.\n")
    context.main([str(session), "--recorded-only", "--window", "60000", "--markdown", str(page)])
    results = json.loads((tmp_path / "context-reduced.json").read_text("utf-8"))
    assert (tmp_path / "context-reduced.png").stat().st_size > 0
    ours, half, usual, equal, full, two, never = results["runs"]
    assert ours["requests"] == never["requests"] == 12 * 4
    assert ours["problems"] == []
    assert never["compactions"] == {}
    assert half["threshold"] == ours["threshold"] // 2
    assert half["tokens_per_turn"] < ours["tokens_per_turn"]
    for run in (ours, half, usual, equal, full, two):
        assert sum(run["compactions"].values()) >= 1, run["policy"]
        assert run["context_highest"] < run["window"]
        assert run["input_tokens"] < never["input_tokens"]
    # The agent and the policies go by one count, one cache and one clock.
    first = [detail["context"][0] for detail in results["details"]]
    assert len(set(first)) == 1
    assert ours["hours"] == pytest.approx(never["hours"], rel=0.2)
    assert min(equal["wait_s_95"], two["wait_s_95"]) > 20
    text = page.read_text("utf-8")
    assert text.startswith("Before.\n<!-- bench.context -->\n\nOne run")
    assert text.endswith("<!-- end of bench.context -->\nAfter.\n")
    assert "old" not in text.split("After.")[0].splitlines()
    for run in results["runs"]:
        assert f"| {run['policy']} |" in text
