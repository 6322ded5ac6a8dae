"""The models that the test API serves, and what each of them accepts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class ModelSpec:
    """One model.

    ``factor`` is how many of its tokens one token of the public tokenizer is worth, which a
    client has to learn.
    """

    id: str
    name: str
    line: str
    created_at: str
    window: int = 1_000_000
    max_output: int = 128_000
    min_cache_tokens: int = 512
    image_token_cap: int = 4_784
    factor: float = 1.62
    thinking_types: tuple[str, ...] = ("adaptive",)
    thinking_default: str = "adaptive"
    display_default: str = "omitted"
    preserved_thinking: bool = False
    forced_tools: bool = True
    clears_tool_uses: bool = True
    compacts: bool = True
    """It compacts on demand."""
    lifecycle: str = "active"

    def with_window(self, window: int, max_output: int | None = None) -> ModelSpec:
        return replace(self, window=window, max_output=max_output or self.max_output)

    def info(self, *, compaction_beta: bool = False) -> dict[str, Any]:
        """What ``GET /v1/models/{id}`` answers; ``compaction`` only to who knows the beta."""

        def support(supported: bool) -> dict[str, bool]:
            return {"supported": supported}

        levels = ("low", "medium", "high", "xhigh", "max")
        return {
            "type": "model",
            "id": self.id,
            "display_name": self.name,
            "created_at": self.created_at,
            "line": self.line,
            "lifecycle": self.lifecycle,
            "deprecated_at": None,
            "retires_at": None,
            "max_input_tokens": self.window,
            "max_tokens": self.max_output,
            "capabilities": {
                **(
                    {"compaction": {**support(self.compacts), "summarize": support(self.compacts)}}
                    if compaction_beta
                    else {}
                ),
                "batch": support(True),
                "citations": support(True),
                "code_execution": support(True),
                "context_management": {
                    "supported": True,
                    "clear_thinking_20251015": support(True),
                    "clear_tool_uses_20250919": support(self.clears_tool_uses),
                    "compact_20260112": support(True),
                },
                "effort": {"supported": True, **{level: support(True) for level in levels}},
                "image_input": support(True),
                "pdf_input": support(True),
                "server_tools": {
                    "supported": True,
                    "code_execution": support(True),
                    "web_search": support(True),
                },
                "structured_outputs": support(True),
                "thinking": {
                    "supported": True,
                    "types": {
                        kind: support(kind in self.thinking_types)
                        for kind in ("adaptive", "between_tools", "disabled", "enabled")
                    },
                },
            },
        }


MODELS = (
    ModelSpec(
        "claude-opus-5-5",
        "Claude Opus 5.5",
        "opus",
        "2026-09-22T00:00:00Z",
        preserved_thinking=True,
        forced_tools=False,
    ),
    ModelSpec(
        "claude-sonnet-5-5",
        "Claude Sonnet 5.5",
        "sonnet",
        "2026-09-28T00:00:00Z",
        thinking_types=("adaptive", "between_tools"),
        preserved_thinking=True,
        forced_tools=False,
    ),
    ModelSpec(
        "claude-sonnet-5",
        "Claude Sonnet 5",
        "sonnet",
        "2026-06-30T00:00:00Z",
        min_cache_tokens=1_024,
        thinking_types=("adaptive", "disabled"),
    ),
    ModelSpec(
        "claude-opus-4-6",
        "Claude Opus 4.6",
        "opus",
        "2026-02-05T00:00:00Z",
        min_cache_tokens=4_096,
        image_token_cap=1_568,
        factor=1.31,
        thinking_types=("adaptive", "disabled"),
        thinking_default="disabled",
        display_default="summarized",
    ),
    ModelSpec(
        "claude-opus-4-5",
        "Claude Opus 4.5",
        "opus",
        "2025-11-24T00:00:00Z",
        window=200_000,
        max_output=64_000,
        min_cache_tokens=4_096,
        image_token_cap=1_568,
        factor=1.28,
        thinking_types=("disabled", "enabled"),
        thinking_default="disabled",
        display_default="summarized",
        compacts=False,
    ),
    ModelSpec(
        "claude-sonnet-4-6",
        "Claude Sonnet 4.6",
        "sonnet",
        "2026-02-17T00:00:00Z",
        max_output=64_000,
        min_cache_tokens=1_024,
        image_token_cap=1_568,
        factor=1.31,
        thinking_types=("adaptive", "disabled", "enabled"),
        thinking_default="disabled",
        display_default="summarized",
    ),
    ModelSpec(
        "claude-haiku-4-5",
        "Claude Haiku 4.5",
        "haiku",
        "2025-10-15T00:00:00Z",
        window=200_000,
        max_output=64_000,
        min_cache_tokens=4_096,
        image_token_cap=1_568,
        factor=1.28,
        thinking_types=("disabled", "enabled"),
        thinking_default="disabled",
        display_default="summarized",
        compacts=False,
    ),
    ModelSpec(
        "claude-sonnet-3-9",
        "A model that is gone",
        "sonnet",
        "2027-01-01T00:00:00Z",
        lifecycle="retired",
    ),
)
