"""What a notebook sets up outside its variables: in Python, in IPython and in libraries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .kernels import Kernel

SAVE = "from prime_ext import state as _s\nsaved = _s.save({0!r}, key=b'k' * 32, verify='wait')"
LOAD = "from prime_ext import state as _s\nreport = _s.load({0!r}, key=b'k' * 32, mode='cold')"

AGAIN = "run the cell that makes it again"


@pytest.fixture
def restored(kernel_at: Callable[..., Kernel], tmp_path: Path) -> Callable[..., tuple[str, Kernel]]:
    """Runs cells in a kernel and saves; returns what was told then, and a fresh kernel."""

    def run(*cells: str) -> tuple[str, Kernel]:
        kernel = kernel_at()
        for cell in cells:
            kernel.run(cell)
        kernel.run(SAVE.format(str(tmp_path / "s")))
        told = kernel.run("print(saved.notes)")
        fresh = kernel_at()
        fresh.run(LOAD.format(str(tmp_path / "s")))
        return told, fresh

    return run


Restored = Callable[..., tuple[str, Kernel]]


def test_options_of_the_standard_library(restored: Restored) -> None:
    told, fresh = restored(
        """
        import csv, gc, os, socket, sys, time
        csv.register_dialect("mine", delimiter=";", quoting=csv.QUOTE_ALL)
        csv.field_size_limit(9_999_999)
        gc.set_threshold(500, 7, 7)
        socket.setdefaulttimeout(7.5)
        sys.setswitchinterval(0.02)
        if hasattr(sys, "set_int_max_str_digits"):
            sys.set_int_max_str_digits(9999)
        os.environ["TZ"] = "Asia/Tokyo"
        time.tzset()
        """
    )
    assert told.strip() == "[]"
    fresh.run(
        """
        assert report.notes == [], report.notes
        mine = csv.get_dialect("mine")
        assert (mine.delimiter, mine.quoting) == (";", csv.QUOTE_ALL)
        assert csv.field_size_limit() == 9_999_999 and gc.get_threshold() == (500, 7, 7)
        assert socket.getdefaulttimeout() == 7.5 and sys.getswitchinterval() == 0.02
        if hasattr(sys, "set_int_max_str_digits"):
            assert sys.get_int_max_str_digits() == 9999
        assert time.tzname[0] == "JST"
        """
    )


def test_options_of_polars_and_whether_pyplot_is_interactive(restored: Restored) -> None:
    pytest.importorskip("polars")
    told, fresh = restored(
        """
        import matplotlib.pyplot as plt, polars as pl
        pl.Config.set_tbl_rows(3)
        pl.Config.set_float_precision(2)
        plt.ion()
        """
    )
    assert told.strip() == "[]"
    fresh.run(
        """
        assert str(pl.DataFrame({"a": [1.23456] * 9})).count("1.23") == 3
        assert plt.isinteractive()
        """
    )


def test_configuration_of_dask(restored: Restored) -> None:
    pytest.importorskip("dask")
    told, fresh = restored(
        """
        import dask
        dask.config.set(scheduler="synchronous")
        dask.config.set({"array.chunk-size": "1MiB"})
        with dask.config.set({"array.slicing.split-large-chunks": True}):
            pass
        """
    )
    assert told.strip() == "[]"
    fresh.run(
        """
        assert dask.config.get("scheduler") == "synchronous"
        assert dask.config.get("array.chunk-size") == "1MiB"
        assert dask.config.get("array.slicing.split-large-chunks") is None
        """
    )


def test_arrays_of_jax_keep_64_bits(restored: Restored) -> None:
    pytest.importorskip("jax")
    _, fresh = restored(
        """
        import jax
        jax.config.update("jax_enable_x64", True)
        values = jax.numpy.arange(3.0)
        """
    )
    fresh.run(
        """
        assert report.names["values"].status == "verified", report.names["values"]
        assert values.dtype == "float64" and jax.numpy.arange(3.0).dtype == "float64"
        """
    )


def test_the_registry_of_pint(restored: Restored) -> None:
    pytest.importorskip("pint")
    _, fresh = restored(
        """
        import pint
        units = pint.UnitRegistry()
        units.define("widget = 3 * meter")
        pint.set_application_registry(units)
        length = units("2 widget")
        """
    )
    fresh.run(
        """
        assert report.names["length"].status == "verified", report.names["length"]
        assert length.to("m").magnitude == 6
        assert pint.get_application_registry().get() is units is length._REGISTRY
        """
    )


def test_templates_and_defaults_of_plotly(restored: Restored) -> None:
    pytest.importorskip("plotly")
    told, fresh = restored(
        """
        import plotly.express as px, plotly.graph_objects as go, plotly.io as pio
        pio.templates["mine"] = go.layout.Template(layout_title_text="Mine")
        pio.templates["plotly_white"].layout.font.size = 20
        pio.templates.default = "plotly_white+mine"
        px.defaults.width = 400
        """
    )
    assert told.strip() == "[]"
    fresh.run(
        """
        assert report.notes == [], report.notes
        assert pio.templates.default == "plotly_white+mine" and px.defaults.width == 400
        layout = go.Figure().layout.template.layout
        assert (layout.title.text, layout.font.size) == ("Mine", 20)
        """
    )


def test_what_was_registered_with_python(restored: Restored) -> None:
    told, fresh = restored(
        """
        import copy, copyreg, functools, numbers, pkgutil, signal, sqlite3
        from collections.abc import Sized
        count = 0
        class Point:
            def __init__(self, x): self.x = x
        class Amount: pass
        numbers.Number.register(Amount)
        @Sized.register
        class Bag: pass
        copyreg.pickle(Point, lambda point: (Point, (point.x + 1,)))
        sqlite3.register_adapter(Point, lambda point: point.x)
        sqlite3.register_converter("point", lambda text: Point(int(text)))
        def handler(number, frame):
            global count
            count += 1
        signal.signal(signal.SIGUSR1, handler)
        signal.signal(signal.SIGALRM, handler)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        @pkgutil.iter_importer_modules.register
        def _(importer: Point, prefix=""): return [f"{importer.x} {count}"]
        """,
    )
    assert told.strip() == "[]"
    fresh.run(
        """
        import os
        assert isinstance(Amount(), numbers.Number) and issubclass(Bag, Sized)
        assert copy.copy(Point(1)).x == 2
        base = sqlite3.connect(":memory:", detect_types=sqlite3.PARSE_DECLTYPES)
        base.execute("create table t (p point)")
        base.execute("insert into t values (?)", (Point(4),))
        assert base.execute("select p from t").fetchone()[0].x == 4
        assert signal.getsignal(signal.SIGPIPE) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGALRM) is signal.getsignal(signal.SIGUSR1) is handler
        os.kill(os.getpid(), signal.SIGUSR1)
        assert count == 1
        assert pkgutil.iter_importer_modules(Point(7)) == ["7 1"]
        """
    )


def test_what_was_registered_with_ipython_and_polars(restored: Restored) -> None:
    pytest.importorskip("polars")
    told, fresh = restored(
        """
        import ast
        import polars as pl
        shell = get_ipython()
        seen = []
        def after(result): seen.append(result.success)
        shell.events.register("post_run_cell", after)
        class Doubled(ast.NodeTransformer):
            def visit_Constant(self, node):
                return ast.Constant(42) if node.value == 21 else node
        shell.ast_transformers.append(Doubled())
        shell.input_transformers_cleanup.append(
            lambda lines: [line.replace("§", "seen") for line in lines])
        @pl.api.register_dataframe_namespace("mine")
        class Mine:
            def __init__(self, frame): self.frame = frame
            def rows(self): return self.frame.height
        @pl.api.register_expr_namespace("own")
        class Own:
            def __init__(self, expression): self.expression = expression
            def plus(self, n): return self.expression + n
        """
    )
    assert told.strip() == "[]"
    fresh.run("x = 21\nseen.clear()")
    fresh.run("assert x == 42 and §[-1] is True")
    fresh.run("assert pl.DataFrame({'a': [1]}).select(pl.col('a').own.plus(2)).mine.rows() == 1")


def test_what_calls_have_set_up_is_named_if_it_cannot_be_restored(restored: Restored) -> None:
    told, fresh = restored(
        """
        import atexit, contextlib, logging, matplotlib.font_manager as fm
        from rich import pretty
        atexit.register(print)
        pretty.install()
        logging.addLevelName(5, "TRACE")
        class Registry:
            def register(self, what): return what
        Registry().register(3)
        mine = Registry()
        mine.register(4)
        """,
    )
    for call in ("atexit.register", "pretty.install", "logging.addLevelName"):
        assert f"what {call}() has set up is not saved: {AGAIN}" in told
    assert "mine" not in told
    shown = fresh.run("print(report.notes)")
    assert f"what pretty.install() has set up was not saved: {AGAIN}" in shown
    assert shown.count(AGAIN) == told.count(AGAIN) == 3


def test_a_setting_for_a_block_sets_nothing_up(restored: Restored) -> None:
    pytest.importorskip("joblib")
    told, _ = restored("import joblib\nwith joblib.parallel_config(n_jobs=1): pass")
    assert told.strip() == "[]"


def test_what_was_made_in_the_database_of_duckdb_is_named(restored: Restored) -> None:
    pytest.importorskip("duckdb")
    told, _ = restored("import duckdb as d\nd.sql('create table t as select 1 a')")
    assert f"what d.sql() has set up is not saved: {AGAIN}" in told


def test_queries_set_nothing_up(restored: Restored) -> None:
    pytest.importorskip("duckdb")
    told, _ = restored("import duckdb\nduckdb.sql('select 1').fetchall()")
    assert told.strip() == "[]"
