"""Figures of matplotlib, their artists, and what they are drawn with.

What drawing computes and keeps, to be quicker the next time, is saved as not valid any more, which
a fresh figure begins with too: a restored one is drawn anew anyway, and loading it already makes
some of that.
"""

from __future__ import annotations

import importlib
import itertools
from typing import Any

from .pickling import PROTOCOL, Reducing
from .plans import reduces
from .restorers import restorer


@reduces("matplotlib.cbook:CallbackRegistry")
def reduce_callbacks(_pickler: Reducing, registry: Any) -> Any:
    """matplotlib takes a number from the registry each time it is pickled, which would make each
    save find every figure changed."""
    next_number = int(repr(registry._cid_gen)[len("count(") : -1])
    state = registry.__getstate__()
    registry._cid_gen = itertools.count(next_number)
    state["_cid_gen"] = 1 + max(
        (cid for kept in state["callbacks"].values() for cid in kept), default=-1
    )
    return restore_callbacks, (type(registry),), state


@restorer
def restore_callbacks(kind: Any) -> Any:
    return kind.__new__(kind)


@reduces("matplotlib.figure:Figure", subclasses=True)
def reduce_figure(_pickler: Reducing, figure: Any) -> Any:
    """pyplot would number figures in the order in which they are loaded."""
    reduction = _with_state(figure, _stale=True)
    return (*reduction[:3], None, None, set_figure_state) if len(reduction) > 2 else reduction


@restorer
def set_figure_state(figure: Any, state: dict[str, Any]) -> None:
    """With the number that it had, by which ``plt.figure(3)`` finds it, if that is free."""
    attribute = "_number" if "_number" in state else "number"
    number = state.get(attribute) if "_restore_to_pylab" in state else None
    figure.__setstate__(state)
    manager = figure.canvas.manager
    shown: Any = importlib.import_module("matplotlib._pylab_helpers").Gcf.figs
    if number is None or manager is None or number in shown:
        return
    del shown[manager.num]
    shown[number] = manager  # at the end: the one that is current
    manager.num = vars(figure)[attribute] = number


@reduces("matplotlib.colors:Colormap", subclasses=True)
def reduce_colormap(pickler: Reducing, colormap: Any) -> Any:
    """All copies of one colormap have their list of colours in common, and only read it."""
    for colours in (vars(colormap).get("colors"), vars(colormap).get("_segmentdata")):
        if isinstance(colours, (list, dict)):
            parts = colours.values() if isinstance(colours, dict) else colours
            for part in (colours, *parts):
                pickler.context.lent[id(part)] = part
    return NotImplemented


@reduces("matplotlib.path:Path", subclasses=True)
def reduce_path(pickler: Reducing, path: Any) -> Any:
    """All circles have the codes of one circle."""
    codes = path.codes
    if codes is not None and not codes.flags.writeable:
        pickler.context.lent[id(codes)] = codes
    return NotImplemented


@reduces("matplotlib.artist:Artist", subclasses=True)
def reduce_artist(_pickler: Reducing, artist: Any) -> Any:
    return _with_state(artist, _stale=True)


@reduces("matplotlib.transforms:TransformNode", subclasses=True)
def reduce_transform(_pickler: Reducing, node: Any) -> Any:
    """As it was made: what it has computed from others is computed again when it is asked for."""
    invalid = getattr(node, "_INVALID_FULL", None) or getattr(node, "INVALID", None)
    if invalid is None:
        return NotImplemented
    return _with_state(node, _invalid=invalid, _inverted=None)


def _with_state(value: Any, **changed: Any) -> Any:
    """The object's own reduction, with other values for attributes that it has."""
    reduction = value.__reduce_ex__(PROTOCOL)
    if isinstance(reduction, str) or len(reduction) < 3 or not isinstance(reduction[2], dict):
        return reduction
    state = dict(reduction[2])
    state.update((name, new) for name, new in changed.items() if name in state)
    return (*reduction[:2], state, *reduction[3:])
