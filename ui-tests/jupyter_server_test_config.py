"""Server configuration for the browser tests. Never for anything else: it asks for no password."""

from __future__ import annotations

import atexit
import os
import shutil
from typing import Any

from jupyterlab.galata import configure_jupyter_server

c: Any = get_config()  # type: ignore[name-defined]  # noqa: F821  (given by traitlets)

configure_jupyter_server(c)

c.ServerApp.ip = "127.0.0.1"
c.ServerApp.allow_root = True
c.Application.log_level = "WARN"
c.LabApp.news_url = None
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"

atexit.register(shutil.rmtree, os.environ["PRIME_TEST_STATE"], ignore_errors=True)
