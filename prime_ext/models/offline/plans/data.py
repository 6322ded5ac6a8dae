"""Plans that look at data: load it, list it, describe it."""

from __future__ import annotations

import posixpath
import re

from prime_ext.models.offline import code, observations
from prime_ext.models.offline import intents as i
from prime_ext.models.offline.bench import Bench, quoted
from prime_ext.models.offline.names import listed, matching, near, plain, variable_name
from prime_ext.models.offline.observations import Column, Frame
from prime_ext.models.offline.plans.draw import plot
from prime_ext.models.offline.plans.errors import failed_run
from prime_ext.models.offline.steps import Asking, Plan, Stop

_ANY_DATA = re.compile(r"(?:data|data ?set|file|table|it|this|that|data file)s?", re.I)
_SUBFOLDERS = 4
"""Maximum number of subfolders that are searched for a file."""


def load(intent: i.Load, bench: Bench) -> Plan:
    """Find the file, insert a cell that reads it, run it and report the result."""
    path = intent.file
    if not _is_url(path):
        path = yield from find_file(path, bench)
    frame, failure = yield from _read(path, intent.name, bench)
    return failure or f"I loaded `{path}` into `{frame.name}`: {shape(frame)}."


def _read(path: str, name: str | None, bench: Bench) -> Asking[tuple[Frame, str]]:
    there = path if _is_url(path) else bench.from_kernel(path)
    name = name or (yield from _free_name(there, bench))
    result = yield from bench.cell(code.load(name, there), f"I read `{path}` into `{name}`.")
    if result.is_error:
        return Frame(name, ()), (yield from failed_run(result, bench, f"Reading `{path}`"))
    bench.use(name)
    frame = yield from bench.inspect(name)
    return frame, ""


def _free_name(path: str, bench: Bench) -> Asking[str]:
    """Return a variable name for the file: that of an earlier load of it, else an unused one."""
    name = variable_name(path)
    taken = {variable.name for variable in (yield from bench.variables())}
    read_before = re.compile(rf"(?m)^(\w+) = pd\.read_\w+\({re.escape(code.string(path))}")
    inserted = [
        str(call.arguments.get("source", ""))
        for past in bench.conversation.recalled
        for call in past.calls
    ]
    for text in (*inserted, *bench.conversation.earlier):
        found = read_before.search(text)
        if found is not None:
            return found[1]
    free, n = name, 2
    while free in taken:
        free, n = f"{name}_{n}", n + 1
    return free


def find_file(wanted: str, bench: Bench) -> Asking[str]:
    """Return the path, from the server's root, of the data file that ``wanted`` means.

    Raises
    ------
    Stop
        If no file or several match; the message lists the candidates.
    """
    wanted = wanted.replace("\\", "/").removeprefix("./")
    name, named_folder = posixpath.basename(wanted), posixpath.dirname(wanted).strip("/")
    # The path may be relative to the notebook, as in its code, or to the server's root.
    beside = posixpath.normpath(posixpath.join(bench.folder, named_folder))
    seen: list[str] = []
    found: list[str] = []
    for folder in dict.fromkeys(("" if beside == "." else beside, named_folder)):
        found = found or (yield from _in_folder(folder, name, bench, seen))
    subfolders = [path.rstrip("/") for path in seen if path.endswith("/")]
    subfolders.sort(key=lambda path: "data" not in path.lower())
    for folder in subfolders[:_SUBFOLDERS]:
        found = found or (yield from _in_folder(folder, name, bench, seen))
    if len(found) == 1:
        return found[0]
    data = list(dict.fromkeys(path for path in seen if _is_data(path)))
    if found:
        raise Stop(f"Several files fit: {listed(found)}. Which one?")
    if not data:
        raise Stop(f"I found no file “{wanted}”, and no other data file near the notebook.")
    by_name = {posixpath.basename(path): path for path in data}
    close = [by_name[n] for n in near(name, by_name)]
    hint = f"Near it: {listed(close)}." if close else f"Data files there are: {listed(data)}."
    raise Stop(f"I found no file “{wanted}”. {hint}")


