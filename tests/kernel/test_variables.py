"""Looking at variables: right, bounded, and without side effects."""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING, Any

import pytest

from prime_ext.errors import PrimeError
from tests.kernel.conftest import leave, occupy, text_of, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.kernel.notebook_kernels import NotebookKernels

DATA = """
import numpy as np
import pandas as pd
prices = pd.DataFrame({
    "price": [1.5, 2.5, None, 4.0],
    "name": ["a", "b", "b", None],
    "sold": pd.array([1, 2, None, 4], dtype="Int64"),
})
total = prices["price"]
matrix = np.arange(12.0).reshape(3, 4)
options = {"depth": 3, "names": ["x", "y"]}
answer = 42
def area(width, height=2):
    "Area of a rectangle."
    return width * height
class Box:
    def __init__(self):
        self.side = 3
    @property
    def volume(self):
        global computed
        computed = True
        return self.side ** 3
box = Box()
import enum
class Color(enum.Enum):
    RED = 1
color = Color.RED
import collections
point = collections.namedtuple("Point", "x y")(3, 4)
class Seat:
    __slots__ = ["row"]
seat = Seat()
seat.row = 4
"""


async def define(kernel: NotebookKernel, code: str) -> None:
    run = await kernel.execute(code, store_history=True)
    assert run.status == "ok", run.error


async def refusal(kernel: NotebookKernel, name: str, expression: str | None = None) -> PrimeError:
    with pytest.raises(PrimeError) as raised:
        await kernel.inspect(name, expression)
    return raised.value


async def test_list(kernel: NotebookKernel) -> None:
    await define(kernel, DATA)
    found = {entry["name"]: entry for entry in await kernel.variables()}
    assert list(found) == [
        *("np", "pd", "prices", "total", "matrix", "options", "answer", "area", "Box", "box"),
        *("enum", "Color", "color", "collections", "point", "Seat", "seat"),
    ]
    assert found["prices"]["type"] == "pandas.DataFrame"
    assert found["prices"]["shape"] == "(4, 3)"
    assert found["prices"]["size"] > 0
    assert found["matrix"] == {
        "name": "matrix",
        "type": "numpy.ndarray",
        "kind": "data",
        "repr": "<numpy.ndarray (3, 4) float64>",
        "shape": "(3, 4)",
        "size": 96,
    }
    assert found["options"]["repr"] == "{'depth': 3, 'names': ['x', 'y']}"
    assert found["answer"]["repr"] == "42"
    assert found["area"]["kind"] == "function"
    assert found["Box"]["kind"] == "class"
    assert found["np"]["kind"] == "module"


# One kernel serves all cases of a table; starting one for each would take a minute.
LOOKS: list[tuple[str, str | None, list[str]]] = [
    ("prices", None, ["pandas.DataFrame, shape (4, 3)", "'price': float64, 1 missing", "mean"]),
    ("prices", "prices['price']", ["pandas.Series", "missing values: 1"]),
    ("prices", "prices[prices['price'] > 2].shape", ["(2, 3)"]),
    ("prices", "prices.groupby('name')['price'].mean()", ["pandas.Series", "1.5"]),
    ("prices", "prices['name'].value_counts()", ["b"]),
    ("prices", "prices.groupby('name').agg({'price': ['mean', 'max']})", ["shape (2, 2)"]),
    ("prices", "prices.groupby('name').agg(top=('price', 'max'))", ["'top'"]),
    ("prices", "prices.sort_values('price', ascending=False).head(1)['price'].item()", ["4.0"]),
    ("prices", "prices['name'].str.replace('a', 'z').to_list()", ["'z'"]),
    ("prices", "prices['name'].str.contains('^a|c').sum()", ["1"]),
    ("prices", "prices['name'].str.contains('a+', regex=False).sum()", ["0"]),
    ("matrix", "matrix.astype(int)[2, 3]", ["11"]),
    ("matrix", "matrix.astype(np.float32).dtype", ["float32"]),
    ("options", "sorted(options['names'], reverse=True)", ["['y', 'x']"]),
    ("total", None, ["name: 'price'", "RangeIndex"]),
    ("matrix", None, ["dtype: float64", "min 0, mean 5.5, max 11"]),
    ("matrix", "matrix[1, 2:4]", ["shape (2,)", "[6. 7.]"]),
    ("options", "options['names'][1]", ["str, length 1", "y"]),
    ("options", "len(options)", ["2"]),
    ("area", None, ["area(width, height=2)", "return width * height"]),
    ("Box", None, ["class Box(object)", "self.side ** 3"]),
    ("box", None, ["side = 3"]),
    ("box", "box.side", ["3"]),
    ("Color", None, ["class Color(Enum)", "RED = <Color.RED: 1>"]),
    ("color", None, ["Color", "<Color.RED: 1>"]),
    ("point", "point.x", ["int", "3"]),
    ("seat", "seat.row", ["int", "4"]),
    ("np", None, ["module numpy, version"]),
    ("np", "np.pi", ["3.14"]),
]


