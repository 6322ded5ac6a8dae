"""Instances of classes for which the default reduction is not enough, decided once per class.

Loading the default reduction calls ``cls.__new__(cls)`` and then looks up ``__setstate__`` on the
instance. Both run code of the class on an object that is still empty. That fails for a
``__getattr__`` that delegates, for a ``__new__`` with required arguments, and for a set that hashes
an element before the element has its attributes. Here such instances are made by the ``__new__`` of
their built-in base and filled directly.
"""

from __future__ import annotations

import contextlib
import copyreg
import enum
import gc
import inspect
import sys
import types
from typing import Any

from . import imported_objects
from .classes import saved_key
from .pickling import PROTOCOL, Reducing, import_module
from .plans import (
    Plan,
    default,
    inherits,
    makes_plans,
    module_of,
    reduces,
    reduces_by_default,
    wraps_plans,
)
from .restorers import current, restorer

_ATOMS = (type(None), bool, int, float, complex, str, bytes)


@makes_plans
def plan_enum(pickler: Reducing, kind: type) -> Plan | None:
    if issubclass(kind, enum.Enum) and saved_key(pickler, kind) is not None:
        return reduce_enum_member
    return None


def reduce_enum_member(pickler: Reducing, member: Any) -> Any:
    cls = type(member)
    key = saved_key(pickler, cls)
    mixin = cls._member_type_
    payload = None if mixin is object else _as_mixin(mixin, member)
    name, value = member._name_, member._value_
    if not isinstance(value, _ATOMS):
        value = None
    args = (cls, name, value, payload)
    if key in pickler.group_classes:
        return restore_enum_member, args, dict(member.__dict__), None, None, set_enum_state
    return restore_enum_member, args


def _as_mixin(mixin: Any, member: Any) -> Any:
    for plain in (int, str, float, bytes, tuple):
        if issubclass(mixin, plain):
            if plain is str:
                return str.__str__(member)
            return plain(plain.__getitem__(member, slice(None)) if plain is bytes else member)
    return member._value_


@restorer
def restore_enum_member(cls: Any, name: str | None, value: Any, payload: Any) -> Any:
    if name is not None and name in vars(cls).get("_member_map_", ()):
        return cls._member_map_[name]
    if "_value2member_map_" in vars(cls) and value is not None:
        # A combination of flags that has no name.
        return cls(value)
    made = current().enum_members
    slot = (cls, name, value)
    if slot not in made:
        mixin: Any = next((base for base in cls.__mro__[1:] if _is_data_type(base)), object)
        made[slot] = mixin.__new__(cls) if mixin is object else mixin.__new__(cls, payload)
    return made[slot]


def _is_data_type(base: type) -> bool:
    return base is not object and not issubclass(base, enum.Enum) and "__new__" in vars(base)


@restorer
def set_enum_state(member: Any, state: dict[str, Any]) -> None:
    member.__dict__.update(state)


@makes_plans
def plan_exception(_pickler: Reducing, kind: type) -> Plan | None:
    if not issubclass(kind, BaseException):
        return None
    reduce: Any = kind.__reduce__
    if reduce not in _BUILTIN_EXCEPTION_REDUCES or not inherits(kind, "__reduce_ex__", object):
        return None
    return reduce_exception


_BUILTIN_EXCEPTION_REDUCES = {BaseException.__reduce__, OSError.__reduce__, ImportError.__reduce__}


def reduce_exception(pickler: Reducing, error: BaseException) -> Any:
    links = {
        name: getattr(error, name)
        for name in ("__cause__", "__context__", "__suppress_context__")
        if getattr(error, name)
    }
    if error.__traceback__ is not None:
        pickler.notes.append(f"the traceback of {type(error).__qualname__} is not kept")
    reduction = error.__reduce__()
    args = reduction[1] if isinstance(reduction, tuple) else error.args
    fields = {name: getattr(error, name) for name in ("name", "path") if _is_import_error(error)}
    state = error.__dict__, links, fields
    return restore_exception, (type(error), args), state, None, None, set_exception


