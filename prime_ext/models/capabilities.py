"""Capabilities of each model: the Models API's answer, completed from a table.

Sources: the public model overview, pricing, prompt caching and thinking pages of the Claude
documentation (November 2026).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from prime_ext.models.model import Capabilities, Price

CACHE_WRITE_5M, CACHE_WRITE_1H = 1.25, 2.0
"""Multiples of the price of input."""


def _price(input_: float, output: float, cache_read: float = 0.1) -> Price:
    return Price(
        input=input_,
        output=output,
        cache_read=input_ * cache_read,
        cache_write_5m=input_ * CACHE_WRITE_5M,
        cache_write_1h=input_ * CACHE_WRITE_1H,
    )


HAIKU_5_5 = replace(_price(0.1, 0.5), long_prompt=_price(0.5, 2.5), long_prompt_tokens=100_000)


@dataclass(frozen=True)
class _Generation:
    """The models of one line from version ``since`` up to the next generation in the table."""

    line: str
    since: tuple[int, int]
    capabilities: Capabilities


def _claude(
    price: Price | None,
    *,
    min_cache: int,
    types: tuple[str, ...],
    window: int = 1_000_000,
    max_output: int = 128_000,
    preserved: bool = False,
    large_images: bool = True,
) -> Capabilities:
    return Capabilities(
        window=window,
        max_output=max_output,
        min_cache_tokens=min_cache,
        thinking=True,
        thinking_types=types,
        preserved_thinking=preserved,
        stops_at_window=True,
        image_token_cap=4_784 if large_images else 1_568,
        price=price,
    )


ALWAYS = ("adaptive",)
OPTIONAL = ("adaptive", "disabled")
MANUAL = ("disabled", "enabled")

# Newest first within a line: a model belongs to the first generation that is not newer than itself,
# so a model released later is treated like the newest known one.
GENERATIONS = (
    _Generation(
        "fable",
        (5, 2),
        _claude(_price(8, 40, 0.025), min_cache=512, types=ALWAYS, preserved=True),
    ),
    _Generation(
        "fable",
        (5, 1),
        _claude(_price(10, 50, 0.025), min_cache=512, types=ALWAYS, preserved=True),
    ),
    _Generation("fable", (5, 0), _claude(_price(10, 50), min_cache=512, types=ALWAYS)),
    _Generation("mythos", (5, 1), _claude(None, min_cache=512, types=ALWAYS, preserved=True)),
    _Generation("mythos", (5, 0), _claude(None, min_cache=512, types=ALWAYS)),
    _Generation(
        "opus",
        (5, 5),
        _claude(_price(4, 20, 0.05), min_cache=512, types=ALWAYS, preserved=True),
    ),
    _Generation("opus", (5, 0), _claude(_price(5, 25), min_cache=512, types=OPTIONAL)),
    _Generation("opus", (4, 8), _claude(_price(5, 25), min_cache=1_024, types=OPTIONAL)),
    _Generation("opus", (4, 7), _claude(_price(5, 25), min_cache=2_048, types=OPTIONAL)),
    _Generation(
        "opus",
        (4, 6),
        _claude(_price(5, 25), min_cache=4_096, types=OPTIONAL, large_images=False),
    ),
    _Generation(
        "opus",
        (4, 5),
        _claude(
            _price(5, 25),
            min_cache=4_096,
            types=MANUAL,
            window=200_000,
            max_output=64_000,
            large_images=False,
        ),
    ),
    _Generation(
        "sonnet",
        (5, 5),
        _claude(
            _price(2, 10, 0.05),
            min_cache=512,
            types=("adaptive", "between_tools"),
            preserved=True,
        ),
    ),
    _Generation("sonnet", (5, 0), _claude(_price(2, 10), min_cache=1_024, types=OPTIONAL)),
    _Generation(
        "sonnet",
        (4, 6),
        _claude(
            _price(3, 15), min_cache=1_024, types=OPTIONAL, max_output=64_000, large_images=False
        ),
    ),
    _Generation(
        "sonnet",
        (4, 5),
        _claude(
            _price(3, 15),
            min_cache=1_024,
            types=MANUAL,
            window=200_000,
            max_output=64_000,
            large_images=False,
        ),
    ),
    _Generation("haiku", (5, 5), _claude(HAIKU_5_5, min_cache=512, types=ALWAYS, preserved=True)),
    _Generation(
        "haiku",
        (4, 5),
        _claude(
            _price(1, 5),
            min_cache=4_096,
            types=MANUAL,
            window=200_000,
            max_output=64_000,
            large_images=False,
        ),
    ),
)

UNKNOWN = Capabilities(
    window=128_000, max_output=8_192, min_cache_tokens=1_024, images=False, image_token_cap=1_568
)
"""Assumed for a model that is not a Claude model, or whose line is not in the table."""

CLAUDE_ID = re.compile(r"claude-(?P<line>[a-z]+)-(?P<major>\d{1,2})(?:-(?P<minor>\d{1,2}))?(?!\d)")


def known_capabilities(model: str) -> Capabilities:
    """Return the capabilities from the table for a model id, in the spelling of any provider."""
    match = CLAUDE_ID.search(model)
    if match is None:
        return UNKNOWN
    version = (int(match["major"]), int(match["minor"] or 0))
    generations = [g for g in GENERATIONS if g.line == match["line"]]
    if not generations:
        return replace(UNKNOWN, images=True)
    for generation in generations:
        if version >= generation.since:
            return generation.capabilities
    # Older models are not listed; they refuse a request that does not fit into the window.
    return replace(generations[-1].capabilities, stops_at_window=False)


def reported_capabilities(model: str, info: Any) -> Capabilities:
    """Combine the Models API's answer for ``model`` with the table.

    Parameters
    ----------
    info:
        The SDK's ``ModelInfo``. Other servers may omit fields or add their own.
    """
    known = known_capabilities(model)
    window = _positive(getattr(info, "max_input_tokens", None))
    max_output = _positive(getattr(info, "max_tokens", None))
    reported = getattr(info, "capabilities", None)
    images = _supported(getattr(reported, "image_input", None))
    thinking = getattr(reported, "thinking", None)
    types = getattr(thinking, "types", None)
    accepted = tuple(
        kind
        for kind in ("adaptive", "between_tools", "disabled", "enabled")
        if _supported(getattr(types, kind, None))
    )
    thinks = _supported(thinking)
    return replace(
        known,
        window=window if isinstance(window, int) and window > 0 else known.window,
        max_output=max_output
        if isinstance(max_output, int) and max_output > 0
        else known.max_output,
        images=known.images if images is None else images,
        thinking=known.thinking if thinks is None else thinks,
        thinking_types=known.thinking_types if thinks is None else accepted,
    )


def _supported(capability: Any) -> bool | None:
    """Whether a capability is supported; ``None`` if the server does not say."""
    supported = getattr(capability, "supported", None)
    return supported if isinstance(supported, bool) else None


def _positive(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
