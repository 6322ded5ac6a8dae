"""``/tour``: the features one after the other, on the user's own notebook.

Where the tour stands is read off the messages: each step's words begin with its number, and a
summary keeps the last one shown. So the tour goes on behind a compaction, its own included.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence

from prime_ext.models.offline import code, figures, observations
from prime_ext.models.offline import intents as i
from prime_ext.models.offline.bench import Bench
from prime_ext.models.offline.conversation import Conversation, Round
from prime_ext.models.offline.names import variable_name
from prime_ext.models.offline.observations import Column, Frame
from prime_ext.models.offline.plans.data import measures, shape
from prime_ext.models.offline.steps import Asking, Plan, Stop

KEPT = "tour_result"
"""Variable that the tour makes and finds again after the crash."""
CRASH = "import os\n\nos.kill(os.getpid(), 9)"
MAX_DECLINED = 2

_MARK = re.compile(r"\bTour (\d+) of \d+\b")

TourStep = Callable[[Bench, str], Asking[str]]
"""One step: says its words, makes its calls, comes to what the next step says first."""


def tour(intent: i.Tour, bench: Bench) -> Plan:
    """Play the steps from where the conversation says the tour stands."""
    first = _first_step(intent, bench.conversation)
    note = _after_compaction(bench.conversation) if first > 1 else ""
    declined = 0
    for number in range(first, len(STEPS) + 1):
        title, step = STEPS[number - 1]
        heading = f"**Tour {number} of {len(STEPS)} · {title}.**"
        try:
            note = yield from step(bench, _join(note, heading))
        except Stop as stop:
            declined += 1
            if "permission mode is *plan*" in stop.text:
                return f"{stop.text} Then `/tour {number}` goes on here."
            if declined >= MAX_DECLINED:
                return (
                    f"{stop.text}\n\nI pause the tour here. `/tour continue` goes on with the "
                    f"next step, `/tour {number}` repeats this one."
                )
            note = f"{stop.text} The tour goes on without that step."
    return _join(note, _CLOSING)


_CLOSING = """\
That was the tour. What to try next:

- `load FILE.csv` with data of your own, then `analyse it`
- `plot A by B`, `mean of A by B`, `filter rows where A > 3`
- `explain the error` after a cell has failed
- `/help` for the rest, `how do I connect a model` for free conversation

