"""What a tool is: a schema the model sees, an approval class, and a handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pathlib import Path

    from prime_ext.agent.tools.paths import Workspace
    from prime_ext.agent.tools.runs import Runs
    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.notebook.document import NotebookDocument
    from prime_ext.session.session import Session

ApprovalClass = Literal["read", "edit", "write", "run"]
"""``read`` looks only; ``edit`` changes cells; ``write`` changes files; ``run`` executes code."""


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
    left_out:
        Characters that the text lacks and nothing holds: there were too many to keep.
    """

    content: list[dict[str, Any]]
    outputs: list[dict[str, Any]] = field(default_factory=list)
    is_error: bool = False
    left_out: int = 0

    def __post_init__(self) -> None:
        """Refuse what would make every later request of the session fail.

        Raises
        ------
        TypeError
            Naming the first part that is not as described.
        """
        _each(self.content, "content", _is_block, _BLOCK)
        _each(self.outputs, "outputs", _is_output, "a notebook output (nbformat 4)")
        for name, kind in (("is_error", bool), ("left_out", int)):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise TypeError(f"ToolOutcome.{name} is {value!r}, not {kind.__name__}")

    @classmethod
    def text(cls, text: str, *, is_error: bool = False) -> ToolOutcome:
        """An outcome that is one text."""
        return cls([{"type": "text", "text": text}], is_error=is_error)


@dataclass(frozen=True)
class ToolContext:
    """What a handler may use. One is made for each call."""

    call_id: str
    session: Session
    """The conversation; ``session.id``, ``session.notebook`` and ``session.folder`` name it."""
    kernel: NotebookKernel
    """The notebook's kernel, started when it is first needed."""
    document: NotebookDocument
    """The notebook, unsaved edits of an open one included."""
    root: Path
    """Root of the Jupyter server's files; no path outside it is read or written."""
    progress: Callable[[dict[str, Any]], None]
    """Send a transient ``progress`` frame body, e.g. ``{"outputs": [...]}`` as they come."""
    turn: str | None = None
    """Id of the turn that the call belongs to."""
    previewed: dict[str, Any] = field(default_factory=dict)
    """What a ``preview`` notes of what it has shown, for the ``handler`` to see whether it still
    holds: a person may take days to decide."""
    runs: Runs | None = None
    """The run that the session has going on; ``None`` for tools of other packages."""

    @property
    def workspace(self) -> Workspace:
        """The files that the agent may touch; checks every path that the model gives."""
        from prime_ext.agent.tools.paths import Workspace

        return Workspace(self.root, self.session.folder)


_BLOCK = (
    '{"type": "text", "text": str} or {"type": "image", "source": {"type": "base64", '
    '"media_type": "image/png", "data": base64 without line ends}}'
)


def _each(parts: Any, field_name: str, fits: Callable[[Any], bool], what: str) -> None:
    if not isinstance(parts, list):
        raise TypeError(f"ToolOutcome.{field_name} is a {type(parts).__name__}, not a list")
    for index, part in enumerate(parts):
        if not fits(part):
            raise TypeError(f"ToolOutcome.{field_name}[{index}] is not {what}")


def _is_block(block: Any) -> bool:
    if not isinstance(block, Mapping):
        return False
    if block.get("type") == "text":
        return set(block) == {"type", "text"} and isinstance(block["text"], str)
    source = block.get("source")
    return (
        block.get("type") == "image"
        and set(block) == {"type", "source"}
        and isinstance(source, Mapping)
        and set(source) == {"type", "media_type", "data"}
        and source["type"] == "base64"
        and source["media_type"] in ("image/png", "image/jpeg", "image/gif", "image/webp")
        and isinstance(source["data"], str)
    )


def _is_output(output: Any) -> bool:
    if not isinstance(output, Mapping) or not isinstance(output.get("data", {}), Mapping):
        return False
    return output.get("output_type") in ("stream", "display_data", "execute_result", "error")


@dataclass(frozen=True)
class Question:
    """What a person is asked, where only the present state can put it: the id of a cell says
    nothing to a person, its position and first line do."""

    summary: str
    detail: str | None = None


Handler = Callable[[ToolContext, dict[str, Any]], Awaitable[ToolOutcome]]
Preview = Callable[[ToolContext, dict[str, Any]], Awaitable["Question | str | None"]]


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
    set it is awaited, before the approval is asked for, in place of ``detail``; a ``Question`` also
    stands in for ``summary``. It never fails: what cannot be previewed is ``None``."""

    def definition(self) -> dict[str, Any]:
        """The Messages API's tool definition."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
        }
