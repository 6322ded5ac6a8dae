"""Which runs a snapshot is older than."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import datetime, timedelta, timezone

import pytest

from prime_ext.kernel.freshness import Moment
from prime_ext.kernel.missed_runs import TOLD_RUNS, Run, first_line, missed
from prime_ext.kernel.notebook_kernel import NotebookKernel
from tests.kernel.conftest import until

CREATED = datetime(2026, 11, 30, 12, 0, 3, tzinfo=timezone.utc)


def run(number: int, seconds: float | None, code: str = "x = 1") -> tuple[Moment, Run]:
    """The run ``number`` of the first process, begun so long after the snapshot was made."""
    began = None if seconds is None else CREATED + timedelta(seconds=seconds)
    return Moment("k", 0, number), Run(str(number), code, began)


@pytest.mark.parametrize(
    ("captured", "expected"),
    [
        (None, ["late", "later"]),
        (Moment("k", 0, 1), ["late", "later"]),
        # A save that found nothing changed made no other snapshot.
        (Moment("k", 0, 2), ["later"]),
        (Moment("k", 0, 3), []),
        # Restored into the process after it, and known to be live there.
        (Moment("other", 1, 0), []),
    ],
)
def test_runs_behind_the_snapshot(captured: Moment | None, expected: list[str]) -> None:
    lost = [run(1, -1), run(2, 1, "late"), run(3, 2, "later")]
    behind = missed(lost, CREATED.isoformat(), captured)
    assert behind.get("code", []) == expected
    assert behind.get("runs", 0) == len(expected)


def test_a_run_is_in_a_snapshot_that_became_durable_behind_the_processs_end() -> None:
    assert missed([run(1, -1)], CREATED.isoformat(), None) == {}


def test_without_a_time_the_order_tells() -> None:
    lost = [run(1, None), run(2, None, "late")]
    assert missed(lost, CREATED.isoformat(), Moment("k", 0, 1))["code"] == ["late"]


async def test_the_run_that_was_cut_off_stays_known_when_the_next_process_dies_too(
    kernel: NotebookKernel,
) -> None:
    renewed: list[str] = []
    kernel.on_restarted.append(renewed.append)
    await kernel.ensure()
    code = "print('It runs.', flush=True); import time; time.sleep(600)"
    begun = asyncio.Event()
    running = asyncio.create_task(
        kernel.execute(code, store_history=True, on_outputs=lambda _: begun.set())
    )
    await begun.wait()
    kill(kernel)
    assert (await running).status == "died"
    await until(lambda: len(renewed) == 1)
    await kernel.follow()
    assert [run.cut_off for _, run in kernel.lost_runs] == [True]
    kill(kernel)
    await until(lambda: len(renewed) == 2)
    assert [run.cut_off for _, run in kernel.lost_runs] == [True]


def kill(kernel: NotebookKernel) -> None:
    assert kernel._connection is not None
    pid = kernel._connection._pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def test_of_many_runs_the_last_are_told_and_the_one_that_was_cut_off() -> None:
    lost = [run(number, number, f"x = {number}") for number in range(1, 31)]
    lost[-1][1].cut_off = True
    assert missed(lost, CREATED.isoformat(), None) == {
        "as_of": CREATED.isoformat(),
        "runs": 30,
        "code": [f"x = {number}" for number in range(31 - TOLD_RUNS, 31)],
        "cut_off": True,
    }


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("", ""),
        ("\n  a = 1\n", "a = 1"),
        ("a\nb", "a …"),
        ("z" * 500, "…"),
        ("key = 'sk-" + "z" * 500, "key = …"),
    ],
)
def test_code_is_told_by_its_first_line(code: str, line: str) -> None:
    assert first_line(code) == line
