"""Whatever is asked and whatever the tools answer, the agent comes to an end and stays valid."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.offline.phrases import PHRASES
from tests.offline.test_plans import NAME_ERROR
from tests.offline.world import TOOLS, World

QUESTIONS = [text for text, _ in PHRASES]


def furnished() -> World:
    world = World()
    world.add_penguins()
    world.add_cell("# Title", "markdown")
    world.add_cell("x = 1", execution_count=1)
    return world


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        (f"Something went wrong.\n{NAME_ERROR}", True),
        ("The user declined this call. Do not repeat it; ask what they want instead.", True),
        ("unexpected", False),
    ],
    ids=["error", "declined", "text"],
)
async def test_every_phrase_ends_when_every_tool_answers_the_same(
    answer: str, failed: bool
) -> None:
    for question in QUESTIONS[::3]:
        world = furnished()
        world.answers = dict.fromkeys(TOOLS, (answer, failed))
        assert (await world.ask(question, max_requests=20)).strip(), question


async def test_every_phrase_ends_when_all_goes_well() -> None:
    for question in QUESTIONS:
        world = furnished()
        world.loads_penguins("1")
        assert (await world.ask(question, max_requests=40)).strip(), question


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=40)
@given(
    questions=st.lists(
        st.sampled_from([*QUESTIONS, "/tour", "/tour continue"]), min_size=1, max_size=4
    ),
    compact_after=st.sets(st.integers(1, 30), max_size=4),
    failing=st.sets(st.sampled_from(TOOLS), max_size=3),
    declined=st.sets(st.sampled_from(TOOLS), max_size=2),
)
def test_compaction_failures_and_refusals_at_random_moments(
    questions: list[str], compact_after: set[int], failing: set[str], declined: set[str]
) -> None:
    asyncio.run(play(questions, compact_after, failing, declined))


async def play(
    questions: list[str], compact_after: set[int], failing: set[str], declined: set[str]
) -> None:
    """Ask ``questions``, compacting after so many requests, with tools that fail or are denied."""
    world = furnished()
    world.answers = dict.fromkeys(failing, ("It failed.", True))
    world.declined = declined
    requests = 0
    for question in questions:
        world.messages.append({"role": "user", "content": [{"type": "text", "text": question}]})
        for _ in range(80):
            calls = await world.step()
            requests += 1
            if not calls:
                break
            world.answer(calls)
            if requests in compact_after:
                await world.compact()
        else:
            raise AssertionError(f"No end: {world.names[-20:]}")
        assert world.texts[-1].strip()
