"""A notebook that somebody else works on is left alone."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.serverapp import ServerApp

from prime_ext.errors import PrimeError
from prime_ext.headless.elsewhere import refuse_if_open
from prime_ext.notebook.notebook_locks import NotebookLocks
from prime_ext.session.store import SessionStore
from tests.headless.conftest import CarryOut
from tests.messages_api.script import reply
from tests.messages_api.server import MessagesAPI
from tests.session.conftest import session_start


async def test_a_server_that_has_the_kernel_is_named(
    jp_serverapp: ServerApp, jp_fetch: Any, jp_root_dir: Path, tmp_path: Path
) -> None:
    import nbformat

    for name in ("open.ipynb", "closed.ipynb"):
        nbformat.write(nbformat.v4.new_notebook(), jp_root_dir / name)
    body = {"path": "open.ipynb", "name": "", "type": "notebook", "kernel": {"name": "python3"}}
    await jp_fetch("api", "sessions", method="POST", body=json.dumps(body))
    jp_serverapp.write_server_info_file()
    store = SessionStore(tmp_path / "sessions", logging.getLogger("tests"))
    try:
        with pytest.raises(PrimeError) as error:
            await refuse_if_open(jp_root_dir / "open.ipynb", "open.ipynb", store, jp_serverapp.log)
        assert error.value.code == "open_elsewhere"
        assert jp_serverapp.connection_url in error.value.message
        await refuse_if_open(jp_root_dir / "closed.ipynb", "closed.ipynb", store, jp_serverapp.log)
    finally:
        jp_serverapp.remove_server_info_file()
        store.close()


def test_a_conversation_that_a_server_has_open_is_in_the_way(
    carry_out: CarryOut, environment: dict[str, str], messages_api: MessagesAPI
) -> None:
    folder = Path(environment["JUPYTER_DATA_DIR"]) / "prime" / "sessions"
    store = SessionStore(folder, logging.getLogger("tests"))
    store.create(session_start(notebook="work.ipynb"))
    run = carry_out("work.ipynb", "Go.")
    assert run.status == 8
    assert "open in another Jupyter server" in run.err
    store.close()
    messages_api.enqueue(reply("Here."))
    assert carry_out("work.ipynb", "Go.").status == 0


def test_two_runs_do_not_meet(
    carry_out: CarryOut, folder: Path, environment: dict[str, str], messages_api: MessagesAPI
) -> None:
    locks = NotebookLocks(
        Path(environment["JUPYTER_DATA_DIR"]) / "prime" / "notebooks",
        lambda: None,
        logging.getLogger("tests"),
    )

    def respond(request: Any) -> Any:
        with pytest.raises(PrimeError) as refused, locks.held(folder / "work.ipynb"):
            pass
        return reply(refused.value.message)

    messages_api.respond = respond
    first = carry_out("./work.ipynb", "Go.")
    assert first.status == 0
    assert "in use by `jupyter prime run`" in first.out
    with locks.held(folder / "work.ipynb"):
        second = carry_out("work.ipynb", "Go.", "--data-dir", folder / "other")
    assert second.status == 8
    assert "in use by `jupyter prime run`" in second.err
