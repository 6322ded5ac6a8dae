"""Declarative bases of SQLAlchemy, without the classes that are mapped to them.

SQLAlchemy instruments a mapped class when it is defined, which cannot be restored, so the class is
lost. Its base is restored as it was before the class was defined, so that the cell that defines the
class can be run again.
"""

from __future__ import annotations

import importlib
from typing import Any

from .pickling import PROTOCOL, Reducing
from .plans import reduces
from .restorers import restorer


@reduces("sqlalchemy.orm.decl_api:registry")
def reduce_registry(_pickler: Reducing, registry: Any) -> Any:
    annotations = dict(registry.type_annotation_map)
    return restore_registry, (registry.metadata, annotations, registry.constructor)


@restorer
def restore_registry(metadata: Any, annotations: dict[Any, Any], constructor: Any) -> Any:
    orm: Any = importlib.import_module("sqlalchemy.orm")
    return orm.registry(metadata=metadata, type_annotation_map=annotations, constructor=constructor)


@reduces("sqlalchemy.sql.schema:MetaData")
def reduce_metadata(_pickler: Reducing, metadata: Any) -> Any:
    """Leave out the tables of mapped classes, which would conflict with a new definition."""
    mapped = _mapped_tables()
    kept = {key: table for key, table in metadata.tables.items() if id(table) not in mapped}
    if len(kept) == len(metadata.tables):
        return NotImplemented
    made, arguments, state, *rest = metadata.__reduce_ex__(PROTOCOL)
    memos = {place: keys for place, keys in state["fk_memos"].items() if place[0] in kept}
    state = {
        **state,
        "tables": type(metadata.tables)(kept),
        "fk_memos": type(state["fk_memos"])(list, memos),
    }
    return (made, arguments, state, *rest)


def _mapped_tables() -> set[int]:
    mapper: Any = importlib.import_module("sqlalchemy.orm.mapper")
    return {
        id(table)
        for registry in mapper._all_registries()
        for mapped in registry.mappers
        if mapped.class_.__module__ == "__main__"
        for table in mapped.tables
    }
