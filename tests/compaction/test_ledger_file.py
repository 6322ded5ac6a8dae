"""The ledger's file: derived from the log, and ready when it is asked for once more."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from prime_ext.compaction.ledger_file import NAME, LedgerFile
from prime_ext.session.log import SessionLog
from prime_ext.session.records import UserMessage

LOGGER = logging.getLogger(__name__)


class Counter:
    """Counts a token for each character, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, text: str) -> int:
        self.asked += 1
        return len(text)


@pytest.fixture
def log(tmp_path: Path) -> SessionLog:
    log = SessionLog.open(tmp_path / "session.jsonl")
    for number in range(1, 41):
        log.append(UserMessage(text=f"The limit is {4710 + number} units.", content=[]))
    return log


@pytest.fixture
def opened(tmp_path: Path, log: SessionLog) -> Callable[[], LedgerFile]:
    return lambda: LedgerFile(tmp_path, log, LOGGER)


async def test_what_was_made_ahead_is_there(opened: Callable[[], LedgerFile]) -> None:
    ledger, count = opened(), Counter()
    ahead = await ledger.text(39, 2_000, count)
    assert "4749" in ahead
    assert "4750" not in ahead
    asked = count.asked
    assert await ledger.text(39, 2_000, count) == ahead
    assert count.asked == asked
    assert "4750" in await ledger.text(40, 2_000, count)
    # A compaction that was to reach further has not come to be.
    assert await ledger.text(39, 2_000, count) == ahead


async def test_it_is_as_short_as_it_must_be(opened: Callable[[], LedgerFile]) -> None:
    short = await opened().text(40, 100, Counter())
    assert len(short) < len(await opened().text(40, 2_000, Counter()))


async def test_a_lost_file_is_made_anew(opened: Callable[[], LedgerFile], tmp_path: Path) -> None:
    before = await opened().text(40, 2_000, Counter())
    assert await opened().text(40, 2_000, Counter()) == before
    for damaged in ("{", "[1]"):
        (tmp_path / NAME).write_text(damaged, "utf-8")
        assert await opened().text(40, 2_000, Counter()) == before
    (tmp_path / NAME).unlink()
    assert await opened().text(40, 2_000, Counter()) == before


async def test_a_file_of_lost_records_is_made_anew(
    opened: Callable[[], LedgerFile], log: SessionLog, tmp_path: Path
) -> None:
    await opened().text(40, 2_000, Counter())
    lines = log.path.read_bytes().splitlines(keepends=True)
    log.path.write_bytes(b"".join(lines[:30]))  # what a power failure may leave
    after = SessionLog.open(log.path)
    for number in range(31, 42):
        after.append(UserMessage(text=f"The limit is now {9710 + number} units.", content=[]))
    text = await LedgerFile(tmp_path, after, LOGGER).text(41, 4_000, Counter())
    assert "4740" in text
    assert "4741" not in text
    assert "9741" in text
    after.close()
