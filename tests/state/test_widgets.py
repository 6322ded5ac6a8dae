"""Widgets come back with their values and callbacks, and answer the front end again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .kernels import Kernel

CELL = """
import ipywidgets as widgets
seen = []
slider = widgets.IntSlider(3, max=50, description="n")
slider.observe(lambda change: seen.append(change["new"]), "value")
button = widgets.Button(description="go")
button.on_click(lambda _: seen.append("click"))
box, text, label = widgets.VBox([slider, button]), widgets.Text("hi"), widgets.Label()
link = widgets.jslink((text, "value"), (label, "value"))
interactive = widgets.interactive(lambda n: seen.append(n), n=(0, 5))
class Double(widgets.IntSlider):
    def double(self): return 2 * self.value
double = Double(7)
slider.value = 9
choice = widgets.Dropdown(options=[("one", 1), ("two", 2)], value=2)
several = widgets.SelectMultiple(options=["a", "b", "c"], value=("a", "c"))
closed = widgets.IntSlider(); closed.close()
before = list(seen)
"""


def test_widgets(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    kernel = kernel_at()
    kernel.run(CELL)
    kernel.run(
        f"""
        from prime_ext import state as _state
        _key = b"k" * 32
        _saved = _state.save({str(tmp_path / "s")!r}, key=_key, verify="wait").names
        for _name in "slider button box text label link interactive double choice several".split():
            assert _saved[_name].status == "verified", (_name, _saved[_name])
        assert _saved["closed"].status == "degraded" and "closed" in _saved["closed"].reason
        """
    )
    model = kernel.run("print(slider.model_id)").strip()
    fresh = kernel_at()
    fresh.run("import ipywidgets")  # what follows is published while the snapshot is loaded
    fresh.client.execute(
        f"from prime_ext import state as _state\n"
        f"_loaded = _state.load({str(tmp_path / 's')!r}, key=b'k' * 32, mode='cold')",
        silent=True,
    )
    opened = []
    while model not in opened:
        message = fresh.client.get_iopub_msg(timeout=60)
        if message["msg_type"] == "comm_open":
            opened.append(message["content"]["comm_id"])
    fresh.run(
        """
        assert slider.value == 9 and slider.max == 50 and slider.description == "n"
        assert box.children == (slider, button) and seen == before, "nothing is called by it"
        slider.value = 11
        button.click()
        interactive.children[0].value = 4
        assert seen == [*before, 11, "click", 4] and interactive.kwargs == {"n": 4}
        assert type(double) is Double and double.double() == 14 and link.source[0] is text
        assert (choice.value, choice.options) == (2, (("one", 1), ("two", 2)))
        choice.value = 1
        assert choice.index == 0 and choice.label == "one" and several.value == ("a", "c")
        assert "closed" in repr(closed) and "Unrestorable" in repr(closed)
        """
    )
    # The front end moves the slider: by the id that it knew before.
    content = {
        "comm_id": model,
        "data": {"method": "update", "state": {"value": 21}, "buffer_paths": []},
    }
    fresh.client.shell_channel.send(fresh.client.session.msg("comm_msg", content))
    fresh.run("assert slider.value == 21 and seen[-1] == 21")


def test_observers_of_traits(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    kernel = kernel_at()
    kernel.run(
        f"""
        import traitlets
        class Setting(traitlets.HasTraits):
            rate = traitlets.Int(1)
            names = traitlets.List()
            @traitlets.observe("rate")
            def _changed(self, change): seen.append(("of the class", change["new"]))
            @traitlets.validate("rate")
            def _check(self, proposal): return min(proposal["value"], 10)
        seen, first, second = [], Setting(names=["a"]), Setting()
        first.observe(seen.append, "names")
        linked = traitlets.dlink((first, "rate"), (second, "rate"), lambda rate: rate + 1)
        seen.clear()
        from prime_ext import state as _state
        _names = _state.save({str(tmp_path / "s")!r}, key=b"k" * 32, verify="wait").names
        assert _names["first"].status == _names["linked"].status == "verified", _names
        """
    )
    fresh = kernel_at()
    fresh.run(
        f"""
        from prime_ext import state as _state
        _state.load({str(tmp_path / "s")!r}, key=b"k" * 32)
        assert first.names == ["a"] and seen == []
        first.rate = 20
        assert (first.rate, second.rate) == (10, 10)
        assert seen == [("of the class", 10)] * 2, seen
        first.names = ["b"]
        assert seen[2]["new"] == ["b"] and len(seen) == 3, seen
        linked.unlink(); first.rate = 3
        assert second.rate == 10
        """
    )


def test_other_widgets_are_named(kernel_at: Callable[..., Kernel], tmp_path: Path) -> None:
    """Of a library that keeps more in a widget than ipywidgets knows of."""
    kernel = kernel_at()
    (tmp_path / "charting.py").write_text(
        "import ipywidgets\nclass Chart(ipywidgets.DOMWidget): pass\n"
    )
    kernel.run(
        f"""
        from charting import Chart
        chart, beside = Chart(), {{"n": 1}}
        from prime_ext import state as _state
        _names = _state.save({str(tmp_path / "s")!r}, key=b"k" * 32, verify="off").names
        assert _names["chart"].status == "degraded" and "browser" in _names["chart"].reason
        assert _names["chart"].recipe.source and _names["beside"].status == "unverified"
        """
    )