def _is_import_error(error: BaseException) -> bool:
    return isinstance(error, ImportError)


@restorer
def restore_exception(cls: Any, args: tuple[Any, ...]) -> BaseException:
    # The class's own __init__ may take other arguments than those stored in `args`.
    error = _builtin_method(cls, "__new__")(cls, *args)
    _builtin_method(cls, "__init__")(error, *args)
    made: BaseException = error
    return made


def _builtin_method(cls: type, name: str) -> Any:
    for base in cls.__mro__:
        found = vars(base).get(name)
        if found is not None and not isinstance(found, (types.FunctionType, staticmethod)):
            return found
    return vars(object)[name]


@restorer
def set_exception(error: BaseException, state: tuple[Any, Any, Any]) -> None:
    attributes, links, fields = state
    if attributes:
        object.__setattr__(error, "__dict__", attributes)  # `vars(error)` may be held, too
    for name, value in {**fields, **links}.items():
        setattr(error, name, value)


@makes_plans
def plan_instance(pickler: Reducing, kind: type) -> Plan | None:
    if not reduces_by_default(kind):
        return None
    if kind in copyreg.dispatch_table or not kind.__flags__ & (1 << 9):
        return None
    delegates = _python_method(kind, "__getattr__") or _python_method(kind, "__getattribute__")
    hashes = _python_method(kind, "__hash__")
    picky = _python_method(kind, "__new__") and (
        saved_key(pickler, kind) is not None or _requires_arguments(kind)
    )
    # Without `__setstate__`, loading sets slots through it, which a class may refuse.
    guards = _python_method(kind, "__setattr__") and not _has_method(kind, "__setstate__")
    guarded_slots = guards and any("__slots__" in vars(base) for base in kind.__mro__[:-1])
    if delegates or hashes or picky or guarded_slots or _intercepts_items(kind):
        return reduce_instance
    if _sentinels(pickler, kind):
        return reduce_possible_sentinel
    return None


def _python_method(kind: type, name: str) -> bool:
    for base in kind.__mro__:
        if name in vars(base):
            return isinstance(vars(base)[name], (types.FunctionType, staticmethod))
    return False


def _intercepts_items(kind: type) -> bool:
    """Return whether adding items to an instance runs methods that may need its attributes."""
    if issubclass(kind, list):
        return _python_method(kind, "append") or _python_method(kind, "extend")
    return issubclass(kind, dict) and _python_method(kind, "__setitem__")


def _has_method(kind: type, name: str) -> bool:
    return any(name in vars(base) for base in kind.__mro__[:-1])


def _requires_arguments(kind: type) -> bool:
    if _has_method(kind, "__getnewargs__") or _has_method(kind, "__getnewargs_ex__"):
        return False
    try:
        parameters = list(inspect.signature(kind.__new__).parameters.values())[1:]
    except (TypeError, ValueError):
        return False
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return any(p.default is p.empty and p.kind not in optional for p in parameters)


def reduce_instance(pickler: Reducing, value: Any) -> Any:
    found = _sentinel(pickler, value)
    if found is not None:
        return restore_attribute, found
    kind: Any = type(value)
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if _has_method(kind, "__getnewargs_ex__"):
        args, kwargs = kind.__getnewargs_ex__(value)
    elif _has_method(kind, "__getnewargs__"):
        args = _new_arguments(kind, value)
    own_state = _has_method(kind, "__getstate__")
    sets_itself = _has_method(kind, "__setstate__")
    state = kind.__getstate__(value) if own_state else _state_of(value)
    early = None
    if not own_state and _python_method(kind, "__hash__"):
        # Plain attributes, which most hashes use, are set before anything can refer to the object.
        early = _atoms_of(state)
    if own_state or sets_itself:
        if not own_state and not state[1]:
            state = state[0]  # the __setstate__ of a class without slots expects a dictionary
        listitems: Any = iter(value) if isinstance(value, list) else None
        dictitems: Any = iter(dict.items(value)) if isinstance(value, dict) else None
    else:
        listitems = dictitems = None
        if isinstance(value, (list, dict)):
            # Items are added after the attributes, and without calling methods of the class.
            items = list.copy(value) if isinstance(value, list) else dict.copy(value)
            state = (*state, items)
    made = (restore_instance, (kind, args, kwargs, early), state, listitems, dictitems)
    return made if sets_itself else (*made, set_instance_state)


