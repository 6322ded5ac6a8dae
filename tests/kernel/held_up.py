"""A writer of snapshots that stands still just before it commits, as a slow disk makes it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from prime_ext.state import lock
from tests.kernel.conftest import until

CODE = """
def hold_up(mark, gate):
    import os
    replace = os.replace
    def waiting(*names):
        vars(os)["replace"] = replace
        open(mark, "w").close()
        open(gate, "rb").close()
        replace(*names)
    vars(os)["replace"] = waiting
hold_up({mark!r}, {gate!r})
del hold_up
"""


class HeldUp:
    """Code that holds up the kernel's next snapshot until somebody waits for the writer."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._mark, self._gate = folder / "mark", folder / "gate"
        os.mkfifo(self._gate)
        self.code = CODE.format(mark=str(self._mark), gate=str(self._gate))
        self.was_awaited = False
        clock = SimpleNamespace(sleep=self._sleep, monotonic=time.monotonic)
        monkeypatch.setattr(lock, "time", clock)

    async def reached(self) -> None:
        """The writer stands still."""
        await until(self._mark.exists)

    def _sleep(self, seconds: float) -> None:
        if not self.was_awaited:
            self.was_awaited = True
            self._gate.write_bytes(b"")  # returns when the writer has opened it
        time.sleep(seconds)
