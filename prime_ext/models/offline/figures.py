"""Matplotlib code for a column, or one column by another; the types choose the kind."""

from __future__ import annotations

from prime_ext.models.offline.code import PANDAS, PYPLOT, string
from prime_ext.models.offline.observations import Column


def choose(y: Column, x: Column | None) -> str:
    """``hist``, ``bar``, ``scatter``, ``line`` or ``box``."""
    if x is None:
        return {"number": "hist", "time": "hist"}.get(y.kind, "bar")
    if x.kind == "time":
        return "line"
    if y.kind == "number":
        return "scatter" if x.kind == "number" else "box"
    return "bar"


def figure(frame: str, kind: str, y: Column, x: Column | None, color: Column | None) -> str:
    """Source of a cell that draws one figure with labelled axes and a title."""
    if x is None:
        body = _one(frame, kind, y)
    elif kind == "box":
        body = (
            f"ax = {frame}.boxplot(column={string(y.name)}, by={string(x.name)}, grid=False)\n"
            f"ax.set_ylabel({string(y.name)})\n"
            f"ax.set_title({string(f'{y.name} by {x.name}')})\n"
            'ax.figure.suptitle("")\n'
        )
    elif kind == "scatter" and color is not None:
        body = _scatter_by(frame, y, x, color)
    elif kind == "bar":
        body = _bars(frame, y, x)
    elif kind == "hist":
        body = (
            "fig, ax = plt.subplots()\n"
            f"for value, group in {frame}.groupby({string(x.name)}):\n"
            f"    ax.hist(group[{string(y.name)}].dropna(), bins=30, alpha=0.6, label=str(value))\n"
            f"ax.set_xlabel({string(y.name)})\n"
            f"ax.legend(title={string(x.name)})\n"
            f"ax.set_title({string(f'{y.name} by {x.name}')})\n"
        )
    else:
        source = f"{frame}.sort_values({string(x.name)})" if kind == "line" else frame
        body = (
            f"ax = {source}.plot.{kind}(x={string(x.name)}, y={string(y.name)})\n"
            f"ax.set_ylabel({string(y.name)})\n"
            f"ax.set_title({string(f'{y.name} by {x.name}')})\n"
        )
    imports = PYPLOT
    if "pd." in body:
        imports = PYPLOT.rstrip("\n") + "\n" + PANDAS
    return f"{imports}{body}plt.show()"


def _one(frame: str, kind: str, y: Column) -> str:
    column = f"{frame}[{string(y.name)}]"
    if kind == "bar":
        return (
            f"ax = {column}.value_counts().plot.bar(rot=0)\n"
            'ax.set_ylabel("count")\n'
            f"ax.set_title({string(f'Counts of {y.name}')})\n"
        )
    if kind == "box":
        return (
            f"ax = {column}.plot.box()\n"
            f"ax.set_title({string(y.name)})\n"
        )
    if kind == "line":
        return (
            f"ax = {column}.plot.line()\n"
            f"ax.set_ylabel({string(y.name)})\n"
            f"ax.set_title({string(y.name)})\n"
        )
    return (
        f"ax = {column}.{'hist(bins=30, grid=False)' if y.kind == 'time' else 'plot.hist(bins=30)'}\n"
        f"ax.set_xlabel({string(y.name)})\n"
        f"ax.set_title({string(f'Distribution of {y.name}')})\n"
    )


def _bars(frame: str, y: Column, x: Column) -> str:
    if y.kind == "number":
        return (
            f"ax = {frame}.groupby({string(x.name)})[{string(y.name)}].mean().plot.bar(rot=0)\n"
            f"ax.set_ylabel({string(f'mean of {y.name}')})\n"
            f"ax.set_title({string(f'mean of {y.name} by {x.name}')})\n"
        )
    return (
        f"counts = pd.crosstab({frame}[{string(x.name)}], {frame}[{string(y.name)}])\n"
        "ax = counts.plot.bar(stacked=True, rot=0)\n"
        'ax.set_ylabel("count")\n'
        f"ax.set_title({string(f'{y.name} by {x.name}')})\n"
    )


def _scatter_by(frame: str, y: Column, x: Column, color: Column) -> str:
    title = string(f"{y.name} by {x.name}")
    if color.kind in ("number", "time"):
        return (
            f"ax = {frame}.plot.scatter(x={string(x.name)}, y={string(y.name)}, "
            f'c={string(color.name)}, colormap="viridis")\n'
            f"ax.set_title({title})\n"
        )
    return (
        "fig, ax = plt.subplots()\n"
        f"for value, group in {frame}.groupby({string(color.name)}):\n"
        f"    ax.scatter(group[{string(x.name)}], group[{string(y.name)}], label=str(value))\n"
        f"ax.set_xlabel({string(x.name)})\n"
        f"ax.set_ylabel({string(y.name)})\n"
        f"ax.legend(title={string(color.name)})\n"
        f"ax.set_title({title})\n"
    )
