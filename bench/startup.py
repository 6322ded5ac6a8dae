"""What the extension adds to the start of a server."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile

from bench.report import Measure, median, report

ROUNDS = 11
TARGET_MS = 100.0

# Up to the point where it would listen. `-I`: only what is installed counts.
SERVER = """
import sys, time
started = time.perf_counter()
from jupyter_server.serverapp import ServerApp
app = ServerApp(
    jpserver_extensions={"prime_ext": sys.argv[1] == "with"},
    allow_root=True,
    log_level="ERROR",
    open_browser=False,
    reraise_server_extension_failures=True,
)
app.initialize(argv=[], find_extensions=False, new_httpserver=False)
print((time.perf_counter() - started) * 1000)
"""

IMPORT = """
import jupyter_server.serverapp, jupyter_server.extension.application, time
started = time.perf_counter()
import prime_ext.app
print((time.perf_counter() - started) * 1000)
"""


def milliseconds(code: str, *arguments: str) -> float:
    """What the program prints at its end, run in a fresh interpreter and fresh Jupyter folders."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-I", "-c", code, *arguments],
            env={
                "HOME": folder,
                "JUPYTER_CONFIG_DIR": folder,
                "JUPYTER_DATA_DIR": folder,
                "JUPYTER_RUNTIME_DIR": folder,
            },
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        sys.exit(done.stderr)
    return float(done.stdout.splitlines()[-1])


def main() -> int:
    for kind in ("without", "with"):  # fills the caches of the disk and of compiled modules
        milliseconds(SERVER, kind)
    without, with_it, imported = [], [], []
    for _ in range(ROUNDS):
        without.append(milliseconds(SERVER, "without"))
        with_it.append(milliseconds(SERVER, "with"))
        imported.append(milliseconds(IMPORT))
    added = [b - a for a, b in zip(without, with_it, strict=True)]
    ratio = statistics.median(with_it) / statistics.median(without)
    return report(
        "startup",
        [
            median("server without the extension", without, "ms"),
            median("server with the extension", with_it, "ms"),
            median("added to the start", added, "ms", below=TARGET_MS),
            Measure("with / without", ratio, "times", samples=ROUNDS),
            median("import of prime_ext.app alone", imported, "ms", below=TARGET_MS),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
