"""What the extension costs a server that starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HEAVY = [
    "PIL",
    "anthropic",
    "blake3",
    "boto3",
    "cloudpickle",
    "dill",
    "fsspec",
    "google.auth",
    "httpx2",
    "matplotlib",
    "numpy",
    "pandas",
    "pyarrow",
    "tiktoken",
]

BUDGET_SECONDS = 0.1

# The server's own imports are not ours to count, nor is what else the machine does meanwhile.
TIMED = """
import jupyter_server.serverapp, jupyter_server.extension.application, time
started = time.process_time()
import prime_ext.app
print(time.process_time() - started)
"""

STARTED = """
import json, sys
from jupyter_server.serverapp import ServerApp
app = ServerApp(
    jpserver_extensions={"prime_ext": True},
    allow_root=True,
    reraise_server_extension_failures=True,
)
app.initialize(argv=[], find_extensions=False, new_httpserver=False)
print(json.dumps(sorted(sys.modules)))
"""


def python(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        env={
            "PATH": "",
            "HOME": str(folder),
            "JUPYTER_CONFIG_DIR": str(folder),
            "JUPYTER_DATA_DIR": str(folder),
            "JUPYTER_RUNTIME_DIR": str(folder),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_importing_the_extension_stays_within_its_budget(tmp_path: Path) -> None:
    # The best of some runs: the first may compile, and a busy machine's caches are cold.
    best = min(float(python(TIMED, tmp_path)) for _ in range(3))

    assert best < BUDGET_SECONDS


def test_a_started_server_has_imported_nothing_heavy(tmp_path: Path) -> None:
    modules = set(json.loads(python(STARTED, tmp_path)))

    assert "prime_ext.app" in modules
    assert modules.intersection(HEAVY) == set()


def test_a_kernel_that_uses_the_state_library_gets_nothing_of_the_server(tmp_path: Path) -> None:
    modules = json.loads(
        python(
            "import json, sys, prime_ext.state; print(json.dumps(sorted(sys.modules)))", tmp_path
        )
    )

    parts = {name for name in modules if name.startswith("prime_ext.")}
    assert {
        name for name in parts if not name.startswith(("prime_ext.state", "prime_ext._version"))
    } == set()
    assert "jupyter_server" not in modules
