"""Objects of the standard library that are written in C and do not support pickle."""

from __future__ import annotations

import pytest

from .kernels import Case, CasesInKernels

CASES = [
    Case(
        "readers_and_writers_of_csv",
        "written writer source reader rows named dialect",
        """
        import csv, io
        written, source = io.StringIO(), io.StringIO("a,b\\n1,2\\n3,4\\n")
        writer = csv.writer(written, delimiter=";", quoting=csv.QUOTE_ALL)
        writer.writerow([1, 2])
        reader = csv.reader(source)
        next(reader)
        rows = csv.DictReader(io.StringIO("a,b\\n1,2\\n3,4\\n"))
        next(rows)
        named = csv.DictWriter(written, ["x"])
        dialect = csv.get_dialect("excel-tab")
        """,
        """
        writer.writerow([3])
        assert written.getvalue() == '"1";"2"\\r\\n"3"\\r\\n', written.getvalue()
        named.writerow({"x": 4})
        assert written.getvalue().endswith("4\\r\\n")
        assert next(reader) == ["1", "2"] and source.read() == "3,4\\n"
        assert next(rows) == {"a": "3", "b": "4"}
        assert dialect.delimiter == "\\t"
        """,
    ),
    Case(
        "rows_of_sqlite",
        "base row",
        """
        import sqlite3
        base = sqlite3.connect(":memory:")
        base.row_factory = sqlite3.Row
        row = base.execute("select 1 as a, 'two' as [b, c]").fetchone()
        """,
        """
        assert row["A"] == 1 and row['b, c'] == "two" and row.keys() == ["a", 'b, c']
        assert isinstance(row, sqlite3.Row) and dict(row) == {"a": 1, 'b, c': "two"}
        """,
    ),
    Case(
        "keys_decoders_and_layouts",
        "direction backwards wrapped decoder layout",
        """
        import functools, json
        direction = -1
        backwards = functools.cmp_to_key(lambda one, other: direction * (one - other))
        wrapped = backwards(4)
        import struct
        layout = struct.Struct("<hd")
        decoder = json.JSONDecoder(object_hook=lambda found: sorted(found))
        """,
        """
        assert sorted([1, 3, 2], key=backwards) == [3, 2, 1] and wrapped < backwards(3)
        assert layout.unpack(layout.pack(1, 2.5)) == (1, 2.5)
        assert decoder.decode('[{"b": 1, "a": 2}]') == [["a", "b"]]
        """,
    ),
]


@pytest.mark.parametrize("where", ["hot", "cold"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_restored(case: Case, where: str, restored: CasesInKernels) -> None:
    restored.check(case, where)
