"""Comparing a component that was read back with the one that was saved.

The component is pickled again and the two streams are compared: byte by byte and, if they differ,
as multisets of operations. The order in a set and the sharing of equal strings may differ between
two processes although nothing is wrong. A library may also complete an object while it loads it:
NumPy replaces the fill value None of a masked array. So everything saved except None must be
there again, and there may be more.
"""

from __future__ import annotations

import io
import math
import pickletools
from collections import Counter
from typing import Any

from . import digests, own_attributes
from .component import dump
from .format import ComponentRecord
from .loader import Loader
from .pickling import ComponentPickler, PythonPickler, SaveContext
from .plain_code import PlainCode
from .recipes import type_name

LARGEST_COMPARED = 32 * 1024 * 1024
"""Largest stream, in bytes, whose operations are compared; that takes about a second per MB."""

_NOT_COUNTED = frozenset(
    """
    NONE PROTO FRAME STOP MEMOIZE PUT BINPUT LONG_BINPUT MARK
    APPEND APPENDS SETITEM SETITEMS ADDITEMS
    """.split()  # noqa: SIM905 - reads better as words
)
_GET = frozenset({"GET", "BINGET", "LONG_BINGET"})
_TEXT = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})


def type_differs(value: Any, expected: str) -> str:
    """Return a problem if the value has another type than the saved one, else an empty string."""
    found = type_name(value)
    stand_ins = ("SandboxedResource", "Unrestorable", "Lost")
    if found == expected or type(value).__name__ in stand_ins:
        return ""
    return f"it came back as {found} instead of {expected}"


def differs(loader: Loader, record: ComponentRecord) -> str:
    """Return how the loaded component differs from the saved one; empty if it does not."""
    if record.tier == "dill":
        return ""  # dill's streams are not stable: loading with the right type has to suffice
    context = SaveContext(loader.context.namespace, classes=dict(loader.context.classes))
    # The save kept the owner of a view if something else held it, which may not be loaded here.
    context.keeps_owners = True
    kind = PythonPickler if record.tier == "python" else ComponentPickler
    original = bytes(loader.stream(record.stream))
    roots = [("class" if what == "class" else "name", value) for what, value in record.roots]
    plain = PlainCode(context).pickled(roots)
    if plain is not None and _agree(original, plain[0]):
        return ""
    try:
        again = dump(context, roots, kind)
    except RecursionError:
        return ""  # it loaded with the right type, but is nested too deeply to be compared here
    expected = sorted(extent.fast for extent in record.buffers)
    # The saving process may have used another algorithm than this one prefers.
    algorithm = record.stream.fast.partition(":")[0]
    found = sorted(digests.fast(buffer.raw(), algorithm) for buffer in again.buffers)
    if Counter(expected) - Counter(found):
        return "its arrays came back with another content"
    if len(original) <= LARGEST_COMPARED and not _agree(original, again.stream):
        return "it came back different from what was saved"
    if not own_attributes.are_there(record.attributes, again.attributes):
        return "its attributes came back different: its class says what is saved of it"
    return ""


def _agree(saved: bytes, again: bytes) -> bool:
    """Return whether everything that was saved is there again."""
    return saved == again or not _consists_of(saved) - _consists_of(again)


def _consists_of(stream: bytes) -> Counter[Any]:
    """Return the operations of a stream with their arguments, regardless of order.

    A reference to a string counts as the string itself.
    """
    found: Counter[Any] = Counter()
    texts: dict[int, str] = {}
    count = 0
    latest: Any = None
    file = io.BytesIO(stream)
    while file.tell() < len(stream):  # a component consists of several pickles with one memo
        for operation, argument, _ in pickletools.genops(file):
            name = operation.name
            if name == "MEMOIZE":
                if latest is not None:
                    texts[count] = latest
                count += 1
            elif name in _GET and argument in texts:
                found["text", texts[argument]] += 1
            elif name in _GET:
                found["shared"] += 1
            elif name in _TEXT:
                found["text", argument] += 1
            elif name not in _NOT_COUNTED:
                found[name, _hashable(argument)] += 1
            latest = argument if name in _TEXT else (latest if name == "FRAME" else None)
    return found


def _hashable(argument: Any) -> Any:
    if isinstance(argument, bytearray):
        return bytes(argument)
    if isinstance(argument, float) and math.isnan(argument):
        return "nan"  # NaN does not equal itself
    return argument
