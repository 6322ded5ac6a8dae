"""Any valid conversation is accepted, and any damage to one is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.messages_api import conversation, shape
from tests.messages_api.client import assistant, call, result, user
from tests.messages_api.errors import ApiError

words = st.text(min_size=1, max_size=20).filter(lambda text: bool(text.strip()))


@st.composite
def conversations(draw: st.DrawFn, min_rounds: int = 0) -> list[dict[str, Any]]:
    """The user asks, the model calls tools any number of times, and answers; more than once."""
    numbers = iter(range(10_000))
    messages = [user(draw(words))]
    for _ in range(draw(st.integers(min_rounds, 5))):
        ids = [f"t{next(numbers)}" for _ in range(draw(st.integers(1, 3)))]
        said = [draw(words)] if draw(st.booleans()) else []
        messages.append(assistant(*said, *[call(i, code="1") for i in ids]))
        order = draw(st.permutations(ids))
        more = [draw(words)] if draw(st.booleans()) else []
        messages.append(user(*[result(i) for i in order], *more))
    if draw(st.booleans()):
        messages += [assistant(draw(words)), user(draw(words))]
    return messages


def check(messages: list[dict[str, Any]]) -> None:
    checked = shape.messages(messages)
    conversation.check_order(checked)
    conversation.check_pairing(checked)


@given(conversations())
def test_valid_conversations_are_accepted(messages: list[dict[str, Any]]) -> None:
    check(messages)


def places(messages: list[dict[str, Any]], kind: str) -> list[tuple[int, int]]:
    return [
        (i, j)
        for i, message in enumerate(messages)
        for j, block in enumerate(message["content"])
        if block["type"] == kind
    ]


def lose_a_result(messages: list[dict[str, Any]], data: st.DataObject) -> None:
    i, j = data.draw(st.sampled_from(places(messages, "tool_result")))
    del messages[i]["content"][j]


def lose_a_call(messages: list[dict[str, Any]], data: st.DataObject) -> None:
    i, j = data.draw(st.sampled_from(places(messages, "tool_use")))
    del messages[i]["content"][j]


def repeat_a_result(messages: list[dict[str, Any]], data: st.DataObject) -> None:
    i, j = data.draw(st.sampled_from(places(messages, "tool_result")))
    messages[i]["content"].insert(j, messages[i]["content"][j])


def put_text_before_a_result(messages: list[dict[str, Any]], data: st.DataObject) -> None:
    i, j = data.draw(st.sampled_from(places(messages, "tool_result")))
    messages[i]["content"].insert(j, {"type": "text", "text": "first"})


def put_a_message_between(messages: list[dict[str, Any]], data: st.DataObject) -> None:
    i, _ = data.draw(st.sampled_from(places(messages, "tool_result")))
    messages.insert(i, user("between"))


def cut_off_the_start(messages: list[dict[str, Any]], data: st.DataObject) -> None:
    i, _ = data.draw(st.sampled_from(places(messages, "tool_result")))
    del messages[:i]


def cut_off_the_end(messages: list[dict[str, Any]], data: st.DataObject) -> None:
    i, _ = data.draw(st.sampled_from(places(messages, "tool_use")))
    del messages[i + 1 :]


def blank_a_text(messages: list[dict[str, Any]], data: st.DataObject) -> None:
    i, j = data.draw(st.sampled_from(places(messages, "text")))
    messages[i]["content"][j] = {"type": "text", "text": data.draw(st.sampled_from(["", " \n\t"]))}


DAMAGES = [
    lose_a_result,
    lose_a_call,
    repeat_a_result,
    put_text_before_a_result,
    put_a_message_between,
    cut_off_the_start,
    cut_off_the_end,
    blank_a_text,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@given(messages=conversations(min_rounds=1), data=st.data())
def test_damaged_conversations_are_refused(
    damage: Any, messages: list[dict[str, Any]], data: st.DataObject
) -> None:
    damaged = copy.deepcopy(messages)
    damage(damaged, data)
    with pytest.raises(ApiError) as caught:
        check(damaged)
    assert caught.value.status == 400
