"""``/tour``: a demonstration of the features, step by step, on the user's own notebook.

The messages tell how far the tour has come: the text of each step begins with its number, and a
summary keeps the last number. So the tour continues after a compaction, including its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prime_ext.models.offline import code, figures, observations
from prime_ext.models.offline import intents as i
from prime_ext.models.offline.bench import Bench
from prime_ext.models.offline.conversation import CHANGING, Conversation, Round
from prime_ext.models.offline.names import listed, variable_name
from prime_ext.models.offline.observations import Column, Frame
from prime_ext.models.offline.plans.data import measures, shape
from prime_ext.models.offline.steps import Asking, Plan, Stop, speaking

KEPT = "tour_result"
"""Variable that the tour creates, and that must exist again after the crash."""
CRASH = "import os\n\nos.kill(os.getpid(), 9)"
MAX_SETBACKS = 2

_MARK = re.compile(r"\bTour (\d+) of \d+\b")


@dataclass(frozen=True)
class TourStep:
    title: str
    words: str
    """Text that accompanies the first call, so that the messages show the current step."""
    play: Callable[[Bench], Asking[str]]
    """Makes the calls of the step; returns the text with which the next step begins."""


def tour(intent: i.Tour, bench: Bench) -> Plan:
    """Play the remaining steps, as determined from the conversation."""
    conversation = bench.conversation
    first = _first_step(intent, conversation)
    under_way = conversation.question_from_summary and _marked(conversation) is None
    setbacks = 0
    note = ""
    for number in range(first, len(STEPS) + 1):
        step = STEPS[number - 1]
        # No step relies on an earlier one: after a compaction the tour resumes in the middle.
        bench.forget()
        said = [note] if note else []
        if not (under_way and number == first):
            said.append(f"**Tour {number} of {len(STEPS)} · {step.title}.** {step.words}")
        try:
            note = yield from speaking(step.play(bench), said)
        except Stop as stop:
            setbacks += 1
            if "permission mode is *plan*" in stop.text:
                return f"{stop.text} Then `/tour {number}` goes on here."
            if setbacks >= MAX_SETBACKS:
                return (
                    f"{stop.text}\n\nI pause the tour here. `/tour continue` goes on with the "
                    f"next step, `/tour {number}` repeats this one."
                )
            note = f"{stop.text} The tour goes on without that step."
        note = _join(*said, note)
    return _join(note, _CLOSING)


_CLOSING = """\
That was the tour. What to try next:

- `load FILE.csv` with data of your own, then `analyse it`
- `plot A by B`, `mean of A by B`, `filter rows where A > 3`
- `explain the error` after a cell has failed
- `/help` for the rest, `how do I connect a model` for free conversation

And while you work: **Stop** or Esc ends what I do at any moment; what you type meanwhile is \
queued and can be taken back; the ring shows how full the context is; **+** starts another \
session, the title lists them; the name of the model connects one.

The cells that the tour inserted are yours: keep them or delete them."""


def rounds_to_replay(conversation: Conversation) -> tuple[Sequence[Round], Sequence[Round]]:
    """Return the calls from ``_first_step`` on: those in the summary, then those in the messages.

    From the summary, only calls that changed something are replayed. The others can be repeated,
    and what they saw before the current step is outdated.
    """
    if not conversation.question_from_summary:
        return (), conversation.rounds
    marked = _marked(conversation)
    if marked is not None:
        return (), conversation.rounds[marked:]
    changed = [r for r in conversation.recalled if r.calls[0].name in CHANGING]
    return changed, conversation.rounds


def _marked(conversation: Conversation) -> int | None:
    """Return the index of the first round that begins a step."""
    for index, past in enumerate(conversation.rounds):
        if _MARK.search(past.text):
            return index
    return None


def _first_step(intent: i.Tour, conversation: Conversation) -> int:
    if conversation.question_from_summary:
        marked = _marked(conversation)
        if marked is None:
            return max(1, min(conversation.summary_tour_step or 1, len(STEPS)))
        found = _MARK.search(conversation.rounds[marked].text)
        assert found is not None
        return int(found[1])
    if intent.resume:
        shown = [int(n) for text in conversation.earlier[::-1] for n in _MARK.findall(text)]
        last = shown[-1] if shown else conversation.summary_tour_step or 0
        return min(last + 1, len(STEPS) + 1)
    return max(1, min(intent.step or 1, len(STEPS)))


def _join(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


# --- the steps --------------------------------------------------------------------------------


def _read(bench: Bench) -> Asking[str]:
    yield from bench.must("read_notebook")
    return ""


def _load(bench: Bench) -> Asking[str]:
    """Load a data file from the notebook's folder; without one, create a small frame."""
    listing = yield from bench.call("list_files", path=bench.folder or None)
    found = [] if listing.is_error else [
        file for file in observations.files(listing.text)
        if "." in file and code.extension(file) in code.READERS and not file.endswith(".txt")
    ]  # fmt: skip
    name = variable_name(found[0]) if found else "cities"
    result = yield from bench.cell(code.load(name, found[0]) if found else _SMALL_FRAME)
    if result.is_error:
        raise Stop(f"That cell failed: `{_last_line(result.text)}`.")
    bench.use(name)
    frame = yield from bench.inspect(name)
    return f"`{frame.name}` has {shape(frame)}."


