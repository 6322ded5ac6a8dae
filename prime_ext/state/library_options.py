"""Options that a notebook typically sets once in the libraries for models and plots."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from . import cells
from .namespace import current_namespace

_PLAIN = (bool, int, float, str, type(None))


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if isinstance(value, _PLAIN)}


def _changed(wanted: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in wanted.items() if found.get(name, wanted) != value}


def _read_sklearn() -> dict[str, Any]:
    return _plain(sys.modules["sklearn"].get_config())


def _set_sklearn(options: dict[str, Any]) -> None:
    sys.modules["sklearn"].set_config(**_changed(options, _read_sklearn()))


def _read_xarray() -> dict[str, Any]:
    return _plain(dict(sys.modules["xarray"].get_options()))


def _set_xarray(options: dict[str, Any]) -> None:
    # Setting an option that is deprecated warns, even if it has that value.
    sys.modules["xarray"].set_options(**_changed(options, _read_xarray()))


def _read_plotly() -> dict[str, Any]:
    plots = sys.modules["plotly.io"]
    found = {"templates": plots.templates.default}
    # The renderer depends on where the notebook is shown, unless the notebook sets it.
    if any(".renderers.default" in text for text in cells.texts(current_namespace())):
        found["renderers"] = plots.renderers.default
    return _plain(found)


def _set_plotly(options: dict[str, Any]) -> None:
    for name, value in options.items():
        getattr(sys.modules["plotly.io"], name).default = value


_REGISTRIES = ("data_transformers", "renderers", "theme")


def _read_altair() -> dict[str, Any]:
    charts = sys.modules["altair"]
    found = {}
    for name in _REGISTRIES:
        registry: Any = getattr(charts, name, None)
        active = getattr(registry, "active", None)
        if isinstance(active, str) and active:
            found[name] = active, _plain(dict(registry.options))
    return found


def _set_altair(options: dict[str, Any]) -> None:
    for name, (active, details) in options.items():
        getattr(sys.modules["altair"], name).enable(active, **details)


OPTIONS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "sklearn": (_read_sklearn, _set_sklearn),
    "xarray": (_read_xarray, _set_xarray),
    "plotly.io": (_read_plotly, _set_plotly),
    "altair": (_read_altair, _set_altair),
}
"""Module → how to read its options as plain data, and how to set them."""
