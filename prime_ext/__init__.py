"""An agent in JupyterLab's sidebar that works in the notebook's own live kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from ._version import __version__
except ImportError:  # a source tree that was never built or installed
    __version__ = "0+source"

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["__version__"]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "prime_ext"}]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    # Kernels import this package too, for `prime_ext.state`: they must not pay for the server.
    from .app import PrimeExtension

    return [{"module": "prime_ext.app", "app": PrimeExtension}]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics of `prime_ext.state` when a user runs `%load_ext prime_ext`."""
    from .state.magics import load_ipython_extension as load

    load(shell)
