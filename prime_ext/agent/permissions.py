"""Whether a tool call goes ahead, waits for a person, or is refused: a pure decision."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from prime_ext.agent.tools.tool import ApprovalClass

Decision = Literal["allow", "ask", "refuse"]


def decide(mode: str, approval: ApprovalClass, tool: str, granted: Collection[str]) -> Decision:
    """Decide on one call.

    Parameters
    ----------
    mode:
        ``ask``: looking is free, changing and running ask. ``edit``: changes of cells are free, the
        rest asks. ``auto``: all is free. ``plan``: looking is free, all else is refused.
    approval:
        Class of the tool.
    tool:
        Its name.
    granted:
        Names of the tools the person has allowed for the session.
    """
    if approval == "read":
        return "allow"
    if mode == "plan":
        return "refuse"
    if mode == "auto" or tool in granted:
        return "allow"
    if mode == "edit" and approval == "edit":
        return "allow"
    return "ask"


def in_force(wanted: str, allowed: Sequence[str], default: str) -> str:
    """The permission mode that counts: what is no longer allowed falls back to the default."""
    if wanted in allowed:
        return wanted
    return default if default in allowed else allowed[0]


PLAN_REFUSAL = (
    "Plan mode: the user wants a proposal, nothing is changed or run. Describe what you would do; "
    "the user can switch the mode in the panel."
)
DECLINED = "The user declined this call. Do not repeat it; ask what they want instead."
