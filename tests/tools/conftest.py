"""A tool call without the agent around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from prime_ext.agent.tools.registry import ToolRegistry
from prime_ext.agent.tools.tool import ToolContext, ToolOutcome

Call = Callable[..., Awaitable[ToolOutcome]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def session_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "sessions" / "s1"
    (folder / "outputs").mkdir(parents=True)
    (folder / "session.jsonl").write_text('{"seq":1,"kind":"session_start"}\n')
    (folder / "outputs" / "run.txt").write_text("all of it\n")
    (folder / "kernel-state.json").write_text("{}")
    return folder


class _Session:
    """Keeps what is recorded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: list[Any] = []

    def append(self, record: Any) -> Any:
        self.records.append(record)
        return record

    def keep(self, name: str, data: bytes, *, text: str) -> bool:
        (self.folder / "outputs" / name).write_bytes(data)
        return True


@pytest.fixture
def context(root: Path, session_folder: Path) -> ToolContext:
    return ToolContext(
        call_id="call-1",
        session=_Session(session_folder),  # type: ignore[arg-type]
        kernel=SimpleNamespace(language="python"),  # type: ignore[arg-type]
        document=None,  # type: ignore[arg-type]
        root=root,
        progress=lambda _body: None,
    )


@pytest.fixture
def call(context: ToolContext) -> Call:
    """Call a file tool as the agent does: arguments checked against the schema first."""

    async def call(name: str, **arguments: Any) -> ToolOutcome:
        tool = ToolRegistry.default().get(name)
        Draft202012Validator(tool.input_schema).validate(arguments)
        assert tool.summary(arguments)
        return await tool.handler(context, arguments)

    return call
