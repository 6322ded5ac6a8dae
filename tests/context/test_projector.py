"""The projector gives what a projection from scratch gives, however the records come in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prime_ext.context.projection import project
from prime_ext.context.projector import Projector
from prime_ext.session.records import (
    AnyRecord,
    CompactionEnd,
    Prune,
    Settings,
    ToolResult,
)
from tests.context.conversations import numbered, sessions


@st.composite
def histories(draw: st.DrawFn) -> list[AnyRecord]:
    """A session with prunes, compactions and changes of model at any point."""
    records = draw(sessions())
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(1, len(records)))
        what = draw(st.sampled_from(["prune", "compaction", "settings"]))
        results = [r.seq for r in records[:at] if isinstance(r, ToolResult)]
        record: AnyRecord
        if what == "prune" and results:
            record = Prune(
                compaction_id="p",
                pruned=draw(st.lists(st.sampled_from(results), unique=True)),
                tokens_before=2,
                tokens_after=1,
            )
        elif what == "compaction":
            record = CompactionEnd(
                compaction_id="c",
                outcome="ok",
                trigger="manual",
                path="digest",
                tokens_before=2,
                tokens_after=1,
                summary="<compaction-summary>s</compaction-summary>",
                kept_from_seq=draw(st.none() | st.integers(2, max(2, at))),
            )
        else:
            record = Settings(model="other")
        records = [*records[:at], record, *records[at:]]
    return numbered(records)


@given(histories(), st.lists(st.integers(1, 6), max_size=20))
def test_growing_step_by_step_ends_where_starting_over_does(
    records: list[AnyRecord], steps: list[int]
) -> None:
    shown = 1
    projector = Projector(lambda: records[:shown])
    for step in [*steps, len(records)]:
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
