"""What comes behind the end of a run, cut into changes of its cell: pure, without a kernel."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prime_ext.errors import PrimeError
from prime_ext.kernel import outputs as outputs_module
from prime_ext.kernel.late_outputs import LateOutputs
from prime_ext.kernel.outputs import OutputChange, OutputCollector
from prime_ext.notebook.operations import apply_operation
from tests.notebook.conftest import code_cell, notebook_of, text_cell

Message = tuple[str, dict[str, Any]]


def stream(text: str, name: str = "stdout") -> Message:
    return "stream", {"name": name, "text": text}


def display(text: str, display_id: str | None = None, kind: str = "display_data") -> Message:
    content: dict[str, Any] = {"data": {"text/plain": text}, "metadata": {}}
    if display_id is not None:
        content["transient"] = {"display_id": display_id}
    return kind, content


def update(text: str, display_id: str) -> Message:
    return display(text, display_id, "update_display_data")


CLEAR: Message = ("clear_output", {"wait": False})
CLEAR_NEXT: Message = ("clear_output", {"wait": True})


class Cell:
    """A cell that shows a run, and what comes late for it."""

    def __init__(self, *run: Message) -> None:
        collector = OutputCollector()
        for message in run:
            collector.add(*message)
        self.cell = {**code_cell("1", "a"), "outputs": collector.outputs, "execution_count": 3}
        self.late = LateOutputs(collector, lambda: None)

    @property
    def outputs(self) -> list[dict[str, Any]]:
        outputs: list[dict[str, Any]] = self.cell["outputs"]
        return outputs

    def hear(self, *messages: Message) -> None:
        for message in messages:
            self.late.hear(*message)

    def bring(self, *meanwhile: Message) -> None:
        """Bring what has come into the cell; ``meanwhile`` comes while that is on its way."""
        change = self.late.take()
        self.hear(*meanwhile)
        if change is None:
            return
        after = apply_operation(notebook_of([self.cell]), self.operation(change)).after
        assert after is not None
        self.late.settle(after["outputs"])

    def operation(self, change: OutputChange) -> dict[str, Any]:
        return {
            "op": "late_outputs",
            "cell_id": "a",
            "execution_count": self.cell["execution_count"],
            "base": change.base,
            "clear": change.clear,
            "updates": [{"index": i, **shown} for i, shown in change.updates.items()],
            "ending": change.ending,
            "outputs": change.outputs,
        }

    def clear(self) -> None:
        """A person clears the cell."""
        self.cell.update(outputs=[], execution_count=None)


def all_at_once(messages: list[Message]) -> list[dict[str, Any]]:
    collector = OutputCollector()
    for message in messages:
        collector.add(*message)
    return collector.outputs


def joined(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With streams of the same name that follow each other as one."""
    whole: list[dict[str, Any]] = []
    for output in outputs:
        last = whole[-1] if whole else {}
        if "name" in output and last.get("name") == output["name"]:
            whole[-1] = {**last, "text": last["text"] + output["text"]}
        else:
            whole.append(output)
    return whole


texts = st.text(alphabet="ab\n", min_size=1, max_size=4)
ids = st.sampled_from(["x", "y"])
plain = st.one_of(
    st.builds(stream, texts, st.sampled_from(["stdout", "stderr"])),
    st.builds(display, texts, st.none() | ids),
    st.builds(display, texts, ids, st.just("execute_result")),
    st.builds(update, texts, ids),
)
terminal = st.builds(stream, st.text(alphabet="ab\n\r\b", min_size=1, max_size=6))
anything = st.one_of(plain, terminal, st.sampled_from([CLEAR, CLEAR_NEXT]))


def pieces(of: st.SearchStrategy[Message]) -> st.SearchStrategy[list[list[Message]]]:
    return st.lists(st.lists(of, max_size=4), max_size=8)


@given(st.lists(anything, max_size=5), pieces(anything))
def test_how_it_is_cut_does_not_matter(run: list[Message], late: list[list[Message]]) -> None:
    cell = Cell(*run)
    for number, piece in enumerate(late):
        if number % 2:
            cell.bring(*piece)
        else:
            cell.hear(*piece)
    cell.bring()
    assert cell.outputs == all_at_once([*run, *chain(*late)])


@example(
    [display("a", "x", "execute_result"), stream("a")],
    [[], [stream("a"), display("a", "x", "execute_result")]],
)
@given(st.lists(plain, max_size=5), pieces(plain))
def test_a_cell_that_a_person_clears_goes_on_as_one_that_the_code_clears(
    run: list[Message], late: list[list[Message]]
) -> None:
    cell = Cell(*run)
    cell.clear()
    cell.hear(stream("first"))
    for piece in late:
        cell.bring(*piece)
    cell.bring()
    # What goes on in a line that was cleared may stand by itself: nothing is lost or twice.
    assert joined(cell.outputs) == all_at_once([stream("first"), *chain(*late)])


def test_only_what_is_new_is_handed_on() -> None:
    cell = Cell(stream("a" * 1000 + "\n50 %"))
    cell.hear(stream("\r60 %"))
    change = cell.late.take()
    assert change is not None
    assert (change.ending, [o["text"] for o in change.outputs]) == ("50 %", ["60 %"])
    assert cell.late.take() is None


def test_text_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs_module, "MAX_STREAM_CHARS", 1000)
    cell = Cell(stream("begin\n"))
    for number in range(1000):
        cell.hear(stream(f"{number}\n"))
        cell.bring()
    (output,) = cell.outputs
    assert output["text"].startswith("begin\n0\n1\n2\n")
    assert output["text"].count("is left out") == 1
    assert len(output["text"]) < 1500
    cell.hear(CLEAR, stream("anew"))
    cell.bring()
    assert [o["text"] for o in cell.outputs] == ["anew"]


def test_a_display_that_is_updated_for_hours_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs_module, "MAX_DISPLAY_BYTES", 1000)
    cell = Cell(display("x" * 600, "plot"))
    for number in range(20):
        cell.hear(update(str(number % 10) * 600, "plot"))
        cell.bring()
    assert cell.outputs[0]["data"] == {"text/plain": "9" * 600}
    cell.hear(display("y" * 600))
    cell.bring()
    assert "left out" in cell.outputs[1]["data"]["text/plain"]


def test_nothing_gets_into_another_run_or_a_cell_of_another_kind() -> None:
    cell = Cell(stream("a"))
    cell.hear(stream("late"))
    change = cell.late.take()
    assert change is not None
    operation = cell.operation(change)
    rerun = {**cell.cell, "execution_count": 4}
    for there, code in ((rerun, "run_superseded"), (text_cell("1", "a"), "not_a_code_cell")):
        before = dict(there)
        with pytest.raises(PrimeError) as caught:
            apply_operation(notebook_of([there]), operation)
        assert caught.value.code == code
        assert there == before
