"""What cannot work ends in a clear error that says what to do, and the session goes on."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import nbformat
import pytest

from prime_ext.agent.service import AgentService
from prime_ext.errors import PrimeError
from prime_ext.session.records import ToolResult
from tests.agent.conftest import NewSession
from tests.agent.driver import Driver
from tests.messages_api.script import call, reply
from tests.messages_api.server import MessagesAPI


@pytest.mark.parametrize(
    ("path", "code"), [("nowhere.ipynb", "notebook_not_found"), ("a.csv", "notebook_invalid")]
)
async def test_a_session_needs_a_notebook(
    service: AgentService, jp_root_dir: Path, path: str, code: str
) -> None:
    (jp_root_dir / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(PrimeError) as error:
        await service.start_session(path)
    assert error.value.code == code
    assert path in error.value.message
    assert error.value.hint


async def test_a_permission_mode_that_is_not_there(service: AgentService, notebook: str) -> None:
    with pytest.raises(PrimeError) as error:
        await service.start_session(notebook, permission_mode="root")
    assert (error.value.code, error.value.status) == ("permission_mode_forbidden", 403)
    assert "ask" in error.value.hint


async def test_a_kernel_that_cannot_start_is_an_error_the_model_can_act_on(
    service: AgentService, jp_root_dir: Path, messages_api: MessagesAPI
) -> None:
    node = nbformat.v4.new_notebook()
    node.metadata["kernelspec"] = {"name": "no-such-kernel", "display_name": "Gone"}
    nbformat.write(node, jp_root_dir / "gone.ipynb")
    session = Driver(
        service, await service.start_session("gone.ipynb", permission_mode="auto"), messages_api
    )
    messages_api.enqueue(reply(call("run_code", code="1")), reply("No kernel, sorry."))
    end = await session.ask("Run it.")
    assert end.status == "ok"
    (result,) = session.records("tool_result")
    assert isinstance(result, ToolResult)
    assert result.is_error
    assert "no-such-kernel" in result.content[0]["text"]


class TestUnreachable:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        return {"ModelConfig": {"base_url": f"http://127.0.0.1:{port}", "max_attempts": 1}}

    async def test_a_server_that_is_not_there_is_named(self, new_session: NewSession) -> None:
        session = await new_session(model="claude-sonnet-5-5")
        end = await session.ask("Hello?")
        assert end.status == "error"
        error = await session.record("error", code="unreachable")
        assert "127.0.0.1" in error.message
        assert error.hint


class TestForbiddenModes:
    @pytest.fixture
    def prime_config(self) -> dict[str, Any]:
        return {"PermissionConfig": {"allowed_modes": ["ask", "plan"], "default_mode": "auto"}}

    async def test_an_administrator_can_forbid_modes(
        self, service: AgentService, notebook: str
    ) -> None:
        status = service.status()
        assert status["permission_modes"] == ["ask", "plan"]
        assert status["default_permission_mode"] == "ask"
        with pytest.raises(PrimeError):
            await service.start_session(notebook, permission_mode="auto")
        session = await service.start_session(notebook)
        assert session.permission_mode == "ask"
        with pytest.raises(PrimeError):
            await service.update(session, permission_mode="auto")
