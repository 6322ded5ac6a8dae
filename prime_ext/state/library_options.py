"""Options that a notebook typically sets once in the libraries for models and plots."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
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


def _is_written(*parts: str) -> bool:
    return cells.mention(current_namespace(), *parts)


def _read_plotly() -> dict[str, Any]:
    plots: Any = sys.modules["plotly.io"]
    defaults = {"templates": plots.templates.default}
    # The renderer depends on where the notebook is shown, unless the notebook sets it.
    if _is_written(".renderers.default"):
        defaults["renderers"] = plots.renderers.default
    builtin = () if _is_written(".templates[") else type(plots.templates)()
    made = {
        name: template.to_plotly_json()
        for name, template in plots.templates.items()
        if name not in builtin and hasattr(template, "to_plotly_json")
    }
    return {"made": made, "defaults": _plain(defaults)}


def _set_plotly(options: dict[str, Any]) -> None:
    plots: Any = sys.modules["plotly.io"]
    for name, template in options["made"].items():
        plots.templates[name] = template
    for name, value in options["defaults"].items():
        getattr(plots, name).default = value


def _read_plotly_express() -> dict[str, Any]:
    defaults: Any = sys.modules["plotly.express"].defaults
    usual = type(defaults)()
    return {
        name: value
        for name in type(defaults).__slots__
        if (value := getattr(defaults, name)) != getattr(usual, name)
    }


def _set_plotly_express(options: dict[str, Any]) -> None:
    for name, value in options.items():
        setattr(sys.modules["plotly.express"].defaults, name, value)


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


def _read_dask() -> dict[str, Any]:
    config: Any = sys.modules["dask"].config
    usual = dict(_leaves(config.merge(*config.defaults, _dask_outside())))
    found = {
        name: value
        for name, value in _leaves(config.config)
        if name not in usual or usual[name] != value
    }
    if found.get("scheduler") == "dask.distributed":
        del found["scheduler"]  # it goes with a client, which is not restored
    return found


@functools.cache
def _dask_outside() -> dict[str, Any]:
    """Return the configuration of dask in files and in the environment."""
    found: dict[str, Any] = sys.modules["dask"].config.collect()
    return found


def _leaves(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _set_dask(options: dict[str, Any]) -> None:
    sys.modules["dask"].config.set(options)


def _read_jax() -> dict[str, Any]:
    # Others than those set in the notebook depend on the machine and its environment.
    values = _plain(dict(sys.modules["jax"].config.values))
    texts = [text for text in cells.texts(current_namespace()) if "jax" in text]
    return {name: value for name, value in values.items() if any(name in t for t in texts)}


def _set_jax(options: dict[str, Any]) -> None:
    for name, value in options.items():
        sys.modules["jax"].config.update(name, value)


def _read_polars() -> str:
    found: str = sys.modules["polars"].Config.save()
    return found


def _set_polars(options: str) -> None:
    if options != _read_polars():
        sys.modules["polars"].Config.load(options)


def _read_pint() -> str | None:
    """Return the variable that holds the registry of the application, if the notebook set one."""
    registry = sys.modules["pint"].application_registry.get()
    names = current_namespace().items()
    return next((name for name, value in list(names) if value is registry), None)


def _set_pint(name: str) -> None:
    registry = current_namespace().get(name)
    if type(registry).__name__ != "Unrestorable":
        sys.modules["pint"].set_application_registry(registry)


def _read_interactive() -> bool | None:
    # Unless the notebook sets it, it depends on the backend.
    written = _is_written("ion()", "ioff()", ".interactive(")
    return bool(sys.modules["matplotlib"].is_interactive()) if written else None


def _set_interactive(value: bool) -> None:
    sys.modules["matplotlib"].interactive(value)


def _read_colormaps() -> dict[str, Any]:
    """Return the colormaps registered since matplotlib was imported, if the notebook does that."""
    known: Any = sys.modules["matplotlib"].colormaps
    if not _is_written("colormaps.register", "register_cmap"):
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
    "plotly.express": (_read_plotly_express, _set_plotly_express),
    "altair": (_read_altair, _set_altair),
    "torch": (_read_torch, _set_torch),
    "matplotlib.colors": (_read_colormaps, _set_colormaps),
    "matplotlib.pyplot": (_read_interactive, _set_interactive),
    "mpmath": (_read_mpmath, _set_mpmath),
    "dask": (_read_dask, _set_dask),
    "jax": (_read_jax, _set_jax),
    "polars": (_read_polars, _set_polars),
    "pint": (_read_pint, _set_pint),
}
"""Module → how to read its options as plain data, and how to set them."""
