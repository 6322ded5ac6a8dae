"""What the first contact with a kernel process sends into it."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

CARRIED = (
    "bootstrap",
    "guard",
    "summary",
    "expression",
    "describe",
    "library",
    "files",
    "snapshots",
    "operations",
)
"""Modules of ``inside`` that are sent into the kernel, in the order they need each other."""


def bootstrap_code(last_cell: dict[str, Any] | None) -> str:
    """The one statement that installs our messages; it binds no name of the user's.

    It reaches the builtins through ``__import__``, since any of them may be shadowed.
    """
    folder = files("prime_ext.kernel.inside")
    sources = {name: folder.joinpath(f"{name}.py").read_text("utf-8") for name in CARRIED}
    namespace = {"SOURCES": sources, "LAST_CELL": last_cell}
    return (
        "__import__('builtins').exec(__import__('builtins').compile("
        f"{_INSTALL!r}, '<prime_ext>', 'exec'), {namespace!r})"
    )


_INSTALL = """
def install():
    import sys, types
    from IPython import get_ipython
    shell = get_ipython()
    modules = {}
    for name, source in SOURCES.items():
        module = types.ModuleType("prime_ext.kernel.inside." + name)
        module.__dict__.update(modules)
        exec(compile(source, "<prime_ext." + name + ">", "exec"), module.__dict__)
        modules[name] = module
        if name == "bootstrap":
            module.cover_tracks(shell)
    modules["bootstrap"].install(shell.kernel, modules["operations"].operations(), LAST_CELL)
try:
    install()
except Exception:
    pass
"""
