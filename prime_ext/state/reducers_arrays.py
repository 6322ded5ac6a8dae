"""NumPy arrays, and Arrow data.

Two arrays that share memory must still do so after a restore. So a view is saved as a window on the
array that owns the memory, and the owner is pickled as an object of its own, which puts two
windows on it into one component.
"""

from __future__ import annotations

import copyreg
import importlib
import math
import os
import pickle
import sys
import weakref
from typing import TYPE_CHECKING, Any

from .packing import MIN_BUFFER
from .pickling import Reducing
from .plans import inherits, reduces
from .restorers import SandboxedResource, outside, restorer
from .shared_memory import note_array
from .unrestorable import Unrestorable, missed

if TYPE_CHECKING:
    import numpy as np

_STRINGS_FROM = 10_000
"""Number of elements from which an array of strings is saved as Arrow buffers."""


@reduces("numpy:ndarray")
def reduce_plain_array(pickler: Reducing, array: np.ndarray[Any, Any]) -> Any:
    """Reduce an ordinary array in as few steps as possible: a list may hold tens of thousands."""
    if array.base is None and array.dtype.kind in _WITH_BUFFERS and array.flags.c_contiguous:
        note_array(pickler, array)
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
    # Four references are the view's base, two local names and the argument: nobody else refers to
    # the owner. If this view shows only a small part of it, the rest cannot be reached any more.
    alone = _is_alone(pickler, array, base is owner and sys.getrefcount(owner) <= 4)
    alone = alone and _shared_storage(owner.base) is None
    small = array.nbytes * 2 < owner.nbytes and 0 not in array.strides
    if alone and small and not pickler.context.keeps_owners:
        return _reduce_owner(pickler, array)
    return _reduce_window(array, owner)


def _is_alone(pickler: Reducing, array: Any, now: bool) -> bool:
    """Return whether nobody but a view referred to its owner when the view was met first.

    Otherwise the second attempt at an object would save it in another form than the first.
    """
    if now:
        pickler.context.alone[id(array)] = array
    return now or id(array) in pickler.context.alone


def _array_below(array: Any) -> Any:
    """Return the array whose memory another one shows; None if it is not based on an array."""
    import numpy as np

    base = array.base
    if not isinstance(base, (np.ndarray, memoryview, bytes, bytearray)):
        # `as_strided`, and so `sliding_window_view`, puts a DummyArray in between.
        base = getattr(base, "base", None) if type(base).__name__ == "DummyArray" else None
    return base if isinstance(base, np.ndarray) else None


def _reduces_as_ndarray(kind: type) -> bool:
    import numpy as np

    return inherits(kind, "__reduce__", np.ndarray) and inherits(kind, "__reduce_ex__", np.ndarray)


def _reduce_owner(pickler: Reducing, array: np.ndarray[Any, Any]) -> Any:
    import numpy as np

    if not array.dtype.hasobject and (array.flags.c_contiguous or array.flags.f_contiguous):
        note_array(pickler, array)
    if type(array) is np.ndarray:
        return _reduce_plain(pickler, array)
    kind: type = np.ndarray if isinstance(array, np.memmap) else type(array)
    # Through a helper object, because the plain view is temporary and must not get into the memo.
    args = (kind, _Plain(pickler, array.view(np.ndarray)))
    return _with_attributes((restore_subclass, args), array)


class _Plain:
    """A helper that pickles the memory of a subclass instance as a plain array."""

    def __init__(self, pickler: Reducing, array: np.ndarray[Any, Any]) -> None:
        self._pickler = pickler
        self._array = array

    def __reduce__(self) -> Any:
        reduction = _reduce_plain(self._pickler, self._array)
        return self._array.__reduce__() if reduction is NotImplemented else reduction


def _reduce_plain(pickler: Reducing, array: np.ndarray[Any, Any]) -> Any:
    """Reduce an array that owns its memory, or can be treated as if it did."""
    import numpy as np

    if array.dtype.hasobject or array.dtype.kind == "T":
        return _reduce_objects(pickler, array)
    if array.dtype.itemsize == 0:
        return array.__reduce__()
    flags = array.flags
    if not (flags.c_contiguous or flags.f_contiguous):
        array = np.ascontiguousarray(array)
    order = "C" if array.flags.c_contiguous else "F"
    # As bytes, because dates and some extension types do not support the buffer protocol.
    memory: Any = (array if order == "C" else array.T).reshape(-1).view(np.uint8)
    return _reduce_contiguous(array, memory, order)


_WITH_BUFFERS = frozenset("biufc")
"""Kinds of dtypes whose arrays always support the buffer protocol."""


def _reduce_contiguous(array: np.ndarray[Any, Any], memory: Any, order: str = "C") -> Any:
    # A memoryview would be quicker, but up to Python 3.12 one with exports crashes the
    # interpreter if the garbage collector finds it in a cycle.
    args = (pickle.PickleBuffer(memory), array.dtype, array.shape, order)
    if array.nbytes >= MIN_BUFFER:
        return restore_array, args
    return restore_small_array, (*args, array.flags.writeable)


