"""The offline agent in a real server: real kernel, real notebook, the example data."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.serverapp import ServerApp

from prime_ext.agent.service import AgentService
from prime_ext.models.offline.plans.tour import KEPT, STEPS
from prime_ext.session.records import AssistantMessage, CompactionEnd, ToolResult
from prime_ext.session.session import Session

pytest.importorskip("pandas")
pytest.importorskip("matplotlib")

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOK = "examples/tour.ipynb"
PATIENCE = 120.0


class Person:
    """Someone who talks to the agent, and allows or denies what it asks for."""

    def __init__(self, service: AgentService, session: Session, root: Path) -> None:
        self.service = service
        self.session = session
        self.root = root
        self.denies: set[str] = set()

    async def ask(self, text: str) -> str:
        """Send a message; the agent's last words once the turn has ended."""
        after = self.session.log.last_seq
        await self.service.submit(self.session, text, None, "ada")

        async def end() -> dict[str, Any]:
            async with self.session.subscribe(after) as frames:
                async for frame in frames:
                    record: dict[str, Any] = frame.get("record", {})
                    if record.get("kind") == "approval_request":
                        decision = "deny" if record.get("tool") in self.denies else "allow"
                        await self.service.decide(
                            self.session, record["call_id"], decision, "once", "ada"
                        )
                    if record.get("kind") == "turn_end":
                        return record
            raise AssertionError("The stream ended.")

        assert (await asyncio.wait_for(end(), PATIENCE))["status"] == "ok"
        return self.said(after)[-1]

    def said(self, after: int = 0) -> list[str]:
        """The texts of the agent's replies."""
        return [
            "".join(block["text"] for block in record.content if block["type"] == "text")
            for record in self.session.log.read(after)
            if isinstance(record, AssistantMessage)
        ]

    def results(self, name: str) -> list[ToolResult]:
        return [
            record
            for record in self.session.log.read()
            if isinstance(record, ToolResult) and record.name == name
        ]

    def cells(self) -> list[Any]:
        """The notebook's cells as saved."""
        node: Any = nbformat.reads((self.root / NOTEBOOK).read_text("utf-8"), as_version=4)
        nbformat.validate(node)
        return list(node.cells)


@pytest.fixture
def threshold() -> int:
    """``ContextConfig.max_context_tokens``; 0 is the default."""
    return 0


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any], tmp_path: Path, threshold: int
) -> dict[str, Any]:
    return {
        **jp_server_config,
        "PrimeExtension": {"data_dir": str(tmp_path / "prime")},
        "ContextConfig": {"max_context_tokens": threshold},
    }


@pytest.fixture
def new_person(jp_serverapp: ServerApp, jp_root_dir: Path) -> Callable[..., Awaitable[Person]]:
    shutil.copytree(EXAMPLES, jp_root_dir / "examples")
    service: AgentService = jp_serverapp.web_app.settings["prime_agent"]

    async def make(mode: str = "auto") -> Person:
        session = await service.start_session(NOTEBOOK, permission_mode=mode, user="ada")
        assert (session.provider, session.model) == ("offline", "offline")
        return Person(service, session, jp_root_dir)

    return make


async def test_an_analysis_from_loading_to_a_figure(
    new_person: Callable[..., Awaitable[Person]],
) -> None:
    person = await new_person()

    said = await person.ask("load penguins.csv and plot body mass by species")
    assert "344 rows, 8 columns" in "\n".join(person.said())
    assert "box plots of `body_mass_g` by `species`" in said
    load, figure = person.cells()[-2:]
    assert load.source.endswith('penguins = pd.read_csv("penguins.csv")\npenguins')
    assert load.execution_count
    assert "image/png" in figure.outputs[0].data

    assert "| `sex` | `str` | 11 |" in await person.ask("what columns does it have?")
    said = await person.ask("mean of flipper length by species and sex")
    assert "Gentoo" in said
    assert "212.7" in said  # of the females
    assert "6300" in await person.ask("top 3 by body mass")
    assert "11" in await person.ask("how many missing values in sex?")
    assert re.search(
        r"\b0\.87", await person.ask("correlation between body mass and flipper length")
    )
    said = await person.ask("filter rows where body mass > 5900 and species is Gentoo as heavy")
    assert "kept in `heavy`" in said
    assert "`heavy`" in await person.ask("what variables are there?")


async def test_errors_code_and_cells(new_person: Callable[..., Awaitable[Person]]) -> None:
    person = await new_person()

    assert "It ran:\n\n```\n42\n```" in await person.ask("run: print(6 * 7)")
    said = await person.ask("```python\ntreshold = 0.35\nprint(threshold)\n```")
    assert "**NameError**: name 'threshold' is not defined" in said
    assert "- Where: line 2" in said  # it is no cell's In[n]
    assert "Names near it: `treshold`" in said
    assert "Names near it: `treshold`" in await person.ask("why did it fail?")

    await person.ask("add a cell with `answer = 42` and run it")
    assert person.cells()[-1].source == "answer = 42"
    assert "42" in await person.ask("inspect answer")
    count = len(person.cells())
    await person.ask(f'in cell {count} replace "42" with "43"')
    assert person.cells()[-1].source == "answer = 43"
    await person.ask(f"run cell {count}")
    assert "43" in await person.ask("what is answer?")
    await person.ask("add a heading Results")
    assert person.cells()[-1].source == "## Results"
    await person.ask("move the last cell to the top")
    assert person.cells()[0].source == "## Results"
    await person.ask("delete the first cell")
    assert person.cells()[0].source != "## Results"

    assert "treshold = 0.35" in await person.ask("what was the exact treshold?")
    assert "penguins.csv" in await person.ask("list files")
    assert "CC0" in await person.ask("read README.md")


@pytest.mark.parametrize("threshold", [9_000])
async def test_it_works_on_over_the_threshold(
    new_person: Callable[..., Awaitable[Person]],
) -> None:
    person = await new_person()
    await person.ask("load penguins.csv")

    compactions: list[CompactionEnd] = []
    for _ in range(12):
        await person.ask("show the first 30 rows")
        compactions = [r for r in person.session.log.read() if isinstance(r, CompactionEnd)]
        if compactions:
            break
    assert compactions
    assert compactions[0].outcome == "ok"
    assert compactions[0].kernel_state["status"] == "current"
    assert 'penguins = pd.read_csv("penguins.csv")' in (compactions[0].summary or "")

    assert "5076" in await person.ask("mean of body mass by species")
    assert "8 columns" in await person.ask("describe it")


async def test_what_is_denied_is_not_done(new_person: Callable[..., Awaitable[Person]]) -> None:
    person = await new_person("ask")
    person.denies = {"insert_cell"}
    before = person.cells()

    said = await person.ask("load penguins.csv")

    assert "You declined that" in said
    assert person.cells() == before


async def test_the_tour_with_approvals_compaction_and_crash(
    new_person: Callable[..., Awaitable[Person]],
) -> None:
    person = await new_person("ask")

    said = await person.ask("/tour")

    shown = [int(n) for text in person.said() for n in re.findall(r"Tour (\d+) of", text)]
    assert shown == list(range(1, len(STEPS) + 1))
    assert f"`{KEPT}` is there" in said
    (compaction,) = [r for r in person.session.log.read() if isinstance(r, CompactionEnd)]
    assert compaction.outcome == "ok"
    assert compaction.tokens_after < compaction.tokens_before
    (crash,) = person.results("run_code")
    assert "kernel died" in crash.content[0]["text"]
    # What was there before the crash can be worked with behind it.
    assert "344 rows" in await person.ask("how many rows does penguins have?")
