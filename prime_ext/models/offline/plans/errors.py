"""Plans that explain an error by its facts; rules cannot give advice on the code."""

from __future__ import annotations

import contextlib
import re

from prime_ext.models.offline import observations, tracebacks
from prime_ext.models.offline.bench import Bench, quoted
from prime_ext.models.offline.conversation import Result
from prime_ext.models.offline.intents import ExplainError
from prime_ext.models.offline.names import listed, matching, near
from prime_ext.models.offline.steps import Asking, Plan, Stop
from prime_ext.models.offline.tracebacks import Traceback


def explain(intent: ExplainError, bench: Bench) -> Plan:
    """Explain a pasted or attached traceback, else the last one of the session or notebook."""
    text = intent.traceback or next(
        (a.text for a in bench.conversation.attachments if tracebacks.parse(a.text)), None
    )
    where = ""
    if text is None:
        text, where = yield from _last(bench)
    found = tracebacks.parse(text) if text else None
    if found is None:
        return "I found no traceback, neither in the notebook's outputs nor in this conversation."
    return where + (yield from facts(found, bench))


def _last(bench: Bench) -> Asking[tuple[str | None, str]]:
    """Return the traceback of this session's last run, else the last one in the notebook."""
    ran = next(
        (
            result
            for past in reversed(bench.conversation.earlier_rounds)
            for call, result in reversed(list(zip(past.calls, past.results, strict=True)))
            if call.name in ("run_code", "run_cell")
        ),
        None,
    )
    if ran is not None and tracebacks.parse(ran.text) is not None:
        return ran.text, ""
    read = yield from bench.must("read_notebook")
    for cell in reversed(observations.cells(read.text)):
        if tracebacks.parse(cell.outputs) is not None:
            return cell.outputs, f"The last error in the notebook is in cell {cell.position}.\n\n"
    if tracebacks.parse(read.text) is not None:
        return read.text, ""
    return None, ""


def facts(error: Traceback, bench: Bench) -> Plan:
    """Report the facts of an error, and existing names similar to the one it is about."""
    lines = [f"**{error.type}**" + (f": {error.message}" if error.message else "")]
    if error.line is not None:
        # The traceback of code run outside the notebook has the execution count of the next cell.
        in_cell = error.cell is not None and not _ran_outside(error, bench)
        place = f"in `In[{error.cell}]`, " if in_cell else ""
        lines.append(f"- Where: {place}line {error.line}")
    if error.code:
        lines.append(f"- The line: `{error.code}`")
    if error.raised_in:
        lines.append(f"- Raised in: `{error.raised_in}`")
    with contextlib.suppress(Stop):  # the kernel may be gone; keep the facts above
        lines += yield from _names(error, bench)
    return "\n".join(lines)


def _ran_outside(error: Traceback, bench: Bench) -> bool:
    """Whether the last run was a ``run_code`` call with the failing line in its code."""
    conversation = bench.conversation
    past = [*conversation.earlier_rounds, *conversation.recalled, *conversation.rounds]
    runs = [call for one in past for call in one.calls if call.name in ("run_code", "run_cell")]
    code = str(runs[-1].arguments.get("code", "")) if runs else ""
    return bool(error.code) and error.code in code


def _names(error: Traceback, bench: Bench) -> Asking[list[str]]:
    subject, kind = error.subject, error.type.rsplit(".", 1)[-1]
    if not subject:
        return []
    if kind in ("NameError", "UnboundLocalError"):
        return (yield from _about_variable(subject, bench))
    if kind == "KeyError":
        return (yield from _about_key(error, bench))
    if kind in ("ModuleNotFoundError", "ImportError"):
        return [f"- `{subject}` cannot be imported in the kernel's Python environment."]
    if kind == "FileNotFoundError":
        return (yield from _about_file(subject, bench))
    if kind == "AttributeError":
        about = [f"- `{error.owner}` has no attribute `{subject}`."] if error.owner else []
        if error.owner.endswith("DataFrame"):
            about += yield from _about_key(error, bench)
        return about
    return []


def _about_variable(name: str, bench: Bench) -> Asking[list[str]]:
    known = [variable.name for variable in (yield from bench.variables())]
    if name in known:
        return [f"- `{name}` exists in the kernel by now; it did not when the code ran."]
    lines = [f"- No variable `{name}` exists in the kernel."]
    close = near(name, known)
    if close:
        lines.append(f"- Names near it: {listed(close)}")
    elif known:
        lines.append(f"- Variables there are: {listed(known)}")
    return lines


def _about_key(error: Traceback, bench: Bench) -> Asking[list[str]]:
    """Look for the missing name among the columns of the frames in the failing line."""
    frames = [v.name for v in (yield from bench.variables()) if v.is_frame]
    named = [name for name in frames if re.search(rf"\b{re.escape(name)}\b", error.code)]
    lines: list[str] = []
    for name in (named or frames)[:2]:
        columns = (yield from bench.inspect(name)).names
        if not columns:
            continue
        if error.subject in columns:
            lines.append(f"- `{name}` has a column `{error.subject}`.")
            continue
        close = matching(error.subject, columns) or near(error.subject, columns)
        lines.append(f"- `{name}` has no column `{error.subject}`.")
        lines.append(
            f"- Columns near it: {listed(close)}" if close else f"- Its columns: {listed(columns)}"
        )
    return lines


def _about_file(path: str, bench: Bench) -> Asking[list[str]]:
    folder = re.split(r"[\\/]", path)
    result = yield from bench.call("list_files", path=bench.folder or None)
    if result.is_error:
        return []
    there = observations.files(result.text)
    close = near(folder[-1], there)
    return [f"- Files near it in the notebook's folder: {listed(close)}"] if close else []


def failed_run(result: Result, bench: Bench, what: str = "The cell") -> Plan:
    """Report the error of a run that raised, without running it again."""
    found = tracebacks.parse(result.text)
    if found is None:
        return f"{what} failed:\n\n{quoted(result.text)}"
    return f"{what} failed.\n\n" + (yield from facts(found, bench))
