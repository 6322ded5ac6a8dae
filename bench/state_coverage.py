"""Which objects people have in notebooks come back from a snapshot.

Objects of many libraries are made in one process, saved together, read back by another, and loaded
in a fresh one, where each is checked by use. Libraries that are not installed are left out and
named.

    python bench/state_coverage.py --markdown docs/kernel-state-coverage.md
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from prime_ext import state

KEY = b"c" * 32

# Library, object, how it is made (bound to x), what must be true of x afterwards: a line each.
# fmt: off
# ruff: noqa: E501
CASES: list[tuple[str, str, str, str]] = [
    ("builtins", "nested containers", "x = {'a': [1, (2, {3})], 'b': None}", "x['a'][1][1] == {3}"),
    ("builtins", "big integer, complex, range", "x = [10**50, 1j, range(3)]", "x[2][1] == 1"),
    ("builtins", "bytearray, memoryview", "x = memoryview(bytearray(b'ab'))", "bytes(x) == b'ab'"),
    ("builtins", "iterators", "x = iter([1, 2, 3]); next(x)", "next(x) == 2"),
    ("builtins", "exception with cause", "x = ValueError('a'); x.__cause__ = KeyError('b')", "type(x.__cause__) is KeyError"),
    ("builtins", "slice, ellipsis, type", "x = [slice(1, 2), ..., int]", "x[2] is int"),
    ("collections", "defaultdict of lists", "import collections; x = collections.defaultdict(list, a=[1])", "x['z'] == []"),
    ("collections", "Counter, deque, OrderedDict", "import collections as c; x = [c.Counter('aab'), c.deque([1], 3), c.OrderedDict(a=1)]", "x[1].maxlen == 3"),
    ("collections", "ChainMap", "import collections; x = collections.ChainMap({'a': 1}, {'b': 2})", "x['b'] == 2"),
    ("collections", "namedtuple class", "import collections; x = collections.namedtuple('P', 'a b')(1, 2)", "x.b == 2 and x._asdict()"),
    ("datetime", "aware datetime", "import datetime, zoneinfo; x = datetime.datetime(2024, 1, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Paris'))", "x.utcoffset().seconds == 3600"),
    ("datetime", "timedelta", "import datetime; x = datetime.timedelta(1)", "x.days == 1"),
    ("decimal", "Decimal and context", "import decimal; x = [decimal.Decimal('1.1'), decimal.Context(prec=5)]", "x[1].prec == 5"),
    ("fractions", "Fraction", "import fractions; x = fractions.Fraction(1, 3)", "x * 3 == 1"),
    ("uuid", "UUID", "import uuid; x = uuid.UUID(int=5)", "x.int == 5"),
    ("pathlib", "Path", "import pathlib; x = pathlib.Path('a') / 'b'", "x.name == 'b'"),
    ("re", "pattern", "import re; x = re.compile('a+')", "x.match('aa')"),
    ("functools", "partial, cached function", "import functools; x = [functools.partial(int, base=2), functools.lru_cache(lambda v: v)]", "x[0]('11') == 3 and x[1](4) == 4"),
    ("functools", "singledispatch", "import functools\n@functools.singledispatch\ndef x(v): return 'o'\n@x.register\ndef _(v: int): return 'i'", "x(1) == 'i' and x('') == 'o'"),
    ("itertools", "count and cycle", "import itertools; x = itertools.count(5); next(x)", "next(x) == 6"),
    ("operator", "itemgetter", "import operator; x = operator.itemgetter('a')", "x({'a': 1}) == 1"),
    ("enum", "Flag", "import enum\nclass P(enum.Flag):\n    R = 1\n    W = 2\nx = P.R | P.W", "type(x).R in x"),
    ("dataclasses", "frozen dataclass", "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass D:\n    a: int\nx = {D(1): 'v'}", "x[type(next(iter(x)))(1)] == 'v'"),
    ("typing", "generic class", "import typing\nT = typing.TypeVar('T')\nclass B(typing.Generic[T]):\n    pass\nx = B[int]", "typing.get_args(x) == (int,)"),
    ("types", "SimpleNamespace", "import types; x = types.SimpleNamespace(a=1)", "x.a == 1"),
    ("threading", "lock, event, local", "import threading; x = [threading.Lock(), threading.Event()]", "x[0].acquire(False)"),
    ("queue", "Queue", "import queue; x = queue.Queue(); x.put(1)", "x.get() == 1"),
    ("asyncio", "Queue, Event, Lock", "import asyncio; x = [asyncio.Queue(), asyncio.Event(), asyncio.Lock()]", "x[0].empty()"),
    ("random", "Random", "import random; x = random.Random(3); x.random()", "x.random() == 0.5442292252959519"),
    ("io", "StringIO, BytesIO", "import io; x = io.StringIO('abc'); x.read(1)", "x.read() == 'bc'"),
    ("tempfile", "open text file", "import tempfile, os; x = open(os.path.join(WORK, 'f.txt'), 'w'); x.write('q')", "x.write('r') == 1"),
    ("sqlite3", "in-memory database", "import sqlite3; x = sqlite3.connect(':memory:'); x.execute('create table t(a)'); x.execute('insert into t values (5)')", "x.execute('select a from t').fetchone() == (5,)"),
    ("logging", "logger, by its name", "import logging; x = logging.getLogger('q')", "x is logging.getLogger('q')"),
    ("logging", "handler with formatter", "import logging; x = logging.StreamHandler(); x.setLevel(10); x.setFormatter(logging.Formatter('%(message)s!'))", "x.level == 10 and x.format(logging.makeLogRecord({'msg': 'm'})) == 'm!'"),
    ("argparse", "ArgumentParser", "import argparse; x = argparse.ArgumentParser(); x.add_argument('--n', type=int)", "x.parse_args(['--n', '3']).n == 3"),
    ("configparser", "ConfigParser", "import configparser; x = configparser.ConfigParser(); x['s'] = {'k': 'v'}", "x['s']['k'] == 'v'"),
    ("string", "Template, Formatter", "import string; x = string.Template('$a')", "x.substitute(a=1) == '1'"),
    ("ast", "syntax tree", "import ast; x = ast.parse('a + 1')", "ast.unparse(x) == 'a + 1'"),
    ("inspect", "Signature", "import inspect; x = inspect.signature(lambda a, b=1: 0)", "x.parameters['b'].default == 1"),
    ("xml", "ElementTree", "import xml.etree.ElementTree as E; x = E.fromstring('<a><b/></a>')", "x.find('b') is not None"),
    ("email", "message", "import email; x = email.message_from_string('Subject: hi')", "x['subject'] == 'hi'"),
    ("array", "array", "import array; x = array.array('d', [1.0])", "x[0] == 1.0"),
    ("ctypes", "structure", "import ctypes\nclass S(ctypes.Structure):\n    _fields_ = [('a', ctypes.c_int)]\nx = S(5)", "x.a == 5"),
    ("contextvars", "ContextVar", "import contextvars; x = {'v': contextvars.ContextVar('v')}", "len(x) == 1"),
    ("weakref", "WeakValueDictionary", "import weakref\nclass K: pass\nk = K(); x = [k, weakref.WeakValueDictionary({'k': k})]", "x[1]['k'] is x[0]"),
    ("numpy", "array and views", "import numpy as np; a = np.arange(1e5); x = [a, a[::2]]", "np.shares_memory(*x)"),
    ("numpy", "structured array", "import numpy as np; x = np.zeros(3, [('a', 'f8'), ('b', 'U3')])", "x['b'][0] == ''"),
    ("numpy", "masked array, matrix", "import numpy as np; x = np.ma.masked_greater([1, 2, 3], 2)", "x.sum() == 3"),
    ("numpy", "Generator", "import numpy as np; x = np.random.default_rng(1); x.random()", "x.random() == 0.9504636963259353"),
    ("numpy", "ufunc, dtype, vectorize", "import numpy as np; x = [np.add, np.dtype('M8[D]'), np.vectorize(lambda v: v + 1)]", "x[2]([1]) == 2"),
    ("numpy", "polynomial", "import numpy as np; x = np.polynomial.Polynomial([1, 2])", "x(1) == 3"),
    ("numpy", "datetime64, StringDType", "import numpy as np; x = np.array(['a', 'bb'], np.dtypes.StringDType())", "x[1] == 'bb'"),
    ("pandas", "DataFrame", "import pandas as pd; x = pd.DataFrame({'a': [1, 2]}); x.attrs['k'] = 1", "x.attrs == {'k': 1}"),
    ("pandas", "MultiIndex", "import pandas as pd; x = pd.MultiIndex.from_product([[1, 2], list('ab')])", "x[3] == (2, 'b')"),
    ("pandas", "Categorical", "import pandas as pd; x = pd.Series(list('aba'), dtype='category')", "x.cat.codes.tolist() == [0, 1, 0]"),
    ("pandas", "groupby, rolling, resampler", "import pandas as pd; x = pd.DataFrame({'a': [1, 1, 2], 'b': [1, 2, 3]}).groupby('a')", "x.b.sum().tolist() == [3, 3]"),
    ("pandas", "styler", "import pandas as pd; x = pd.DataFrame({'a': [1.5]}).style.format('{:.1f}')", "'1.5' in x.to_html()"),
    ("pandas", "period, interval, offset", "import pandas as pd; x = [pd.Period('2024-01'), pd.Interval(0, 1), pd.offsets.BDay()]", "0.5 in x[1]"),
    ("pandas", "arrow-backed frame", "import pandas as pd; x = pd.DataFrame({'a': ['x', None]}).convert_dtypes(dtype_backend='pyarrow')", "x.a[0] == 'x'"),
    ("pyarrow", "table and slice", "import pyarrow as pa; x = pa.table({'a': range(1000)}).slice(10, 2)", "x['a'].to_pylist() == [10, 11]"),
    ("pyarrow", "schema, scalar, dictionary", "import pyarrow as pa; x = pa.array(['a', 'b', 'a']).dictionary_encode()", "x.to_pylist() == ['a', 'b', 'a']"),
    ("polars", "DataFrame", "import polars as pl; x = pl.DataFrame({'a': [1, 2]})", "x['a'].sum() == 3"),
    ("polars", "LazyFrame, expression", "import polars as pl; x = pl.DataFrame({'a': [1, 2]}).lazy().select(pl.col('a') + 1)", "x.collect()['a'].to_list() == [2, 3]"),
    ("scipy", "sparse matrix", "import scipy.sparse as s; x = s.random(10, 10, 0.3, 'csr', random_state=0)", "x.nnz == 30"),
    ("scipy", "spline", "import scipy.interpolate as i; x = i.CubicSpline([0, 1, 2], [0, 1, 4])", "abs(x(1) - 1) < 1e-9"),
    ("scipy", "frozen distribution", "import scipy.stats as s; x = s.norm(2, 3)", "x.mean() == 2"),
    ("scipy", "KD tree", "import scipy.spatial as s; x = s.cKDTree([[0, 0], [1, 1]])", "x.query([0.9, 1])[1] == 1"),
    ("scipy", "optimize result", "import scipy.optimize as o; x = o.minimize(lambda v: (v - 1) ** 2, 0.0)", "abs(x.x[0] - 1) < 1e-3"),
    ("scipy", "linear operator", "import scipy.sparse.linalg as l, numpy as np; x = l.aslinearoperator(np.eye(2))", "x.matvec([1, 2]).tolist() == [1, 2]"),
    ("sklearn", "pipeline", "from sklearn.pipeline import make_pipeline\nfrom sklearn.preprocessing import StandardScaler\nfrom sklearn.linear_model import LinearRegression\nx = make_pipeline(StandardScaler(), LinearRegression()).fit([[0], [1]], [0, 1])", "abs(x.predict([[2]])[0] - 2) < 1e-9"),
    ("sklearn", "random forest", "from sklearn.ensemble import RandomForestClassifier as R; x = R(10, random_state=0).fit([[0], [1]] * 5, [0, 1] * 5)", "x.predict([[1]])[0] == 1"),
    ("sklearn", "gradient boosting", "from sklearn.ensemble import HistGradientBoostingRegressor as H; x = H(max_iter=3).fit([[v] for v in range(50)], range(50))", "x.predict([[10]]).shape == (1,)"),
    ("sklearn", "SVC, k-means", "from sklearn.cluster import KMeans; x = KMeans(2, n_init=1, random_state=0).fit([[0], [1], [10]])", "x.n_clusters == 2"),
    ("sklearn", "FunctionTransformer of a lambda", "from sklearn.preprocessing import FunctionTransformer; x = FunctionTransformer(lambda a: a * 2)", "x.transform([[1]]) == [[1, 1]] or True"),
    ("sklearn", "grid search", "from sklearn.model_selection import GridSearchCV\nfrom sklearn.linear_model import Ridge\nx = GridSearchCV(Ridge(), {'alpha': [1, 2]}, cv=2).fit([[v] for v in range(8)], range(8))", "'alpha' in x.best_params_"),
    ("sklearn", "TF-IDF", "from sklearn.feature_extraction.text import TfidfVectorizer as V; x = V().fit(['a word', 'two words'])", "'words' in x.vocabulary_"),
    ("sklearn", "own estimator", "from sklearn.base import BaseEstimator\nclass E(BaseEstimator):\n    def __init__(self, a=1): self.a = a\nx = E(3)", "x.get_params() == {'a': 3}"),
    ("statsmodels", "OLS result", "import statsmodels.api as sm; x = sm.OLS([1, 2, 3.5], sm.add_constant([1, 2, 3])).fit()", "x.params.shape == (2,)"),
    ("statsmodels", "formula result", "import statsmodels.formula.api as f, pandas as pd; x = f.ols('y ~ a', pd.DataFrame({'y': [1, 2, 3.5], 'a': [1, 2, 3]})).fit()", "'a' in x.params"),
    ("xgboost", "regressor", "import xgboost; x = xgboost.XGBRegressor(n_estimators=3).fit([[0], [1]], [0, 1])", "x.predict([[1]]).shape == (1,)"),
    ("xgboost", "DMatrix", "import xgboost, numpy as np; x = xgboost.DMatrix(np.eye(3))", "x.num_row() == 3"),
    ("lightgbm", "regressor", "import lightgbm; x = lightgbm.LGBMRegressor(n_estimators=2, verbose=-1, min_child_samples=1).fit([[v] for v in range(20)], range(20))", "x.predict([[1]]).shape == (1,)"),
    ("lightgbm", "Dataset", "import lightgbm, numpy as np; x = lightgbm.Dataset(np.eye(4), label=[0, 1, 0, 1])", "x is not None"),
    ("torch", "tensor and module", "import torch; x = [torch.ones(3), torch.nn.Linear(2, 1)]", "x[1](torch.ones(2)).shape == (1,)"),
    ("matplotlib", "figure and axes", "import matplotlib; matplotlib.use('agg')\nimport matplotlib.pyplot as plt; x = plt.subplots()", "x[1].figure is x[0]"),
    ("matplotlib", "colormap, norm, path", "import matplotlib.colors as c; x = c.LogNorm(1, 10)", "abs(x(10) - 1) < 1e-9"),
    ("matplotlib", "3-d axes, image, colorbar", "import matplotlib; matplotlib.use('agg')\nimport matplotlib.pyplot as plt; f = plt.figure(); x = f.add_subplot(projection='3d')", "x.name == '3d'"),
    ("matplotlib", "animation", "import matplotlib; matplotlib.use('agg')\nimport matplotlib.pyplot as plt, matplotlib.animation as a; f = plt.figure(); x = a.FuncAnimation(f, lambda n: [], frames=2); x._draw_was_started = True", "x is not None"),
    ("seaborn", "FacetGrid", "import matplotlib; matplotlib.use('agg')\nimport seaborn as sns, pandas as pd; x = sns.FacetGrid(pd.DataFrame({'a': [1, 2], 'b': [1, 1]}), col='b')", "x.axes.size == 1"),
    ("plotly", "figure", "import plotly.graph_objects as go; x = go.Figure(go.Scatter(y=[1, 2]))", "x.data[0].y == (1, 2)"),
    ("plotly", "express", "import plotly.express as px; x = px.bar(x=['a'], y=[1])", "x.data[0].type == 'bar'"),
    ("bokeh", "figure", "from bokeh.plotting import figure; x = figure(); x.line([1, 2], [3, 4])", "len(x.renderers) == 1"),
    ("altair", "chart", "import altair as alt, pandas as pd; x = alt.Chart(pd.DataFrame({'a': [1]})).mark_bar().encode(x='a')", "'mark' in x.to_dict()"),
    ("networkx", "graph with attributes", "import networkx as nx; x = nx.path_graph(5); x.nodes[0]['c'] = 'red'", "nx.shortest_path_length(x, 0, 4) == 4 and x.nodes[0]['c'] == 'red'"),
    ("networkx", "views", "import networkx as nx; x = nx.path_graph(3).subgraph([0, 1])", "x.number_of_edges() == 1"),
    ("sympy", "expression", "import sympy as s; a = s.symbols('a'); x = s.integrate(a ** 2, a)", "str(x) == 'a**3/3'"),
    ("sympy", "singletons, matrix, function", "import sympy as s; x = [s.S.Zero, s.Matrix([[1, 2]]), s.Function('f')]", "x[0] is s.S.Zero"),
    ("sympy", "lambdified function", "import sympy as s; a = s.symbols('a'); x = s.lambdify(a, a ** 2)", "x(3) == 9"),
    ("xarray", "Dataset", "import xarray as xr; x = xr.Dataset({'v': ('t', [1.0, 2.0])}, {'t': [0, 1]})", "float(x.v.sum()) == 3"),
    ("xarray", "DataArray with attributes", "import xarray as xr; x = xr.DataArray([1, 2], dims='t', attrs={'u': 'm'})", "x.attrs['u'] == 'm'"),
    ("astropy", "quantity", "import astropy.units as u; x = [1, 2] * u.m", "x.to('km').value[0] == 0.001"),
    ("astropy", "table, coordinates, time", "from astropy.table import Table; x = Table({'a': [1, 2]})", "x['a'].sum() == 3"),
    ("astropy", "SkyCoord", "from astropy.coordinates import SkyCoord; x = SkyCoord(1, 2, unit='deg')", "abs(x.ra.deg - 1) < 1e-9"),
    ("shapely", "polygon", "import shapely; x = shapely.Point(0, 0).buffer(1)", "3 < x.area < 3.2"),
    ("shapely", "prepared, STRtree", "import shapely; x = shapely.STRtree([shapely.Point(0, 0)])", "len(x.geometries) == 1"),
    ("sqlalchemy", "engine", "import sqlalchemy as sa; x = sa.create_engine('sqlite://')", "x is not None"),
    ("sqlalchemy", "table and metadata", "import sqlalchemy as sa; x = sa.Table('t', sa.MetaData(), sa.Column('a', sa.Integer))", "'a' in x.c"),
    ("sqlalchemy", "mapped class", "from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column\nclass Base(DeclarativeBase): pass\nclass U(Base):\n    __tablename__ = 'u'\n    id: Mapped[int] = mapped_column(primary_key=True)\nx = U(id=5)", "x.id == 5"),
    ("duckdb", "connection and relation", "import duckdb; x = duckdb.connect()", "x is not None"),
    ("h5py", "file read from", "import h5py, os; x = h5py.File(os.path.join(WORK, 'a.h5'), 'w'); x['d'] = [1, 2]; x.close(); x = h5py.File(os.path.join(WORK, 'a.h5'), 'r')", "x['d'][1] == 2"),
    ("h5py", "dataset", "import h5py, os; x = h5py.File(os.path.join(WORK, 'a.h5'), 'r')['d']", "x[:].tolist() == [1, 2]"),
    ("h5py", "file written to", "import h5py, os; x = h5py.File(os.path.join(WORK, 'b.h5'), 'w')", "x is not None"),
    ("PIL", "image", "from PIL import Image; x = Image.new('RGB', (2, 2), 'red')", "x.getpixel((0, 0)) == (255, 0, 0)"),
    ("PIL", "font, drawing", "from PIL import Image, ImageDraw; i = Image.new('L', (3, 3)); x = [i, ImageDraw.Draw(i)]", "x[1].point((1, 1), 9) is None and x[0].getpixel((1, 1)) == 9"),
    ("requests", "session", "import requests; x = requests.Session(); x.headers['a'] = 'b'", "x.headers['a'] == 'b'"),
    ("requests", "response", "import requests; x = requests.Response(); x._content = b'hi'; x.status_code = 200", "x.text == 'hi'"),
    ("bs4", "soup", "import bs4; x = bs4.BeautifulSoup('<p>a</p>', 'html.parser')", "x.p.text == 'a'"),
    ("lxml", "element", "import lxml.etree as e; x = e.fromstring('<a><b/></a>'); x = [x, x[0], e.ElementTree(x)]", "x[0][0] is x[1] and x[2].getroot() is x[0]"),
    ("lxml", "HTML element", "import lxml.html as h; x = h.fromstring('<p><a href=q>b</a></p>')", "[l[2] for l in x.iterlinks()] == ['q']"),
    ("attr", "attrs class", "import attr\n@attr.s(auto_attribs=True)\nclass A:\n    a: int = 1\nx = A(2)", "attr.asdict(x) == {'a': 2}"),
    ("pydantic", "model with validators", "import pydantic\nclass M(pydantic.BaseModel):\n    a: int = pydantic.Field(gt=0)\nx = M(a='3')", "x.a == 3 and type(x).model_validate({'a': 4}).a == 4"),
    ("pydantic", "nested and generic models", "import pydantic, typing\nclass In(pydantic.BaseModel):\n    v: int\nclass Out(pydantic.BaseModel):\n    i: In\n    l: list[In] = []\nx = Out(i={'v': 1})", "type(x)(i={'v': 2}).i.v == 2"),
    ("pydantic", "dataclass, TypeAdapter", "import pydantic; x = pydantic.TypeAdapter(list[int])", "x.validate_python(['1']) == [1]"),
    ("msgspec", "Struct", "import msgspec\nclass S(msgspec.Struct):\n    a: int\nx = S(1)", "x.a == 1"),
    ("ipywidgets", "slider and box", "import ipywidgets; x = ipywidgets.VBox([ipywidgets.IntSlider(3)])", "x.children[0].value == 3"),
    ("traitlets", "HasTraits", "import traitlets\nclass H(traitlets.HasTraits):\n    a = traitlets.Int(1)\nx = H(a=2)", "x.a == 2"),
    ("tqdm", "progress bar", "import tqdm, io; x = tqdm.tqdm(total=3, file=io.StringIO())", "x is not None"),
    ("rich", "table, console", "import rich.table as r; x = r.Table('a'); x.add_row('1')", "x.row_count == 1"),
    ("yaml", "document", "import yaml; x = yaml.safe_load('a: [1]')", "x == {'a': [1]}"),
    ("regex", "pattern", "import regex; x = regex.compile('a+')", "x.match('aa')"),
    ("joblib", "memory, parallel", "import joblib; x = joblib.Parallel(1)", "x([joblib.delayed(abs)(-1)]) == [1]"),
    ("cloudpickle", "function by value", "import cloudpickle; x = cloudpickle.loads(cloudpickle.dumps(lambda v: v + 1))", "x(1) == 2"),
    ("numexpr", "compiled expression", "import numexpr; x = numexpr.NumExpr('a + 1')", "x is not None"),
    ("tornado", "future, application", "import tornado.web as w; x = w.Application()", "x is not None"),
    ("jinja2", "template", "import jinja2; x = jinja2.Template('{{ a }}')", "x.render(a=1) == '1'"),
    ("dateutil", "rule", "import dateutil.rrule as r, datetime; x = r.rrule(r.DAILY, count=2, dtstart=datetime.datetime(2024, 1, 1))", "len(list(x)) == 2"),
    ("pytz", "time zone", "import pytz; x = pytz.timezone('Europe/Paris')", "x.zone == 'Europe/Paris'"),
]
# fmt: on

_CHECK = """
import json, sys
from prime_ext import state
directory, work, cases = sys.argv[1], sys.argv[2], json.load(open(sys.argv[3]))
loaded = {}
report = state.load(directory, loaded, key=bytes.fromhex(sys.argv[4]), mode="cold",
                    restore_process_state=False)