_SMALL_FRAME = """\
import pandas as pd

cities = pd.DataFrame(
    {
        "city": ["Oslo", "Rome", "Lima", "Cairo", "Hanoi", "Quito"],
        "coast": [True, False, True, False, False, False],
        "metres": [23, 21, 154, 23, 16, 2850],
    }
)
cities"""


def _look(bench: Bench) -> Asking[str]:
    frame = yield from bench.frame(None)
    missing = [column for column in frame.columns if column.missing]
    if not missing:
        return f"`{frame.name}` has no missing values."
    most = max(missing, key=lambda column: column.missing or 0)
    return f"Of its columns `{most.name}` lacks the most values: {most.missing}."


def _draw(bench: Bench) -> Asking[str]:
    frame = yield from bench.frame(None)
    kind, y, x = figures.arrange(_number(frame), _group(frame))
    result = yield from bench.cell(figures.figure(frame.name, kind, y, x, None))
    if result.is_error:
        return f"The figure failed: `{_last_line(result.text)}`."
    by = f" by `{x.name}`" if x else ""
    return f"The figure below the new cell shows `{y.name}`{by}."


def _number(frame: Frame) -> Column:
    numbers = measures(frame)
    if not numbers:
        raise Stop(f"`{frame.name}` has no numeric column for this step.")
    return numbers[-1]


def _group(frame: Frame) -> Column | None:
    groups = frame.of_kind("category", "flag")
    return groups[0] if groups else None


def _compute(bench: Bench) -> Asking[str]:
    frame = yield from bench.frame(None)
    y, by = _number(frame), _group(frame)
    source = code.aggregate(frame.name, ("mean",), [y.name], [by.name] if by else [])
    result = yield from bench.cell(f"{KEPT} = {source}\n{KEPT}")
    return f"That failed: `{_last_line(result.text)}`." if result.is_error else ""


def _search(bench: Bench) -> Asking[str]:
    yield from bench.must("session_search", query=KEPT)
    return ""


def _compact(bench: Bench) -> Asking[str]:
    yield from bench.must("compact_context")
    if bench.conversation.question_from_summary:
        return (
            "The conversation so far is now a short summary; I know from it where the tour stands. "
            "Nothing was deleted: the record still holds every word."
        )
    return "The conversation is still so short that the server left it as it is."


def _crash(bench: Bench) -> Asking[str]:
    yield from bench.call("run_code", code=CRASH)
    bench.forget()
    return ""


def _prove(bench: Bench) -> Asking[str]:
    result = yield from bench.call("inspect_variable", name=KEPT)
    if not result.is_error:
        return f"`{KEPT}` is there: the new kernel has what the old one had."
    alive = [variable.name for variable in (yield from bench.variables())]
    if not alive:
        return (
            f"`{KEPT}` is not there, and the kernel has no variables: nothing was restored. The "
            "cards above say why."
        )
    return f"`{KEPT}` is not there. The kernel has {listed(alive)}."


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


STEPS = (
    TourStep(
        "Read the notebook",
        "I work on the notebook you have open, in its own kernel. Looking never needs your "
        "permission, so I read it first. Each card below is one call; click it for details.",
        _read,
    ),
    TourStep(
        "Load data",
        "Work worth keeping becomes a cell of your notebook. I look for a data file, insert a cell "
        "that reads it and run it. In the permission mode *ask* you approve each change first: "
        "that is the card with the buttons.",
        _load,
    ),
    TourStep(
        "Look at a variable",
        "I can look at any live variable without running code in your notebook; the counts "
        "`In[…]` stay as they were.",
        _look,
    ),
    TourStep(
        "Draw a figure",
        "Asked to plot a column, or one by another, I let their types choose the kind of figure.",
        _draw,
    ),
    TourStep(
        "Compute",
        "Asked for the mean of a column by group, I write the pandas line you would write. The "
        f"result stays in the variable `{KEPT}`; it is needed later.",
        _compute,
    ),
    TourStep(
        "Search the record",
        "Everything that is said and done goes into this session's record, which is never "
        f"shortened. I search it for `{KEPT}`: that is how “what was the exact …” works after days "
        "of work.",
        _search,
    ),
    TourStep(
        "Compact the conversation",
        "A long conversation is compacted: a summary takes the place of its older part, and the "
        "kernel's variables are saved at the same moment. It happens by itself when the meter is "
        "full; I ask for it now. Watch for the banner.",
        _compact,
    ),
    TourStep(
        "Survive a crash",
        "Now I kill the kernel **on purpose**, as a crash or too little memory would. Your "
        "notebook and files are not touched, and the variables were saved before. The server "
        "starts a new kernel and brings them back by itself; close JupyterLab's message about the "
        "restart. Decline if you would rather not.",
        _crash,
    ),
    TourStep(
        "Find the variables again",
        f"`{KEPT}` was made before the crash, in a kernel process that is gone. I look for it in "
        "the new one.",
        _prove,
    ),
)
