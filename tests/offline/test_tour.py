"""The tour: it shows everything, keeps its place when compacted, and takes no for an answer."""

from __future__ import annotations

import re

import pytest

from prime_ext.agent.permissions import PLAN_REFUSAL
from prime_ext.models.offline.plans.tour import CRASH, KEPT, STEPS
from tests.offline.world import World

RESTORED = "The kernel died and was started anew. Live again: penguins, tour_result."


@pytest.fixture
def world(world: World) -> World:
    """A world in which cells define what they say, and a crash is recovered from."""

    def run(source: str) -> tuple[str, bool]:
        if source == CRASH:
            return f"The kernel died.\n{RESTORED}", True
        if "read_csv" in source:
            world.add_penguins()
        if source.startswith(f"{KEPT} ="):
            world.variables[KEPT] = ("pandas.Series", "pandas.Series, shape (3,)")
        return "done", False

    world.on_run = run
    world.add_cell("# Penguins", "markdown")
    return world


def steps_shown(world: World) -> list[int]:
    return [int(n) for text in world.texts for n in re.findall(r"Tour (\d+) of", text)]


async def test_it_shows_every_feature_in_order(world: World) -> None:
    said = await world.ask("/tour")

    assert steps_shown(world) == list(range(1, len(STEPS) + 1))
    for name in (
        "read_notebook",
        "list_files",
        "insert_cell",
        "run_cell",
        "inspect_variable",
        "session_search",
        "compact_context",
        "run_code",
    ):
        assert name in world.names, name
    assert ("run_code", {"code": CRASH}) in world.calls
    assert world.calls[-1] == ("inspect_variable", {"name": KEPT})
    assert f"`{KEPT}` is there" in said
    assert "What to try next" in said
    # The crash is announced before it happens.
    crash = next(t for t in world.texts if "Tour 8" in t)
    assert "on purpose" in crash


@pytest.mark.parametrize("keep", [0, 2, 4])
async def test_its_own_compaction_does_not_lose_the_place(world: World, keep: int) -> None:
    world.messages = [{"role": "user", "content": [{"type": "text", "text": "/tour"}]}]
    while "compact_context" not in world.names:
        world.answer(await world.step())
    summary = await world.compact(keep)
    said = await world.go_on()

    assert re.search(r"^- /tour step [567] of 9$", summary, re.M)
    assert steps_shown(world) == list(range(1, len(STEPS) + 1))
    assert f"`{KEPT}` is there" in said
    assert "I know from it where the tour stands" in "\n".join(world.texts)
    assert world.names.count("compact_context") == 1


@pytest.mark.parametrize("after", range(1, 16))
async def test_a_compaction_at_any_moment_does_not_begin_it_again(world: World, after: int) -> None:
    world.messages = [{"role": "user", "content": [{"type": "text", "text": "/tour"}]}]
    for _ in range(after):
        world.answer(await world.step())
    await world.compact()
    said = await world.go_on()

    shown = steps_shown(world)
    assert shown == sorted(set(shown))
    assert shown[-1] == len(STEPS)
    assert "What to try next" in said
    assert world.sources == list(dict.fromkeys(world.sources))
    assert len(world.sources) == 3
    assert f"`{KEPT}` is there" in said


async def test_two_compactions_in_one_tour(world: World) -> None:
    world.messages = [{"role": "user", "content": [{"type": "text", "text": "/tour"}]}]
    for _ in range(2):
        for _ in range(5):
            world.answer(await world.step())
        await world.compact()
    await world.go_on()

    shown = steps_shown(world)
    assert shown == sorted(set(shown))
    assert shown[-1] == len(STEPS)


async def test_a_declined_crash_is_left_out_and_the_tour_goes_on(world: World) -> None:
    world.declined = {"run_code"}
    said = await world.ask("/tour")

    assert steps_shown(world)[-1] == len(STEPS)
    assert world.names.count("run_code") == 1
    assert "You declined that" in "\n".join(world.texts)
    assert f"`{KEPT}` is there" in said


async def test_declining_twice_pauses_it_and_it_can_be_taken_up(world: World) -> None:
    world.declined = {"insert_cell"}
    said = await world.ask("/tour")

    assert "I pause the tour here" in said
    assert world.names.count("insert_cell") <= 2
    last = steps_shown(world)[-1]
    world.declined = set()
    world.add_penguins()
    await world.ask("/tour continue")
    assert steps_shown(world)[-1] == len(STEPS)
    assert last + 1 in steps_shown(world)


async def test_plan_mode_is_explained(world: World) -> None:
    world.answers["insert_cell"] = (PLAN_REFUSAL, True)
    said = await world.ask("/tour")

    assert "mode is *plan*" in said
    assert "/tour 2" in said
    assert world.names.count("insert_cell") == 1


async def test_it_begins_where_it_is_told_to(world: World) -> None:
    world.add_penguins()
    await world.ask("/tour 4")

    assert steps_shown(world)[0] == 4


async def test_without_data_it_makes_some(world: World) -> None:
    world.folders["examples"] = "examples, 1 entries:\ntour.ipynb  2 kB  2026-01-05 10:00"

    def run(source: str) -> tuple[str, bool]:
        if "pd.DataFrame" in source:
            world.variables["cities"] = (
                "pandas.DataFrame",
                "pandas.DataFrame, shape (6, 3)\n  'city': str, 0 missing\n"
                "  'coast': bool, 0 missing\n  'metres': int64, 0 missing",
            )
        if source.startswith(f"{KEPT} ="):
            world.variables[KEPT] = ("pandas.Series", "pandas.Series, shape (3,)")
        return "", source == CRASH

    world.on_run = run
    said = await world.ask("/tour")

    assert steps_shown(world) == list(range(1, len(STEPS) + 1))
    assert f"`{KEPT}` is there" in said


async def test_it_says_so_if_the_variables_did_not_come_back(world: World) -> None:
    usual = world.on_run

    def run(source: str) -> tuple[str, bool]:
        if source == CRASH:
            world.variables.clear()
        return usual(source)

    world.on_run = run
    said = await world.ask("/tour")

    assert f"`{KEPT}` is not there" in said
    assert f"`{KEPT}` is there" not in said


async def test_a_step_that_fails_does_not_end_it(world: World) -> None:
    world.answers["session_search"] = ("The index is broken.", True)
    await world.ask("/tour")

    assert steps_shown(world)[-1] == len(STEPS)
    assert "The index is broken" in "\n".join(world.texts)
