"""The tool with which the model requests a compaction."""

from __future__ import annotations

from typing import Any

from prime_ext.agent.tools.tool import Tool, ToolContext, ToolOutcome


async def _compact(_context: ToolContext, _arguments: dict[str, Any]) -> ToolOutcome:
    # The turn compacts after the results of this reply have been recorded: the context cannot be
    # replaced while one of its tool calls has no result.
    return ToolOutcome.text(
        "Asked for. If a summary is shorter than what has been said, it begins the conversation "
        "from here on; otherwise all stays as it is. Go on with the work either way."
    )


COMPACT_CONTEXT = "compact_context"

TOOLS = [
    Tool(
        name=COMPACT_CONTEXT,
        description=(
            "Replace the conversation so far by a summary, when a piece of work is done and its "
            "details are no longer needed. The raw records stay searchable and the kernel's "
            "variables are saved. The server does this by itself before the context is full."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "instructions": {
                    "type": "string",
                    "description": "What the summary must keep in detail.",
                }
            },
            "additionalProperties": False,
        },
        approval="read",
        handler=_compact,
        summary=lambda _input: "Compact the conversation",
    )
]
