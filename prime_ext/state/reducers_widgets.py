"""Widgets of ipywidgets and other objects with traits: their values, and the callbacks that observe
them.

A restored widget has its values, its children, the notebook's callbacks, and a model with the same
id in the front end. The views in cell outputs ended with the old kernel: running a cell that
displays the widget displays it again.
"""

from __future__ import annotations

import importlib
from typing import Any

from .pickling import PROTOCOL, Reducing
from .plans import made_plan, module_of, reduces
from .restorers import restorer
from .unrestorable import Unrestorable

_BROWSER = "it is tied to a view in the browser"
_NOT_SAVED = frozenset({"comm", "keys", "log"})
"""Traits that a widget gets anew. All others are saved: a selection, for example, keeps its options
and its value in traits that are not sent to the browser."""

_OWN_WAY = ("_trait_values", "_trait_notifiers", "_trait_validators", "_model_id")


@reduces("comm.base_comm:BaseComm", subclasses=True)
def reduce_comm(pickler: Reducing, value: Any) -> Any:
    return pickler.lose(value, _BROWSER)


@reduces("ipywidgets.widgets.widget:Widget", subclasses=True)
def reduce_widget(pickler: Reducing, widget: Any) -> Any:
    kind = type(widget)
    if module_of(kind).partition(".")[0] not in ("ipywidgets", "__main__"):
        return pickler.lose(widget, _BROWSER)  # it may have state that only its library knows of
    if widget.comm is None:
        return pickler.lose(widget, "it is closed")
    values = {n: value for n, value in widget._trait_values.items() if n not in _NOT_SAVED}
    handlers = _handlers(widget)
    attributes = {name: value for name, value in vars(widget).items() if name not in _OWN_WAY}
    state = widget.model_id, values, attributes, handlers
    return restore_widget, (kind,), state, None, None, set_widget


def _handlers(owner: Any) -> list[tuple[Any, str, Any]]:
    """Return name, event and handler of each observer, except for those of the class.

    Each new instance has the latter anyway.
    """
    of_the_class = importlib.import_module("traitlets").EventHandler
    return [
        (name, event, handler)
        for name, events in owner._trait_notifiers.items()
        for event, found in events.items()
        for handler in found
        if not isinstance(handler, of_the_class)
    ]


def _observe(owner: Any, handlers: list[tuple[Any, str, Any]]) -> None:
    for name, event, handler in handlers:
        if not isinstance(handler, Unrestorable):
            owner.observe(handler, name, event)


@reduces("traitlets.traitlets:HasTraits", subclasses=True)
def reduce_traits(pickler: Reducing, value: Any) -> Any:
    """Add the observers to the reduction, as traitlets leaves them out."""
    kind = type(value)
    reduction = made_plan(pickler, kind)(pickler, value)
    handlers = _handlers(value)
    if not handlers:
        return reduction
    if reduction is NotImplemented:
        reduction = value.__reduce_ex__(PROTOCOL)
    if not isinstance(reduction, tuple) or len(reduction) > 5:
        return reduction
    made, args, state, items, pairs = (*reduction, None, None, None)[:5]
    return made, args, (state, handlers), items, pairs, set_traits


@restorer
def set_traits(value: Any, state: tuple[Any, ...]) -> None:
    own, handlers = state
    if own is not None:
        value.__setstate__(own)
    _observe(value, handlers)


@restorer
def restore_widget(kind: Any) -> Any:
    return kind.__new__(kind)  # __init__ would open an empty model in the front end


@restorer
def set_widget(widget: Any, state: tuple[Any, ...]) -> None:
    model_id, values, attributes, handlers = state
    vars(widget).update(attributes)
    widget._trait_values.update(values)
    _observe(widget, handlers)
    widget._model_id = model_id
    widget.open()


@reduces("ipywidgets.widgets.widget:CallbackDispatcher")
def reduce_dispatcher(_pickler: Reducing, dispatcher: Any) -> Any:
    return (
        restore_dispatcher,
        (type(dispatcher),),
        list(dispatcher.callbacks),
        None,
        None,
        set_callbacks,
    )


@restorer
def restore_dispatcher(kind: Any) -> Any:
    return kind()


@restorer
def set_callbacks(dispatcher: Any, callbacks: list[Any]) -> None:
    dispatcher.callbacks = callbacks
