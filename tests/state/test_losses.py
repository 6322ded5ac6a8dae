"""What was lost stays told: at each later save and load, and of the names that hold it alone."""

from __future__ import annotations

import socket
import warnings
import weakref
from pathlib import Path
from typing import Any

import pytest

from prime_ext import state
from prime_ext.state import components

from .snapshots import load, save

WHY = "socket.socket: a connection ends with the process that opened it"


def test_a_placeholder_is_a_loss_each_time_it_is_saved(tmp_path: Path, key: bytes) -> None:
    with socket.socket() as connection:
        namespace: dict[str, Any] = {
            "holder": {"connection": connection, "kept": [1]},
            "bare": connection,
            "apart": [2],
        }
        report = save(tmp_path, namespace, key)
    for _ in range(3):
        assert report.names["holder"].status == "degraded"
        assert report.names["bare"].status == "degraded"
        assert WHY in report.names["holder"].reason
        assert WHY in report.names["bare"].reason
        assert report.names["apart"].status != "degraded"
        namespace = {}
        report = state.load(tmp_path, namespace, key=key, mode="cold", verify="off")
        assert (report.names["holder"].status, report.names["apart"].status) == (
            "degraded",
            "verified",
        )
        assert namespace["holder"]["kept"] == [1]
        report = save(tmp_path, namespace, key)


def test_placeholders_of_before_do_not_use_up_what_may_be_lost(tmp_path: Path, key: bytes) -> None:
    lost = [state.Unrestorable("m.Thing", "it is gone") for _ in range(50)]
    report = save(tmp_path, {"many": lost, "kept": 1}, key)
    assert report.names["many"].status == "degraded"
    namespace: dict[str, Any] = {}
    state.load(tmp_path, namespace, key=key, mode="cold", verify="off")
    assert len(namespace["many"]) == 50
    assert "m.Thing" in repr(namespace["many"][0])


def test_what_python_notes_of_warnings_is_no_variable(tmp_path: Path, key: bytes) -> None:
    namespace: dict[str, Any] = {"x": 1, "warnings": warnings}
    with pytest.warns(UserWarning, match="look"):
        exec(compile("warnings.warn('look')", "<cell>", "exec"), namespace)
    assert "__warningregistry__" in namespace
    assert "__warningregistry__" not in save(tmp_path, namespace, key).names


def test_of_names_saved_together_those_are_degraded_that_hold_the_placeholder(
    tmp_path: Path, key: bytes
) -> None:
    shared = [1]
    with socket.socket() as connection:
        namespace: dict[str, Any] = {
            "holder": {"shared": shared, "connection": connection},
            "also": [connection],
            "whole": (shared, 2),
        }
        report = save(tmp_path, namespace, key, verify="wait")
    statuses = {name: status.status for name, status in report.names.items()}
    assert statuses == {"holder": "degraded", "also": "degraded", "whole": "verified"}
    assert report.names["whole"].reason == ""
    assert WHY in report.names["also"].reason


def test_what_is_told_of_one_object_is_not_told_of_others_beside_a_class(
    tmp_path: Path, key: bytes
) -> None:
    """Also where the group has classes: what is lost of those concerns who uses them."""
    with socket.socket() as connection:
        namespace: dict[str, Any] = {"__name__": "__main__", "connection": connection}
        exec(
            """
class Connected:
    through = connection
class Plain:
    pass
try:
    1 / 0
except ZeroDivisionError as error:
    failure = error
connected, plain, whole = Connected(), Plain(), [1]
together = dict(globals())
del together["__builtins__"], together["__name__"]
""",
            namespace,
        )
        report = save(tmp_path, namespace, key, verify="wait")
    with_loss = {"connection", "together", "Connected", "connected"}
    assert {n for n, s in report.names.items() if s.status == "degraded"} == with_loss
    for name in ("Plain", "plain", "whole"):
        assert (report.names[name].status, report.names[name].reason) == ("verified", ""), name
    assert report.names["failure"].status == "verified"
    assert report.names["failure"].reason == "the traceback of ZeroDivisionError is not kept"


def test_of_names_that_cannot_be_looked_through_the_group_is_told(
    tmp_path: Path, key: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(components, "_QUICKLY_SEARCHED", 0)
    shared = [1]
    with socket.socket() as connection:
        report = save(tmp_path, {"holder": [shared, connection], "whole": [shared]}, key)
    for name in ("holder", "whole"):
        assert report.names[name].reason == f"in an object that is saved together with it: {WHY}"


def test_a_finalizer_that_will_not_run_is_told(tmp_path: Path, key: bytes) -> None:
    watched: set[int] = set()
    ran: list[int] = []
    finalizer = weakref.finalize(watched, ran.append, 1)
    names = save(tmp_path, {"watched": watched, "finalizer": finalizer}, key).names
    assert "weakref.finalize" in names["finalizer"].reason
    found = load(tmp_path, key)
    assert not found["finalizer"].alive
    assert finalizer.alive
    finalizer()
    assert ran == [1]
    assert save(tmp_path, {"finalizer": finalizer}, key).names["finalizer"].reason == ""
