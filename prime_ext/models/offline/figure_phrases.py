"""Rules for requests for figures."""

from __future__ import annotations

from prime_ext.models.offline import intents as i
from prime_ext.models.offline.compute_phrases import FUNCTIONS, functions
from prime_ext.models.offline.grammar import Found, match, rule
from prime_ext.models.offline.phrases import column_and_frame, names

KINDS = {
    "hist": "hist", "histogram": "hist", "histograms": "hist", "distribution": "hist",
    "distributions": "hist", "density": "hist",
    "bar": "bar", "barplot": "bar", "bar chart": "bar", "bar plot": "bar", "bar graph": "bar",
    "column chart": "bar", "barchart": "bar",
    "scatter": "scatter", "scatterplot": "scatter", "scatter plot": "scatter",
    "scatter chart": "scatter", "scatter graph": "scatter",
    "line": "line", "line plot": "line", "line chart": "line", "line graph": "line",
    "time series": "line", "lineplot": "line",
    "box": "box", "box plot": "box", "boxplot": "box", "boxplots": "box", "box plots": "box",
}  # fmt: skip
_KIND = "{kind:" + "|".join(KINDS) + "}"
_BY = "[<versus> {x}] <color>"
_AGGREGATE = f"[the] {FUNCTIONS} [of] {{col}}"


def _plot(found: Found) -> i.Intent:
    kind = KINDS[found.text("kind").lower()] if found["kind"] else None
    y, frame_y = column_and_frame(found["y"])
    x, frame_x = column_and_frame(found["x"])
    color, frame_color = column_and_frame(found["color"])
    frame = frame_x or frame_y or frame_color
    aggregate = match(_AGGREGATE, y)
    if aggregate is not None and x:
        columns = names(aggregate["col"])
        return i.Aggregate(functions(aggregate)[:1], columns, names(x), frame, plot=True)
    pair = names(y)
    if not x and len(pair) == 2 and kind != "hist":
        y, x = pair if kind in ("box", "bar") else pair[::-1]
    return i.Plot(y, x or None, kind, frame, color or None)


def _heat_map(_found: Found) -> i.Intent:
    return i.Correlation((), None, plot=True)


RULES = [
    rule(
        _heat_map,
        "[<draw>] [a|an|the] [correlation] (heatmap|heat map) [of *]",
    ),
    rule(
        _plot,
        "[<draw>] [the] (relation|relationship) between {y} and {x} <color>",
        f"[<draw>] [a|an|the] {_KIND} [plots?|charts?|graphs?|diagram|figure] "
        f"(of|for|with|showing) {{y}} {_BY}",
        f"[<draw>] {{y}} [<versus> {{x}}] (as|in|using|with) (a|an) {_KIND} [plot|chart|graph]",
        f"{{kind:scatter|histogram|hist|boxplot|bar plot|line plot}} {{y}} {_BY}",
        "(plot|draw|graph|chart|visualize|visualise) [a (plot|figure|graph|chart) of] {y} " + _BY,
        "(show|make|create|draw|give) [me] (a|the) (plot|figure|graph|chart|picture) "
        "(of|for|with) {y} " + _BY,
        "how (is|are|does|do) {y} (distributed|look)",
        "how (does|do) {y} (vary|varies|change|depend|differ) (with|by|across|on|over|between) {x}",
        "compare {y} (by|across|between|per|for each|against|with|and|to) {x}",
        "[show [me]] {y:words} (vs.?|versus|against) {x:words} <color>",
    ),
]

LAST_RULES = [rule(_plot, "{y:words} by {x:words} <color>")]
"""Tried after all other rules: "body mass by species" on its own."""
