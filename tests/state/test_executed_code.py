"""Dictionaries in which code was executed: they hold all built-ins, and functions use them."""

from __future__ import annotations

import pytest

from .kernels import Case, CasesInKernels

CASES = [
    Case(
        "dictionaries",
        "names counter ran",
        """
        import pathlib, runpy
        names = {}
        exec("n = 1\\ndef count():\\n    global n\\n    n += 1\\n    return n", names)
        counter = names["count"]
        pathlib.Path("script.py").write_text("n = 4\\ndef get(): return n\\n")
        ran = runpy.run_path("script.py")
        """,
        """
        import builtins
        before = names["n"]
        assert counter() == before + 1 == names["n"] and names["count"] is counter
        assert ran["n"] == ran["get"]() == 4
        assert names["__builtins__"] is ran["__builtins__"] is vars(builtins)
        """,
    ),
    Case(
        "held by objects",
        "Box box apart bump reversed_",
        """
        class Box:
            def __init__(self, text):
                self.names = {}
                exec(text, self.names)
        text = "x = 1\\ndef bump():\\n    global x\\n    x += 1\\n    return x"
        box, apart = Box(text), Box(text)
        bump = apart.names["bump"]
        other = Box(text)
        reversed_ = [other.names["bump"], other.names]
        """,
        """
        for function, names in ((box.names["bump"], box.names), (bump, apart.names), reversed_):
            before = names["x"]
            assert function() == before + 1 == names["x"] and names["bump"] is function
        assert box.names is not apart.names and type(box) is Box
        """,
    ),
]


@pytest.mark.parametrize("where", ["hot", "cold"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_roundtrip(restored: CasesInKernels, case: Case, where: str) -> None:
    restored.check(case, where)
