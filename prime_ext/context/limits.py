"""Size limits of the context, resolved from the configuration and the model's context window."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_THRESHOLD = 300_000
RESERVE_TOKENS = 20_000
"""Tokens kept free below the window for what a turn adds between two measurements."""

SUMMARY_TOKENS = 8_000
"""Maximum size of a summary."""
LEDGER_TOKENS = 5_000
"""Maximum size of the ledger in a summary turn."""

LAST_MESSAGE_TOKENS = 2_000
"""Maximum size of the user's last message in a summary turn."""

HINT_TOKENS = 1_500
"""Typical size of the live variables and the hints in a summary turn."""

SUMMARY_SHARE, LEDGER_SHARE, HINT_SHARE = 0.45, 0.15, 0.1
"""Shares of the room below ``Limits.landing`` that system prompt and tools leave. The verbatim
tail gets the rest."""
SHORTEST_SUMMARY = 512
"""Minimum size of a summary, whatever the shares give."""


@dataclass(frozen=True)
class Limits:
    """Resolved size limits, in tokens unless stated otherwise."""

    threshold: int
    """Size at which the context is compacted."""
    prefire_at: int
    """Size at which a note is started in the background."""
    prefix_share: float
    """Share of the context that the first note covers."""
    landing: int
    """Size below which the context must be after a compaction."""
    keep_tail: int
    """Maximum size of the newest messages that are kept verbatim after a summary."""
    tool_result_cap: int
    """Maximum size of one tool result in the context."""
    max_output: int
    """Maximum size of one reply."""
    window: int
    """The model's context window."""
    min_cache_tokens: int = 0
    """Shortest request prefix that the prompt cache stores."""

    @classmethod
    def resolve(
        cls,
        *,
        window: int,
        max_output: int,
        max_context_tokens: int = 0,
        prefire_margin_tokens: int = 0,
        prefix_share: float = 0.95,
        keep_tail_tokens: int = 0,
        tool_result_cap_tokens: int = 0,
        landing_share: float = 0.5,
        min_cache_tokens: int = 0,
    ) -> Limits:
        """Compute the limits, with defaults for settings that are 0.

        A configured threshold is used as it is, but lowered to what the window can hold: above
        that, every request would fail.
        """
        # Models with a small window may report a maximum output as large as the window itself.
        ceiling = max(window - max_output, window // 2)
        if max_context_tokens:
            threshold = min(max_context_tokens, ceiling)
        else:
            threshold = min(DEFAULT_THRESHOLD, max(ceiling - RESERVE_TOKENS, ceiling // 2))
        return cls(
            threshold=threshold,
            prefire_at=max(1, threshold - (prefire_margin_tokens or threshold // 10)),
            prefix_share=prefix_share,
            landing=int(threshold * landing_share),
            keep_tail=keep_tail_tokens or min(16_000, threshold // 5),
            tool_result_cap=tool_result_cap_tokens or min(10_000, threshold // 20),
            max_output=max_output,
            window=window,
            min_cache_tokens=min_cache_tokens,
        )

    def summary_tokens(self, overhead: int) -> int:
        """Return the maximum size of a summary.

        ``overhead`` is the size of system prompt and tools, here and in the methods below.
        """
        share = int((self.landing - overhead) * SUMMARY_SHARE)
        return max(SHORTEST_SUMMARY, min(SUMMARY_TOKENS, share, self.max_output))

    def ledger_tokens(self, overhead: int) -> int:
        """Return the maximum size of the ledger in a summary turn."""
        return max(0, min(LEDGER_TOKENS, int((self.landing - overhead) * LEDGER_SHARE)))

    def last_message_tokens(self, overhead: int) -> int:
        """Return the maximum size of the user's last message in a summary turn."""
        share = int((self.landing - overhead) * LEDGER_SHARE)
        return max(SHORTEST_SUMMARY // 4, min(LAST_MESSAGE_TOKENS, share))

    def added_tokens(self, overhead: int) -> int:
        """Return the expected size of what code adds to a summary: ledger, variables and hints."""
        hints = min(HINT_TOKENS, int((self.landing - overhead) * HINT_SHARE))
        return self.ledger_tokens(overhead) + max(0, hints)
