"""Token counts: a raw count, and an estimate anchored on the usage that the API reports.

The raw count uses the public ``cl100k_base`` tokenizer. Claude's tokenizers count more, by a ratio
that depends on the model and on the kind of text; ``UsageEstimator`` learns this ratio from
reported usage. The tokenizer's data is part of the package and is loaded on first use.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from prime_ext.context.image_limits import decoded_size

if TYPE_CHECKING:
    import tiktoken

BPE_FILE = "cl100k_base.tiktoken"
BPE_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
SPLIT_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)

IMAGE_TOKEN_CAP = 4_784
"""Maximum tokens of one image on the newest models; older models scale images to 1,568."""
IMAGE_PATCH = 28
"""Edge length, in pixels, of the square that one image token covers."""

MESSAGE_TOKENS = 4
"""Approximate overhead of a message, or of a tool call or result, in tokens."""

BYTES_PER_TOKEN = 3
"""Fallback without the tokenizer. Deliberately low: overestimating only compacts earlier."""

BASE64_CHARS_PER_TOKEN = 1.4
BASE64_RUN = re.compile(
    r"[A-Za-z0-9+/_-]{256,}={0,2}"
    r"|(?:[A-Za-z0-9+/]{76}\r?\n){4,}[A-Za-z0-9+/]*={0,2}"
    r"|(?:[A-Za-z0-9+/]{64}\r?\n){4,}[A-Za-z0-9+/]*={0,2}"
)
BASE64_VARIETY = 40
"""Minimum number of distinct characters for a run to count as base64. Hexadecimal digits,
separator lines and DNA sequences have fewer."""

CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff]")

_load_lock = threading.Lock()


async def load() -> bool:
    """Load the tokenizer in a thread; return ``False`` if sizes are estimated from bytes instead.

    Without this call the first count loads the tokenizer, which blocks its thread for about
    0.15 s.
    """
    if not _loaded.cache_info().currsize:
        await asyncio.to_thread(_tokenizer)
    return _tokenizer() is not None


def _tokenizer() -> tiktoken.Encoding | None:
    # The lock keeps two threads from building the tokenizer at the same time.
    with _load_lock:
        return _loaded()


@cache
def _loaded() -> tiktoken.Encoding | None:
    try:
        return _build()
    except (ImportError, OSError, ValueError):
        # No wheel for this platform, or a damaged installation.
        return None


def _build() -> tiktoken.Encoding:
    data = resources.files("prime_ext.data").joinpath(BPE_FILE).read_bytes()
    if hashlib.sha256(data).hexdigest() != BPE_SHA256:
        raise ValueError(f"{BPE_FILE} is damaged")
    import tiktoken

    ranks = {
        base64.b64decode(token): int(rank)
        for token, rank in (line.split() for line in data.splitlines())
    }
    return tiktoken.Encoding(
        "cl100k_base", pat_str=SPLIT_PATTERN, mergeable_ranks=ranks, special_tokens={}
    )


class Size(NamedTuple):
    """Raw size of a part of the context.

    ``text`` is in tokens of the raw tokenizer and must be multiplied by the model's ratio;
    ``images`` is already in the model's own tokens.
    """

    text: int
    images: int = 0

    @property
    def raw(self) -> int:
        return self.text + self.images

    def plus(self, other: Size) -> Size:
        return Size(self.text + other.text, self.images + other.images)

    def minus(self, other: Size) -> Size:
        return Size(self.text - other.text, self.images - other.images)


NOTHING = Size(0)


def count_text(text: str) -> int:
    """Return the raw tokens of ``text``, which may hold lone surrogates and special tokens."""
    if not text:
        return 0
    if len(text) < 512:
        return _count_plain(text)
    # Keyed by hash, so that the cache does not keep long outputs alive.
    key = (hash(text), len(text))
    known = _counts.get(key)
    if known is None:
        known = _count_long(text)
        if len(_counts) >= _COUNTS_KEPT:
            _counts.clear()
        _counts[key] = known
    return known


_COUNTS_KEPT = 20_000
_counts: dict[tuple[int, int], int] = {}


def _count_long(text: str) -> int:
    total = 0
    end = 0
    for run in BASE64_RUN.finditer(text):
        if len(set(run.group())) < BASE64_VARIETY:
            continue
        total += _count_plain(text[end : run.start()])
        total += round(len(run.group()) / BASE64_CHARS_PER_TOKEN)
        end = run.end()
    return total + _count_plain(text[end:])


def _count_plain(text: str) -> int:
    if not text:
        return 0
    tokenizer = _tokenizer()
    if tokenizer is None:
        tokens = -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)
    else:
        tokens = len(tokenizer.encode_ordinary(text))
    if text.isascii():
        return tokens
    # This tokenizer has single tokens for frequent Chinese, Japanese and Korean words, which
    # Claude's tokenizers have not.
    return max(tokens, len(CJK.findall(text)))


def image_tokens(width: int, height: int, cap: int = IMAGE_TOKEN_CAP) -> int:
    """Return the tokens of an image of ``width`` × ``height`` pixels, at most ``cap``.

    The API scales larger images down.
    """
    return min(-(-width // IMAGE_PATCH) * -(-height // IMAGE_PATCH), cap)


def measure_block(block: Mapping[str, Any], image_cap: int = IMAGE_TOKEN_CAP) -> Size:
    """Return the size of one content block, without its ``cache_control``."""
    kind = block.get("type")
    if kind == "text":
        return Size(count_text(str(block.get("text", ""))))
    if kind == "image":
        return Size(0, _image(block, image_cap))
    if kind == "compaction":
        return Size(count_text(str(block.get("content") or "")))
    if kind == "thinking":
        # The model does not read the signature. It does read thinking whose text the API omitted,
        # and the length of the signature is all that tells its size.
        text = str(block.get("thinking", ""))
        return Size(count_text(text) if text else len(str(block.get("signature", ""))) // 8)
    if kind == "redacted_thinking":
        return Size(len(str(block.get("data", ""))) // 8)
    if kind == "tool_use":
        arguments = json.dumps(block.get("input", {}), ensure_ascii=False)
        return Size(count_text(str(block.get("name", ""))) + count_text(arguments) + MESSAGE_TOKENS)
    if kind == "tool_result":
        content = block.get("content", "")
        return _measure_content(content, image_cap).plus(Size(MESSAGE_TOKENS))
    shown = {key: value for key, value in block.items() if key != "cache_control"}
    return Size(count_text(json.dumps(shown, ensure_ascii=False)))


def _measure_content(content: object, image_cap: int) -> Size:
    if isinstance(content, str):
        return Size(count_text(content))
    total = NOTHING
    if isinstance(content, Sequence):
        for block in content:
            total = total.plus(measure_block(block, image_cap))
    return total


def measure_message(message: Mapping[str, Any], image_cap: int = IMAGE_TOKEN_CAP) -> Size:
    """Return the size of one message, ``{"role": …, "content": …}``."""
    return _measure_content(message.get("content", ""), image_cap).plus(Size(MESSAGE_TOKENS))


def measure_request(
    system: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    messages: Iterable[Mapping[str, Any]],
    image_cap: int = IMAGE_TOKEN_CAP,
) -> Size:
    """Return the size of a request: system prompt, tools and messages."""
    total = NOTHING
    for block in system:
        total = total.plus(measure_block(block, image_cap))
    for tool in tools:
        shown = {key: value for key, value in tool.items() if key != "cache_control"}
        total = total.plus(Size(count_text(json.dumps(shown, ensure_ascii=False))))
    for message in messages:
        total = total.plus(measure_message(message, image_cap))
    return total


def _image(block: Mapping[str, Any], cap: int) -> int:
    source = block.get("source") or {}
    if source.get("type") != "base64":
        return cap
    size = decoded_size(str(source.get("data", "")))
    return image_tokens(*size, cap) if size else cap


LEARNING_RATE = 0.2
RATIO_MIN, RATIO_MAX = 0.7, 2.5
RATIO_SEED_OLD, RATIO_SEED_NEW = 1.3, 1.6
NEW_TOKENIZER = (4, 7)
"""First Claude version with the newer tokenizer, which counts more tokens."""
SMALLEST_LESSON = 200
"""Minimum growth, in raw tokens, from which the ratio is learned. In smaller differences message
overhead and rounding dominate."""
SMALLEST_OUTPUT_SHARE = 0.3
"""A reported output below this share of the reply's raw count is not believed."""


