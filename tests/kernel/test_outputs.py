"""Messages to outputs: pure, without a kernel."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_ext.clean_text import without_escapes
from prime_ext.kernel import outputs as outputs_module
from prime_ext.kernel.outputs import OutputCollector
from prime_ext.kernel.stream_text import StreamText


def stream(text: str, name: str = "stdout") -> tuple[str, dict[str, Any]]:
    return "stream", {"name": name, "text": text}


def collected(*messages: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    collector = OutputCollector()
    for msg_type, content in messages:
        collector.add(msg_type, content)
    return collector.outputs


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (["a\n", "b"], "a\nb"),
        (["10%", "\r20%", "\r100%\n", "done"], "100%\ndone"),
        (["longer line\rshort"], "shortr line"),
        (["abc\b\bX"], "aXc"),
        (["line\r\nnext\r\n"], "line\nnext\n"),
        (["\b\bx"], "x"),
        (["a\r", "b\nc"], "b\nc"),
    ],
)
def test_a_stream_reads_as_in_a_terminal(written: list[str], shown: str) -> None:
    text = StreamText()
    for part in written:
        text.write(part)
    assert str(text) == shown


@given(st.lists(st.text(alphabet="ab\n\r\b", max_size=8), max_size=8))
def test_how_a_stream_is_cut_into_messages_does_not_matter(parts: list[str]) -> None:
    whole, pieces = StreamText(), StreamText()
    whole.write("".join(parts))
    for part in parts:
        pieces.write(part)
    assert str(whole) == str(pieces)


def test_an_endless_stream_keeps_head_and_tail() -> None:
    text = StreamText(limit=1000)
    for number in range(10_000):
        text.write(f"line {number}\n")
    shown = str(text)
    assert shown.startswith("line 0\nline 1\n")
    assert shown.endswith("line 9998\nline 9999\n")
    assert f"{text.left_out:,} characters left out" in shown
    written = sum(len(f"line {number}\n") for number in range(10_000))
    assert text.left_out == written - 1000
    assert len(shown) < 1100


def test_an_endless_line_is_bounded_too() -> None:
    text = StreamText(limit=1000)
    for _ in range(10_000):
        text.write("....")
    assert len(str(text)) < 2000


def test_neighbouring_writes_are_one_output() -> None:
    assert collected(stream("a"), stream("b"), stream("e", "stderr"), stream("c")) == [
        {"output_type": "stream", "name": "stdout", "text": "ab"},
        {"output_type": "stream", "name": "stderr", "text": "e"},
        {"output_type": "stream", "name": "stdout", "text": "c"},
    ]


def display(text: str, display_id: str | None = None) -> dict[str, Any]:
    content: dict[str, Any] = {"data": {"text/plain": text}, "metadata": {}}
    if display_id:
        content["transient"] = {"display_id": display_id}
    return content


def test_a_display_is_updated_in_place() -> None:
    outputs = collected(
        ("display_data", display("0 %", "bar")),
        stream("between"),
        ("display_data", display("0 %", "bar")),
        ("update_display_data", display("50 %", "bar")),
        ("update_display_data", display("100 %", "bar")),
        ("update_display_data", display("not shown", "other")),
    )
    assert [output.get("data") for output in outputs] == [
        {"text/plain": "100 %"},
        None,
        {"text/plain": "100 %"},
    ]
    assert all("transient" not in output for output in outputs)


def test_what_is_shown_under_the_same_id_replaces_what_was() -> None:
    first, second = collected(
        ("display_data", display("old", "x")), ("display_data", display("new", "x"))
    )
    assert first["data"] == second["data"] == {"text/plain": "new"}


def test_outputs_handed_out_do_not_change_later() -> None:
    collector = OutputCollector()
    collector.add("display_data", display("old", "x"))
    before = collector.outputs
    collector.add("update_display_data", display("new", "x"))
    collector.add(*stream("more"))
    assert before == [
        {"output_type": "display_data", "data": {"text/plain": "old"}, "metadata": {}}
    ]


def test_clear_output_now_and_with_the_next_output() -> None:
    assert collected(stream("old"), ("clear_output", {"wait": False})) == []
    waiting = collected(stream("old"), ("clear_output", {"wait": True}))
    assert [output["text"] for output in waiting] == ["old"]
    replaced = collected(stream("old"), ("clear_output", {"wait": True}), stream("new"))
    assert [output["text"] for output in replaced] == ["new"]


def test_rich_outputs_beyond_the_budget_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs_module, "MAX_DISPLAY_BYTES", 1000)
    image = {"data": {"image/png": "x" * 600}, "metadata": {}}
    first, second = collected(("display_data", image), ("display_data", image))
    assert first["data"] == {"image/png": "x" * 600}
    assert "image/png" in str(second["data"])
    assert "left out" in str(second["data"])


def test_colours_are_taken_out() -> None:
    assert without_escapes("\x1b[0;31mZeroDivisionError\x1b[0m: \x1b[38;5;28mdivision\x1b[39m") == (
        "ZeroDivisionError: division"
    )
    assert without_escapes("\x1b]8;;http://x\x07link\x1b]8;;\x07") == "link"
