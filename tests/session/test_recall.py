"""Search and read over the raw records."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import stat
import time
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prime_ext.errors import PrimeError
from prime_ext.session.recall import Excerpt, Hit, Recall
from prime_ext.session.records import (
    AssistantMessage,
    CompactionEnd,
    Error,
    NotebookOp,
    ToolResult,
    TurnEnd,
    UserMessage,
)
from prime_ext.session.search_index import INDEX_NAME
from prime_ext.session.store import SessionStore
from tests.session.conftest import session_start, title

if TYPE_CHECKING:
    from prime_ext.session.session import Session


BEFORE = "Überall etwas davor. " * 50

BROKEN = sqlite3.OperationalError("disk I/O error")


def say(session: Session, text: str) -> int:
    return session.append(UserMessage(text=text, content=[{"type": "text", "text": text}])).seq


def result(session: Session, text: str, **more: Any) -> int:
    values = {"tool_use_id": "a", "name": "run_code", **more}
    return session.append(ToolResult(content=[{"type": "text", "text": text}], **values)).seq


def call(session: Session, name: str, **arguments: Any) -> int:
    block = {"type": "tool_use", "id": "a", "name": name, "input": arguments}
    return session.append(AssistantMessage(content=[block], model="m")).seq


def seqs(hits: list[Hit]) -> list[int]:
    return [hit.seq for hit in hits]


@pytest.fixture
def session(store: SessionStore) -> Session:
    return store.create(session_start())


def fill(session: Session) -> None:
    for i in range(40):
        say(session, f"filler number {i} about nothing in particular, lr something, error perhaps")


@pytest.mark.parametrize(
    ("fact", "query"),
    [
        ("the flag was --lr=3e-4 --max-depth=7", "--lr=3e-4"),
        ("File src/models/train.py:123 in fit", "src/models/train.py:123"),
        ("File src/models/train.py:123 in fit", "train.py"),
        ("KeyError: 'flipper_length_mm'", "KeyError: 'flipper_length_mm'"),
        ("KeyError: 'flipper_length_mm'", "flipper_length_mm"),
        ("KeyError: 'flipper_length_mm'", "flipper"),
        ("accuracy 0.98371 on the test set", "0.98371"),
        ("accuracy 0.98371 on the test set", "test ACCURACY"),
        ("the connection was refused", "connect refus"),
        ("a[i] != b[j] holds", "!="),
        ("die Größe über alles", "größe"),
        ("résumé of the data", "resume"),
        ("the resume of the data", "Résumé"),
        ("mit der Straßenbahn", "strassenbahn"),
        ("mit der Strassenbahn", "STRAẞENBAHN"),
        ("decomposed: re\u0301sume\u0301", "résumé"),
        ("the ﬁle that overﬂows", "file overflows"),
        ("데이터를 분석하고", "분석"),
        ("ガスのデータ", "ガス"),
        ("売上データの分析", "データ"),
        ("hash deadbeefcafe0123", "beefcafe"),
        ('print("a \\"b\\" c")', 'print("a'),
    ],
)
@pytest.mark.parametrize("indexed", [True, False])
def test_exact_details_are_found(session: Session, fact: str, query: str, indexed: bool) -> None:
    fill(session)
    seq = say(session, f"{BEFORE} {fact} And something behind.")
    fill(session)
    with contextlib.nullcontext() if indexed else patch("sqlite3.connect", side_effect=BROKEN):
        hits = session.search(query)
    assert seqs(hits) == [seq]
    assert hits[0].kind == "user_message"
    assert fact in hits[0].snippet


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize(
    ("query", "inside"),
    [
        ("模型", "我们用线性回归模型v2来预测房价"),
        ("回归 房价", "我们用线性回归模型来预测房价"),
        ('"模型 v2"', "我们用线性回归模型v2来预测房价"),
        ("v2", "我们用模型v2来预测房价"),
        ('"v2"', "我们用模型v2来预测房价"),
        ("欠損値 エラー", "データの欠損値でエラーが出た"),
        ("ผิดพลาด", "ข้อมูลผิดพลาดในไฟล์"),
    ],
)
def test_words_are_found_inside_text_without_spaces(
    session: Session, query: str, inside: str, indexed: bool
) -> None:
    first = say(session, inside)
    second = say(session, f"{query.replace(chr(34), '')} at the beginning of a word")
    say(session, "模 房 ผ v 値 エ")
    with contextlib.nullcontext() if indexed else patch("sqlite3.connect", side_effect=BROKEN):
        assert set(seqs(session.search(query))) == {first, second}


def test_quoted_words_follow_each_other(session: Session) -> None:
    apart = say(session, "the mean of a large sample mean")
    together = say(session, "a sample mean of something large")
    assert set(seqs(session.search("sample mean"))) == {apart, together}
    assert seqs(session.search('"mean of something"')) == [together]
    assert seqs(session.search('"of a large" mean')) == [apart]


def test_some_words_are_better_than_nothing(session: Session) -> None:
    fill(session)
    seq = say(session, "the random forest had 300 trees")
    assert session.search("forest of 512 oaks")[0].seq == seq
    assert session.search("xyzzy plugh") == []


def test_a_long_record_gives_the_part_that_matches(session: Session) -> None:
    say(session, "a " * 5_000 + "the needle is here" + " z" * 5_000)
    (hit,) = session.search("needle")
    assert "the needle is here" in hit.snippet
    assert len(hit.snippet) < 300
    assert hit.snippet.startswith("…")
    assert hit.snippet.endswith("…")


def test_each_kind_that_has_content(session: Session) -> None:
    found = {
        "user_message": say(session, "wombat"),
        "assistant_message": call(session, "run_code", code="print(\n'wombat')"),
        "tool_result": result(session, "wombat"),
        "notebook_op": session.append(
            NotebookOp(
                op_id="o",
                op="edit_cell",
                cell_id="c1",
                status="applied",
                writer="server",
                before={"source": "a = 1"},
                after={"source": "wombat = 1"},
            )
        ).seq,
        "error": session.append(Error(code="kernel_dead", message="The wombat died.")).seq,
    }
    thinking = [{"type": "thinking", "thinking": "Perhaps a wombat?", "signature": "wombat"}]
    thought = session.append(AssistantMessage(content=thinking, model="m")).seq
    session.append(title("wombat"))
    session.append(
        CompactionEnd(
            compaction_id="c",
            outcome="ok",
            trigger="manual",
            tokens_before=1,
            tokens_after=1,
            summary="wombat",
        )
    )
    assert set(seqs(session.search("wombat"))) == {*found.values(), thought}
    for kind, seq in found.items():
        assert seq in seqs(session.search("wombat", [kind]))
    assert {hit.kind for hit in session.search("wombat", ["error", "tool_result"])} == {
        "error",
        "tool_result",
    }
    assert session.search("wombat", ["error"])[0].snippet.endswith("The wombat died.")


def test_arguments_that_are_lists_are_found_in_any_script(session: Session) -> None:
    seq = call(session, "insert_cells", sources=["模型 = 1", "größe = 2"], options={"名": 3})
    for query in ("模型", "größe", "名"):
        (hit,) = session.search(query)
        assert (hit.seq, query in hit.snippet) == (seq, True)


def test_searches_do_not_find_searches(session: Session) -> None:
    call(session, "session_search", query="wombat")
    result(session, "the wombat is in record 7", name="session_search")
    result(session, "the whole wombat", name="session_read")
    assert session.search("wombat") == []


def test_before_and_limit(session: Session) -> None:
    written = [say(session, f"wombat {i}") for i in range(10)]
    assert set(seqs(session.search("wombat"))) == set(written)
    assert set(seqs(session.search("wombat", before=written[3]))) == set(written[:3])
    assert len(session.search("wombat", limit=4)) == 4
    assert seqs(session.search("wombat 7", limit=1)) == [written[7]]


def test_the_whole_of_a_capped_output_is_searched_and_read(session: Session) -> None:
    (session.folder / "outputs" / "9.txt").write_text("x\n" * 50_000 + "needle\n" + "y\n" * 50_000)
    seq = result(session, "x\nx\n[… the rest in outputs/9.txt …]", output_file="9.txt")
    assert seqs(session.search("needle")) == [seq]
    (excerpt,) = session.read([seq], 1_000)
    assert excerpt.chars == 200_007
    assert excerpt.text.endswith("y\n")
    assert len(excerpt.text) < 1_100
    gone = result(session, "wombat, capped", output_file="gone.txt")
    outside = result(session, "wombat, outside", output_file="../session.jsonl")
    assert set(seqs(session.search("wombat"))) == {gone, outside}
    (excerpt,) = session.read([outside])
    assert excerpt.text == "wombat, outside"


def test_wrong_questions(session: Session) -> None:
    for query, kinds, code in (
        ("", None, "empty_query"),
        (" \n", None, "empty_query"),
        ("x", ["title"], "unknown_kind"),
    ):
        with pytest.raises(PrimeError) as caught:
            session.search(query, kinds)
        assert caught.value.code == code
    with pytest.raises(PrimeError) as caught:
        session.read([7, 8])
    assert (caught.value.code, caught.value.status) == ("record_not_found", 404)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.text(min_size=1, max_size=30), st.text(max_size=60))
def test_no_query_fails_and_every_text_is_found(session: Session, query: str, text: str) -> None:
    """Whatever is typed; and a text is found by itself as a query, if it holds anything."""
    before = session.log.last_seq
    stored = session.append(UserMessage(text="", content=[{"type": "text", "text": query + text}]))
    if query.strip():
        hits = session.search(query, limit=1_000)
        if query.isalnum() and query.isascii():
            assert stored.seq in seqs(hits)
    assert session.log.last_seq == before + 1


def test_read_shares_what_there_is_room_for(session: Session) -> None:
    short, long, longer = say(session, "ab"), say(session, "c" * 500), say(session, "d" * 9_000)
    excerpts = session.read([longer, short, long, short, 999], 1_002)
    assert [excerpt.seq for excerpt in excerpts] == [longer, short, long]
    texts = {excerpt.seq: excerpt.text for excerpt in excerpts}
    assert texts[short] == "ab"
    assert texts[long] == "c" * 500
    assert texts[longer].count("d") == 500
    assert "[… 8500 characters left out …]" in texts[longer]
    assert [excerpt.chars for excerpt in excerpts] == [9_000, 2, 500]


def test_bookkeeping_is_read_line_by_line(session: Session) -> None:
    (excerpt,) = session.read([1])
    assert isinstance(excerpt, Excerpt)
    assert (excerpt.kind, excerpt.ts) == ("session_start", session.log.read()[0].ts)
    assert "notebook: work/analysis.ipynb" in excerpt.text.splitlines()


def test_the_end_of_a_turn_is_read_in_words(session: Session) -> None:
    usage = {"input_tokens": 1_000, "cache_read_input_tokens": 9_000, "output_tokens": 50}
    end = session.append(TurnEnd(status="ok", requests=2, usage=usage, cost_usd=0.25))
    (excerpt,) = session.read([end.seq])
    assert excerpt.text.startswith("The turn ended: ok.")
    assert "10,000 read, 50 written" in excerpt.text
    assert "{" not in excerpt.text


# --- the index -------------------------------------------------------------------------------


def test_the_index_is_private_and_survives_a_restart(store: SessionStore, session: Session) -> None:
    seq = say(session, "wombat")
    session.recall.catch_up()
    path = session.folder / INDEX_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    store.close()
    session = store.get(session.id)
    read_on: list[tuple[int, bytes]] = []
    lines = session.log.lines

    def watched(*args: Any) -> list[tuple[int, bytes]]:
        read_on.extend(lines(*args))
        return read_on

    with patch.object(session.log, "lines", watched):
        assert seqs(session.search("wombat")) == [seq]
    assert read_on == [], "indexed again"
    later = say(session, "another wombat")
    assert set(seqs(session.search("wombat"))) == {seq, later}


@pytest.mark.parametrize("rot", [b"", b"not a database at all" * 100, b"SQLite format 3\0" * 300])
def test_a_damaged_index_is_made_anew(store: SessionStore, session: Session, rot: bytes) -> None:
    seq = say(session, "wombat")
    session.search("wombat")
    store.close()
    (session.folder / INDEX_NAME).write_bytes(rot)
    session = store.get(session.id)
    assert seqs(session.search("wombat")) == [seq]
    with sqlite3.connect(session.folder / INDEX_NAME) as db:
        assert db.execute("SELECT count(*) FROM entry").fetchone() == (1,)
    db.close()


@pytest.mark.parametrize("query", ["alpha\0beta", "alpha \ud800beta"])
def test_signs_that_sqlite_does_not_take_do_not_cost_the_index(
    session: Session, query: str
) -> None:
    seq = say(session, "alpha beta")
    session.search("alpha")
    with (session.folder / INDEX_NAME).open("rb") as index:
        assert seqs(session.search(query)) == [seq]
        assert os.fstat(index.fileno()).st_nlink == 1


def test_an_index_of_another_log_is_made_anew(store: SessionStore, session: Session) -> None:
    say(session, "wombat")
    session.search("wombat")
    other = store.create(session_start())
    seq = say(other, "no marsupial")
    store.close()
    (session.folder / INDEX_NAME).rename(other.folder / INDEX_NAME)
    other = store.get(other.id)
    assert seqs(other.search("wombat")) == []
    assert seqs(other.search("marsupial")) == [seq]


def test_without_an_index_the_log_is_searched(session: Session) -> None:
    first = say(session, "wombat one")
    second = result(session, "two WOMBATS")
    say(session, "nothing")
    with patch("sqlite3.connect", side_effect=sqlite3.OperationalError("disk I/O error")):
        assert seqs(session.search("wombat")) == [second, first]
        assert seqs(session.search("one wombat")) == [first]
        assert seqs(session.search("wombat", ["tool_result"])) == [second]
        assert seqs(session.search("wombat", before=second)) == [first]
        assert seqs(session.search("wombat", limit=1)) == [second]
    assert set(seqs(session.search("wombat"))) == {first, second}


@pytest.mark.parametrize(
    "query", ["zebra*", 'zebra"1', "NOT zebra1", '"zebra1', "zebra1)", '"zebra1 stripes"', "ebra1"]
)
def test_an_index_that_cannot_be_made_changes_no_answer(session: Session, query: str) -> None:
    seq = say(session, "my pet is (zebra1_stripes)")
    say(session, "my horse is called otherwise")
    assert seqs(session.search(query)) == [seq]
    session.recall.close()
    (session.folder / INDEX_NAME).unlink()
    (session.folder / INDEX_NAME / "in the way").mkdir(parents=True)
    session.recall = Recall(session.folder, session.log)
    assert seqs(session.search(query)) == [seq]
    assert session.search('"stripes zebra1"') == []


def test_no_symbolic_link_becomes_the_index(
    store: SessionStore, session: Session, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target = tmp_path_factory.mktemp("elsewhere") / "precious"
    target.write_text("precious")
    (session.folder / INDEX_NAME).symlink_to(target)
    seq = say(session, "wombat")
    assert seqs(session.search("wombat")) == [seq]
    assert target.read_text() == "precious"


def test_a_long_log_is_searched_quickly(session: Session) -> None:
    with patch("os.fsync"):
        for i in range(2_000):
            result(session, f"row {i}: " + f"value_{i * 7919 % 1000} " * 100)
    session.recall.catch_up()
    started = time.process_time()
    assert session.search("row 1234")[0].snippet.startswith("row 1234:")
    assert time.process_time() - started < 1


async def test_the_end_of_a_turn_is_indexed_in_the_background(session: Session) -> None:
    say(session, "wombat")
    indexed = asyncio.Event()
    loop = asyncio.get_running_loop()
    catch_up = session.recall.catch_up

    def noticed() -> None:
        catch_up()
        loop.call_soon_threadsafe(indexed.set)

    with patch.object(session.recall, "catch_up", noticed):
        session.append(TurnEnd(status="ok"))
        await asyncio.wait_for(indexed.wait(), 20)
    db = sqlite3.connect(session.folder / INDEX_NAME)
    assert db.execute("SELECT seq FROM entry").fetchall() == [(2,)]
    db.close()
