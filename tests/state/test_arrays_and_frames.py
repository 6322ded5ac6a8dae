"""NumPy, pandas, Arrow and matplotlib objects."""

from __future__ import annotations

import pytest

from .kernels import Case, CasesInKernels

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("polars")

CASES = [
    Case(
        "array_kinds",
        "Tagged tagged masked matrix rec objects window_on_objects from_bytes raw negative zero "
        "scalar structured_view swapped shared_a shared_b text rng legacy part "
        "sliding slid",
        """
        import numpy as np
        class Tagged(np.ndarray):
            def __array_finalize__(self, obj): self.tag = getattr(obj, "tag", None)
        tagged = np.arange(50_000.0).view(Tagged); tagged.tag = "meters"
        masked = np.ma.array([1, 2, 3], mask=[0, 1, 0])
        matrix = np.matrix([[1, 2], [3, 4]])
        rec = np.rec.array([(1, "a"), (2, "b")], dtype=[("n", "i4"), ("s", "U1")])
        objects = np.array([{"k": 1}, [2], None], dtype=object)
        window_on_objects = objects[1:]
        raw = bytearray(80_000)
        from_bytes = np.frombuffer(raw, dtype=np.int64)
        negative = np.arange(100_000)[::-1]
        zero, scalar = np.zeros((0, 3)), np.float32(1.5)
        structured_view = np.zeros(30_000, dtype=[("x", "f8"), ("y", "i4")])
        swapped = np.arange(20_000, dtype=">i8")
        shared_a = np.zeros(100_000)
        shared_b = {"inside": shared_a[::10]}
        text = np.array(["alpha", "beta"])
        rng = np.random.default_rng(7); rng.random(3)
        legacy = np.random.RandomState(7); legacy.rand(3)
        _big = np.arange(4_000_000.0)
        part = _big[:10]
        del _big
        slid = np.arange(50_000.0)
        sliding = np.lib.stride_tricks.sliding_window_view(slid, 1_000)  # 392 MB if written out
        """,
        """
        import numpy as np
        assert type(tagged) is Tagged and tagged.tag == "meters" and tagged[-1] == 49_999
        assert masked.sum() == 4 and masked.mask.tolist() == [False, True, False]
        assert type(matrix) is np.matrix and (matrix * matrix)[0, 0] == 7
        assert rec.n.tolist() == [1, 2] and rec.s[1] == "b"
        assert objects[1] is window_on_objects[0]
        window_on_objects[1] = "changed"
        assert objects[2] == "changed"; objects[2] = None
        from_bytes[0] = 258
        assert raw[0] == 2 and raw[1] == 1; from_bytes[0] = 0
        assert negative[0] == 99_999 and negative.strides[0] < 0
        assert zero.shape == (0, 3) and type(scalar) is np.float32
        assert structured_view["x"].base is not None and swapped.dtype.str == ">i8"
        assert swapped[7] == 7 and text.tolist() == ["alpha", "beta"]
        shared_a[20] = 5
        assert shared_b["inside"][2] == 5; shared_a[20] = 0
        expected = np.random.default_rng(7); expected.random(3)
        state_before = rng.bit_generator.state
        assert rng.random() == expected.random(); rng.bit_generator.state = state_before
        assert len(part) == 10 and _loaded.names["part"].size < 10_000
        assert sliding.shape == (49_001, 1_000) and _loaded.names["sliding"].size < 500_000
        assert np.shares_memory(sliding, slid) and sliding[7, 3] == 10
        """,
    ),
    Case(
        "masked_arrays",
        "Checked readings valid copied tail hidden units checked constant",
        """
        import numpy as np
        class Checked(np.ma.MaskedArray): pass
        readings = np.arange(100_000.0)
        valid = np.ma.masked_array(readings, mask=readings > 50_000, fill_value=-1)
        copied = valid.copy()
        tail = copied[10:]
        hidden = np.ma.masked_greater(np.arange(50.0), 20).copy()[15:]
        units = np.ma.array([(1, 2.0)], dtype=[("n", "i4"), ("x", "f8")], mask=[(False, True)])
        checked = np.ma.array([1, 2, 3], mask=[0, 1, 0], hard_mask=True).view(Checked)
        checked.note = "by hand"
        constant = np.ma.masked
        """,
        """
        import numpy as np
        valid[7] = -5
        assert readings[7] == -5 and copied[7] == 7, "the memory is shared again, or not"
        readings[7] = 7
        copied.data[12] = -6
        assert tail.data[2] == -6 and type(tail) is np.ma.MaskedArray
        copied.data[12] = 12
        assert valid[60_000] is np.ma.masked is constant and valid.fill_value == -1
        assert hidden.compressed().tolist() == [15, 16, 17, 18, 19, 20]
        assert units["x"][0] is np.ma.masked and units["n"][0] == 1
        assert type(checked) is Checked and checked.note == "by hand" and checked.hardmask
        assert checked.sum() == 4 and _loaded.names["valid"].size < 2_100_000
        """,
    ),
    Case(
        "memory_mapped",
        "mapped window private",
        """
        import numpy as np
        np.arange(20_000.0).tofile("private.dat")
        private = np.memmap("private.dat", dtype="f8", mode="c")
        private[0] = 77  # in memory only
        mapped = np.memmap("array.dat", dtype="f8", mode="w+", shape=(50_000,))
        mapped[:] = 3.0
        window = mapped[10:20]
        """,
        """
        import numpy as np
        assert type(mapped) is np.memmap and mapped[0] == 3.0
        assert _loaded.names["mapped"].size < 5_000, "the file holds the data"
        mapped[12] = 4.0
        assert window[2] == 4.0
        mapped.flush()
        assert np.fromfile("array.dat")[12] == 4.0
        mapped[12] = 3.0
        assert type(private) is np.memmap and private[0] == 77 and private[7] == 7
        assert np.fromfile("private.dat")[0] == 0
        """,
    ),
    Case(
        "pandas_frames",
        "frame series column categories indexed multi sparse nullable grouped strings copy_of",
        """
        import numpy as np, pandas as pd
        frame = pd.DataFrame({"x": np.arange(100_000.0), "y": range(100_000)})
        frame.attrs["source"] = {"file": "a.csv"}
        series = pd.Series([1, 2, None], dtype="Int64", name="s")
        column = frame["x"]
        categories = pd.Series(pd.Categorical(["a", "b", "a"], categories=["b", "a"], ordered=True))
        indexed = frame.head(5).set_index(pd.date_range("2024-01-01", periods=5, tz="UTC"))
        multi = frame.head(4).set_index(pd.MultiIndex.from_product([["p", "q"], [1, 2]]))
        sparse = pd.arrays.SparseArray([0, 0, 1])
        nullable = pd.array([True, None], dtype="boolean")
        grouped = frame.head(10).groupby(frame.index[:10] % 2)
        strings = pd.DataFrame({"name": [f"name {i}" for i in range(20_000)]})
        copy_of = frame.copy()
        """,
        """
        import pandas as pd
        assert frame.attrs == {"source": {"file": "a.csv"}} and frame["y"].sum() == 4999950000
        assert series.dtype == "Int64" and series.isna().sum() == 1 and series.name == "s"
        assert column.equals(frame["x"]) and categories.cat.ordered
        assert categories.cat.categories.tolist() == ["b", "a"] and categories.max() == "a"
        assert str(indexed.index.tz) == "UTC" and indexed.index.freq is not None
        assert multi.loc[("q", 2), "x"] == 3.0 and sparse.density == 1 / 3
        assert nullable[1] is pd.NA and grouped["x"].sum().tolist() == [20.0, 25.0]
        assert strings["name"].iloc[19_999] == "name 19999"
        frame.loc[0, "x"] = -1.0
        assert frame.loc[0, "x"] == -1.0 and copy_of.loc[0, "x"] == 0.0
        frame.loc[0, "x"] = 0.0
        """,
    ),
    Case(
        "arrow",
        "table small_slice array chunked",
        """
        import pyarrow as pa
        _whole = pa.array(range(2_000_000))
        small_slice = _whole.slice(1_000_000, 10)
        _table = pa.table({"a": range(500_000), "b": [str(i) for i in range(500_000)]})
        table = _table.slice(400_000, 10)
        array = pa.array(["x", None, "z"])
        chunked = pa.chunked_array([[1, 2], [3]])
        del _whole, _table
        """,
        """
        assert small_slice.to_pylist()[0] == 1_000_000 and len(small_slice) == 10
        assert _loaded.names["small_slice"].size < 50_000, _loaded.names["small_slice"]
        assert table["b"].to_pylist()[0] == "400000" and table.num_rows == 10
        assert _loaded.names["table"].size < 100_000, _loaded.names["table"]
        assert array.to_pylist() == ["x", None, "z"] and chunked.to_pylist() == [1, 2, 3]
        """,
    ),
    Case(
        "polars",
        "pl_whole pl_part pl_text pl_column pl_ordered pl_pieces pl_few pl_plain",
        """
        import datetime, polars as pl
        _n, _day = 20_000, datetime.datetime(2024, 1, 1)
        pl_whole = pl.DataFrame({
            "number": [n / 7 for n in range(_n)],
            "flag": [True, None] * (_n // 2),
            "text": [f"a text that is long enough, number {n}" for n in range(_n)],
            "gaps": [None, "something"] * (_n // 2),
            "bytes": [b"some bytes"] * _n,
            "when": [_day + datetime.timedelta(hours=n) for n in range(_n)],
            "kind": pl.Series(["a", "b"] * (_n // 2), dtype=pl.Categorical),
            "lists": [[n, n + 1] for n in range(_n)],
        })
        pl_part, pl_text = pl_whole[5:-5], pl_whole[100:15_000]["text"]
        pl_column, pl_ordered = pl_whole["number"], pl_whole["text"].sort()
        pl_pieces = pl.concat([pl_whole, pl_whole])
        pl_few = pl_whole["text"][[1, 2, 3]]
        pl_plain = pl.DataFrame({"a": [1, 2]})
        """,
        """
        assert pl_whole.shape == (20_000, 8) and pl_whole["when"].dtype.time_unit == "us"
        assert pl_whole["text"][7] == "a text that is long enough, number 7"
        assert pl_whole["kind"].to_list()[:2] == ["a", "b"] and pl_whole["gaps"][0] is None
        assert pl_whole["lists"][9].to_list() == [9, 10]
        assert pl_part.equals(pl_whole[5:-5])
        assert pl_text[0].endswith(" 100") and len(pl_text) == 14_900
        assert pl_ordered.flags["SORTED_ASC"] and pl_ordered.equals(pl_whole["text"].sort())
        assert pl_pieces.height == 40_000 and pl_pieces.n_chunks() == 2
        assert pl_few.to_list()[2].endswith(" 3") and pl_plain.sum().row(0) == (3,)
        assert _loaded.names["pl_few"].size < 10_000, _loaded.names["pl_few"]
        pl_whole[0, "number"] = -1.0
        assert pl_whole[0, "number"] == -1.0 and pl_column[0] == 0.0
        pl_whole[0, "number"] = 0.0
        """,
    ),
    Case(
        "figures",
        "figure axes line",
        """
        import matplotlib
        matplotlib.use("agg")
        import matplotlib.pyplot as plt
        figure, axes = plt.subplots()
        line, = axes.plot([1, 2, 3], label="l")
        """,
        """
        import io
        import matplotlib.pyplot as plt
        assert figure.axes[0] is axes and axes.lines[0] is line and line.figure is figure
        line.set_ydata([3, 2, 1]); axes.set_title("again")
        target = io.BytesIO()
        figure.savefig(target)
        assert target.getvalue().startswith(b"\\x89PNG")
        assert figure.number in plt.get_fignums()
        assert plt.figure(figure.number) is figure
        """,
    ),
]


@pytest.mark.parametrize("where", ["hot", "cold"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_behaviour(restored: CasesInKernels, case: Case, where: str) -> None:
    restored.check(case, where)
