"""A real Jupyter server whose agent talks to the strict test API through the real SDK."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.serverapp import ServerApp

from prime_ext.agent.service import AgentService
from tests.agent.driver import Driver
from tests.messages_api.server import MessagesAPI

NewSession = Callable[..., Awaitable[Driver]]


@pytest.fixture
def prime_config() -> dict[str, Any]:
    """More configuration, for tests that override it."""
    return {}


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any],
    messages_api: MessagesAPI,
    tmp_path: Path,
    prime_config: dict[str, Any],
) -> dict[str, Any]:
    config = {
        **jp_server_config,
        # A dead kernel is noticed and replaced at once instead of after seconds.
        "KernelRestarter": {"time_to_dead": 0.2},
        "PrimeExtension": {"data_dir": str(tmp_path / "prime")},
        "ModelConfig": {"base_url": messages_api.url, "api_key": messages_api.key},
    }
    for name, traits in prime_config.items():
        config[name] = {**config.get(name, {}), **traits}
    return config


@pytest.fixture
def notebook(jp_root_dir: Path) -> str:
    """An example notebook in the server's root."""
    node = nbformat.v4.new_notebook()
    node.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    node.cells = [nbformat.v4.new_markdown_cell("# Notes"), nbformat.v4.new_code_cell("x = 1")]
    nbformat.write(node, jp_root_dir / "work.ipynb")
    return "work.ipynb"


@pytest.fixture
def service(jp_serverapp: ServerApp) -> AgentService:
    service: AgentService = jp_serverapp.web_app.settings["prime_agent"]
    return service


@pytest.fixture
def new_session(service: AgentService, notebook: str, messages_api: MessagesAPI) -> NewSession:
    """``await new_session(permission_mode="ask")`` → the driver of a new session."""

    async def make(**options: Any) -> Driver:
        options.setdefault("permission_mode", "auto")
        session = await service.start_session(notebook, user="ada", **options)
        return Driver(service, session, messages_api)

    return make
