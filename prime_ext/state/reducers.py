"""Registering all reducers, at the first save or load so that importing the package stays cheap."""

from __future__ import annotations


def load() -> None:
    """Import the modules that register plans and restorers."""
    from . import (  # noqa: F401
        classes,
        displaced,
        reducers_arrays,
        reducers_builtin,
        reducers_caches,
        reducers_files,
        reducers_functions,
        reducers_instances,
        reducers_ipython,
        reducers_libraries,
        reducers_matches,
        reducers_matplotlib,
        reducers_msgspec,
        reducers_opaque,
        reducers_pandas,
        reducers_polars,
        reducers_sqlalchemy,
        reducers_sqlite,
        reducers_standard,
        reducers_torch,
        reducers_views,
        reducers_widgets,
    )
