"""All tools by name, and the check of what a model passes them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from prime_ext.agent.tools.tool import Tool
from prime_ext.errors import PrimeError


class ToolRegistry:
    """The tools a session offers, in a fixed order."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    @classmethod
    def default(cls) -> ToolRegistry:
        """The tools that come with the package."""
        from prime_ext.agent.tools import compact, files, kernel, notebook, recall

        return cls(
            [
                *kernel.TOOLS,
                *notebook.TOOLS,
                *files.TOOLS,
                *recall.TOOLS,
                *compact.TOOLS,
            ]
        )

    def definitions(self) -> list[dict[str, Any]]:
        """What the model is sent."""
        return [tool.definition() for tool in self._tools.values()]

    def get(self, name: str) -> Tool:
        """The tool called ``name``.

        Raises
        ------
        PrimeError
            ``unknown_tool``, naming those that exist.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise PrimeError(
                f"There is no tool called {name!r}.",
                code="unknown_tool",
                hint=f"The tools are: {', '.join(self._tools)}.",
            )
        return tool

    def check(self, tool: Tool, arguments: Any) -> dict[str, Any]:
        """``arguments`` if they fit the tool's schema.

        Raises
        ------
        PrimeError
            ``invalid_arguments``, naming the first thing that does not fit.
        """
        from jsonschema.exceptions import best_match

        error = best_match(self._validators[tool.name].iter_errors(arguments))
        if error is not None:
            at = "".join(f"[{part!r}]" for part in error.absolute_path)
            raise PrimeError(
                f"The arguments of {tool.name} are not valid{f' at {at}' if at else ''}: "
                f"{error.message}",
                code="invalid_arguments",
                hint=f"The schema is {json.dumps(tool.input_schema)}",
            )
        return dict(arguments)

    @cached_property
    def _validators(self) -> dict[str, Any]:
        from jsonschema import Draft202012Validator

        return {t.name: Draft202012Validator(t.input_schema) for t in self._tools.values()}
