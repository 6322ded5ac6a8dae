"""Classes of the notebook that are msgspec structs.

msgspec makes such a class from its annotations, defaults and options at once, so it cannot be made
empty and filled later. These parts therefore belong to the skeleton (`classes`). The types of the
fields do not, because msgspec reads them only when it first encodes or decodes an instance.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

_OPTIONS = (
    *("frozen", "order", "eq", "array_like", "gc", "omit_defaults", "forbid_unknown_fields"),
    *("weakref", "dict", "cache_hash", "repr_omit_defaults", "tag", "tag_field"),
)
POST_INIT = "__post_init__"


def is_struct_class(kind: type) -> bool:
    """Return whether a metaclass is that of msgspec structs."""
    return (kind.__module__, kind.__qualname__) == ("msgspec._core", "StructMeta")


def description(cls: Any) -> dict[str, Any]:
    """Return what `make` needs to make this class from its bases.

    ``fields`` maps the names of the class's own fields to their encoded name and, if there is one,
    their `default`.
    """
    own = vars(cls).get("__annotations__", {})
    names = zip(cls.__struct_fields__, cls.__struct_encode_fields__)  # noqa: B905 - Python 3.9
    options = {n: getattr(cls.__struct_config__, n, None) for n in _OPTIONS}
    if options["tag"] == cls.__name__:
        options["tag"] = True  # so that subclasses get tags of their own
    return {
        "fields": {n: (written, *default(cls, n)) for n, written in names if n in own},
        "options": {name: value for name, value in options.items() if value is not None},
        "kw_only": any(name not in cls.__match_args__ for name in own if _is_field(cls, name)),
        "post_init": POST_INIT in vars(cls),
    }


def _is_field(cls: Any, name: str) -> bool:
    return name in cls.__struct_fields__


def default(cls: Any, name: str) -> tuple[Any, ...]:
    """Return ``("default", value)`` or ``("default_factory", function)`` of a field, or ``()``."""
    # __struct_defaults__ belongs to the last fields only.
    position = cls.__struct_fields__.index(name) - len(cls.__struct_fields__)
    if -position > len(cls.__struct_defaults__):
        return ()
    found = cls.__struct_defaults__[position]
    if found is importlib.import_module("msgspec").NODEFAULT:
        return ()
    if type(found).__name__ == "Factory" and type(found).__module__ == "msgspec._core":
        return "default_factory", found.factory
    return "default", found


def classes_needed(cls: Any) -> Iterator[type]:
    """Yield the classes of a struct's defaults, which have to be made before the struct class."""
    for _, *found in description(cls)["fields"].values():
        if found:
            yield found[1] if isinstance(found[1], type) else type(found[1])


def make(meta: Any, name: str, bases: tuple[type, ...], body: dict[str, Any], about: Any) -> Any:
    """Make a struct class. Its ``__post_init__`` calls the method that is filled in later."""
    field = importlib.import_module("msgspec").field
    body = {**body, "__annotations__": dict.fromkeys(about["fields"], object)}
    for own, (written, *found) in about["fields"].items():
        options = {found[0]: found[1]} if found else {}
        body[own] = field(name=written, **options)
    if about["post_init"]:
        body[POST_INIT] = _call_post_init
    return meta.__new__(meta, name, bases, body, kw_only=about["kw_only"], **about["options"])


def _call_post_init(self: Any) -> None:
    """Look the method up at each call; msgspec remembers the one that a class is made with."""
    type(self).__post_init__(self)
