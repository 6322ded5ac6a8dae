"""The digest: what it keeps, that it fits, and that nothing makes it fail."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_ext.context.digest import digest
from prime_ext.context.sections import SECTIONS
from prime_ext.context.summary import summary_turn


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def reply(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def call(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, value: str, *, error: bool = False) -> dict[str, Any]:
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": [{"type": "text", "text": value}],
    }
    if error:
        block["is_error"] = True
    return {"role": "user", "content": [block]}


TRACEBACK = """\
---------------------------------------------------------------------------
KeyError                                  Traceback (most recent call last)
Cell In[3], line 2
      1 import pandas as pd
----> 2 df["weight"]

File /opt/lib/pandas/core/frame.py:4102, in DataFrame.__getitem__(self, key)
KeyError: 'weight'"""

CONVERSATION = [
    user("Predict body mass. Never drop rows with missing sex; use data/penguins.csv."),
    reply(
        text("I will use a median fill instead of dropping rows."),
        call("t1", "insert_cell", source="df = pd.read_csv('data/penguins.csv')\nalpha = 0.0125"),
    ),
    result("t1", "Inserted cell id 9f3a, code, at position 2. Not run yet."),
    reply(call("t2", "run_cell", cell_id="9f3a")),
    result("t2", "learning rate: 0.0125\nrows = 344"),
    reply(call("t3", "run_code", code='df["weight"]')),
    result("t3", TRACEBACK, error=True),
    reply(text("There is no column `weight`.")),
    user("Then plot body_mass_g."),
]


def sections(summary: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in ("\n\n" + summary).split("\n\n## ")[1:]:
        title, _, body = part.partition("\n")
        found[title] = body
    return found


def test_keeps_what_matters_letter_for_letter() -> None:
    found = sections(digest(CONVERSATION, max_chars=8_000))

    assert list(found) == [section for section in SECTIONS if section in found]
    assert "Predict body mass." in found["Goal"]
    assert found["Goal"].rstrip().endswith("Then plot body_mass_g.")
    assert "Never drop rows with missing sex" in found["Constraints"]
    assert "median fill instead of dropping rows" in found["Decisions"]
    assert "df = pd.read_csv('data/penguins.csv')\n  alpha = 0.0125" in found["Commands and values"]
    assert "learning rate: 0.0125\n  rows = 344" in found["Commands and values"]
    assert "KeyError: 'weight'" in found["Errors"]
    assert "Cell In[3], line 2" in found["Errors"]
    assert "/opt/lib/pandas/core/frame.py:4102" in found["Errors"]
    assert "`data/penguins.csv`" in found["Files and cells"]
    assert "`9f3a`" in found["Files and cells"]
    assert "Open request: Then plot body_mass_g." in found["Next steps"]


def test_of_a_long_output_the_named_values_are_kept() -> None:
    output = "\n".join(["epoch ..."] * 200 + ["final loss: 0.0321", "took 3 h"])
    summary = digest(
        [user("train"), reply(call("t", "run_code", code="fit()")), result("t", output)],
        max_chars=8_000,
    )

    assert "`final loss: 0.0321`" in summary
    assert "epoch" not in summary.replace(summary[summary.index("Done for it") :], "")


def test_says_nothing_is_open_once_it_is_answered() -> None:
    found = sections(digest([*CONVERSATION, reply(text("Here it is."))], max_chars=8_000))

    assert "Next steps" not in found
    assert "Last reply: Here it is." in found["State of work"]


def test_calls_of_an_open_request_are_kept_and_those_of_a_closed_one_are_not() -> None:
    half_done = [
        *CONVERSATION,
        reply(call("t4", "insert_cell", source="df.plot()")),
        result("t4", "Inserted cell id 77aa, code, at position 3. Not run yet."),
    ]
    summary = digest(half_done, max_chars=8_000)
    assert 'Done for it: insert_cell {"source": "df.plot()"} -> "ok: Inserted' in summary

    later = digest([user(wrap(summary)), user("Something else.")], max_chars=8_000)
    assert "Done for it" not in later
    assert "Open request: Something else." in later


def wrap(body: str, last: str | None = None) -> str:
    return summary_turn(
        body,
        ledger="",
        last_user_message=last,
        inventory=None,
        kernel_note="The kernel runs on.",
        log_path="/somewhere/session.jsonl",
        first_seq=1,
        last_seq=9,
    )


def test_an_earlier_summary_is_merged_not_stacked() -> None:
    first = digest(CONVERSATION, max_chars=8_000)
    second = digest(
        [user(wrap(first)), reply(text("Drawn.")), user("Now by species.")], max_chars=8_000
    )

    for section in SECTIONS:
        assert second.count(f"## {section}\n") <= 1
    assert "<compaction-summary>" not in second
    assert "recovery_hint" not in second
    assert second.count("Predict body mass") == first.count("Predict body mass")
    assert "learning rate: 0.0125" in second
    assert "KeyError: 'weight'" in second
    assert sections(second)["Goal"].rstrip().endswith("Now by species.")


def test_merging_again_and_again_neither_grows_nor_forgets() -> None:
    summary = digest(CONVERSATION, max_chars=8_000)
    once = digest([user(wrap(summary))], max_chars=8_000)
    again = digest([user(wrap(once))], max_chars=8_000)

    assert again == once
    assert set(summary.split()) <= set(once.split())


def test_prose_summaries_of_a_model_are_merged_under_their_headings() -> None:
    body = (
        "## Goal\nFit a model.\n\n## Decisions\nUse ridge; lasso was unstable.\n\n## Other\nMore."
    )
    found = sections(digest([user(wrap(body, last="Go on."))], max_chars=4_000))

    assert "Fit a model." in found["Goal"]
    assert "Go on." in found["Goal"]
    assert "Use ridge; lasso was unstable." in found["Decisions"]


def test_the_tour_keeps_only_its_last_step() -> None:
    found = digest(
        [
            user("/tour"),
            reply(text("**Tour 1 of 9 · Look.** Hello."), call("a", "read_notebook")),
            result("a", "..."),
            reply(text("**Tour 2 of 9 · Load.**"), call("b", "list_files")),
        ],
        max_chars=4_000,
    )
    assert "/tour step 2 of 9" in found
    assert "/tour step 1 of 9" not in found
    assert "/tour step 2 of 9" in digest([user(wrap(found))], max_chars=4_000)


def test_the_oldest_go_first_where_room_is_short_and_the_first_goal_stays() -> None:
    messages: list[dict[str, Any]] = [user("The very first request.")]
    for n in range(200):
        messages += [
            reply(call(f"c{n}", "run_code", code=f"value_{n} = {n}")),
            result(f"c{n}", f"value_{n} = {n}"),
            reply(text(f"Step {n} is done.")),
            user(f"Request number {n}, with some more words to it."),
        ]
    summary = digest(messages, max_chars=3_000)

    assert len(summary) <= 3_000
    assert "The very first request." in summary
    assert "Request number 199," in summary
    assert "value_198 = 198" in summary
    assert "value_3 = 3" not in summary
    assert "more in the session's records" in summary


@pytest.mark.parametrize("max_chars", [0, 1, 5, 30, 100, 200])
def test_a_tiny_limit_is_kept(max_chars: int) -> None:
    assert len(digest(CONVERSATION, max_chars=max_chars)) <= max_chars


def test_a_long_last_message_is_shortened_in_its_middle() -> None:
    summary = digest([user("begin " + "x" * 50_000 + " end")], max_chars=1_000)

    assert len(summary) <= 1_000
    assert "begin xxx" in summary
    assert "xxx end" in summary


words = st.text(min_size=0, max_size=300)
odd = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text", "content", "input", "id", "name", "tool_use_id", "role"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
tidy_blocks = st.one_of(
    st.builds(text, words),
    st.builds(text, words.map(lambda t: f"<compaction-summary>{t}</compaction-summary>")),
    st.builds(
        lambda i, n, v: call(i, n, code=v, path=v),
        st.sampled_from("abc"),
        st.sampled_from(["run_code", "insert_cell", "read_file"]),
        words,
    ),
    st.builds(
        lambda i, v, e: result(i, v, error=e)["content"][0],
        st.sampled_from("abc"),
        words,
        st.booleans(),
    ),
)
messages_of_any_shape = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "assistant"]) | words,
            "content": odd | st.lists(tidy_blocks, max_size=5),
        }
    )
    | odd,
    max_size=8,
)


@given(messages_of_any_shape, st.integers(0, 4_000))
def test_it_never_fails_and_always_fits(messages: list[Any], max_chars: int) -> None:
    summary = digest(messages, max_chars=max_chars)

    assert len(summary) <= max_chars
    assert summary == digest(messages, max_chars=max_chars)


plain = st.text(
    st.characters(whitelist_categories=("Lu", "Ll", "Nd"), whitelist_characters=" .,"),
    min_size=1,
    max_size=150,
).filter(lambda t: t.strip())


@given(messages_of_any_shape, plain, st.integers(400, 4_000))
def test_the_last_user_message_is_kept(messages: list[Any], last: str, max_chars: int) -> None:
    summary = digest([*messages, user(last)], max_chars=max_chars)

    assert last.strip() in summary


@given(messages_of_any_shape, st.integers(300, 3_000))
def test_summaries_of_summaries_fit_too(messages: list[Any], max_chars: int) -> None:
    summary = digest(messages, max_chars=max_chars)
    merged = digest([user(wrap(summary)), user("Go on.")], max_chars=max_chars)

    assert len(merged) <= max_chars
    assert "Go on." in merged
