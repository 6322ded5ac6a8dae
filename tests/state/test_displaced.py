"""What the notebook has put something else in the place of, in a module."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .kernels import Case, CasesInKernels
from .snapshots import load, save

CASES = [
    Case(
        "functions",
        "original waits",
        """
        import math, time
        original = time.sleep
        def sleep(seconds): return "slept"
        time.sleep = sleep
        class Waits:
            how = staticmethod(original)
        waits = {"how": original, "other": math.floor, "rows": [1, 2], "Waits": Waits}
        """,
        """
        assert original is waits["how"] is waits["Waits"].how and original(0) is None
        assert time.sleep is sleep and sleep(1) == "slept" and waits["rows"] == [1, 2]
        assert waits["other"] is math.floor
        """,
    ),
    Case(
        "classes",
        "date days",
        """
        import datetime
        date = datetime.date
        class Fixed(date):
            @classmethod
            def today(cls): return date(2020, 1, 2)
        datetime.date = Fixed
        days = [date, date(2021, 3, 4), Fixed(2022, 5, 6)]
        """,
        """
        assert datetime.date is Fixed and datetime.date.today() == date(2020, 1, 2)
        assert days[0] is date and type(days[1]) is date and type(days[2]) is Fixed
        assert issubclass(Fixed, date)
        """,
    ),
]


@pytest.mark.parametrize("where", ["hot", "cold"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_roundtrip(restored: CasesInKernels, case: Case, where: str) -> None:
    restored.check(case, where)


@contextlib.contextmanager
def nameless() -> Iterator[Any]:
    floor = math.floor
    del math.floor
    try:
        yield floor
    finally:
        math.floor = floor


def test_one_without_a_place_is_all_that_is_lost(tmp_path: Path, key: bytes) -> None:
    with nameless() as function:
        held = {"function": function, "rows": [1, 2]}
        status = save(tmp_path, {"held": held}, key).names["held"]
    assert status.status == "degraded"
    assert "math has nothing of the name floor" in status.reason
    assert load(tmp_path, key)["held"]["rows"] == [1, 2]
