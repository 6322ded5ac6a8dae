"""Two kinds of digest, for two different questions.

*Has this buffer changed since the last save?* is asked of every byte of every save, so it needs
the fastest hash there is (xxh3-128). Nobody attacks it: both sides are the same kernel.

*Is this what was written?* protects what is loaded, so it needs a collision-resistant digest
(BLAKE3, else SHA-256). It is computed once, when a buffer is written.

A digest is stored as ``"algorithm:hex"``; a reader that lacks the algorithm says so instead of
guessing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

try:
    import xxhash
except ImportError:  # a kernel in another environment
    xxhash = None  # type: ignore[assignment]

try:
    import blake3
except ImportError:
    blake3 = None  # type: ignore[assignment]

Hasher = Any
"""An object with ``update(bytes)`` and ``hexdigest()``."""


def _constructors() -> dict[str, Callable[[], Hasher]]:
    known: dict[str, Callable[[], Hasher]] = {
        "sha256": hashlib.sha256,
        "blake2b": lambda: hashlib.blake2b(digest_size=16),
    }
    if xxhash is not None:
        known["xxh3"] = xxhash.xxh3_128
    if blake3 is not None:
        known["blake3"] = blake3.blake3
    return known


_CONSTRUCTORS = _constructors()
FAST = "xxh3" if "xxh3" in _CONSTRUCTORS else "blake2b"
STRONG = "blake3" if "blake3" in _CONSTRUCTORS else "sha256"


def new(algorithm: str) -> Hasher:
    """A fresh hasher; raises ``LookupError`` if this environment lacks the algorithm."""
    try:
        return _CONSTRUCTORS[algorithm]()
    except KeyError:
        raise LookupError(
            f"The snapshot uses the digest {algorithm!r}, which this kernel's environment lacks; "
            f"install the package {algorithm!r} there."
        ) from None


def digest(algorithm: str, data: Any) -> str:
    """Digest of a bytes-like object."""
    hasher = new(algorithm)
    hasher.update(data)
    return f"{algorithm}:{hasher.hexdigest()}"


def fast(data: Any) -> str:
    """Change-detection digest of a bytes-like object."""
    if FAST == "xxh3":
        return f"xxh3:{xxhash.xxh3_128_hexdigest(data)}"  # thousands of small ones: no hasher
    return digest(FAST, data)


def matches(expected: str, data: Any) -> bool:
    """Whether ``data`` has the digest ``"algorithm:hex"``."""
    return digest(expected.partition(":")[0], data) == expected
