"""The server's shutdown of its kernels."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError

from prime_ext.kernel.server_kernels import prepare_shutdown


async def test_a_kernel_that_did_not_start_does_not_stop_the_shutdown_of_the_others(
    jp_serverapp: Any, jp_fetch: Any
) -> None:
    manager = jp_serverapp.kernel_manager
    await jp_fetch("api", "kernels", method="POST", body="{}")
    with pytest.raises(HTTPClientError):
        await jp_fetch("api", "kernels", method="POST", body=json.dumps({"name": "missing"}))
    await prepare_shutdown(manager)
    await manager.shutdown_all()
    assert manager.list_kernel_ids() == []
