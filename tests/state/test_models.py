"""Models and plots: what they hold comes back, is verified, and finds itself unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prime_ext import state

from .snapshots import load, save


def saved_faithfully(directory: Path, namespace: dict[str, Any], key: bytes) -> dict[str, Any]:
    """Loaded anew, after a look at what the report says of the save."""
    report = save(directory, namespace, key, verify="wait")
    wrong = {n: s.reason for n, s in report.names.items() if s.status != "verified"}
    assert not wrong
    assert save(directory, namespace, key).unchanged
    return load(directory, key)


def test_trees(tmp_path: Path, key: bytes) -> None:
    ensemble = pytest.importorskip("sklearn.ensemble")
    selection = pytest.importorskip("sklearn.model_selection")
    points, labels = [[n, n % 3] for n in range(40)], [n % 2 for n in range(40)]
    forest = ensemble.RandomForestClassifier(10, random_state=0).fit(points, labels)
    boosted = ensemble.GradientBoostingRegressor(n_estimators=3).fit(points, labels)
    model = ensemble.ExtraTreesClassifier(5, random_state=0)
    search = selection.GridSearchCV(model, {"max_depth": [2, 3]}, cv=2).fit(points, labels)
    models = {"forest": forest, "boosted": boosted, "search": search}
    found = saved_faithfully(tmp_path, models, key)
    for name, model in models.items():
        assert (found[name].predict(points) == model.predict(points)).all()


def test_tensors(tmp_path: Path, key: bytes) -> None:
    torch = pytest.importorskip("torch")
    whole = torch.arange(100_000.0)
    layers = torch.nn.Linear(300, 300)
    namespace = {
        "whole": whole,
        "part": whole[10:20],
        "layers": layers,
        "weights": layers.state_dict(),
        "small": torch.ones(3, dtype=torch.bfloat16),
        "empty": torch.empty(0),
        "shared": torch.ones(3).share_memory_(),
        "drawn": torch.Generator().manual_seed(3),
    }
    found = saved_faithfully(tmp_path, namespace, key)
    assert whole.untyped_storage().resizable(), "saving leaves no trace"
    found["whole"][10] = -5
    assert found["part"][0] == -5
    assert found["weights"]["weight"].data_ptr() == found["layers"].weight.data_ptr()
    assert torch.equal(found["layers"].weight, layers.weight)
    assert found["small"].resize_(8).dtype == torch.bfloat16
    names = state.inspect(tmp_path, key=key).names
    assert "as private memory" in names["shared"]["reason"]
    stream = next(
        c.stream for c in state.inspect(tmp_path, key=key).components if len(c.roots) == 2
    )
    assert stream.length < 10_000, "large memory stays out of the stream"


def test_formula_that_calls_a_function_of_the_notebook(tmp_path: Path, key: bytes) -> None:
    formulas = pytest.importorskip("statsmodels.formula.api")
    pd = pytest.importorskip("pandas")
    namespace: dict[str, Any] = {"frame": pd.DataFrame({"x": [1.0, 2, 3, 4], "y": [2.0, 5, 9, 17]})}
    code = "def root(v): return v**0.5\ndef fit(f): return ols('y ~ root(x)', f).fit()"
    namespace["ols"] = formulas.ols
    exec(code, namespace, namespace)
    namespace["result"] = namespace["fit"](namespace["frame"])
    del namespace["__builtins__"]
    found = saved_faithfully(tmp_path, namespace, key)
    expected = namespace["result"].predict(namespace["frame"])
    assert found["result"].predict(found["frame"]).equals(expected)


def test_quantities_keep_their_registry_of_units(tmp_path: Path, key: bytes) -> None:
    pint = pytest.importorskip("pint")
    units = pint.UnitRegistry()
    units.define("smoot = 1.7 * meter")
    found = saved_faithfully(
        tmp_path, {"units": units, "length": 2 * units.smoot, "unit": units.meter}, key
    )
    assert (found["length"] + 1 * found["units"].meter).to("meter").magnitude == pytest.approx(4.4)
    assert found["unit"] == found["units"].meter


def test_parts_of_a_plot_stay_parts_of_it(tmp_path: Path, key: bytes) -> None:
    graphs = pytest.importorskip("plotly.graph_objects")
    notes = [{"text": "a"}, {"text": "b"}]
    figure = graphs.Figure([graphs.Scatter(y=[1, 2]), graphs.Bar(y=[3])], {"annotations": notes})
    alone = graphs.Scatter(y=[5])
    namespace = {
        "bars": figure.data[1],
        "marker": figure.data[0].marker,
        "axis": figure.layout.xaxis,
        "note": figure.layout.annotations[1],
        "figure": figure,
        "alone": alone,
    }
    found = saved_faithfully(tmp_path, namespace, key)
    restored = found["figure"]
    found["bars"].y = [9]
    found["marker"].color = "red"
    found["axis"].title = "x"
    found["note"].text = "c"
    assert restored.data[1] is found["bars"]
    assert list(restored.data[1].y) == [9]
    assert restored.data[0].marker.color == "red"
    assert restored.layout.xaxis.title.text == "x"
    assert [note.text for note in restored.layout.annotations] == ["a", "c"]
    assert list(found["alone"].y) == [5]


def test_containers_of_numba_become_placeholders_whole(tmp_path: Path, key: bytes) -> None:
    """Made of a placeholder for their native memory, they would end the process when used."""
    numba = pytest.importorskip("numba")
    namespace = {"items": numba.typed.List([1, 2]), "held": [numba.typed.List(["a"]), 3]}
    report = save(tmp_path, namespace, key)
    assert {s.status for s in report.names.values()} == {"degraded"}
    found = load(tmp_path, key)
    assert found["held"][1] == 3
    for placeholder in (found["items"], found["held"][0]):
        with pytest.raises(state.UnrestorableError, match="numba"):
            list(placeholder)


def test_data_of_lightgbm_that_a_model_was_trained_with(tmp_path: Path, key: bytes) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    numpy = pytest.importorskip("numpy")
    points = numpy.random.RandomState(0).rand(50, 3)
    kept = lightgbm.Dataset(points, points[:, 0], feature_name=["a", "b", "c"], free_raw_data=False)
    settings = {"verbose": -1, "min_data_in_leaf": 2}
    model = lightgbm.train(settings, kept, 3)
    valid = kept.create_valid(points, points[:, 0])
    found = saved_faithfully(tmp_path, {"kept": kept, "valid": valid}, key)
    assert found["valid"].reference is found["kept"]
    again = lightgbm.train(settings, found["kept"], 3, valid_sets=[found["valid"]])
    assert (again.predict(points) == model.predict(points)).all()
    assert again.feature_name() == ["a", "b", "c"]
    freed = lightgbm.Dataset(points, points[:, 0])
    lightgbm.train(settings, freed, 1)
    report = save(tmp_path / "freed", {"freed": freed}, key)
    assert report.names["freed"].status == "degraded"
    assert "LightGBM has freed its data" in report.names["freed"].reason


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_modules_of_torchscript(tmp_path: Path, key: bytes) -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Linear(3, 2).eval()
    scripts = {"script": torch.jit.script(net), "trace": torch.jit.trace(net, torch.zeros(1, 3))}
    report = save(tmp_path, scripts, key, verify="wait")
    for status in report.names.values():
        assert status.status == "unverified"
        assert "has tensors of its own" in status.reason
    assert save(tmp_path, scripts, key).unchanged
    found = load(tmp_path, key)
    for name in scripts:
        assert torch.equal(found[name](torch.ones(1, 3)), net(torch.ones(1, 3)))
        assert not found[name].training
