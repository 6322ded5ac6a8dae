"""The ledger keeps exact details of what was compacted, across compactions."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from prime_ext.context.ledger import Ledger
from prime_ext.session.records import (
    AnyRecord,
    AssistantMessage,
    Error,
    NotebookOp,
    ToolResult,
    UserMessage,
)
from tests.context.conversations import numbered, sessions, start, text_block


def call(identifier: str, name: str, **arguments: str) -> AssistantMessage:
    block = {"type": "tool_use", "id": identifier, "name": name, "input": arguments}
    return AssistantMessage(content=[block], model="m")


def result(identifier: str, name: str, text: str, *, is_error: bool = False) -> ToolResult:
    return ToolResult(
        tool_use_id=identifier, name=name, content=[text_block(text)], is_error=is_error
    )


TRACE = """\
---------------------------------------------------------------------------
KeyError                                  Traceback (most recent call last)
Cell In[12], line 3
      1 def load(path):
----> 3     return frame['prcie']

KeyError: 'prcie'"""

WORK = numbered(
    [
        start(),
        UserMessage(text="Use --alpha=0.35, never 0.5.", content=[text_block("…")]),
        call("a", "read_file", path="src/load.py"),
        result("a", "read_file", "1: x"),
        call("b", "edit_file", path="src/load.py", old="timeout = 30", new="timeout = 4217"),
        result("b", "edit_file", "Edited."),
        call("c", "edit_file", path="src/gone.py", old="a", new="b"),
        result("c", "edit_file", "There is no file src/gone.py. List the folder.", is_error=True),
        call("d", "run_code", code="load('x')"),
        result("d", "run_code", TRACE, is_error=True),
        NotebookOp(
            op_id="1",
            op="edit_cell",
            cell_id="ab12",
            status="applied",
            writer="browser",
            before={"source": "n = 1\nshow(n)"},
            after={"source": "n = 2039\nshow(n)"},
        ),
        NotebookOp(op_id="2", op="edit_cell", cell_id="cd", status="conflict", writer="browser"),
        Error(code="overloaded", message="The model's server was overloaded.", where="model"),
        Error(code="timeout", message="The summary could not be made.", where="compaction"),
    ]
)


def test_it_holds_what_was_asked_read_changed_and_what_failed() -> None:
    text = Ledger().extended(WORK, len(WORK)).render(10_000)
    assert "- [2] Use --alpha=0.35, never 0.5." in text
    assert "- [4] src/load.py" in text
    assert "- [6] src/load.py: timeout = 4217" in text
    assert "There is no file src/gone.py" in text
    assert "KeyError: 'prcie' (run_code; at Cell In[12], line 3)" in text
    assert "edit_cell ab12: n = 2039" in text
    assert "show(n)" not in text
    assert "cd" not in text.split()
    assert "overloaded" in text
    assert "The summary" not in text


@given(sessions(), st.data())
def test_compacting_in_steps_keeps_what_compacting_once_keeps(
    records: list[AnyRecord], data: st.DataObject
) -> None:
    last = records[-1].seq
    # A cut never comes between a call and its results, so neither do the steps.
    ends = sorted(
        data.draw(st.lists(st.sampled_from([r.seq for r in records if r.kind == "turn_end"])))
    )
    ledger = Ledger()
    for end in [*ends, last]:
        ledger = Ledger.from_dict(json.loads(json.dumps(ledger.to_dict())))
        ledger = ledger.extended(records, max(end, ledger.through_seq))
    assert ledger == Ledger().extended(records, last)


@given(sessions(), st.integers(0, 3_000))
def test_it_fits_in_its_room(records: list[AnyRecord], room: int) -> None:
    assert len(Ledger().extended(records, records[-1].seq).render(room)) <= room


def test_the_newest_stay_where_not_everything_fits() -> None:
    asked = [UserMessage(text=f"Request {n}", content=[text_block("…")]) for n in range(100)]
    records = numbered([start(), *asked])
    text = Ledger().extended(records, len(records)).render(500)
    assert "Request 99" in text
    assert "Request 1\n" not in text
    assert "older ones in the records" in text


def test_a_damaged_ledger_is_an_empty_one() -> None:
    assert Ledger.from_dict({"through_seq": "x"}) == Ledger()
