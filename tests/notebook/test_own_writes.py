"""A page that does not show the latest version: who has written the file since, and what runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from prime_ext.notebook.document import NotebookDocument
from prime_ext.notebook.lease import LeaseClient, LeaseHub
from prime_ext.notebook.own_writes import REMEMBERED, OwnWrites
from tests.notebook.browser import FakeBrowser
from tests.notebook.conftest import ScriptedKernel, notebook

PATH = "work.ipynb"


class TestOwnWrites:
    @pytest.fixture
    def written(self) -> OwnWrites:
        written = OwnWrites()
        written.note("a", "1", "2")
        written.note("a", "2", "3")
        return written

    def test_what_the_server_has_made_of_a_version(self, written: OwnWrites) -> None:
        assert [written.since("a", v) for v in ("0", "1", "2", "3", None)] == [
            None, "3", "3", "3", None,
        ]  # fmt: skip
        assert written.since("b", "1") is None

    def test_another_program_in_between(self, written: OwnWrites) -> None:
        written.note("a", "by git", "4")
        assert written.since("a", "3") is None
        assert written.since("a", "by git") == "4"

    def test_back_to_what_there_was(self, written: OwnWrites) -> None:
        written.note("a", "3", "1")
        assert [written.since("a", v) for v in ("1", "2", "3")] == ["1", "1", "1"]

    def test_without_hashes_nothing_is_known(self, written: OwnWrites) -> None:
        written.note("a", "3", None)
        assert written.since("a", "1") is None

    def test_a_rename(self, written: OwnWrites) -> None:
        written.note("folder/b", "1", "2")
        written.rename("folder", "other")
        assert written.since("other/b", "1") == "2"
        assert written.since("folder/b", "1") is None

    def test_versions_are_not_remembered_for_ever(self, written: OwnWrites) -> None:
        for i in range(3, REMEMBERED + 2):
            written.note("a", str(i), str(i + 1))
        newest = str(REMEMBERED + 2)
        assert written.since("a", "2") is None
        assert written.since("a", "3") == newest


async def version(contents: Any) -> str:
    model = await contents.get(PATH, content=False, require_hash=True)
    return str(model["hash"])


class TestAPageThatComesBack:
    @pytest.fixture
    def claims(self, hub: LeaseHub, jp_root_dir: Path) -> Any:
        (jp_root_dir / PATH).write_text(json.dumps(notebook("1", "2")))

        def claims(version: str | None) -> tuple[LeaseClient, list[dict[str, Any]]]:
            frames: list[dict[str, Any]] = []
            client = hub.connect(frames.append)
            claim = {"type": "lease", "action": "claim", "notebook": PATH, "version": version}
            client.receive(claim)
            return client, frames

        return claims

    async def test_learns_that_the_server_alone_has_written(
        self, document: NotebookDocument, claims: Any, contents: Any
    ) -> None:
        before = await version(contents)
        await document.insert("3")
        await document.insert("4")
        client, (frame,) = claims(before)
        assert frame["held"]
        assert frame["written"] == await version(contents) != before
        client.disconnect()

    async def test_learns_nothing_of_another_program(
        self, document: NotebookDocument, claims: Any, contents: Any, jp_root_dir: Path
    ) -> None:
        before = await version(contents)
        await document.insert("3")
        (jp_root_dir / PATH).write_text(json.dumps(notebook("by git")))
        await document.insert("4")
        client, (frame,) = claims(before)
        assert frame["written"] is None
        client.disconnect()

    async def test_looks_again_at_what_was_written_while_it_came(
        self, document: NotebookDocument, claims: Any, contents: Any, monkeypatch: Any
    ) -> None:
        before = await version(contents)
        came: list[tuple[LeaseClient, list[dict[str, Any]]]] = []
        real_save = contents.save

        async def save(model: Any, path: str) -> Any:
            came.append(claims(before))
            return await real_save(model, path)

        monkeypatch.setattr(contents, "save", save)
        await document.insert("3")
        ((client, frames),) = came
        assert [frame["written"] for frame in frames] == [None, await version(contents)]
        client.disconnect()

    async def test_learns_which_cells_run(
        self, document: NotebookDocument, hub: LeaseHub, claims: Any
    ) -> None:
        page = FakeBrowser(hub, PATH, notebook("1", "2")).connect()
        kernel = ScriptedKernel()
        run = asyncio.create_task(document.run("b", kernel))
        await page.until(lambda: "b" in page.runs)
        page.claim()
        assert page.received[-1]["running"] == ["b"]
        kernel.finish.set()
        await run
        page.claim()
        assert page.received[-1]["running"] == []


class TestAPageThatWaits:
    """A second tab, while the page that writes saves the notebook."""

    @pytest.fixture
    def pages(self, document: NotebookDocument, hub: LeaseHub) -> Any:
        one, two = (FakeBrowser(hub, PATH, notebook("1"), key) for key in ("one", "two"))
        for page in (one, two):
            page.version = "v1"
            page.connect()
        return one, two

    def test_is_told_what_the_writer_has_saved(self, pages: Any) -> None:
        one, two = pages
        one.shows("saved", "v2")
        one.shows("saved", "v3")
        assert [(f["held"], f["written"]) for f in two.received[1:]] == [
            (False, "v2"),
            (False, "v3"),
        ]
        assert len(one.received) == 1
        # As is the writer, of what is saved in the other tab.
        two.shows("loaded", "v3")
        two.shows("saved", "v4")
        assert (one.received[-1]["held"], one.received[-1]["written"]) == (True, "v4")
        assert len(two.received) == 3

    def test_that_saved_what_there_was_says_nothing_new(self, pages: Any) -> None:
        one, two = pages
        one.shows("saved", "v1")
        assert len(two.received) == 1

    def test_learns_nothing_of_another_program(self, pages: Any) -> None:
        one, two = pages
        one.shows("saved", "v2")
        one.shows("loaded", "by git")
        one.shows("saved", "v3")
        assert two.received[-1]["written"] is None
        # Both have loaded that since.
        two.shows("loaded", "v3")
        one.shows("saved", "v4")
        assert two.received[-1]["written"] == "v4"

    def test_looks_at_the_file_where_there_are_no_hashes(self, pages: Any) -> None:
        one, two = pages
        one.shows("saved", None)
        assert two.received[-1]["written"] is None
        one.shows("saved", None)
        assert len(two.received) == 3

    async def test_is_up_to_date_before_it_is_sent_what_is_to_be_done(
        self, pages: Any, document: NotebookDocument
    ) -> None:
        one, two = pages
        kernel = ScriptedKernel()
        run = asyncio.create_task(document.run("a", kernel))
        await kernel.started.wait()
        one.shows("saved", "v2")
        one.drop()
        kernel.put("one")
        await two.until(lambda: two.cell("a")["outputs"])
        assert next(f for f in two.received if f["type"] == "op" or f["held"]) == {
            "type": "lease", "notebook": PATH, "held": True, "written": "v2", "running": ["a"],
        }  # fmt: skip
        kernel.finish.set()
        await run

    async def test_is_told_what_the_server_writes(
        self, hub: LeaseHub, documents: Any, document: NotebookDocument, contents: Any
    ) -> None:
        one, two = (FakeBrowser(hub, PATH, notebook("1"), key).connect() for key in ("1", "2"))
        documents.remind(PATH)
        assert [len(page.received) for page in (one, two)] == [2, 2]

    async def test_keeps_its_version_across_a_rename(
        self, documents: Any, document: NotebookDocument, pages: Any
    ) -> None:
        one, two = pages
        documents.rename(PATH, "new.ipynb")
        one.path = "new.ipynb"
        one.shows("saved", "v2")
        assert two.received[-1]["notebook"] == "new.ipynb"
        assert two.received[-1]["written"] == "v2"


async def test_a_hub_of_its_own_tells_nothing_of_files() -> None:
    frames: list[dict[str, Any]] = []
    LeaseHub().connect(frames.append).receive(
        {"type": "lease", "action": "claim", "notebook": PATH}
    )
    assert frames == [{"type": "lease", "notebook": PATH, "held": True}]
