"""Tools of other packages, found by their entry points and checked before they are offered."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, get_args

from prime_ext.agent.tools.tool import ApprovalClass, Tool, ToolContext, ToolOutcome

GROUP = "prime_ext.tools"

STOP_SECONDS = 5.0
"""Seconds to wait for a handler to end after it was cancelled."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
"""Tool names that the Messages API accepts."""


@dataclass(frozen=True)
class PackagedTool:
    """A tool and the package it comes from."""

    tool: Tool
    package: str
    """Name and version of the distribution."""


@dataclass(frozen=True)
class Problem:
    """The reason why something in a package is not offered as a tool."""

    package: str
    message: str
    """What is wrong and what to do, for the person who installed the package."""


def find_tools(taken: Collection[str]) -> tuple[list[PackagedTool], list[Problem]]:
    """Import the packages that provide tools; return the valid tools, and the problems found.

    The tools are ordered by package, entry point and position, so that the beginning of every
    request stays the same. This takes as long as the imports do, so call it in a thread.

    Parameters
    ----------
    taken:
        Names that are in use already.
    """
    names = dict.fromkeys(taken, "prime_ext")
    found: list[PackagedTool] = []
    problems: list[Problem] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda e: (_package(e), e.name, e.value)):
        package = _package(entry)
        try:
            given = _listed(entry.load())
        except (Exception, SystemExit) as error:
            problems.append(
                Problem(
                    package,
                    f"its entry point {entry.name!r} ({entry.value}) cannot be loaded: "
                    f"{type(error).__name__}: {error}. Update, repair or uninstall the package.",
                )
            )
            continue
        for tool in given:
            wrong = fault(tool)
            if wrong is None and tool.name in names:
                wrong = f"{names[tool.name]} has a tool of this name already"
            if wrong is None:
                names[tool.name] = package
                found.append(PackagedTool(tool, package))
            else:
                what = f"tool {tool.name!r}" if isinstance(tool, Tool) else f"{entry.value}"
                problems.append(
                    Problem(
                        package,
                        f"its {what} is not offered: {wrong}. Tell the package's author, or "
                        "uninstall the package.",
                    )
                )
    return found, problems


async def call_handler(tool: Tool, context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    """Call the handler of another package, so that it can neither block Stop nor end the server.

    Raises
    ------
    RuntimeError
        If the handler called ``sys.exit``, or was cancelled by something that it awaited.
    TypeError
        If the handler did not return a ``ToolOutcome``.
    """

    async def guarded() -> ToolOutcome:
        try:
            outcome: Any = await tool.handler(context, arguments)
        except SystemExit as error:  # asyncio would let it through, and the server would end
            raise RuntimeError(f"the handler called sys.exit({error.code!r})") from error
        if not isinstance(outcome, ToolOutcome):
            raise TypeError(f"the handler returned {type(outcome).__name__}, not a ToolOutcome")
        return outcome

    handling = asyncio.ensure_future(guarded())
    try:
        return await asyncio.shield(handling)
    except asyncio.CancelledError:
        if handling.cancelled():
            raise RuntimeError("the handler was cancelled by something that it awaited") from None
        handling.cancel()
        await asyncio.wait([handling], timeout=STOP_SECONDS)
        raise


def fault(tool: Any) -> str | None:
    """Return what is wrong with a tool of a package, or ``None`` if it can be offered."""
    if not isinstance(tool, Tool):
        return f"it is a {type(tool).__name__}, not a prime_ext.tools.Tool or a list of them"
    return _part_fault(tool)


def _part_fault(tool: Any) -> str | None:
    """Return what is wrong with the parts of a tool, or ``None``.

    Each part may be of any type, because a package's code need not have been type-checked.
    """
    if not isinstance(tool.name, str) or not _NAME.fullmatch(tool.name):
        return "its name must be 1 to 128 letters, digits, - or _"
    if not isinstance(tool.description, str) or not tool.description.strip():
        return "it has no description, so the model cannot know what it is for"
    if tool.approval not in get_args(ApprovalClass):
        return f"its approval is {tool.approval!r}, not one of {', '.join(get_args(ApprovalClass))}"
    for part in ("handler", "summary", "detail"):
        if not callable(getattr(tool, part)):
            return f"its {part} is not a function"
    if tool.preview is not None and not callable(tool.preview):
        return "its preview is neither a function nor None"
    return _schema_fault(tool.input_schema)


def _schema_fault(schema: Any) -> str | None:
    from jsonschema import Draft202012Validator, SchemaError

    if not isinstance(schema, dict) or schema.get("type") != "object":
        return 'its input_schema is not a JSON Schema of "type": "object"'
    try:
        json.dumps(schema, allow_nan=False)
        Draft202012Validator.check_schema(schema)
    except (TypeError, ValueError) as error:
        return f"its input_schema is not JSON: {error}"
    except SchemaError as error:
        return f"its input_schema is not a valid JSON Schema: {error.message}"
    for key, value in _members(schema):
        # The validator would fetch such a reference over the network, for each call.
        if key in ("$ref", "$dynamicRef") and isinstance(value, str) and value[:1] != "#":
            return f"its input_schema refers to something outside of itself: {value!r}"
    return None


def _members(schema: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(schema, dict):
        yield from schema.items()
    children = schema.values() if isinstance(schema, dict) else schema
    for child in children:
        if isinstance(child, (dict, list)):
            yield from _members(child)


def _listed(given: object) -> list[Any]:
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unnamed package"
