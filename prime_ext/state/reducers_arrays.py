"""NumPy arrays, and what lies on top of them.

Two arrays on the same memory must share memory afterwards, so a view is saved as a window on the
array that owns the memory, and the owner is an object like any other: two windows on it meet in
its component.
"""

from __future__ import annotations

import copyreg
import math
import os
import pickle
import sys
from typing import TYPE_CHECKING, Any

from .packing import MIN_BUFFER
from .pickling import Reducing
from .plans import inherits, reduces
from .restorers import SandboxedResource, outside, restorer
from .unrestorable import Unrestorable, missed

if TYPE_CHECKING:
    import numpy as np

_STRINGS_FROM = 10_000
"""Elements from which an array of strings goes through Arrow."""


@reduces("numpy:ndarray")
def reduce_plain_array(pickler: Reducing, array: np.ndarray[Any, Any]) -> Any:
    """The usual kind in the fewest steps: a list may hold tens of thousands."""
    if array.base is None and array.dtype.kind in _WITH_BUFFERS and array.flags.c_contiguous:
        return _reduce_contiguous(array, array)
    return reduce_array(pickler, array)


@reduces("numpy:ndarray", subclasses=True)
def reduce_array(pickler: Reducing, array: np.ndarray[Any, Any]) -> Any:
    import numpy as np

    kind = type(array)
    if kind is not np.ndarray and not _reduces_as_ndarray(kind):
        return NotImplemented
    base = array.base
    if base is None:
        return _reduce_owner(pickler, array)
    owner: Any = array
    while (below := _array_below(owner)) is not None:
        owner = below
    if isinstance(owner, np.memmap) and owner.filename is not None:
        return _reduce_memmap(pickler, array, owner)
    if owner is array:
        return _reduce_on_foreign_memory(pickler, array, base)
    if not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        return _reduce_owner(pickler, array)
    # Four references: the view's base, two local names, the argument. Then nobody else holds
    # the owner, and if this view shows but a small part of it, the rest is out of reach.
    alone = base is owner and sys.getrefcount(owner) <= 4
    small = array.nbytes * 2 < owner.nbytes and 0 not in array.strides
    if alone and small and not pickler.context.keeps_owners:
        return _reduce_owner(pickler, array)
    return _reduce_window(array, owner)


def _array_below(array: Any) -> Any:
    """The array whose memory another one shows; None if there is none."""
    import numpy as np

    base = array.base
    if not isinstance(base, (np.ndarray, memoryview, bytes, bytearray)):
        # What `as_strided`, and with it `sliding_window_view`, puts in between.
        base = getattr(base, "base", None) if type(base).__name__ == "DummyArray" else None
    return base if isinstance(base, np.ndarray) else None


def _reduces_as_ndarray(kind: type) -> bool:
    import numpy as np

    return inherits(kind, "__reduce__", np.ndarray) and inherits(kind, "__reduce_ex__", np.ndarray)


def _reduce_owner(pickler: Reducing, array: np.ndarray[Any, Any]) -> Any:
    import numpy as np

    if type(array) is np.ndarray:
        return _reduce_plain(pickler, array)
    kind: type = np.ndarray if isinstance(array, np.memmap) else type(array)
    # Through a helper, because the plain view is no object of the user's that a memo may know.
    args = (kind, _Plain(pickler, array.view(np.ndarray)))
    return _with_attributes((restore_subclass, args), array)


class _Plain:
    """The memory of a subclass instance, pickled as a plain array."""

    def __init__(self, pickler: Reducing, array: np.ndarray[Any, Any]) -> None:
        self._pickler = pickler
        self._array = array

    def __reduce__(self) -> Any:
        reduction = _reduce_plain(self._pickler, self._array)
        return self._array.__reduce__() if reduction is NotImplemented else reduction


def _reduce_plain(pickler: Reducing, array: np.ndarray[Any, Any]) -> Any:
    """An array that owns its memory, or may be treated as if it did."""
    import numpy as np

    if array.dtype.hasobject or array.dtype.kind == "T":
        return _reduce_objects(pickler, array)
    if array.dtype.itemsize == 0:
        return array.__reduce__()
    flags = array.flags
    if not (flags.c_contiguous or flags.f_contiguous):
        array = np.ascontiguousarray(array)
    order = "C" if array.flags.c_contiguous else "F"
    # As bytes: dates and some extension types have no buffer format of their own.
    memory: Any = (array if order == "C" else array.T).reshape(-1).view(np.uint8)
    return _reduce_contiguous(array, memory, order)


_WITH_BUFFERS = frozenset("biufc")
"""Kinds of dtypes that every array of them has a buffer of."""