def _with_attributes(reduction: tuple[Any, ...], array: Any) -> tuple[Any, ...]:
    """Add the attributes of a subclass instance, which ndarray's own state does not contain."""
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

    # Directly on the memory, without an array in between, so that it counts as the owner.
    return np.ndarray(shape, dtype, memory, order=order)


@restorer
def restore_small_array(memory: Any, dtype: Any, shape: Any, order: Any, writeable: bool) -> Any:
    import numpy as np

    # A copy, which owns its memory and can be resized, as users may do with small arrays.
    array: Any = np.ndarray(shape, dtype, memory, order=order).copy(order=order)
    if not writeable:
        array.flags.writeable = False
    return array


@restorer
def restore_subclass(kind: Any, plain: np.ndarray[Any, Any]) -> Any:
    import numpy as np

    return plain if kind is np.ndarray else plain.view(kind)


@reduces("numpy.ma:MaskedArray", "numpy.ma.core:MaskedArray", subclasses=True)
def reduce_masked(pickler: Reducing, array: Any) -> Any:
    """Reduce a masked array to its memory and its attributes, one of which is the mask.

    Its own reduction copies the memory, which others may share, into the stream.
    """
    import numpy as np

    kind = type(array)
    if not inherits(kind, "__reduce__", np.ma.MaskedArray) or kind.__name__ == "mvoid":
        return NotImplemented
    owner = array.base
    # Three references are the base of this array, a local name and the argument. The result of an
    # operation is often a view of another masked array, which nobody can reach.
    hidden = isinstance(owner, np.ma.MaskedArray) and sys.getrefcount(owner) <= 3
    plain: Any = np.ndarray.view(array, np.ndarray)
    if owner is None or _is_alone(pickler, array, hidden):
        plain = _Plain(pickler, plain)
    return restore_subclass, (kind, plain), vars(array), None, None, set_array_attributes


def _reduce_objects(pickler: Reducing, array: np.ndarray[Any, Any]) -> Any:
    if array.size >= _STRINGS_FROM:
        # Kept, since a component is often pickled twice. The weak reference tells whether the array
        # of this id is still the same.
        known, texts = pickler.context.kept.get(("strings", id(array)), (None, None))
        if known is None or known() is not array:
            texts = _as_arrow_strings(array)
            pickler.context.kept["strings", id(array)] = weakref.ref(array), texts
        if texts is not None:
            return restore_strings, (*texts, array.shape)
    return NotImplemented


def _as_arrow_strings(array: np.ndarray[Any, Any]) -> tuple[Any, Any] | None:
    """Return offsets and UTF-8 text of an array of mostly distinct strings; None for others.

    Such arrays are slow to pickle because of a memo entry for each string. An array in which few
    strings occur often is left to the pickler: as separate copies they would fill the memory.
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
    # Equal strings become separate objects, as Arrow does unless asked to deduplicate.
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
    """Reduce an array on the memory of an object that is not an array, such as ``bytes``."""
    if isinstance(base, memoryview):
        base = base.obj
    storage = _shared_storage(base)
    if storage is not None:
        offset = array.__array_interface__["data"][0] - storage.data_ptr()
        on_storage = (array.dtype, array.shape, array.strides, offset, array.flags.writeable)
        return _with_attributes((restore_on_storage, (storage, on_storage, type(array))), array)
    if isinstance(base, (bytes, bytearray)) and array.flags.c_contiguous:
        address = array.__array_interface__["data"][0]
        start = address - _address(base)
        if 0 <= start <= len(base) - array.nbytes and not array.dtype.hasobject:
            window = (array.dtype, array.shape, start, array.flags.writeable)
            return _with_attributes((restore_on_bytes, (base, window, type(array))), array)
    return _reduce_owner(pickler, array)


def _shared_storage(base: Any) -> Any:
    """Return the storage of a tensor that is the base of an array; None if it has no other users,
    or if the base is not a tensor."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(base, torch.Tensor):
        return None
    storage = base.untyped_storage()
    count = getattr(torch._C, "_storage_Use_Count", None)
    # Two uses are the tensor itself and the storage's Python object.
    return None if count is not None and count(storage._cdata) <= 2 else storage


@restorer
def restore_on_storage(storage: Any, window: tuple[Any, ...], kind: Any) -> Any:
    import numpy as np

    dtype, shape, strides, offset, writeable = window
    torch: Any = importlib.import_module("torch")
    size = dtype.itemsize
    tensor = torch.empty(0, dtype=torch.from_numpy(np.empty(0, dtype)).dtype)
    tensor.set_(storage, offset // size, shape, [stride // size for stride in strides])
    array: Any = tensor.numpy()
    if not writeable:
        array.flags.writeable = False
    return array if kind is np.ndarray else array.view(kind)


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
    """Map a file in mode ``c`` (copy on write) and copy the content, with its changes, into it."""
    mapped = restore_memmap(*args)
    if isinstance(mapped, Unrestorable):
        return content
    mapped[...] = content
    return mapped


@outside
def restore_memmap(
    path: str, mode: str, offset: int, nbytes: int, dtype: Any, shape: Any, fortran: bool
) -> Any:
    """Map a file again. Mode ``w+`` would erase the file, so ``r+`` is used instead."""
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
    """Reduce Arrow data. A slice is copied first, or it would drag the whole buffers along."""
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
