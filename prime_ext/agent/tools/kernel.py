"""Tools for the notebook's kernel: run code without a cell, and inspect variables."""

from __future__ import annotations

from typing import Any

from prime_ext.agent.tools.run_outcome import run_outcome
from prime_ext.agent.tools.runs import Run, begin_run
from prime_ext.agent.tools.tool import Tool, ToolContext, ToolOutcome
from prime_ext.errors import PrimeError
from prime_ext.notebook.cell import fence


async def _run_code(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    code = arguments["code"]
    if not code.strip():
        raise PrimeError("There is no code to run.", code="empty_code", hint="Pass code.")

    async def work(run: Run) -> ToolOutcome:
        execution = await context.kernel.execute(
            code,
            store_history=False,
            on_outputs=lambda outputs: run.show({"outputs": outputs}),
            on_busy=lambda: run.show(
                {"message": "The kernel is busy; the code runs when it is free."}
            ),
            on_begun=run.begun,
        )
        return run_outcome(execution, code=code)

    return await begin_run(context, "Your code", work)


async def _list_variables(context: ToolContext, _arguments: dict[str, Any]) -> ToolOutcome:
    if await context.kernel.find() is None:
        return ToolOutcome.text("The notebook has no running kernel, so there are no variables.")
    listing = await context.kernel.list_variables()
    variables, omitted = listing["variables"], listing["omitted"]
    if not variables:
        return ToolOutcome.text("The user has defined no variables yet.")
    groups = [
        ("Variables, oldest first:", [_line(v) for v in variables if v["kind"] == "data"]),
        ("Functions: ", _names(variables, "function")),
        ("Classes: ", _names(variables, "class")),
        ("Modules: ", _names(variables, "module")),
    ]
    lines = []
    for title, entries in groups:
        if entries and title.endswith(": "):
            lines.append(title + ", ".join(entries))
        elif entries:
            lines += [title, *entries]
    if omitted:
        lines.append(f"({omitted} older ones are not listed; inspect_variable knows them too.)")
    return ToolOutcome.text("\n".join(lines))


def _line(variable: dict[str, Any]) -> str:
    kind = variable["type"]
    if "shape" in variable:
        shape = variable["shape"]
        kind += shape if shape.startswith("(") else f"[{shape}]"
    if "size" in variable and variable["size"] >= 1024:
        kind += f", {_bytes(variable['size'])}"
    return f"  {variable['name']}: {kind} = {variable['repr']}"


def _names(variables: list[dict[str, Any]], kind: str) -> list[str]:
    return [variable["name"] for variable in variables if variable["kind"] == kind]


def _bytes(size: int) -> str:
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.3g} {unit}"


async def _inspect_variable(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    if await context.kernel.find() is None:
        raise PrimeError(
            "The notebook has no running kernel, so there are no variables.",
            code="no_kernel",
            hint="Run code or a cell first; that starts one.",
        )
    answer = await context.kernel.inspect(arguments["name"], arguments.get("expression"))
    title = answer.get("expression") or answer["name"]
    content: list[dict[str, Any]] = [{"type": "text", "text": f"{title}: {answer['text']}"}]
    outputs: list[dict[str, Any]] = []
    image = answer.get("image")
    if image is not None:
        content.append({"type": "image", "source": {"type": "base64", **image}})
        shown = {"text/plain": title, image["media_type"]: {"content_index": 1}}
        outputs.append({"output_type": "display_data", "data": shown, "metadata": {}})
    return ToolOutcome(content, outputs)


def _code_summary(arguments: dict[str, Any]) -> str:
    lines = [line for line in arguments["code"].strip().splitlines() if line.strip()]
    first = lines[0].strip() if lines else ""
    if len(first) > 80:
        first = first[:79] + "…"
    return f"Run {first}" + (f" … ({len(lines)} lines)" if len(lines) > 1 else "")


async def _preview_code(context: ToolContext, arguments: dict[str, Any]) -> str | None:
    return fence(arguments["code"], context.kernel.language or "python")


TOOLS: list[Tool] = [
    Tool(
        name="run_code",
        description=(
            "Run code in the notebook's own live kernel without adding a cell. Use it to look "
            "something up, try something out or compute an intermediate result; use insert_cell "
            "and run_cell for what belongs into the notebook. Variables it defines stay defined. "
            "It is not part of the history: In, Out, _ and the execution count stay as they are. "
            "Returns printed text, the value of the last expression, figures as images, and the "
            "full traceback of an error. There is no time limit: what takes minutes is answered as "
            "still running and goes on. input() is not available. Shell commands run with a "
            "leading ! in Python kernels."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "code": {
                    "type": "string",
                    "description": "Code in the kernel's language, Python unless stated otherwise.",
                }
            },
            "required": ["code"],
            "additionalProperties": False,
        },
        approval="run",
        handler=_run_code,
        summary=_code_summary,
        detail=lambda i: fence(i["code"]),
        preview=_preview_code,
    ),
    Tool(
        name="list_variables",
        description=(
            "List what is defined in the notebook's kernel now: names with type, shape, size and "
            "a short value, then functions, classes and modules. Runs nothing and changes "
            "nothing, and answers while a cell is running. Call it instead of assuming that a "
            "variable exists. Python kernels only."
        ),
        input_schema={"type": "object", "properties": {}, "additionalProperties": False},
        approval="read",
        handler=_list_variables,
        summary=lambda _arguments: "List the kernel's variables",
    ),
    Tool(
        name="inspect_variable",
        description=(
            "Look at one variable of the kernel in detail, without running code: data frames "
            "(columns, types, missing values, first rows, statistics), arrays, series, "
            "dictionaries and lists, functions and classes (signature and source), fitted models, "
            "and figures (as an image). Answers while a cell is running. Python kernels only."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "Name of the variable."},
                "expression": {
                    "type": "string",
                    "description": (
                        "Look at this instead of the whole variable, e.g. df['price'].describe(), "
                        "df[df['age'] > 60].head(20), config['paths'][0], model.coef_. It may "
                        "read attributes and items, compare, compute, and call methods of "
                        "pandas, NumPy and polars objects that leave them as they are; anything "
                        "else needs run_code."
                    ),
                },
            },
            "required": ["name"],
            "additionalProperties": False,
        },
        approval="read",
        handler=_inspect_variable,
        summary=lambda arguments: (
            f"Look at {arguments.get('expression') or arguments.get('name', 'a variable')}"
        ),
    ),
]
