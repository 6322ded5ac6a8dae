"""What a note covers, and when it still holds."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from prime_ext.context.note import (
    PROMPT_VERSION,
    Note,
    behind,
    fingerprint,
    holds,
    is_made_of,
    prefix,
    prefix_length,
    rolled_length,
    split,
)
from prime_ext.context.projection import ProjectedMessage, project
from prime_ext.session.records import AnyRecord
from tests.context.conversations import histories, sessions, text_block
from tests.messages_api.conversation import check_pairing


@given(sessions(), st.floats(0.1, 1.0))
def test_a_note_covers_whole_exchanges_that_the_model_has_seen(
    records: list[AnyRecord], share: float
) -> None:
    projection = project(records)
    sizes = [len(str(m.content)) for m in projection.messages]
    length = prefix_length(projection.messages, sizes, share)
    check_pairing([m.wire for m in projection.messages[:length]])
    check_pairing([m.wire for m in projection.messages[length:]] if length else [])
    ends = [i for i, m in enumerate(projection.messages) if m.role == "assistant" and i]
    assert length in (ends or [0])
    wanted = share * sum(sizes)
    distances = [abs(sum(sizes[:end]) - wanted) for end in ends]
    assert not ends or abs(sum(sizes[:length]) - wanted) == min(distances)


def replies(*sent_at: float) -> list[ProjectedMessage]:
    """Questions with replies whose requests were sent then."""
    messages = []
    for number, time in enumerate(sent_at):
        question = ProjectedMessage("user", [text_block("q")], 2 * number, 2 * number)
        answer = replace(question, role="assistant", sent_at=time, seconds=10.0)
        messages += [question, answer]
    return messages


def test_a_note_is_of_a_prefix_that_the_cache_still_holds() -> None:
    assert prefix_length(replies(0, 20, 40, 60), [10] * 8, 0.7) == 5
    # After a pause only the end of the last request is in the cache.
    assert prefix_length(replies(0, 20, 40, 900), [10] * 8, 0.7) == 7
    assert prefix_length(replies(0, 20, 800, 900), [10] * 8, 0.7) == 5
    assert prefix_length(replies(0), [10] * 2, 0.1) == 1
    assert prefix_length([], [], 0.9) == 0
    # Nothing is in the cache any more behind a reply that took longer than it lives.
    *earlier, slow = replies(0, 20)
    assert prefix_length([*earlier, replace(slow, seconds=400.0)], [10] * 4, 0.9) == 0


@given(sessions(), st.integers(0, 2_000))
def test_a_note_rolled_forward_leaves_no_more_than_it_may(
    records: list[AnyRecord], leave: int
) -> None:
    messages = project(records).messages
    sizes = [len(str(m.content)) for m in messages]
    length = rolled_length(messages, sizes, leave)
    check_pairing([m.wire for m in messages[:length]])
    ends = [i for i, m in enumerate(messages) if m.role == "assistant" and i]
    assert length in (ends or [0])
    assert sum(sizes[length:]) <= leave or not ends or length == ends[-1]
    assert all(sum(sizes[end:]) > leave for end in ends if end < length)


@given(histories())
def test_a_note_covers_what_it_was_made_of_behind_a_kept_tail_too(
    records: list[AnyRecord],
) -> None:
    projection = project(records)
    messages = projection.messages
    for length in [i for i, m in enumerate(messages) if m.role == "assistant" and i]:
        through = messages[length - 1].last_seq
        made_of = prefix(projection, length)
        note = Note("…", through, fingerprint(projection, length), made_of=made_of)
        assert split(messages, note) == length
        assert holds(note, projection)
        assert is_made_of(note, projection)


@given(sessions(), st.data())
def test_a_note_holds_while_the_context_only_grows(
    records: list[AnyRecord], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(records)))
    before, after = project(records[:cut]), project(records)
    length = prefix_length(before.messages, [1] * len(before.messages), 1.0)
    if length == 0 or before.messages != after.messages[: len(before.messages)]:
        return
    note = Note("…", before.messages[length - 1].last_seq, fingerprint(before, length))
    assert holds(note, before)
    assert holds(note, after)
    assert split(after.messages, note) == length


@given(sessions())
def test_a_note_does_not_hold_for_anything_else(records: list[AnyRecord]) -> None:
    projection = project(records)
    length = prefix_length(projection.messages, [1] * len(projection.messages), 1.0)
    if length == 0:
        return
    made_of = prefix(projection, length)
    through = projection.messages[length - 1].last_seq
    note = Note("…", through, fingerprint(projection, length), made_of=made_of)
    first = projection.messages[0]
    edited = replace(first, content=[{"type": "text", "text": "something else"}])
    for other in (
        replace(projection, messages=[edited, *projection.messages[1:]]),
        replace(projection, messages=projection.messages[1:]),
        replace(projection, model="another"),
        replace(projection, system=[{"type": "text", "text": "Another prompt."}]),
        replace(projection, tools=[]),
    ):
        assert not holds(note, other)
        assert not is_made_of(note, other)
    with patch("prime_ext.context.note.PROMPT_VERSION", PROMPT_VERSION + 1):
        assert not holds(note, projection)


def test_a_reply_of_thinking_alone_does_not_follow_a_note() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    messages = [
        ProjectedMessage("assistant", [thinking], 3, 3),
        ProjectedMessage("user", [text_block("And?")], 4, 4),
        ProjectedMessage("assistant", [thinking, text_block("Yes.")], 5, 5),
    ]
    _, *following = behind(Note("n", 2, "f"), messages)
    assert [message.content for message in following] == [
        [text_block("And?")],
        [text_block("Yes.")],
    ]
