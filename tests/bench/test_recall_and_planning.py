"""The benchmarks of recall and of planning run, on small sessions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import planning, recall, report


def test_recall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    small = {
        "MODEL": "claude-sonnet-4-6",
        "WINDOW": 80_000,
        "COMPACTIONS": 2,
        "FACTS_OF_A_PLACE": 2,
        "FILLER_TOKENS": 600,
        "LOG_BYTES": 300_000,
    }
    for name, value in small.items():
        monkeypatch.setattr(recall, name, value)
    recall.main([])
    results = json.loads((tmp_path / "recall.json").read_text("utf-8"))
    found = {measure["name"]: measure["value"] for measure in results["measures"]}
    assert found["compactions"] >= 2
    assert found["facts"] == 10
    assert found["found by session_search"] == 100, results["lost"]
    # Nobody but code can have kept them: the model's summary says nothing of them.
    assert found["in the summary turn: file edit"] == 100, results["lost"]


def test_a_long_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "LONG_RECORDS", 300)
    monkeypatch.setattr(planning, "COMPACT_EVERY", 100)
    found = {measure.name: measure.value for measure in planning.long_session()}
    assert found["300 records: opening the log"] > 0
    assert found["300 records: projecting it"] < found["300 records: the search index, rebuilt"]


def test_planning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "RECORDS", 60)
    monkeypatch.setattr(planning, "REQUESTS", 14)
    measures = planning.measures()
    milliseconds = {measure.name: measure.value for measure in measures}
    for where in ("far from the threshold", "a note is ready"):
        parts = [milliseconds[f"{where}: {part}"] for part in planning.PLANNING]
        assert milliseconds[f"{where}: planning altogether"] == pytest.approx(sum(parts), rel=0.5)
        assert milliseconds[f"{where}: building the request, cache marks"] > 0
        assert milliseconds[f"{where}: from a reply to the next request"] > sum(parts) / 2
