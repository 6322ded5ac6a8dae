"""Classes people define in notebooks, and identity across names."""

from __future__ import annotations

import pytest

from .kernels import Case, CasesInKernels

CASES = [
    Case(
        "enums_and_flags",
        "Color Perm Planet Weekday red rw palette both_ints",
        """
        import enum
        class Color(enum.Enum):
            RED = 1
            GREEN = "g"
            CRIMSON = 1
            def shout(self): return self.name + "!"
        class Perm(enum.Flag):
            R = 4
            W = 2
            X = 1
        class Weekday(enum.IntEnum):
            MON = 1
            TUE = 2
        class Planet(enum.Enum):
            EARTH = (5.97e24, 6.37e6)
            def __init__(self, mass, radius):
                self.mass, self.radius = mass, radius
        red, rw = Color.RED, Perm.R | Perm.W
        palette = {Color.RED: "r", Color.GREEN: "g"}
        both_ints = [Weekday.TUE, Color.GREEN]
        """,
        """
        import enum
        assert red is Color.RED and Color(1) is red and Color["CRIMSON"] is red
        assert palette[Color.GREEN] == "g" and Color("g") is Color.GREEN
        assert list(Color) == [Color.RED, Color.GREEN] and Color.RED.shout() == "RED!"
        assert rw == Perm.R | Perm.W and Perm.R in rw and Perm.X not in rw and Perm(6) == rw
        assert both_ints[0] is Weekday.TUE and Weekday.TUE + 1 == 3 and int(Weekday.MON) == 1
        assert isinstance(red, Color) and issubclass(Color, enum.Enum)
        assert Planet.EARTH.mass == 5.97e24 and Planet((5.97e24, 6.37e6)) is Planet.EARTH
        assert repr(red) == "<Color.RED: 1>"
        """,
    ),
    Case(
        "typing_constructs",
        "T UserId Box IntBox box Named Drawable Movie pen",
        """
        import typing
        T = typing.TypeVar("T", bound=int)
        UserId = typing.NewType("UserId", int)
        class Box(typing.Generic[T]):
            def __init__(self, item: T): self.item = item
        IntBox = Box[int]
        box = Box(3)
        class Named(typing.NamedTuple):
            x: int
            y: str = "y"
        class Movie(typing.TypedDict):
            title: str
        @typing.runtime_checkable
        class Drawable(typing.Protocol):
            def draw(self) -> str: ...
        class Pen:
            def draw(self): return "line"
        pen = Pen()
        """,
        """
        import typing
        assert Box.__parameters__ == (T,) and T.__bound__ is int and UserId(3) == 3
        assert UserId.__supertype__ is int and IntBox(4).item == 4 and type(box) is Box
        assert typing.get_origin(IntBox) is Box
        assert Named(1) == (1, "y") and Named(1)._replace(x=2).x == 2 and len(Named._fields) == 2
        assert isinstance(pen, Drawable) and not isinstance(3, Drawable)
        assert typing.get_type_hints(Movie) == {"title": str}
        """,
    ),
    Case(
        "dataclasses_attrs_pydantic",
        "Item Frozen Measure Model item frozen measure model",
        """
        import dataclasses, attrs, pydantic, typing
        @dataclasses.dataclass
        class Item:
            name: str
            tags: list = dataclasses.field(default_factory=list)
        @dataclasses.dataclass(frozen=True, order=True)
        class Frozen:
            key: int
            label: str = ""
        @attrs.define
        class Measure:
            value: float
            unit: str = attrs.field(default="m", validator=attrs.validators.instance_of(str))
        class Model(pydantic.BaseModel):
            count: int
            names: list[str] = []
            @pydantic.field_validator("count")
            @classmethod
            def positive(cls, value):
                if value < 0: raise ValueError("negative")
                return value
        item, frozen = Item("a", ["t"]), {Frozen(1, "one"): "first"}
        measure, model = Measure(2.0), Model(count="3", names=["n"])
        """,
        """
        import dataclasses, attrs, pydantic
        assert [f.name for f in dataclasses.fields(Item)] == ["name", "tags"]
        assert item == Item("a", ["t"]) and dataclasses.replace(item, name="b").tags == ["t"]
        assert Item("z").tags == [] and Item("z").tags is not Item("z").tags
        assert frozen[Frozen(1, "one")] == "first" and Frozen(1) < Frozen(2)
        try:
            next(iter(frozen)).key = 3
        except dataclasses.FrozenInstanceError:
            pass
        else:
            raise AssertionError("not frozen any more")
        assert measure == Measure(2.0, "m") and attrs.fields(Measure).value.name == "value"
        try:
            Measure(1.0, 3)
        except TypeError:
            pass
        else:
            raise AssertionError("its validator is gone")
        assert model.count == 3 and model.model_dump() == {"count": 3, "names": ["n"]}
        assert Model.model_validate_json('{"count": 5}').count == 5 and type(model) is Model
        try:
            Model(count=-1)
        except pydantic.ValidationError:
            pass
        else:
            raise AssertionError("its validator is gone")
        assert model.model_copy(update={"count": 9}).count == 9
        """,
    ),
    Case(
        "super_slots_and_properties",
        "Base Child Slotted Both Guarded child slotted both guarded",
        """
        class Base:
            def __init__(self): self.steps = ["base"]
            def hello(self): return "base"
        class Child(Base):
            def __init__(self):
                super().__init__()
                self.steps.append("child")
            def hello(self): return super().hello() + "+child"
            def own(self): return __class__
        class Slotted:
            __slots__ = ("a", "__private", "unset")
            def __init__(self): self.a, self.__private = 1, 2
            def both(self): return self.a, self.__private
        class Both(Slotted):
            def __init__(self):
                super().__init__()
                self.extra = 3
        class Guarded:
            __slots__ = ("items",)
            def __init__(self, items): object.__setattr__(self, "items", items)
            def __setattr__(self, name, value): raise AttributeError("it cannot be changed")
        child, slotted, both, guarded = Child(), Slotted(), Both(), Guarded([1])
        """,
        """
        assert child.hello() == "base+child" and child.steps == ["base", "child"]
        assert child.own() is Child and Child().steps == ["base", "child"]
        assert slotted.both() == (1, 2) and not hasattr(slotted, "__dict__")
        assert not hasattr(slotted, "unset") and Slotted().both() == (1, 2)
        try:
            slotted.other = 1
        except AttributeError:
            pass
        else:
            raise AssertionError("its slots are gone")
        assert both.both() == (1, 2) and both.extra == 3
        assert guarded.items == [1]
        try:
            guarded.items = []
        except AttributeError as error:
            assert "cannot be changed" in str(error)
        """,
    ),
    Case(
        "identity_across_names",
        "shared left right MISSING uses_missing holder keys_view table proxy bound owner",
        """
        import types
        shared = [1, 2]
        left, right = {"s": shared}, (shared, "x")
        MISSING = object()
        def uses_missing(value=MISSING): return value is MISSING
        class Holder:
            def __init__(self, item): self.item = item
            def get(self): return self.item
        holder = Holder(shared)
        table = {"a": 1}
        keys_view, proxy = table.keys(), types.MappingProxyType(table)
        owner = Holder(5)
        bound = owner.get
        """,
        """
        assert left["s"] is shared and right[0] is shared and holder.item is shared
        shared.append(3)
        assert left["s"] == [1, 2, 3]
        shared.pop()
        assert uses_missing() and not uses_missing(1) and uses_missing(MISSING)
        table["b"] = 2
        assert list(keys_view) == ["a", "b"] and proxy["b"] == 2
        del table["b"]
        assert bound.__self__ is owner and bound() == 5
        """,
    ),
    Case(
        "redefined_class",
        "Thing old_thing new_thing",
        """
        class Thing:
            def version(self): return 1
        old_thing = Thing()
        class Thing:
            def version(self): return 2
        new_thing = Thing()
        """,
        """
        assert old_thing.version() == 1 and new_thing.version() == 2
        assert type(new_thing) is Thing and type(old_thing) is not Thing
        assert type(old_thing).__name__ == "Thing"
        """,
    ),
    Case(
        "registries",
        "Plugin PluginA Registry Auto hook_runs",
        """
        hook_runs = []
        class Plugin:
            known = []
            def __init_subclass__(cls, /, **kwargs):
                super().__init_subclass__(**kwargs)
                Plugin.known.append(cls)
                hook_runs.append(cls.__name__)
        class PluginA(Plugin): pass
        class Registry(type):
            members = {}
            def __init__(cls, name, bases, body):
                super().__init__(name, bases, body)
                Registry.members[name] = cls
                hook_runs.append(name)
        class Auto(metaclass=Registry): pass
        """,
        """
        assert hook_runs == ["PluginA", "Auto"], hook_runs
        assert Plugin.known == [PluginA] and Registry.members == {"Auto": Auto}
        class PluginB(Plugin): pass
        assert Plugin.known.pop() is PluginB and hook_runs.pop() == "PluginB"
        """,
    ),
    Case(
        "awkward_instances",
        "Delegate NeedsArgs Picky Failure delegate needs picky failure os_failure self_set keyed "
        "unpacks unpacks_plain",
        """
        class Delegate:
            def __init__(self, inner): self._inner = inner
            def __getattr__(self, name): return getattr(self._inner, name)
        class NeedsArgs:
            def __new__(cls, size):
                self = super().__new__(cls)
                self.size = size
                return self
        class Picky(str):
            def __new__(cls, text, *, loud): return super().__new__(cls, text.upper())
            def __init__(self, text, *, loud): self.loud = loud
        class Failure(Exception):
            def __init__(self, code, *, detail):
                super().__init__(f"code {code}")
                self.code, self.detail = code, detail
        class Hashed:
            def __init__(self, name): self.name, self.peers = name, set()
            def __hash__(self): return hash(self.name)
            def __eq__(self, other): return self.name == other.name
        class Unpacks:
            __slots__ = ("x", "__dict__")
            def __init__(self, x): self.x, self.y = x, [x]
            def __hash__(self): return 3
            def __setstate__(self, state): self.y, self.x = state[0]["y"], state[1]["x"]
        class UnpacksPlain:
            def __init__(self): self.z = [1]
            def __hash__(self): return 4
            def __setstate__(self, state): self.z = state["z"]
        unpacks, unpacks_plain = Unpacks(2), {UnpacksPlain()}
        delegate, needs = Delegate([1, 2, 3]), NeedsArgs(7)
        picky, failure = Picky("quiet", loud=True), Failure(3, detail="d")
        os_failure = FileNotFoundError(2, "No such file", "x.txt")
        self_set = Hashed("me")
        self_set.peers.add(self_set)
        keyed = {self_set: 1, Hashed("other"): 2}
        """,
        """
        assert unpacks.x == 2 and unpacks.y == [2] and next(iter(unpacks_plain)).z == [1]
        assert delegate.count(2) == 1 and delegate._inner == [1, 2, 3]
        assert needs.size == 7 and NeedsArgs(1).size == 1
        assert picky == "QUIET" and picky.loud and type(picky) is Picky
        assert failure.code == 3 and failure.detail == "d" and failure.args == ("code 3",)
        try:
            raise failure
        except Failure as caught:
            assert caught is failure
        assert os_failure.filename == "x.txt" and os_failure.errno == 2
        assert self_set in self_set.peers and next(iter(self_set.peers)) is self_set
        assert keyed[self_set] == 1 and sorted(keyed.values()) == [1, 2]
        """,
    ),
    Case(
        "weak_references",
        "target ref dead cache weak_keys weak_set parent Tree weak_method dead_method finalizer",
        """
        import weakref
        class Tree:
            def count(self): return len(self.children)
            def __init__(self, parent=None):
                self.children = []
                self._parent = None
                if parent is not None:
                    parent.children.append(self)
                    self._parent = weakref.ref(parent)
        target = Tree()
        ref = weakref.ref(target)
        dead = weakref.ref(Tree())
        cache = weakref.WeakValueDictionary({"t": target})
        weak_keys = weakref.WeakKeyDictionary({target: "data"})
        weak_set = weakref.WeakSet([target])
        parent = Tree()
        Tree(parent)
        weak_method = weakref.WeakMethod(parent.count)
        dead_method = weakref.WeakMethod(Tree().count)
        finalizer = weakref.finalize(target, print, "gone")
        """,
        """
        import gc
        gc.collect()
        assert ref() is target and dead() is None
        assert cache["t"] is target and weak_keys[target] == "data" and target in weak_set
        assert parent.children[0]._parent() is parent
        assert weak_method()() == 1 and weak_method().__self__ is parent and dead_method() is None
        from weakref import WeakValueDictionary
        assert type(cache) is WeakValueDictionary
        """,
    ),
    Case(
        "deep_structures",
        "Link linked nested",
        """
        class Link:
            def __init__(self, n, rest): self.n, self.rest = n, rest
        linked = None
        for n in range(10_000):
            linked = Link(n, linked)
        nested = []
        for _ in range(3_000):
            nested = [nested]
        """,
        """
        length, node = 0, linked
        while node is not None:
            length, node = length + 1, node.rest
        assert length == 10_000
        depth, node = 0, nested
        while node:
            depth, node = depth + 1, node[0]
        assert depth == 3_000
        """,
    ),
    Case(
        "parametrised_models",
        "Content Cover Crate Packed boxed covered crate",
        """
        import typing, pydantic
        Content = typing.TypeVar("Content")
        Cover = typing.TypeVar("Cover")
        class Packed(pydantic.BaseModel):
            n: int
        class Crate(pydantic.BaseModel, typing.Generic[Content, Cover]):
            content: Content
            cover: Cover
        boxed = Crate[Packed, str](content=Packed(n=1), cover="c")
        covered = Crate[list[Packed], Crate[Packed, str]](content=[boxed.content], cover=boxed)
        crate = Crate[int, int]
        """,
        """
        assert type(boxed) is Crate[Packed, str] and isinstance(boxed, Crate[Packed, str])
        assert type(covered) is Crate[list[Packed], Crate[Packed, str]] and Crate[int, int] is crate
        assert covered.cover is boxed and covered.content[0] is boxed.content
        """,
    ),
    Case(
        "what_moves_on",
        "ids registry Numbered ordered ordered_keys ordered_items left_over places same_place",
        """
        import collections, itertools, pathlib
        ids = itertools.count(5)
        class Numbered:
            ids = ids
            def __init__(self): self.id = next(self.ids)
        registry = {"ids": ids}
        left_over = [itertools.repeat("x", 3)] * 2
        ordered = collections.OrderedDict(a=1)
        ordered_keys, ordered_items = ordered.keys(), ordered.items()
        same_place = pathlib.Path("data")
        places = [same_place]
        """,
        """
        import operator
        first = next(ids)
        assert next(registry["ids"]) == first + 1 and Numbered().id == first + 2
        one, other = left_over
        next(one)
        assert operator.length_hint(other) == operator.length_hint(one)
        ordered["b"] = 2
        assert list(ordered_keys) == ["a", "b"] and ("b", 2) in ordered_items
        del ordered["b"]
        assert places == [same_place]
        """,
    ),
    Case(
        "inherited_machinery",
        "Pair pair Raw raw Percent percent Watched watched current local Generated generated",
        """
        import collections, contextvars, ctypes, string, threading
        Pair = collections.namedtuple("Pair", "left right", defaults=[9])
        pair = Pair(1, 2)
        class Raw(ctypes.Structure):
            _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_double)]
            def total(self): return self.a + self.b
        raw = Raw(3, 0.5)
        class Percent(string.Template):  # its base has an __init_subclass__ and a dictionary
            delimiter = "%"
        percent = Percent("%who")
        class Watched(list):
            def __init__(self, items=()):
                self.log = []
                super().__init__(items)
            def append(self, item):
                self.log.append(item)
                super().append(item)
            extend = None
        watched = Watched([1])
        watched.append(2)
        current = contextvars.ContextVar("current", default="d")
        current.set("now")
        local = threading.local()
        local.value = 5
        _scope = {}
        exec("FACTOR = 3\\nclass Helper: pass", _scope)
        exec("def generated(x): return x * FACTOR, Helper()", _scope)
        generated, Generated = _scope["generated"], _scope["Helper"]
        del _scope
        """,
        """
        assert pair == (1, 2) and pair.right == 2 and Pair(5).right == 9 and type(pair) is Pair
        assert raw.total() == 3.5 and Raw(1, 1).total() == 2 and raw.a == 3
        assert percent.substitute(who="me") == "me" and Percent("%x").substitute(x=1) == "1"
        assert watched == [1, 2] and watched.log == [2]
        watched.append(3)
        assert watched.pop() == 3 and watched.log.pop() == 3
        assert current.name == "current" and current.get() in ("now", "d")
        assert local.value == 5
        result, helper = generated(2)
        assert result == 6 and type(helper) is Generated
        """,
    ),
    Case(
        "descriptors_and_generics",
        "Typed WithDescriptor area Temperature dispatch partial_sum described",
        """
        import functools
        class Typed:
            def __set_name__(self, owner, name): self.name = name
            def __get__(self, instance, owner): return instance.__dict__.get(self.name, 0)
            def __set__(self, instance, value): instance.__dict__[self.name] = int(value)
        class WithDescriptor:
            size = Typed()
        described = WithDescriptor()
        described.size = "12"
        class Temperature:
            def __init__(self): self._c, self.computed = 10, 0
            @property
            def celsius(self): return self._c
            @celsius.setter
            def celsius(self, value): self._c = value
            @functools.cached_property
            def slow(self):
                self.computed += 1
                return self._c * 2
        area = Temperature()
        area.slow
        @functools.singledispatch
        def dispatch(value): return "other"
        @dispatch.register
        def _(value: int): return "int"
        dispatch(3)
        partial_sum = functools.partial(sum, start=10)
        """,
        """
        assert described.size == 12 and WithDescriptor.__dict__["size"].name == "size"
        area.celsius = 30
        assert area.celsius == 30 and area.slow == 20 and area.computed == 1
        area.celsius = 10
        assert dispatch(1) == "int" and dispatch("x") == "other" and partial_sum([1]) == 11
        """,
    ),
]


@pytest.mark.parametrize("where", ["hot", "cold"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_behaviour(restored: CasesInKernels, case: Case, where: str) -> None:
    restored.check(case, where)
