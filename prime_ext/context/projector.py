"""Incremental projection of a growing session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from prime_ext.context.projection import (
    Projection,
    last_compaction,
    project,
    project_messages,
    refused_at,
)
from prime_ext.session.records import (
    AnyRecord,
    AssistantMessage,
    CompactionEnd,
    Prune,
    Settings,
    ToolResult,
    UserMessage,
)

_REWRITES = (CompactionEnd, Prune, Settings)
"""Types of records that can change the projection of earlier records."""


class Projector:
    """Computes the same result as ``project``, but only projects newly appended records.

    Unchanged messages are the same objects as in the previous projection.

    Parameters
    ----------
    records:
        Returns a session's records in the form that ``project`` takes. Between two calls, records
        may only have been appended, or the whole list replaced.
    log_path:
        See ``project``.
    """

    def __init__(
        self, records: Callable[[], Sequence[AnyRecord]], log_path: str | None = None
    ) -> None:
        self._records = records
        self._log_path = log_path
        self._projection: Projection | None = None
        self._count = 0
        self._last: AnyRecord | None = None
        self._open: int | None = None
        """Index of the record that began the newest message, whose tool results may follow."""
        self._closed = 0
        """Number of messages before that message."""

    def now(self) -> Projection:
        """Return the projection of the current records."""
        records = self._records()
        if len(records) == self._count and records[-1] is self._last and self._projection:
            return self._projection
        if self._projection is not None and self._goes_on(records):
            grown = project_messages(records[self._open :])
            messages = [*self._projection.messages[: self._closed], *grown]
            self._projection = replace(self._projection, messages=messages)
        else:
            # The list may have been replaced by a shorter one.
            self._open = None
            self._projection = project(records, self._log_path)
        self._remember(records, self._projection)
        return self._projection

    def _goes_on(self, records: Sequence[AnyRecord]) -> bool:
        """Return whether all new records belong to the newest message or come after it."""
        if (
            self._open is None
            or len(records) < self._count
            or records[self._count - 1] is not self._last
        ):
            return False
        calls = {
            block["id"]
            for record in records[self._open :]
            if isinstance(record, AssistantMessage)
            for block in record.content
            if block["type"] == "tool_use"
        }
        return not any(
            isinstance(record, _REWRITES)
            or (isinstance(record, ToolResult) and record.tool_use_id not in calls)
            for record in records[self._count :]
        )

    def _remember(self, records: Sequence[AnyRecord], projection: Projection) -> None:
        looked_at = records[self._open or 0 :]
        compaction = last_compaction(looked_at)
        rewritten = max(compaction.seq if compaction else 0, refused_at(looked_at) or 0)
        self._count, self._last, self._open = len(records), records[-1], None
        for index in range(len(records) - 1, 0, -1):
            record = records[index]
            # Records kept from before a compaction are projected differently from later ones.
            if record.seq <= rewritten:
                return
            if isinstance(record, (UserMessage, AssistantMessage)):
                self._open = index
                behind = project_messages(records[index:])
                self._closed = len(projection.messages) - len(behind)
                return
