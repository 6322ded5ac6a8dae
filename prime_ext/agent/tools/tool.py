"""What a tool is: a schema the model sees, an approval class, and a handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pathlib import Path

    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.notebook.document import NotebookDocument
    from prime_ext.session.session import Session

ApprovalClass = Literal["read", "edit", "run"]
"""``read`` looks only; ``edit`` changes the notebook or files; ``run`` executes code."""


@dataclass(frozen=True)
class ToolOutcome:
    """What a call came to.

    Parameters
    ----------
    content:
        Messages API blocks for the model, ``text`` and ``image``, uncapped: the agent caps long
        text and keeps the whole in ``outputs/``.
    outputs:
        Notebook outputs (nbformat 4) for the panel, if the tool ran code.
    is_error:
        The call failed; ``content`` says why and what to do.
    """

    content: list[dict[str, Any]]
    outputs: list[dict[str, Any]] = field(default_factory=list)
    is_error: bool = False

    @classmethod
    def text(cls, text: str, *, is_error: bool = False) -> ToolOutcome:
        return cls([{"type": "text", "text": text}], is_error=is_error)


@dataclass(frozen=True)
class ToolContext:
    """What a handler may use. One is made for each call."""

    call_id: str
    session: Session
    kernel: NotebookKernel
    document: NotebookDocument
    root: Path
    """Root of the Jupyter server's files; no path outside it is read or written."""
    progress: Callable[[dict[str, Any]], None]
    """Send a transient ``progress`` frame body, e.g. ``{"outputs": [...]}`` as they come."""


Handler = Callable[[ToolContext, dict[str, Any]], Awaitable[ToolOutcome]]
Preview = Callable[[ToolContext, dict[str, Any]], Awaitable[str | None]]


@dataclass(frozen=True)
class Tool:
    """A tool the model is offered.

    A handler raises ``PrimeError`` for anything the model can act on; the agent turns it into an
    error result. It must be cancellable: Stop cancels the task it runs in.
    """

    name: str
    description: str
    input_schema: dict[str, Any]
    """JSON Schema of the input; the agent validates against it before calling ``handler``."""
    approval: ApprovalClass
    handler: Handler
    summary: Callable[[dict[str, Any]], str]
    """One line for the person about to approve this input."""
    detail: Callable[[dict[str, Any]], str | None] = lambda _input: None
    """Markdown shown with the approval: the code or the diff."""
    preview: Preview | None = None
    """As ``detail``, where the present state of a cell or file is needed, e.g. for a diff. If
    set it is awaited, before the approval is asked for, in place of ``detail``. It never fails:
    what cannot be previewed is ``None``."""

    def definition(self) -> dict[str, Any]:
        """The Messages API's tool definition."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
        }
