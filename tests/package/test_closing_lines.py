"""What `make test` makes of its runners' words."""

from __future__ import annotations

import pytest

from scripts.node import OLDEST, parse_version
from scripts.runner import (
    JEST,
    PLAYWRIGHT,
    PYTEST,
    Outcome,
    Runner,
    Tally,
    closing_lines,
    judge,
    tally,
)


def judged(pattern: object, output: str, returncode: int = 0) -> Outcome:
    return judge(Runner("it", ["it"], pattern), returncode, output, 1.0)  # type: ignore[arg-type]


def test_pytest_closes_with_its_last_line() -> None:
    output = (
        "tests/test_a.py::test_b PASSED\n"
        "=========================== short test summary info ===========================\n"
        "FAILED tests/test_a.py::test_c - assert 1 passed\n"
        "\x1b[31m===== \x1b[31m\x1b[1m1 failed\x1b[0m, \x1b[32m20 passed\x1b[0m, 2 skipped, "
        "3 deselected, 1 xfailed, 4 errors in 61.20s (0:01:01) =====\x1b[0m\n"
    )

    outcome = judged(PYTEST, output, returncode=1)

    assert len(outcome.lines) == 1
    assert outcome.lines[0].startswith("===== 1 failed, 20 passed")
    assert outcome.tally == Tally(passed=21, failed=5, skipped=2)
    assert not outcome.ok


def test_a_test_that_passed_when_it_was_tried_again_counts_once() -> None:
    outcome = judged(PYTEST, "===== 20 passed, 2 skipped, 1 rerun in 61.20s (0:01:01) =====\n")

    assert outcome.lines[0].startswith("===== 20 passed, 2 skipped, 1 rerun")
    assert outcome.tally == Tally(passed=20, skipped=2)
    assert outcome.ok


def test_jest_closes_with_the_count_of_tests_not_of_suites() -> None:
    output = (
        "Test Suites: 1 failed, 2 passed, 3 total\n"
        "Tests:       1 failed, 1 skipped, 30 passed, 32 total\n"
        "Snapshots:   0 total\n"
    )

    outcome = judged(JEST, output, returncode=1)

    assert outcome.lines == ("Tests:       1 failed, 1 skipped, 30 passed, 32 total",)
    assert outcome.tally == Tally(passed=30, failed=1, skipped=1)


def test_playwright_closes_with_a_line_for_each_outcome() -> None:
    output = (
        "  ✓  1 ui-tests/tests/a.spec.ts:3:1 › 3 passed cells (4.5s)\n"
        "  1 failed\n"
        "    ui-tests/tests/a.spec.ts:9:1 › 2 failed runs are shown ───\n"
        "  1 flaky\n"
        "  2 did not run\n"
        "  7 passed (18.7s)\n"
    )

    outcome = judged(PLAYWRIGHT, output, returncode=1)

    assert outcome.lines == ("  1 failed", "  1 flaky", "  2 did not run", "  7 passed (18.7s)")
    assert outcome.tally == Tally(passed=8, failed=3)


@pytest.mark.parametrize(
    ("output", "returncode"),
    [
        ("", 1),
        ("===== no tests ran in 0.01s =====\n", 5),
        ("===== 3 passed in 0.10s =====\n", 3),
        ("", 0),
    ],
)
def test_a_runner_that_breaks_or_runs_nothing_counts_as_a_failure(
    output: str, returncode: int
) -> None:
    outcome = judged(PYTEST, output, returncode)

    assert not outcome.ok
    assert outcome.tally.failed == 1


@pytest.mark.parametrize(("returncode", "expected"), [(0, Tally(passed=1)), (2, Tally(failed=1))])
def test_a_check_counts_as_one_test(returncode: int, expected: Tally) -> None:
    assert judged(None, "anything: 7 failed\n", returncode).tally == expected


def test_the_total_is_one_plain_line() -> None:
    total = sum([Tally(3, 0, 1), Tally(2, 1)], Tally())

    assert str(total) == "5 passed, 1 failed, 1 skipped"
    assert str(Tally(5)) == "5 passed, 0 failed"
    assert tally(closing_lines(f"===== {total} in 1.00s =====", PYTEST)) == total


@pytest.mark.parametrize(
    ("text", "enough"),
    [("v20.19.0\n", True), ("v24.1.0", True), ("v20.18.3", False), ("v8.1.0", False), ("", False)],
)
def test_node_must_be_new_enough(text: str, enough: bool) -> None:
    assert (parse_version(text) >= OLDEST) is enough