def _reduce_contiguous(array: np.ndarray[Any, Any], memory: Any, order: str = "C") -> Any:
    # Not through a memoryview, which would be quicker: up to Python 3.12 one that is lent out
    # crashes the interpreter if the garbage collector finds it in a cycle.
    args = (pickle.PickleBuffer(memory), array.dtype, array.shape, order)
    if array.nbytes >= MIN_BUFFER:
        return restore_array, args
    return restore_small_array, (*args, array.flags.writeable)


def _with_attributes(reduction: tuple[Any, ...], array: Any) -> tuple[Any, ...]:
    """Adds the attributes of a subclass instance; ndarray's own state has no place for them."""
    attributes = getattr(array, "__dict__", None)
    if not attributes:
        return reduction
    return (*reduction, attributes, None, None, set_array_attributes)


@restorer
def set_array_attributes(array: Any, attributes: dict[str, Any]) -> None:
    array.__dict__.update(attributes)


@restorer
def restore_array(memory: Any, dtype: Any, shape: Any, order: Any) -> Any:
    import numpy as np

    # Directly on the memory, without an array in between: it counts as an owner from then on.
    return np.ndarray(shape, dtype, memory, order=order)


@restorer
def restore_small_array(memory: Any, dtype: Any, shape: Any, order: Any, writeable: bool) -> Any:
    import numpy as np

    # Owns its memory, as small arrays that people resize should.
    array: Any = np.ndarray(shape, dtype, memory, order=order).copy(order=order)
    if not writeable:
        array.flags.writeable = False
    return array


@restorer
def restore_subclass(kind: Any, plain: np.ndarray[Any, Any]) -> Any:
    import numpy as np

    return plain if kind is np.ndarray else plain.view(kind)


def _reduce_objects(pickler: Reducing, array: np.ndarray[Any, Any]) -> Any:
    if array.size >= _STRINGS_FROM:
        texts = _as_arrow_strings(array)
        if texts is not None:
            return restore_strings, (*texts, array.shape)
    return NotImplemented


