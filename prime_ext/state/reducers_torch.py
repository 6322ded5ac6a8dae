"""PyTorch: gradients of tensors, and their storages, which PyTorch itself would pickle as a file
inside the stream.

Tensors that share memory still do so after a restore, and large storages are saved out of band.
"""

from __future__ import annotations

import importlib
import io
import pickle
import sys
import warnings
from typing import Any

from .packing import MIN_BUFFER
from .pickling import PROTOCOL, Reducing
from .plans import reduces
from .restorers import restorer
from .shared_memory import array_below


@reduces("torch:Tensor", subclasses=True)
def reduce_tensor(pickler: Reducing, tensor: Any) -> Any:
    """Reduce a tensor as PyTorch does, and keep its gradient, and the hooks of parameters.

    What a tensor was computed from is not saved. So the result comes back as a plain value, whose
    ``backward`` says what is missing, instead of one that requires a gradient and ends there.
    """
    torch = sys.modules["torch"]
    with torch._C.DisableTorchFunctionSubclass():
        if not tensor.is_leaf:
            pickler.notes.append("what a tensor was computed from (its grad_fn) is not kept")
            return tensor.detach().__reduce_ex__(PROTOCOL)
        attached = {"grad": tensor.grad, "_backward_hooks": tensor._backward_hooks}
        attached = {name: value for name, value in attached.items() if value is not None}
        reduction = tensor.__reduce_ex__(PROTOCOL)
    if not attached or not isinstance(reduction, tuple) or len(reduction) != 2:
        return reduction
    return (*reduction, attached, None, None, set_attached)


@restorer
def set_attached(tensor: Any, attached: dict[str, Any]) -> None:
    for name, value in attached.items():
        setattr(tensor, name, value)


@reduces("torch.storage:UntypedStorage")
def reduce_storage(pickler: Reducing, storage: Any) -> Any:
    if storage.device.type != "cpu":
        return NotImplemented
    if storage.is_shared():
        pickler.notes.append("memory shared between processes is restored as private memory")
    if not storage.nbytes():
        return restore_storage, (b"",)
    below = array_below(pickler, storage)
    if below is not None:
        array, offset = below
        return restore_storage_on_array, (array, offset, storage.nbytes())
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
def restore_storage_on_array(array: Any, offset: int, nbytes: int) -> Any:
    torch: Any = importlib.import_module("torch")
    numpy: Any = importlib.import_module("numpy")
    plain = array.view(numpy.ndarray)
    if not plain.flags.c_contiguous:
        plain = plain.T
    memory = plain.reshape(-1).view(numpy.uint8)[offset : offset + nbytes]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the array may be read-only, as it was
        return torch.from_numpy(memory).untyped_storage()


@restorer
def restore_typed_storage(untyped: Any, dtype: Any) -> Any:
    torch: Any = importlib.import_module("torch")
    return torch.storage.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


@reduces("torch.jit._script:RecursiveScriptModule", "torch.jit._trace:TopLevelTracedModule")
def reduce_script(pickler: Reducing, module: Any) -> Any:
    """Reduce a module of TorchScript as TorchScript saves it: code and copies of its tensors."""
    file = io.BytesIO()
    sys.modules["torch"].jit.save(module, file)
    if any(True for _ in module.parameters()):
        pickler.notes.append(
            "a restored module of TorchScript has tensors of its own, apart from the module that "
            "it was made from"
        )
    return restore_script, (file.getvalue(),)


@restorer
def restore_script(saved: bytes) -> Any:
    torch: Any = importlib.import_module("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated
        return torch.jit.load(io.BytesIO(saved))
