"""A conversation with the offline agent in a world of scripted tools.

The tools answer in the form of the real ones; what a run comes to is set by the test. Every
message that goes in or out is checked by the rules of the Messages API.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from prime_ext.agent.permissions import DECLINED
from prime_ext.agent.tools.notebook import listing
from prime_ext.context.summary import instruction, summary_turn
from prime_ext.models.model import (
    Block,
    BlockStart,
    ModelRequest,
    Reply,
    TextDelta,
    ToolInputDelta,
)
from prime_ext.models.offline import OfflineModel
from prime_ext.notebook.cell import Cell
from prime_ext.notebook.describe import describe_cell
from tests.messages_api.conversation import check_order, check_pairing
from tests.messages_api.shape import messages as check_messages

TOOLS = [
    "run_code",
    "list_variables",
    "inspect_variable",
    "read_notebook",
    "insert_cell",
    "edit_cell",
    "delete_cell",
    "move_cell",
    "run_cell",
    "list_files",
    "read_file",
    "search_files",
    "edit_file",
    "write_file",
    "session_search",
    "session_read",
    "compact_context",
]

PENGUINS = """\
pandas.DataFrame, shape (344, 8), 77,000 bytes
index: RangeIndex, 0 … 343
columns (dtype, missing values):
  'species': str, 0 missing
  'island': str, 0 missing
  'bill_length_mm': float64, 2 missing
  'bill_depth_mm': float64, 2 missing
  'flipper_length_mm': float64, 2 missing
  'body_mass_g': float64, 2 missing
  'sex': str, 11 missing
  'year': int64, 0 missing
