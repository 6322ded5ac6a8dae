"""Built-in objects that pickle does not support: locks, queues, weak references, views, typing."""

from __future__ import annotations

import asyncio
import collections
import contextvars
import gc
import hashlib
import importlib
import queue
import sys
import threading
import types
import typing
import weakref
from typing import Any

from .pickling import Reducing, describe
from .plans import reduces, reduces_by_default
from .reducers_functions import is_importable
from .restorers import current, restorer

_ASYNCIO: tuple[Any, ...] = (
    asyncio.Condition,
    asyncio.Event,
    asyncio.Lock,
    asyncio.Queue,
    asyncio.Semaphore,
    *((asyncio.Barrier,) if hasattr(asyncio, "Barrier") else ()),
)

# --- locks and queues -----------------------------------------------------------------------


@reduces(type(threading.Lock()), type(threading.RLock()))
def reduce_lock(pickler: Reducing, lock: Any) -> Any:
    reentrant = not isinstance(lock, type(threading.Lock()))
    held = "owner=0" not in repr(lock) if reentrant else lock.locked()
    if held:
        pickler.notes.append("a lock that was held is restored unlocked")
    return restore_lock, (reentrant,)


@restorer
def restore_lock(reentrant: bool) -> Any:
    return threading.RLock() if reentrant else threading.Lock()


@reduces(queue.SimpleQueue)
def reduce_simple_queue(_pickler: Reducing, value: queue.SimpleQueue[Any]) -> Any:
    # Its items can only be read by removing them; they are put back in the same order.
    items = []
    try:
        while True:
            items.append(value.get_nowait())
    except queue.Empty:
        pass
    for item in items:
        value.put(item)
    return restore_simple_queue, (), items, None, None, fill_simple_queue


@restorer
def restore_simple_queue() -> queue.SimpleQueue[Any]:
    return queue.SimpleQueue()


@restorer
def fill_simple_queue(value: queue.SimpleQueue[Any], items: list[Any]) -> None:
    for item in items:
        value.put(item)


@reduces(threading.Condition, subclasses=True)
@reduces(*_ASYNCIO, subclasses=True)
def reduce_waited_for(pickler: Reducing, value: Any) -> Any:
    """Save a synchronization object as free and without waiters.

    The threads, tasks and event loops that wait for it or hold it end with the process.
    """
    if not reduces_by_default(type(value)):
        return NotImplemented
    state = {name: content for name, content in vars(value).items() if name != "_loop"}
    for name in ("_waiters", "_getters", "_putters"):
        if state.get(name):
            state[name] = collections.deque()
    if state.get("_locked") is True:
        pickler.notes.append("a lock that was held is restored unlocked")
        state["_locked"] = False
    return restore_waited_for, (type(value),), state


@restorer
def restore_waited_for(kind: Any) -> Any:
    made = kind.__new__(kind)
    if isinstance(made, _ASYNCIO) and not hasattr(made, "_loop"):
        made._loop = asyncio.get_event_loop()  # Python 3.9 binds it to a loop when it is made
    return made


@reduces(threading.local)
def reduce_thread_local(pickler: Reducing, value: threading.local) -> Any:
    pickler.notes.append("a thread-local object keeps what the main thread had in it")
    return restore_thread_local, (), dict(vars(value)), None, None, set_thread_local


@restorer
def restore_thread_local() -> threading.local:
    return threading.local()


@restorer
def set_thread_local(value: threading.local, state: dict[str, Any]) -> None:
    vars(value).update(state)


@reduces(contextvars.ContextVar)
def reduce_context_variable(_pickler: Reducing, variable: contextvars.ContextVar[Any]) -> Any:
    values: list[tuple[Any, ...]] = []
    for context in (contextvars.Context(), contextvars.copy_context()):
        try:
            values.append((context.run(variable.get),))
        except LookupError:
            values.append(())
    return (
        restore_context_variable,
        (variable.name, values[0]),
        values[1:],
        None,
        None,
        set_variable,
    )


@restorer
def restore_context_variable(name: str, default: tuple[Any, ...]) -> Any:
    make: Any = contextvars.ContextVar
    return make(name, default=default[0]) if default else make(name)


@restorer
def set_variable(variable: Any, state: list[tuple[Any, ...]]) -> None:
    if state[0]:
        variable.set(state[0][0])


# --- weak references ------------------------------------------------------------------------


@reduces(weakref.ReferenceType)
def reduce_weakref(_pickler: Reducing, reference: weakref.ref[Any]) -> Any:
    return restore_weakref, (reference(), reference.__callback__)


