"""What a notebook's namespace is made of survives, hot and cold."""

from __future__ import annotations

import pytest

from .kernels import Case, CasesInKernels

CASES = [
    Case(
        "circular_references",
        "ring head tail registry",
        """
        class Node:
            def __init__(self, value):
                self.value, self.next = value, None
        ring = []
        ring.append(ring)
        head, tail = Node(1), Node(2)
        head.next, tail.next = tail, head
        registry = {"head": head}
        registry["self"] = registry
        """,
        """
        assert ring[0] is ring and len(ring) == 1
        assert head.next is tail and tail.next is head and head.next.next is head
        assert registry["head"] is head and registry["self"] is registry
        assert type(head) is Node and isinstance(tail, Node)
        """,
    ),
    Case(
        "dynamically_created_classes",
        "Point Shape Circle Square Tracked circle made",
        """
        import abc
        class Tracked(type):
            created = []
            def __new__(mcls, name, bases, body):
                cls = super().__new__(mcls, name, bases, body)
                mcls.created.append(name)
                return cls
        class Shape(abc.ABC):
            kinds = {}
            def __init_subclass__(cls, **kwargs):
                super().__init_subclass__(**kwargs)
                Shape.kinds[cls.__name__] = cls
            @abc.abstractmethod
            def area(self): ...
        class Circle(Shape):
            def __init__(self, r): self.r = r
            def area(self): return 3 * self.r ** 2
            @property
            def diameter(self): return 2 * self.r
            @classmethod
            def unit(cls): return cls(1)
            @staticmethod
            def name(): return "circle"
        Square = type("Square", (Shape,), {"area": lambda self: 4, "sides": 4})
        Point = Tracked("Point", (), {"dims": 2, "norm": lambda self: self.dims})
        circle, made = Circle(2), [Circle.unit(), Square(), Point()]
        """,
        """
        assert Shape.kinds == {"Circle": Circle, "Square": Square}, Shape.kinds
        assert Tracked.created == ["Point"] and type(Point) is Tracked
        assert type(circle) is Circle and circle.area() == 12 and circle.diameter == 4
        assert isinstance(made[0], Circle) and isinstance(made[1], Square) and made[2].norm() == 2
        assert Circle.unit().r == 1 and Circle.name() == "circle" and Square.sides == 4
        assert issubclass(Circle, Shape) and Circle.__mro__[1] is Shape
        try:
            Shape()
        except TypeError as error:
            assert "abstract" in str(error)
        else:
            raise AssertionError("an abstract class could be instantiated")
        class Triangle(Shape):
            def area(self): return 1
        assert Shape.kinds.pop("Triangle") is Triangle
        """,
    ),
    Case(
        "closures_and_lambdas",
        "increment reset current double compose handlers default_list factor scaled",
        """
        def make_counter():
            count = 0
            def increment(by=1):
                nonlocal count
                count += by
                return count
            def reset():
                nonlocal count
                count = 0
            def current():
                return count
            return increment, reset, current
        increment, reset, current = make_counter()
        increment(); increment(5)
        double = lambda x: 2 * x
        compose = lambda f, g: (lambda x: f(g(x)))
        handlers = {"double": double, "quad": compose(double, double)}
        def default_list(item, into=[]):
            into.append(item)
            return into
        default_list(1)
        factor = 10
        scaled = lambda x, *, by=3: x * by * factor
        """,
        """
        assert current() == 6 and increment() == 7 and current() == 7
        reset()
        assert current() == 0 and increment(6) == 6
        assert handlers["double"] is double and handlers["quad"](3) == 12
        assert default_list(2) == [1, 2] and default_list.__defaults__[0] == [1, 2]
        default_list.__defaults__[0].pop()
        assert scaled(1) == 30
        factor = 20
        assert scaled(1) == 60, "a function must see the live namespace"
        factor = 10
        """,
    ),
    Case(
        "nested_functions",
        "outer power square cached decorated later is_even is_odd calls bump fib "
        "fetch loaded ran large",
        """
        import functools
        calls = 0
        def bump():
            global calls
            calls += 1
            return calls
        def outer(x):
            def middle(y):
                def inner(z):
                    return x + y + z
                return inner
            return middle
        def power(n):
            def raise_it(x):
                return x ** n
            return raise_it
        square = power(2)
        @functools.lru_cache(maxsize=32)
        def cached(n):
            return n if n < 2 else cached(n - 1) + cached(n - 2)
        def logged(function):
            @functools.wraps(function)
            def wrapper(*args):
                wrapper.count += 1
                return function(*args)
            wrapper.count = 0
            return wrapper
        @logged
        def decorated(a, b):
            "adds"
            return a + b
        decorated(1, 2)
        def later(x): return defined_below(x)
        def defined_below(x): return x + 1
        def is_even(n): return True if n == 0 else is_odd(n - 1)
        def is_odd(n): return False if n == 0 else is_even(n - 1)
        fib = cached
        cached(10)
        ran, loaded = [], {"table": [1]}
        @functools.lru_cache(maxsize=2, typed=True)
        def fetch(name, *, times=1):
            ran.append(name)
            return loaded if name == "shared" else {"rows": [name] * times}
        @functools.cache
        def large(n): return bytes(n)
        for _name in ("dropped", "shared", 2.0): fetch(_name, times=2)
        fetch("shared", times=2); large(2_000_000)
        ran.clear()
        """,
        """
        before = calls
        assert bump() == before + 1 == calls
        assert outer(1)(2)(3) == 6 and square(7) == 49 and power(3)(2) == 8
        assert fetch("shared", times=2) is loaded and fetch(2.0, times=2) == {"rows": [2.0, 2.0]}
        assert ran == [] and fetch.cache_info().currsize == 2, "from the cache"
        fetch(2, times=2); fetch("shared", times=2)
        assert ran == [2, "shared"], "the one used least went, types are told apart"
        fetch.cache_clear(); fetch("shared", times=2); fetch(2.0, times=2); ran.clear()
        assert cached.cache_info().currsize == 11 and cached.__wrapped__.__name__ == "cached"
        assert "starts empty" in _loaded.names["large"].reason and len(large(3)) == 3
        large.cache_clear()
        assert cached(20) == 6765 and fib is cached and cached.cache_info().maxsize == 32
        assert decorated(2, 3) == 5 and decorated.count == 2 and decorated.__doc__ == "adds"
        decorated.count = 1
        assert decorated.__wrapped__(1, 1) == 2
        assert later(1) == 2 and is_even(10) and is_odd(7)
        assert bump.__globals__ is globals()
        """,
    ),
    Case(
        "module_references",
        "np np2 osp made_up sub json_dumps Counter greet",
        """
        import sys, types, json
        import numpy as np
        import os.path as osp
        from collections import Counter
        np2 = np
        sub = np.linalg
        json_dumps = json.dumps
        made_up = types.ModuleType("made_up", "made at run time")
        exec("value = 41\\ndef answer():\\n    return value + 1", vars(made_up))
        greet = made_up.answer
        """,
        """
        import sys
        assert np is sys.modules["numpy"] and np2 is np and sub is np.linalg
        assert osp is sys.modules["os.path"] and json_dumps({"a": 1}) == '{"a": 1}'
        assert Counter("aab")["a"] == 2
        assert made_up.answer() == 42 and made_up.__doc__ == "made at run time"
        made_up.value = 1
        assert made_up.answer() == 2, "its functions must see the module"
        made_up.value = 41
        assert greet is made_up.answer
        """,
    ),
    Case(
        "large_numpy_arrays",
        "big view column transposed fortran small frozen broadcast records dates words alias",
        """
        import numpy as np
        big = np.arange(2_000_000, dtype=np.float64).reshape(1000, 2000)
        alias = big
        view = big[10:20, ::2]
        column = big[:, 3]
        transposed = big.T
        fortran = np.asfortranarray(big[:500] + 1)
        small = np.arange(10)
        frozen = np.arange(100_000)
        frozen.flags.writeable = False
        broadcast = np.broadcast_to(np.arange(3.0), (200_000, 3))
        records = np.zeros(50_000, dtype=[("x", "f8"), ("name", "U8")])
        records["x"][7] = 1.5
        dates = np.arange("2020-01-01", "2320-01-01", dtype="datetime64[D]")
        words = np.array([f"word {i}" for i in range(30_000)], dtype=object)
        """,
        """
        import numpy as np
        assert big.shape == (1000, 2000) and big[999, 1999] == 1_999_999 and alias is big
        assert np.shares_memory(big, view) and np.shares_memory(big, column)
        assert np.shares_memory(big, transposed) and transposed.shape == (2000, 1000)
        before = big[10, 0]
        big[10, 0] = -5
        assert view[0, 0] == -5 and column[0] == big[0, 3] and transposed[0, 10] == -5
        big[10, 0] = before
        assert fortran.flags.f_contiguous and not fortran.flags.c_contiguous
        assert fortran[3, 4] == big[3, 4] + 1
        assert small.flags.owndata and small.sum() == 45
        small.resize(20, refcheck=False)
        small.resize(10, refcheck=False)
        assert not frozen.flags.writeable and frozen[99_999] == 99_999
        assert broadcast.strides[0] == 0 and broadcast[-1].tolist() == [0, 1, 2]
        assert _loaded.names["broadcast"].size < 10_000
        assert records["x"][7] == 1.5 and records.dtype.names == ("x", "name")
        assert dates[0] == np.datetime64("2020-01-01") and len(dates) > 100_000
        assert words[29_999] == "word 29999" and type(words[0]) is str and words.dtype == object
        """,
    ),
]


@pytest.mark.parametrize("where", ["hot", "cold"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_roundtrip(restored: CasesInKernels, case: Case, where: str) -> None:
    restored.check(case, where)


def test_hot_restore_keeps_live_objects(restored: CasesInKernels) -> None:
    """Nothing has changed since: every object stays the very same, generators go on."""
    restored.hot.run(
        f"""
        running = (i for i in range(3)); next(running)
        untouched, mutable = object(), [1]
        _before = dict(untouched=untouched, mutable=mutable, running=running, big=big)
        _state.save({restored.snapshot + "-kept"!r}, key=_key, verify="off")
        mutable.append(2)
        del untouched
        _report = _state.load({restored.snapshot + "-kept"!r}, key=_key, mode="hot")
        assert running is _before["running"] and next(running) == 1
        assert big is _before["big"] and _report.names["big"].action == "kept"
        assert mutable == [1, 2] and _report.names["mutable"].action == "kept"
        assert "changed since" in _report.names["mutable"].reason
        assert _report.names["untouched"].action == "loaded" and untouched is not None
        _report = _state.load({restored.snapshot + "-kept"!r}, key=_key, overwrite=True)
        assert mutable == [1] and running is _before["running"]
        """
    )
