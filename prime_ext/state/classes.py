"""Classes that the notebook defined: saved by value, in two steps.

The *skeletons* (metaclass, bases, slots) of all classes are restored first, so that any object can
refer to any class. The contents of the classes follow as roots of components. Making a skeleton
runs neither ``__init_subclass__`` nor Python code of a metaclass: a registry filled by such a hook
is restored as data, and running the hook again would fill it twice.
"""

from __future__ import annotations

import abc
import ctypes
import importlib
import io
import pickle
import secrets
import types
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import structs
from .displaced import is_displaced, reduce_displaced
from .pickling import PROTOCOL, ComponentPickler, Reducing, SaveContext, describe
from .plans import Plan, makes_plans, module_of, reduces
from .reducers_functions import is_importable
from .restorers import current, restorer

try:
    _abc: Any = importlib.import_module("_abc")
except ImportError:  # this interpreter's abc is written in Python
    _abc = None

_HEAP_TYPE = 1 << 9


# The metaclasses of ctypes have no public name, but a class made with each of them has one.
_CTYPES_METACLASSES: dict[type, str] = {
    type(getattr(ctypes, name)): name
    for name in ("Structure", "Union", "Array", "_Pointer", "_SimpleCData", "_CFuncPtr")
}


class ClassKeys:
    """Gives each class of the process a key, which the class keeps when it is restored."""

    def __init__(self) -> None:
        self._keys: dict[int, tuple[weakref.ref[type], str]] = {}
        self._live: dict[str, weakref.ref[type]] = {}

    def key(self, cls: type) -> str:
        """Return the key of a class, which is made at the first call."""
        known = self.known(cls)
        if known is not None:
            return known
        key = f"{cls.__module__}.{cls.__qualname__}#{secrets.token_hex(6)}"
        self.remember(cls, key)
        return key

    def known(self, cls: type) -> str | None:
        """Return the key of a class that has one."""
        found = self._keys.get(id(cls))
        return found[1] if found is not None and found[0]() is cls else None

    def remember(self, cls: type, key: str) -> None:
        reference = weakref.ref(cls)
        self._keys[id(cls)] = reference, key
        self._live[key] = reference

    def live(self, key: str) -> type | None:
        """Return the class with this key if it is alive in this process."""
        reference = self._live.get(key)
        return None if reference is None else reference()


KEYS = ClassKeys()


def saved_key(pickler: Reducing, cls: type) -> str | None:
    """Return the key of a class that has to be saved by value; None for any other class.

    Pickles the skeleton of a class that is met for the first time. Raises `pickle.PicklingError`
    for a class that cannot be saved.
    """
    known = KEYS.known(cls)
    if known is not None and known in pickler.context.classes:
        return known
    if is_importable(pickler, cls) or not cls.__flags__ & _HEAP_TYPE:
        return None
    if not (module_of(cls) and module_of(type(cls))):
        return None  # a type of Cython's runtime, which every Cython module brings along
    if cls in _CTYPES_METACLASSES:
        return None
    key = KEYS.key(cls)
    context = pickler.context
    if key in context.broken:
        raise pickle.PicklingError(context.broken[key])
    if "__mapper__" in vars(cls) and "_sa_class_manager" in vars(cls):
        context.broken[key] = "its class is mapped by SQLAlchemy: run the cell that defines it"
        raise pickle.PicklingError(context.broken[key])
    if key not in context.classes:
        context.classes[key] = cls
        try:
            context.skeletons[key] = _pickled_skeleton(context, key, cls)
        except Exception as error:
            del context.classes[key]
            context.broken[key] = f"its class cannot be made again: {describe(error)}"
            raise pickle.PicklingError(context.broken[key]) from error
    return key


def _pickled_skeleton(context: SaveContext, key: str, cls: type) -> bytes:
    if _is_ordinary(cls):
        return pickle.dumps(skeleton(key, cls), PROTOCOL)
    file = io.BytesIO()
    pickler = ComponentPickler(file, context)
    pickler.dump(skeleton(key, cls))
    return file.getvalue()