@restorer
def restore_weakref(target: Any, callback: Any) -> weakref.ref[Any]:
    if target is None:
        return weakref.ref(_Gone())
    # The names with strong references to the target may be restored after this reference.
    current().keepalive.append(target)
    return weakref.ref(target, callback)


@reduces(weakref.finalize)
def reduce_finalizer(pickler: Reducing, finalizer: weakref.finalize[Any, Any]) -> Any:
    """Restore a finalizer as one that has run.

    A restored one might act on what the object of another process still uses.
    """
    if finalizer.alive:
        pickler.notes.append("its finalizer (weakref.finalize) does not run after a restore")
    return NotImplemented


@reduces(weakref.WeakMethod)
def reduce_weak_method(_pickler: Reducing, reference: weakref.WeakMethod[Any]) -> Any:
    return restore_weak_method, (reference(),)


@restorer
def restore_weak_method(method: Any) -> Any:
    if method is None:
        return weakref.WeakMethod(_Gone().method)
    current().keepalive.append(method.__self__)
    return weakref.WeakMethod(method)


class _Gone:
    """A class whose instances are deleted at once, to make dead references."""

    def method(self) -> None:
        """Serve as the target of a dead `weakref.WeakMethod`."""


@reduces(weakref.ProxyType, weakref.CallableProxyType)
def reduce_proxy(_pickler: Reducing, proxy: Any) -> Any:
    try:
        return restore_proxy, (proxy.__repr__.__self__,)
    except ReferenceError:
        return restore_proxy, (None,)


@restorer
def restore_proxy(target: Any) -> Any:
    if target is None:
        target = _Gone()
    current().keepalive.append(target)
    return weakref.proxy(target)


@reduces(weakref.WeakValueDictionary, weakref.WeakKeyDictionary)
def reduce_weak_dictionary(_pickler: Reducing, value: Any) -> Any:
    by_key = isinstance(value, weakref.WeakKeyDictionary)
    return restore_weak_dictionary, (by_key,), list(value.items()), None, None, fill_weak_dictionary


@restorer
def restore_weak_dictionary(by_key: bool) -> Any:
    return weakref.WeakKeyDictionary() if by_key else weakref.WeakValueDictionary()


@restorer
def fill_weak_dictionary(value: Any, items: list[tuple[Any, Any]]) -> None:
    current().keepalive.append(items)
    for key, content in items:
        value[key] = content


@reduces(weakref.WeakSet)
def reduce_weak_set(_pickler: Reducing, value: weakref.WeakSet[Any]) -> Any:
    return restore_weak_set, (), list(value), None, None, fill_weak_set


@restorer
def restore_weak_set() -> weakref.WeakSet[Any]:
    return weakref.WeakSet()


@restorer
def fill_weak_set(value: weakref.WeakSet[Any], items: list[Any]) -> None:
    current().keepalive.append(items)
    value.update(items)


# --- views of dictionaries ------------------------------------------------------------------


_ORDERED: collections.OrderedDict[Any, Any] = collections.OrderedDict()


@reduces(type({}.keys()), type({}.values()), type({}.items()))
@reduces(type(_ORDERED.keys()), type(_ORDERED.values()), type(_ORDERED.items()))
def reduce_dict_view(_pickler: Reducing, view: Any) -> Any:
    kind = type(view).__name__.partition("_")[2]
    return restore_dict_view, (_viewed(view), kind)


@restorer
def restore_dict_view(mapping: dict[Any, Any], kind: str) -> Any:
    return getattr(mapping, kind)()


@reduces(types.MappingProxyType)
def reduce_mapping_proxy(_pickler: Reducing, proxy: Any) -> Any:
    mapping = _viewed(proxy)
    owner = getattr(mapping, "get", lambda _name: None)("__dict__")
    if isinstance(owner, types.GetSetDescriptorType) and vars(owner.__objclass__) == proxy:
        return restore_class_proxy, (owner.__objclass__,)
    return restore_mapping_proxy, (mapping,)


def _viewed(view: Any) -> Any:
    # Not `view.mapping`, which is a new proxy: identity with the dictionary would be lost.
    return next(found for found in gc.get_referents(view))


@restorer
def restore_mapping_proxy(mapping: Any) -> Any:
    return types.MappingProxyType(mapping)


@restorer
def restore_class_proxy(cls: type) -> Any:
    return vars(cls)


# --- typing ---------------------------------------------------------------------------------


