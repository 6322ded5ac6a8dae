"""Dictionaries of attributes that are not held by their instance alone."""

from __future__ import annotations

import pytest

from .kernels import Case, CasesInKernels

CASES = [
    Case(
        "attributes_in_a_variable",
        "Thing thing attributes proxy holder of_class itself its",
        """
        import types
        class Thing: pass
        thing = Thing()
        thing.a = 1
        attributes, proxy = vars(thing), types.MappingProxyType(thing.__dict__)
        holder = {"attributes": vars(thing)}
        of_class = vars(Thing)
        itself = Thing()
        itself.me = itself
        its = vars(itself)
        """,
        """
        thing.b = 2
        assert attributes == {"a": 1, "b": 2} and holder["attributes"] is attributes
        attributes["c"] = 3
        assert thing.c == 3 and proxy["b"] == 2
        Thing.d = 4
        assert of_class["d"] == 4
        itself.e = 5
        assert its["e"] == 5 and its["me"] is itself
        """,
    ),
    Case(
        "attributes_of_a_module",
        "constants own",
        """
        import math, sys, types
        constants = vars(math)
        made = types.ModuleType("made")
        made.rate = 1
        sys.modules["made"] = made
        own = vars(made)
        """,
        """
        import math, made
        assert constants is vars(math)
        own["rate"] += 1
        assert made.rate == 2
        """,
    ),
    Case(
        "parsed_arguments",
        "arguments settings",
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--rate", type=float, default=0.1)
        arguments = parser.parse_args([])
        settings = vars(arguments)
        """,
        """
        settings["depth"] = 3
        arguments.rate = 0.2
        assert arguments.depth == 3 and settings["rate"] == 0.2
        """,
    ),
    Case(
        "attributes_and_slots",
        "Slotted slotted rest",
        """
        class Slotted:
            __slots__ = ("first", "__dict__")
        slotted = Slotted()
        slotted.first, slotted.second = 1, 2
        rest = vars(slotted)
        """,
        """
        slotted.third = 3
        assert slotted.first == 1 and rest == {"second": 2, "third": 3}
        """,
    ),
    Case(
        "dictionaries_that_are_their_own_attributes",
        "Options Guarded options nested guarded",
        """
        class Options(dict):
            def __init__(self, *content):
                super().__init__(*content)
                self.__dict__ = self
        class Guarded(Options):
            def __getattr__(self, name): raise AttributeError(name)
        options, guarded = Options({"a": 1}), Guarded({"a": 1})
        nested = [Options({"inner": Options({"b": 2})})]
        """,
        """
        options.c = 3
        assert options == {"a": 1, "c": 3} and options.a == 1
        guarded.c = 3
        assert guarded == {"a": 1, "c": 3} and guarded.a == 1
        nested[0].inner.d = 4
        assert nested == [{"inner": {"b": 2, "d": 4}}]
        """,
    ),
    Case(
        "instances_with_one_state",
        "Shared one other",
        """
        class Shared:
            state = {}
            def __init__(self): self.__dict__ = self.state
        one, other = Shared(), Shared()
        one.a = 1
        """,
        """
        other.b = 2
        assert (one.a, one.b, other.a, Shared().b) == (1, 2, 1, 2)
        """,
    ),
    Case(
        "attributes_of_an_exception",
        "Failure failure found",
        """
        class Failure(Exception): pass
        failure = Failure("why")
        failure.code = 1
        found = vars(failure)
        """,
        """
        failure.more = 2
        assert found["more"] == 2 and failure.code == 1 and failure.args == ("why",)
        """,
    ),
]


@pytest.mark.parametrize("where", ["hot", "cold"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_restored(case: Case, where: str, restored: CasesInKernels) -> None:
    restored.check(case, where)
