"""The scenario that browser tests talk to, played through."""

from __future__ import annotations

from typing import Any

import pytest

from tests.messages_api.client import Client, result, user
from tests.messages_api.scenarios import analysis
from tests.messages_api.server import MessagesAPI

TOOLS = [
    {"name": name, "input_schema": {"type": "object"}}
    for name in ("insert_cell", "run_cell", "run_code")
]


@pytest.fixture(autouse=True)
def scenario(messages_api: MessagesAPI) -> None:
    messages_api.respond = analysis.respond


def play(client: Client, said: str, results: list[str], **fields: Any) -> list[dict[str, Any]]:
    """Answer every call with the next of ``results``; gives all blocks of all replies."""
    messages = [user(said)]
    blocks: list[dict[str, Any]] = []
    while True:
        answer = client.ask(messages, tools=TOOLS, max_tokens=20_000)
        assert answer.status == 200, answer.content
        content = answer.json["content"]
        blocks += content
        calls = [block for block in content if block["type"] == "tool_use"]
        if not calls:
            assert not results
            return blocks
        messages.append({"role": "assistant", "content": content})
        messages.append(user(*[result(call["id"], results.pop(0), **fields) for call in calls]))


def test_an_analysis(client: Client) -> None:
    blocks = play(
        client,
        "Please analyse penguins.csv",
        [
            "Inserted cell id 1a2b-c, code, at position 5.",
            "Cell [1a2b-c] ran.",
            "Inserted cell id load, code, at position 6.",
            "A figure.",
        ],
    )
    calls = [block for block in blocks if block["type"] == "tool_use"]
    assert [block["name"] for block in calls] == ["insert_cell", "run_cell"] * 2
    assert [block["input"].get("cell_id") for block in calls] == [None, "1a2b-c", None, "load"]
    assert "`penguins`" in blocks[-1]["text"]


def test_a_failed_cell_ends_it(client: Client) -> None:
    blocks = play(client, "analyse", ["No such file."], is_error=True)
    assert blocks[-1]["text"] == "That failed: No such file."


def test_a_question_goes_to_the_kernel(client: Client) -> None:
    blocks = play(client, "How many rows are there?", ["344 rows"])
    assert blocks[-1]["text"] == "The kernel says: 344 rows"


def test_a_summary(client: Client) -> None:
    asked = "The conversation above is about to be replaced by a summary that you write now."
    assert play(client, asked, [])[0]["text"].startswith("## Goal")


def test_everything_else(client: Client) -> None:
    assert play(client, "Hello", [])[0]["text"] == "You said: Hello"
    assert play(client, "Show me a table", [])[0]["text"].startswith("| species")
    assert play(client, "print 500 lines", ["line 0"])[-1]["text"] == "That was long."
    assert client.ask([user("refuse this")]).status == 400
    assert len(play(client, "tell a long story", [])[0]["text"]) > 10_000
    statuses = [client.ask([user("fail 2 times, please")]).status for _ in range(3)]
    assert statuses == [529, 529, 200]
