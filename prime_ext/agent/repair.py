"""The records that a crash of the server left missing, computed from the history."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from prime_ext.agent.history import History
from prime_ext.agent.tools.runs import CUT_OFF
from prime_ext.context.projection import LOST_RESULT, open_calls
from prime_ext.session.records import (
    AnyRecord,
    Approval,
    CompactionEnd,
    CompactionStart,
    Prune,
    RunEnd,
    ToolResult,
)


def missing_records(
    history: History,
    context: Sequence[AnyRecord],
    going: ToolResult | None,
    *,
    status: str = "crashed",
    reason: str = "The server stopped before it ended.",
) -> list[AnyRecord]:
    """Return the records to append so that nothing in the log is left open.

    A compaction without an end has failed, and the context is still the one before it; unless its
    ``prune`` was recorded, which makes the context smaller by itself. Every call without a result
    gets an error result, or the API would refuse the next request. A run that
    outlasted its call is recorded as cut off. Then the turn ends. Queued messages stay queued.

    A turn that waits for a person is left open, because the answer resumes it. Approval requests
    outside of a turn are denied; they are made again when needed.

    Parameters
    ----------
    history:
        History that has observed all records.
    context:
        Records from which the context is projected.
    going:
        Latest tool result about a run that has not ended.
    status:
        Status of the turn's end.
    reason:
        Reason why the compaction failed.
    """
    records: list[AnyRecord] = []
    if history.open_compaction is not None:
        count = history.telemetry.compaction_count
        records.append(_end(history.open_compaction, context, count, reason))
    records.extend(
        Approval(call_id=request.call_id, decision="deny")
        for request in history.pending.values()
        if request.turn is None
    )
    if going is not None and going.run is not None:
        records.append(
            RunEnd(
                tool_use_id=going.run,
                content=[{"type": "text", "text": f"The run of your call {going.run} {CUT_OFF}"}],
                is_error=True,
                synthetic=True,
                turn=going.turn,
            )
        )
    turn = history.open_turn
    if turn is not None and turn != history.waiting_turn:
        records.extend(
            ToolResult(
                tool_use_id=call["id"],
                name=call["name"],
                content=[{"type": "text", "text": LOST_RESULT}],
                is_error=True,
                synthetic=True,
                turn=turn,
            )
            for call in open_calls(context)
        )
        records.append(history.spent.turn_end(status, turn))
    return records


def _end(
    start: CompactionStart, context: Sequence[AnyRecord], count: int, reason: str
) -> CompactionEnd:
    """Return the end of a compaction that ``start`` began, before which there were ``count``."""
    failed = CompactionEnd(
        compaction_id=start.compaction_id,
        outcome="failed",
        trigger=start.trigger,
        tokens_before=start.tokens_before,
        tokens_after=start.tokens_before,
        compaction_count=count,
        reason=reason,
        turn=start.turn,
    )
    for record in reversed(context):
        if isinstance(record, Prune) and record.compaction_id == start.compaction_id:
            return msgspec.structs.replace(
                failed,
                outcome="ok",
                path="prune",
                tokens_after=record.tokens_after,
                compaction_count=count + 1,
                reason=None,
            )
    return failed
