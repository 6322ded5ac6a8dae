"""The proof that a request begins with the one before it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from prime_ext.context.prefix import Break, PrefixProof
from prime_ext.context.projection import open_calls, project
from prime_ext.session.records import AnyRecord
from tests.context.conversations import sessions

SYSTEM = [{"type": "text", "text": "s"}]
TOOLS: list[dict[str, Any]] = [{"name": "t"}]


def message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def test_what_is_appended_is_no_break_and_what_is_changed_is() -> None:
    proof = PrefixProof()
    assert proof.check(SYSTEM, TOOLS, [message("a")]) is None
    assert proof.check(SYSTEM, TOOLS, [message("a"), message("b")]) is None
    assert proof.check(SYSTEM, TOOLS, [message("a"), message("c")]) == Break(1)
    assert proof.check(SYSTEM, TOOLS, [message("a")]) == Break(1)
    assert proof.check(SYSTEM, [{"name": "u"}], [message("a")]) == Break(None)


def test_after_a_reset_anything_may_come() -> None:
    proof = PrefixProof()
    proof.check(SYSTEM, TOOLS, [message("a")])
    proof.reset()
    assert proof.check([], [], [message("b")]) is None


def test_a_change_in_place_is_found() -> None:
    proof = PrefixProof()
    sent = [message("a")]
    proof.check(SYSTEM, TOOLS, sent)
    sent[0]["content"][0]["text"] = "b"
    assert proof.check(SYSTEM, TOOLS, sent) == Break(None)


@given(sessions(), st.data())
def test_a_session_without_compactions_never_breaks(
    records: list[AnyRecord], data: st.DataObject
) -> None:
    proof = PrefixProof()
    for end in sorted(data.draw(st.sets(st.integers(1, len(records))))):
        if not open_calls(records[:end]):
            projection = project(records[:end])
            assert (
                proof.check(projection.system, projection.tools, projection.wire_messages()) is None
            )
