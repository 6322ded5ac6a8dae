"""Fixtures of every test."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

# How long an example takes says nothing of the code under test on a busy machine.
settings.register_profile("prime_ext", deadline=None)
settings.load_profile("prime_ext")

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
def jp_server_config() -> dict[str, Any]:
    """A server with the extension, in which a handler without authentication is an error."""
    return {
        "ServerApp": {
            "jpserver_extensions": {"prime_ext": True},
            "terminals_enabled": False,
            "allow_unauthenticated_access": False,
        }
    }
