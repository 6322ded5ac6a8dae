"""Variables that cannot be pickled in peace: the kernel and the snapshot before survive them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prime_ext.state import forking

from .kernels import Kernel

pytestmark = pytest.mark.skipif(not forking.is_safe(), reason="needs a safe fork")

REDUCTIONS = {
    "raises": ("raise RuntimeError('no pickling today')", "no pickling today"),
    "exits": ("import sys; sys.exit(3)", "SystemExit"),
    "spins": ("while True: pass", "longer than"),
    "segfaults": ("import ctypes; ctypes.string_at(0)", "crash the kernel (SIGSEGV)"),
    "aborts": ("import os; os.abort()", "crash the kernel (SIGABRT)"),
    "ends": ("import os; os._exit(3)", "end the kernel (exit status 3)"),
    "ends_well": ("import os; os._exit(0)", "end the kernel (exit status 0)"),
    "is_killed": ("import os; os.kill(os.getpid(), 9)", "crash the kernel (SIGKILL)"),
    "eats": ("return [bytearray(1 << 26) for _ in iter(int, 1)]", "too much memory"),
    "number": ("return 3", "must return a string or tuple"),
    "name": ("return 'nowhere'", "nowhere"),
    "endless": ("return self.__reduce__()", "Recursion"),
}


def started(kernel: Kernel, where: Path) -> Kernel:
    """A kernel in which ``good`` has been saved once."""
    kernel.run(
        f"""
        import os
        from prime_ext import state as _state
        _key, _where, _pid = b"k" * 32, {str(where)!r}, os.getpid()
        good = {{"answer": 42}}
        _state.save(_where, key=_key, verify="off")
        """
    )
    return kernel


def after_a_cold_restore(kernel: Kernel, where: Path, check: str = "") -> Kernel:
    kernel.run(
        f"""
        from prime_ext import state as _state
        _loaded = _state.load({str(where)!r}, key=b"k" * 32, mode="cold")
        assert good == {{"answer": 42}}
        """
    )
    kernel.run(check)
    return kernel


@pytest.fixture
def kernel(kernel_at: Callable[..., Kernel], tmp_path: Path) -> Iterator[Kernel]:
    kernel = started(kernel_at(), tmp_path / "s")
    yield kernel
    # Whatever it was: the kernel is the same process, the variables are there, and it saves on.
    kernel.run(
        """
        assert os.getpid() == _pid and good == {'answer': 42}
        del culprit
        later = 'saved'
        assert _state.save(_where, key=_key, verify="off").names['later'].status == 'unverified'
        """
    )


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kernel, Kernel]]:
    """One kernel with all of `REDUCTIONS` in it, and a fresh one with what was saved of them."""
    folder = tmp_path_factory.mktemp("hostile")
    live = started(Kernel(folder), folder / "s")
    fresh = Kernel(folder)
    try:
        for name, (body, _) in REDUCTIONS.items():
            live.run(
                f"""
                class Of_{name}:
                    def __reduce__(self):
                        if {name!r} in ("spins", "eats"): open("tried", "a").write({name!r})
                        {body}
                {name} = {{"it": Of_{name}(), "beside": [1, 2]}}
                """
            )
        live.run("_saved = _state.save(_where, key=_key, verify='off', seconds_per_variable=2.5)")
        yield live, after_a_cold_restore(fresh, folder / "s")
    finally:
        live.stop()
        fresh.stop()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(kernels: tuple[Kernel, Kernel], name: str) -> None:
    live, fresh = kernels
    live.run(
        f"""
        status = _saved.names[{name!r}]
        assert status.status == "degraded" and {REDUCTIONS[name][1]!r} in status.reason, status
        assert "class Of_{name}" in status.recipe.source
        assert type({name}["it"]) is Of_{name}, "the live object stays"
        assert os.getpid() == _pid and _saved.names["good"].status == "unverified"
        """
    )
    fresh.run(
        f"""
        assert {name}["beside"] == [1, 2] and "Unrestorable" in repr({name}["it"])
        assert "class Of_{name}" in _loaded.names[{name!r}].recipe.source
        try:
            {name}["it"].anything
        except RuntimeError as error:
            assert "running the cell" in str(error)
        else:
            raise AssertionError("a placeholder was usable")
        """
    )


def test_what_hung_is_not_tried_again(kernels: tuple[Kernel, Kernel]) -> None:
    live, _ = kernels
    live.run(
        """
        _tried = open("tried").read()
        assert "spins" in _tried and "eats" in _tried
        _again = _state.save(_where, key=_key, verify="off")
        assert open("tried").read() == _tried, "each takes seconds"
        assert "longer than" in _again.names["spins"].reason
        assert "too much memory" in _again.names["eats"].reason
        Of_spins.__reduce__ = lambda self: (int, ("7",))
        _again = _state.save(_where, key=_key, verify="off")
        assert _again.names["spins"].status == "unverified", "until it was mended"
        """
    )


def test_one_that_lies(kernel: Kernel) -> None:
    kernel.run(
        """
        class Culprit:
            def __reduce__(self): return (int, (3,))
        culprit = [Culprit()]
        names = _state.save(_where, key=_key, verify="wait").names
        assert names["culprit"].status == "unverified" and "different" in names["culprit"].reason
        assert names["good"].status == "verified"
        del culprit
        loaded = _state.load(_where, key=_key).names["culprit"]
        assert loaded.status == "unverified" and loaded.reason.startswith("loaded, but")
        """
    )


def test_one_that_forgets(kernel: Kernel) -> None:
    """What it makes is pickled just as it was itself, so comparing the pickles finds nothing."""
    kernel.run(
        """
        import functools
        class Forgets:
            def __init__(self, n=0): self.n = n
            def __reduce__(self): return (Forgets, ())
        class Turns:
            def __reduce__(self): return (Turned, ())
        class Turned(Turns): pass
        class Remembers:
            def __init__(self, n): self.n, self.cache = n, {n: n}
            def __reduce__(self): return (Remembers, (self.n,))
            @functools.cached_property
            def twice(self): return 2 * self.n
        class Keeps:
            def __init__(self): self.n, self.lock = 1, __import__("threading").Lock()
            def __getstate__(self): return {"n": self.n}
            def __setstate__(self, state): self.__init__()
        culprit, nested, turns = Forgets(), {"rows": [Forgets(5)]}, [Turns()]
        fine, keeps = [Remembers(3), Remembers(4)], Keeps()
        assert fine[0].twice == 6
        names = _state.save(_where, key=_key, verify="wait").names
        for name in ("culprit", "fine", "keeps"):
            assert names[name].status == "verified", (name, names[name])
        for name in ("nested", "turns"):
            assert names[name].status == "unverified", (name, names[name])
            assert "its attributes came back different" in names[name].reason
        culprit.n = 7
        names = _state.save(_where, key=_key, verify="wait").names
        assert names["culprit"].status == "unverified", names["culprit"]
        culprit.n = 0
        names = _state.save(_where, key=_key, verify="wait").names
        assert names["culprit"].status == "verified", names["culprit"]
        """
    )


def test_one_that_loads_here_only(kernel: Kernel) -> None:
    """What the process that reads back may not do is no longer told once it has been done."""
    kernel.run(
        """
        class Starts:
            def __reduce__(self): return (Starts.again, ())
            @staticmethod
            def again():
                import os
                os.makedirs("made", exist_ok=True)
                return Starts()
        culprit = Starts()
        names = _state.save(_where, key=_key, verify="wait").names
        assert names["culprit"].status == "unverified", names["culprit"]
        assert "os.mkdir is not allowed" in names["culprit"].reason, names["culprit"]
        del culprit
        loaded = _state.load(_where, key=_key).names["culprit"]
        assert (loaded.status, loaded.reason) == ("verified", ""), loaded
        """
    )


def test_budgets(kernel: Kernel, kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    """What takes too long is named with the reason, and stays live."""
    kernel.run(
        """
        culprit = {n: str(n) for n in range(1_000_000)}
        names = _state.save(_where, key=_key, verify="off", seconds_per_variable=0.05).names
        assert names["culprit"].status == "skipped" and "longer than 0.05 s" in (
            names["culprit"].reason), names["culprit"]
        assert "1_000_000" in names["culprit"].recipe.source
        assert len(culprit) == 1_000_000 and names["good"].status == "unverified"
        names = _state.save(_where, key=_key, verify="off", seconds_total=1e-9).names
        assert names["culprit"].status == names["good"].status == "skipped"
        assert "all variables together" in names["good"].reason
        names = _state.save(_where, key=_key, verify="off", seconds_per_variable=0.05).names
        """
    )
    after_a_cold_restore(
        kernel_at(),
        tmp_path / "s",
        """
        assert "culprit" not in globals() and _loaded.names["culprit"].status == "skipped"
        assert _loaded.names["culprit"].recipe.type == "dict"
        """,
    )


def test_out_of_memory_outside_of_a_reduction(kernel: Kernel) -> None:
    """A list that has no room for its own pickle: the snapshot does without it."""
    kernel.run(
        """
        import resource
        culprit = [str(n) * 20 for n in range(1_000_000)]
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + 40_000_000, limits[1]))
        try:
            names = _state.save(_where, key=_key, verify="off").names
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)
        assert names["culprit"].status == "skipped" and "Memory" in names["culprit"].reason, (
            names["culprit"])
        assert names["good"].status == "unverified" and len(culprit) == 1_000_000
        """
    )