The cells that the tour inserted are yours: keep them or delete them."""


def rounds_to_replay(conversation: Conversation) -> Sequence[Round]:
    """The calls that belong to the steps from ``_first_step`` on."""
    if not conversation.question_from_summary:
        return conversation.rounds
    for index, past in enumerate(conversation.rounds):
        if _MARK.search(past.text):
            return conversation.rounds[index:]
    return ()


def _first_step(intent: i.Tour, conversation: Conversation) -> int:
    if conversation.question_from_summary:
        for past in rounds_to_replay(conversation):
            mark = _MARK.search(past.text)
            if mark is not None:
                return int(mark[1])
        return min((conversation.summary_tour_step or 0) + 1, len(STEPS) + 1)
    if intent.resume:
        shown = [int(n) for text in conversation.earlier[::-1] for n in _MARK.findall(text)]
        last = shown[-1] if shown else conversation.summary_tour_step or 0
        return min(last + 1, len(STEPS) + 1)
    return max(1, min(intent.step or 1, len(STEPS)))


def _after_compaction(conversation: Conversation) -> str:
    if not conversation.question_from_summary:
        return ""
    return (
        "The conversation so far is now a summary of a few lines; I know from it where the tour "
        "stands. Nothing was deleted: the record still holds every word."
    )


def _join(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


# --- the steps --------------------------------------------------------------------------------


def _read(bench: Bench, heading: str) -> Asking[str]:
    yield from bench.must(
        "read_notebook",
        f"{heading} I work on the notebook you have open, in its own kernel. Looking never needs "
        "your permission, so I read it first. Each card below is one call; click it for details.",
    )
    return ""


def _load(bench: Bench, heading: str) -> Asking[str]:
    say = (
        f"{heading} Work worth keeping becomes a cell of your notebook. I look for a data file, "
        "insert a cell that reads it and run it. In the permission mode *ask* you approve each "
        "change first: that is the card with the buttons."
    )
    frame = yield from _any_frame(bench, say)
    return f"`{frame.name}` has {shape(frame)}."


def _any_frame(bench: Bench, say: str) -> Asking[Frame]:
    """Read the data file beside the notebook; without one, make a small frame."""
    listing = yield from bench.call("list_files", say, path=bench.folder or None)
    found = [] if listing.is_error else [
        file for file in observations.files(listing.text)
        if "." in file and code.extension(file) in code.READERS and not file.endswith(".txt")
    ]  # fmt: skip
    if found:
        file = posixpath.basename(found[0])
        name = variable_name(file)
        source = code.load(name, file)
    else:
        name = "cities"
        source = _SMALL_FRAME
    result = yield from bench.cell(source)
    if result.is_error:
        raise Stop(f"That cell failed: `{_last_line(result.text)}`.")
    bench.use(name)
    return (yield from bench.inspect(name))


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


def _inspect(bench: Bench, heading: str) -> Asking[str]:
    frame = yield from bench.frame(None)
    yield from bench.must(
        "inspect_variable",
        f"{heading} I can look at any live variable without running code in your notebook. Here "
        f"is `{frame.name}`; the count `In[…]` stays as it was.",
        name=frame.name,
    )
    return ""


def _figure(bench: Bench, heading: str) -> Asking[str]:
    frame = yield from bench.frame(None)
    kind, y, x = figures.arrange(_number(frame), _group(frame))
    by = f" by `{x.name}`" if x else ""
    result = yield from bench.cell(
        figures.figure(frame.name, kind, y, x, None),
        f"{heading} The types of the columns choose the kind of figure. Here is `{y.name}`{by}.",
    )
    return "" if not result.is_error else f"The figure failed: `{_last_line(result.text)}`."


def _number(frame: Frame) -> Column:
    numbers = measures(frame)
    if not numbers:
        raise Stop(f"`{frame.name}` has no numeric column for this step.")
    return numbers[-1]


def _group(frame: Frame) -> Column | None:
    groups = frame.of_kind("category", "flag")
    return groups[0] if groups else None


def _compute(bench: Bench, heading: str) -> Asking[str]:
    frame = yield from bench.frame(None)
    y, by = _number(frame), _group(frame)
    source = code.aggregate(frame.name, ("mean",), [y.name], [by.name] if by else [])
    result = yield from bench.cell(
        f"{KEPT} = {source}\n{KEPT}",
        f"{heading} Asked for the mean of a column by group, I write the pandas line you would "
        f"write. The result stays in the variable `{KEPT}`; it is needed later.",
    )
    return "" if not result.is_error else f"That failed: `{_last_line(result.text)}`."


def _search(bench: Bench, heading: str) -> Asking[str]:
    yield from bench.must(
        "session_search",
        f"{heading} Everything that is said and done goes into this session's record, which is "
        f"never shortened. I search it for `{KEPT}`: that is how “what was the exact …” works "
        "after days of work.",
        query=KEPT,
    )
    return ""


def _compact(bench: Bench, heading: str) -> Asking[str]:
    yield from bench.must(
        "compact_context",
        f"{heading} A long conversation is compacted: a summary takes the place of its older "
        "part, and the kernel's variables are saved at the same moment. It happens by itself when "
        "the meter below is full; I ask for it now. Watch for the banner.",
    )
    # Reached only if the server saw nothing to compact: otherwise the next request begins with
    # the summary, and the tour is taken up from there.
    return "The server left the conversation as it is, so there was nothing to gain this time."


def _crash(bench: Bench, heading: str) -> Asking[str]:
    yield from bench.call(
        "run_code",
        f"{heading} Now I kill the kernel **on purpose**, as a crash or too little memory would. "
        "Your notebook and files are not touched, and the variables were saved before. The server "
        "starts a new kernel and brings them back by itself. Decline if you would rather not.",
        code=CRASH,
    )
    bench.forget()
    return ""


def _proof(bench: Bench, heading: str) -> Asking[str]:
    result = yield from bench.call(
        "inspect_variable",
        f"{heading} `{KEPT}` was made before the crash, in a kernel process that is gone. I look "
        "for it in the new one.",
        name=KEPT,
    )
    if not result.is_error:
        return f"`{KEPT}` is there: the new kernel has what the old one had."
    alive = [variable.name for variable in (yield from bench.variables())]
    if not alive:
        return (
            f"`{KEPT}` is not there, and the kernel has no variables: nothing was restored. The "
            "cards above say why."
        )
    names = ", ".join(f"`{name}`" for name in alive[:8])
    return f"`{KEPT}` is not there. The kernel has {names}."


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


STEPS: list[tuple[str, TourStep]] = [
    ("Read the notebook", _read),
    ("Load data", _load),
    ("Look at a variable", _inspect),
    ("Draw a figure", _figure),
    ("Compute", _compute),
    ("Search the record", _search),
    ("Compact the conversation", _compact),
    ("Survive a crash", _crash),
    ("Find the variables again", _proof),
]
