"""Widgets of ipywidgets: their values and the callbacks that observe them.

A restored widget has its values, its children, the notebook's callbacks, and a model with the same
id in the front end. The views in cell outputs ended with the old kernel: running a cell that
displays the widget displays it again.
"""

from __future__ import annotations

import importlib
from typing import Any

from .pickling import Reducing
from .plans import module_of, reduces
from .restorers import restorer

_BROWSER = "it is tied to a view in the browser"
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
    values = {
        name: widget._trait_values[name] for name in widget.keys if name in widget._trait_values
    }
    handlers = [
        (name, event, handler)
        for name, events in widget._trait_notifiers.items()
        for event, found in events.items()
        for handler in found
        if not _is_of_the_class(handler)
    ]
    attributes = {name: value for name, value in vars(widget).items() if name not in _OWN_WAY}
    state = widget.model_id, values, attributes, handlers
    return restore_widget, (kind,), state, None, None, set_widget


def _is_of_the_class(handler: Any) -> bool:
    """Return whether the handler belongs to the class, so that each new instance has it anyway."""
    return isinstance(handler, importlib.import_module("traitlets").EventHandler)


@restorer
def restore_widget(kind: Any) -> Any:
    return kind.__new__(kind)  # __init__ would open an empty model in the front end


@restorer
def set_widget(widget: Any, state: tuple[Any, ...]) -> None:
    model_id, values, attributes, handlers = state
    vars(widget).update(attributes)
    widget._trait_values.update(values)
    for name, event, handler in handlers:
        widget.observe(handler, name, event)
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
