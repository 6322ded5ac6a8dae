"""Public API for packages that add tools to the agent; see docs/tools.md.

A package registers a `Tool`, or a list of them, in the entry-point group ``prime_ext.tools``. The
names exported here are stable: an incompatible change is announced in the changelog and comes with
a new major version.

Tool
    Name, description and JSON Schema for the model; approval class; handler.
ToolContext
    What a handler may use: the session, the notebook, its kernel, the server's root.
ToolOutcome
    Result of a call: text and images for the model, outputs for the panel.
ApprovalClass
    ``"read"``, ``"edit"``, ``"write"`` or ``"run"``; decides when the user is asked for approval.
PrimeError
    Raised by a handler for an error that the model can act on, with a message and a hint.
run_outcome
    Converts the result of ``context.kernel.execute`` to a `ToolOutcome`.
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
