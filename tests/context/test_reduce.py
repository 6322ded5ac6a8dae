"""Smaller and smaller versions of a conversation, for a server that refuses the whole."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from prime_ext.context.projection import project
from prime_ext.context.reduce import fitting, transcript, without_media
from prime_ext.session.records import AnyRecord
from tests.context.conversations import sessions
from tests.context.test_prune import working
from tests.messages_api import shape
from tests.messages_api.conversation import check_pairing


def images_in(content: list[dict[str, Any]]) -> int:
    inner = [b["content"] for b in content if b["type"] == "tool_result"]
    return sum(1 for b in content if b["type"] == "image") + sum(map(images_in, inner))


@given(sessions())
def test_without_media_no_image_is_left_and_the_rest_is(records: list[AnyRecord]) -> None:
    messages = project(records).messages
    bare = without_media(messages)
    assert not any(images_in(message.content) for message in bare)
    for old, new in zip(messages, bare, strict=True):
        assert (new is old) == (not images_in(old.content))
    if bare:
        shape.messages([m.wire for m in bare])


@given(sessions(), st.integers(0, 4_000))
def test_what_fits_is_a_conversation_that_the_api_takes(
    records: list[AnyRecord], room: int
) -> None:
    messages = project(records).messages
    sizes = [len(str(m.content)) for m in messages]
    kept = fitting(messages, sizes, room, digest_chars=400)
    wire = [m.wire for m in kept]
    check_pairing(wire)
    if wire:
        shape.messages(wire)
        assert wire[0]["role"] == "user"
    if kept != messages:
        newest = messages[len(messages) - len(kept) + 1 :]
        assert kept[1:] == newest


@given(sessions(), st.integers(100, 5_000))
def test_a_transcript_keeps_to_its_length(records: list[AnyRecord], max_chars: int) -> None:
    assert len(transcript(project(records).messages, max_chars)) <= max_chars


def test_a_transcript_has_both_ends_of_every_message() -> None:
    messages = project(working("first " + "x" * 9_000 + " last", "second")).messages
    text = transcript(messages, 4_000)
    assert "first" in text
    assert "last" in text
    assert "calls run_code" in text
    assert "second" in text
