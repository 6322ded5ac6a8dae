"""Memoryviews, saved as windows on the object that owns the memory, so that sharing is kept."""

from __future__ import annotations

import array
import ctypes
import struct
import sys
from typing import Any

from .pickling import Reducing
from .plans import reduces
from .restorers import restorer

_FULL_READ_ONLY = 0x11C  # PyBUF_FULL_RO

Window = tuple[int, str, tuple[int, ...], tuple[int, ...]]
"""Offset in bytes, format, shape, strides."""


class _Buffer(ctypes.Structure):
    """`Py_buffer` of the C API, which has the address where a memoryview begins."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


@reduces(memoryview)
def reduce_memoryview(pickler: Reducing, view: memoryview) -> Any:
    try:
        source = view.obj
    except ValueError:
        return restore_released, ()
    if not _is_kept(source):
        kinds = "bytes, bytearrays, array.array and NumPy arrays"
        return pickler.lose(view, f"only views of {kinds} are kept")
    whole = memoryview(source)
    readonly = view.readonly and not whole.readonly
    shape, strides = view.shape or (), view.strides or ()
    window = (_address(view) - _address(whole), view.format, shape, strides)
    if window == (0, whole.format, whole.shape, whole.strides):
        return restore_view, (source, None, readonly)
    try:
        again = restore_view(source, window, readonly)
    except (TypeError, ValueError, NotImplementedError):
        again = None
    if again is None or (again.format, again.shape, again.strides) != window[1:]:
        return pickler.lose(view, "a view of this layout is not kept")
    return restore_view, (source, window, readonly)


def _is_kept(source: Any) -> bool:
    if isinstance(source, (bytes, bytearray, array.array)):
        return True
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(source, numpy.ndarray)


def _address(view: memoryview) -> int:
    buffer = _Buffer()
    api = ctypes.pythonapi
    api.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(buffer), _FULL_READ_ONLY)
    try:
        return buffer.buf or 0
    finally:
        api.PyBuffer_Release(ctypes.byref(buffer))


@restorer
def restore_released() -> memoryview:
    view = memoryview(b"")
    view.release()
    return view


@restorer
def restore_view(source: Any, window: Window | None, readonly: bool) -> memoryview:
    view = memoryview(source)
    if window is not None:
        view = _shown(view.cast("B"), *window)
    return view.toreadonly() if readonly else view


def _shown(
    memory: memoryview, start: int, layout: Any, shape: tuple[int, ...], strides: tuple[int, ...]
) -> memoryview:
    size = struct.calcsize(layout)
    if len(shape) != 1:
        count = size
        for length in shape:
            count *= length
        return memory[start : start + count].cast(layout, shape)
    step = strides[0] // size if shape[0] > 1 else 1
    extent = max(shape[0] - 1, 0) * abs(step) * size
    first = start if step > 0 else start - extent
    end = first + extent + (size if shape[0] else 0)
    return memory[first:end].cast(layout)[::step]
