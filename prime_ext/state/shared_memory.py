"""Memory that NumPy arrays and tensors have in common, as after ``torch.from_numpy``.

Neither object refers to the other where Python could see it, only their addresses tell. An array
may be met before or after the tensor on its memory, in the same component or in another one. The
memory is always saved as that of the array, and the tensor as a window on it. Where the tensor came
first, and was saved with the memory, it is saved again.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

from .risk import PickleAgain

if TYPE_CHECKING:
    from .pickling import Reducing, SaveContext

_KEY = "shared_memory"


class TensorCameFirst(PickleAgain):
    """Raised through the pickler that has saved a tensor with memory that belongs to an array."""


class _Addresses:
    """Objects by the address at which their memory begins."""

    def __init__(self) -> None:
        self.objects: dict[int, Any] = {}
        self._sorted: list[int] = []

    def starts(self) -> list[int]:
        if len(self._sorted) != len(self.objects):
            self._sorted = sorted(self.objects)
        return self._sorted

    def remove(self, start: int) -> Any:
        self._sorted = []
        return self.objects.pop(start)


def _known(context: SaveContext) -> tuple[_Addresses, _Addresses]:
    """Return the arrays and the storages that the picklers of this save have met."""
    found: tuple[_Addresses, _Addresses] = context.kept.setdefault(
        _KEY, (_Addresses(), _Addresses())
    )
    return found


def note_array(pickler: Reducing, array: Any) -> None:
    """Take note of an array that owns its memory; only tensors make that necessary."""
    if "torch" not in sys.modules:
        return
    arrays, storages = _known(pickler.context)
    start = array.__array_interface__["data"][0]
    arrays.objects[start] = array
    if not storages.objects:
        return
    starts = storages.starts()
    inside = starts[bisect_left(starts, start) : bisect_left(starts, start + array.nbytes)]
    own = False
    for address in inside:
        _, by = storages.remove(address)
        own = own or by is pickler
        pickler.context.outdated.append(by)
    if own and pickler.may_start_over:
        raise TensorCameFirst


def array_below(pickler: Reducing, storage: Any) -> tuple[Any, int] | None:
    """Return the array that owns the memory of a storage, and the offset in it; None if none does.

    PyTorch can resize the memory of a storage unless it belongs to something else.
    """
    if storage.resizable():
        return None
    arrays, storages = _known(pickler.context)
    address = storage.data_ptr()
    starts = arrays.starts()
    index = bisect_right(starts, address) - 1
    if index >= 0:
        array = arrays.objects[starts[index]]
        if address + storage.nbytes() <= starts[index] + array.nbytes:
            return array, address - starts[index]
    storages.objects.setdefault(address, (storage, pickler))
    return None