async def test_inspect(kernel: NotebookKernel) -> None:
    await define(kernel, DATA)
    for name, expression, contains in LOOKS:
        answer = await kernel.inspect(name, expression)
        for part in contains:
            assert part in answer["text"], (name, expression)


REFUSED: list[tuple[str, str | None, str]] = [
    ("prise", None, "variable_not_found"),
    ("box", "box.volume", "expression_refused"),
    ("options", "options.pop('depth')", "expression_refused"),
    ("options", "options.update(depth=1)", "expression_refused"),
    ("prices", "prices.dropna(inplace=True)", "expression_refused"),
    ("prices", "prices.apply(area)", "expression_refused"),
    ("prices", "(prices := 3)", "expression_refused"),
    ("prices", "[x for x in prices]", "expression_refused"),
    ("prices", "__import__('os').getpid()", "expression_refused"),
    ("prices", "prices.__class__", "expression_refused"),
    ("area", "area(3)", "expression_refused"),
    # Whatever can be called is not called, however it is handed on.
    ("options", "max(['touch mark'], key=os.system)", "expression_refused"),
    ("options", "sorted(['touch mark'], key=os.system)", "expression_refused"),
    ("prices", "prices.agg('to_csv', 0, 'mark')", "expression_refused"),
    ("prices", "prices.agg('insert', 0, 0, 'new', 1)", "expression_refused"),
    ("prices", "prices.agg('eval')", "expression_refused"),
    ("prices", "prices['price'].agg([area])", "expression_refused"),
    ("prices", "prices.agg({'price': area})", "expression_refused"),
    ("prices", "prices[area]", "expression_refused"),
    ("prices", "prices.loc[[0], area]", "expression_refused"),
    ("prices", "prices.pivot_table('price', 'name', None, 'to_csv')", "expression_refused"),
    ("prices", "prices.pivot_table('price', 'name', aggfunc='to_csv')", "expression_refused"),
    ("prices", "prices.drop_duplicates('name', 'first', True)", "expression_refused"),
    ("prices", "prices['name'].str.contains('(a+)+$')", "expression_refused"),
    ("prices", "prices.replace({'name': {'(a+)+$': 'b'}}, regex=True)", "expression_refused"),
    ("prices", "prices.filter(regex='(a+)+$')", "expression_refused"),
    ("matrix", "matrix.sum(0, None, matrix[0])", "expression_refused"),
    ("file", "file.replace('mark')", "expression_refused"),
    ("Path", "Path.replace('data', 'mark')", "expression_refused"),
    ("Order", "Order.get(1)", "expression_refused"),
    ("Order", "Order[1]", "expression_refused"),
    ("numbers", "sum(numbers)", "expression_refused"),
    ("numbers", "1 in numbers", "expression_refused"),
    ("orders", "str(orders)", "expression_refused"),
    ("orders", "'%s' % orders", "expression_refused"),
    ("orders", "orders == orders", "expression_refused"),
    # What is looked up, counted or put into a dict is hashed and compared.
    ("order", "{order: 1}", "expression_refused"),
    ("order", "{(1, order): 1}", "expression_refused"),
    ("order", "{1: 2}[order]", "expression_refused"),
    ("order", "options.get(order)", "expression_refused"),
    ("order", "{order}", "expression_refused"),
    ("order", "f'{order}'", "expression_refused"),
    ("order", "-order", "expression_refused"),
    ("order", "not order", "expression_refused"),
    ("order", "order[0]", "expression_refused"),
    ("order", "len(order)", "expression_refused"),
    ("order", "list(order)", "expression_refused"),
    ("order", "matrix[order]", "expression_refused"),
    ("order", "order if order else 1", "expression_refused"),
    ("order", "order and 1", "expression_refused"),
    ("by_order", "by_order['a']", "expression_refused"),
    ("by_order", "by_order.get('a')", "expression_refused"),
    ("queue", "1 in queue", "expression_refused"),
    ("queue", "queue == queue", "expression_refused"),
    ("by_order", "max(by_order.values())", "expression_refused"),
    ("by_order", "1 in by_order.values()", "expression_refused"),
    ("chain", "chain['a']", "expression_refused"),
    ("proxy", "proxy['a']", "expression_refused"),
    ("failure", "str(failure)", "expression_refused"),
    ("prices", "prices.mine", "expression_refused"),
    ("options", "[0] * 3_000_000_000", "expression_refused"),
    ("matrix", "long[:, None] * long", "expression_refused"),
    ("np", "np.random.rand(3)", "expression_refused"),
    ("prices", "prices[", "expression_refused"),
    ("prices", "prices['nothing']", "expression_failed"),
    ("prices", "missing.shape", "expression_failed"),
]


