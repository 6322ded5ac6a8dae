"""Context editing and compaction on demand: what is refused, and what comes of what is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.messages_api.client import MODEL, TOOL, Answer, Client, assistant, call, result, user
from tests.messages_api.script import Thinking, reply
from tests.messages_api.script import call as tool_call
from tests.messages_api.server import MessagesAPI

COMPACT = {"anthropic-beta": "compact-2026-09-04"}
EDIT = {"anthropic-beta": "context-management-2025-06-27"}
SUMMARIZE: dict[str, Any] = {"compaction": {"type": "summarize"}}
THINKS: dict[str, Any] = {"thinking": {"type": "adaptive", "display": "summarized"}}


def ask(
    client: Client, messages: list[dict[str, Any]], beta: dict[str, str], **more: Any
) -> Answer:
    body = {"model": MODEL, "max_tokens": 1_000, "tools": [TOOL], "messages": messages, **more}
    return client.send(body, headers={**beta})


class TestCompaction:
    @pytest.fixture
    def history(self, messages_api: MessagesAPI, client: Client) -> list[dict[str, Any]]:
        """Two questions and their answers, with thinking."""
        messages_api.respond = lambda _: reply(Thinking("Let me see."), "Fine.")
        messages = [user("first " * 400)]
        messages.append(assistant(*ask(client, messages, {}, **THINKS).json["content"]))
        messages.append(user("second"))
        messages.append(assistant(*ask(client, messages, {}, **THINKS).json["content"]))
        return messages

    def compacted(
        self, messages_api: MessagesAPI, client: Client, messages: list[dict[str, Any]]
    ) -> dict[str, Any]:
        messages_api.enqueue(reply("A summary."))
        answer = ask(client, messages, COMPACT, **SUMMARIZE, **THINKS)
        assert answer.status == 200
        block: dict[str, Any] = answer.json["content"][0]
        return block

    def test_the_block_comes_alone_and_is_billed_as_an_iteration(
        self, messages_api: MessagesAPI, client: Client, history: list[dict[str, Any]]
    ) -> None:
        messages_api.enqueue(reply(Thinking("Hm."), "A summary."))
        answer = ask(client, history, COMPACT, **SUMMARIZE, **THINKS).json
        (block,) = answer["content"]
        assert (block["type"], block["content"]) == ("compaction", "A summary.")
        assert answer["stop_reason"] == "compaction"
        assert answer["usage"]["input_tokens"] == answer["usage"]["output_tokens"] == 0
        (iteration,) = answer["usage"]["iterations"]
        assert iteration["type"] == "compaction"
        assert iteration["input_tokens"] > 400

    def test_what_is_kept_behind_it_keeps_its_thinking(
        self, messages_api: MessagesAPI, client: Client, history: list[dict[str, Any]]
    ) -> None:
        block = self.compacted(messages_api, client, history[:2])
        kept = [assistant(block), *history[2:], user("third")]
        answer = ask(client, kept, COMPACT, **THINKS)
        assert answer.status == 200
        # And again, with what was thought behind the block.
        behind = [*kept, assistant(*answer.json["content"])]
        block = self.compacted(messages_api, client, behind[:3])
        again = [assistant(block), *behind[3:], user("fourth")]
        assert ask(client, again, COMPACT, **THINKS).status == 200

    @pytest.mark.parametrize("where", ["between", "tools", "role"])
    def test_thinking_does_not_survive_a_change_in_front_of_it(
        self, messages_api: MessagesAPI, client: Client, history: list[dict[str, Any]], where: str
    ) -> None:
        summarised = history[:3] if where == "role" else history[:2]
        block = self.compacted(messages_api, client, summarised)
        between = [user("between")] if where != "tools" else []
        kept = [assistant(block), *between, *history[len(summarised) :], user("third")]
        other = {"tools": [{**TOOL, "name": "other"}]} if where == "tools" else {}
        answer = ask(client, kept, COMPACT, **THINKS, **other)
        assert answer.status == 400
        assert "bound to a different conversation" in answer.error

    def test_a_block_must_come_back_as_it_was_and_first(
        self, messages_api: MessagesAPI, client: Client, history: list[dict[str, Any]]
    ) -> None:
        block = self.compacted(messages_api, client, history)

        def code(messages: list[dict[str, Any]], beta: dict[str, str] = COMPACT) -> str | None:
            answer = ask(client, messages, beta)
            assert answer.status == 400
            details = answer.json["error"].get("details") or {}
            found: str | None = details.get("error_code")
            return found

        changed = {**block, "content": "Another."}
        forged = {**block, "signature": "AAAA"}
        assert code([assistant(changed), user("go")]) == "compaction_content_mismatch"
        assert code([assistant(forged), user("go")]) == "compaction_signature_invalid"
        assert code([user("a"), assistant(block), user("go")]) == "compaction_block_misplaced"
        assert code([assistant(block, block), user("go")]) == "compaction_block_ambiguous"
        assert code([assistant({**block, "citations": None}), user("go")]) is None
        assert code([assistant(block), user("go")], {}) is None  # without the beta header

    @pytest.mark.parametrize(
        ("messages", "fields", "beta", "said"),
        [
            ([user("a")], {}, {}, "requires anthropic-beta: compact-2026-09-04"),
            ([user("a")], {"context_management": {"edits": []}}, COMPACT, "context_management"),
            ([user("a")], {"stop_sequences": ["x"]}, COMPACT, "stop_sequences"),
            ([user("a"), assistant(call("c1"))], {}, COMPACT, "without a result"),
            (
                [user("a")],
                {"compaction": {"type": "summarize", "instructions": "x" * 16_385}},
                COMPACT,
                "16384",
            ),
        ],
    )
    def test_what_cannot_go_with_it_is_refused(
        self,
        client: Client,
        messages: list[dict[str, Any]],
        fields: dict[str, Any],
        beta: dict[str, str],
        said: str,
    ) -> None:
        answer = ask(client, messages, beta, **{**SUMMARIZE, **fields})
        assert answer.status == 400
        assert said in answer.error

    def test_without_a_summary_there_is_no_block(
        self, messages_api: MessagesAPI, client: Client
    ) -> None:
        messages_api.enqueue(reply("I go on.", tool_call("run_code", code="1")))
        answer = ask(client, [user("a")], COMPACT, **SUMMARIZE).json
        assert (answer["content"], answer["stop_reason"]) == ([], "tool_use")
        assert answer["usage"]["iterations"][0]["output_tokens"] > 0


class TestEditing:
    MESSAGES: tuple[dict[str, Any], ...] = (
        user("go"),
        assistant(call("c1"), call("c2")),
        user(result("c1", "row " * 2_000), result("c2", "row " * 2_000)),
        assistant(call("c3")),
        user(result("c3", "row " * 2_000)),
    )

    def edit(self, keep: int, trigger: int) -> dict[str, Any]:
        return {
            "context_management": {
                "edits": [
                    {
                        "type": "clear_tool_uses_20250919",
                        "keep": {"type": "tool_uses", "value": keep},
                        "trigger": {"type": "tool_uses", "value": trigger},
                    }
                ]
            }
        }

    def test_the_oldest_results_are_not_read(
        self, messages_api: MessagesAPI, client: Client
    ) -> None:
        messages_api.respond = lambda _: reply("Fine.")
        messages = list(self.MESSAGES)
        whole = ask(client, messages, {}).json
        edited = ask(client, messages, EDIT, **self.edit(1, 1)).json
        (applied,) = edited["context_management"]["applied_edits"]
        assert applied["cleared_tool_uses"] == 2
        difference = whole["usage"]["input_tokens"] - edited["usage"]["input_tokens"]
        assert difference == applied["cleared_input_tokens"] > 4_000

    def test_below_the_trigger_nothing_happens(
        self, messages_api: MessagesAPI, client: Client
    ) -> None:
        messages_api.respond = lambda _: reply("Fine.")
        edited = ask(client, list(self.MESSAGES), EDIT, **self.edit(1, 3)).json
        assert edited["context_management"]["applied_edits"] == []

    def test_it_needs_its_beta_and_a_model_that_has_it(
        self, messages_api: MessagesAPI, client: Client
    ) -> None:
        messages = list(self.MESSAGES)
        refused = ask(client, messages, {}, **self.edit(1, 1))
        assert (refused.status, "Extra inputs" in refused.error) == (400, True)
        messages_api.models[MODEL] = replace(messages_api.models[MODEL], clears_tool_uses=False)
        refused = ask(client, messages, EDIT, **self.edit(1, 1))
        assert (refused.status, "not supported" in refused.error) == (400, True)


def test_the_models_api_says_it_to_who_knows_the_beta(client: Client) -> None:
    def capabilities(model: str, beta: dict[str, str]) -> Any:
        path = f"/v1/models/{model}"
        return client.send({}, path, method="GET", headers={**beta}).json["capabilities"]

    assert "compaction" not in capabilities(MODEL, {})
    assert capabilities(MODEL, COMPACT)["compaction"]["summarize"]["supported"]
    assert not capabilities("claude-haiku-4-5", COMPACT)["compaction"]["supported"]