def _as_arrow_strings(array: np.ndarray[Any, Any]) -> tuple[Any, Any] | None:
    """Offsets and UTF-8 text of an array of distinct strings; None if it is something else.

    A memo entry for each of a million strings is what makes such arrays slow to pickle. Strings
    that occur often are left to the pickler: as separate copies they would fill the memory.
    """
    if not array.flags.c_contiguous or array.dtype != object:
        return None
    array = array.reshape(-1)
    sample = array[:: max(1, array.size // 512)].tolist()
    if any(type(item) is not str for item in sample):
        return None
    if len({id(item) for item in sample}) * 2 < len(sample):
        return None
    try:
        import pyarrow as pa
    except ImportError:
        return None
    try:
        texts = pa.array(array, type=pa.large_string(), from_pandas=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
        return None
    if texts.null_count or not isinstance(texts, pa.Array):
        return None
    _, offsets, data = texts.buffers()
    if data is None:
        return None
    return pickle.PickleBuffer(offsets), pickle.PickleBuffer(data)


@restorer
def restore_strings(offsets: Any, data: Any, shape: tuple[int, ...]) -> Any:
    import numpy as np

    count = math.prod(shape)
    try:
        import pyarrow as pa
    except ImportError:
        bounds = np.frombuffer(offsets, np.int64, count + 1).tolist()
        text = bytes(data)
        strings = [text[a:b].decode("utf-8") for a, b in zip(bounds, bounds[1:])]  # noqa: B905, RUF007
        return _shaped(strings, shape)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    texts = pa.LargeStringArray.from_buffers(count, buffers[1], buffers[2])
    # Arrow would hand out one object for equal strings if asked to; here they stay separate.
    return _shaped(texts.to_numpy(zero_copy_only=False), shape)


def _shaped(strings: Any, shape: tuple[int, ...]) -> Any:
    import numpy as np

    made = np.empty(shape, dtype=object)
    made.reshape(-1)[:] = strings
    return made


def _reduce_window(array: np.ndarray[Any, Any], owner: np.ndarray[Any, Any]) -> Any:
    kind = None if type(array) is type(owner) else type(array)
    return _with_attributes((restore_window, (owner, _window(array, owner), kind)), array)


def _window(array: Any, owner: Any) -> tuple[Any, ...]:
    offset = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return array.dtype, array.shape, array.strides, offset, array.flags.writeable


@restorer
def restore_window(owner: Any, window: tuple[Any, ...], kind: Any) -> Any:
    import numpy as np

    if isinstance(owner, (SandboxedResource, Unrestorable)):  # a file mapped into memory
        return (
            owner
            if isinstance(owner, Unrestorable)
            else SandboxedResource(restore_window, (owner, window, kind))
        )
    dtype, shape, strides, offset, writeable = window
    plain = owner.view(np.ndarray)
    if dtype.hasobject:
        flat = plain.reshape(-1, order="A")[offset // plain.itemsize :]
        view = np.lib.stride_tricks.as_strided(flat, shape, strides)
    else:
        if not plain.flags.c_contiguous:
            plain = plain.T
        view = np.ndarray(shape, dtype, plain, offset, strides)
    if not writeable:
        view.flags.writeable = False
    return view if kind is None and type(owner) is np.ndarray else view.view(kind or type(owner))


def _reduce_on_foreign_memory(pickler: Reducing, array: np.ndarray[Any, Any], base: Any) -> Any:
    """An array on the memory of something that is not an array."""
    if isinstance(base, memoryview):
        base = base.obj
    if isinstance(base, (bytes, bytearray)) and array.flags.c_contiguous:
        address = array.__array_interface__["data"][0]
        start = address - _address(base)
        if 0 <= start <= len(base) - array.nbytes and not array.dtype.hasobject:
            window = (array.dtype, array.shape, start, array.flags.writeable)
            return _with_attributes((restore_on_bytes, (base, window, type(array))), array)
    return _reduce_owner(pickler, array)


def _address(base: Any) -> int:
    import numpy as np

    found: int = np.frombuffer(base, np.uint8).__array_interface__["data"][0]
    return found


@restorer
def restore_on_bytes(base: Any, window: tuple[Any, ...], kind: Any) -> Any:
    import numpy as np

    dtype, shape, start, writeable = window
    array = np.ndarray(shape, dtype, base, start)
    if array.flags.writeable and not writeable:
        array.flags.writeable = False
    return array if kind is np.ndarray else array.view(kind)


def _reduce_memmap(pickler: Reducing, array: Any, owner: Any) -> Any:
    if array is not owner:
        return restore_window, (owner, _window(array, owner), type(array))
    file = (str(owner.filename), owner.mode, owner.offset, owner.nbytes)
    args = (*file, owner.dtype, owner.shape, owner.flags.f_contiguous)
    if owner.mode == "c":
        return restore_private_memmap, (_Plain(pickler, owner.view(type(owner).__base__)), args)
    if owner.mode != "r":
        owner.flush()
    return restore_memmap, args


@outside
def restore_private_memmap(content: np.ndarray[Any, Any], args: tuple[Any, ...]) -> Any:
    """A map of mode ``c``: what was changed in it is in no file."""
    mapped = restore_memmap(*args)
    if isinstance(mapped, Unrestorable):
        return content
    mapped[...] = content
    return mapped


@outside
def restore_memmap(
    path: str, mode: str, offset: int, nbytes: int, dtype: Any, shape: Any, fortran: bool
) -> Any:
    """Map the file again; ``w+`` would erase it, so it becomes ``r+``."""
    import numpy as np

    if not os.path.exists(path) or os.path.getsize(path) < offset + nbytes:
        return missed("numpy.memmap", f"{path} does not exist any more or is too short")
    mode = "r+" if mode == "w+" else mode
    return np.memmap(path, dtype, mode, offset, shape, "F" if fortran else "C")  # type: ignore[call-overload]


@reduces("numpy:ufunc")
def reduce_ufunc(pickler: Reducing, ufunc: Any) -> Any:
    pickler.context.references.add(id(ufunc))
    return NotImplemented


@reduces(
    "pyarrow.lib:Array",
    "pyarrow.lib:ChunkedArray",
    "pyarrow.lib:RecordBatch",
    "pyarrow.lib:Table",
    subclasses=True,
)
def reduce_arrow(_pickler: Reducing, value: Any) -> Any:
    """A slice is cut out first: as it is, it would drag the buffers of what it was cut from."""
    import pyarrow as pa

    if value.get_total_buffer_size() < 2 * value.nbytes + MIN_BUFFER:
        return NotImplemented
    if isinstance(value, (pa.RecordBatch, pa.Table)):
        columns = [_cut(column) for column in value.columns]
        value = type(value).from_arrays(columns, schema=value.schema)
    else:
        value = _cut(value)
    reduce: Any = copyreg.dispatch_table.get(type(value), type(value).__reduce__)
    return reduce(value)


def _cut(array: Any) -> Any:
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([_cut(chunk) for chunk in array.chunks], array.type)
    if array.get_total_buffer_size() < 2 * array.nbytes + MIN_BUFFER:
        return array
    batch = pa.record_batch([array], names=["x"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch().column(0)
