"""Storages of PyTorch tensors, which PyTorch itself would pickle as a file inside the stream.

Tensors that share memory still do so after a restore, and large storages are saved out of band.
"""

from __future__ import annotations

import importlib
import pickle
from typing import Any

from .packing import MIN_BUFFER
from .pickling import Reducing
from .plans import reduces
from .restorers import restorer


@reduces("torch.storage:UntypedStorage")
def reduce_storage(pickler: Reducing, storage: Any) -> Any:
    if storage.device.type != "cpu":
        return NotImplemented
    if storage.is_shared():
        pickler.notes.append("memory shared between processes is restored as private memory")
    if not storage.nbytes():
        return restore_storage, (b"",)
    torch: Any = importlib.import_module("torch")
    numpy: Any = importlib.import_module("numpy")
    # Not `Tensor.numpy`: after that, no tensor on this memory could be resized any more.
    memory = numpy.from_dlpack(torch.empty(0, dtype=torch.uint8).set_(storage))
    if not pickler.context.in_place:
        memory = memory.copy()  # resizing a tensor would free the memory while it is written
    return restore_storage, (pickle.PickleBuffer(memory),)


@reduces("torch.storage:TypedStorage")
def reduce_typed_storage(_pickler: Reducing, storage: Any) -> Any:
    untyped = storage._untyped_storage
    if untyped.device.type != "cpu":
        return NotImplemented
    return restore_typed_storage, (untyped, storage.dtype)


@restorer
def restore_storage(memory: Any) -> Any:
    torch: Any = importlib.import_module("torch")
    nbytes = len(memory)
    if not nbytes:
        return torch.UntypedStorage(0)
    found = torch.frombuffer(memory, dtype=torch.uint8)
    # A small storage owns its memory, as small arrays do.
    return (found if nbytes >= MIN_BUFFER else found.clone()).untyped_storage()


@restorer
def restore_typed_storage(untyped: Any, dtype: Any) -> Any:
    torch: Any = importlib.import_module("torch")
    return torch.storage.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)
