"""State of the process rather than of a name: working directory, search path, environment, random
states, options of libraries, sources of cells."""

from __future__ import annotations

import contextlib
import decimal
import functools
import importlib
import linecache
import os
import random
import sys
from collections.abc import Callable
from typing import Any

from . import (
    cells,
    history,
    imported_objects,
    library_options,
    library_settings,
    module_changes,
    registrations,
    search_path,
    standard_options,
)
from .namespace import shell
from .pickling import SaveContext


def _initial_environment() -> dict[str, str]:
    """Return the environment the process was started with; the current one if that is unknown."""
    try:
        with open("/proc/self/environ", "rb") as file:
            items = file.read().split(b"\0")
    except OSError:
        return dict(os.environ)
    pairs = (item.partition(b"=") for item in items if b"=" in item)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


_NEVER_SAVED = frozenset({"PRIME_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"})
"""Keys for the agent's model, which must not get into a snapshot."""

_INITIAL_ENVIRONMENT = _initial_environment()


def capture(
    context: SaveContext, filters: list[tuple[Any, ...]], unsaved: list[str]
) -> dict[str, Any]:
    """Return the state of the process as plain data. State that cannot be read is left out.

    Parameters
    ----------
    filters: the warning filters, read before the save silenced warnings.
    unsaved: what `unsaved_changes` has found, for a restore to tell.
    """
    state: dict[str, Any] = {
        "history": _safely(functools.partial(history.capture, context)),
        "cwd": _safely(os.getcwd),
        "search_path": _safely(search_path.capture),
        "submodules": cells.submodules(context.namespace),
        "environment": _environment_changes(),
        "random": random.getstate(),
        "decimal": _safely(lambda: decimal.getcontext().copy()),
        "warnings": filters,
        "logging": _safely(lambda: library_settings.read_logging(context.namespace)),
        "locale": _safely(library_settings.read_locale),
        "recursion_limit": sys.getrecursionlimit(),
        "sources": dict(context.sources),
        "libraries": {},
        "matplotlib_backend": _safely(_matplotlib_backend),
        "current_figure": _safely(_current_figure),
        "extensions": _loaded_extensions(),
        "ipython": _safely(_read_ipython),
        "registered": _safely(lambda: registrations.find(context.namespace)[0]),
        "aliases": _safely(lambda: imported_objects.aliases(context.namespace)),
        "unsaved": unsaved,
        "autoreload": _safely(_autoreload),
    }
    for module, (read, _) in _LIBRARIES.items():
        if module in sys.modules:
            value = _safely(read)
            if value is not None:
                state["libraries"][module] = value
    return state