def _in_folder(folder: str, name: str, bench: Bench, seen: list[str]) -> Asking[list[str]]:
    """Return the data files in ``folder`` that match ``name``; add all its entries to ``seen``."""
    result = yield from bench.call("list_files", path=folder or None)
    if result.is_error:
        return []
    paths = []
    for entry in observations.files(result.text):
        slash = "/" if entry.endswith("/") else ""
        paths.append(posixpath.join(folder, posixpath.basename(entry.rstrip("/"))) + slash)
    seen += paths
    data = [path for path in paths if _is_data(path)]
    by_name = {posixpath.basename(path): path for path in data}
    if name in by_name:
        return [by_name[name]]
    same = [path for base, path in by_name.items() if base.lower() == name.lower()]
    if same or _is_data(name):
        return same
    if plain(name) in code.READERS or plain(name) == "excel":
        kinds = ("xlsx", "xls") if plain(name) == "excel" else (plain(name),)
        return [path for path in data if code.extension(path) in kinds]
    if _ANY_DATA.fullmatch(name):
        return [path for path in data if code.extension(path) != "txt"]
    stems = {base.split(".")[0]: path for base, path in by_name.items()}
    return [stems[stem] for stem in matching(name, list(stems))]


def _is_url(path: str) -> bool:
    """Whether ``path`` is a URL, which pandas opens by itself in the user's kernel."""
    return re.match(r"(?:https?|s3|gs|ftp)://", path) is not None


def _is_data(path: str) -> bool:
    return "." in path and code.extension(path) in code.READERS


def list_variables(_intent: i.ListVariables, bench: Bench) -> Plan:
    listing = yield from bench.must("list_variables")
    known = observations.variables(listing.text)
    others = observations.other_names(listing.text)
    if not known and not others:
        return "No variables are defined in the kernel."
    parts = []
    if known:
        rows = [f"| `{v.name}` | `{v.type}` | {v.size} | {_short(v.value)} |" for v in known[-40:]]
        parts.append("\n".join(["| name | type | size | value |", "|---|---|---|---|", *rows]))
    if len(known) > 40:
        parts.append(f"and {len(known) - 40} older ones.")
    return "\n\n".join(["Defined in the kernel:", *parts, *others])


def _short(value: str) -> str:
    value = value if len(value) <= 60 else value[:59] + "…"
    return f"`{value.replace('`', chr(39)).replace('|', '¦')}`"


def inspect(intent: i.Inspect, bench: Bench) -> Plan:
    """Describe a variable or, if none matches, a column of the current frame."""
    known = yield from bench.variables()
    by_name = {variable.name: variable for variable in known}
    if intent.name.lower() in ("it", "that", "this", "data", "them") and intent.name not in by_name:
        name = (yield from bench.frame(None)).name
    else:
        found = matching(intent.name, list(by_name))
        if len(found) != 1:
            return (yield from _inspect_column(intent, bench, list(by_name)))
        name = found[0]
    if by_name[name].is_frame:
        bench.use(name)
        frame = yield from bench.inspect(name)
        if intent.aspect == "shape":
            return f"`{name}` has {shape(frame)}."
        if intent.aspect == "type":
            return f"`{name}` is a `{by_name[name].type}`."
        return f"`{name}` has {shape(frame)}:\n\n{columns_table(frame)}"
    result = yield from bench.must("inspect_variable", name=name)
    return f"`{name}` is a `{by_name[name].type}`:\n\n{quoted(result.text)}"


