"""Matplotlib code for one or two columns; their types determine the kind of figure."""

from __future__ import annotations

from prime_ext.models.offline.code import PANDAS, PYPLOT, string
from prime_ext.models.offline.observations import Column


def arrange(y: Column, x: Column | None) -> tuple[str, Column, Column | None]:
    """Return the kind of figure for two columns, then the column for the y and for the x axis.

    The kind is ``hist``, ``bar``, ``scatter``, ``line`` or ``box``. In ``box`` and ``hist`` the x
    column defines the groups.
    """
    if x is None:
        return ("hist" if y.kind in ("number", "time") else "bar"), y, None
    groups = ("category", "flag")
    if y.kind in groups and x.kind in groups:
        return "bar", y, x
    if y.kind in groups:
        y, x = x, y
    if x.kind in groups:
        return ("box" if y.kind == "number" else "hist"), y, x
    if y.kind == "time" and x.kind == "number":
        y, x = x, y
    return ("line" if x.kind == "time" and y.kind == "number" else "scatter"), y, x


def figure(frame: str, kind: str, y: Column, x: Column | None, color: Column | None) -> str:
    """Return the source of a cell that draws one figure with labelled axes and a title."""
    if x is None:
        body = _one(frame, kind, y)
    elif kind == "box":
        body = (
            f"ax = {frame}.boxplot(column={string(y.name)}, by={string(x.name)}, grid=False)\n"
            f"ax.set_ylabel({string(y.name)})\n"
            f"ax.set_title({string(f'{y.name} by {x.name}')})\n"
            'ax.figure.suptitle("")\n'
        )
    elif kind == "scatter":
        body = _scatter(frame, y, x, color)
    elif kind == "bar":
        body = _bars(frame, y, x)
    elif kind == "hist":
        body = (
            "fig, ax = plt.subplots()\n"
            f"{frame}.groupby({string(x.name)})[{string(y.name)}]"
            ".hist(bins=30, alpha=0.6, ax=ax, grid=False, legend=True)\n"
            f"ax.set_xlabel({string(y.name)})\n"
            f"ax.set_title({string(f'{y.name} by {x.name}')})\n"
        )
    else:
        source = f"{frame}.sort_values({string(x.name)})"
        body = (
            f"ax = {source}.plot.line(x={string(x.name)}, y={string(y.name)})\n"
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
        return f"ax = {column}.plot.box()\nax.set_title({string(y.name)})\n"
    if kind == "line":
        return (
            f"ax = {column}.plot.line()\n"
            f"ax.set_ylabel({string(y.name)})\n"
            f"ax.set_title({string(y.name)})\n"
        )
    draw = "hist(bins=30, grid=False)" if y.kind == "time" else "plot.hist(bins=30)"
    return (
        f"ax = {column}.{draw}\n"
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


def _scatter(frame: str, y: Column, x: Column, color: Column | None) -> str:
    across, up = f"{frame}[{string(x.name)}]", f"{frame}[{string(y.name)}]"
    if color is None:
        points = f"ax.scatter({across}, {up})\n"
    elif color.kind == "number":
        points = (
            f"points = ax.scatter({across}, {up}, c={frame}[{string(color.name)}])\n"
            f"fig.colorbar(points, label={string(color.name)})\n"
        )
    else:
        # No loop, since its variables would remain in the user's namespace.
        points = (
            f"{frame}.set_index({string(x.name)}).groupby({string(color.name)})"
            f'[{string(y.name)}].plot(style="o", ax=ax, legend=True)\n'
        )
    return (
        f"fig, ax = plt.subplots()\n{points}"
        f"ax.set_xlabel({string(x.name)})\n"
        f"ax.set_ylabel({string(y.name)})\n"
        f"ax.set_title({string(f'{y.name} by {x.name}')})\n"
    )
