"""Objects that the notebook has from a module: they stay those that the module's code uses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .kernels import Kernel

SAVE = "from prime_ext import state as _s\nsaved = _s.save({0!r}, key=b'k' * 32, verify='wait')"
LOAD = "from prime_ext import state as _s\nreport = _s.load({0!r}, key=b'k' * 32, mode='cold')"

PROJECT = """
import collections
class Settings:
    def __init__(self): self.debug, self.names = False, []
settings = Settings()
CONFIG, STACK, SEEN, TABLE = {"a": 1}, [], set(), collections.defaultdict(list)
class App:
    def __init__(self): self.handlers = []
    def on(self, function):
        self.handlers.append(function)
        return function
app = App()
other = Settings()
def read(): return settings.debug, CONFIG, STACK
"""

Kernels = Callable[..., Kernel]


def test_objects_of_the_users_modules(kernel_at: Kernels, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "__init__.py").write_text("")
    (tmp_path / "project" / "core.py").write_text(PROJECT)
    (tmp_path / "project" / "client.py").write_text(
        "from .core import CONFIG, settings\ndef used(): return CONFIG, settings.debug\n"
    )
    kernel = kernel_at()
    kernel.run("import project.core as core, project.client\nfrom project.core import *")
    kernel.run("from project.core import settings as s, CONFIG\nstack = core.STACK")
    kernel.run(
        """
        s.debug = True
        CONFIG["b"] = 2
        stack.append(1)
        core.SEEN.add(3)
        core.other.debug = "set"
        TABLE["t"].append(4)
        @app.on
        def handler(): return "handled"
        held = {"settings": settings, "config": CONFIG}
        """
    )
    kernel.run(SAVE.format(str(tmp_path / "s")))
    kernel.run(
        """
        assert saved.notes == [], saved.notes
        for name in "settings s CONFIG stack TABLE app held".split():
            assert saved.names[name].status == "verified", (name, saved.names[name])
        """
    )
    fresh = kernel_at()
    fresh.run(LOAD.format(str(tmp_path / "s")))
    check = """
        assert core.read() == (True, {"a": 1, "b": 2}, [1]), core.read()
        assert settings is s is core.settings is held["settings"]
        assert CONFIG is core.CONFIG is held["config"] and stack is core.STACK
        assert TABLE is core.TABLE and TABLE == {"t": [4]} and app is core.app
        assert core.SEEN == {3} and core.other.debug == "set"
        assert [function() for function in core.app.handlers] == ["handled"]
        assert project.client.used() == ({"a": 1, "b": 2}, True)
        CONFIG["c"] = 3
        assert project.client.used()[0]["c"] == 3
        del CONFIG["c"]
        """
    fresh.run(check)
    fresh.run(SAVE.format(str(tmp_path / "s")))
    again = kernel_at()
    again.run(LOAD.format(str(tmp_path / "s")))
    again.run(check)


def test_objects_of_libraries(kernel_at: Kernels, tmp_path: Path) -> None:
    kernel = kernel_at()
    kernel.run(
        """
        import decimal, sys
        import matplotlib, pandas as pd
        from matplotlib import colormaps, rcParams
        from pandas import options
        from sys import argv, path as search
        rcParams["lines.linewidth"] = 9
        options.display.max_rows = 13
        search.append("/added")
        context = decimal.getcontext()
        context.prec = 11
        shell = get_ipython()
        formatter, events = shell.display_formatter, shell.events
        process, asks = shell.kernel, [input, shell.get_ipython]
        held = [rcParams, options]
        """
    )
    kernel.run(SAVE.format(str(tmp_path / "s")))
    kernel.run(
        """
        assert saved.notes == [], saved.notes
        names = "colormaps rcParams options context shell formatter events process asks held"
        for name in names.split():
            assert saved.names[name].status == "verified", (name, saved.names[name])
        """
    )
    fresh = kernel_at()
    fresh.run(LOAD.format(str(tmp_path / "s")))
    fresh.run(
        """
        assert rcParams is matplotlib.rcParams is held[0] and rcParams["lines.linewidth"] == 9
        assert colormaps is matplotlib.colormaps and options is pd.options is held[1]
        options.display.max_rows = 14
        assert pd.get_option("display.max_rows") == 14
        assert search is sys.path and "/added" in search and argv is sys.argv
        context.prec += 1
        assert decimal.getcontext().prec == 12
        assert shell is get_ipython() and formatter is shell.display_formatter
        assert events is shell.events and process is shell.kernel
        assert asks == [shell.kernel.raw_input, shell.get_ipython]
        """
    )


def test_attributes_of_objects_in_libraries(kernel_at: Kernels, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    kernel = kernel_at()
    kernel.run(
        """
        import torch
        from torch.backends import cudnn
        cudnn.benchmark = True
        torch.backends.cudnn.deterministic = True
        torch.backends.cuda.matmul.allow_tf32 = True
        """
    )
    kernel.run(SAVE.format(str(tmp_path / "s")))
    fresh = kernel_at()
    fresh.run(LOAD.format(str(tmp_path / "s")))
    fresh.run(
        """
        assert cudnn.benchmark and cudnn.deterministic
        assert torch.backends.cuda.matmul.allow_tf32
        """
    )


def test_containers_that_methods_change(kernel_at: Kernels, tmp_path: Path) -> None:
    """In a module of the user's they are restored, in an installed one they are named."""
    (tmp_path / "lists.py").write_text("ITEMS, OPTIONS, SEEN = [1], {'a': 1}, set()\n")
    (tmp_path / "user.py").write_text("from lists import ITEMS\n")
    kernel = kernel_at()
    kernel.run("import lists, user, mimetypes, sys")
    kernel.run("lists.ITEMS.append(2); lists.OPTIONS.update(b=2); lists.SEEN.add(3)")
    kernel.run("mimetypes.knownfiles.append('/own'); sys.path.append('/added')")
    kernel.run(SAVE.format(str(tmp_path / "s")))
    told = kernel.run("print(saved.notes)")
    assert told.count("was set by the notebook") == 1
    assert "mimetypes:knownfiles was set by the notebook" in told
    fresh = kernel_at()
    fresh.run(LOAD.format(str(tmp_path / "s")))
    assert "mimetypes:knownfiles was not saved" in fresh.run("print(report.notes)")
    fresh.run(
        """
        assert (lists.ITEMS, lists.OPTIONS, lists.SEEN) == ([1, 2], {"a": 1, "b": 2}, {3})
        assert user.ITEMS is lists.ITEMS
        """
    )
