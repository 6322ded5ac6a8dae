"""The extension in a Jupyter server that nobody connects to, for benchmarks.

The server and the extension are the real ones, wired as they are. No kernel runs, since none is
asked for: the tools take the time and give the results that a script says.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import nbformat
from jupyter_server.serverapp import ServerApp
from traitlets.config import Config

from bench.session_script import Call, Script
from prime_ext.agent.service import AgentService
from prime_ext.agent.tools import compact, recall
from prime_ext.agent.tools.registry import ToolRegistry
from prime_ext.agent.tools.tool import Tool, ToolContext, ToolOutcome
from tests.messages_api.server import MessagesAPI

NOTEBOOK = "work.ipynb"

REAL_TOOLS = {tool.name for tool in (*recall.TOOLS, *compact.TOOLS)}
"""Those that work on the session itself are what they are."""


class _Server(ServerApp):
    def init_signal(self) -> None:
        """Ctrl-C is for the benchmark."""


def scripted_tools(script: Script) -> ToolRegistry:
    """The package's tools, whose results are the script's."""
    calls = {call.id: call for step in script.steps() for call in step.calls}
    tools = ToolRegistry.default()
    return ToolRegistry(
        _scripted(tools.get(definition["name"]), calls) for definition in tools.definitions()
    )


def _scripted(tool: Tool, calls: dict[str, Call]) -> Tool:
    async def run(context: ToolContext, _arguments: dict[str, Any]) -> ToolOutcome:
        call = calls[context.call_id]
        await asyncio.sleep(call.seconds)
        return ToolOutcome.text(call.result, is_error=call.is_error)

    return tool if tool.name in REAL_TOOLS else replace(tool, handler=run, preview=None)


@asynccontextmanager
async def serving(api: MessagesAPI) -> AsyncIterator[None]:
    """The test API on the running loop."""
    started = asyncio.Event()
    task = asyncio.create_task(api.serve(started.set))
    await started.wait()
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def extension(
    script: Script, folder: Path, api: MessagesAPI, traits: dict[str, dict[str, Any]]
) -> AsyncIterator[AgentService]:
    """The agents of a server whose files are in ``folder`` and whose model is ``api``.

    Parameters
    ----------
    traits:
        Configuration that differs from the defaults: class → trait → value.
    """
    config = Config(
        {
            "ServerApp": {"jpserver_extensions": {"prime_ext": True}},
            "NotebookNotary": {"db_file": ":memory:"},
            "IdentityProvider": {"token": "bench"},
            "PrimeExtension": {"data_dir": str(folder / "prime"), "log_level": logging.ERROR},
            "ModelConfig": {
                "base_url": api.url,
                "api_key": api.key,
                "model": script.model,
                # Nobody is there to be asked.
                "max_requests_per_turn": 0,
                "max_cost_per_turn": 0.0,
            },
        }
    )
    config.merge(Config(traits))
    root = folder / "root"
    root.mkdir()
    nbformat.write(nbformat.v4.new_notebook(), root / NOTEBOOK)
    server = _Server(
        config=config,
        root_dir=str(root),
        runtime_dir=str(folder / "runtime"),
        data_dir=str(folder / "data"),
        config_dir=str(folder / "config"),
        allow_root=True,
        open_browser=False,
        log_level=logging.ERROR,
    )
    tools = scripted_tools(script)
    with patch.object(ToolRegistry, "default", lambda: tools), patch.dict(os.environ):
        os.environ.pop("PRIME_API_KEY", None)  # it would be taken before the one configured
        server.initialize(argv=[], find_extensions=False, new_httpserver=False)
    server.start_app()
    try:
        with _loop_time(asyncio.get_running_loop()):
            yield server.web_app.settings["prime_agent"]
    finally:
        await server.cleanup_extensions()
        _Server.clear_instance()


@contextmanager
def _loop_time(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Records tell when things happened, and how long requests took, in the loop's time: the agent
    goes by it."""
    start = datetime(2026, 1, 1, tzinfo=timezone.utc) - timedelta(seconds=loop.time())

    def stamp() -> str:
        moment = start + timedelta(seconds=loop.time())
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    with (
        patch("prime_ext.session.log._now", stamp),
        patch("prime_ext.agent.turn.time", SimpleNamespace(monotonic=loop.time)),
    ):
        yield