ACTING = """
import os
from pathlib import Path
file = Path("data")
class Order:
    @classmethod
    def get(cls, key): global computed; computed = True
    def __class_getitem__(cls, key): global computed; computed = True
    def __repr__(self): global computed; computed = True; return "order"
    def __eq__(self, other): global computed; computed = True; return True
    def __str__(self): global computed; computed = True; return "order"
    def __hash__(self): global computed; computed = True; return hash("a")
    def __len__(self): global computed; computed = True; return 1
    def __iter__(self): global computed; computed = True; return iter(())
    def __bool__(self): global computed; computed = True; return True
    def __index__(self): global computed; computed = True; return 0
    def __format__(self, how): global computed; computed = True; return "order"
    def __neg__(self): global computed; computed = True; return 1
    def __add__(self, other): global computed; computed = True; return 1
    __radd__ = __lt__ = __gt__ = __add__
    @property
    def __class__(self): global computed; computed = True; return int
class Rows(dict):
    def __getitem__(self, key): global computed; computed = True; return 1
import collections, types
order = Order()
orders = [order]
by_order = {order: order}
queue = collections.deque(orders)
chain = collections.ChainMap(Rows(a=1))
proxy = types.MappingProxyType(Rows(a=1))
failure = ValueError(order)
def mine(frame): global computed; computed = True
pd.DataFrame.mine = property(mine)
del computed
numbers = iter(range(3))
long = np.zeros(100_000)
"""


async def test_what_is_refused_changes_nothing(kernel: NotebookKernel) -> None:
    await define(kernel, DATA)
    await define(kernel, ACTING)
    for name, expression, code in REFUSED:
        error = await refusal(kernel, name, expression)
        assert error.code == code, (name, expression)
        assert error.message, (name, expression)
    check = await kernel.execute(
        "sorted(options), prices.shape, float(matrix[0].sum()), 'computed' in dir(), next(numbers),"
        " os.path.exists('mark')",
        store_history=False,
    )
    assert text_of(check.outputs) == "(['depth', 'names'], (4, 3), 6.0, False, 0, False)"


UNUSUAL = """
import pandas as pd
touched = []
class Kind(type):
    def __eq__(cls, other): touched.append("eq"); return True
    def __hash__(cls): touched.append("hash"); return 1
    def __getattribute__(cls, name): touched.append(name); return type.__getattribute__(cls, name)
class Ticket(metaclass=Kind):
    def __init__(self): self.seat = 3
    def __repr__(self): return "a ticket"
class Stamp:
    def __repr__(self): return "a stamp"
    def __str__(self): touched.append("str"); return "a stamp"
    def __len__(self): touched.append("len"); return 1
    def __iter__(self): touched.append("iter"); return iter("a")
    def __hash__(self): touched.append("hash"); return 1
    def __eq__(self, other): touched.append("eq"); return True
class Lazy(type(pd)):
    def __getattribute__(self, name): touched.append(name); return super().__getattribute__(name)
ticket, lazy = Ticket(), Lazy("lazy")
table = pd.DataFrame({"stamp": [Stamp(), Stamp()], "price": [1, 2], "text": ["x", None]})
column = table["stamp"]
touched.clear()
"""


