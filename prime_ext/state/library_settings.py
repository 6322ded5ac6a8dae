"""Settings of the standard library that a notebook makes once: warnings, logging, locale."""

from __future__ import annotations

import builtins
import locale
import logging
import re
import sys
import warnings
from typing import Any

_CATEGORIES = ("LC_COLLATE", "LC_CTYPE", "LC_MONETARY", "LC_NUMERIC", "LC_TIME")
_STREAMS = ("stderr", "stdout")


def warning_filters() -> list[tuple[Any, ...]]:
    """The filters as plain data: a category by the name it has in its module."""
    found = []
    filters: Any = warnings.filters
    for action, message, category, module, line in filters:
        place = category.__module__, category.__qualname__
        found.append((action, _pattern(message), place, _pattern(module), line))
    return found


def set_warning_filters(filters: list[tuple[Any, ...]]) -> None:
    """Make the filters what they were. One for a category that is not known here is left out."""
    made: list[Any] = []
    for action, message, (owner, name), module, line in filters:
        category = getattr(sys.modules.get(owner, builtins), name, None)
        if isinstance(category, type) and issubclass(category, Warning):
            made.append((action, _compiled(message), category, _compiled(module), line))
    if made != warnings.filters:
        warnings.resetwarnings()  # tells the interpreter that the list has changed
        warnings.filters[:] = made  # type: ignore[index]


def _pattern(value: Any) -> Any:
    return (value.pattern, value.flags) if isinstance(value, re.Pattern) else value


def _compiled(value: Any) -> Any:
    return re.compile(*value) if isinstance(value, tuple) else value


def read_logging() -> dict[str, Any]:
    """Levels that were set, and what ``logging.basicConfig`` has made of the root logger."""
    root = logging.getLogger()
    known = {"": root, **root.manager.loggerDict}
    handlers = []
    for handler in root.handlers:
        stream = getattr(handler, "stream", None)
        where = next((name for name in _STREAMS if getattr(sys, name) is stream), None)
        plain = handler.formatter is None or type(handler.formatter) is logging.Formatter
        if type(handler) is logging.StreamHandler and where and plain:
            text = handler.formatter and (handler.formatter._fmt, handler.formatter.datefmt)
            handlers.append((where, handler.level, text))
    return {
        "levels": {
            name: logger.level
            for name, logger in known.items()
            if isinstance(logger, logging.Logger) and logger.level
        },
        "disabled": root.manager.disable,
        "handlers": handlers,
    }


def set_logging(state: dict[str, Any]) -> None:
    """Set the levels again; give the root logger its handlers, if it has none yet."""
    for name, level in state["levels"].items():
        logging.getLogger(name).setLevel(level)
    logging.disable(state["disabled"])
    root = logging.getLogger()
    if root.handlers:
        return
    for where, level, text in state["handlers"]:
        handler = logging.StreamHandler(getattr(sys, where))
        handler.setLevel(level)
        if text:
            handler.setFormatter(logging.Formatter(*text))
        root.addHandler(handler)


def read_locale() -> dict[str, str]:
    """The locale of each category."""
    return {name: locale.setlocale(getattr(locale, name)) for name in _CATEGORIES}


def set_locale(state: dict[str, str]) -> None:
    """Raises `locale.Error` for one that this machine does not have."""
    for name, value in state.items():
        locale.setlocale(getattr(locale, name), value)
