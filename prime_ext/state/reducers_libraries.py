"""Objects of libraries whose own pickling support is missing or insufficient."""

from __future__ import annotations

import importlib
import os
import types
from typing import Any

from .pickling import PROTOCOL, Reducing
from .plans import module_of, reduces
from .restorers import current, outside, restorer
from .unrestorable import Unrestorable, missed


@reduces("sklearn.tree._tree:Tree")
def reduce_tree(_pickler: Reducing, tree: Any) -> Any:
    """Set the padding after the fields of each node to zero.

    Its bytes are arbitrary, and would make each copy of a tree look different.
    """
    reduction = tree.__reduce__()
    nodes = reduction[2].get("nodes") if isinstance(reduction[2], dict) else None
    if nodes is not None and nodes.flags.c_contiguous and nodes.flags.writeable:
        used = max(offset + kind.itemsize for kind, offset in nodes.dtype.fields.values())
        behind = nodes.view("u1").reshape(len(nodes), -1)[:, used:]
        # Write only if necessary: a page shared with a forked writer is copied when written to.
        if behind.any():
            behind[...] = 0
    return reduction


@reduces("statsmodels.base.data:ModelData", subclasses=True)
def reduce_model_data(_pickler: Reducing, data: Any) -> Any:
    reduction = data.__reduce_ex__(PROTOCOL)
    if isinstance(reduction, str) or not isinstance(reduction[2], dict):
        return reduction
    return (*reduction[:3], None, None, set_model_data)


@restorer
def set_model_data(data: Any, state: dict[str, Any]) -> None:
    """Evaluate the model's formula again, which looks names up in the frames of its callers."""
    scope = current().namespace
    call: Any = types.FunctionType(_call.__code__, scope)
    types.FunctionType(_call.__code__, scope)(call, call, data.__setstate__, state)


def _call(function: Any, *arguments: Any) -> None:
    function(*arguments)


@reduces("PIL.ImageDraw:ImageDraw")
def reduce_drawing(_pickler: Reducing, drawing: Any) -> Any:
    names = ("ink", "fill", "font", "fontmode")
    state = {name: vars(drawing)[name] for name in names if name in vars(drawing)}
    return restore_drawing, (drawing._image, drawing.mode), state


@restorer
def restore_drawing(image: Any, mode: str) -> Any:
    from PIL import ImageDraw

    return ImageDraw.ImageDraw(image, mode)


@reduces("xgboost.core:DMatrix")
def reduce_dmatrix(_pickler: Reducing, matrix: Any) -> Any:
    fields = {name: matrix.get_float_info(name) for name in ("label", "weight", "base_margin")}
    fields = {name: values for name, values in fields.items() if len(values)}
    groups = matrix.get_uint_info("group_ptr")
    names = {"feature_names": matrix.feature_names, "feature_types": matrix.feature_types}
    return restore_dmatrix, (matrix.get_data(), fields, groups, names)


@restorer
def restore_dmatrix(data: Any, fields: dict[str, Any], groups: Any, names: dict[str, Any]) -> Any:
    import numpy as np

    xgboost: Any = importlib.import_module("xgboost")
    matrix = xgboost.DMatrix(data, **fields, **names)
    if len(groups):
        matrix.set_group(np.diff(groups))
    return matrix


@reduces("lightgbm.basic:Dataset", subclasses=True)
def reduce_lightgbm_dataset(pickler: Reducing, dataset: Any) -> Any:
    """Reduce a data set without its native part, which it makes again when it is needed."""
    reduction = dataset.__reduce_ex__(PROTOCOL)
    if isinstance(reduction, str) or not isinstance(reduction[2], dict):
        return reduction
    if dataset.data is None:
        return pickler.lose(dataset, "LightGBM has freed its data (see free_raw_data)")
    return (*reduction[:2], {**reduction[2], "_handle": None})


@reduces("lxml.etree:_Element", subclasses=True)
def reduce_element(pickler: Reducing, element: Any) -> Any:
    """Reduce an element to its path in the tree, and the tree to its text, which is saved once."""
    etree: Any = importlib.import_module("lxml.etree")
    tree = element.getroottree()
    root = tree.getroot()
    if element is not root:
        if not isinstance(element.tag, str):
            return pickler.lose(element, "only elements of a tree are kept, not its comments")
        return restore_child_element, (root, tree.getelementpath(element))
    return restore_element, (etree.tostring(tree), module_of(type(root)) == "lxml.html")


@restorer
def restore_element(text: bytes, html: bool) -> Any:
    etree: Any = importlib.import_module("lxml.etree")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
    if html:
        lookup = importlib.import_module("lxml.html").HtmlElementClassLookup()
        parser.set_element_class_lookup(lookup)
    return etree.fromstring(text, parser)


