"""Functions, code objects, closure cells, methods, and the modules that their globals belong to.

A function defined in the notebook is saved by value, but without its globals: when restored, it
uses the live namespace, so that a counter function goes on counting in the user's variable.
"""

from __future__ import annotations

import builtins
import functools
import linecache
import marshal
import os
import sys
import types
import weakref
from typing import Any

from .pickling import Reducing, SaveContext, import_module
from .plans import reduces
from .restorers import ALIAS, RESTORERS, SandboxedResource, current, restorer
from .same_text import in_all, one_object
from .unrestorable import missed

_FUNCTION_ATTRIBUTES = (
    "__defaults__",
    "__kwdefaults__",
    "__doc__",
    "__annotations__",
    "__qualname__",
    "__module__",
    "__type_params__",
)
_EMPTY: dict[str, Any] = {
    "__defaults__": None,
    "__kwdefaults__": None,
    "__doc__": None,
    "__annotations__": {},
    "__type_params__": (),
}
_ABSENT = object()


def is_importable(pickler: Reducing, value: Any) -> bool:
    """Return whether a class or function can be found by its name in an importable module."""
    name = getattr(value, "__module__", None)
    if not isinstance(name, str) or name == "__main__":
        return False
    known = pickler.context.importable.get(id(value))
    if known is None:
        known = value, _is_importable(pickler, value, name)
        pickler.context.importable[id(value)] = known
        if known[1]:
            pickler.context.references.add(id(value))
    return known[1]


def _is_importable(pickler: Reducing, value: Any, name: str) -> bool:
    if name == ALIAS:
        return RESTORERS.get(value.__name__) is value
    module = sys.modules.get(name)
    if module is None or not module_is_importable(pickler, module):
        return False
    found: Any = module
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
        if found is None:
            return False
    return found is value


def module_is_importable(pickler: Reducing, module: types.ModuleType) -> bool:
    """Return whether the module can be imported; record its file if it is not installed."""
    name = getattr(module, "__name__", None)
    if not isinstance(name, str) or sys.modules.get(name) is not module:
        return False
    spec = getattr(module, "__spec__", None)
    if spec is None:
        # Extension modules of some libraries register submodules without a spec.
        parent = name.rpartition(".")[0]
        return name in sys.builtin_module_names or bool(
            parent and getattr(sys.modules.get(parent), "__spec__", None)
        )
    origin = getattr(spec, "origin", None)
    if isinstance(origin, str) and os.path.isabs(origin) and not is_installed(origin):
        pickler.context.modules[name] = origin
        parent = name.rpartition(".")[0]
        if parent in sys.modules:
            module_is_importable(pickler, sys.modules[parent])
    return True


@functools.cache
def is_installed(origin: str) -> bool:
    """Return whether a module belongs to Python or an installed package, or has no file."""
    if not os.path.isabs(origin):  # built-in, frozen
        return True
    return (
        "site-packages" in origin
        or "dist-packages" in origin
        or origin.startswith(os.path.dirname(os.__file__))
    )


@reduces(types.FunctionType)
def reduce_function(pickler: Reducing, function: types.FunctionType) -> Any:
    if is_importable(pickler, function):
        return NotImplemented
    if is_plain_function(function):
        reduction = plain_reduction(pickler, function)
        if reduction is not None:
            return reduction
    state: dict[str, Any] = {}
    for name in _FUNCTION_ATTRIBUTES:
        value = getattr(function, name, _ABSENT)
        if value is not _ABSENT and (name not in _EMPTY or value != _EMPTY[name]):
            state[name] = value
    if function.__dict__:
        state["__dict__"] = function.__dict__
    scope = _globals_of(pickler, function)
    if isinstance(scope, Scope):
        state["__globals__"] = _used_globals(function)
    args = (function.__code__, scope, function.__name__, function.__closure__)
    return restore_function, args, state, None, None, set_function_state


def plain_reduction(pickler: Reducing, function: types.FunctionType) -> tuple[Any, ...] | None:
    """Return the reduction of an `is_plain_function`; None if its globals need more than a name."""
    scope = _globals_of(pickler, function)
    if scope is not None and type(scope) is not str:
        return None
    code, cache_tag = reduce_code(pickler, function.__code__)[1]
    return restore_plain_function, (
        code,
        cache_tag,
        scope,
        function.__name__,
        function.__qualname__,
        function.__module__,
        function.__doc__,
        function.__defaults__,
        function.__annotations__ or None,
    )


_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
_PLAIN_TYPES = frozenset({bool, int, float, complex, str, bytes, list, tuple, dict, set, object})


def is_plain_function(function: types.FunctionType) -> bool:
    """Return whether a function has only code and plain values, which cannot refer to it."""
    return (
        function.__closure__ is None
        and function.__kwdefaults__ is None
        and not function.__dict__
        and (not function.__defaults__ or is_plain_value(function.__defaults__))
        and not (sys.version_info >= (3, 12) and function.__type_params__)
        and are_plain_annotations(function.__annotations__)
    )


