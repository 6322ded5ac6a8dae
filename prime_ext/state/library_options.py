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


_TORCH_PRINTING = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")


def _read_torch() -> dict[str, Any]:
    torch: Any = sys.modules["torch"]
    printing = vars(torch._tensor_str.PRINT_OPTS)
    return {
        "random": torch.get_rng_state().numpy().tobytes(),
        "dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "gradients": torch.is_grad_enabled(),
        "deterministic": (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        "printing": {name: printing[name] for name in _TORCH_PRINTING},
    }


def _set_torch(options: dict[str, Any]) -> None:
    torch: Any = sys.modules["torch"]
    torch.set_rng_state(torch.frombuffer(bytearray(options["random"]), dtype=torch.uint8))
    torch.set_default_dtype(getattr(torch, options["dtype"]))
    torch.set_grad_enabled(options["gradients"])
    enabled, warn_only = options["deterministic"]
    torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
    torch.set_printoptions(**options["printing"])


def _read_mpmath() -> int:
    precision: int = sys.modules["mpmath"].mp.prec
    return precision


def _set_mpmath(precision: int) -> None:
    sys.modules["mpmath"].mp.prec = precision


def _read_colormaps() -> dict[str, Any]:
    """Return the colormaps registered since matplotlib was imported, if the notebook does that."""
    known: Any = sys.modules["matplotlib"].colormaps
    texts = cells.texts(current_namespace())
    if not any("colormaps.register" in text or "register_cmap" in text for text in texts):
        return {}
    builtin = getattr(known, "_builtin_cmaps", None)
    return {} if builtin is None else {name: known[name] for name in set(known) - set(builtin)}


def _set_colormaps(colormaps: dict[str, Any]) -> None:
    known: Any = sys.modules["matplotlib"].colormaps
    for name, colormap in colormaps.items():
        if name not in known:
            known.register(colormap, name=name)


OPTIONS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "sklearn": (_read_sklearn, _set_sklearn),
    "xarray": (_read_xarray, _set_xarray),
    "plotly.io": (_read_plotly, _set_plotly),
    "altair": (_read_altair, _set_altair),
    "torch": (_read_torch, _set_torch),
    "matplotlib.colors": (_read_colormaps, _set_colormaps),
    "mpmath": (_read_mpmath, _set_mpmath),
}
"""Module → how to read its options as plain data, and how to set them."""
