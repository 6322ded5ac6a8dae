"""Two kinds of digest, for two different questions.

*Has this buffer changed since the last save?* is asked of every byte of every save, so it needs
the fastest hash there is (xxh3-128). Nobody attacks it: both sides are the same kernel. What is
larger than `PIECE` is hashed in pieces, by several threads, and then the hashes of the pieces: one
processor alone cannot read memory as fast as the machine can.

*Is this what was written?* protects what is loaded, so it needs a collision-resistant digest
(BLAKE3, else SHA-256). It is computed once, when a buffer is written.

A digest is stored as ``"algorithm:hex"``; a reader that lacks the algorithm says so instead of
guessing.
"""

from __future__ import annotations

import hashlib
import os
import threading
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

PIECE = 4 * 1024 * 1024
_IN_PARALLEL_FROM = 8 * PIECE
_MOST_THREADS = 4

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


def fast(data: Any, algorithm: str = FAST) -> str:
    """Change-detection digest of a bytes-like object."""
    nbytes = len(data) if type(data) is bytes else memoryview(data).nbytes
    if nbytes > PIECE:
        return _joined(algorithm, _digests_of_pieces(algorithm, memoryview(data).cast("B")))
    if algorithm == "xxh3" and xxhash is not None:
        return f"xxh3:{xxhash.xxh3_128_hexdigest(data)}"  # thousands of small ones: no hasher
    return digest(algorithm, data)


class Fast:
    """The change-detection digest of what comes bit by bit."""

    def __init__(self) -> None:
        self._done: list[bytes] = []
        self._hasher = new(FAST)
        self._room = PIECE

    def update(self, data: Any) -> None:
        rest = memoryview(data)
        while rest.nbytes > self._room:
            self._hasher.update(rest[: self._room])
            rest = rest[self._room :]
            self._done.append(self._hasher.digest())
            self._hasher, self._room = new(FAST), PIECE
        self._hasher.update(rest)
        self._room -= rest.nbytes

    def value(self) -> str:
        """As `fast` of all of it."""
        if not self._done:
            return f"{FAST}:{self._hasher.hexdigest()}"
        return _joined(FAST, [*self._done, self._hasher.digest()])


def _joined(algorithm: str, pieces: list[bytes]) -> str:
    return digest(algorithm, b"".join(pieces))


def _digests_of_pieces(algorithm: str, data: memoryview) -> list[bytes]:
    starts = range(0, data.nbytes, PIECE)
    found: dict[int, bytes] = {}
    pending = iter(starts)

    def work() -> None:
        for start in pending:  # threads draw from it in turn; hashing releases the GIL
            hasher = new(algorithm)
            hasher.update(data[start : start + PIECE])
            found[start] = hasher.digest()

    helpers = _processors() - 1 if data.nbytes >= _IN_PARALLEL_FROM else 0
    threads = [threading.Thread(target=work, daemon=True) for _ in range(helpers)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    return [found[start] for start in starts]


def _processors() -> int:
    """That this process may use, up to `_MOST_THREADS`."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), _MOST_THREADS)
    return min(os.cpu_count() or 1, _MOST_THREADS)


def matches(expected: str, data: Any, progress: Callable[[bool], None] | None = None) -> bool:
    """Whether ``data`` has the digest ``"algorithm:hex"``; ``progress`` is told now and then."""
    algorithm = expected.partition(":")[0]
    if progress is None:
        return digest(algorithm, data) == expected
    hasher = new(algorithm)
    view = memoryview(data)
    for start in range(0, view.nbytes, PIECE):
        hasher.update(view[start : start + PIECE])
        progress(False)
    return f"{algorithm}:{hasher.hexdigest()}" == expected
