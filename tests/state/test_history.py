"""``In``, ``Out`` and the last results go on where they stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .kernels import Kernel

QUIET = "from prime_ext import state as _s; {0}; del _s"
SAVE = QUIET.format("_s.save({0!r}, key=b'k' * 32, verify='off')")
LOAD = QUIET.format("_s.load({0!r}, key=b'k' * 32, mode='cold')")


def silently(kernel: Kernel, code: str) -> None:
    """As the server does it: no cell, no number."""
    kernel.client.execute(code, silent=True, store_history=False)
    kernel.client.get_shell_msg(timeout=60)


def test_history_goes_on(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    kernel = kernel_at()
    cells = [
        "import numpy as np; runs = []",
        "table = [1, {'a': 2}]; table",
        "runs.append(1); len(runs)",
        "np.arange(3)",
        "np.zeros(100_000)",  # large, and nobody's value
        "import threading; threading.Thread()",  # not plain data
        "%matplotlib --list",
        "'last one'",
    ]
    for cell in cells:
        kernel.run(cell)
    silently(kernel, SAVE.format(str(tmp_path / "s")))
    fresh = kernel_at()
    silently(fresh, LOAD.format(str(tmp_path / "s")))
    fresh.run(
        f"""
        assert len(In) == {len(cells) + 2}, In
        assert In[1:7] == {cells[:6]!r}, In
        assert "--list" in In[7] != _i7 == "%matplotlib --list"
        assert In[8] == "'last one'" and _i8 == "'last one'" == _i
        assert Out[2] is table and _2 is table and Out[3] == 1 and runs == [1], "not run again"
        assert Out[4].tolist() == [0, 1, 2]
        assert 5 not in Out and 6 not in Out, "neither what is large nor what is no plain data"
        assert _ == "last one" == Out[8] and "_4" in globals()
        """
    )
    fresh.run("5 + 5")
    fresh.run("assert Out[10] == 10 == _ and __ == 'last one' and In[10] == '5 + 5'")
    assert "np.arange(3)" in fresh.run("%history")


def test_history_of_a_kernel_that_ran_something_stays(
    kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    kernel = kernel_at()
    kernel.run("x = [1]; x")
    silently(kernel, SAVE.format(str(tmp_path / "s")))
    fresh = kernel_at()
    fresh.run("'mine'")
    silently(fresh, LOAD.format(str(tmp_path / "s")))
    fresh.run("assert In[1:] == [\"'mine'\", In[-1]] and Out == {1: 'mine'} and x == [1]")


def test_results_stay_themselves_in_a_hot_restore(
    kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    kernel = kernel_at()
    kernel.run("x = [1]; (n for n in x)")
    kernel.run("before = dict(Out), list(In), _")
    silently(kernel, SAVE.format(str(tmp_path / "s")))
    silently(kernel, f"del x; {LOAD.format(str(tmp_path / 's')).replace('cold', 'hot')}")
    kernel.run("assert x == [1] and dict(Out) == before[0] and _ is before[2]")
    kernel.run("assert In[:2] == before[1][:2] and len(In) == 5")