def _new_arguments(kind: Any, value: Any) -> tuple[Any, ...]:
    """Return the arguments for ``__new__`` of the built-in base, not for the class's own."""
    for base in kind.__mro__:
        found = vars(base).get("__getnewargs__")
        if found is not None and not isinstance(found, types.FunctionType):
            return tuple(found(value))
    if issubclass(kind, tuple):
        return (tuple(value),)  # the __getnewargs__ of a named tuple is for its own __new__
    return tuple(kind.__getnewargs__(value))


def _state_of(value: Any) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the instance's dictionary and its slots, without running code of the class."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        attributes = None
    slots = {}
    for name in copyreg._slotnames(type(value)):  # type: ignore[attr-defined]
        with contextlib.suppress(AttributeError):
            slots[name] = object.__getattribute__(value, name)
    return attributes, slots


def _atoms_of(state: tuple[dict[str, Any] | None, dict[str, Any]]) -> Any:
    attributes, slots = state
    return (
        {name: value for name, value in (attributes or {}).items() if _is_atomic(value)},
        {name: value for name, value in slots.items() if _is_atomic(value)},
    )


def _is_atomic(value: Any) -> bool:
    if type(value) is tuple:
        return len(value) <= 16 and all(_is_atomic(item) for item in value)
    return type(value) in _ATOMS


@restorer
def restore_instance(cls: Any, args: Any, kwargs: Any, early: Any) -> Any:
    value = _builtin_method(cls, "__new__")(cls, *args, **kwargs)
    if early is not None:
        set_instance_state(value, early)
    return value


@restorer
def set_instance_state(value: Any, state: Any) -> None:
    attributes, slots, *items = state if isinstance(state, tuple) else (state, None)
    if attributes is value:  # as after ``self.__dict__ = self``
        object.__setattr__(value, "__dict__", value)
    elif attributes:
        object.__getattribute__(value, "__dict__").update(attributes)
    for name, content in (slots or {}).items():
        object.__setattr__(value, name, content)
    if items:
        (list.extend if isinstance(value, list) else dict.update)(value, items[0])


@makes_plans
def plan_shared_attributes(pickler: Reducing, kind: type) -> Plan | None:
    """Plan for a class with instances whose dictionary of attributes others hold as well.

    That is so after ``d = vars(x)``, with dictionaries that say ``self.__dict__ = self``, and with
    instances that share a dictionary of their class.
    """
    if not reduces_by_default(kind) or _has_method(kind, "__setstate__"):
        return None
    if _has_method(kind, "__getstate__") or kind in copyreg.dispatch_table:
        return None
    held, kinds = _held_attributes(pickler)
    of_class = {
        id(content)
        for base in kind.__mro__[:-1]
        for content in vars(base).values()
        if type(content) is dict
    }
    if not (of_class or kind in kinds or issubclass(kind, dict)):
        return None

    shared = held | of_class

    def reduce_by_attributes(_pickler: Reducing, value: Any) -> Any:
        attributes = _attributes_of(value)
        if attributes is not value and id(attributes) not in shared:
            return NotImplemented
        reduction = value.__reduce_ex__(PROTOCOL)
        state = reduction[2]
        if state is not attributes and not (type(state) is tuple and state[0] is attributes):
            return NotImplemented
        return (*reduction[:5], adopt_attributes)

    return reduce_by_attributes


def _held_attributes(pickler: Reducing) -> tuple[set[int], set[type]]:
    """Return the ids of dictionaries that variables hold, as such or by a proxy, and the classes
    of those variables whose attributes are among them."""
    known: tuple[set[int], set[type]] | None = pickler.context.kept.get("held attributes")
    if known is None:
        values = list(pickler.context.namespace.values())
        held = {id(value) for value in values if type(value) is dict}
        held.update(
            id(gc.get_referents(value)[0])
            for value in values
            if type(value) is types.MappingProxyType
        )
        known = held, {type(v) for v in values if held and id(_attributes_of(v)) in held}
        pickler.context.kept["held attributes"] = known
    return known


