"""Evaluation of expressions that inspect a variable without side effects. Sent like ``bootstrap``.

The syntax tree is interpreted here instead of being passed to ``eval``. Allowed are names,
attributes, items, comparisons, arithmetic, and calls of methods of well-known libraries that return
a new object. Properties and ``__getitem__`` of classes that the user has written are not run.
"""

from __future__ import annotations

import ast
import inspect
import operator
import types
from collections import namedtuple
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prime_ext.kernel.inside import methods, summary

MAX_ELEMENTS = 100_000_000
"""Maximum size of an array made by arithmetic; a larger one may exhaust the memory."""

MAX_REPEATED = 1_000_000
"""Maximum length of a repeated string or list."""

_BINARY: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: operator.contains(right, left),
    ast.NotIn: lambda left, right: not operator.contains(right, left),
}

_UNARY: dict[type, Any] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}


_SLOTS = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    type(namedtuple("_", "field").field),  # type: ignore[attr-defined]
)
"""Descriptor types implemented by Python itself: reading them runs no user code."""


class ExpressionRefused(Exception):
    """The expression might have side effects."""

    code = "expression_refused"


def evaluate(expression: str, namespace: dict[str, Any]) -> Any:
    """Return the value of ``expression``; exceptions of the libraries called pass through."""
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        raise ExpressionRefused(f"{expression!r} is not a Python expression: {error}.") from None
    try:
        return _Evaluation(namespace).value(tree.body)
    except methods.Refused as error:
        raise _refused(str(error)) from None


def is_known(value: Any) -> bool:
    """Whether the type of ``value`` is from a library whose look-ups have no side effects."""
    return methods.library_of(value) is not None


class _Evaluation:
    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace

    def value(self, node: ast.AST) -> Any:
        method = getattr(self, f"on_{type(node).__name__.lower()}", None)
        if method is None:
            raise _refused(f"a {type(node).__name__} expression is not supported here")
        return method(node)

    def on_constant(self, node: ast.Constant) -> Any:
        return node.value

    def on_name(self, node: ast.Name) -> Any:
        if node.id in self.namespace:
            return self.namespace[node.id]
        if node.id in methods.TYPES:
            return methods.TYPES[node.id]
        raise NameError(f"There is no variable {node.id!r} in the kernel.")

    def on_list(self, node: ast.List) -> Any:
        return [self.value(item) for item in node.elts]

    def on_tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.value(item) for item in node.elts)

    def on_dict(self, node: ast.Dict) -> Any:
        if any(key is None for key in node.keys):
            raise _refused("`**` is not supported here")
        keys = [self.value(key) for key in node.keys if key is not None]
        methods.plain(tuple(keys))
        return dict(zip(keys, map(self.value, node.values)))  # noqa: B905 - Python 3.9

    def on_slice(self, node: ast.Slice) -> Any:
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if part is None else self.value(part) for part in parts))

    def on_index(self, node: Any) -> Any:
        return self.value(node.value)

    def on_attribute(self, node: ast.Attribute) -> Any:
        return attribute(self.value(node.value), node.attr)

    def on_subscript(self, node: ast.Subscript) -> Any:
        container, key = self.value(node.value), self.value(node.slice)
        if summary.is_instance(container, type):
            raise _refused("`[]` of a class runs its code")
        for part in (key.start, key.stop, key.step) if type(key) is slice else (key,):
            methods.plain(part)
        if not is_known(container):
            raise _refused(f"`[]` of {summary.type_name(container)} runs code of its own")
        methods.keys(container)
        if summary.has(container, "__missing__") and key not in container:
            raise KeyError(key)  # A defaultdict would insert the key.
        return container[key]

    def on_binop(self, node: ast.BinOp) -> Any:
        return self.binary(node.op, self.value(node.left), self.value(node.right))

    def on_compare(self, node: ast.Compare) -> Any:
        if len(node.ops) != 1:
            raise _refused("a chain of comparisons is not supported here")
        return self.binary(node.ops[0], self.value(node.left), self.value(node.comparators[0]))

    def on_unaryop(self, node: ast.UnaryOp) -> Any:
        operand = self.value(node.operand)
        if type(node.op) not in _UNARY or not is_known(operand):
            raise _refused(
                f"{type(node.op).__name__} of {summary.type_name(operand)} runs its code"
            )
        return _UNARY[type(node.op)](operand)

    def on_call(self, node: ast.Call) -> Any:
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            raise _refused("`*` is not supported here")
        arguments = [self.value(argument) for argument in node.args]
        named: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise _refused("`**` is not supported here")
            named[keyword.arg] = self.value(keyword.value)
        return self.function(node.func, arguments, named)(*arguments, **named)

    def function(self, node: ast.expr, arguments: list[Any], named: dict[str, Any]) -> Any:
        if isinstance(node, ast.Name) and node.id not in self.namespace:
            if node.id in methods.FUNCTIONS:
                return methods.function(node.id, arguments, named)
        elif isinstance(node, ast.Attribute):
            return methods.method(self.value(node.value), node.attr, arguments, named)
        raise _refused("this call runs code")

    def binary(self, op: ast.AST, left: Any, right: Any) -> Any:
        if isinstance(op, (ast.Is, ast.IsNot)):  # Runs no comparison method.
            return _BINARY[type(op)](left, right)
        if type(op) not in _BINARY or not (is_known(left) and is_known(right)):
            kinds = f"{summary.type_name(left)} and {summary.type_name(right)}"
            raise _refused(f"{type(op).__name__} of {kinds} runs code")
        methods.plain(left)
        methods.plain(right)
        if isinstance(op, ast.Mod) and isinstance(left, (str, bytes)):
            raise _refused("`%` of a string runs code of its operands")
        if _size_of(op, left, right) > MAX_ELEMENTS:
            raise _refused("the result may not fit into memory")
        return _BINARY[type(op)](left, right)


