"""What the extension adds to the start of a server."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

from bench.report import Measure, median, report

ROUNDS = 11
TARGET_MS = 100.0

# Processor time is what the target is about: starting waits for nothing, and on a busy machine the
# clock tells more of its other work than of ours.
SERVER = """
import sys, time
clock, processor = time.perf_counter(), time.process_time()
from jupyter_server.serverapp import ServerApp
app = ServerApp(
    jpserver_extensions={"prime_ext": sys.argv[1] == "with"},
    allow_root=True,
    log_level="ERROR",
    open_browser=False,
    reraise_server_extension_failures=True,
)
app.initialize(argv=[], find_extensions=False, new_httpserver=False)
print((time.perf_counter() - clock) * 1000, (time.process_time() - processor) * 1000)
"""

IMPORT = """
import jupyter_server.serverapp, jupyter_server.extension.application, time
clock, processor = time.perf_counter(), time.process_time()
import prime_ext.app
print((time.perf_counter() - clock) * 1000, (time.process_time() - processor) * 1000)
"""


class Times(NamedTuple):
    """Milliseconds by the clock, and of processor time."""

    clock: float
    processor: float


def measure(code: str, *arguments: str) -> Times:
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
    return Times(*map(float, done.stdout.splitlines()[-1].split()))


def main() -> int:
    for kind in ("without", "with"):  # fills the caches of the disk and of compiled modules
        measure(SERVER, kind)
    without, with_it, imported = [], [], []
    for _ in range(ROUNDS):
        without.append(measure(SERVER, "without"))
        with_it.append(measure(SERVER, "with"))
        imported.append(measure(IMPORT))
    pairs = list(zip(without, with_it, strict=True))
    ratio = statistics.median(b.processor / a.processor for a, b in pairs)
    return report(
        "startup",
        [
            median("server without the extension, by the clock", [t.clock for t in without], "ms"),
            median("server with the extension, by the clock", [t.clock for t in with_it], "ms"),
            median("added, by the clock", [b.clock - a.clock for a, b in pairs], "ms"),
            median("server without the extension", [t.processor for t in without], "ms"),
            median("server with the extension", [t.processor for t in with_it], "ms"),
            median("added", [b.processor - a.processor for a, b in pairs], "ms", below=TARGET_MS),
            Measure("with / without", ratio, "times", samples=ROUNDS),
            median("import of prime_ext.app", [t.processor for t in imported], "ms", TARGET_MS),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
