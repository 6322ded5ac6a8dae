"""Parts of IPython: a process has one of each."""

from __future__ import annotations

from typing import Any

from .namespace import shell
from .pickling import Reducing
from .plans import made_plan, reduces
from .restorers import SandboxedResource, current, restorer

_PARTS = {
    "IPython.core.formatters:DisplayFormatter": "display_formatter",
    "IPython.core.events:EventManager": "events",
    "IPython.core.history:HistoryManager": "history_manager",
    "IPython.core.magic:MagicsManager": "magics_manager",
    "traitlets.config.loader:Config": "config",
    "ipykernel.ipkernel:IPythonKernel": "kernel",
}


@reduces("IPython.core.interactiveshell:InteractiveShell", subclasses=True)
def reduce_shell(_pickler: Reducing, _shell: Any) -> Any:
    return restore_shell, ()


@restorer
def restore_shell() -> Any:
    from IPython import get_ipython

    return SandboxedResource(restore_shell, ()) if current().sandboxed else get_ipython()


@reduces(*_PARTS)
def reduce_part_of_shell(pickler: Reducing, value: Any) -> Any:
    kind = type(value)
    name = _PARTS[f"{kind.__module__}:{kind.__qualname__}"]
    if getattr(shell(), name, None) is not value:
        return made_plan(pickler, kind)(pickler, value)
    pickler.context.references.add(id(value))
    return restore_part_of_shell, (name,)


@restorer
def restore_part_of_shell(name: str) -> Any:
    if current().sandboxed:
        return SandboxedResource(restore_part_of_shell, (name,))
    found = shell()
    if found is None:
        raise RuntimeError("this process does not run IPython")
    return getattr(found, name)