def context_tokens(usage: Mapping[str, Any]) -> int | None:
    """Return the size of the request that ``usage`` reports; ``None`` if ``usage`` lacks it.

    Tokens read from and written to the prompt cache are included.
    """
    parts = [
        usage.get(key)
        for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    ]
    if parts[0] is None:
        return None
    return sum(part or 0 for part in parts)


def seed_ratio(model: str) -> float:
    """Return the initial ratio for a Claude model, by the version in its id."""
    version = re.search(r"claude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?!\d)", model)
    if version is None:
        return RATIO_SEED_OLD
    found = (int(version[1]), int(version[2] or 0))
    return RATIO_SEED_NEW if found >= NEW_TOKENIZER else RATIO_SEED_OLD


@dataclass
class UsageEstimator:
    """Estimates the size of the next request from reported usage.

    The estimate is the last reported size (the anchor) plus the raw size of what was added since,
    multiplied by the ratio. Call :meth:`observe` with each reply's usage and the size of its
    request, and :meth:`drop_anchor` whenever the context is rewritten. An estimator belongs to one
    model in one session and is deterministic.
    """

    ratio: float
    """The model's tokens for each raw token of text."""
    anchor_tokens: int | None = None
    """Reported tokens of the last request and its reply; ``None`` before the first report."""
    anchor_size: Size = NOTHING
    """Raw size of the same request and reply."""

    @classmethod
    def for_model(cls, model: str) -> UsageEstimator:
        return cls(seed_ratio(model))

    @property
    def anchored(self) -> bool:
        """Whether the estimate is based on reported usage."""
        return self.anchor_tokens is not None

    def estimate(self, size: Size) -> int:
        """Return the estimated tokens of a request of raw size ``size``, as the model counts."""
        delta = size.minus(self.anchor_size)
        return max(0, (self.anchor_tokens or 0) + self._scaled(delta))

    def observe(self, usage: Mapping[str, Any], size: Size, reply: Size | None = None) -> None:
        """Move the anchor and adjust the ratio after a reply.

        Parameters
        ----------
        usage:
            Usage as reported with the reply. Ignored if it has no input tokens.
        size:
            Raw size of the request, without the reply.
        reply:
            Raw size of the reply, if it will be part of the next request. Its reported output
            tokens are then added to the anchor, which is four times as exact as counting the reply
            and also covers thinking whose text the API omitted.
        """
        tokens = context_tokens(usage)
        if tokens is None:
            return
        delta = size.minus(self.anchor_size)
        # Only differences are used: a whole request has overhead that the raw count lacks.
        if self.anchor_tokens is not None and delta.text >= SMALLEST_LESSON:
            seen = (tokens - self.anchor_tokens - delta.images) / delta.text
            moved = self.ratio + LEARNING_RATE * (seen - self.ratio)
            self.ratio = min(RATIO_MAX, max(RATIO_MIN, moved))
        self.anchor_tokens, self.anchor_size = tokens, size
        if reply is not None:
            output = usage.get("output_tokens") or 0
            # Some servers report a placeholder instead of the output tokens.
            believable = output >= reply.raw * SMALLEST_OUTPUT_SHARE
            self.anchor_tokens += output if believable else self._scaled(reply)
            self.anchor_size = size.plus(reply)

    def drop_anchor(self) -> None:
        """Forget the reported size, because the context it was reported for was rewritten."""
        self.anchor_tokens = None
        self.anchor_size = NOTHING

    def _scaled(self, size: Size) -> int:
        return round(size.text * self.ratio) + size.images
