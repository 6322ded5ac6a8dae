"""Plans about the agent itself: help, what it is, how to connect a model, compaction."""

from __future__ import annotations

import contextlib
import re

from prime_ext.models.offline import intents as i
from prime_ext.models.offline import observations
from prime_ext.models.offline.bench import Bench
from prime_ext.models.offline.code import READERS, extension
from prime_ext.models.offline.plans import data
from prime_ext.models.offline.steps import Asking, Plan, Stop

CONNECT = """\
To connect a language model, do one of these:

- In the panel: **Connect a model**, then enter an API key. It is kept on the server.
- Before starting Jupyter: `export PRIME_API_KEY=…` (or `ANTHROPIC_API_KEY`).
- For a server of your own that speaks the Messages API (llama.cpp, Ollama, vLLM, LM Studio, \
LiteLLM): start Jupyter with `--ModelConfig.base_url=http://localhost:PORT`.

A new session then uses the model. Until then everything stays on this machine."""

ABOUT = """\
I am the offline agent: a set of rules, not a language model. I understand a fixed range of \
requests about data and notebooks, answer the same way each time, and send nothing anywhere. \
What I cannot do is reason, write new code for a task described in words, or understand free \
text. A connected model can; `how do I connect a model` says how."""

HELP = """\
I am the offline agent: rules, not a language model. What I can do, in your own words or like this:

- **Data**: `load FILE.csv` (also TSV, Parquet, Excel, JSON), `describe the data`, \
`show 10 random rows`, `missing values`, `analyse FILE.csv`
- **Numbers**: `mean of A by B`, `value counts of A`, `correlation between A and B`, `top 5 by A`, \
`filter rows where A > 3 and B is x`, `sort by A descending`, `add a column C = A / B`
- **Figures**: `plot A`, `plot A by B`, `histogram of A`, `scatter A vs B colored by C`
- **Kernel**: `what variables are there`, `inspect NAME`, `run: print(1 + 1)`, or send a fenced \
code block
- **Notebook**: `read the notebook`, `add a cell with …`, `run cell 3`, `in cell 3 replace "a" \
with "b"`, `explain the error`
- **Files and memory**: `list files`, `read FILE`, `what was the exact …` searches this session's \
record

Several at once work too: `load x.csv and plot A by B`. `/tour` shows every feature in a few \
minutes, `/compact` shortens the conversation."""


def help_(_intent: i.Help, bench: Bench) -> Plan:
    lines = yield from examples(bench)
    return f"{HELP}\n\nWith this notebook, try:\n{lines}"


def greeting(_intent: i.Greeting, bench: Bench) -> Plan:
    lines = yield from examples(bench)
    return (
        "Hello. I am the offline agent: I load, describe, compute and plot by fixed rules, without "
        f"a language model. Try:\n{lines}\n\n`/help` lists what I can do, `/tour` shows it."
    )


def thanks(_intent: i.Thanks, _bench: Bench) -> Plan:
    yield from ()
    return "You are welcome."


def about(_intent: i.About, _bench: Bench) -> Plan:
    yield from ()
    return ABOUT


def connect(_intent: i.ConnectModel, _bench: Bench) -> Plan:
    yield from ()
    return CONNECT


def compact(intent: i.Compact, bench: Bench) -> Plan:
    if "compact_context" not in bench.conversation.tools:
        return "Send `/compact` on its own: the panel then compacts the conversation."
    yield from bench.must(
        "compact_context", "I compact the conversation now.", instructions=intent.instructions
    )
    return "Done. The raw records stay searchable: ask `what was the exact …`."


def unknown(intent: i.Unknown, bench: Bench) -> Plan:
    """Inspect a single word that names a variable or column; otherwise list examples."""
    word = intent.text.strip().strip("`'\"?.!")
    if re.fullmatch(r"[A-Za-z_]\w*", word):
        with contextlib.suppress(Stop):
            if any(variable.name == word for variable in (yield from bench.variables())):
                return (yield from data.inspect(i.Inspect(word), bench))
            if word in (yield from bench.frame(None, [word])).names:
                return (yield from data.describe(i.Describe(word), bench))
    lines = yield from examples(bench)
    return (
        "I do not understand that: I am the offline agent and follow fixed rules. I can do things "
        f"like\n{lines}\n\n`/help` lists the rest. For free requests connect a model: "
        "**Connect a model** in the panel, or set `PRIME_API_KEY`."
    )


def examples(bench: Bench) -> Asking[str]:
    """Return a list of three requests that suit the notebook's current variables and files."""
    try:
        found = yield from _fitting(bench)
    except Stop:
        found = []
    rest = ["`list files`", "`what variables are there`", "`/tour`"]
    return "\n".join(f"- {example}" for example in [*found, *rest][:3])


def _fitting(bench: Bench) -> Asking[list[str]]:
    names = [v.name for v in (yield from bench.variables()) if v.is_frame]
    if not names:
        listing = yield from bench.call("list_files", path=bench.folder or None)
        files = [] if listing.is_error else observations.files(listing.text)
        data = [file for file in files if extension(file) in READERS and extension(file) != "txt"]
        if not data:
            return []
        return [f"`load {data[0]}`", f"`analyse {data[0]}`", "`/tour`"]
    frame = yield from bench.frame(None)
    numbers, groups = frame.of_kind("number"), frame.of_kind("category", "flag")
    found = []
    if numbers and groups:
        found.append(f"`plot {numbers[0].name} by {groups[0].name}`")
        found.append(f"`mean of {numbers[-1].name} by {groups[-1].name}`")
    elif len(numbers) > 1:
        found.append(f"`plot {numbers[0].name} vs {numbers[1].name}`")
        found.append(f"`correlation between {numbers[0].name} and {numbers[1].name}`")
    found.append(f"`describe {frame.name}`")
    return found
