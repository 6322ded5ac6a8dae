"""What cannot be loaded takes nothing else with it, and comes back as how to make it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .kernels import Kernel

CELLS = [
    "import numpy as np\nfrom vanishing import Helper, DEFAULT\nimport vanishing",
    "source = np.arange(50_000.0)",
    "helper = Helper(3)",
    "def scale(x, by=DEFAULT): return x * by",
    "scaled = scale(source)",
    "class Model:\n    def __init__(self, helper): self.helper, self.weights = helper, [1, 2]",
    "model = Model(helper)",
    "mixed = {'model': model, 'array': source, 'kept': [1, 2, 3]}",
    "class Sub(Helper):\n    def more(self): return self.value + 1",
    "sub = Sub(4); apart = {'a': 1}; text = 'untouched'",
    "mixed['functions'] = [np.linalg.norm, len, Model]",
]
MODULE = """
DEFAULT = 2.5
class Helper:
    def __init__(self, value): self.value = value
    def get(self): return self.value
"""


@pytest.fixture
def saved(kernel_at: Callable[..., Kernel], tmp_path: Path) -> Path:
    """A snapshot whose objects need a module in ``lib``; the kernel that made it has crashed."""
    lib = tmp_path / "lib"
    lib.mkdir()
    (lib / "vanishing.py").write_text(MODULE)
    kernel = kernel_at()
    kernel.run(f"import sys; sys.path.insert(0, {str(lib)!r})")
    for cell in CELLS:
        kernel.run(cell)
    kernel.run(
        f"""
        from prime_ext import state as _state
        _state.save({str(tmp_path / "s")!r}, key=b"k" * 32, verify="off")
        """
    )
    kernel.kill()
    return tmp_path / "s"


def load(kernel: Kernel, saved: Path, options: str = "") -> dict[str, Any]:
    """Cold restore; the report as the server gets it."""
    kernel.run(
        f"""
        from prime_ext import state as _state
        _loaded = _state.load({str(saved)!r}, key=b"k" * 32, mode="cold"{options})
        """
    )
    report: dict[str, Any] = json.loads(
        kernel.run("import json; print(json.dumps(_loaded.to_dict()))")
    )
    return report


def test_module_that_is_gone(saved: Path, kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    (tmp_path / "lib" / "vanishing.py").unlink()
    kernel = kernel_at()
    report = load(kernel, saved)
    names = report["names"]
    for name in ("helper", "Helper", "vanishing", "sub", "Sub", "model", "mixed"):
        assert names[name]["status"] in ("degraded", "skipped"), (name, names[name])
        assert "vanishing" in names[name]["reason"], names[name]
        assert names[name]["recipe"], name
    assert names["helper"]["recipe"]["source"] == "helper = Helper(3)"
    assert names["helper"]["recipe"]["depends"] == ["Helper"]
    assert names["model"]["recipe"]["depends"] == ["Model", "helper"]
    assert "import vanishing" in names["Helper"]["recipe"]["source"]
    for name in ("source", "scaled", "scale", "apart", "text", "Model", "DEFAULT"):
        assert names[name]["status"] == "verified", (name, names[name])
        assert names[name]["recipe"] is None
    assert not report["complete"]
    kernel.run(
        """
        assert text == "untouched" and apart == {"a": 1} and scaled[2] == 5.0 and scale(2) == 5.0
        assert mixed["kept"] == [1, 2, 3] and mixed["array"] is source and source[7] == 7
        assert mixed["model"] is model and model.weights == [1, 2]
        assert mixed["functions"] == [np.linalg.norm, len, Model]
        for lost in (helper, model.helper, sub):
            assert "Unrestorable" in repr(lost) and "vanishing" in repr(lost), repr(lost)
        try:
            model.helper.get()
        except RuntimeError as error:
            assert "running the cell" in str(error)
        else:
            raise AssertionError("a placeholder was usable")
        assert Model(1).helper == 1
        """
    )


def test_it_comes_back_once_the_module_is_there_again(
    saved: Path, kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    module = tmp_path / "lib" / "vanishing.py"
    module.unlink()
    kernel = kernel_at()
    load(kernel, saved)
    # An automatic snapshot of what is there now must not cost what may still be restored.
    kernel.run(
        f"""
        text = "later"
        _state.save({str(saved)!r}, key=b"k" * 32, verify="off")
        text = "later still"
        _state.save({str(saved)!r}, key=b"k" * 32, verify="off")
        """
    )
    module.write_text(MODULE)
    names = "['helper', 'model', 'sub', 'mixed', 'Sub', 'Model', 'Helper', 'vanishing']"
    report = load(kernel, saved, f", generation='kept', overwrite=True, names={names}")
    assert report["complete"], report
    kernel.run(
        """
        assert helper.get() == 3 and model.helper is helper and sub.more() == 5
        assert type(model) is Model and type(sub) is Sub and mixed["model"] is model
        assert isinstance(helper, vanishing.Helper) and text == "later still"
        """
    )


def test_attribute_of_a_module_that_is_gone(
    saved: Path, kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    """The module is there, in a version that lacks the class."""
    (tmp_path / "lib" / "vanishing.py").write_text("DEFAULT = 99\n")
    kernel = kernel_at()
    names = load(kernel, saved)["names"]
    assert names["helper"]["status"] == "degraded"
    assert "Helper" in names["helper"]["reason"]
    assert names["vanishing"]["status"] == names["scale"]["status"] == "verified"
    kernel.run("assert scale(2) == 5.0 and vanishing.DEFAULT == 99 and 'Helper' in repr(helper)")


def test_damaged_component(saved: Path, kernel_at: Callable[..., Kernel]) -> None:
    """Bytes of two arrays are altered on disk: they are not used, everything else is."""
    for segment in (saved / "kernel-state.d").glob("seg-*.bin"):
        content = bytearray(segment.read_bytes())
        for share in (0.25, 0.75):  # two arrays are nearly all there is in it
            content[int(share * len(content))] ^= 0xFF
        segment.write_bytes(content)
    kernel = kernel_at()
    report = load(kernel, saved, ", verify='wait'")
    statuses = {name: one["status"] for name, one in report["names"].items()}
    damaged = {name for name, status in statuses.items() if status in ("degraded", "skipped")}
    assert statuses["source"] == statuses["scaled"] == "skipped"
    assert statuses["mixed"] == "degraded"
    assert damaged == {"source", "scaled", "mixed"}
    for name in damaged:
        status = report["names"][name]
        assert "altered" in status["reason"]
        assert status["recipe"]["source"] in CELLS, (name, status)
    kernel.run(
        """
        assert helper.get() == 3 and model.helper is helper and mixed["model"] is model
        assert mixed["kept"] == [1, 2, 3] and "altered" in repr(mixed["array"])
        assert apart == {"a": 1} and text == "untouched" and "source" not in globals()
        """
    )
    assert not report["complete"]


def test_what_fails_while_it_is_loaded(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    """Objects whose own loading raises, exits, hangs or lacks what it looks for."""
    kernel = kernel_at()
    kernel.run(
        """
        import os
        class Loads:
            def __init__(self, how): self.how = how
            def __setstate__(self, state):
                self.__dict__.update(state)
                if os.environ.get("FAIL"): exec(self.how)
        raising, exiting = [Loads("1 / 0"), 1], [Loads("raise SystemExit"), 2]
        hanging = [Loads("import time; time.sleep(1000)"), 3]
        spin = "while True:\\n try:\\n  while True: pass\\n except Exception: pass"
        swallowing = [Loads(spin), 4]
        fine, fine_too = Loads("pass"), {"x": [1]}
        class Hashed(Loads):
            def __hash__(self): return 1
        hashed = {Hashed("1 / 0"): "value"}
        """
    )
    kernel.run(
        f"""
        from prime_ext import state as _state
        _state.save({str(tmp_path / "s")!r}, key=b"k" * 32, verify="off")
        """
    )
    fresh = kernel_at(FAIL="yes")
    names = load(fresh, tmp_path / "s", ", seconds_per_component=1.0")["names"]
    assert "ZeroDivisionError" in names["raising"]["reason"]
    assert "SystemExit" in names["exiting"]["reason"]
    assert "ZeroDivisionError" in names["hashed"]["reason"]
    assert "longer than 1 s" in names["hanging"]["reason"]
    assert "longer than 1 s" in names["swallowing"]["reason"]
    for name in ("raising", "exiting", "hanging", "swallowing"):
        assert "class Loads" in names[name]["recipe"]["source"]
    assert names["fine"]["status"] == names["fine_too"]["status"] == "verified"
    for name in ("raising", "exiting", "hashed"):
        assert names[name]["status"] == "degraded", "nothing is left half filled"
    fresh.run(
        """
        assert fine.how == 'pass' and fine_too == {'x': [1]} and raising[1] == 1
        for lost in (raising[0], exiting[0], *hashed):
            assert "Unrestorable" in repr(lost), lost
        """
    )


LOADS = """
import os, time
class Loads:
    armed = os.path.abspath("armed")  # what reads back works in a directory of its own
    def __init__(self, how): self.how = how
    def __setstate__(self, state):
        self.__dict__.update(state)
        if os.path.exists(self.armed): exec(self.how)
