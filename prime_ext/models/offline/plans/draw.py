"""Plans that draw one or two columns, a frame, or a variable that is not a frame."""

from __future__ import annotations

import re

from prime_ext.models.offline import code, figures
from prime_ext.models.offline import intents as i
from prime_ext.models.offline.bench import Bench
from prime_ext.models.offline.names import matching
from prime_ext.models.offline.observations import Frame, Variable
from prime_ext.models.offline.plans.errors import failed_run
from prime_ext.models.offline.steps import Asking, Plan

_KIND_WORDS = {
    "hist": "a histogram of `{y}`",
    "bar": "bars for `{y}`",
    "scatter": "`{y}` against `{x}`",
    "line": "`{y}` over `{x}`",
    "box": "box plots of `{y}`",
}
_PLOTTABLE = ("ndarray", "Series", "list", "tuple", "array")


def plot(intent: i.Plot, bench: Bench) -> Plan:
    """Insert and run a cell that draws one figure."""
    lone = yield from _lone_variable(intent, bench)
    if lone is not None:
        return (yield from _draw_variable(lone, intent, bench))
    wanted = [name for name in (intent.y, intent.x, intent.color) if name]
    known = [variable.name for variable in (yield from bench.variables()) if variable.is_frame]
    anything = re.fullmatch(r"it|that|this|(?:the )?(?:data|data ?frame|frame|data ?set)", intent.y)
    if intent.x is None and (anything or matching(intent.y, known)):
        frame = yield from bench.frame(intent.y if matching(intent.y, known) else None)
        if not matching(intent.y, frame.names) or intent.y in known:
            return (yield from _draw_frame(frame, bench))
    frame = yield from bench.frame(intent.frame, wanted)
    y = bench.column(frame, intent.y)
    x = bench.column(frame, intent.x) if intent.x else None
    color = bench.column(frame, intent.color) if intent.color else None
    kind = intent.kind
    if kind is None:
        kind, y, x = figures.arrange(y, x)
    elif kind == "scatter" and x is None:
        return f"A scatter plot takes two columns: `scatter {y.name} vs …`."
    elif kind == "hist" and y.kind == "category":
        kind = "bar"
    elif kind == "box" and y.kind != "number" and x is not None and x.kind == "number":
        y, x = x, y
    if color is not None and x is not None and y.kind == x.kind == "number":
        kind = "scatter"
    result = yield from bench.cell(figures.figure(frame.name, kind, y, x, color))
    if result.is_error:
        return (yield from failed_run(result, bench))
    what = _KIND_WORDS[kind].format(y=y.name, x=x.name if x else "its index")
    by = f" by `{x.name}`" if x and kind in ("box", "bar", "hist") else ""
    by += f", coloured by `{color.name}`" if color and kind == "scatter" else ""
    return f"I drew {what}{by} from `{frame.name}`; the figure is below the new cell."


def _lone_variable(intent: i.Plot, bench: Bench) -> Asking[Variable | None]:
    """Return the array, list or series if the intent names a variable rather than a column."""
    if intent.frame is not None:
        return None
    known = {variable.name: variable for variable in (yield from bench.variables())}
    found = known.get(intent.y)
    if found is None or found.type.rsplit(".", 1)[-1] not in _PLOTTABLE:
        return None
    if intent.x is not None and intent.x not in known:
        return None
    return found


def _draw_variable(variable: Variable, intent: i.Plot, bench: Bench) -> Plan:
    kind = intent.kind or ("line" if intent.x is None else "scatter")
    values = f"{intent.x}, {variable.name}" if intent.x else variable.name
    method = {"hist": "hist", "scatter": "scatter", "box": "boxplot"}.get(kind, "plot")
    if method == "scatter" and not intent.x:
        method = "plot"
    source = (
        f"{code.PYPLOT}fig, ax = plt.subplots()\n"
        f"ax.{method}({values}{', bins=30' if method == 'hist' else ''})\n"
        f"ax.set_title({code.string(variable.name)})\n"
        "plt.show()"
    )
    result = yield from bench.cell(source)
    if result.is_error:
        return (yield from failed_run(result, bench))
    return f"I drew `{variable.name}`; the figure is below the new cell."


def _draw_frame(frame: Frame, bench: Bench) -> Plan:
    if not frame.of_kind("number"):
        return f"`{frame.name}` has no numeric column to draw. Name one: `plot COLUMN`."
    source = (
        f"{code.PYPLOT}{frame.name}.hist(bins=30, figsize=(10, 6), grid=False)\n"
        "plt.tight_layout()\nplt.show()"
    )
    result = yield from bench.cell(source)
    if result.is_error:
        return (yield from failed_run(result, bench))
    return f"I drew a histogram of each numeric column of `{frame.name}`."
