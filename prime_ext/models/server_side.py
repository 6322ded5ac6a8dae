"""What a model's server can do to a context by itself, and how it is asked for it.

Context editing: a request says which old tool results the model shall not read. Compaction on
demand: a request is answered with a signed block that stands for its messages from then on. Both
are betas of the Messages API; the Models API says which model has them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from prime_ext.models.model import ModelRequest, ServerSide

EDITING_BETA = "context-management-2025-06-27"
COMPACTION_BETA = "compact-2026-09-04"

COUNTED = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
)


def needed_betas(request: ModelRequest) -> list[str]:
    """The beta headers of a request; none, and it is one as any server takes it."""
    betas = []
    if request.edits:
        betas.append(EDITING_BETA)
    # A block that was made earlier needs it as well, in every request that carries it.
    if request.compaction is not None or _carries_block(request.messages):
        betas.append(COMPACTION_BETA)
    return betas


def needed_fields(request: ModelRequest) -> dict[str, Any]:
    """What of a request only the beta API knows. One excludes the other there."""
    if request.compaction is not None:
        return {"compaction": {"type": "summarize", "instructions": request.compaction}}
    return {"context_management": {"edits": request.edits}} if request.edits else {}


def offered(info: Any) -> ServerSide:
    """What the beta Models API answers. ``info`` is the SDK's ``BetaModelInfo``."""
    reported = getattr(info, "capabilities", None)
    editing = getattr(reported, "context_management", None)
    compaction = getattr(reported, "compaction", None)
    return ServerSide(
        clears_tool_uses=_supported(getattr(editing, "clear_tool_uses_20250919", None)),
        compacts=_supported(getattr(compaction, "summarize", None)),
    )


def with_compaction(usage: dict[str, Any]) -> dict[str, Any]:
    """``usage`` with what a compaction took, which the API reports beside the sums, not in them."""
    entries = [
        entry
        for entry in usage.get("iterations") or ()
        if isinstance(entry, dict) and entry.get("type") == "compaction"
    ]
    if not entries:
        return usage
    total = {key: value for key, value in usage.items() if key != "iterations"}
    for key in COUNTED:
        total[key] = _sum([usage.get(key), *(entry.get(key) for entry in entries)])
    made = [usage.get("cache_creation"), *(entry.get("cache_creation") for entry in entries)]
    created = [by_ttl for by_ttl in made if isinstance(by_ttl, dict)]
    if created:
        keys = dict.fromkeys(key for by_ttl in created for key in by_ttl)
        total["cache_creation"] = {k: _sum(by_ttl.get(k) for by_ttl in created) for k in keys}
    return total


def _sum(values: Iterable[Any]) -> int:
    return sum(value for value in values if isinstance(value, int))


def _carries_block(messages: list[dict[str, Any]]) -> bool:
    content = messages[0]["content"] if messages else ()
    return any(block["type"] == "compaction" for block in content)


def _supported(capability: Any) -> bool:
    return getattr(capability, "supported", None) is True