def is_plain_value(value: Any) -> bool:
    """Return whether a value is an atom or a tuple of plain values.

    NaN is not: it does not equal itself, so its identity matters.
    """
    kind = type(value)
    return (kind in _ATOMS and value == value) or (
        kind is tuple and all(map(is_plain_value, value))
    )


def are_plain_annotations(annotations: dict[str, Any]) -> bool:
    """Return whether annotations consist of built-in types and strings only."""
    return not annotations or all(
        type(value) is str or value is None or (type(value) is type and value in _PLAIN_TYPES)
        for value in annotations.values()
    )


def _globals_of(pickler: Reducing, function: types.FunctionType) -> Any:
    """Return what stands for a function's globals in the stream.

    That is None for the notebook's namespace, otherwise the name of a module, a module, a
    dictionary that is saved anyway, or a `Scope`.
    """
    scope = function.__globals__
    if scope is pickler.context.namespace:
        return None
    name = scope.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    if module is not None and vars(module) is scope:
        if name == "__main__":
            return "__main__"
        return name if module_is_importable(pickler, module) else module
    for value in pickler.context.namespace.values():
        if value is scope or (isinstance(value, types.ModuleType) and vars(value) is scope):
            return value
    if id(scope) in pickler.context.held:
        return scope
    _, wrapper, users = pickler.context.scopes.setdefault(id(scope), (scope, Scope(), []))
    users.append(weakref.ref(pickler))  # a cycle would keep alive what it has met
    return wrapper


class Scope:
    """A stand-in for private globals, such as those of code that a library has generated.

    Each function is saved with the globals that it uses. Functions with the same globals share
    them again after a restore.
    """

    def __reduce__(self) -> Any:
        return restore_scope, ()


@restorer
def restore_scope() -> dict[str, Any]:
    return {"__builtins__": builtins}


def _used_globals(function: types.FunctionType) -> dict[str, Any]:
    names = {"__name__", "__package__"}
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes.extend(item for item in code.co_consts if isinstance(item, types.CodeType))
    scope = function.__globals__
    return {name: scope[name] for name in sorted(names) if name in scope}


def remember_source(context: SaveContext, code: types.CodeType) -> None:
    """Keep the source of a notebook cell, for tracebacks and ``inspect.getsource``."""
    name = code.co_filename
    if name in context.sources:
        return
    entry = linecache.cache.get(name)
    # An entry without a modification time belongs to no file on disk.
    if entry is not None and len(entry) == 4 and entry[1] is None:
        context.sources[name] = "".join(entry[2])


@restorer
def restore_plain_function(
    data: bytes, cache_tag: str, scope: Any, name: str, qualname: str, *more: Any
) -> Any:
    return _plain_function(restore_code(data, cache_tag), scope, name, qualname, *more)


def _plain_function(
    code: types.CodeType, scope: Any, name: str, qualname: str, *more: Any
) -> types.FunctionType:
    function: types.FunctionType = restore_function(code, scope, name, None)
    function.__qualname__ = qualname
    function.__module__, function.__doc__, defaults, annotations = more
    function.__defaults__ = in_all(defaults)
    if annotations is not None:
        function.__annotations__ = annotations
    return function


@restorer
def restore_plain_code(data: bytes, cache_tag: str) -> Any:
    """Make a function that `plain_code` saved."""
    _check_bytecode(cache_tag)
    return _of_values(*marshal.loads(data))


@restorer
def restore_plain_methods(names: list[str], data: bytes, cache_tag: str) -> list[tuple[str, Any]]:
    """Make the methods of a class that `plain_code` saved.

    If this Python cannot run them, each is a placeholder; the class is there all the same.
    """
    problem = _foreign_bytecode(cache_tag)
    if problem:
        return [(name, missed("function", f"ImportError: {problem}", name)) for name in names]
    made = [_of_values(*values) for values in marshal.loads(data)]
    return list(zip(names, made))  # noqa: B905 - Python 3.9


def _of_values(
    code: types.CodeType, scope: str | None, name: str, qualname: str, *more: Any
) -> Any:
    """Make a function; a type among its annotations is a tuple with the name of the type."""
    *others, annotations = more
    if annotations is not None:
        annotations = {
            parameter: getattr(builtins, told[0]) if type(told) is tuple else told
            for parameter, told in annotations
        }
    return _plain_function(code, scope, name, qualname, *others, annotations)


@restorer
def restore_function(code: types.CodeType, scope: Any, name: str, closure: Any) -> Any:
    if scope is None:
        scope = current().namespace
    elif isinstance(scope, str):
        scope = vars(import_module(scope, current().modules.get(scope, "")))
    elif isinstance(scope, types.ModuleType):
        scope = vars(scope)
    return types.FunctionType(code, scope, name, None, closure)


