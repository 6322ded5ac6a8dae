"""Parametrised models of pydantic, such as ``Box[int]``.

pydantic makes such a class once, and keeps it in a table in which the next ``Box[int]`` finds it.
"""

from __future__ import annotations

import importlib
from contextlib import suppress


def remember(cls: type) -> None:
    """Enter a restored class into pydantic's table if it is a parametrised model."""
    about = vars(cls).get("__pydantic_generic_metadata__")
    if not about or not about.get("origin"):
        return
    # The table has no public name. Without the entry, `Box[int]` would be another class.
    with suppress(ImportError, AttributeError, TypeError):
        generics = importlib.import_module("pydantic._internal._generics")
        origin, arguments = about["origin"], about["args"]
        generics.set_cached_generic_type(origin, arguments, cls, origin, arguments)