@restorer
def restore_child_element(root: Any, path: str) -> Any:
    return root.getroottree().find(path)


@reduces("lxml.etree:_ElementTree")
def reduce_element_tree(_pickler: Reducing, tree: Any) -> Any:
    return restore_element_tree, (tree.getroot(),)


@restorer
def restore_element_tree(root: Any) -> Any:
    return root.getroottree()


@reduces("h5py._hl.files:File")
def reduce_hdf_file(pickler: Reducing, file: Any) -> Any:
    if not file:
        return pickler.lose(file, "it is closed")
    if file.mode != "r":  # opening one for writing changes it
        return pickler.lose(file, f"{file.filename} is open for writing")
    return restore_hdf_file, (os.path.abspath(file.filename),)


@outside
def restore_hdf_file(path: str) -> Any:
    try:
        return importlib.import_module("h5py").File(path, "r")
    except OSError as error:
        return missed("h5py.File", f"{path} could not be opened again: {error}")


@reduces("h5py._hl.dataset:Dataset", "h5py._hl.group:Group")
def reduce_hdf_object(pickler: Reducing, value: Any) -> Any:
    if not value:
        return pickler.lose(value, "its file is closed")
    if value.file.mode != "r":
        return pickler.lose(value, f"{value.file.filename} is open for writing")
    return restore_hdf_object, (os.path.abspath(value.file.filename), value.name)


@outside
def restore_hdf_object(path: str, name: str) -> Any:
    file = restore_hdf_file(path)
    return file if isinstance(file, Unrestorable) else file[name]


@reduces("pint:Quantity", "pint:Unit", "pint:Measurement", subclasses=True)
def reduce_quantity(_pickler: Reducing, value: Any) -> Any:
    """Reduce a quantity with its registry: it cannot be combined with those of another one.

    Its own reduction leaves the registry out, and gets that of the application instead. That is
    right for the registry that pint makes itself, and not for one that the notebook made.
    """
    registry = value._REGISTRY
    if registry is getattr(importlib.import_module("pint"), "_DEFAULT_REGISTRY", None):
        return NotImplemented
    _, (_, *arguments) = value.__reduce__()
    return restore_quantity, (registry, type(value).__name__, arguments)


@restorer
def restore_quantity(registry: Any, kind: str, arguments: list[Any]) -> Any:
    return getattr(registry, kind)(*arguments)


@reduces("jaxlib._jax:ArrayImpl", "jaxlib.xla_extension:ArrayImpl")
def reduce_jax_array(_pickler: Reducing, array: Any) -> Any:
    reduction = array.__reduce__()
    if isinstance(reduction, str):
        return reduction
    return restore_jax_array, tuple(reduction[:2])


@restorer
def restore_jax_array(make: Any, arguments: Any) -> Any:
    """Make an array of its own type: without this option, JAX makes 32 bits of 64.

    The option that the notebook has set is restored later.
    """
    jax: Any = importlib.import_module("jax")
    wide = getattr(importlib.import_module("jax.experimental"), "enable_x64", None)
    with (wide or jax.enable_x64)(True):
        return make(*arguments)


@reduces("rich.console:ConsoleThreadLocals")
def reduce_console_state(_pickler: Reducing, value: Any) -> Any:
    return type(value), (value.theme_stack,)


@reduces("plotly.basedatatypes:BasePlotlyType", subclasses=True)
def reduce_part_of_plot(_pickler: Reducing, part: Any) -> Any:
    """Reduce a part of a figure, such as a trace or an axis, to its place in the figure.

    plotly itself would make a copy, and changes to it would no longer show in the figure.
    """
    parent = part.parent
    if any(base.__name__ == "BaseFigureWidget" for base in type(parent).__mro__):
        return NotImplemented  # it is not saved itself
    for name in (part.plotly_name, "data"):
        found = parent[name] if parent is not None and name in parent else None
        if found is part:
            return restore_part_of_plot, (parent, name, None)
        if isinstance(found, tuple):
            for index, one in enumerate(found):
                if one is part:
                    return restore_part_of_plot, (parent, name, index)
    return NotImplemented


@restorer
def restore_part_of_plot(parent: Any, name: str, index: int | None) -> Any:
    if isinstance(parent, Unrestorable):
        return parent
    return parent[name] if index is None else parent[name][index]


@reduces("numba.typed.typedlist:List", "numba.typed.typeddict:Dict", subclasses=True)
def reduce_numba_container(pickler: Reducing, value: Any) -> Any:
    """Replace the whole container: one without its native memory would end the process if used."""
    return pickler.lose(value, "its items are in memory that only numba's compiled code can read")
