"""A page and the agent that start a notebook's kernel at the same moment."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from prime_ext.errors import PrimeError
from prime_ext.kernel.notebook_kernels import NotebookKernels
from prime_ext.kernel.server_kernels import before_shutdown
from prime_ext.kernel.server_sessions import document_path, one_session_for_a_document

RANDOM = "0b0f5a0e-8c3d-4f5e-9a51-6a3f3c1f8f11"


class Page:
    """A notebook in JupyterLab, which has found no session of its path."""

    def __init__(self, fetch: Callable[..., Awaitable[Any]], notebook: str) -> None:
        self._fetch = fetch
        self._notebook = notebook
        self._folder, _, self._name = notebook.rpartition("/")

    async def start(self, kernel: str = "python3") -> dict[str, Any]:
        """Ask for a session by a random path, as a page does."""
        asked = f"{self._folder}/{uuid.uuid4()}".lstrip("/")
        body = {"path": asked, "name": self._name, "type": "notebook", "kernel": {"name": kernel}}
        answer = await self._fetch("api", "sessions", method="POST", body=json.dumps(body))
        model: dict[str, Any] = json.loads(answer.body)
        # Otherwise the page takes it for another's and shuts it down.
        assert model["path"] == model["notebook"]["path"] == asked
        return model

    async def name(self, model: dict[str, Any]) -> dict[str, Any]:
        """Give the session its path, once it is there."""
        at = ("api", "sessions", model["id"])
        body = json.dumps({"path": self._notebook, "name": self._name})
        named: dict[str, Any] = json.loads((await self._fetch(*at, method="PATCH", body=body)).body)
        return named

    async def open(self) -> dict[str, Any]:
        return await self.name(await self.start())


@pytest.fixture
def ending() -> set[str]:
    return set()


@pytest.fixture(autouse=True)
def one_session(jp_serverapp: Any, ending: set[str]) -> Iterator[None]:
    undo = one_session_for_a_document(jp_serverapp.session_manager, ending)
    yield
    undo()


@pytest.fixture(params=["work.ipynb", "deep/in a folder/work.ipynb"])
def notebook(make_notebook: Callable[..., str], request: pytest.FixtureRequest) -> str:
    return make_notebook(request.param)


@pytest.fixture
def page(jp_fetch: Callable[..., Awaitable[Any]], notebook: str) -> Page:
    return Page(jp_fetch, notebook)


@pytest.fixture
def starting(jp_serverapp: Any, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set once a session's kernel is being started."""
    sessions, event = jp_serverapp.session_manager, asyncio.Event()
    start = sessions.start_kernel_for_session

    async def told(*args: Any, **options: Any) -> Any:
        event.set()
        await asyncio.sleep(0)
        return await start(*args, **options)

    monkeypatch.setattr(sessions, "start_kernel_for_session", told)
    return event


async def sessions_of(server: Any) -> list[tuple[str, str]]:
    models = await server.session_manager.list_sessions()
    assert len(server.kernel_manager.list_kernel_ids()) == len({m["kernel"]["id"] for m in models})
    return [(model["path"], model["kernel"]["id"]) for model in models]


@pytest.mark.parametrize(
    ("path", "name", "kind", "expected"),
    [
        (RANDOM, "a.ipynb", "notebook", "a.ipynb"),
        (f"x/y/{RANDOM}", "a.ipynb", "notebook", "x/y/a.ipynb"),
        (f"RTC:x/{RANDOM}", "a.ipynb", "notebook", "x/a.ipynb"),
        (f"x/{RANDOM}", "a.md", "file", "x/a.md"),
        (f"x/{RANDOM}", "Console 1", "console", f"x/{RANDOM}"),
        (f"x/{RANDOM}", "", "notebook", f"x/{RANDOM}"),
        (f"x/{RANDOM}.ipynb", "a.ipynb", "notebook", f"x/{RANDOM}.ipynb"),
        ("RTC:x/a.ipynb", "a.ipynb", "notebook", "x/a.ipynb"),
    ],
)
def test_the_document_that_a_session_is_for(path: str, name: str, kind: str, expected: str) -> None:
    assert document_path(path, name, kind) == expected


async def test_the_agent_comes_while_the_page_starts_a_kernel(
    page: Page, kernels: NotebookKernels, notebook: str, starting: asyncio.Event, jp_serverapp: Any
) -> None:
    opening = asyncio.create_task(page.open())
    await starting.wait()
    used = await kernels.for_notebook(notebook).ensure()
    assert (await opening)["kernel"]["id"] == used
    assert await sessions_of(jp_serverapp) == [(notebook, used)]


async def test_the_page_comes_while_the_agent_starts_a_kernel(
    page: Page, kernels: NotebookKernels, notebook: str, starting: asyncio.Event, jp_serverapp: Any
) -> None:
    using = asyncio.create_task(kernels.for_notebook(notebook).ensure())
    await starting.wait()
    opened = await page.open()
    assert opened["kernel"]["id"] == await using
    assert await sessions_of(jp_serverapp) == [(notebook, await using)]


