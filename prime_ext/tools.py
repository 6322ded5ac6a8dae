"""What a package needs to give the agent tools of its own; docs/tools.md shows how.

A package names a `Tool`, or a list of them, under the entry-point group ``prime_ext.tools``. What
this module exports is stable: a change that would break a package is announced in the changelog
and comes with a new major version.

Tool
    Name, description and JSON Schema for the model; approval class; handler.
ToolContext
    What a handler may use: the session, the notebook, its kernel, the server's root.
ToolOutcome
    What a call came to: text and images for the model, outputs for the panel.
ApprovalClass
    ``"read"``, ``"edit"`` or ``"run"``: when a person is asked.
PrimeError
    Raised by a handler for what the model can act on: a message, and a hint that says what to do.
run_outcome
    The outcome of code that was run with ``context.kernel.execute``.
"""

from __future__ import annotations

from prime_ext.agent.tools.run_outcome import run_outcome
from prime_ext.agent.tools.tool import ApprovalClass, Tool, ToolContext, ToolOutcome
from prime_ext.errors import PrimeError

__all__ = [
    "ApprovalClass",
    "PrimeError",
    "Tool",
    "ToolContext",
    "ToolOutcome",
    "run_outcome",
]
