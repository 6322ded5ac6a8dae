"""Types of a plan: a generator that yields steps with tool calls and is sent their results.

A plan keeps no state between requests. For each request it runs again from the beginning and is
sent the results recorded in the messages, until it asks for a call that was not made yet.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from prime_ext.models.offline.conversation import Call, Result


@dataclass(frozen=True)
class Step:
    """Text to say and calls to make; a step without calls ends the turn."""

    text: str = ""
    calls: tuple[Call, ...] = ()


T = TypeVar("T")
Asking = Generator[Step, "tuple[Result, ...]", T]
"""A generator that may make calls and returns a ``T``."""
Plan = Asking[str]
"""A generator that returns the closing text."""


def speaking(plan: Plan, said: list[str]) -> Plan:
    """Run ``plan`` with the texts in ``said`` before its own first text, and clear ``said``."""
    results: tuple[Result, ...] | None = None
    while True:
        try:
            step = next(plan) if results is None else plan.send(results)
        except StopIteration as end:
            return str(end.value)
        if said:
            step = Step("\n\n".join([*said, step.text] if step.text else said), step.calls)
            said.clear()
        results = yield step


class Stop(Exception):
    """The plan cannot continue; ``text`` is the reply to the user."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
