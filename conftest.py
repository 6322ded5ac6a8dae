"""Fixtures of every test."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from jupyter_server.serverapp import ServerApp

import prime_ext
from prime_ext.kernel.server_kernels import prepare_shutdown

# How long an example takes says nothing of the code under test on a busy machine.
settings.register_profile("prime_ext", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("prime_ext")

# Started in the background of a script, a process ignores Ctrl+C by order of its shell, and so do
# the programs that the tests start, some of them to be interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["pytest_jupyter.jupyter_server", "tests.messages_api.fixtures"]


@pytest.fixture(autouse=True)
def no_real_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the person who runs the tests has configured: no request leaves for a real model."""
    for name in (
        "PRIME_API_KEY",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def jp_nbconvert_templates() -> None:
    """Nothing is converted: no server needs the fifty files that pytest-jupyter copies for it."""


@pytest.fixture(autouse=True)
def jp_server_cleanup(jp_asyncio_loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Stop the test's server, if it has one. Its kernels are not asked to end, and waited for.

    pytest-jupyter's own makes a server for each test that has none, to stop it. Nothing of the
    extension may be at work when its server has stopped.
    """
    yield
    if not ServerApp.initialized():
        return
    app = ServerApp.instance()
    ServerApp.clear_instance()
    manager: Any = app.kernel_manager
    manager.shutdown_all = partial(manager.shutdown_all, now=True)
    jp_asyncio_loop.run_until_complete(prepare_shutdown(manager))
    jp_asyncio_loop.run_until_complete(app._cleanup())
    manager.context.destroy()
    assert not [task for task in asyncio.all_tasks(jp_asyncio_loop) if _is_ours(task)]


def _is_ours(task: asyncio.Task[Any]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and Path(prime_ext.__file__).parent in Path(code.co_filename).parents


@pytest.fixture
def jp_server_config() -> dict[str, Any]:
    """A server with the extension, in which a handler without authentication is an error."""
    return {
        "ServerApp": {
            "jpserver_extensions": {"prime_ext": True},
            "terminals_enabled": False,
            "allow_unauthenticated_access": False,
        }
    }
