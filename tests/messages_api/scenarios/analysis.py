"""A model that analyses the penguins: what browser tests talk to.

It answers by what the user typed last and by how far it has come since:

===========================  ====================================================================
said                         does
===========================  ====================================================================
analyse, analyze             inserts and runs a cell that loads the data, then one with a figure
how many, rows, mean         runs code on the variable ``penguins`` and tells the result
run and wait: CODE           runs the code, and waits for it as long as it takes
run and leave: CODE          runs the code, and answers without waiting for its end
print N lines                runs code whose output is long
think                        thinks, then answers
table, formula               answers with a table, a formula and code
wide                         the same, all wider than a side panel
tell a long story            streams a long text, for stopping it
describe                     describes the data, as slowly as one reads
fail N times                 is overloaded that often, then answers
refuse                       is refused with a 400
===========================  ====================================================================

Anything else is echoed. A request for a summary is answered with one; slowly, where somebody has
said "take your time".
"""

from __future__ import annotations

import json
import re
from collections import Counter

from tests.messages_api.received import Received
from tests.messages_api.script import Answer, Failure, Latency, Reply, Thinking, call, overloaded
from tests.messages_api.script import reply as made

LOAD = """\
import pandas as pd

penguins = pd.read_csv("penguins.csv")
penguins.describe()"""

PLOT = """\
import matplotlib.pyplot as plt

figure, axes = plt.subplots()
for species, group in penguins.groupby("species"):
    axes.scatter(group["flipper_length_mm"], group["body_mass_g"], label=species)
axes.set_xlabel("flipper length (mm)")
axes.set_ylabel("body mass (g)")
axes.legend()
plt.show()"""

MARKDOWN = """\
| species | birds |
| --- | ---: |
| Adelie | 152 |
| Gentoo | 124 |

The mean is $\\bar x = \\frac{1}{n} \\sum_i x_i$, in code:

```python
penguins["body_mass_g"].mean()
```
"""

WIDE = """\
| species | island | bill_length_mm | bill_depth_mm | flipper_length_mm | body_mass_g |
| --- | --- | ---: | ---: | ---: | ---: |
| Adelie | Torgersen | 39.1 | 18.7 | 181 | 3750 |

$$\\log p(x) = -\\frac{1}{2} \\log(2 \\pi \\sigma^2) - \\frac{(x_1 - \\mu)^2}{2 \\sigma^2} \
- \\frac{(x_2 - \\mu)^2}{2 \\sigma^2} - \\frac{(x_3 - \\mu)^2}{2 \\sigma^2}$$

It sums up $(x_1 - \\mu)^2 + (x_2 - \\mu)^2 + (x_3 - \\mu)^2 + (x_4 - \\mu)^2$ and $\\sigma$.

```python
penguins.groupby(["species", "island"])[["bill_length_mm", "body_mass_g"]].agg(["mean", "std"])
```
"""

SUMMARY = """\
## Goal
Analyse the penguins.

## Commands and values
`penguins = pd.read_csv("penguins.csv")`: 344 rows, 8 columns.

## State of work
The variable `penguins` holds the data; a figure of body mass by flipper length was drawn.

## Next steps
Answer further questions about `penguins`."""

DESCRIPTION = """\
The data set holds **344 penguins** of three species, measured on three islands of the Palmer \
Archipelago between 2007 and 2009:

- four measures of the body, each missing for two birds
- the sex, missing for eleven

To see how the species differ:

```python
penguins.groupby("species")["body_mass_g"].describe()
```

Gentoo penguins are the heaviest by far. The other two species differ in their bills rather than \
in their mass, and in every species males are heavier than females."""

STORY = "A penguin walked over the ice, and behind it walked another. " * 200

_SUMMARY_TURN = re.compile(r"<compaction-summary>.*?</compaction-summary>", re.DOTALL)

_failed: Counter[str] = Counter()