async def test_a_repr_is_all_of_the_users_that_runs(kernel: NotebookKernel) -> None:
    await define(kernel, UNUSUAL)
    listed = {entry["name"]: entry["repr"] for entry in await kernel.variables()}
    assert listed["ticket"] == "a ticket"
    assert listed["Ticket"] == "<class Ticket>"
    assert listed["lazy"] == "<module lazy>"
    for name, expected in [
        ("ticket", "seat = 3"),
        ("Ticket", "class Ticket(object)"),
        ("lazy", "module lazy"),
        ("table", "a stamp"),
        ("column", "a stamp"),
    ]:
        assert expected in (await kernel.inspect(name))["text"]
    assert (await kernel.inspect("ticket", "ticket.seat"))["text"] == "int\n3"
    assert "a stamp" in (await kernel.inspect("table", "table['stamp']"))["text"]
    seen = await kernel.execute("touched", store_history=False)
    assert text_of(seen.outputs) == "[]"


async def test_a_name_that_is_nearly_right_is_suggested(kernel: NotebookKernel) -> None:
    await define(kernel, DATA)
    assert "Did you mean prices" in (await refusal(kernel, "price")).message


HOSTILE = """
import sys, collections
class Raises:
    def __repr__(self): raise ValueError("no")
class Exits:
    def __repr__(self): sys.exit(1)
class Hangs:
    def __repr__(self):
        while True: pass
class Huge:
    def __repr__(self): return "x" * 10_000_000
class NotText:
    def __repr__(self): return 3
class Lying:
    @property
    def __class__(self): global touched; touched = True; raise RuntimeError("no")
    @property
    def shape(self): global touched; touched = True; return (1,)
    def __getattr__(self, name): global touched; touched = True; raise RuntimeError("no")
    def __len__(self): global touched; touched = True; return 3
import pandas
class Framed(pandas.DataFrame):
    @property
    def shape(self): global touched; touched = True; return (1, 1)
class Listed(list):
    def __len__(self): global touched; touched = True; return 3
    def __iter__(self): global touched; touched = True; return iter(())
framed, listed = Framed({"a": [1]}), Listed([1])
raises, exits, hangs, huge, not_text, lying = Raises(), Exits(), Hangs(), Huge(), NotText(), Lying()
loop = []; loop.append(loop)
deep = []
for _ in range(5000): deep = [deep]
many = list(range(1_000_000))
wide = {i: i for i in range(1_000_000)}
number = 10 ** 100_000
counts = collections.defaultdict(int, a=1)
"""


async def test_hostile_objects_are_listed_and_left_alone(kernel: NotebookKernel) -> None:
    await define(kernel, HOSTILE)
    found = {entry["name"]: entry for entry in await kernel.variables()}
    assert found["raises"]["repr"] == "<Raises: its repr raised ValueError>"
    assert found["exits"]["repr"] == "<Exits: its repr raised SystemExit>"
    assert found["hangs"]["repr"] == "<Hangs: its repr takes too long>"
    assert found["not_text"]["repr"] == "<NotText: its repr raised TypeError>"
    assert found["number"]["repr"] == "<int of 332193 bits>"
    assert found["many"]["repr"] == "[0, 1, 2, 3, 4, 5, … 999994 more]"
    assert found["loop"]["repr"] == "[[[…]]]"
    assert found["lying"]["repr"] == "<Lying object>"
    assert found["framed"]["type"] == "Framed"
    assert all(len(entry["repr"]) <= 120 for entry in found.values())
    for name in found:
        answer = await kernel.inspect(name)
        assert len(answer["text"]) <= 20_000
    assert "touched" not in {entry["name"] for entry in await kernel.variables()}
    error = await refusal(kernel, "counts", "counts['b']")
    assert error.code == "expression_failed"
    check = await kernel.execute("len(counts)", store_history=False)
    assert text_of(check.outputs) == "1"


async def test_text_that_no_message_can_carry(kernel: NotebookKernel) -> None:
    await define(
        kernel,
        "half = '\\ud800 lone'\nclass Odd:\n    def __repr__(self): return half\nodd = Odd()",
    )
    assert "lone" in (await kernel.inspect("half"))["text"]
    assert [entry["name"] for entry in await kernel.variables()] == ["half", "Odd", "odd"]


async def test_a_repr_that_exits_inside_of_a_frame(kernel: NotebookKernel) -> None:
    await define(
        kernel,
        "import pandas, sys\nclass Exits:\n    def __repr__(self): sys.exit('x')\n"
        "frame = pandas.DataFrame({'o': [Exits()]})",
    )
    assert "pandas.DataFrame, shape (1, 1)" in (await kernel.inspect("frame"))["text"]


