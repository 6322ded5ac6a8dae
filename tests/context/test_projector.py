"""The projector gives what a projection from scratch gives, however the records come in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prime_ext.context.projection import last_compaction, project
from prime_ext.context.projector import Projector
from prime_ext.session.records import AnyRecord
from tests.context.conversations import histories, sessions


def as_a_session_gives_them(records: list[AnyRecord]) -> list[AnyRecord]:
    """``session_start``, and what the last compaction has left: a shorter list behind each one."""
    compaction = last_compaction(records)
    if compaction is None:
        return records
    kept = compaction.kept_from_seq or compaction.seq
    return [records[0], *(r for r in records[1:] if r.seq >= min(kept, compaction.seq))]


@given(histories(), st.lists(st.integers(1, 6), max_size=20))
def test_growing_step_by_step_ends_where_starting_over_does(
    records: list[AnyRecord], steps: list[int]
) -> None:
    shown = 1
    projector = Projector(lambda: as_a_session_gives_them(records[:shown]))
    for step in [*steps, *([1] * len(records))]:
        assert projector.now() == project(records[:shown])
        shown = min(shown + step, len(records))
    assert projector.now() == project(records)
    assert projector.now() is projector.now()


@given(sessions())
def test_messages_that_stay_are_not_made_again(records: list[AnyRecord]) -> None:
    shown = len(records) - 1
    projector = Projector(lambda: records[:shown])
    before = projector.now().messages
    shown = len(records)
    after = projector.now().messages
    assert all(old is new for old, new in zip(before[:-2], after, strict=False))
