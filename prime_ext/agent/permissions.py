"""The decision whether a tool call is allowed, needs an approval, or is refused."""

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
        Permission mode. Reading is allowed in all modes. ``ask``: anything else needs an approval.
        ``edit``: changes of cells are allowed too. ``auto``: everything is allowed. ``plan``:
        anything but reading is refused.
    approval:
        Approval class of the tool.
    tool:
        Name of the tool.
    granted:
        Names of the tools that the person has allowed for the whole session.
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
    """Return the permission mode in force.

    A mode that is no longer allowed is replaced by the default, or by the first allowed mode.
    """
    if wanted in allowed:
        return wanted
    return default if default in allowed else allowed[0]


PLAN_REFUSAL = (
    "Plan mode: the user wants a proposal, nothing is changed or run. Describe what you would do; "
    "the user can switch the mode in the panel."
)
DECLINED = "The user declined this call. Do not repeat it; ask what they want instead."
