"""The example package of the documentation: installed, found, and called by the agent."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.headless.conftest import CarryOut
from tests.messages_api.script import call, reply
from tests.messages_api.server import MessagesAPI

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package installed in it, and nothing else."""
    folder = tmp_path_factory.mktemp("site")
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    package = ROOT / "docs" / "tool_package"
    subprocess.run([sys.executable, *install, "--target", folder, package], check=True)
    return folder


@pytest.fixture
def environment(
    environment: dict[str, str], site: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """As of an environment with the package in it: for the server, and for its kernels."""
    monkeypatch.syspath_prepend(site)
    yield {**environment, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}
    sys.modules.pop("prime_sqlite_tools", None)


def test_the_example_package_is_found_and_called(
    carry_out: CarryOut, site: Path, folder: Path, messages_api: MessagesAPI
) -> None:
    with closing(sqlite3.connect(folder / "shop.db")) as database, database:
        database.execute("CREATE TABLE sales (item TEXT, price REAL)")
        database.executemany("INSERT INTO sales VALUES (?, ?)", [("pen", 1.5), ("book", 12.0)])
    (folder.parent / "secret.db").write_bytes((folder / "shop.db").read_bytes())
    messages_api.enqueue(
        reply(
            call("sqlite_query", path="shop.db", sql="SELECT * FROM sales ORDER BY price"),
            call("sqlite_query", path="shop.db", sql="SELECT * FROM purchases"),
            call("sqlite_query", path="shop.db", sql="DELETE FROM sales"),
            call("sqlite_query", path="shop.db", sql="ATTACH '../secret.db' AS other"),
            call("sqlite_query", path="../secret.db", sql="SELECT 1"),
            call("sqlite_query", path="shop.db"),
        ),
        reply(call("sqlite_load", path="shop.db", sql="SELECT * FROM sales", name="sales")),
        reply(call("run_code", code="float(sales['price'].sum())")),
        reply("13.5 in all."),
    )
    run = carry_out("work.ipynb", "What was sold?", "--yes")
    assert run.status == 0, run.err
    first = messages_api.requests[0].body["tools"]
    assert [tool["name"] for tool in first[-2:]] == ["sqlite_query", "sqlite_load"]

    rows, no_table, write, attach, outside, incomplete = (
        (result.get("is_error", False), result["content"][0]["text"])
        for result in messages_api.requests[1].tool_results
    )
    assert rows == (False, "item\tprice\npen\t1.5\nbook\t12.0")
    assert "no such table: purchases" in no_table[1]
    assert "sqlite_master" in no_table[1]
    assert "readonly" in write[1]
    assert "not authorized" in attach[1]
    assert "outside of the server's root" in outside[1]
    assert "'sql' is a required property" in incomplete[1]
    assert all(error for error, _ in (no_table, write, attach, outside, incomplete))

    assert "(2, 2)" in messages_api.requests[2].tool_result_text
    assert "13.5" in messages_api.requests[3].tool_result_text
    assert "✓ Load shop.db into sales" in run.err


def test_it_asks_like_a_tool_of_the_agent(
    carry_out: CarryOut, site: Path, messages_api: MessagesAPI
) -> None:
    messages_api.enqueue(reply(call("sqlite_load", path="shop.db", sql="SELECT 1", name="x")))
    run = carry_out("work.ipynb", "Load it.", "--mode", "edit")
    assert run.status == 3
    assert "Load shop.db into x" in run.err