open("armed", "w").close()
ending = [Loads("os._exit(3)"), 1]
hanging = [Loads("time.sleep(1000)"), 2]
class Holds:
    held = Loads("time.sleep(1000)")
holds, fine, number = Holds(), [Loads("pass")], {"x": [1]}
"""


BRIEF = """
import sys, prime_ext.state
_loader = sys.modules["prime_ext.state.loader"]
_loader.UNREAD_SECONDS, _loader.LEAST_SECONDS = 1.0, 0.5
"""


def test_what_hung_or_ended_the_reader_is_left_out_until_it_is_asked_for(
    kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    kernel = kernel_at()
    kernel.run(LOADS)
    kernel.run(
        f"""
        from prime_ext import state as _state
        _state.verifier.SECONDS_PER_COMPONENT = 1.5
        _saved = _state.save({str(tmp_path / "s")!r}, key=b"k" * 32, verify="wait").names
        assert _saved["fine"].status == _saved["number"].status == "verified", _saved
        assert "took longer than 2 s" in _saved["hanging"].reason, _saved["hanging"]
        assert "ended the process" in _saved["ending"].reason, _saved["ending"]
        """
    )
    fresh = kernel_at()
    fresh.run(BRIEF)
    report = load(fresh, tmp_path / "s")
    names = report["names"]
    assert not report["complete"]
    for name in ("ending", "hanging", "Holds"):
        assert (names[name]["status"], names[name]["action"]) == ("skipped", "none"), names[name]
        assert "ask for it by name to load it anyway" in names[name]["reason"]
        assert "class Loads" in names[name]["recipe"]["source"]
    assert names["fine"]["status"] == names["number"]["status"] == "verified"
    assert names["holds"]["status"] == "degraded"
    fresh.run("assert fine[0].how == 'pass' and number == {'x': [1]}; os.remove('armed')")
    names = load(fresh, tmp_path / "s", ", names=['ending', 'hanging', 'Holds']")["names"]
    assert {entry["action"] for entry in names.values()} == {"loaded"}
    fresh.run("assert hanging[1] == 2 and ending[1] == 1 and Holds.held.how")


def test_what_nobody_has_read_back_gets_little_time_unless_it_is_asked_for(
    kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    kernel = kernel_at()
    kernel.run(f"{LOADS}\ndel ending, Holds, holds; hanging_too = [Loads('while True: pass')]")
    kernel.run(
        f"""
        from prime_ext import state as _state
        _state.save({str(tmp_path / "s")!r}, key=b"k" * 32, verify="off")
        """
    )
    fresh = kernel_at()
    fresh.run(BRIEF)
    names = load(fresh, tmp_path / "s")["names"]
    reasons = sorted(names[name]["reason"] for name in ("hanging", "hanging_too"))
    by_name = "; ask for it by name to load it anyway"
    assert reasons == [f"loading it took longer than {seconds} s{by_name}" for seconds in (0.5, 1)]
    assert names["fine"]["status"] == names["number"]["status"] == "verified"
    asked = load(fresh, tmp_path / "s", ", names=['hanging'], seconds_per_component=2.0")["names"]
    assert asked["hanging"]["reason"] == "loading it took longer than 2 s"