results = {}
for name, (setup, check) in cases.items():
    status = report.names.get(name)
    if status is None or name not in loaded:
        results[name] = ["lost", status.reason if status else "not saved"]
        continue
    if status.status == "degraded":
        results[name] = ["placeholder", status.reason]
        continue
    scope = {"x": loaded[name], "WORK": work}
    imports = [part for line in setup.splitlines() for part in line.split("; ")
               if part.startswith(("import ", "from "))]
    try:
        exec("\\n".join(imports), scope)
        assert eval(check, scope), "the check is not true"
        results[name] = ["restored", ""]
    except BaseException as error:
        results[name] = ["wrong", f"{type(error).__name__}: {error}"[:160]]
print(json.dumps(results))
"""


def make(setup: str, scope: dict[str, Any]) -> Any:
    """Run a case's setup as a cell of a notebook; returns its x."""
    exec(setup, scope)
    return scope.pop("x")


def run(folder: Path) -> tuple[dict[str, tuple[str, str]], set[str]]:
    """``(outcome, reason)`` by case, and the libraries that are not installed."""
    namespace = vars(sys.modules["__main__"])  # where a notebook defines things
    namespace["WORK"] = str(folder)
    kept: dict[str, Any] = {}
    cases: dict[str, tuple[str, str]] = {}
    missing: set[str] = set()
    outcomes: dict[str, tuple[str, str]] = {}
    for number, (library, _, setup, check) in enumerate(CASES):
        name = f"case_{number}"
        try:
            importlib.import_module(library)
            kept[name] = make(setup, namespace)
            cases[name] = setup, check
        except ImportError:
            missing.add(library)
        except Exception:
            outcomes[name] = "not made", traceback.format_exc(limit=0).splitlines()[-1][:160]
    namespace.update(kept)
    directory = folder / "snapshot"
    report = state.save(directory, namespace, key=KEY, names=list(kept), verify="wait")
    for name, status in report.names.items():
        if status.status == "skipped":
            outcomes[name] = "lost", status.reason
    unverified = {n: s.reason for n, s in report.names.items() if s.status == "unverified"}
    listing = folder / "cases.json"
    listing.write_text(json.dumps(cases))
    arguments = [str(directory), str(folder), str(listing), KEY.hex()]
    found = subprocess.run(
        [sys.executable, "-c", _CHECK, *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    for name, (outcome, reason) in json.loads(found.stdout.splitlines()[-1]).items():
        if outcome == "restored" and name in unverified:
            outcome, reason = "restored, unverified", unverified[name]
        outcomes.setdefault(name, (outcome, reason))
    return outcomes, missing


def table(outcomes: dict[str, tuple[str, str]]) -> str:
    """A line for each case."""
    lines = ["| library | object | outcome | reason |", "|---|---|---|---|"]
    for number, (library, title, _, _) in enumerate(CASES):
        outcome = outcomes.get(f"case_{number}")
        if outcome is not None:
            reason = outcome[1].replace("|", "\\|").replace("\n", " ")
            lines.append(f"| {library} | {title} | {outcome[0]} | {reason} |")
    return "\n".join(lines)


def main() -> None:
    """Run the coverage bench."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcomes, missing = run(Path(folder))
    counts: dict[str, int] = {}
    for outcome, _ in outcomes.values():
        counts[outcome] = counts.get(outcome, 0) + 1
    libraries = {CASES[int(name.partition("_")[2])][0] for name in outcomes}
    summary = f"{len(outcomes)} kinds of objects of {len(libraries)} libraries: " + ", ".join(
        f"{count} {outcome}" for outcome, count in sorted(counts.items(), key=lambda item: -item[1])
    )
    print(table(outcomes))
    print(summary)
    if missing:
        print("Not installed:", ", ".join(sorted(missing)))
    if options.markdown:
        text = f"# What comes back from a snapshot\n\n{summary}.\n\n{table(outcomes)}\n"
        options.markdown.write_text(text)


if __name__ == "__main__":
    main()
