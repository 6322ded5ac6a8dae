"""How many tokens a context has: a raw count, and an estimate anchored on reported usage.

The raw count is that of the public ``cl100k_base`` tokenizer. Claude's tokenizers count more, by a
factor that depends on the model and on the kind of text; ``UsageEstimator`` learns it from the
usage that the API reports. Its data comes with the package and is loaded on first use.
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
"""Of one image on the newest models; older ones scale it down to 1,568."""
IMAGE_PATCH = 28
"""Pixels along the edge of the square that one image token stands for."""

MESSAGE_TOKENS = 4
"""What the frame of a message or block costs, roughly."""

BYTES_PER_TOKEN = 3
"""Without the tokenizer. Rather too small: an estimate that is too large compacts early."""

BASE64_CHARS_PER_TOKEN = 1.4
BASE64_RUN = re.compile(
    r"[A-Za-z0-9+/_-]{256,}={0,2}"
    r"|(?:[A-Za-z0-9+/]{76}\r?\n){4,}[A-Za-z0-9+/]*={0,2}"
    r"|(?:[A-Za-z0-9+/]{64}\r?\n){4,}[A-Za-z0-9+/]*={0,2}"
)
BASE64_VARIETY = 40
"""Different characters that a run must have; hexadecimal, rules and sequences have fewer."""

CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff]")

_load_lock = threading.Lock()


async def load() -> bool:
    """Load the tokenizer off the event loop; ``False`` if the byte count has to do.

    Counting loads it as well, but on the thread that counts (about 0.15 s).
    """
    if not _loaded.cache_info().currsize:
        await asyncio.to_thread(_tokenizer)
    return _tokenizer() is not None


def _tokenizer() -> tiktoken.Encoding | None:
    # The lock keeps two threads from building it twice.
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
    """Raw size of a piece of context.

    ``text`` is in tokens of the raw tokenizer and grows by the model's ratio; ``images`` are in
    the model's own tokens already.
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
    """Raw tokens of ``text``. Any string is fine, lone surrogates and special tokens included."""
    if not text:
        return 0
    if len(text) < 512:
        return _count_plain(text)
    # The hash stands for the text, so that the cache does not keep long outputs alive.
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
    # Frequent words of Chinese, Japanese and Korean are single tokens of this tokenizer only.
    return max(tokens, len(CJK.findall(text)))


def image_tokens(width: int, height: int, cap: int = IMAGE_TOKEN_CAP) -> int:
    """Tokens of an image of so many pixels; the API scales down what is over ``cap``."""
    return min(-(-width // IMAGE_PATCH) * -(-height // IMAGE_PATCH), cap)


def measure_block(block: Mapping[str, Any], image_cap: int = IMAGE_TOKEN_CAP) -> Size:
    """Size of one content block; ``cache_control`` weighs nothing."""
    kind = block.get("type")
    if kind == "text":
        return Size(count_text(str(block.get("text", ""))))
    if kind == "image":
        return Size(0, _image(block, image_cap))
    if kind == "compaction":
        return Size(count_text(str(block.get("content") or "")))
    if kind == "thinking":
        # The signature is not read by the model; a thinking text that was left out is.
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
    """Size of one message, ``{"role": …, "content": …}``."""
    return _measure_content(message.get("content", ""), image_cap).plus(Size(MESSAGE_TOKENS))


def measure_request(
    system: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    messages: Iterable[Mapping[str, Any]],
    image_cap: int = IMAGE_TOKEN_CAP,
) -> Size:
    """Size of everything a request sends."""
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
"""First version of Claude with the tokenizer that counts more."""
SMALLEST_LESSON = 200
"""Raw tokens under which a delta says nothing about the ratio: frames and rounding weigh more."""
SMALLEST_OUTPUT_SHARE = 0.3
"""Of a reply's raw count, under which its reported output cannot be true."""


def context_tokens(usage: Mapping[str, Any]) -> int | None:
    """Size of the context that ``usage`` was reported for; ``None`` if it was not reported."""
    parts = [
        usage.get(key)
        for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    ]
    if parts[0] is None:
        return None
    return sum(part or 0 for part in parts)


def seed_ratio(model: str) -> float:
    """Ratio to begin with, by the version in a Claude model's id."""
    version = re.search(r"claude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?!\d)", model)
    if version is None:
        return RATIO_SEED_OLD
    found = (int(version[1]), int(version[2] or 0))
    return RATIO_SEED_NEW if found >= NEW_TOKENIZER else RATIO_SEED_OLD


@dataclass
class UsageEstimator:
    """Size of the next request: the last reported one, plus what came since, times a ratio.

    Call :meth:`observe` with each reply's usage and the size of the request it answers, and
    :meth:`drop_anchor` whenever the context is rewritten. One estimator serves one model in one
    session; fed the same calls it gives the same numbers.
    """

    ratio: float
    anchor_tokens: int | None = None
    """As reported for the last request and its reply; ``None`` until one is."""
    anchor_size: Size = NOTHING
    """Raw size of the two."""

    @classmethod
    def for_model(cls, model: str) -> UsageEstimator:
        return cls(seed_ratio(model))

    @property
    def anchored(self) -> bool:
        """Whether the estimate stands on a reported figure."""
        return self.anchor_tokens is not None

    def estimate(self, size: Size) -> int:
        """Tokens of a request of ``size``, in the model's own count."""
        delta = size.minus(self.anchor_size)
        return max(0, (self.anchor_tokens or 0) + self._scaled(delta))

    def observe(self, usage: Mapping[str, Any], size: Size, reply: Size | None = None) -> None:
        """Learn from a reply.

        Parameters
        ----------
        usage:
            As reported with the reply. Ignored if it has no input figures.
        size:
            Raw size of the request that was answered, the reply left out.
        reply:
            Raw size of the reply, if it is going to be part of the next request: its reported
            output is then part of the anchor. That is four times as exact as counting it, and
            right for thinking whose text is left out.
        """
        tokens = context_tokens(usage)
        if tokens is None:
            return
        delta = size.minus(self.anchor_size)
        # Only a difference teaches: a whole request has overhead that nobody counts.
        if self.anchor_tokens is not None and delta.text >= SMALLEST_LESSON:
            seen = (tokens - self.anchor_tokens - delta.images) / delta.text
            moved = self.ratio + LEARNING_RATE * (seen - self.ratio)
            self.ratio = min(RATIO_MAX, max(RATIO_MIN, moved))
        self.anchor_tokens, self.anchor_size = tokens, size
        if reply is not None:
            output = usage.get("output_tokens") or 0
            # Some servers report a placeholder.
            believable = output >= reply.raw * SMALLEST_OUTPUT_SHARE
            self.anchor_tokens += output if believable else self._scaled(reply)
            self.anchor_size = size.plus(reply)

    def drop_anchor(self) -> None:
        """Forget the reported size, because the context is no longer the one it was for."""
        self.anchor_tokens = None
        self.anchor_size = NOTHING

    def _scaled(self, size: Size) -> int:
        return round(size.text * self.ratio) + size.images
