"""What was lost stays told: at each later save and load, and of the names that hold it alone."""

from __future__ import annotations

import socket
import warnings
from pathlib import Path
from typing import Any

import pytest

from prime_ext import state

from .snapshots import save

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
