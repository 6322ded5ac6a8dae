"""``jupyter prime stats``: figures of a session, as text, JSON and a picture."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from prime_ext.cli.main import main
from prime_ext.cli.stats import Course, chart
from prime_ext.session.records import AssistantMessage, CompactionEnd, TurnEnd
from prime_ext.session.store import SessionStore
from tests.session.conftest import session_start


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "prime"


@pytest.fixture
def session_id(data_dir: Path) -> str:
    store = SessionStore(data_dir / "sessions", logging.getLogger("tests"))
    session = store.create(session_start(notebook="work.ipynb"))
    for read in (0, 900, 1_900, 100):
        usage = {"input_tokens": 100, "cache_read_input_tokens": read, "output_tokens": 10}
        session.append(AssistantMessage(content=[], model="m", usage=usage, cost_usd=0.5))
        if read == 1_900:
            session.append(
                CompactionEnd(
                    compaction_id="c",
                    outcome="ok",
                    trigger="threshold",
                    path="swap",
                    tokens_before=2_000,
                    tokens_after=200,
                    wait_ms=12,
                    usage={"input_tokens": 300},
                    cost_usd=0.25,
                )
            )
    session.append(TurnEnd(status="ok"))
    store.close()
    return session.id


def stats(data_dir: Path, *arguments: str) -> int:
    return main(["stats", "--data-dir", str(data_dir), *arguments])


def test_it_prints_sums_and_a_chart(
    data_dir: Path, session_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stats(data_dir, session_id) == 0
    text = capsys.readouterr().out
    assert "1 with 4 requests" in text
    assert "3,600 tokens, 80.6% of them from the cache, 3,600 a turn" in text
    assert "about $2.25" in text
    assert "about $0.25 of it, for 300 of the input tokens" in text
    assert "swap ×1 (longest wait 12 ms)" in text
    assert "1,800 tokens taken out" in text
    assert "    2,000   █" in text
    assert "^ compacted" in text


def test_it_prints_json_and_draws(
    data_dir: Path, session_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "course.svg"
    assert stats(data_dir, "--notebook", "work.ipynb", "--json", "--plot", str(picture)) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["session"] == session_id
    assert values["context_tokens"] == [100, 1_000, 2_000, 200]
    assert values["compacted_at"] == [3]
    assert values["compactions"]["swap"]["count"] == 1
    assert "<svg" in picture.read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "No session was given."),
        (["nonesuch"], "There is no session 'nonesuch'"),
        (["--notebook", "other.ipynb"], "There is no session about 'other.ipynb'"),
    ],
)
def test_what_it_cannot_show_is_said(
    data_dir: Path,
    session_id: str,
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert stats(data_dir, *arguments) == 1
    assert said in capsys.readouterr().err


def test_a_picture_that_cannot_be_written_is_an_error(
    data_dir: Path, session_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stats(data_dir, session_id, "--plot", str(tmp_path / "a.nonesuch")) == 1
    assert "could not be written" in capsys.readouterr().err


def test_a_long_course_is_drawn_as_wide_as_a_terminal() -> None:
    lines = chart(Course(list(range(1, 1_001)), [(500, "swap")]))
    assert max(map(len, lines)) < 80
    assert lines[0].lstrip().startswith("1,000")
    assert chart(Course([], [])) == ["No request has been answered yet."]
