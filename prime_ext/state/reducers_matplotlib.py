"""Figures of matplotlib, their artists, and their transforms, colormaps and paths.

Results that drawing caches are saved as invalid, as they are in a new figure: a restored figure is
drawn again anyway, and loading it already computes some of them. So drawing a figure does not
change how it is saved.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
from typing import Any

from .pickling import PROTOCOL, Reducing
from .plans import module_of, reduces
from .restorers import restorer


@reduces("matplotlib.cbook:CallbackRegistry")
def reduce_callbacks(pickler: Reducing, registry: Any) -> Any:
    """Reduce a registry with the notebook's callbacks, and without using up one of its ids.

    matplotlib's own reduction leaves these callbacks out, and uses up an id, so each save would
    find every figure changed.
    """
    next_number = int(repr(registry._cid_gen)[len("count(") : -1])
    state = registry.__getstate__()
    registry._cid_gen = itertools.count(next_number)
    for signal, callbacks in registry.callbacks.items():
        for cid, proxy in callbacks.items():
            callback = proxy()
            if _stays_connected(pickler, signal, callback):
                state["callbacks"].setdefault(signal, {})[cid] = callback
    state["_cid_gen"] = 1 + max(
        (cid for kept in state["callbacks"].values() for cid in kept), default=-1
    )
    return restore_callbacks, (type(registry),), state


def _stays_connected(pickler: Reducing, signal: str, callback: Any) -> bool:
    """Return whether it is the notebook's callback, or one by which a colorbar follows its image.

    Other callbacks of matplotlib are connected anew when a figure is loaded.
    """
    while isinstance(callback, functools.partial):
        callback = callback.func
    for cell in getattr(callback, "__closure__", None) or ():
        # A widget connects a function of its own that calls the notebook's.
        with contextlib.suppress(ValueError):
            if _is_own(pickler, cell.cell_contents):
                return True
    if _is_own(pickler, callback):
        return True
    owner = getattr(callback, "__self__", None)
    return signal == "changed" and module_of(type(owner)).startswith("matplotlib.")


def _is_own(pickler: Reducing, callback: Any) -> bool:
    while isinstance(callback, functools.partial):
        callback = callback.func
    if getattr(callback, "__globals__", None) is pickler.context.namespace:
        return True
    return module_of(type(getattr(callback, "__self__", None))) == "__main__"


@restorer
def restore_callbacks(kind: Any) -> Any:
    return kind.__new__(kind)


@reduces("matplotlib.figure:Figure", subclasses=True)
def reduce_figure(_pickler: Reducing, figure: Any) -> Any:
    """Reduce a figure so that it keeps its number; pyplot would number figures as they load."""
    reduction = _with_state(figure, _stale=True)
    return (*reduction[:3], None, None, set_figure_state) if len(reduction) > 2 else reduction


@restorer
def set_figure_state(figure: Any, state: dict[str, Any]) -> None:
    """Fill a figure and give it back its number, which ``plt.figure(3)`` looks up, if free."""
    attribute = "_number" if "_number" in state else "number"
    number = state.get(attribute) if "_restore_to_pylab" in state else None
    figure.__setstate__(state)
    manager = figure.canvas.manager
    shown: Any = importlib.import_module("matplotlib._pylab_helpers").Gcf.figs
    if number is None or manager is None or number in shown:
        return
    del shown[manager.num]
    shown[number] = manager  # the last entry is the current figure
    manager.num = vars(figure)[attribute] = number


@reduces("matplotlib.colors:Colormap", subclasses=True)
def reduce_colormap(pickler: Reducing, colormap: Any) -> Any:
    """Note a colormap's colours as lent: copies of a colormap share them and only read them."""
    for colours in (vars(colormap).get("colors"), vars(colormap).get("_segmentdata")):
        if isinstance(colours, (list, dict)):
            parts = colours.values() if isinstance(colours, dict) else colours
            for part in (colours, *parts):
                pickler.context.lent[id(part)] = part
    return NotImplemented


@reduces("matplotlib.path:Path", subclasses=True)
def reduce_path(pickler: Reducing, path: Any) -> Any:
    """Note read-only codes of a path as lent: all circles, for example, share those of one."""
    codes = path.codes
    if codes is not None and not codes.flags.writeable:
        pickler.context.lent[id(codes)] = codes
    return NotImplemented


@reduces("matplotlib.artist:Artist", subclasses=True)
def reduce_artist(_pickler: Reducing, artist: Any) -> Any:
    return _with_state(artist, _stale=True)


@reduces("matplotlib.transforms:TransformNode", subclasses=True)
def reduce_transform(_pickler: Reducing, node: Any) -> Any:
    """Reduce a transform as invalid: cached results are computed again when they are needed."""
    invalid = getattr(node, "_INVALID_FULL", None) or getattr(node, "INVALID", None)
    if invalid is None:
        return NotImplemented
    return _with_state(node, _invalid=invalid, _inverted=None)


def _with_state(value: Any, **changed: Any) -> Any:
    """Return the object's own reduction, with other values for existing attributes."""
    reduction = value.__reduce_ex__(PROTOCOL)
    if isinstance(reduction, str) or len(reduction) < 3 or not isinstance(reduction[2], dict):
        return reduction
    state = dict(reduction[2])
    state.update((name, new) for name, new in changed.items() if name in state)
    return (*reduction[:2], state, *reduction[3:])
