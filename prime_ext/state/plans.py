"""Which reducer handles which type.

A *plan* takes the pickler and the object and returns what ``__reduce_ex__`` would. It is looked
up once per type and save. Types of libraries are named by strings, so that registering a reducer
never imports the library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .pickling import Reducing

Plan = Callable[["Reducing", Any], Any]
PlanMaker = Callable[["Reducing", type], "Plan | None"]

_EXACT: dict[type, Plan] = {}
_WITH_SUBCLASSES: dict[type, Plan] = {}
_NAMED: dict[tuple[str, str], Plan] = {}
_NAMED_WITH_SUBCLASSES: dict[tuple[str, str], Plan] = {}
_MAKERS: list[PlanMaker] = []


def default(_pickler: Reducing, _value: Any) -> Any:
    """Let the pickler do what it does by itself."""
    return NotImplemented


def reduces(*targets: type | str, subclasses: bool = False) -> Callable[[Plan], Plan]:
    """Register a plan for types, or for ``"module:qualname"`` of types that may not be imported."""

    def register(plan: Plan) -> Plan:
        for target in targets:
            if isinstance(target, str):
                module, _, qualname = target.partition(":")
                named = _NAMED_WITH_SUBCLASSES if subclasses else _NAMED
                named[(module, qualname)] = plan
            else:
                (_WITH_SUBCLASSES if subclasses else _EXACT)[target] = plan
        return plan

    return register


def makes_plans(maker: PlanMaker) -> PlanMaker:
    """Register a function that looks at a type and gives a plan or None; asked last, in order."""
    _MAKERS.append(maker)
    return maker


def module_of(kind: type) -> str:
    """The name of a type's module; some extension types have a descriptor in its place."""
    name: object = kind.__module__
    return name if isinstance(name, str) else ""


def inherits(kind: type, name: str, owner: type) -> bool:
    """Whether ``kind`` has the method ``name`` of ``owner`` and none of its own."""
    return getattr(kind, name) is getattr(owner, name)


def reduces_by_default(kind: type) -> bool:
    """Whether instances of ``kind`` are reduced by ``object``'s methods."""
    return inherits(kind, "__reduce__", object) and inherits(kind, "__reduce_ex__", object)


def plan_for(pickler: Reducing, kind: type) -> Plan:
    """The plan for instances of ``kind``."""
    exact = _EXACT.get(kind) or _NAMED.get((kind.__module__, kind.__qualname__))
    if exact is not None:
        return exact
    for base in type.mro(kind) if kind is not type else (type, object):
        plan = _WITH_SUBCLASSES.get(base) or _NAMED_WITH_SUBCLASSES.get(
            (base.__module__, base.__qualname__)
        )
        if plan is not None:
            return plan
    for maker in _MAKERS:
        made = maker(pickler, kind)
        if made is not None:
            return made
    return default
