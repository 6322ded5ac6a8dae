"""Settings of the standard library that a notebook typically makes once: warnings, logging,
locale."""

from __future__ import annotations

import builtins
import locale
import logging
import re
import sys
import types
import warnings
from typing import Any

from . import cells

_CATEGORIES = ("LC_COLLATE", "LC_CTYPE", "LC_MONETARY", "LC_NUMERIC", "LC_TIME")
_STREAMS = ("stderr", "stdout")
_PLAIN_FORMATTERS = (type(None), logging.Formatter)


def warning_filters() -> list[tuple[Any, ...]]:
    """Return the warning filters as plain data; a category becomes its module and qualname."""
    found = []
    filters: Any = warnings.filters
    for action, message, category, module, line in filters:
        place = category.__module__, category.__qualname__
        found.append((action, _pattern(message), place, _pattern(module), line))
    return found


def set_warning_filters(filters: list[tuple[Any, ...]]) -> None:
    """Set the warning filters. A filter for a category that does not exist here is left out."""
    made: list[Any] = []
    for action, message, (owner, name), module, line in filters:
        category: Any = sys.modules.get(owner, builtins)
        for part in name.split("."):
            category = getattr(category, part, None)
        if isinstance(category, type) and issubclass(category, Warning):
            made.append((action, _compiled(message), category, _compiled(module), line))
    if made != warnings.filters:
        warnings.resetwarnings()  # also invalidates the interpreter's cache of the filters
        warnings.filters[:] = made  # type: ignore[index]


def _pattern(value: Any) -> Any:
    return (value.pattern, value.flags) if isinstance(value, re.Pattern) else value


def _compiled(value: Any) -> Any:
    return re.compile(*value) if isinstance(value, tuple) else value


def read_logging(namespace: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of all loggers as plain data: levels, propagation, and handlers.

    A handler that `_told` cannot describe is left out.
    """
    loggers = _loggers()
    return {
        "levels": {name: logger.level for name, logger in loggers.items() if logger.level},
        "silent": [name for name, logger in loggers.items() if not logger.propagate],
        "disabled": logging.getLogger().manager.disable,
        "handlers": {
            name: told
            for name, logger in loggers.items()
            if (told := [how for h in logger.handlers if (how := _told(h, name, namespace))])
        },
    }


def lost_handlers(namespace: dict[str, Any]) -> list[str]:
    """Describe the handlers and filters of the notebook's loggers that are not in a snapshot."""
    held, written = {id(value) for value in namespace.values()}, list(cells.texts(namespace))
    found: list[str] = []
    for name, logger in _loggers().items():
        if not (logger.handlers or logger.filters):  # most; looking for the others takes long
            continue
        if not (not name or id(logger) in held or _is_written(name, written)):
            continue
        lost: list[Any] = [
            handler
            for handler in logger.handlers
            if type(handler).__module__ in ("logging", "logging.handlers", "__main__")
            and type(handler) is not logging.NullHandler
            and _told(handler, name, namespace) is None
        ]
        lost += [one for one in logger.filters if _of_notebook(one)]
        found += [f"a {_kind(one)} of the logger {name or 'root'!r}" for one in lost]
    return found


def _of_notebook(what: Any) -> bool:
    """Return whether a filter is a function or an object of the notebook, or of logging itself."""
    owner = what if isinstance(what, types.FunctionType) else type(what)
    return owner.__module__ in ("logging", "__main__")


def _kind(what: Any) -> str:
    return "filter" if isinstance(what, types.FunctionType) else type(what).__name__


def _loggers() -> dict[str, logging.Logger]:
    root = logging.getLogger()
    known = {"": root, **root.manager.loggerDict}
    return {name: found for name, found in known.items() if isinstance(found, logging.Logger)}


def _is_own(name: str) -> bool:
    """Return whether a logger belongs to the notebook.

    A logger named like a loaded module belongs to that module, which sets its handlers itself.
    """
    package = name.partition(".")[0]
    return package == "__main__" or package not in sys.modules


def _is_written(name: str, texts: list[str]) -> bool:
    return any(f"{quote}{name}{quote}" in text for text in texts for quote in "'\"")


def _told(handler: logging.Handler, logger: str, namespace: dict[str, Any]) -> Any:
    """Return a handler as plain data: the variable that holds it, or how to make it.

    Returns None for a handler that cannot be described.
    """
    variable = next((name for name, value in namespace.items() if value is handler), None)
    if variable is not None:
        return "variable", variable
    formatter = handler.formatter
    if not _is_own(logger) or handler.filters or type(formatter) not in _PLAIN_FORMATTERS:
        return None
    text = formatter and (formatter._fmt, formatter.datefmt)
    if type(handler) is logging.FileHandler:
        return "file", (handler.baseFilename, handler.encoding), handler.level, text
    if type(handler) is logging.StreamHandler:
        for where in _STREAMS:
            if getattr(sys, where) is handler.stream:
                return "stream", where, handler.level, text
    return None


def set_logging(state: dict[str, Any], namespace: dict[str, Any]) -> None:
    """Apply the settings of `read_logging`.

    A logger that already has handlers gets only the handlers that variables hold.
    """
    for name, level in state["levels"].items():
        logging.getLogger(name).setLevel(level)
    for name in state["silent"]:
        logging.getLogger(name).propagate = False
    logging.disable(state["disabled"])
    for name, told in state["handlers"].items():
        logger = logging.getLogger(name)
        has_some = bool(logger.handlers)
        for how in told:
            if how[0] == "variable":
                handler = namespace.get(how[1])
                if isinstance(handler, logging.Handler):
                    logger.addHandler(handler)
            elif not has_some:
                logger.addHandler(_handler(*how))


def _handler(kind: str, where: Any, level: int, text: Any) -> logging.Handler:
    if kind == "file":
        # With delay, the first message opens the file, not the restore.
        made: logging.Handler = logging.FileHandler(where[0], encoding=where[1], delay=True)
    else:
        made = logging.StreamHandler(getattr(sys, where))
    made.setLevel(level)
    if text:
        made.setFormatter(logging.Formatter(*text))
    return made


def read_locale() -> dict[str, str]:
    """Return the locale of each category."""
    return {name: locale.setlocale(getattr(locale, name)) for name in _CATEGORIES}


def set_locale(state: dict[str, str]) -> None:
    """Set the locale of each category. Raises `locale.Error` if this machine does not have it."""
    for name, value in state.items():
        locale.setlocale(getattr(locale, name), value)
