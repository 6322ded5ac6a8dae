"""What belongs to the process, and names with a meaning of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from prime_ext import state

from .kernels import Kernel, KernelError

SAVE = "from prime_ext import state as _s; _s.save({0!r}, key=b'k' * 32, verify='off')"
LOAD = "from prime_ext import state as _s; report = _s.load({0!r}, key=b'k' * 32, mode='cold')"


def test_directory_path_environment_options_and_random_states(
    kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    snapshot, elsewhere = str(tmp_path / "s"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "helper_module.py").write_text("VALUE = 5\nclass Helper:\n    kind = 'h'\n")
    kernel = kernel_at(GIVEN="as started", REMOVED="at start")
    kernel.run(
        f"""
        import os, random, sys
        import numpy as np, pandas as pd
        os.chdir({str(elsewhere)!r})
        sys.path.append({str(elsewhere / "extra")!r})
        os.environ["ADDED"] = "by the user"
        del os.environ["REMOVED"]
        import helper_module
        helper = helper_module.Helper()
        sys.path[:] = [entry for entry in sys.path if entry not in ("", {str(elsewhere)!r})]
        random.seed(3); np.random.seed(4)
        pd.set_option("display.max_rows", 7)
        np.set_printoptions(precision=2)
        np.seterr(divide="raise")
        import decimal; decimal.getcontext().prec = 5
        import matplotlib; matplotlib.rcParams["lines.linewidth"] = 7.5
        import matplotlib.pyplot as plt; plt.rcParams["axes.grid"] = True
        """
    )
    kernel.run(SAVE.format(snapshot))
    expected = kernel.run("print(random.random(), np.random.rand())")
    fresh = kernel_at(GIVEN="as started", REMOVED="at start")
    fresh.run(LOAD.format(snapshot))
    assert fresh.run("print(random.random(), np.random.rand())") == expected
    fresh.run(
        f"""
        import os, sys, pandas as pd
        assert os.getcwd() == {str(elsewhere)!r} and {str(elsewhere / "extra")!r} in sys.path
        assert os.environ["ADDED"] == "by the user" and "REMOVED" not in os.environ
        assert pd.get_option("display.max_rows") == 7
        assert np.get_printoptions()["precision"] == 2 and np.geterr()["divide"] == "raise"
        assert decimal.Decimal(1) / 3 == decimal.Decimal("0.33333")
        assert matplotlib.rcParams["lines.linewidth"] == 7.5 and plt.rcParams["axes.grid"]
        assert helper_module.VALUE == 5 and helper.kind == "h"
        assert type(helper) is helper_module.Helper is sys.modules["helper_module"].Helper
        """
    )


def test_options_of_libraries_for_models_and_plots(
    kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    pytest.importorskip("sklearn")
    kernel = kernel_at()
    kernel.run(
        """
        import importlib.util, sklearn
        sklearn.set_config(transform_output="pandas")
        if importlib.util.find_spec("xarray"):
            import xarray
            xarray.set_options(keep_attrs=True)
        if importlib.util.find_spec("plotly"):
            import plotly.io as pio
            pio.templates.default, pio.renderers.default = "plotly_dark", "svg"
        if importlib.util.find_spec("altair"):
            import altair
            altair.data_transformers.disable_max_rows()
        """
    )
    kernel.run(SAVE.format(str(tmp_path / "s")))
    fresh = kernel_at()
    fresh.run(LOAD.format(str(tmp_path / "s")))
    fresh.run(
        """
        import sys
        assert sklearn.get_config()["transform_output"] == "pandas"
        if "xarray" in sys.modules:
            assert xarray.get_options()["keep_attrs"] is True
        if "plotly.io" in sys.modules:
            assert (pio.templates.default, pio.renderers.default) == ("plotly_dark", "svg")
        if "altair" in sys.modules:
            assert altair.data_transformers.options == {"max_rows": None}
        """
    )


def test_source_of_notebook_functions(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    kernel = kernel_at()
    kernel.run("def documented(x):\n    return x + 41  # the comment")
    kernel.run(SAVE.format(str(tmp_path / "s")))
    fresh = kernel_at()
    fresh.run(LOAD.format(str(tmp_path / "s")))
    fresh.run(
        """
        import inspect
        assert "# the comment" in inspect.getsource(documented)
        try:
            documented("x")
        except TypeError:
            import traceback
            assert "return x + 41" in traceback.format_exc()
        """
    )


def test_shadowed_builtins_and_private_names(
    kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    kernel = kernel_at()
    kernel.run(
        """
        list = 3; dict = "d"; type = None; len = lambda x: -1; print_ = print; open = "shut"
        _private, __dunder = [1], {"a": 1}
        _9x = "mine"
        """
    )
    kernel.run("1 + 1")
    kernel.run(SAVE.format(str(tmp_path / "s")))
    fresh = kernel_at()
    fresh.run(LOAD.format(str(tmp_path / "s")))
    fresh.run(
        """
        assert (list, dict, type, open) == (3, "d", None, "shut") and len([1, 2]) == -1
        assert _private == [1] and __dunder == {"a": 1} and _9x == "mine"
        assert "In" not in report.names and "Out" not in report.names
        assert not [name for name in report.names if name.strip("_i").isdigit()]
        """
    )


def test_keys_that_are_no_names(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    """In a notebook's own namespace one costs itself only; a caller is told what is wrong."""
    kernel = kernel_at()
    kernel.run("ok = 3; globals()[1] = 2")
    kernel.run(SAVE.format(str(tmp_path / "s")).replace("_s.save(", "saved = _s.save("))
    assert "not names were not saved: 1" in kernel.run("print(saved.notes)")
    fresh = kernel_at()
    fresh.run("globals()[7] = 8")
    fresh.run(LOAD.format(str(tmp_path / "s")))
    fresh.run("assert ok == 3 and 1 not in globals() and report.complete")
    with pytest.raises(state.SnapshotWriteError, match="because of 1"):
        state.save(tmp_path / "t", {1: 2, "ok": 3}, key=b"k" * 32)  # type: ignore[dict-item]


