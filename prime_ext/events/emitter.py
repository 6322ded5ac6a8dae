"""Tells Jupyter's event log of sessions that start, work, wait or rest, and of compactions."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

from prime_ext.session.records import CompactionEnd, CompactionStart

if TYPE_CHECKING:
    from jupyter_events import EventLogger

    from prime_ext.session.records import AnyRecord
    from prime_ext.session.session import Session

SCHEMA_ID = "https://events.jupyter.org/prime_ext/{}/v1"

SESSION_START = "session_start"
SESSION_ACTIVITY = "session_activity"

_START = ("compaction_id", "trigger", "tokens_before")
_END = (
    *_START,
    "outcome",
    "path",
    "tokens_after",
    "request_tokens",
    "wait_ms",
    "compaction_count",
)
_KERNEL_STATE = ("status", "snapshot_seq", "age_s", "unrestored")


def register_schemas(event_logger: EventLogger) -> None:
    """Make the schemas known, once for each event logger."""
    for kind in (SESSION_START, SESSION_ACTIVITY, CompactionStart.kind, CompactionEnd.kind):
        if SCHEMA_ID.format(kind) not in event_logger.schemas.schema_ids:
            with as_file(files("prime_ext.events") / kind / "v1.yaml") as path:
                event_logger.register_event_schema(path)


def emit_session_start(event_logger: EventLogger, session: Session) -> None:
    """Emit the event of a session that somebody has started."""
    data = {"session_id": session.id, "notebook": session.notebook}
    _emit(event_logger, SESSION_START, data)


def emit_session_activity(event_logger: EventLogger, session: Session, activity: str) -> None:
    """Emit the event of a session that is ``idle``, ``working`` or ``waiting`` from now on."""
    data = {"session_id": session.id, "notebook": session.notebook, "activity": activity}
    _emit(event_logger, SESSION_ACTIVITY, data)


def emit_compaction(event_logger: EventLogger, session_id: str, record: AnyRecord) -> None:
    """Emit the event of a ``compaction_start`` or ``compaction_end`` record.

    Other records are passed over. Of the record only figures and fixed words are taken: neither
    the summary nor a reason, which may quote the conversation.
    """
    if isinstance(record, CompactionStart):
        data = _fields(record, _START)
    elif isinstance(record, CompactionEnd):
        data = _fields(record, _END)
        data["kernel_state"] = _kernel_state(record.kernel_state)
    else:
        return
    _emit(event_logger, record.kind, {**data, "session_id": session_id})


def _emit(event_logger: EventLogger, kind: str, data: dict[str, Any]) -> None:
    """Emit an event. That it cannot be, for what others do to events, ends nothing else."""
    try:
        register_schemas(event_logger)
        event_logger.emit(schema_id=SCHEMA_ID.format(kind), data=data)
    except Exception:
        event_logger.log.warning("The event %s could not be emitted", kind, exc_info=True)


def _fields(record: AnyRecord, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _kernel_state(state: dict[str, Any]) -> dict[str, Any]:
    kept = {name: state[name] for name in _KERNEL_STATE if name in state}
    counts = state.get("names")
    if isinstance(counts, dict):
        kept["names"] = {
            status: count if isinstance(count, int) else len(count)
            for status, count in counts.items()
        }
    return kept