def attribute(value: Any, name: str) -> Any:
    """Read an attribute without running a property that the user has written."""
    if name.startswith("__"):
        raise _refused("names that begin with two underscores are reserved for Python")
    if issubclass(type(value), types.ModuleType):
        contents = object.__getattribute__(value, "__dict__")
        if name in contents:
            return contents[name]
        raise AttributeError(f"The module {contents.get('__name__')} has no {name!r}.")
    if is_known(value) and not issubclass(type(value), type):
        if _is_added(inspect.getattr_static(type(value), name, None)):
            raise _refused(f"{name} is a user-defined accessor")
        return getattr(value, name)
    found = summary.static_attribute(value, name)
    if found is summary.MISSING:
        raise AttributeError(f"{summary.type_name(value)} has no attribute {name!r}.")
    kind = type(found)
    if summary.is_one_of(kind, _SLOTS):
        return found.__get__(value, type(value))
    if kind is types.FunctionType:
        return found
    if summary.is_one_of(kind, (classmethod, staticmethod)):
        return found.__func__
    if summary.has(found, "__get__"):
        raise _refused(f"{name} is computed by code of {summary.type_name(value)}")
    return found


def _is_added(found: Any) -> bool:
    """Whether an attribute of a library's class is computed by code added from outside."""
    if type(found) is property:
        maker = found.fget
    else:  # `_accessor` of a pandas accessor, `func` of a cached property.
        held = inspect.getattr_static(found, "__dict__", None)
        held = object.__getattribute__(found, "__dict__") if held is not None else {}
        maker = held.get("_accessor", held.get("func"))
    module = getattr(maker, "__module__", None)
    known = (*methods.METHODS, "operator")
    return maker is not None and str(module).partition(".")[0] not in known


def _size_of(op: ast.AST, left: Any, right: Any) -> int:
    """Upper bound for the number of elements in the result of an operation."""
    for sequence, times in ((left, right), (right, left)):
        if isinstance(sequence, (str, bytes, list, tuple)) and isinstance(times, int):
            repeated = isinstance(op, ast.Mult) and len(sequence) * times > MAX_REPEATED
            return MAX_ELEMENTS + 1 if repeated else 0
    shapes = [getattr(side, "shape", ()) for side in (left, right) if is_known(side)]
    longest = max((len(shape) for shape in shapes), default=0)
    size = 1
    for axis in range(1, longest + 1):
        size *= max(int(shape[-axis]) for shape in shapes if len(shape) >= axis)
    return size


def _refused(why: str) -> ExpressionRefused:
    return ExpressionRefused(f"Not evaluated: {why}. Use run_code for it.")
