"""The facts of a traceback are read off it, as IPython and Python write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_ext.models.offline.tracebacks import parse

RULE = "-" * 75

KEY_ERROR = f"""\
{RULE}
KeyError                                  Traceback (most recent call last)
File /env/lib/pandas/core/indexes/base.py:3816, in Index.get_loc(self, key)
   3815 try:
-> 3816     return self._engine.get_loc(casted_key)
   3817 except KeyError as err:

KeyError: 'wieght'

The above exception was the direct cause of the following exception:

KeyError                                  Traceback (most recent call last)
Cell In[2], line 2
      1 y = 2
----> 2 df['wieght']

File /env/lib/pandas/core/frame.py:4330, in DataFrame.__getitem__(self, key)
   4328             if self.columns.nlevels > 1:
-> 4330             indexer = self.columns.get_loc(key)
   4331             if is_integer(indexer):

KeyError: 'wieght'"""

IN_A_FUNCTION = f"""\
{RULE}
ZeroDivisionError                         Traceback (most recent call last)
Cell In[7], line 3
      1 def f(a):
      2     return a/0
----> 3 f(1)

Cell In[7], line 2, in f(a)
      1 def f(a):
----> 2     return a/0

ZeroDivisionError: division by zero"""

SYNTAX = """\
  Cell In[4], line 1
    x = = 2
        ^
SyntaxError: invalid syntax
"""

COLOURED = (
    "\x1b[31mNameError\x1b[39m                                 Traceback (most recent call last)\n"
    "\x1b[36mCell\x1b[39m\x1b[36m \x1b[39m\x1b[32mIn[3]\x1b[39m\x1b[32m, line 1\x1b[39m\n"
    "\x1b[32m----> \x1b[39m\x1b[32m1\x1b[39m prnt(x)\n\n"
    "\x1b[31mNameError\x1b[39m: name 'prnt' is not defined"
)

PLAIN = """\
Traceback (most recent call last):
  File "/home/me/run.py", line 12, in <module>
    main()
  File "/home/me/run.py", line 8, in main
    open("no.csv")
FileNotFoundError: [Errno 2] No such file or directory: 'no.csv'"""


def test_a_key_error_in_a_library() -> None:
    found = parse(KEY_ERROR)

    assert found is not None
    assert (found.type, found.message) == ("KeyError", "'wieght'")
    assert (found.cell, found.line, found.code) == (2, 2, "df['wieght']")
    assert found.subject == "wieght"
    assert found.raised_in == "/env/lib/pandas/core/frame.py:4330"


def test_the_innermost_line_of_the_users_own_code_counts() -> None:
    found = parse(IN_A_FUNCTION)

    assert found is not None
    assert (found.cell, found.line, found.code) == (7, 2, "return a/0")
    assert found.raised_in == ""
    assert found.subject == ""


def test_a_syntax_error() -> None:
    found = parse(SYNTAX)

    assert found is not None
    assert (found.type, found.cell, found.line, found.code) == ("SyntaxError", 4, 1, "x = = 2")


def test_colours_are_ignored() -> None:
    found = parse(COLOURED)

    assert found is not None
    assert (found.cell, found.line, found.code) == (3, 1, "prnt(x)")
    assert found.subject == "prnt"


def test_pythons_own_traceback() -> None:
    found = parse(PLAIN)

    assert found is not None
    assert found.type == "FileNotFoundError"
    assert found.subject == "no.csv"
    assert found.raised_in == "/home/me/run.py:8"


@pytest.mark.parametrize(
    ("line", "subject", "owner"),
    [
        ("ModuleNotFoundError: No module named 'sklearn'", "sklearn", ""),
        ("ImportError: cannot import name 'foo' from 'bar' (/x/bar.py)", "foo", ""),
        ("AttributeError: 'DataFrame' object has no attribute 'wieght'", "wieght", "DataFrame"),
        ("AttributeError: module 'pandas' has no attribute 'read_cvs'", "read_cvs", "pandas"),
        ("KeyError: 'a b'", "a b", ""),
        ("UnboundLocalError: cannot access local variable 'n' where ...", "n", ""),
        ("pandas.errors.ParserError: Error tokenizing data", "", ""),
        ("KeyboardInterrupt:", "", ""),
        ("AssertionError", "", ""),
    ],
)
def test_what_it_is_about(line: str, subject: str, owner: str) -> None:
    found = parse(f'Traceback (most recent call last):\n  File "a.py", line 1\n{line}')

    assert found is not None
    assert (found.subject, found.owner) == (subject, owner)


@pytest.mark.parametrize("text", ["", "all is well", "x = 3", "Error rate: 0.3", "0 errors"])
def test_text_without_one(text: str) -> None:
    assert parse(text) is None


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    parse(text)
    parse(KEY_ERROR[:200] + text + KEY_ERROR[200:])
