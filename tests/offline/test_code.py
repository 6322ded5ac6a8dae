"""The code the offline agent writes does, on real data, what it is said to do."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from prime_ext.models.offline import code, figures
from prime_ext.models.offline import intents as i
from prime_ext.models.offline.observations import Column, Frame

pd: Any = pytest.importorskip("pandas")
matplotlib: Any = pytest.importorskip("matplotlib")
matplotlib.use("agg")

PENGUINS = Path(__file__).parents[2] / "examples" / "penguins.csv"
SPECIES = Column("species", "str")
SEX = Column("sex", "str")
MASS = Column("body_mass_g", "float64")
FLIPPER = Column("flipper_length_mm", "float64")
DAY = Column("day", "datetime64[ns]")
HEAVY = Column("heavy", "bool")
COLUMNS = (SPECIES, SEX, MASS, FLIPPER, DAY, HEAVY)
FRAME = Frame("penguins", COLUMNS, 344)


@pytest.fixture
def namespace() -> dict[str, Any]:
    penguins = pd.read_csv(PENGUINS)
    penguins["day"] = pd.date_range("2007-01-01", periods=len(penguins))
    penguins["heavy"] = penguins["body_mass_g"] > 4000
    return {"penguins": penguins}


def run(source: str, namespace: dict[str, Any]) -> Any:
    """Execute ``source`` as a cell; returns the value of its last line."""
    head, _, last = source.rpartition("\n")
    exec(head, namespace)
    try:
        expression = compile(last, "<cell>", "eval")
    except SyntaxError:
        exec(last, namespace)
        return None
    return eval(expression, namespace)


@pytest.mark.parametrize("kind", ["csv", "tsv", "json", "parquet", "feather", "csv.gz"])
def test_what_is_saved_is_loaded_again(
    kind: str, namespace: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = f'odd "name".{kind}'
    if kind == "csv.gz":
        namespace["penguins"].to_csv(name, index=False)
    else:
        run(code.save("penguins", name), namespace)

    loaded = run(code.load("again", name), namespace)

    assert loaded.shape == (344, 10)
    assert namespace["again"] is loaded


def test_aggregates(namespace: dict[str, Any]) -> None:
    penguins = namespace["penguins"]

    def aggregate(*arguments: Any) -> Any:
        return run(code.aggregate("penguins", *arguments), namespace)

    assert aggregate(("mean",), ("body_mass_g",), ()) == penguins["body_mass_g"].mean()
    assert aggregate(("max",), ("body_mass_g",), ("species",))["Gentoo"] == 6300
    assert aggregate(("mean", "std"), ("body_mass_g",), ("species",)).shape == (3, 2)
    assert aggregate(("mean",), (), ("species", "sex")).index.nlevels == 2
    assert "species" not in aggregate(("mean",), (), ())
    assert aggregate(("mean", "max"), (), ("species",)).shape[0] == 3
    assert aggregate(("count",), (), ("species",))["sex"]["Adelie"] == 146
    assert list(aggregate(("sum",), ("body_mass_g", "flipper_length_mm"), ()).index) == [
        "body_mass_g",
        "flipper_length_mm",
    ]


@pytest.mark.parametrize(
    ("condition", "column", "expected"),
    [
        (i.Condition("", "==", ("Adelie",)), SPECIES, 152),
        (i.Condition("", "!=", ("Adelie",)), SPECIES, 192),
        (i.Condition("", "isin", ("Adelie", "Gentoo")), SPECIES, 276),
        (i.Condition("", "contains", ("DEL",)), SPECIES, 152),
        (i.Condition("", "startswith", ("Chin",)), SPECIES, 68),
        (i.Condition("", "isna"), SEX, 11),
        (i.Condition("", "notna"), SEX, 333),
        (i.Condition("", ">", ("6000",)), MASS, 2),
        (i.Condition("", "between", ("2700", "2900")), MASS, 7),
        (i.Condition("", "==", ("true",)), HEAVY, 172),
        (i.Condition("", ">=", ("2007-12-01",)), DAY, 10),
    ],
)
def test_conditions_count_the_right_rows(
    condition: i.Condition, column: Column, expected: int, namespace: dict[str, Any]
) -> None:
    mask = code.mask("penguins", condition, column)

    assert run(code.filtered("penguins", [mask], "and", name=None, count=True), namespace) == (
        expected
    )
    rows = run(code.filtered("penguins", [mask], "and", name="part", count=False), namespace)
    assert len(rows) == expected
    assert len(namespace["penguins"]) == 344


def test_conditions_are_joined_as_asked(namespace: dict[str, Any]) -> None:
    masks = [
        code.mask("penguins", i.Condition("", "==", ("Adelie",)), SPECIES),
        code.mask("penguins", i.Condition("", ">", ("4500",)), MASS),
        code.mask("penguins", i.Condition("", "notna"), SEX),
    ]

    both = run(code.filtered("penguins", masks, "and", name=None, count=False), namespace)
    either = run(code.filtered("penguins", masks[:2], "or", name=None, count=True), namespace)

    assert set(both["species"]) == {"Adelie"}
    assert both["body_mass_g"].min() > 4500
    penguins = namespace["penguins"]
    assert either == ((penguins["species"] == "Adelie") | (penguins["body_mass_g"] > 4500)).sum()


def test_values_from_the_user_cannot_become_code(namespace: dict[str, Any]) -> None:
    hostile = '"] or __import__("os").abort() or ["'
    for operator in ("==", "contains", "startswith", "isin"):
        mask = code.mask("penguins", i.Condition("", operator, (hostile,)), SPECIES)
        assert run(f"({mask}).sum()", namespace) == 0


def test_order_and_extremes(namespace: dict[str, Any]) -> None:
    assert (
        run(code.sort("penguins", ["body_mass_g"], descending=True), namespace).iloc[0][
            "body_mass_g"
        ]
        == 6300
    )
    assert run(code.top("penguins", 3, "body_mass_g", largest=False, numeric=True), namespace)[
        "body_mass_g"
    ].tolist() == [2700, 2850, 2850]
    assert run(code.top("penguins", 1, "species", largest=True, numeric=False), namespace)[
        "species"
    ].tolist() == ["Gentoo"]
    assert len(run(code.rows("penguins", "sample", 7), namespace)) == 7


def test_missing_values(namespace: dict[str, Any]) -> None:
    assert run(code.missing("penguins", None), namespace)["sex"] == 11
    assert run(code.missing("penguins", "sex"), namespace) == 11
    assert run(code.fill_missing("penguins", SEX, "mode"), namespace) == 0
    assert run(code.fill_missing("penguins", MASS, "median"), namespace) == 0
    assert run(code.fill_missing("penguins", FLIPPER, "0"), namespace) == 0
    assert (namespace["penguins"]["flipper_length_mm"] == 0).sum() == 2
    namespace["penguins"] = pd.read_csv(PENGUINS)
    assert run(code.drop_missing("penguins", None), namespace) == (333, 8)


def test_correlations_crosstabs_counts(namespace: dict[str, Any]) -> None:
    assert run(
        code.correlation("penguins", ["body_mass_g", "flipper_length_mm"]), namespace
    ) == pytest.approx(0.871, abs=0.001)
    assert run(code.correlation("penguins", []), namespace).shape == (6, 6)
    assert run(code.crosstab("penguins", "species", "sex"), namespace).shape == (3, 2)
    assert run(code.value_counts("penguins", "sex"), namespace).sum() == 344
    assert len(run(code.duplicates("penguins"), namespace)) == 0


def test_a_new_column_from_others(namespace: dict[str, Any]) -> None:
    source = code.add_column(FRAME, "ratio", "body_mass_g / flipper_length_mm ** 2")
    assert source.startswith(
        'penguins["ratio"] = penguins["body_mass_g"] / penguins["flipper_length_mm"] ** 2'
    )
    assert run(source, namespace)["ratio"].iloc[0] == pytest.approx(3750 / 181**2)


PAIRS = [
    (y, x)
    for y, x in itertools.product((SPECIES, MASS, DAY, HEAVY), (None, SEX, FLIPPER, DAY, HEAVY))
    if x is not y
]


@pytest.mark.parametrize(("y", "x"), PAIRS)
def test_every_pair_of_types_gives_a_labelled_figure(
    y: Column, x: Column | None, namespace: dict[str, Any]
) -> None:
    import matplotlib.pyplot as plt

    plt.close("all")
    kind, y, x = figures.arrange(y, x)
    run(figures.figure("penguins", kind, y, x, None).replace("plt.show()", "None"), namespace)

    (axes, *_) = plt.gcf().axes
    assert axes.has_data()
    assert axes.get_title()
    assert axes.get_xlabel() or axes.get_ylabel()
    plt.close("all")


@pytest.mark.parametrize(
    ("kind", "y", "x", "color"),
    [
        ("hist", MASS, SPECIES, None),
        ("bar", MASS, SPECIES, None),
        ("box", MASS, None, None),
        ("line", MASS, None, None),
        ("line", MASS, FLIPPER, None),
        ("bar", SPECIES, None, None),
        ("scatter", MASS, FLIPPER, SPECIES),
        ("scatter", MASS, FLIPPER, Column("year", "int64")),
    ],
)
def test_kinds_asked_for_are_drawn(
    kind: str, y: Column, x: Column | None, color: Column | None, namespace: dict[str, Any]
) -> None:
    import matplotlib.pyplot as plt

    plt.close("all")
    run(figures.figure("penguins", kind, y, x, color).replace("plt.show()", "None"), namespace)
    assert plt.gcf().axes[0].has_data()
    plt.close("all")


@pytest.mark.parametrize(
    "source",
    [code.bars("penguins", "mean", "body_mass_g", "species"), code.heat_map("penguins")],
)
def test_aggregates_are_drawn(source: str, namespace: dict[str, Any]) -> None:
    import matplotlib.pyplot as plt

    plt.close("all")
    run(source.replace("plt.show()", "None"), namespace)
    assert plt.gcf().axes[0].has_data()
    plt.close("all")


def test_the_types_choose_the_kind_and_the_sides() -> None:
    assert figures.arrange(MASS, None) == ("hist", MASS, None)
    assert figures.arrange(SPECIES, None) == ("bar", SPECIES, None)
    assert figures.arrange(MASS, FLIPPER) == ("scatter", MASS, FLIPPER)
    assert figures.arrange(MASS, DAY) == ("line", MASS, DAY)
    assert figures.arrange(DAY, MASS) == ("line", MASS, DAY)
    assert figures.arrange(MASS, SPECIES) == ("box", MASS, SPECIES)
    assert figures.arrange(SPECIES, MASS) == ("box", MASS, SPECIES)
    assert figures.arrange(DAY, SPECIES) == ("hist", DAY, SPECIES)
    assert figures.arrange(SPECIES, SEX) == ("bar", SPECIES, SEX)
