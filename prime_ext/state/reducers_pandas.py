"""Frames, series and indexes of pandas.

pandas copies on write: a column taken from a frame shares its memory until one of the two is
written to. Which objects share memory is recorded in *references*. After a restore memory is shared
again, so references are restored as well: without them a write to a frame would also change the
columns taken from it.
"""

from __future__ import annotations

import gc
from typing import Any

from .packing import MIN_BUFFER
from .pickling import PROTOCOL, Reducing
from .plans import module_of, reduces
from .restorers import restorer


@reduces("pandas:NDFrame", "pandas.core.generic:NDFrame", subclasses=True)
def reduce_frame(_pickler: Reducing, frame: Any) -> Any:
    """Leave out ``_metadata``, a list of the class that pandas puts into each frame's state."""
    reduction = frame.__reduce_ex__(PROTOCOL)
    if isinstance(reduction, str) or len(reduction) < 3 or not isinstance(reduction[2], dict):
        return reduction
    state = dict(reduction[2])
    if "_metadata" not in vars(frame) and state.get("_metadata") is type(frame)._metadata:
        del state["_metadata"]
    return (*reduction[:2], state, *reduction[3:])


@reduces("pandas._libs.internals:BlockManager", subclasses=True)
@reduces("pandas.core.internals.managers:SingleBlockManager", subclasses=True)
def reduce_manager(_pickler: Reducing, manager: Any) -> Any:
    """Reduce the data of a frame or series, with the references of its blocks."""
    references = [getattr(block, "refs", None) for block in manager.blocks]
    if None in references:  # pandas 1 does not copy on write
        return NotImplemented
    reduction = manager.__reduce_ex__(PROTOCOL)
    state = reduction[2] if len(reduction) > 2 else None
    return (*reduction[:2], (state, references), None, None, set_manager_state)


@reduces("pandas._libs.internals:Block", subclasses=True)
def reduce_block(_pickler: Reducing, block: Any) -> Any:
    """Reduce a block to its very memory; ``__reduce_ex__`` copies rows of a larger frame."""
    return block.__reduce__()


@reduces("pandas._libs.internals:BlockValuesRefs")
def reduce_references(_pickler: Reducing, references: Any) -> Any:
    """Reduce references to an empty object; whoever shares memory registers when it is restored."""
    return type(references), ()


@restorer
def set_manager_state(manager: Any, state: tuple[Any, list[Any]]) -> None:
    own, references = state
    if own is not None:
        manager.__setstate__(own)
    for block, shared in zip(manager.blocks, references):  # noqa: B905
        shared.add_reference(block)
        block.refs = shared


@reduces("pandas.arrays:ArrowExtensionArray", subclasses=True)
@reduces("pandas.core.arrays.arrow.array:ArrowExtensionArray", subclasses=True)
def reduce_arrow_column(_pickler: Reducing, column: Any) -> Any:
    """Reduce a column of large data without copying it; ``__getstate__`` always makes a copy."""
    data = vars(column).get("_pa_array")
    piece = _in_one_piece(data) if getattr(data, "num_chunks", 0) == 1 else None
    if piece is None:
        return NotImplemented
    twin = object.__new__(type(column))
    vars(twin).update(vars(column), _pa_array=_OnePiece(piece))
    reduction = twin.__reduce_ex__(PROTOCOL)
    state = reduction[2] if len(reduction) > 2 else None
    combined = isinstance(state, dict) and state.get("_pa_array") is piece
    return reduction if combined else NotImplemented


class _OnePiece:
    """Stands in for the data of a column when it is asked to combine its pieces."""

    def __init__(self, piece: Any) -> None:
        self._piece = piece

    def combine_chunks(self) -> Any:
        return self._piece


def _in_one_piece(data: Any) -> Any:
    """Return what combining the pieces would give, without a copy; None if that takes one."""
    import pyarrow as pa

    piece = data.chunk(0)
    whole = piece.offset == 0 and piece.get_total_buffer_size() < piece.nbytes + MIN_BUFFER
    simple = piece.type.num_fields == 0 and not pa.types.is_dictionary(piece.type)
    if piece.nbytes < MIN_BUFFER or not whole or not simple:
        return None
    mask, *rest = piece.buffers()
    if mask is None or piece.null_count:
        return piece
    return pa.Array.from_buffers(piece.type, len(piece), [None, *rest], 0)


_MANY_LABELS = 10_000
"""Number of labels of dtype object from which an index is worth storing once for all its frames."""


@reduces("pandas:Index", "pandas.core.indexes.base:Index", subclasses=True)
def reduce_index(pickler: Reducing, index: Any) -> Any:
    """Note an index as lent: frames derived from one another share it, but it never changes.

    So frames that share an index need not be one component, unless the index has many labels that
    are Python objects, or shares its memory with a column.
    """
    import pandas as pd

    lent = pickler.context.lent
    references = vars(index).get("_references")
    users = () if references is None else references.referenced_blocks
    alone = all(isinstance(user(), (pd.Index, type(None))) for user in users)
    if alone and (index.dtype != object or len(index) <= _MANY_LABELS):
        lent[id(index)] = index
        _lend_parts(pickler, vars(index).get("_data"))  # a range would make it when asked
    if references is None:
        return NotImplemented
    if alone:
        lent[id(references)] = references
    return (*index.__reduce_ex__(PROTOCOL)[:2], references, None, None, set_index_references)


@restorer
def set_index_references(index: Any, references: Any) -> None:
    references.add_index_reference(index)
    index._references = references


@reduces("pandas.api.extensions:ExtensionDtype", subclasses=True)
@reduces("pandas.core.dtypes.base:ExtensionDtype", subclasses=True)
def reduce_dtype(pickler: Reducing, dtype: Any) -> Any:
    """Note a dtype as lent: it is a value, and pandas gives the same object to all columns."""
    pickler.context.lent[id(dtype)] = dtype
    _lend_parts(pickler, getattr(dtype, "__dict__", None))
    return NotImplemented


def _lend_parts(pickler: Reducing, whole: Any) -> None:
    lent = pickler.context.lent
    pending = [whole]
    while pending:
        part = pending.pop()
        if id(part) in lent or isinstance(part, (type, str, int, float, type(None))):
            continue
        lent[id(part)] = part
        if module_of(type(part)).partition(".")[0] == "numpy":
            pending.append(getattr(part, "base", None))
        elif isinstance(part, dict) or module_of(type(part)).partition(".")[0] == "pandas":
            pending.extend(gc.get_referents(part))