def _attributes_of(value: Any) -> dict[str, Any] | None:
    kind = type(value)
    if not kind.__flags__ & (1 << 9) or issubclass(kind, type):
        return None
    try:
        found: dict[str, Any] = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found


@restorer
def adopt_attributes(value: Any, state: Any) -> None:
    """Make a dictionary that others hold as well the attributes of an instance."""
    attributes, slots = state if type(state) is tuple else (state, None)
    object.__setattr__(value, "__dict__", attributes)
    for name, content in (slots or {}).items():
        object.__setattr__(value, name, content)


def reduce_possible_sentinel(pickler: Reducing, value: Any) -> Any:
    found = _sentinel(pickler, value)
    return NotImplemented if found is None else (restore_attribute, found)


def _sentinels(pickler: Reducing, kind: type) -> dict[int, tuple[str, str]]:
    """Return id → (module, name) of the sentinels of a class, such as ``dataclasses.MISSING``.

    Sentinels are constant instances that the module of their class has as attributes.
    """
    table = pickler.context.sentinels.get(kind)
    if table is None:
        name = module_of(kind)
        module = sys.modules.get(name)
        scope = {} if module is None or name == "__main__" else vars(module)
        table = {
            id(found): (name, attribute)
            for attribute, found in list(scope.items())
            if type(found) is kind and _is_constant(found)
        }
        pickler.context.sentinels[kind] = table
    return table


def _is_constant(value: Any) -> bool:
    """Return whether an object has no state that may change, as if it served comparisons only."""
    state = getattr(value, "__dict__", None)
    if not state:
        return not isinstance(value, (list, dict, set))
    return type(value).__name__.startswith("_") and all(map(_is_atomic, state.values()))


def _sentinel(pickler: Reducing, value: Any) -> tuple[str, str] | None:
    """Return the module and name under which a sentinel can be found; None for other objects."""
    found = _sentinels(pickler, type(value)).get(id(value))
    if found is not None:
        pickler.context.references.add(id(value))
    return found


@restorer
def restore_attribute(module: str, name: str) -> Any:
    return getattr(import_module(module, current().modules.get(module, "")), name)


@wraps_plans
def plan_imported_object(pickler: Reducing, kind: type, plan: Plan) -> Plan:
    """Refer to the objects of libraries that the notebook has imported by name."""
    if not imported_objects.has_reference(pickler.context, kind):
        return plan

    def reduce_imported_object(pickler: Reducing, value: Any) -> Any:
        place = imported_objects.references(pickler.context).get(id(value))
        if place is None:
            return NotImplemented if plan is default else plan(pickler, value)
        pickler.context.references.add(id(value))
        return restore_imported_object, place

    return reduce_imported_object


@restorer
def restore_imported_object(module: str, name: str) -> Any:
    found = restore_attribute(module, name)
    imported_objects.referred[id(found)] = found, (module, name)
    return found


_ONE_PER_PROCESS = {
    "random:Random": ("random", "_inst"),
    "numpy.random.mtrand:RandomState": ("numpy.random.mtrand", "_rand"),
    "os:_Environ": ("os", "environ"),
}


@reduces(*_ONE_PER_PROCESS)
def reduce_one_per_process(pickler: Reducing, value: Any) -> Any:
    """Save an object of which a process has one, such as the generator behind ``random``, by name.

    A copy would not be the generator that ``randint`` draws from. The state of the generator is
    part of the process state.
    """
    kind = type(value)
    module, name = _ONE_PER_PROCESS[f"{kind.__module__}:{kind.__qualname__}"]
    if getattr(sys.modules.get(module), name, None) is not value:
        return NotImplemented
    pickler.context.references.add(id(value))
    return restore_attribute, (module, name)
