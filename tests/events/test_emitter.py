"""Events of compactions: valid, and free of content."""

from __future__ import annotations

import json
import logging
from io import StringIO
from typing import Any

import pytest
from jupyter_events import EventLogger

from prime_ext.events.emitter import SCHEMA_ID, emit_compaction, register_schemas
from prime_ext.session.records import CompactionEnd, CompactionStart, Title

END: dict[str, Any] = {
    "compaction_id": "c1",
    "outcome": "ok",
    "trigger": "threshold",
    "path": "single_pass",
    "tokens_before": 90_000,
    "tokens_after": 9_000,
    "request_tokens": 91_000,
    "wait_ms": 12_500,
    "compaction_count": 3,
    "kernel_state": {
        "status": "current",
        "snapshot_seq": 41,
        "age_s": 0.4,
        "unrestored": 2,
        "names": {"verified": 12, "skipped": ["secret_variable"]},
        "note": "secret",
    },
    "summary": "secret",
    "reason": "secret",
    "usage": {"input_tokens": 1},
}


@pytest.fixture
def sink() -> StringIO:
    return StringIO()


@pytest.fixture
def event_logger(sink: StringIO) -> EventLogger:
    return EventLogger(handlers=[logging.StreamHandler(sink)])


def emitted(sink: StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in sink.getvalue().splitlines()]


def test_start_and_end(event_logger: EventLogger, sink: StringIO) -> None:
    start = CompactionStart(
        compaction_id="c1", trigger="manual", tokens_before=5, instructions="secret"
    )
    emit_compaction(event_logger, "s1", start)
    emit_compaction(event_logger, "s1", CompactionEnd(**END))
    first, last = emitted(sink)
    assert first["__schema__"] == SCHEMA_ID.format("compaction_start")
    assert first["trigger"] == "manual"
    assert (first["session_id"], first["compaction_id"]) == ("s1", "c1")
    assert last["__schema__"] == SCHEMA_ID.format("compaction_end")
    assert last["wait_ms"] == 12_500
    assert last["kernel_state"] == {
        "status": "current",
        "snapshot_seq": 41,
        "age_s": 0.4,
        "unrestored": 2,
        "names": {"verified": 12, "skipped": 1},
    }
    assert "secret" not in sink.getvalue()


@pytest.mark.parametrize("outcome", ["skipped", "cancelled", "failed"])
def test_a_compaction_that_did_not_happen(
    event_logger: EventLogger, sink: StringIO, outcome: str
) -> None:
    end = {**END, "outcome": outcome, "path": None, "kernel_state": {}}
    emit_compaction(event_logger, "s1", CompactionEnd(**end))
    (event,) = emitted(sink)
    assert (event["outcome"], event["path"]) == (outcome, None)


def test_other_records_are_no_events(event_logger: EventLogger, sink: StringIO) -> None:
    emit_compaction(event_logger, "s1", Title(title="x"))
    assert sink.getvalue() == ""


def test_the_schemas_are_versioned_and_say_what_is_personal(event_logger: EventLogger) -> None:
    register_schemas(event_logger)
    register_schemas(event_logger)
    for kind, expected in (
        ("session_start", ["session_id", "notebook"]),
        ("session_activity", ["session_id", "notebook"]),
        ("compaction_start", ["session_id"]),
        ("compaction_end", ["session_id"]),
    ):
        schema = event_logger.schemas.get(SCHEMA_ID.format(kind))
        assert str(schema.version) == "1"
        assert schema._schema["personal-data"] is True
        personal = {
            name: definition["personal-data"]
            for name, definition in schema._schema["properties"].items()
        }
        assert [name for name, flag in personal.items() if flag] == expected
