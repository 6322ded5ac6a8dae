"""Server configuration for the browser tests. Never for anything else: it asks for no password."""

from __future__ import annotations

import atexit
import json
import os
import shutil
from pathlib import Path
from typing import Any

from jupyterlab.galata import configure_jupyter_server

c: Any = get_config()  # type: ignore[name-defined]  # noqa: F821  (given by traitlets)

configure_jupyter_server(c)

c.ServerApp.ip = "127.0.0.1"
c.ServerApp.allow_root = True
c.Application.log_level = "WARN"
c.LabApp.news_url = None
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"

if os.environ.get("PRIME_TEST_COLLABORATION"):
    # By default in the folder from which the server is started.
    c.SQLiteYStore.db_path = str(Path(os.environ["JUPYTER_DATA_DIR"]) / "ystore.db")
else:
    # It is optional: the other servers do without, as `disable` would have it.
    c.ServerApp.jpserver_extensions = {"jupyter_server_ydoc": False, "jupyter_server_fileid": False}
    labconfig = Path(os.environ["JUPYTER_CONFIG_DIR"]) / "labconfig"
    labconfig.mkdir(parents=True, exist_ok=True)
    (labconfig / "page_config.json").write_text(
        json.dumps(
            {
                "disabledExtensions": {
                    "@jupyter/collaboration-extension": True,
                    "@jupyter/docprovider-extension": True,
                }
            }
        )
    )

atexit.register(shutil.rmtree, os.environ["PRIME_TEST_STATE"], ignore_errors=True)