def respond(request: Received) -> Answer:
    """Answer one request."""
    if "about to be replaced by a summary" in request.user_text:
        slowly = "take your time" in json.dumps(request.messages).lower()
        return Reply(made(SUMMARY).parts, latency=Latency(tokens_per_s=2) if slowly else None)
    said = _SUMMARY_TURN.sub(_last_message, request.user_text)
    for pattern, answer in _ANSWERS:
        found = re.search(pattern, said, re.IGNORECASE | re.DOTALL)
        if found:
            return answer(request, found)
    return made(f"You said: {said.strip() or 'nothing'}")


def _analyse(request: Received, _found: re.Match[str]) -> Answer:
    failure = _failed_call(request)
    if failure:
        return made(failure)
    step = len(request.calls)
    if step == 0:
        return made("I load the data first.", call("insert_cell", source=LOAD))
    if step == 2:
        return made(
            "Now body mass by flipper length.",
            call("insert_cell", source=PLOT),
        )
    if step in (1, 3):
        return made(call("run_cell", cell_id=_cell_id(request.tool_result_text)))
    return made("**Done.** Heavier penguins have longer flippers. The data is in `penguins`.")


def _ask_kernel(request: Received, _found: re.Match[str]) -> Answer:
    if not request.calls:
        return made(call("run_code", code="print(len(penguins), 'rows')"))
    return made(f"The kernel says: {request.tool_result_text.strip()}")


def _run(request: Received, found: re.Match[str]) -> Answer:
    if not request.calls:
        return made(call("run_code", code=found["code"]))
    if "still running" not in request.tool_result_text:
        return made("It has ended.")
    return made("It is under way." if found["how"] == "leave" else call("wait_for_run"))


def _print(request: Received, found: re.Match[str]) -> Answer:
    # A summary in the middle of the turn replaces the call: what it asked for is done.
    if not request.calls and not _SUMMARY_TURN.search(request.user_text):
        lines = int(found[1])
        code = f"for i in range({lines}):\n    print(f'line {{i}} of many, to fill the context')"
        return made(call("run_code", code=code))
    return made("That was long.")


def _think(_request: Received, _found: re.Match[str]) -> Answer:
    return made(Thinking("They ask me to think, so I think it through."), "I have thought.")


def _markdown(_request: Received, _found: re.Match[str]) -> Answer:
    return made(MARKDOWN)


def _wide(_request: Received, _found: re.Match[str]) -> Answer:
    return made(WIDE)


def _story(_request: Received, _found: re.Match[str]) -> Answer:
    return Reply(made(STORY).parts, latency=Latency(tokens_per_s=100))


def _describe(_request: Received, _found: re.Match[str]) -> Answer:
    return Reply(made(DESCRIPTION).parts, latency=Latency(tokens_per_s=8))


def _fail(request: Received, found: re.Match[str]) -> Answer:
    _failed[request.user_text] += 1
    if _failed[request.user_text] <= int(found[1]):
        return overloaded()
    return made("I am back.")


def _refuse(_request: Received, _found: re.Match[str]) -> Answer:
    return Failure(400, "The scenario refuses this.")


_ANSWERS = (
    (r"fail (\d+) times?", _fail),
    (r"refuse", _refuse),
    (r"run and (?P<how>wait|leave):\s+```python\n(?P<code>.*?)\n```", _run),
    (r"print (\d+) lines", _print),
    (r"long story", _story),
    (r"describe", _describe),
    (r"analy[sz]e", _analyse),
    (r"how many|rows|mean", _ask_kernel),
    (r"think", _think),
    (r"wide", _wide),
    (r"table|formula", _markdown),
)


def _last_message(summary: re.Match[str]) -> str:
    """What the user said last, which a summary turn repeats where it replaces it."""
    found = re.search(r"<last_user_message>\n(.*?)\n</last_user_message>", summary[0], re.DOTALL)
    return found[1] if found else ""


def _failed_call(request: Received) -> str | None:
    failed = [result for result in request.tool_results if result.get("is_error")]
    return f"That failed: {request.tool_result_text.strip()}" if failed else None


def _cell_id(text: str) -> str:
    """The id in ``Inserted cell id …`` or ``Inserted cell [id]``."""
    found = re.search(r"cell (?:id )?\[?([A-Za-z0-9_-]+)", text)
    return found[1] if found else "unknown"
