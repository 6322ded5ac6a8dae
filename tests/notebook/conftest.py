"""Notebooks, documents and a kernel that does what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import nbformat
import pytest

from prime_ext.kernel.execution import Execution, Status
from prime_ext.kernel.late_outputs import LateOutputs
from prime_ext.notebook.cell import source_hash
from prime_ext.notebook.cell_run import CellRun
from prime_ext.notebook.document import NotebookDocument
from prime_ext.notebook.documents import NotebookDocuments
from prime_ext.notebook.lease import LeaseHub
from prime_ext.session.records import NotebookOp

Write = Callable[..., Awaitable[None]]
Disk = Callable[..., Awaitable[dict[str, Any]]]


def code_cell(source: str, cell_id: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "id": cell_id,
        "metadata": {},
        "source": source,
        "outputs": [],
        "execution_count": None,
    }


def text_cell(source: str, cell_id: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": cell_id, "metadata": {}, "source": source}


def locked(nb: dict[str, Any]) -> dict[str, Any]:
    """The notebook with its first cell locked by its author."""
    nb["cells"][0]["metadata"].update(editable=False, deletable=False)
    return nb


def notebook_of(cells: list[dict[str, Any]], minor: int = 5) -> dict[str, Any]:
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": minor}


def notebook(*sources: str, minor: int = 5) -> dict[str, Any]:
    """A notebook of code cells ``a``, ``b``, ``c``, … with these sources."""
    cells = [code_cell(source, "abcdefghij"[i]) for i, source in enumerate(sources)]
    if minor < 5:
        for cell in cells:
            del cell["id"]
    return notebook_of(cells, minor)


def state(
    source: str, index: int, prev: str | None, following: str | None, cell_type: str = "code"
) -> dict[str, Any]:
    """A cell as a record holds it before or after an operation."""
    return {
        "source": source,
        "hash": source_hash(source),
        "cell_type": cell_type,
        "index": index,
        "prev": prev,
        "next": following,
    }


@dataclass
class _Log:
    tool_results: Sequence[int]

    def seqs_of(self, *kinds: str) -> Sequence[int]:
        return self.tool_results if kinds == ("tool_result",) else ()


class Recorded:
    """Stands in for a session: keeps what is recorded."""

    def __init__(self, *tool_results: int) -> None:
        self.records: list[NotebookOp] = []
        self.files: dict[str, bytes] = {}
        self.log = _Log(tool_results)

    def append(self, record: NotebookOp, /) -> NotebookOp:
        self.records.append(record)
        return record

    def keep(self, name: str, data: bytes, *, text: str) -> bool:
        self.files[name] = data
        return True


@dataclass
class ScriptedKernel:
    """Puts out what the test says, when it says so."""

    executed: list[str] = field(default_factory=list)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    finish: asyncio.Event = field(default_factory=asyncio.Event)
    outputs: list[dict[str, Any]] = field(default_factory=list)
    publish: Callable[[list[dict[str, Any]]], None] | None = None
    status: Status = "ok"
    late: LateOutputs | None = None

    async def metadata(self) -> dict[str, Any]:
        return {}

    async def execute(self, code: str, **options: Any) -> Execution:
        assert options["store_history"] is True
        self.executed.append(code)
        self.publish = options["on_outputs"]
        options["on_begun"](lambda: None)
        options["on_count"](7)
        self.started.set()
        await self.finish.wait()
        return Execution(self.status, list(self.outputs), 7, late=self.late)

    def put(self, text: str) -> None:
        """Another display output."""
        self.outputs.append(
            {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}
        )
        assert self.publish is not None
        self.publish(list(self.outputs))


async def begun(document: NotebookDocument) -> tuple[ScriptedKernel, asyncio.Task[CellRun]]:
    """A run of cell ``a`` that the kernel has begun with."""
    kernel = ScriptedKernel()
    running = asyncio.create_task(document.run("a", kernel))
    await kernel.started.wait()
    return kernel, running


@pytest.fixture
def jp_server_config() -> dict[str, Any]:
    """The documents are made by the tests; the server extension stays out of it."""
    return {"ServerApp": {"jpserver_extensions": {"prime_ext": False}}}


@pytest.fixture
def hub() -> LeaseHub:
    return LeaseHub(grace_s=0.3, handover_s=0.1, ack_s=0.5, settle_s=0.1)


@pytest.fixture
def contents(jp_serverapp: Any) -> Any:
    return jp_serverapp.contents_manager


@pytest.fixture
def documents(hub: LeaseHub, contents: Any) -> NotebookDocuments:
    return NotebookDocuments(hub, contents)


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


@pytest.fixture
def write(contents: Any) -> Write:
    """Save a notebook, trusted as one made by the user is."""

    async def write(nb: dict[str, Any], path: str = "work.ipynb") -> None:
        await contents.save({"type": "notebook", "format": "json", "content": nb}, path)

    return write


@pytest.fixture
def disk(contents: Any) -> Disk:
    """The notebook on disk, valid or the test fails."""

    async def disk(path: str = "work.ipynb") -> dict[str, Any]:
        model = await contents.get(path, type="notebook")
        nbformat.validate(model["content"])
        content: dict[str, Any] = model["content"]
        return content

    return disk


@pytest.fixture
def document(documents: NotebookDocuments, recorded: Recorded) -> NotebookDocument:
    return documents.get("work.ipynb", recorded, turn="turn-1")
