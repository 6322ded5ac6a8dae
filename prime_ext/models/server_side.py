"""Context management on the model's server, and the request fields that ask for it.

Context editing: a request specifies which old tool results the server removes before the model
reads the messages. Compaction on demand: the server answers a request with a signed block that
replaces the messages in later requests. Both are beta features of the Messages API; the Models API
reports which models support them.
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
    """Return the beta headers of a request; without any, the request uses the stable API only."""
    betas = []
    if request.edits:
        betas.append(EDITING_BETA)
    # Every later request that carries a compaction block needs the header as well.
    if request.compaction is not None or _carries_block(request.messages):
        betas.append(COMPACTION_BETA)
    return betas


def needed_fields(request: ModelRequest) -> dict[str, Any]:
    """Return the fields that only the beta API knows; it does not accept both in one request."""
    if request.compaction is not None:
        return {"compaction": {"type": "summarize", "instructions": request.compaction}}
    return {"context_management": {"edits": request.edits}} if request.edits else {}


def offered(info: Any) -> ServerSide:
    """Read what a model supports from the SDK's ``BetaModelInfo``."""
    reported = getattr(info, "capabilities", None)
    editing = getattr(reported, "context_management", None)
    compaction = getattr(reported, "compaction", None)
    return ServerSide(
        clears_tool_uses=_supported(getattr(editing, "clear_tool_uses_20250919", None)),
        compacts=_supported(getattr(compaction, "summarize", None)),
    )


def with_compaction(usage: dict[str, Any]) -> dict[str, Any]:
    """Add the tokens of a compaction to ``usage``: the API reports them outside its sums."""
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
