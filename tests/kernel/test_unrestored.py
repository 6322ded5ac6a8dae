"""Which variables of a former process are still missing, by the records and the snapshots."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from prime_ext.kernel.unrestored import is_lacking, unrestored
from prime_ext.session.records import Restore

if TYPE_CHECKING:
    from prime_ext.state import Manifest


def restore(outcome: str, trigger: str = "restart", asked: list[str] | None = None) -> Restore:
    return Restore(outcome=outcome, mode="cold", trigger=trigger, asked=asked or [])


@pytest.mark.parametrize(
    ("newest_first", "lacking"),
    [
        ([], False),
        ([restore("offered")], True),
        ([restore("skipped")], True),
        ([restore("failed", "crash")], True),
        ([restore("partial", "crash")], True),
        ([restore("ok", "manual"), restore("offered")], False),
        ([restore("unchanged", "manual"), restore("offered")], False),
        ([restore("offered"), restore("ok", "crash")], True),
        # What restores single names, or only compares, leaves the rest as it was.
        ([restore("ok", "manual", ["x"]), restore("offered")], True),
        ([restore("unchanged", "compaction"), restore("offered")], True),
        ([restore("partial", "compaction")], False),
        ([None, restore("offered")], True),
    ],
)
def test_only_a_whole_restore_ends_a_loss(
    newest_first: list[Restore | None], lacking: bool
) -> None:
    assert is_lacking(newest_first) is lacking


def manifest(process: str, *names: str, placeholder: str | None = None) -> Manifest:
    entries: dict[str, Any] = {name: {"component": 0} for name in names}
    if placeholder is not None:
        entries[placeholder] = {"component": None}
    return cast("Manifest", SimpleNamespace(process=process, names=entries))


def test_names_of_the_former_process_that_the_present_one_lacks() -> None:
    former = manifest("old", "x", "y", placeholder="stream")
    fresh, empty = manifest("new", "y", "z"), manifest("new")
    older = manifest("older", "w")
    assert unrestored([], of_this_process=False) == []
    assert unrestored([former], of_this_process=False) == ["x", "y"]
    assert unrestored([former], of_this_process=True) == []
    assert unrestored([fresh, empty, former, older], of_this_process=True) == ["x"]
    # A process that held nothing has lost nothing; the one before it has.
    assert unrestored([manifest("new"), manifest("idle"), former], of_this_process=True) == [
        "x",
        "y",
    ]
