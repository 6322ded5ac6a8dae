"""When compacting is given up, and what is named for it."""

from __future__ import annotations

from prime_ext.context.projection import project
from prime_ext.context.refill import RefillGuard, largest_contributor
from prime_ext.session.records import AnyRecord, UserMessage
from tests.context.conversations import text_block
from tests.context.test_prune import working


def crossings(*requests_between: int) -> RefillGuard:
    guard = RefillGuard()
    for requests in requests_between:
        for _ in range(requests):
            guard.requested()
        guard.compacted()
    guard.requested()
    return guard


def test_three_in_a_row_that_help_for_a_moment_are_enough() -> None:
    assert crossings(50, 2, 3).gives_up
    assert not crossings(50, 2).gives_up


def test_a_compaction_that_lasts_begins_anew() -> None:
    assert not crossings(50, 2, 3, 40).gives_up
    assert not crossings(50, 2, 40, 3).gives_up


def test_a_context_that_has_room_again_is_compacted_again() -> None:
    guard = crossings(50, 2, 3)
    for _ in range(10):
        guard.requested()
    assert not guard.gives_up


def test_a_person_begins_it_anew() -> None:
    guard = crossings(50, 2, 3)
    guard.relax()
    assert not guard.gives_up


def test_the_largest_part_is_named_with_its_record() -> None:
    records: list[AnyRecord] = working("x" * 300, "y" * 900, "z")
    messages = project(records).messages
    sizes = [len(str(m.content)) for m in messages]
    found = largest_contributor(messages, sizes)
    assert found is not None
    assert found.name == "results of run_code"
    assert found.largest_seq == 6
    asked = project([records[0], UserMessage(seq=2, text="q", content=[text_block("q")])])
    alone = largest_contributor(asked.messages, [5])
    assert alone is not None
    assert (alone.name, alone.tokens) == ("the user's messages", 5)
    assert largest_contributor([], []) is None