def unsaved_changes(namespace: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return what the notebook has set up outside its variables and a restore does not bring back.

    That is places in modules (`module_changes`), and descriptions of everything else.
    """
    others = [*registrations.find(namespace)[1], *library_settings.lost_handlers(namespace)]
    return module_changes.find(namespace)[1], others


def apply_early(state: dict[str, Any], notes: list[str]) -> None:
    """Restore what loading the components may depend on: path, directory, environment, sources."""
    if state.get("search_path"):
        search_path.apply(state["search_path"])
    directory = state.get("cwd")
    if directory and directory != _safely(os.getcwd):
        try:
            os.chdir(directory)
        except OSError:
            notes.append(f"the working directory {directory} does not exist any more")
    for name, value in state["environment"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if state["matplotlib_backend"]:
        # Restored figures are attached to the backend that is current at that time.
        use = functools.partial(_set_matplotlib_backend, state["matplotlib_backend"])
        _try(use, notes, "the backend of matplotlib")
    for name in state.get("submodules", ()):
        _try(functools.partial(importlib.import_module, name), notes, f"the module {name}")
    for name, text in state["sources"].items():
        lines = text.splitlines(keepends=True)
        linecache.cache.setdefault(name, (len(text), None, lines, name))


def apply_late(state: dict[str, Any], namespace: dict[str, Any], notes: list[str]) -> None:
    """Restore what loading the components may disturb, or what depends on them.

    That is random states, options of libraries, extensions of IPython, and registrations.
    """
    found = shell()
    if found is not None:
        for name in state.get("extensions") or []:
            if name not in found.extension_manager.loaded:
                load = functools.partial(found.run_line_magic, "load_ext", name)
                _try(load, notes, f"the extension {name}")
        if state.get("ipython"):
            _try(lambda: _set_ipython(state["ipython"]), notes, "the settings of IPython")
        if state.get("autoreload") is not None:
            _try(lambda: _set_autoreload(state["autoreload"]), notes, "autoreload")
    for module, value in state["libraries"].items():
        if module in sys.modules and value is not None:
            _, restore = _LIBRARIES[module]
            _try(functools.partial(restore, value), notes, f"the options of {module}")
    if state.get("current_figure") is not None:
        _try(lambda: _set_current_figure(state["current_figure"]), notes, "the current figure")
    for registered in state.get("registered") or ():
        put = functools.partial(registrations.put, registered, namespace)
        _try(put, notes, registrations.describe(registered))
    for what, restore in (
        ("warnings", library_settings.set_warning_filters),
        ("logging", lambda saved: library_settings.set_logging(saved, namespace)),
        ("locale", library_settings.set_locale),
    ):
        if state.get(what) is not None:
            _try(functools.partial(restore, state[what]), notes, f"the settings of {what}")
    if state.get("decimal") is not None:
        _set_decimal(state["decimal"])
    for name, place in (state.get("aliases") or {}).items():
        if name in namespace:
            with contextlib.suppress(AttributeError, KeyError):
                namespace[name] = imported_objects.resolve(place)
    notes += [
        f"{what} was not saved: run the cell that makes it again"
        for what in state.get("unsaved") or ()
    ]
    sys.setrecursionlimit(max(sys.getrecursionlimit(), state["recursion_limit"]))
    random.setstate(state["random"])


def _safely(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception:
        return None


def _try(action: Callable[[], Any], notes: list[str], what: str) -> None:
    try:
        action()
    except Exception as error:
        notes.append(f"{what} could not be restored: {type(error).__name__}: {error}")


def _environment_changes() -> dict[str, str | None]:
    changes: dict[str, str | None] = {
        name: value for name, value in os.environ.items() if _INITIAL_ENVIRONMENT.get(name) != value
    }
    for name in _INITIAL_ENVIRONMENT:
        if name not in os.environ:
            changes[name] = None
    return {name: value for name, value in changes.items() if name not in _NEVER_SAVED}


_OF_DECIMAL = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


def _set_decimal(saved: decimal.Context) -> None:
    """Change the context in use, which a variable may hold."""
    context = decimal.getcontext()
    for name in _OF_DECIMAL:
        setattr(context, name, getattr(saved, name))
    context.flags.update(saved.flags)
    context.traps.update(saved.traps)


# --- IPython --------------------------------------------------------------------------------


def _loaded_extensions() -> list[str]:
    found = shell()
    return [] if found is None else sorted(found.extension_manager.loaded - {"storemagic"})


_FIGURES = ("close_figures", "print_figure_kwargs", "figure_formats")


def _read_ipython() -> dict[str, Any] | None:
    found = shell()
    if found is None:
        return None
    inline = sys.modules.get("matplotlib_inline.config")
    figures: Any = None
    if inline is not None and inline.InlineBackend.initialized():
        figures = inline.InlineBackend.instance()
    return {
        "ast_node_interactivity": found.ast_node_interactivity,
        "float_precision": found.display_formatter.formatters["text/plain"].float_precision,
        "figures": figures and {name: getattr(figures, name) for name in _FIGURES},
    }


def _set_ipython(state: dict[str, Any]) -> None:
    found = shell()
    found.ast_node_interactivity = state["ast_node_interactivity"]
    text = found.display_formatter.formatters["text/plain"]
    if text.float_precision != state["float_precision"]:
        text.float_precision = state["float_precision"]
    if state["figures"]:
        inline: Any = importlib.import_module("matplotlib_inline.config")
        figures = inline.InlineBackend.instance(parent=found)
        figures.shell = found
        if figures not in found.configurables:
            found.configurables.append(figures)  # what `%config` can change
        for name, value in state["figures"].items():
            if getattr(figures, name) != value:
                setattr(figures, name, value)


def _reloader() -> Any:
    found = shell()
    if found is None:
        return None
    magics = found.magics_manager.registry.get("AutoreloadMagics")
    return getattr(magics, "_reloader", None)


def _autoreload() -> tuple[bool, bool] | None:
    reloader = _reloader()
    return None if reloader is None else (reloader.enabled, reloader.check_all)


def _set_autoreload(state: tuple[bool, bool]) -> None:
    reloader = _reloader()
    if reloader is not None:
        reloader.enabled, reloader.check_all = state


# --- libraries ------------------------------------------------------------------------------


def _read_numpy() -> dict[str, Any]:
    import numpy as np

    printing = np.get_printoptions()
    return {
        # Functions among them may be the notebook's: see `function_settings`.
        "print": {name: value for name, value in printing.items() if not _is_function(value)},
        "errors": np.geterr(),
        "random": np.random.get_state(legacy=False) if "numpy.random" in sys.modules else None,
    }


def _is_function(value: Any) -> bool:
    return callable(value) or isinstance(value, dict)


def _set_numpy(state: dict[str, Any]) -> None:
    import numpy as np

    known = np.get_printoptions().keys() - {"legacy"}  # another version has other options
    options = {name: value for name, value in state["print"].items() if name in known}
    np.set_printoptions(**options)
    np.seterr(**state["errors"])
    if state["random"] is not None:
        np.random.set_state(state["random"])


def _pandas_options() -> dict[str, tuple[Any, Any]]:
    """Return option → (value, default)."""
    config: Any = importlib.import_module("pandas._config.config")

    found = {}
    for name, option in config._registered_options.items():
        if name not in config._deprecated_options:
            found[name] = (config.get_option(name), option.defval)
    return found


def _read_pandas() -> dict[str, Any]:
    plain = (bool, int, float, str, type(None))
    return {
        name: value
        for name, (value, default) in _pandas_options().items()
        if isinstance(value, plain) and value != default
    }


def _set_pandas(state: dict[str, Any]) -> None:
    pd: Any = importlib.import_module("pandas")
    problem: Exception | None = None
    for name, value in state.items():
        try:
            pd.set_option(name, value)
        except Exception as error:  # another version may not have the option, or not the value
            problem = error
    if problem is not None:
        raise problem


def _read_matplotlib() -> dict[str, Any]:
    matplotlib = sys.modules["matplotlib"]
    defaults = matplotlib.rcParamsDefault
    hidden = ("backend", "backend_fallback", "interactive")
    return {
        name: value
        for name, value in dict.items(matplotlib.rcParams)
        if name not in hidden and _differs(value, dict.get(defaults, name))
    }


def _matplotlib_backend() -> str | None:
    """Return the backend in use; None before pyplot is imported."""
    if "matplotlib.pyplot" not in sys.modules:
        return None
    backend: Any = dict.get(sys.modules["matplotlib"].rcParams, "backend")
    return backend if isinstance(backend, str) else None


def _set_matplotlib_backend(backend: str) -> None:
    matplotlib: Any = importlib.import_module("matplotlib")
    if _matplotlib_backend() != backend:
        matplotlib.use(backend)


def _current_figure() -> int | None:
    pyplot = sys.modules.get("matplotlib._pylab_helpers")
    active = None if pyplot is None else pyplot.Gcf.get_active()
    return None if active is None else int(active.num)


def _set_current_figure(number: int) -> None:
    figures = sys.modules["matplotlib._pylab_helpers"].Gcf.figs
    if number in figures:
        figures.move_to_end(number)


def _differs(value: Any, default: Any) -> bool:
    try:
        return bool(value != default)
    except Exception:
        return True


def _set_matplotlib(state: dict[str, Any]) -> None:
    sys.modules["matplotlib"].rcParams.update(state)


_LIBRARIES: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "numpy": (_read_numpy, _set_numpy),
    "pandas": (_read_pandas, _set_pandas),
    "matplotlib": (_read_matplotlib, _set_matplotlib),
    **standard_options.OPTIONS,
    **library_options.OPTIONS,
}
