"""What a server with the extension tells the gateway, and its log, of the keys it has."""

from __future__ import annotations

from typing import Any

import pytest

PRIME_KEY = "prime-key-0123456789"
SHARED_KEY = "shared-key-0123456789"


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    monkeypatch.setenv("PRIME_API_KEY", PRIME_KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", SHARED_KEY)
    monkeypatch.setenv("OF_THE_SERVER", "something else")
    jp_server_config["ServerApp"]["jpserver_extensions"] = {"prime_ext": True}
    return jp_server_config


async def test_no_key_in_the_log_or_the_kernel(
    jp_serverapp: Any, kernel: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger=jp_serverapp.log.name)
    run = await kernel.execute("import os; print(dict(os.environ))", store_history=False)
    # The whole environment is in the log, so that the keys would be there too.
    assert "something else" in caplog.text
    for key in (PRIME_KEY, SHARED_KEY):
        assert key not in caplog.text
        assert key not in str(run.outputs)
    assert "ANTHROPIC_API_KEY" in caplog.text
    assert "PRIME_API_KEY" not in caplog.text
