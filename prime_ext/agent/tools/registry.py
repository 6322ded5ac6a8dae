"""All tools by name, and the validation of their arguments."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Collection, Iterable
from typing import Any

from prime_ext.agent.tools.tool import Tool
from prime_ext.clean_text import well_formed
from prime_ext.errors import PrimeError
from prime_ext.session.excerpts import fitted

MAX_ERROR_CHARS = 300
"""Maximum length of the validation message, which quotes the argument. The model has the argument
in its context anyway."""


class ToolRegistry:
    """The tools that a new session offers to its model, in a fixed order."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._packages: dict[str, str] = {}
        self._validators: dict[str, Any] = {}
        self._loading = asyncio.Lock()
        self._loaded = False

    @classmethod
    def default(cls) -> ToolRegistry:
        """Return a registry of the tools that come with this package."""
        from prime_ext.agent.tools import (
            compact,
            file_edits,
            files,
            kernel,
            notebook,
            recall,
            runs,
            search_files,
        )

        return cls(
            [
                *kernel.TOOLS,
                *notebook.TOOLS,
                *runs.TOOLS,
                *files.TOOLS,
                *search_files.TOOLS,
                *file_edits.TOOLS,
                *recall.TOOLS,
                *compact.TOOLS,
            ]
        )

    async def load_packages(self, log: logging.Logger) -> None:
        """Add the tools of other packages and log those that do not work.

        Only the first call does anything.
        """
        async with self._loading:
            if self._loaded:
                return
            from prime_ext.agent.tools.packages import find_tools

            found, problems = await asyncio.to_thread(find_tools, frozenset(self._tools))
            for problem in problems:
                log.warning("Package %s: %s", problem.package, problem.message)
            for packaged in found:
                self._tools[packaged.tool.name] = packaged.tool
                self._packages[packaged.tool.name] = packaged.package
            self._loaded = True

    def package(self, name: str) -> str | None:
        """Return the package that a tool comes from, or ``None`` for a tool of this package."""
        return self._packages.get(name)

    def definitions(self) -> list[dict[str, Any]]:
        """Return the definitions of all tools, as the Messages API takes them."""
        return [tool.definition() for tool in self._tools.values()]

    def get(self, name: str, offered: Collection[str] | None = None) -> Tool:
        """Return the tool called ``name``.

        Parameters
        ----------
        offered:
            Names of the tools that the session's model was offered; by default all tools.

        Raises
        ------
        PrimeError
            ``unknown_tool``, with the names that exist; ``tool_gone`` if the tool was available
            when the session's tools were frozen, but no longer is.
        """
        offered = self._tools if offered is None else offered
        if name not in offered:
            raise PrimeError(
                f"There is no tool called {name!r}.",
                code="unknown_tool",
                hint=f"The tools are: {', '.join(n for n in offered if n in self._tools)}.",
            )
        if name not in self._tools:
            raise PrimeError(
                f"The tool {name!r} is not there any more: the package it came from was "
                "uninstalled, or could not be loaded.",
                code="tool_gone",
                hint="Do without it, and tell the user, who can install the package again and "
                "restart the server.",
            )
        return self._tools[name]

    def check(self, tool: Tool, arguments: Any) -> dict[str, Any]:
        """Return ``arguments`` if they are valid for the tool's schema.

        Floats with an integral value become integers, and lone surrogates U+FFFD.

        Raises
        ------
        PrimeError
            ``invalid_arguments``, with the most relevant violation of the schema.
        """
        from jsonschema.exceptions import best_match

        error = best_match(self._validator(tool).iter_errors(arguments))
        if error is not None:
            at = "".join(f"[{part!r}]" for part in error.absolute_path)
            raise PrimeError(
                f"The arguments of {tool.name} are not valid{f' at {at}' if at else ''}: "
                f"{fitted([error.message], MAX_ERROR_CHARS)[0]}",
                code="invalid_arguments",
                hint=f"The schema is {json.dumps(tool.input_schema)}",
            )
        return {name: _encodable(_integral(value)) for name, value in arguments.items()}

    def _validator(self, tool: Tool) -> Any:
        from jsonschema import Draft202012Validator

        if tool.name not in self._validators:
            self._validators[tool.name] = Draft202012Validator(tool.input_schema)
        return self._validators[tool.name]


def _integral(value: Any) -> Any:
    """Convert a float such as 1.0 to an integer: JSON Schema accepts it as one, Python does not."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _encodable(value: Any) -> Any:
    """Replace lone surrogates, which JSON may contain, but neither a file nor a message."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, dict):
        return {well_formed(name): _encodable(item) for name, item in value.items()}
    return value
