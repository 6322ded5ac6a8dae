"""Running code on a stack that is large enough for objects nested thousands of levels deep."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from .deadline import DeadlineExceeded, stop_thread

_STACK_BYTES = 512 * 1024 * 1024
_RECURSION = 150_000

_T = TypeVar("_T")


def run(work: Callable[[], _T], seconds: float) -> _T:
    """Run ``work`` in a thread with a large stack, wait for it, and return its result.

    Raises the exception of ``work``, or `DeadlineExceeded` after ``seconds``.
    """
    results: list[_T] = []
    errors: list[BaseException] = []

    def target() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    limit, stack = sys.getrecursionlimit(), threading.stack_size(_STACK_BYTES)
    try:
        sys.setrecursionlimit(_RECURSION)
        thread = threading.Thread(target=target, daemon=True)
        thread.start()
    finally:
        threading.stack_size(stack)
    thread.join(max(seconds, 0.1))
    if thread.is_alive():
        stop_thread(thread)
        thread.join(1.0)
    if not thread.is_alive():
        # Lowering the limit while a thread's stack is deeper than that would abort the process.
        sys.setrecursionlimit(limit)
    if errors:
        raise errors[0]
    if not results:
        raise DeadlineExceeded
    return results[0]
