"""Definition of a tool: a schema for the model, an approval class and a handler."""

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
"""``read`` changes nothing, ``edit`` changes cells, ``write`` changes files, ``run`` runs code."""


@dataclass(frozen=True)
class ToolOutcome:
    """Result of a tool call.

    Parameters
    ----------
    content:
        Content blocks of the Messages API for the model, of type ``text`` or ``image``. They are
        not capped: the agent cuts long text and keeps the full text in ``outputs/``.
    outputs:
        Notebook outputs (nbformat 4) for the panel, if the tool ran code.
    is_error:
        Whether the call failed; ``content`` then says why and what to do.
    left_out:
        Number of characters that were dropped because there were too many to keep.
    """

    content: list[dict[str, Any]]
    outputs: list[dict[str, Any]] = field(default_factory=list)
    is_error: bool = False
    left_out: int = 0

    def __post_init__(self) -> None:
        """Check the types, because an invalid block would make every later request fail.

        Raises
        ------
        TypeError
            With the first part that is not as described.
        """
        _each(self.content, "content", _is_block, _BLOCK)
        _each(self.outputs, "outputs", _is_output, "a notebook output (nbformat 4)")
        for name, kind in (("is_error", bool), ("left_out", int)):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise TypeError(f"ToolOutcome.{name} is {value!r}, not {kind.__name__}")

    @classmethod
    def text(cls, text: str, *, is_error: bool = False) -> ToolOutcome:
        """Return an outcome with a single text block."""
        return cls([{"type": "text", "text": text}], is_error=is_error)


@dataclass(frozen=True)
class ToolContext:
    """Everything that a handler may use. Each call gets a context of its own."""

    call_id: str
    session: Session
    """Session of the call, with its ``id``, ``notebook`` (a path) and ``folder``."""
    kernel: NotebookKernel
    """Kernel of the notebook, started when it is first needed."""
    document: NotebookDocument
    """The notebook, including unsaved edits if it is open in a browser."""
    root: Path
    """Root of the Jupyter server's files. Tools read and write no path outside of it."""
    progress: Callable[[dict[str, Any]], None]
    """Publishes the body of a transient ``progress`` frame, e.g. ``{"outputs": [...]}`` while code
    runs."""
    turn: str | None = None
    """Id of the turn that the call belongs to."""
    previewed: dict[str, Any] = field(default_factory=dict)
    """Notes of the ``preview`` about the state that it has shown.

    The ``handler`` compares them with the present state: a person may take days to decide.
    """
    runs: Runs | None = None
    """Runs of the session in its kernel; ``None`` if no agent made the context."""

    @property
    def workspace(self) -> Workspace:
        """Files that the agent may access; checks every path that the model gives."""
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
    """Question to the person about a call, phrased with the present state of the notebook.

    The id of a cell means nothing to a person, but its position and first line do.
    """

    summary: str
    detail: str | None = None


Handler = Callable[[ToolContext, dict[str, Any]], Awaitable[ToolOutcome]]
Preview = Callable[[ToolContext, dict[str, Any]], Awaitable["Question | str | None"]]


@dataclass(frozen=True)
class Tool:
    """A tool that the model is offered.

    The handler raises ``PrimeError`` for any failure that the model can act on; the agent turns it
    into an error result. The handler must be cancellable, because Stop cancels its task.
    """

    name: str
    description: str
    input_schema: dict[str, Any]
    """JSON Schema of the input. The agent validates the input before it calls ``handler``."""
    approval: ApprovalClass
    handler: Handler
    summary: Callable[[dict[str, Any]], str]
    """Returns one line that describes the call to the person who approves it."""
    detail: Callable[[dict[str, Any]], str | None] = lambda _input: None
    """Returns Markdown to show with the approval, such as the code or a diff."""
    preview: Preview | None = None
    """Asynchronous replacement for ``detail`` that may read a cell or file, e.g. for a diff.

    If set, it is awaited before the approval is requested, and ``detail`` is not used. If it
    returns a ``Question``, that also replaces ``summary``; ``None``: there is nothing to preview.
    If it raises ``PrimeError``, as the handler would, nobody is asked what can only fail: the
    error is the result of the call.
    """

    def definition(self) -> dict[str, Any]:
        """Return the tool definition for the Messages API."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
        }
