"""The library sent as one string into Pythons that have nothing of it installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prime_ext import state
from prime_ext.state import carry

from .kernels import Kernel

BARE = """
import json, sys
before = set(sys.modules)
exec(open(sys.argv[1]).read(), {"__name__": "loader"})
exec(open(sys.argv[1]).read(), {"__name__": "loader"})
added = sorted(name for name in set(sys.modules) - before if "prime" in name)
assert added == ["_prime_state"], added
assert "_prime_state" not in globals()
import _prime_state as state
import collections, enum
class Color(enum.Enum):
    RED = 1
class Thing:
    def __init__(self, value): self.value = value
    def twice(self): return 2 * self.value
def make():
    count = 0
    def bump():
        nonlocal count
        count += 1
        return count
    return bump
bump = make(); bump()
thing = Thing(4); alias = [thing]; red = Color.RED
counts = collections.Counter("aab"); generator = (n for n in "ab")
large = bytes(200_000)
report = state.save(sys.argv[2], key=b"k" * 32, verify="wait")
print(json.dumps({name: status.status for name, status in report.names.items()}))
names = {}
report = state.load(sys.argv[2], names, key=b"k" * 32, mode="cold")
assert report.complete and names["thing"] is names["alias"][0] and names["red"] is Color.RED
assert names["thing"].twice() == 8 and names["bump"]() == 2
added = sorted(name for name in set(sys.modules) - before if "prime" in name)
assert added == ["_prime_state"], added
"""


def pythons() -> list[str]:
    """One interpreter for each version that can be found here, this one first."""
    found = {sys.version_info[:2]: sys.executable}
    places = [*Path.home().glob(".pyenv/versions/*/bin"), *Path("/opt").glob("python*/bin")]
    for minor in range(9, 14):
        name = f"python3.{minor}"
        for candidate in [*(str(place / name) for place in places), shutil.which(name)]:
            # A shim of a version manager is there, but does not always run.
            if candidate and Path(candidate).exists() and "shims" not in candidate:
                found.setdefault((3, minor), candidate)
    return list(found.values())


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("carry") / "code.py"
    path.write_text(carry.code(), encoding="utf-8")
    return path


@pytest.mark.parametrize("python", pythons())
def test_bare_python(python: str, code: Path, tmp_path: Path) -> None:
    """Without site-packages: no dill, no NumPy, no xxhash, no filelock."""
    script = tmp_path / "script.py"
    script.write_text(BARE)
    result = subprocess.run(
        [python, "-I", "-S", str(script), str(code), str(tmp_path / "s")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    statuses = json.loads(result.stdout)
    assert statuses.pop("generator") == "degraded"
    assert set(statuses.values()) == {"verified"}, statuses


def test_snapshots_cross_between_installed_and_carried(code: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(BARE)
    subprocess.run(
        [sys.executable, "-I", "-S", str(script), str(code), str(tmp_path / "s")],
        check=True,
        timeout=120,
        capture_output=True,
    )
    found: dict[str, Any] = {}
    report = state.load(
        tmp_path / "s", found, key=b"k" * 32, mode="cold", restore_process_state=False
    )
    assert report.complete
    assert found["thing"].twice() == 8
    assert found["bump"]() == 2
    assert found["counts"] == {"a": 2, "b": 1}


@pytest.mark.parametrize("python", pythons()[1:])
def test_snapshot_of_another_python(python: str, code: Path, tmp_path: Path) -> None:
    """Its bytecode does not run here, which is said of what has some; the data is restored."""
    script = tmp_path / "script.py"
    script.write_text(BARE)
    subprocess.run(
        [python, "-I", "-S", str(script), str(code), str(tmp_path / "s")],
        check=True,
        timeout=120,
        capture_output=True,
    )
    found: dict[str, Any] = {}
    report = state.load(
        tmp_path / "s", found, key=b"k" * 32, mode="cold", restore_process_state=False
    )
    assert report.names["bump"].status == "degraded"
    assert "which cpython-3" in report.names["bump"].reason
    assert found["counts"] == {"a": 2, "b": 1}
    assert found["large"] == bytes(200_000)
    assert report.names["counts"].status == report.names["large"].status == "verified"
    assert found["thing"].value == 4
    assert found["thing"] is found["alias"][0]
    assert report.names["thing"].status == "degraded", "its methods are gone"
    assert found["red"].name == "RED"
    assert type(found["red"]) is found["Color"]


def test_too_old_python_says_so() -> None:
    scope = {"__name__": "loader"}
    pretended = carry.code().replace("sys.version_info < (3, 9)", "sys.version_info < (9,)")
    with pytest.raises(RuntimeError, match="of this kernel are not possible"):
        exec(pretended, scope)


def test_kernel_without_the_packages(
    kernel_at: Callable[..., Kernel], code: Path, tmp_path: Path
) -> None:
    """A kernel in which nothing of ours can be imported, and no trace but one module."""
    block = """
        import sys
        class _Block:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in {"prime_ext", "dill", "cloudpickle", "xxhash",
                                              "blake3", "filelock"}:
                    raise ImportError(name + " is not installed here")
        sys.meta_path.insert(0, _Block())
        _before = set(sys.modules)
    """
    install = f"exec(open({str(code)!r}).read(), {{'__name__': 'loader'}})"
    kernel = kernel_at()
    kernel.run(block)
    kernel.run("'shown'")
    kernel.run("_names, _history, _count = set(globals()), In[:], get_ipython().execution_count")
    for once in (install, f"import _prime_state as s; s.save({str(tmp_path / 's')!r}); del s"):
        kernel.client.execute(once, silent=True, store_history=False)
    kernel.run(
        """
        assert set(globals()) - _names == {"_names", "_history", "_count", "_i4"}, set(globals())
        assert In[:-1] == _history and Out == {2: "shown"} and _ == "shown" and __ == ""
        assert get_ipython().execution_count == _count + 1
        """
    )
    kernel.run("import numpy as np\nclass A: pass\na = A(); a.x = np.arange(100_000); v = a.x[5:]")
    kernel.run(
        f"""
        _state = sys.modules["_prime_state"]
        _report = _state.save({str(tmp_path / "s")!r}, key=b"k" * 32, verify="wait")
        assert {{s.status for s in _report.names.values()}} == {{"verified"}}, _report.by_status()
        _ours = [n for n in set(sys.modules) - _before if "prime" in n or n in ("dill", "xxhash")]
        assert _ours == ["_prime_state"], _ours
        """
    )
    fresh = kernel_at()
    fresh.run(block)
    fresh.client.execute(install, silent=True, store_history=False)
    fresh.run(
        f"""
        _state = sys.modules["_prime_state"]
        _report = _state.load({str(tmp_path / "s")!r}, key=b"k" * 32, mode="cold")
        assert _report.complete and type(a) is A and np.shares_memory(a.x, v)
        assert "loader" not in globals() and "install" not in globals()
        """
    )
