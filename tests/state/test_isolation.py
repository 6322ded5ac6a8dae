"""Objects whose pickling is dangerous, and what a second opinion is good for."""

from __future__ import annotations

import ctypes
import datetime
import os
from pathlib import Path
from typing import Any

import pytest

from prime_ext import state
from prime_ext.state import classes, forking

needs_fork = pytest.mark.skipif(not forking.is_safe(), reason="needs a safe fork")


def save(directory: Path, namespace: dict[str, Any], key: bytes, **options: Any) -> state.Report:
    return state.save(directory, namespace, key=key, **{"verify": "off", **options})


def notebook_class(name: str, body: dict[str, Any]) -> Any:
    """A class as a notebook has it."""
    return type(name, (), {"__module__": "__main__", **body})


@needs_fork
def test_crash_in_a_reduction_leaves_the_kernel_alive(tmp_path: Path, key: bytes) -> None:
    crashes = notebook_class("Crashes", {"__reduce__": lambda self: ctypes.string_at(0)})
    aborts = notebook_class("Aborts", {"__getstate__": lambda self: os.abort()})
    namespace = {"crashes": [crashes(), 1], "aborts": {"it": aborts(), "kept": 2}, "plain": 3}
    report = save(tmp_path, namespace, key)
    assert "crash the kernel (SIGSEGV)" in report.names["crashes"].reason
    assert "crash the kernel (SIGABRT)" in report.names["aborts"].reason
    found: dict[str, Any] = {}
    state.load(tmp_path, found, key=key, mode="cold", restore_process_state=False)
    assert found["plain"] == 3
    assert found["crashes"][1] == 1
    assert found["aborts"]["kept"] == 2


@needs_fork
def test_memory_in_a_reduction(tmp_path: Path, key: bytes) -> None:
    def eats(_self: Any) -> Any:
        kept = []
        while True:
            kept.append(bytearray(64 * 1024 * 1024))

    greedy = notebook_class("Greedy", {"__reduce__": eats})
    report = save(tmp_path, {"greedy": [greedy()], "plain": 3}, key)
    assert "too much memory" in report.names["greedy"].reason
    assert report.names["plain"].status == "unverified"


@needs_fork
def test_harmless_reductions_are_tried_and_used(tmp_path: Path, key: bytes) -> None:
    calls: list[int] = []

    def reduce(self: Any) -> Any:
        calls.append(os.getpid())
        return dict, ([("a", 1)],)

    kind = notebook_class("Harmless", {"__reduce__": reduce})
    save(tmp_path, {"it": kind()}, key)
    assert calls == [os.getpid()], "here it ran once, before that in a child"


def test_dill_helps_where_it_can(tmp_path: Path, key: bytes) -> None:
    """A capsule is nothing the first tier can pickle; what dill makes of it is read back first."""
    pytest.importorskip("dill")
    namespace = {"capsule": {"it": datetime.datetime_CAPI, "beside": [1]}}
    report = save(tmp_path, namespace, key, verify="wait")
    assert report.names["capsule"].status == "verified", report.names["capsule"]
    found: dict[str, Any] = {}
    state.load(tmp_path, found, key=key, mode="cold", restore_process_state=False)
    assert type(found["capsule"]["it"]).__name__ == "PyCapsule"
    assert found["capsule"]["beside"] == [1]
    tiers = {record.tier for record in state.inspect(tmp_path, key=key).components}
    assert "dill" in tiers


def test_class_that_cannot_be_made_again(
    tmp_path: Path, key: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs itself and its instances, not the snapshot."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec("class Hopeless: pass\nclass Fine: x = 1\n", scope)
    hopeless = scope["Hopeless"]
    namespace = {"Hopeless": hopeless, "it": hopeless(), "Fine": scope["Fine"], "n": 1}
    real = classes.skeleton

    def fails(key: str, cls: type) -> Any:
        if cls is hopeless:
            raise TypeError("no skeleton")
        return real(key, cls)

    monkeypatch.setattr(classes, "skeleton", fails)
    report = save(tmp_path, namespace, key)
    assert report.names["Fine"].status == "unverified"
    for name in ("Hopeless", "it"):
        assert report.names[name].status == "degraded", report.names[name]
        assert "no skeleton" in report.names[name].reason
    found: dict[str, Any] = {}
    state.load(tmp_path, found, key=key, mode="cold", restore_process_state=False)
    assert found["n"] == 1
    assert found["Fine"].x == 1


def test_too_many_lost_objects_end_as_a_recipe(tmp_path: Path, key: bytes) -> None:
    namespace = {"many": [(n for n in range(3)) for _ in range(30)]}
    report = save(tmp_path, namespace, key)
    assert report.names["many"].status == "skipped"
    assert "more than 20" in report.names["many"].reason
    assert report.names["many"].recipe is not None
    assert report.names["many"].recipe.type == "list"