@restorer
def set_function_state(function: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        if name == "__dict__":
            function.__dict__.update(value)
        elif name == "__globals__":
            function.__globals__.update(value)
        elif name in ("__defaults__", "__kwdefaults__"):
            setattr(function, name, in_all(value))
        else:
            setattr(function, name, value)


@reduces(types.CodeType)
def reduce_code(pickler: Reducing, code: types.CodeType) -> Any:
    remember_source(pickler.context, code)
    return restore_code, (_marshalled(code), sys.implementation.cache_tag)


MARSHAL_FORMAT = 2
"""Marshal's newest format in which equal values give equal bytes: later ones tell apart interned,
repeated and other objects, and which of them are differs between processes."""


def _marshalled(code: types.CodeType) -> bytes:
    try:
        return marshal.dumps(code, MARSHAL_FORMAT)
    except ValueError:  # format 2 lacks the type of a constant
        return marshal.dumps(code)


@restorer
def restore_code(data: bytes, cache_tag: str) -> types.CodeType:
    _check_bytecode(cache_tag)
    code: types.CodeType = marshal.loads(data)
    return code


def _check_bytecode(cache_tag: str) -> None:
    problem = _foreign_bytecode(cache_tag)
    if problem:
        raise ImportError(problem)


def _foreign_bytecode(cache_tag: str) -> str:
    own = sys.implementation.cache_tag
    return "" if cache_tag == own else f"it holds bytecode of {cache_tag}, which {own} cannot run"


@reduces(types.CellType)
def reduce_cell(_pickler: Reducing, cell: types.CellType) -> Any:
    try:
        contents = cell.cell_contents
    except ValueError:
        return restore_cell, ()
    return restore_cell, (), (contents,), None, None, set_cell


@restorer
def restore_cell() -> types.CellType:
    return types.CellType()


@restorer
def set_cell(cell: types.CellType, state: tuple[Any]) -> None:
    cell.cell_contents = one_object(state[0])


@reduces(types.MethodType)
def reduce_method(pickler: Reducing, method: types.MethodType) -> Any:
    # By name where that finds the same function: the instance is then not in one component with
    # the class, and the method of a live class stays the live one.
    owner, function = method.__self__, method.__func__
    name = getattr(function, "__name__", "")
    if not name.startswith("__"):
        for base in type(owner).__mro__:
            if name in vars(base):
                if vars(base)[name] is function:
                    return restore_method_by_name, (owner, name)
                break
    return restore_method, (function, owner)


@restorer
def restore_method(function: Any, owner: Any) -> types.MethodType:
    return types.MethodType(function, owner)


@restorer
def restore_method_by_name(owner: Any, name: str) -> Any:
    if isinstance(owner, SandboxedResource):
        return SandboxedResource(restore_method_by_name, (owner, name))
    for base in type(owner).__mro__:
        if name in vars(base):
            return types.MethodType(vars(base)[name], owner)
    raise AttributeError(f"{type(owner).__qualname__} has no method {name!r} any more")


@reduces(property)
def reduce_property(_pickler: Reducing, value: property) -> Any:
    return restore_property, (value.fget, value.fset, value.fdel, value.__doc__)


@restorer
def restore_property(fget: Any, fset: Any, fdel: Any, doc: Any) -> property:
    return property(fget, fset, fdel, doc)


@reduces(classmethod, staticmethod)
def reduce_wrapped_method(_pickler: Reducing, value: Any) -> Any:
    return restore_wrapped_method, (isinstance(value, classmethod), value.__func__)


@restorer
def restore_wrapped_method(is_class: bool, function: Any) -> Any:
    return classmethod(function) if is_class else staticmethod(function)


@reduces(type(builtins.__spec__))
def reduce_spec(pickler: Reducing, spec: Any) -> Any:
    if spec is builtins.__spec__:
        pickler.met_builtins()
    return NotImplemented


@reduces(types.ModuleType, subclasses=True)
def reduce_module(pickler: Reducing, module: types.ModuleType) -> Any:
    name = module.__name__
    if name == "__main__":
        return restore_main, ()
    if module_is_importable(pickler, module):
        pickler.context.references.add(id(module))
        return restore_import, (name,)
    hidden = ("__builtins__", "__loader__", "__spec__", "__cached__")
    state = {key: value for key, value in vars(module).items() if key not in hidden}
    registered = sys.modules.get(name) is module
    return restore_module, (name, registered), state, None, None, set_module_state


@restorer
def restore_main() -> types.ModuleType:
    return sys.modules["__main__"]


@restorer
def restore_import(name: str) -> types.ModuleType:
    return import_module(name, current().modules.get(name, ""))


@restorer
def restore_module(name: str, registered: bool) -> types.ModuleType:
    module = types.ModuleType(name)
    if registered:
        module = sys.modules.setdefault(name, module)
    return module


@restorer
def set_module_state(module: types.ModuleType, state: dict[str, Any]) -> None:
    vars(module).update(state)