def _inspect_column(intent: i.Inspect, bench: Bench, names: list[str]) -> Plan:
    try:
        frame = yield from bench.frame(None, [intent.name])
        found = matching(intent.name, frame.names)
    except Stop:
        found = []
    if len(found) == 1:
        return (yield from describe(i.Describe(intent.name), bench))
    close = near(intent.name, names)
    hint = f" Near it: {listed(close)}." if close else ""
    if not close and names:
        hint = f" There are {listed(names)}."
    return f"There is no variable `{intent.name}` in the kernel.{hint}"


def describe(intent: i.Describe, bench: Bench) -> Plan:
    """Report shape, columns and ``describe()`` of a frame, or describe one of its columns."""
    target = intent.target
    if target is not None and intent.frame is None:
        known = yield from bench.variables()
        found = matching(target, [v.name for v in known if v.is_frame])
        if found:
            return (yield from _describe_frame((yield from bench.frame(found[0])), bench))
        if any(variable.name == target for variable in known):
            return (yield from inspect(i.Inspect(target), bench))
    frame = yield from bench.frame(intent.frame, [target] if target else [])
    if target is None:
        return (yield from _describe_frame(frame, bench))
    column = bench.column(frame, target)
    source = (
        f"{frame.name}[{code.string(column.name)}].describe()"
        if column.kind in ("number", "time")
        else code.value_counts(frame.name, column.name)
    )
    result = yield from bench.cell(source)
    if result.is_error:
        return (yield from failed_run(result, bench))
    output = quoted(observations.output(result.text))
    return f"`{column.name}` of `{frame.name}` (`{column.dtype}`):\n\n{output}"


def _describe_frame(frame: Frame, bench: Bench) -> Plan:
    result = yield from bench.cell(f'{frame.name}.describe(include="all")')
    if result.is_error:
        return (yield from failed_run(result, bench))
    return (
        f"`{frame.name}` has {shape(frame)}:\n\n{columns_table(frame)}\n\n"
        "Count, mean, quartiles and the like are in the new cell."
    )


def analyse(intent: i.Analyse, bench: Bench) -> Plan:
    """Take a first look: load a file if needed, then describe, missing values and a figure."""
    said = []
    known = [v.name for v in (yield from bench.variables()) if v.is_frame]
    target = intent.target
    if (target is not None and not matching(target, known)) or (target is None and not known):
        path = yield from find_file(target or "data", bench)
        frame, failure = yield from _read(path, None, bench)
        if failure:
            return failure
        said.append(f"I loaded `{path}` into `{frame.name}`.")
    else:
        frame = yield from bench.frame(target)
    said.append((yield from _describe_frame(frame, bench)))
    result = yield from bench.cell(code.missing(frame.name, None))
    if result.is_error:
        return "\n\n".join([*said, (yield from failed_run(result, bench))])
    said.append(f"Missing values:\n\n{quoted(observations.output(result.text))}")
    numbers = measures(frame)
    groups = frame.of_kind("category", "flag")
    if numbers:
        by = groups[0].name if groups else None
        said.append((yield from plot(i.Plot(numbers[-1].name, by, frame=frame.name), bench)))
    return "\n\n".join(said)


def measures(frame: Frame) -> list[Column]:
    """Return the numeric columns, except ids, indices and years."""
    numbers = frame.of_kind("number")
    return [c for c in numbers if not re.fullmatch(r"(?:.*[_ ])?(?:id|index|year)", c.name, re.I)]


def shape(frame: Frame) -> str:
    columns = f"{len(frame.columns)} column{'s' if len(frame.columns) != 1 else ''}"
    return f"{frame.rows:,} rows, {columns}" if frame.rows is not None else columns


def columns_table(frame: Frame) -> str:
    lines = ["| column | type | missing |", "|---|---|---|"]
    for column in frame.columns[:40]:
        missing = "" if column.missing is None else column.missing
        lines.append(f"| `{column.name}` | `{column.dtype}` | {missing} |")
    if len(frame.columns) > 40:
        lines += ["", f"and {len(frame.columns) - 40} more."]
    return "\n".join(lines)
