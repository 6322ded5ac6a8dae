"""Calls by which the notebook has set something up that a snapshot does not hold.

A library keeps what such a call does in places of its own, or outside of Python, as
``output_notebook`` does in the browser. Nothing of it can be restored, but it is told, so that the
user runs that cell again.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from typing import Any

from . import cells

_FUNCTIONS = frozenset(
    """
    altair.register
    astropy.add_enabled_aliases astropy.add_enabled_equivalencies astropy.add_enabled_units
    astropy.enable astropy.set_enabled_equivalencies astropy.set_enabled_units
    asyncio.set_event_loop_policy atexit.register
    bokeh.output_file bokeh.output_notebook
    codecs.register codecs.register_error
    cufflinks.go_offline
    dask.Callback.register
    duckdb.execute duckdb.module_sql duckdb.query duckdb.register duckdb.sql
    ee.Initialize
    findspark.init
    gc.disable gc.freeze
    holoviews.extension holoviews.notebook_extension holoviews.opts.defaults
    hvplot.extension
    IPython.InteractiveShell.set_custom_exc
    itables.init_notebook_mode
    joblib.parallel_backend joblib.parallel_config joblib.register_parallel_backend
    logging.addLevelName logging.captureWarnings logging.setLogRecordFactory
    logging.setLoggerClass
    matplotlib.FontManager.addfont matplotlib.register_projection matplotlib.register_scale
    mlflow.autolog mlflow.set_experiment mlflow.set_tracking_uri mlflow.start_run
    multiprocessing.BaseContext.set_start_method multiprocessing.DefaultContext.set_start_method
    nest_asyncio.apply nest_asyncio2.apply
    numexpr.set_num_threads
    numpy.seterrcall
    pandarallel.pandarallel.initialize
    pandas.register pandas.register_extension_dtype
    panel.panel_extension panel.extension
    pint.register_unit_format
    plotly.init_notebook_mode
    posix.umask
    pyvista.set_jupyter_backend
    ray.init
    requests_cache.install_cache
    rich.install
    sqlalchemy.listen
    sympy.init_printing sympy.init_session
    threadpoolctl.threadpool_limits
    threading.setprofile threading.settrace sys.setprofile sys.settrace
    torch.set_default_device torch.set_num_threads torch.set_float32_matmul_precision
    tqdm.tqdm.pandas tqdm.tqdm_notebook.pandas
    wandb.init wandb.login
    """.split()  # noqa: SIM905 - a list this long is read better as words
)
"""The functions, as ``package.qualname``: where in a package a function is defined may change."""

_LAST_NAMES = frozenset(name.rpartition(".")[2] for name in _FUNCTIONS)

_STATEMENTS = frozenset({"execute", "query", "sql"})
_LASTING = re.compile(r"\s*(attach|create|insert|install|load|set)\b", re.IGNORECASE)


def find(namespace: dict[str, Any]) -> list[str]:
    """Describe what the notebook has set up by calling one of these functions."""
    chains = sorted({chain for text in cells.texts(namespace) for chain in _calls_in(text)})
    return [f"what {chain}() has set up" for chain in chains if _is_such(namespace, chain)]


@functools.cache
def _calls_in(cell: str) -> frozenset[str]:
    """Return the dotted names that a cell calls or decorates with, if they may be in the table.

    What a ``with`` statement sets up has ended with it.
    """
    if not any(name in cell for name in _LAST_NAMES):
        return frozenset()
    nodes = cells.parsed(cell)
    ended = {
        id(item.context_expr)
        for node in nodes
        for item in getattr(node, "items", ())
        if isinstance(item, ast.withitem)
    }
    found = [
        node.func
        for node in nodes
        if isinstance(node, ast.Call) and id(node) not in ended and not _only_asks(node)
    ]
    for node in nodes:
        found += getattr(node, "decorator_list", ())
    chains = {cells.dotted(node) for node in found}
    return frozenset(c for c in chains if c.rpartition(".")[2] in _LAST_NAMES and c[0] != ".")


def _only_asks(call: ast.Call) -> bool:
    """Return whether a call only queries a database."""
    if cells.dotted(call.func).rpartition(".")[2] not in _STATEMENTS:
        return False
    text = call.args[0] if call.args else None
    statement = text.value if isinstance(text, ast.Constant) else ""
    return not (isinstance(statement, str) and _LASTING.match(statement))


def _is_such(namespace: dict[str, Any], chain: str) -> bool:
    first, *path = chain.split(".")
    found = namespace.get(first)
    for part in path:
        found = inspect.getattr_static(found, part, None)  # runs no code of the object
    found = getattr(found, "__func__", found)
    module, name = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    if not isinstance(module, str):
        return False
    return f"{module.partition('.')[0].lstrip('_')}.{name}" in _FUNCTIONS