@makes_plans
def plan_broken(pickler: Reducing, kind: type) -> Plan | None:
    """Plan a placeholder for each instance of a class that cannot be saved."""
    try:
        saved_key(pickler, kind)
    except pickle.PicklingError as error:
        why = str(error)
        return lambda pickler, value: pickler.lose(value, why)
    return None


@reduces(type, subclasses=True)
def reduce_class(pickler: Reducing, cls: type) -> Any:
    if cls in (type(None), type(...), type(NotImplemented)):
        return NotImplemented
    key = saved_key(pickler, cls)
    if key is not None:
        pickler.used_classes.add(key)
        return restore_class, (key,)
    if is_displaced(cls) or not is_importable(pickler, cls):
        for name, value in vars(types).items():
            if value is cls:
                return restore_named_type, (name,)
        if cls in _CTYPES_METACLASSES:
            return restore_ctypes_metaclass, (_CTYPES_METACLASSES[cls],)
        return reduce_displaced(pickler, cls)
    return NotImplemented


@restorer
def restore_class(key: str) -> type:
    return current().classes[key]


@restorer
def restore_named_type(name: str) -> type:
    found: type = getattr(types, name)
    return found


@restorer
def restore_ctypes_metaclass(base: str) -> type:
    return type(getattr(ctypes, base))


def _is_ordinary(cls: type) -> bool:
    """Return whether a class has no metaclass and no bases of its own."""
    return type(cls) is type and cls.__bases__ == (object,)


def skeleton(key: str, cls: type) -> tuple[Any, ...]:
    """Return the arguments of `restore_skeleton` for a class."""
    slots = None
    basics = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    meta, bases = (None, ()) if _is_ordinary(cls) else (type(cls), cls.__bases__)
    if meta is not None and structs.is_struct_class(meta):
        return key, meta, cls.__name__, bases, basics, None, structs.description(cls)
    if "__slots__" in vars(cls):
        slots = tuple(_own_slots(cls))
    return key, meta, cls.__name__, bases, basics, slots


def _own_slots(cls: type) -> Iterator[str]:
    for name, value in vars(cls).items():
        own = getattr(value, "__objclass__", None) is cls
        if (own and isinstance(value, types.MemberDescriptorType)) or (
            own and name in ("__dict__", "__weakref__")
        ):
            yield name


def restore_skeleton(
    key: str,
    meta: type | None,
    name: str,
    bases: tuple[type, ...],
    basics: dict[str, Any],
    slots: tuple[str, ...] | None,
    struct: dict[str, Any] | None = None,
) -> type:
    """Make an empty class with its metaclass and bases, without running their hooks.

    ``meta``: None for ``type``.
    ``struct``: the description of a msgspec struct class (`structs.description`), which cannot be
    made empty.
    """
    body = dict(basics)
    if slots is not None:
        body["__slots__"] = slots
    meta = type if meta is None else meta
    make = _builtin_new(meta)
    with hooks_held_back(bases):
        if struct is not None:
            cls = structs.make(meta, name, bases, body, struct)
        else:
            cls = make(meta, name, bases, body)
            _builtin_init(meta)(cls, name, bases, body)
    if isinstance(cls, abc.ABCMeta) and _abc is not None:
        _abc._abc_init(cls)
    KEYS.remember(cls, key)
    return cls  # type: ignore[no-any-return]


@contextmanager
def hooks_held_back(bases: tuple[type, ...]) -> Iterator[None]:
    """Replace every base's ``__init_subclass__`` by a no-op while a class is made.

    ``type.__new__`` offers no other way to keep these hooks from running.
    """
    hooks = {
        base: vars(base)["__init_subclass__"]
        for one in bases
        for base in one.__mro__
        if "__init_subclass__" in vars(base) and base.__flags__ & _HEAP_TYPE
    }
    try:
        for base in hooks:
            type.__setattr__(base, "__init_subclass__", classmethod(_do_nothing))
        yield
    finally:
        for base, hook in hooks.items():
            type.__setattr__(base, "__init_subclass__", hook)


