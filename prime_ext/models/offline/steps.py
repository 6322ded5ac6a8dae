"""How a plan is written: a generator that asks for calls and is sent their results.

A plan keeps nothing between requests. For each request it runs again from its beginning and is
sent the results that the messages record, until it asks for something new.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from prime_ext.models.offline.conversation import Call, Result


@dataclass(frozen=True)
class Step:
    """What to say now and which calls to make; without calls it is the end of the turn."""

    text: str = ""
    calls: tuple[Call, ...] = ()


T = TypeVar("T")
Asking = Generator[Step, "tuple[Result, ...]", T]
"""A generator that may make calls and comes to a ``T``."""
Plan = Asking[str]
"""Comes to the closing words."""


def speaking(plan: Plan, said: list[str]) -> Plan:
    """``plan`` with the words in ``said`` before its own first ones; ``said`` is emptied then."""
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
    """The plan cannot go on; the message is what the user is told."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