first rows:
   species     island  bill_length_mm"""

Outcome = tuple[str, bool]
"""Text of a result, and whether it is an error."""


class World:
    """One session: its messages, cells, variables and files, and what a run comes to."""

    def __init__(self) -> None:
        self.model = OfflineModel()
        self.notebook = "examples/tour.ipynb"
        self.messages: list[dict[str, Any]] = []
        self.cells: list[Cell] = []
        self.readable = 1_000
        """Cells shown in full in one reading of the notebook; five times as many are listed."""
        self.variables: dict[str, tuple[str, str]] = {}
        """Name → type and what ``inspect_variable`` says."""
        self.folders = {
            "": "the server's root, 1 entries:\nexamples/",
            "examples": "examples, 3 entries:\npenguins.csv  15 kB  2026-01-05 10:00\n"
            "README.md  1 kB  2026-01-05 10:00\ntour.ipynb  2 kB  2026-01-05 10:00",
        }
        self.answers: dict[str, Outcome | Callable[[dict[str, Any]], Outcome]] = {}
        """Tool → what it answers instead of what it does here."""
        self.on_run: Callable[[str], Outcome] = lambda _source: ("Ran without output.", False)
        self.declined: set[str] = set()
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.texts: list[str] = []
        self.ids: set[str] = set()
        """Ids of all calls ever, those of compacted messages included."""

    def add_penguins(self) -> None:
        self.variables["penguins"] = ("pandas.DataFrame", PENGUINS)

    def loads_penguins(self, output: str = "") -> None:
        """Every run defines ``penguins`` and shows ``output``."""

        def run(_source: str) -> Outcome:
            self.add_penguins()
            return output, False

        self.on_run = run

    def add_cell(self, source: str, cell_type: str = "code", **fields: Any) -> Cell:
        cell = Cell(f"c{len(self.cells) + 1:03d}", cell_type, source, len(self.cells), **fields)
        self.cells.append(cell)
        return cell

    @property
    def names(self) -> list[str]:
        """Names of the calls so far."""
        return [name for name, _ in self.calls]

    @property
    def sources(self) -> list[str]:
        """Sources of the cells the agent inserted."""
        return [arguments["source"] for name, arguments in self.calls if name == "insert_cell"]

    # --- talking ---------------------------------------------------------------------------------

    async def ask(self, text: str, *extra: Block, max_requests: int = 60) -> str:
        """Send a message and carry out what is called until the turn ends; the last words."""
        self.messages.append({"role": "user", "content": [*extra, {"type": "text", "text": text}]})
        return await self.go_on(max_requests)

    async def go_on(self, max_requests: int = 60) -> str:
        for _ in range(max_requests):
            calls = await self.step()
            if not calls:
                return self.texts[-1]
            self.answer(calls)
        raise AssertionError(f"No end after {max_requests} requests: {self.names}")

    async def step(self) -> list[Block]:
        """One request; the calls of its reply."""
        reply = await self.request(self.messages)
        self.messages.append({"role": "assistant", "content": reply.content})
        self.texts.append("".join(b["text"] for b in reply.content if b["type"] == "text"))
        calls = [block for block in reply.content if block["type"] == "tool_use"]
        for call in calls:
            assert call["id"] not in self.ids
            self.ids.add(call["id"])
        assert reply.stop_reason == ("tool_use" if calls else "end_turn")
        return calls

    def answer(self, calls: list[Block]) -> None:
        """Carry out ``calls`` and add the message with their results."""
        results = []
        for call in calls:
            self.calls.append((call["name"], call["input"]))
            text, failed = self._do(call["name"], call["input"])
            text = text or "Ran without output."
            block: Block = {
                "type": "tool_result",
                "tool_use_id": call["id"],
                "content": [{"type": "text", "text": text}],
            }
            results.append({**block, "is_error": True} if failed else block)
        self.messages.append({"role": "user", "content": results})

    async def request(self, messages: list[dict[str, Any]], **fields: Any) -> Reply:
        """Send ``messages`` as they are; checks the stream against the reply."""
        checked = check_messages(copy.deepcopy(messages))
        check_order(checked)
        check_pairing(checked)
        request = ModelRequest(
            system=[{"type": "text", "text": f"The notebook is `{self.notebook}`."}],
            tools=[{"name": name, "description": "", "input_schema": {}} for name in TOOLS],
            messages=copy.deepcopy(messages),
            **{"max_tokens": 8_000, **fields},
        )
        streamed: dict[int, str] = {}
        async for event in self.model.stream(request):
            if isinstance(event, BlockStart):
                streamed[event.index] = ""
            elif isinstance(event, TextDelta):
                streamed[event.index] += event.text
            elif isinstance(event, ToolInputDelta):
                streamed[event.index] += event.partial_json
            elif isinstance(event, Reply):
                _check_reply(event, streamed)
                check_messages([{"role": "assistant", "content": copy.deepcopy(event.content)}])
                return event
        raise AssertionError("The stream ended without a reply.")

    async def compact(self, keep: int = 0) -> str:
        """Replace all but the last ``keep`` messages by a summary turn, as the server does."""
        prefix, tail = self.messages[: len(self.messages) - keep], self.messages[-keep or None :]
        tail = tail if keep else []
        text = instruction(None, max_words=4_000)
        asked = [*prefix, {"role": "user", "content": [{"type": "text", "text": text}]}]
        reply = await self.request(asked, purpose="compaction", summary_tokens=8_000)
        said = [
            block["text"]
            for message in prefix
            if message["role"] == "user"
            for block in message["content"]
            if block["type"] == "text" and "<compaction-summary>" not in block["text"]
        ]
        kept = any(b["type"] == "text" for m in tail if m["role"] == "user" for b in m["content"])
        text = summary_turn(
            reply.content[0]["text"],
            ledger="",
            last_user_message=said[-1] if said and not kept else None,
            inventory=None,
            kernel_note="The kernel runs on.",
            log_path="/sessions/1/session.jsonl",
            first_seq=1,
            last_seq=len(self.texts),  # grows, as the real log does
        )
        self.messages = [{"role": "user", "content": [{"type": "text", "text": text}]}, *tail]
        return text

    # --- tools -----------------------------------------------------------------------------------

    def _do(self, name: str, arguments: dict[str, Any]) -> Outcome:
        if name in self.declined:
            return DECLINED, True
        scripted = self.answers.get(name)
        if scripted is not None:
            return scripted if isinstance(scripted, tuple) else scripted(arguments)
        outcome: Outcome = getattr(self, f"_{name}")(**arguments)
        return outcome

    def _list_variables(self) -> Outcome:
        if not self.variables:
            return "The user has defined no variables yet.", False
        rows = [f"  {name}: {kind} = <{kind}>" for name, (kind, _) in self.variables.items()]
        return "\n".join(["Variables, oldest first:", *rows, "Modules: pd"]), False

    def _inspect_variable(self, name: str) -> Outcome:
        if name not in self.variables:
            return f"There is no variable {name!r} in the kernel.", True
        return f"{name}: {self.variables[name][1]}", False

    def _read_notebook(self, start: int = 1, end: int | None = None, query: str = "") -> Outcome:
        total = len(self.cells)
        wanted = [c for c in self.cells[start - 1 : end] if query in describe_cell(c, total)]
        listed = wanted[self.readable : 6 * self.readable]
        parts = [
            f"{self.notebook}: {total} cells.",
            *(describe_cell(cell, total) for cell in wanted[: self.readable]),
        ]
        if listed:
            parts.append(listing(listed))
        return "\n\n".join(parts), False

    def _insert_cell(
        self, source: str, cell_type: str = "code", after: str | None = None
    ) -> Outcome:
        cell = self.add_cell(source, cell_type)
        return f"Inserted cell id {cell.id}, {cell_type}, at position {len(self.cells)}.", False

    def _edit_cell(self, cell_id: str, source: str) -> Outcome:
        return f"Edited [{cell_id}].", False

    def _delete_cell(self, cell_id: str) -> Outcome:
        return f"Deleted [{cell_id}].", False

    def _move_cell(self, cell_id: str, after: str) -> Outcome:
        return f"Moved [{cell_id}].", False

    def _run_cell(self, cell_id: str) -> Outcome:
        return self.on_run(next(cell.source for cell in self.cells if cell.id == cell_id))

    def _run_code(self, code: str) -> Outcome:
        return self.on_run(code)

    def _list_files(self, path: str = "") -> Outcome:
        if path not in self.folders:
            return f"There is no file or folder {path!r} below the server's root.", True
        return self.folders[path], False

    def _read_file(self, path: str) -> Outcome:
        return f"1\ttext of {path}", False

    def _search_files(self, pattern: str) -> Outcome:
        return f"examples/README.md\n  1: {pattern}", False

    def _session_search(self, query: str) -> Outcome:
        return f"No record of this session matches {query!r}.", False

    def _compact_context(self, instructions: str = "") -> Outcome:
        return "The conversation is compacted now; what follows goes on from the summary.", False


def _check_reply(reply: Reply, streamed: dict[int, str]) -> None:
    import json

    assert len(streamed) == len(reply.content)
    for index, block in enumerate(reply.content):
        if block["type"] == "text":
            assert streamed[index] == block["text"]
        else:
            assert json.loads(streamed[index]) == block["input"]
    assert reply.usage["input_tokens"] > 0
    assert reply.usage["output_tokens"] > 0
