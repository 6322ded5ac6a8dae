"""SQLAlchemy: symbols, engines, and declarative bases without the classes mapped to them.

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


@reduces("sqlalchemy.util.langhelpers:symbol")
def reduce_symbol(_pickler: Reducing, symbol: Any) -> Any:
    """Reduce a symbol to its name, without a number that is a hash: each process has another."""
    number = int(symbol)
    return restore_symbol, (symbol.name, None if number == hash(symbol.name) else number)


@restorer
def restore_symbol(name: str, number: int | None) -> Any:
    symbol: Any = importlib.import_module("sqlalchemy.util.langhelpers").symbol
    known = symbol.symbols.get(name)
    return symbol(name, "x", number) if known is None else known


@reduces("sqlalchemy.engine.base:Engine")
def reduce_engine(_pickler: Reducing, engine: Any) -> Any:
    """Leave out the cache of compiled statements: it is filled again, and not like before."""
    cache = engine._compiled_cache
    size = None if cache is None else (cache.capacity, cache.threshold)
    state = {name: value for name, value in vars(engine).items() if value is not cache}
    return restore_engine, (type(engine),), (state, size), None, None, set_engine


@restorer
def restore_engine(kind: Any) -> Any:
    return kind.__new__(kind)


@restorer
def set_engine(engine: Any, contents: tuple[dict[str, Any], tuple[int, float] | None]) -> None:
    state, size = contents
    engine._compiled_cache = None
    engine.__dict__.update(state)
    if size is not None:
        capacity, threshold = size
        cache: Any = importlib.import_module("sqlalchemy.util").LRUCache
        engine._compiled_cache = cache(capacity, threshold, size_alert=engine._lru_size_alert)