@reduces(typing.TypeVar, "typing:ParamSpec", "typing:TypeVarTuple")
def reduce_typevar(pickler: Reducing, value: Any) -> Any:
    if _is_module_attribute(pickler, value):
        return NotImplemented
    kind = type(value).__name__
    constraints = getattr(value, "__constraints__", ())
    options = {
        option: found
        for option in ("bound", "covariant", "contravariant", "infer_variance")
        if (found := getattr(value, f"__{option}__", None))
    }
    if hasattr(value, "has_default") and value.has_default():
        options["default"] = value.__default__
    return restore_typevar, (kind, value.__name__, constraints, options, value.__module__)


@restorer
def restore_typevar(
    kind: str, name: str, constraints: Any, options: dict[str, Any], module: str
) -> Any:
    if sys.version_info < (3, 12):
        options.pop("infer_variance", None)  # it matters to type checkers only
    makers: Any = typing
    if "default" in options and sys.version_info < (3, 13):
        makers = importlib.import_module("typing_extensions")
    made = getattr(makers, kind)(name, *constraints, **options)
    made.__module__ = module
    return made


@reduces("typing:NewType")
def reduce_newtype(pickler: Reducing, value: Any) -> Any:
    if is_importable(pickler, value):
        return NotImplemented
    return restore_newtype, (value.__name__, value.__supertype__, value.__module__)


@restorer
def restore_newtype(name: str, supertype: Any, module: str) -> Any:
    make: Any = typing.NewType
    made = make(name, supertype)
    made.__module__ = module
    return made


@reduces("typing:TypeAliasType")
def reduce_type_alias(pickler: Reducing, alias: Any) -> Any:
    if _is_module_attribute(pickler, alias):
        return NotImplemented
    try:
        value = alias.__value__
    except Exception as error:
        return pickler.lose(alias, f"its value is not known: {describe(error)}")
    made = (alias.__name__, alias.__module__)
    if not alias.__type_params__ and alias.__name__.isidentifier():
        # The alias may be part of its own value, so the value is restored after it.
        return restore_type_alias, made, value, None, None, fill_type_alias
    if _mentions(value, alias, set()):
        return pickler.lose(alias, "an alias with parameters that is part of its own value")
    return restore_generic_alias, (*made, value, alias.__type_params__)


def _mentions(value: Any, alias: Any, seen: set[int]) -> bool:
    if value is alias:
        return True
    if id(value) in seen:
        return False
    seen.add(id(value))
    parts = [*typing.get_args(value), getattr(value, "__origin__", None)]
    if type(value) is type(alias):
        parts.append(value.__value__)
    return any(_mentions(part, alias, seen) for part in parts)


@restorer
def restore_type_alias(name: str, module: str) -> Any:
    value: list[Any] = []
    scope: dict[str, Any] = {"__name__": module, "value": value}
    # This is the only way to make an alias whose value is set later.
    exec(f"type {name} = value[0]", scope)  # noqa: S102 - an identifier, of a signed stream
    current().kept[id(scope[name])] = value
    return scope[name]


@restorer
def fill_type_alias(alias: Any, value: Any) -> None:
    current().kept.pop(id(alias)).append(value)


@restorer
def restore_generic_alias(name: str, module: str, value: Any, parameters: Any) -> Any:
    scope = {"__name__": module, "kind": vars(typing)["TypeAliasType"]}
    scope.update(name=name, value=value, parameters=parameters)
    # The alias gets its __module__ from the globals of the code that makes it.
    return eval("kind(name, value, type_params=parameters)", scope)  # noqa: S307


def _is_module_attribute(pickler: Reducing, value: Any) -> bool:
    module = sys.modules.get(value.__module__ or "")
    in_notebook = value.__module__ == "__main__"
    found = not in_notebook and getattr(module, value.__name__, None) is value
    if found:
        pickler.context.references.add(id(value))
    return found


# --- descriptors and the like ---------------------------------------------------------------


@reduces(types.MemberDescriptorType, types.GetSetDescriptorType)
def reduce_descriptor(_pickler: Reducing, value: Any) -> Any:
    return restore_descriptor, (value.__objclass__, value.__name__)


@restorer
def restore_descriptor(cls: type, name: str) -> Any:
    return vars(cls)[name]


@reduces(super)
def reduce_super(_pickler: Reducing, value: Any) -> Any:
    return restore_super, (value.__thisclass__, value.__self__)


@restorer
def restore_super(cls: Any, owner: Any) -> Any:
    return super(cls) if owner is None else super(cls, owner)


@reduces(type(hashlib.sha256()), type(hashlib.md5()), type(hashlib.blake2b()))
def reduce_hash(pickler: Reducing, value: Any) -> Any:
    return pickler.lose(value, "the state of a hash cannot be read")