def test_autoreload_and_extensions(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    module = tmp_path / "edited.py"
    module.write_text("def answer(): return 1\n")
    kernel = kernel_at()
    kernel.run("%load_ext autoreload\n%autoreload 2\nimport edited\nassert edited.answer() == 1")
    kernel.run(SAVE.format(str(tmp_path / "s")))
    fresh = kernel_at()
    fresh.run(LOAD.format(str(tmp_path / "s")))
    fresh.run("assert edited.answer() == 1")
    module.write_text("def answer(): return 'edited since'\n")
    fresh.run("assert edited.answer() == 'edited since'")


def test_patched_library_function(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    kernel = kernel_at()
    kernel.run(
        """
        import json, textwrap
        json.my_helper = lambda x: x + 1
        original = textwrap.dedent
        def louder(text): return original(text).upper()
        textwrap.dedent = louder
        json.JSONDecoder.shout = lambda self: "shout"
        """
    )
    kernel.run(SAVE.format(str(tmp_path / "s")))
    fresh = kernel_at()
    fresh.run(LOAD.format(str(tmp_path / "s")))
    fresh.run(
        """
        assert json.my_helper(1) == 2 and textwrap.dedent(" a") == "A"
        assert json.JSONDecoder().shout() == "shout" and textwrap.dedent is louder
        """
    )


def test_what_the_notebook_set_in_modules(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "__init__.py").write_text("")
    (tmp_path / "project" / "settings.py").write_text(
        "LIMIT = 5\nOPTIONS = {'rate': 1}\nTABLE = None\nUNTOUCHED = 1\nclass Base:\n    size = 1\n"
    )
    (tmp_path / "project" / "user.py").write_text("from .settings import OPTIONS\n")
    kernel = kernel_at()
    kernel.run("import project.settings as s, project.user, json, fractions, http.client\nt = [1]")
    kernel.run("s.LIMIT = 7; s.OPTIONS['rate'] = 2; s.TABLE = t; setattr(s, 'ADDED', 'a')")
    kernel.run("project.settings.Base.size = 3; http.client.HTTPConnection.debuglevel = 2")
    kernel.run("json.JSONDecoder = None; json.scanner.limit = {1: 2}\ns.HANDLE = (n for n in [1])")
    kernel.run("class Own(fractions.Fraction): pass\nfractions.Fraction = Own")
    saving = SAVE.replace("_s.save", "report = _s.save").replace("off", "wait")
    kernel.run(saving.format(str(tmp_path / "s")))
    kernel.run(
        """
        assert any("json.scanner:limit" in note for note in report.notes), report.notes
        assert any("project.settings:HANDLE" in note for note in report.notes), report.notes
        assert report.names["t"].status == "verified", report.names["t"]
        """
    )
    fresh = kernel_at()
    fresh.run(LOAD.format(str(tmp_path / "s")))
    check = """
        assert (s.LIMIT, s.OPTIONS, s.ADDED, s.Base.size) == (7, {"rate": 2}, "a", 3)
        assert s.TABLE is t and project.user.OPTIONS is s.OPTIONS
        assert json.JSONDecoder is None and http.client.HTTPConnection.debuglevel == 2
        assert fractions.Fraction is Own and not hasattr(json.scanner, "limit")
        """
    fresh.run(check)
    fresh.run(SAVE.format(str(tmp_path / "s")))
    again = kernel_at()
    again.run(LOAD.format(str(tmp_path / "s")))
    again.run(check)


def test_settings_of_warnings_logging_and_locale(
    kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    kernel = kernel_at()
    kernel.run(
        """
        import locale, logging, warnings
        class Mine(UserWarning): pass
        warnings.filterwarnings("ignore", "divide .*", RuntimeWarning)
        warnings.simplefilter("error", Mine)
        warnings.filterwarnings("error", category=FutureWarning, module="pan.*")
        logging.getLogger("chatty.library").setLevel(logging.ERROR)
        logging.basicConfig(level=logging.INFO, format="[%(levelname)s] %(message)s", force=True)
        locale.setlocale(locale.LC_NUMERIC, "C.UTF-8")
        expected = [f for f in warnings.filters]
        """
    )
    kernel.run(SAVE.format(str(tmp_path / "s")))
    fresh = kernel_at()
    fresh.run(LOAD.format(str(tmp_path / "s")))
    printed = fresh.run(
        """
        assert report.notes == [], report.notes
        assert [f[2].__name__ for f in warnings.filters] == [f[2].__name__ for f in expected]
        warnings.warn("divide by zero", RuntimeWarning)
        try: warnings.warn("mine", Mine)
        except Mine: print("raised")
        assert logging.getLogger("chatty.library").level == logging.ERROR
        assert locale.setlocale(locale.LC_NUMERIC) == "C.UTF-8"
        logging.info("told")
        """
    )
    assert "raised" in printed
    assert "[INFO] told" in printed
    assert "divide" not in printed


def test_loggers_and_their_handlers(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    kernel = kernel_at()
    kernel.run(
        """
        import io, logging
        log = logging.getLogger("mine.part")
        handler = logging.StreamHandler()
        log.addHandler(handler)
        log.addHandler(logging.FileHandler("later.log", delay=True))
        log.propagate = False
        other = logging.getLogger("other")
        other.addHandler(logging.StreamHandler(io.StringIO()))
        class Quiet(logging.Filter): pass
        other.addFilter(Quiet())
        logging.getLogger("asyncio").addFilter(Quiet())
        """
    )
    kernel.run(
        "from prime_ext import state as s\n"
        f"notes = s.save({str(tmp_path / 's')!r}, key=b'k' * 32, verify='off').notes\n"
        "why = 'is not saved: run the cell that makes it again'\n"
        "told = [f\"a StreamHandler of the logger 'other' {why}\"]\n"
        "told += [f'a Quiet of the logger {name!r} {why}' for name in ('other', 'asyncio')]\n"
        "assert sorted(notes) == sorted(told), notes"
    )
    fresh = kernel_at()
    fresh.run(LOAD.format(str(tmp_path / "s")))
    assert not (tmp_path / "later.log").exists()
    fresh.run(
        """
        assert log is logging.getLogger("mine.part") and not log.propagate
        assert log.handlers[0] is handler and len(log.handlers) == 2, log.handlers
        log.warning("told")
        """
    )
    assert (tmp_path / "later.log").read_text() == "told\n"


def test_what_was_registered_with_ipython_and_pandas(
    kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    kernel = kernel_at()
    kernel.run(
        """
        import fractions
        import pandas as pd
        class Shown: pass
        class Other: pass
        def as_html(value): return "<b>shown</b>"
        html = get_ipython().display_formatter.formatters["text/html"]
        html.for_type(Shown, as_html)
        html.for_type(fractions.Fraction, as_html)
        html.for_type(Other, lambda value: "<i>other</i>")
        @pd.api.extensions.register_dataframe_accessor("geo")
        class Geo:
            def __init__(self, frame): self.frame = frame
            def rows(self): return len(self.frame)
        frame = pd.DataFrame({"a": [1, 2]})
        """
    )
    kernel.run("%alias_magic --line tt timeit -p '-n 1'")
    printed = kernel.run(
        "from prime_ext import state as s\n"
        f"print(s.save({str(tmp_path / 's')!r}, key=b'k' * 32, verify='off').notes)"
    )
    assert "the text/html display of Other is not saved" in printed
    assert "Shown" not in printed
    assert "geo" not in printed
    fresh = kernel_at()
    fresh.run(LOAD.format(str(tmp_path / "s")))
    fresh.run(
        """
        assert report.notes == [
            "the text/html display of Other was not saved: run the cell that makes it again"
        ], report.notes
        shown = get_ipython().display_formatter.format
        assert shown(Shown())[0]["text/html"] == "<b>shown</b>"
        assert shown(fractions.Fraction(1))[0]["text/html"] == "<b>shown</b>"
        assert frame.geo.rows() == 2
        alias = get_ipython().magics_manager.magics["line"]["tt"]
        assert (alias.magic_name, alias.magic_params) == ("timeit", "-n 1")
        """
    )


def test_functions_among_the_settings(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    """Such as the formats of numbers that many notebooks begin with, and magics of the notebook."""
    kernel = kernel_at()
    kernel.run(
        """
        import numpy as np, pandas as pd
        digits = 3
        np.set_printoptions(suppress=True, formatter={"float": lambda x: f"{x:.{digits}f}"})
        pd.options.display.float_format = "{:,.1f}".format
        from IPython.core.magic import Magics, line_magic, magics_class, register_cell_magic
        @register_cell_magic
        def shout(line, cell): return cell.upper() * digits
        del shout
        @magics_class
        class Own(Magics):
            @line_magic
            def whisper(self, line): return line.lower()
        get_ipython().register_magics(Own)
        """
    )
    saving = SAVE.replace("_s.save", "report = _s.save").replace("off", "wait")
    kernel.run(saving.format(str(tmp_path / "s")))
    assert kernel.run("print(report.notes)").strip() == "[]"
    fresh = kernel_at()
    fresh.run(LOAD.format(str(tmp_path / "s")))
    fresh.run(
        """
        assert report.notes == [], report.notes
        assert str(np.array([1.0])) == "[1.000]"
        digits = 2
        assert str(np.array([1.0])) == "[1.00]", "it reads the notebook's variable"
        assert "1,234.5" in str(pd.Series([1234.5]))
        assert get_ipython().run_cell_magic("shout", "", "a") == "AA"
        assert get_ipython().run_line_magic("whisper", "A") == "a"
        """
    )


def test_settings_of_ipython(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    cells = [
        "InteractiveShell = type(get_ipython())\nInteractiveShell.ast_node_interactivity = 'all'",
        "%matplotlib inline\n%config InlineBackend.figure_formats = ['svg']",
        "%config InlineBackend.close_figures = False\n%precision 2",
    ]
    kernel = kernel_at(MPLBACKEND="module://matplotlib_inline.backend_inline")
    for cell in cells:
        kernel.run(cell)
    kernel.run(SAVE.format(str(tmp_path / "s")))
    fresh = kernel_at(MPLBACKEND="module://matplotlib_inline.backend_inline")
    fresh.run(LOAD.format(str(tmp_path / "s")))
    fresh.run(
        """
        shell = get_ipython()
        assert shell.ast_node_interactivity == "all"
        format = shell.display_formatter.format
        assert format(3.14159)[0]["text/plain"] == "3.14"
        import matplotlib.pyplot as plt
        assert "image/svg+xml" in format(plt.subplots()[0])[0]
        from matplotlib_inline.config import InlineBackend
        assert InlineBackend.instance().close_figures is False
        assert InlineBackend.instance() in shell.configurables
        """
    )


def test_an_option_that_cannot_be_saved_is_named(
    kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    kernel = kernel_at()
    kernel.run(
        """
        import matplotlib, matplotlib.patheffects
        class Glow(matplotlib.patheffects.Normal): pass
        matplotlib.rcParams["path.effects"] = [Glow()]
        import numpy as np
        np.seterr(over="raise")
        n = 1
        """
    )
    kernel.run(SAVE.replace("_s.save", "report = _s.save").format(str(tmp_path / "s")))
    told = kernel.run("print(report.notes)")
    assert "options of matplotlib" in told
    assert "object of the notebook" in told
    fresh = kernel_at()
    fresh.run(LOAD.format(str(tmp_path / "s")))
    fresh.run("assert n == 1 and np.geterr()['over'] == 'raise' and report.notes == []")


def test_accessors_of_xarray(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    pytest.importorskip("xarray")
    kernel = kernel_at()
    kernel.run(
        """
        import xarray
        @xarray.register_dataset_accessor("area")
        class Area:
            def __init__(self, data): self.data = data
            def size(self): return len(self.data)
        data = xarray.Dataset({"v": ("x", [1.0])})
        assert data.area.size() == 1
        @xarray.register_dataarray_accessor("gone")
        class Gone:
            def __init__(self, data): pass
        del Gone
        """
    )
    kernel.run(SAVE.replace("_s.save", "report = _s.save").format(str(tmp_path / "s")))
    assert "the accessor DataArray.gone is not saved" in kernel.run("print(report.notes)")
    fresh = kernel_at()
    fresh.run(LOAD.format(str(tmp_path / "s")))
    fresh.run("assert data.area.size() == 1 and report.notes == [], report.notes")


def test_filters_of_warnings_with_classes_inside_others(
    kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    kernel = kernel_at()
    kernel.run(
        f"""
        import warnings
        class Warnings:
            class Mine(UserWarning): pass
        warnings.simplefilter("error", Warnings.Mine)
        from prime_ext import state as s
        s.save({str(tmp_path / "s")!r}, key=b"k" * 32, verify="off")
        """
    )
    fresh = kernel_at()
    fresh.run(LOAD.format(str(tmp_path / "s")))
    with pytest.raises(KernelError, match="told"):
        fresh.run("warnings.warn('told', Warnings.Mine)")


def test_what_a_missing_library_or_option_costs(
    kernel_at: Callable[..., Kernel], tmp_path: Path
) -> None:
    """Only its own options: not those of other libraries, nor other options of the same."""
    kernel = kernel_at()
    kernel.run(
        f"""
        import csv, os
        import numpy as np, pandas as pd
        from pandas._config import config
        config.register_option("added.here", 1)
        known = config._registered_options
        known.update({{name: known.pop(name) for name in list(known) if name != "added.here"}})
        pd.set_option("added.here", 2)
        pd.set_option("display.width", 44)
        pd.set_option("display.max_rows", 7)
        csv.register_dialect("bars", delimiter="|")
        os.environ["SET_HERE"] = "yes"
        np.random.seed(3)
        from prime_ext import state as s
        s.save({str(tmp_path / "s")!r}, key=b"k" * 32, verify="off")
        """
    )
    fresh = kernel_at()
    fresh.run(LOAD.format(str(tmp_path / "s")))
    fresh.run(
        """
        assert pd.get_option("display.max_rows") == 7 and pd.get_option("display.width") == 44
        """
    )
    lacking = kernel_at()
    lacking.run(
        """
        import sys
        class Hidden:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("numpy", "pandas"):
                    raise ImportError(name)
        sys.meta_path.insert(0, Hidden())
        """
    )
    lacking.run(
        f"""
        from prime_ext import state as s
        report = s.load({str(tmp_path / "s")!r}, key=b"k" * 32, mode="cold")
        assert csv.get_dialect("bars").delimiter == "|" and os.environ["SET_HERE"] == "yes"
        told = "the options of numpy of the process are not restored: ImportError: numpy"
        assert told in report.notes and not report.complete, report.notes
        """
    )
