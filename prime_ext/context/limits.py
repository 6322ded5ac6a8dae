"""The numbers a context is kept within, resolved from configuration and the model's window."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_THRESHOLD = 300_000
RESERVE_TOKENS = 20_000
"""Kept free below the window for what a turn adds between two measurements."""

SUMMARY_TOKENS = 8_000
"""Tokens that a summary may have, at most."""
LEDGER_TOKENS = 5_000
"""Tokens of the ledger that a summary turn shows, at most."""

LAST_MESSAGE_TOKENS = 2_000
"""Tokens of the user's last message in a summary turn, at most."""

HINT_TOKENS = 1_500
"""Tokens of the live variables and the hints in a summary turn, as a rule."""

SUMMARY_SHARE, LEDGER_SHARE, HINT_SHARE = 0.45, 0.15, 0.1
"""Of what is left under the landing beside system prompt and tools; the tail has the rest."""
SHORTEST_SUMMARY = 512


@dataclass(frozen=True)
class Limits:
    """All in tokens."""

    threshold: int
    """Size at which the context is compacted."""
    prefire_at: int
    """Size at which a note is made ahead."""
    prefix_share: float
    """Share of the context that the first note covers."""
    landing: int
    """A compaction must land under it."""
    keep_tail: int
    """Newest messages kept verbatim behind a summary, at most."""
    tool_result_cap: int
    max_output: int
    window: int
    """What the model takes at most."""
    min_cache_tokens: int = 0
    """The shortest beginning of a request that the prompt cache takes."""

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
        """Fill in what configuration leaves at 0.

        A configured threshold is used as it is, but never above what the window can take:
        beyond it every request would fail.
        """
        # A small model may count its output into its window.
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
        """What a summary may have, beside ``overhead`` tokens of system prompt and tools."""
        share = int((self.landing - overhead) * SUMMARY_SHARE)
        return max(SHORTEST_SUMMARY, min(SUMMARY_TOKENS, share, self.max_output))

    def ledger_tokens(self, overhead: int) -> int:
        """What the ledger may have in a summary turn."""
        return max(0, min(LEDGER_TOKENS, int((self.landing - overhead) * LEDGER_SHARE)))

    def last_message_tokens(self, overhead: int) -> int:
        """What the user's last message may have in a summary turn; the record has the rest."""
        share = int((self.landing - overhead) * LEDGER_SHARE)
        return max(SHORTEST_SUMMARY // 4, min(LAST_MESSAGE_TOKENS, share))

    def added_tokens(self, overhead: int) -> int:
        """What code adds to a summary: the ledger, the live variables, the hints."""
        hints = min(HINT_TOKENS, int((self.landing - overhead) * HINT_SHARE))
        return self.ledger_tokens(overhead) + max(0, hints)
