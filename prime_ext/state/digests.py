"""Two kinds of digest, for change detection and for integrity.

The *fast* digest tells whether a buffer has changed since the last save. Each save computes it for
every byte, so it is the fastest hash available (xxh3-128, else BLAKE2b). It need not resist
attacks, because one kernel computes both sides. Data larger than `PIECE` is hashed in pieces by
several threads, because one processor core cannot use the full memory bandwidth; the digest is
that of the concatenated digests of the pieces.

The *strong* digest tells whether loaded data is what was written. It is collision-resistant
(BLAKE3, else SHA-256), and is computed once, when a buffer is written.

A digest is stored as ``"algorithm:hex"``. A reader that lacks the algorithm raises an error.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from typing import Any

try:
    import xxhash
except ImportError:  # in a kernel with an environment of its own
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
    """Return a new hasher. Raises ``LookupError`` if this environment lacks the algorithm."""
    try:
        return _CONSTRUCTORS[algorithm]()
    except KeyError:
        raise LookupError(
            f"The snapshot uses the digest {algorithm!r}, which this kernel's environment lacks; "
            f"install the package {algorithm!r} there."
        ) from None


def digest(algorithm: str, data: Any) -> str:
    """Return the digest of a bytes-like object."""
    hasher = new(algorithm)
    hasher.update(data)
    return f"{algorithm}:{hasher.hexdigest()}"


def fast(data: Any, algorithm: str = FAST) -> str:
    """Return the fast digest of a bytes-like object."""
    nbytes = len(data) if type(data) is bytes else memoryview(data).nbytes
    if nbytes > PIECE:
        return _joined(algorithm, _digests_of_pieces(algorithm, memoryview(data).cast("B")))
    if algorithm == "xxh3" and xxhash is not None:
        return f"xxh3:{xxhash.xxh3_128_hexdigest(data)}"  # faster than a hasher for small data
    return digest(algorithm, data)


class Fast:
    """Computes the fast digest of data that is added piece by piece."""

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
        """Return the digest, equal to `fast` of all the data."""
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
        for start in pending:  # all threads take from one iterator; hashing releases the GIL
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
    """Return the number of processors that this process may use, at most `_MOST_THREADS`."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), _MOST_THREADS)
    return min(os.cpu_count() or 1, _MOST_THREADS)


def matches(expected: str, data: Any, progress: Callable[[bool], None] | None = None) -> bool:
    """Return whether ``data`` has the digest ``"algorithm:hex"``.

    ``progress`` is called after each `PIECE` bytes.
    """
    algorithm = expected.partition(":")[0]
    if progress is None:
        return digest(algorithm, data) == expected
    hasher = new(algorithm)
    view = memoryview(data)
    for start in range(0, view.nbytes, PIECE):
        hasher.update(view[start : start + PIECE])
        progress(False)
    return f"{algorithm}:{hasher.hexdigest()}" == expected