async def test_a_pipeline_is_fitted_if_its_steps_are(kernel: NotebookKernel) -> None:
    pytest.importorskip("sklearn")
    await define(
        kernel,
        "from sklearn.pipeline import make_pipeline\n"
        "from sklearn.preprocessing import StandardScaler\n"
        "raw = make_pipeline(StandardScaler())\n"
        "done = make_pipeline(StandardScaler()).fit([[1.0], [2.0]])",
    )
    assert "not fitted" in (await kernel.inspect("raw"))["text"]
    assert "not fitted" not in (await kernel.inspect("done"))["text"]


async def test_a_repr_that_hung_is_stopped(kernel: NotebookKernel) -> None:
    await define(kernel, HOSTILE)
    await kernel.variables()
    run = await kernel.execute(
        "import threading, time\n"
        "deadline = time.time() + 10\n"
        "while time.time() < deadline and any(\n"
        "    t.name == 'prime_request' for t in threading.enumerate()):\n"
        "    time.sleep(0.05)\n"
        "any(t.name == 'prime_request' for t in threading.enumerate())",
        store_history=False,
    )
    assert text_of(run.outputs) == "False"


async def test_figures_are_drawn_without_pyplot_noticing(kernel: NotebookKernel) -> None:
    await define(
        kernel,
        "%config InlineBackend.close_figures = False\n"
        "import matplotlib.pyplot as plt\n"
        "figure, axes = plt.subplots()\naxes.plot([1, 2, 3]); axes.set_title('Sales')\n"
        "other = plt.figure()\n"
        "before = (plt.get_fignums(), plt.gcf().number, type(figure.canvas), figure.dpi,"
        " figure.stale, id(figure.canvas))",
    )
    answer = await kernel.inspect("figure")
    assert base64.b64decode(answer["image"]["data"]).startswith(b"\x89PNG")
    assert "title 'Sales'" in answer["text"]
    assert (await kernel.inspect("axes"))["image"] == answer["image"]
    run = await kernel.execute(
        "before == (plt.get_fignums(), plt.gcf().number, type(figure.canvas), figure.dpi,"
        " figure.stale, id(figure.canvas))",
        store_history=False,
    )
    assert run.outputs[0]["data"] == {"text/plain": "True"}


async def test_pictures_are_shown_bounded(kernel: NotebookKernel) -> None:
    await define(kernel, "from PIL import Image\npicture = Image.new('RGB', (5000, 100), 'red')")
    answer = await kernel.inspect("picture")
    data = base64.b64decode(answer["image"]["data"])
    width = int.from_bytes(data[16:20], "big")
    assert width == 1568


async def test_variables_answer_while_a_cell_runs(
    kernel: NotebookKernel, jp_serverapp: Any, tmp_path: Path
) -> None:
    await define(kernel, DATA)
    kernel_id = await kernel.ensure()
    client = await occupy(jp_serverapp, kernel_id, "import time\ntime.sleep(600)")
    await until(lambda: kernel.state == "busy")
    assert "prices" in {entry["name"] for entry in await kernel.variables()}
    assert "price" in (await kernel.inspect("prices"))["text"]
    assert kernel.state == "busy"
    await kernel.interrupt()
    await leave(client)


WITHOUT_SUBSHELLS = """
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import launch_new_instance
full = IPythonKernel.kernel_info
IPythonKernel.kernel_info = property(lambda kernel: {**full.fget(kernel), "supported_features": []})
launch_new_instance()
"""


async def test_a_busy_kernel_without_subshells_says_so_and_answers_later(
    kernels: NotebookKernels,
    make_notebook: Callable[..., str],
    install_kernelspec: Callable[..., str],
    jp_serverapp: Any,
    tmp_path: Path,
) -> None:
    """As ipykernel before 7."""
    argv = [sys.executable, "-c", WITHOUT_SUBSHELLS, "-f", "{connection_file}"]
    kernel = kernels.for_notebook(make_notebook(kernel=install_kernelspec("older", argv)))
    go = tmp_path / "go"
    wait = (
        f"import os, time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.01)\nmade = 1"
    )
    client = await occupy(jp_serverapp, await kernel.ensure(), wait)
    await until(lambda: kernel.state == "busy")
    with pytest.raises(PrimeError, match="cannot be asked before that ends") as raised:
        await kernel.variables()
    assert raised.value.code == "kernel_busy"
    go.touch()
    await until(lambda: kernel.state == "idle")
    assert "made" in {entry["name"] for entry in await kernel.variables()}
    await leave(client)
