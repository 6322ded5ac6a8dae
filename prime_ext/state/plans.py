"""The registry of reducers by type.

A *plan* is a function that takes the pickler and an object, and returns a reduction like that of
``__reduce_ex__``, or ``NotImplemented``. It is looked up once per type and save. Types of libraries
are registered by name, so that registering a reducer never imports the library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .pickling import Reducing

Plan = Callable[["Reducing", Any], Any]
PlanMaker = Callable[["Reducing", type], "Plan | None"]
PlanWrapper = Callable[["Reducing", type, Plan], Plan]

_EXACT: dict[type, Plan] = {}
_WITH_SUBCLASSES: dict[type, Plan] = {}
_NAMED: dict[tuple[str, str], Plan] = {}
_NAMED_WITH_SUBCLASSES: dict[tuple[str, str], Plan] = {}
_MAKERS: list[PlanMaker] = []
_WRAPPERS: list[PlanWrapper] = []


def default(_pickler: Reducing, _value: Any) -> Any:
    """Leave the object to the pickler."""
    return NotImplemented


def reduces(*targets: type | str, subclasses: bool = False) -> Callable[[Plan], Plan]:
    """Register a plan for types, or for the ``"module:qualname"`` of types of libraries."""

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
    """Register a function that returns a plan for a type, or None.

    These functions are called, in order of registration, for types that have no plan of their own.
    """
    _MAKERS.append(maker)
    return maker


def module_of(kind: type) -> str:
    """Return the name of a type's module; empty if ``__module__`` is not a string."""
    name: object = kind.__module__
    return name if isinstance(name, str) else ""


def inherits(kind: type, name: str, owner: type) -> bool:
    """Return whether the method ``name`` of ``kind`` is the one of ``owner``."""
    return getattr(kind, name) is getattr(owner, name)


def reduces_by_default(kind: type) -> bool:
    """Return whether instances of ``kind`` are reduced by the methods of ``object``."""
    return inherits(kind, "__reduce__", object) and inherits(kind, "__reduce_ex__", object)


def plan_for(pickler: Reducing, kind: type) -> Plan:
    """Return the plan for instances of ``kind``: for the exact type, a base, or by a maker.

    What `wraps_plans` has registered may replace it.
    """
    plan = _plan_for(pickler, kind)
    for wrapper in _WRAPPERS:
        plan = wrapper(pickler, kind, plan)
    return plan


def wraps_plans(wrapper: PlanWrapper) -> PlanWrapper:
    """Register a function that may return another plan for a type than the one found."""
    _WRAPPERS.append(wrapper)
    return wrapper


def _plan_for(pickler: Reducing, kind: type) -> Plan:
    exact = _EXACT.get(kind) or _NAMED.get((kind.__module__, kind.__qualname__))
    if exact is not None:
        return exact
    for base in type.mro(kind) if kind is not type else (type, object):
        plan = _WITH_SUBCLASSES.get(base) or _NAMED_WITH_SUBCLASSES.get(
            (base.__module__, base.__qualname__)
        )
        if plan is not None:
            return plan
    return made_plan(pickler, kind)


def made_plan(pickler: Reducing, kind: type) -> Plan:
    """Return the plan of the first maker that has one for the type."""
    for maker in _MAKERS:
        made = maker(pickler, kind)
        if made is not None:
            return made
    return default
