"""The kernel's tools, as the model and the panel see them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from prime_ext.agent.tools.kernel import TOOLS
from prime_ext.errors import PrimeError
from tests.kernel.conftest import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from prime_ext.agent.tools.tool import ToolContext, ToolOutcome
    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.kernel.notebook_kernels import NotebookKernels

BY_NAME = {tool.name: tool for tool in TOOLS}


class Calls:
    """Calls tools as the agent does and keeps what they report while they run."""

    def __init__(self, kernel: NotebookKernel) -> None:
        self.progress: list[dict[str, Any]] = []
        self.context = cast(
            "ToolContext",
            SimpleNamespace(
                kernel=kernel,
                progress=self.progress.append,
                runs=None,
                call_id="toolu_1",
                turn="turn_1",
            ),
        )

    async def __call__(self, tool: str, /, **arguments: Any) -> ToolOutcome:
        return await BY_NAME[tool].handler(self.context, arguments)


@pytest.fixture
def call(kernel: NotebookKernel) -> Calls:
    return Calls(kernel)


def text(outcome: ToolOutcome) -> str:
    return str(outcome.content[0]["text"])


def test_schemas_are_strict_and_classes_are_right() -> None:
    assert {tool.name: tool.approval for tool in TOOLS} == {
        "run_code": "run",
        "list_variables": "read",
        "inspect_variable": "read",
    }
    for tool in TOOLS:
        assert tool.input_schema["additionalProperties"] is False
        assert len(tool.description) > 100
    assert BY_NAME["run_code"].input_schema["required"] == ["code"]
    assert BY_NAME["inspect_variable"].input_schema["required"] == ["name"]


def test_what_a_person_is_shown_before_approving() -> None:
    tool = BY_NAME["run_code"]
    assert tool.summary({"code": "\n\nimport os\nos.getcwd()\n"}) == "Run import os … (2 lines)"
    assert tool.detail({"code": "x = '```'"}) == "````\nx = '```'\n````"


async def test_text_result_and_figure_in_order(call: Calls) -> None:
    outcome = await call(
        "run_code",
        code="import matplotlib.pyplot as plt\nprint('before')\nplt.plot([1, 2])\nplt.show()\n42",
    )
    assert not outcome.is_error
    assert outcome.content[0]["type"] == "text"
    assert "before" in text(outcome)
    assert "[image 1]" in text(outcome)
    assert text(outcome).endswith("42")
    image = outcome.content[1]
    assert image["source"]["media_type"] == "image/png"
    shown = [o for o in outcome.outputs if "image/png" in o.get("data", {})]
    assert shown[0]["data"]["image/png"] == {"content_index": 1}


async def test_error_in_full_without_colours(call: Calls) -> None:
    outcome = await call("run_code", code="def f(x):\n    return 1 / x\nf(0)")
    assert outcome.is_error
    assert "\x1b" not in text(outcome)
    assert "----> 2     return 1 / x" in text(outcome) or "return 1 / x" in text(outcome)
    assert text(outcome).endswith("ZeroDivisionError: division by zero")


async def test_outputs_are_shown_while_it_runs(call: Calls, kernel: NotebookKernel) -> None:
    task = asyncio.create_task(
        call("run_code", code="print('on the way')\nimport time\ntime.sleep(600)")
    )
    await until(lambda: any("outputs" in body for body in call.progress))
    shown = next(body["outputs"] for body in call.progress if "outputs" in body)
    assert shown[0]["text"] == "on the way\n"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: kernel.state == "idle")


async def test_input_says_what_to_do(call: Calls) -> None:
    outcome = await call("run_code", code="input('Name? ')")
    assert outcome.is_error
    assert "cannot be answered here" in text(outcome)


async def test_death_says_what_happens_next(call: Calls, kernel: NotebookKernel) -> None:
    outcome = await call("run_code", code="import os; os._exit(1)")
    assert outcome.is_error
    assert "The kernel died" in text(outcome)
    assert "unless it is said here that they were restored" in text(outcome)
    await kernel.ensure()


async def test_empty_code_is_refused(call: Calls) -> None:
    with pytest.raises(PrimeError) as raised:
        await call("run_code", code="  \n")
    assert raised.value.code == "empty_code"


async def test_variables(call: Calls, kernel: NotebookKernel) -> None:
    assert "no running kernel" in text(await call("list_variables"))
    with pytest.raises(PrimeError) as raised:
        await call("inspect_variable", name="x")
    assert raised.value.code == "no_kernel"
    assert await kernel.find() is None
    await kernel.ensure()
    assert "no variables yet" in text(await call("list_variables"))
    await call(
        "run_code",
        code="import math\nimport numpy as np\ngrid = np.zeros((1000, 10))\n"
        "def area(w, h): return w * h\nclass Box: pass\nnote = 'x' * 5000",
    )
    listing = text(await call("list_variables"))
    assert "  grid: numpy.ndarray(1000, 10), 80 kB = <numpy.ndarray (1000, 10) float64>" in listing
    assert "Functions: area" in listing
    assert "Classes: Box" in listing
    assert "Modules: math, np" in listing
    looked = await call("inspect_variable", name="grid", expression="grid.shape")
    assert text(looked).startswith("grid.shape: tuple, length 2")


async def test_a_figure_is_shown_to_model_and_person(call: Calls) -> None:
    await call("run_code", code="from matplotlib.figure import Figure\nfigure = Figure()")
    outcome = await call("inspect_variable", name="figure")
    assert outcome.content[1]["source"]["media_type"] == "image/png"
    assert outcome.outputs[0]["data"]["image/png"] == {"content_index": 1}


async def test_another_language(
    kernels: NotebookKernels, make_notebook: Callable[..., str], calculator: str
) -> None:
    call = Calls(kernels.for_notebook(make_notebook("sums.ipynb", kernel=calculator)))
    assert text(await call("run_code", code="1+2")) == "3"
    with pytest.raises(PrimeError) as raised:
        await call("list_variables")
    assert raised.value.code == "kernel_language"