def _do_nothing(_cls: type, /, **_kwargs: Any) -> None:
    pass


def _builtin_new(meta: type) -> Any:
    for base in meta.__mro__:
        candidate = vars(base).get("__new__")
        if isinstance(candidate, types.BuiltinFunctionType):
            return candidate
    return type.__new__


def _builtin_init(meta: type) -> Any:
    """Return the first ``__init__`` of a metaclass that is written in C; Python's are skipped."""
    for base in type.mro(meta):
        candidate = vars(base).get("__init__")
        if isinstance(candidate, types.WrapperDescriptorType):
            return candidate
    return type.__init__


_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_CODE_LIKE = (types.FunctionType, classmethod, staticmethod, property)
# __slotnames__ is a cache that pickling itself leaves in a class.
_NOT_CONTENT = (
    "__slotnames__",
    "__dict__",
    "__weakref__",
    "_abc_impl",
    "__module__",
    "__qualname__",
)


def contents(cls: type) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]], list[Any]]:
    """Return a class's methods, its other attributes, and the classes registered with an ABC.

    Methods come first in the stream: attributes may hold instances of the class, which may need
    its methods while they are restored.
    """
    methods: list[tuple[str, Any]] = []
    attributes: list[tuple[str, Any]] = []
    for name, value in vars(cls).items():
        if name in _NOT_CONTENT:
            continue
        if type(value) is types.FunctionType:
            methods.append((name, value))
            continue
        if isinstance(value, _SLOTS) and value.__objclass__ is cls:
            continue
        if type(value).__module__ == "_ctypes" and type(value).__name__ == "CField":
            continue
        is_method = isinstance(value, _CODE_LIKE)
        (methods if is_method else attributes).append((name, value))
    return methods, attributes, registered_with(cls)


def registered_with(cls: Any) -> list[type]:
    """Return the classes registered with an ABC; none for any other object."""
    if not isinstance(cls, abc.ABCMeta) or _abc is None:
        return []
    return [found for ref in _abc._get_dump(cls)[0] if (found := ref()) is not None]


def fill(cls: type, attributes: list[tuple[str, Any]]) -> None:
    """Set the attributes of a class, bypassing a ``__setattr__`` written in Python."""
    structured = issubclass(cls, (ctypes.Structure, ctypes.Union))
    if structured:
        # setattr, because the metaclass of ctypes turns these into a memory layout. _fields_ is
        # last: it needs the others.
        layout = [pair for pair in attributes if pair[0] in ("_pack_", "_anonymous_", "_align_")]
        if "_fields_" not in vars(cls):  # it cannot be set twice
            layout += [pair for pair in attributes if pair[0] == "_fields_"]
        for name, value in layout:
            setattr(cls, name, value)
        hidden = ("_pack_", "_anonymous_", "_align_", "_fields_")
        attributes = [pair for pair in attributes if pair[0] not in hidden]
    # The __setattr__ of the metaclass's built-in base, because some refuse type.__setattr__.
    set_attribute = next(
        vars(base)["__setattr__"]
        for base in type.mro(type(cls))
        if isinstance(vars(base).get("__setattr__"), types.WrapperDescriptorType)
    )
    for name, value in attributes:
        set_attribute(cls, name, value)


def bases_first(classes: dict[str, type], pickler: Reducing) -> list[str]:
    """Return the keys in an order in which bases and metaclasses precede the classes they make.

    Visiting a base may add classes to the pickler's context that no stream has referred to yet.
    """
    order: list[str] = []
    seen: set[str] = set()

    def visit(key: str, cls: type) -> None:
        if key in seen:
            return
        seen.add(key)
        if not _is_ordinary(cls):
            more = structs.classes_needed(cls) if structs.is_struct_class(type(cls)) else ()
            for needed in (type(cls), *cls.__bases__, *more):
                needed_key = saved_key(pickler, needed)
                if needed_key is not None:
                    visit(needed_key, needed)
        order.append(key)

    for key, cls in sorted(classes.items()):  # sorted: the same classes give the same stream
        visit(key, cls)
    return order