async def test_the_page_has_looked_before_the_agent_had_its_kernel(
    page: Page, kernels: NotebookKernels, notebook: str, jp_serverapp: Any
) -> None:
    used = await kernels.for_notebook(notebook).ensure()
    assert (await page.open())["kernel"]["id"] == used
    assert await sessions_of(jp_serverapp) == [(notebook, used)]


async def test_the_agent_comes_before_the_page_has_named_its_session(
    page: Page, kernels: NotebookKernels, notebook: str, jp_serverapp: Any
) -> None:
    begun = await page.start()
    used = await kernels.for_notebook(notebook).ensure()
    assert await sessions_of(jp_serverapp) == [(notebook, begun["kernel"]["id"])]
    assert (await page.name(begun))["kernel"]["id"] == used
    assert await sessions_of(jp_serverapp) == [(notebook, used)]


async def searching(kernels: NotebookKernels, notebook: str, begun: Any) -> asyncio.Task[None]:
    """The search for the session of a kernel that a page has started for the notebook."""
    kernels.for_notebook(notebook).on_state.append(lambda _: None)
    search = asyncio.create_task(kernels.started(begun["kernel"]["id"]))
    await asyncio.sleep(0)
    return search


async def test_a_kernel_that_a_page_has_started_is_followed(
    page: Page, kernels: NotebookKernels, notebook: str
) -> None:
    begun = await page.start()
    search = await searching(kernels, notebook, begun)
    await page.name(begun)
    await search
    kernel = kernels.for_notebook(notebook)
    assert kernel.state == "idle"
    assert kernel.kernel_id == begun["kernel"]["id"]


async def test_the_search_for_a_started_kernels_session_ends_with_the_server(
    page: Page, kernels: NotebookKernels, notebook: str
) -> None:
    begun = await page.start()
    before = asyncio.all_tasks()
    search = await searching(kernels, notebook, begun)
    await kernels.close()
    assert asyncio.all_tasks() <= before | {search}
    with pytest.raises(asyncio.CancelledError):
        await search


async def test_a_page_gets_the_kernel_that_it_asks_for(
    page: Page,
    kernels: NotebookKernels,
    notebook: str,
    calculator: str,
    jp_serverapp: Any,
) -> None:
    used = await kernels.for_notebook(notebook).ensure()
    chosen = await page.start(calculator)
    assert chosen["kernel"]["name"] == calculator
    assert chosen["kernel"]["id"] != used


async def test_a_page_gets_no_kernel_that_is_being_shut_down(
    page: Page, kernels: NotebookKernels, notebook: str, ending: set[str], jp_serverapp: Any
) -> None:
    used = await kernels.for_notebook(notebook).ensure()
    saving, saved = asyncio.Event(), asyncio.Event()

    async def save(kernel_id: str) -> None:
        saving.set()
        await saved.wait()

    undo = before_shutdown(jp_serverapp.kernel_manager, save, ending)
    shutdown = asyncio.create_task(jp_serverapp.kernel_manager.shutdown_kernel(used))
    await saving.wait()
    opened = await page.open()
    saved.set()
    await shutdown
    undo()
    assert not ending
    assert opened["kernel"]["id"] != used
    assert opened["kernel"]["id"] in jp_serverapp.kernel_manager


async def test_a_page_that_thinks_better_of_it_takes_no_other_kernel_with_it(
    page: Page, notebook: str, starting: asyncio.Event, jp_serverapp: Any
) -> None:
    """As one does where somebody chooses a kernel while one is being started."""
    first = asyncio.create_task(page.start())
    await starting.wait()
    second = await page.open()
    await jp_serverapp.session_manager.delete_session((await first)["id"])
    assert await sessions_of(jp_serverapp) == [(notebook, second["kernel"]["id"])]


async def test_a_kernel_of_a_page_is_not_ended_because_it_does_not_answer_the_agent(
    page: Page,
    kernels: NotebookKernels,
    make_notebook: Callable[..., str],
    notebook: str,
    install_kernelspec: Callable[..., str],
    starting: asyncio.Event,
    jp_serverapp: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = install_kernelspec(
        "silent", [sys.executable, "-c", "import time; time.sleep(600)", "{connection_file}"]
    )
    make_notebook(notebook, kernel=silent)
    monkeypatch.setattr(jp_serverapp.kernel_manager, "kernel_info_timeout", 1.0)
    opening = asyncio.create_task(page.start(silent))
    await starting.wait()
    using = asyncio.create_task(kernels.for_notebook(notebook).ensure())
    with pytest.raises(PrimeError) as raised:
        await using
    assert raised.value.code == "kernel_no_answer"
    kernel_id = (await page.name(await opening))["kernel"]["id"]
    assert await sessions_of(jp_serverapp) == [(notebook, kernel_id)]
    await jp_serverapp.kernel_manager.shutdown_kernel(kernel_id, now=True)
