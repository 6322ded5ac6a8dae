"""What people attach to a message, as a request says it.

The shapes of ``file`` and ``notebook`` are those of ``@jupyter/chat``. What the browser has in
front of it, unsaved edits and outputs included, can come along with them, so that the model is
told what the person saw.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

MAX_ATTACHMENTS = 50

_Text = Annotated[str, msgspec.Meta(max_length=4096)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
_Mention = Annotated[str, msgspec.Meta(max_length=300)]
_Place = tuple[Annotated[int, msgspec.Meta(ge=0)], Annotated[int, msgspec.Meta(ge=0)]]


class Selection(msgspec.Struct, forbid_unknown_fields=True):
    """Part of a text, as it was selected. Line and column count from 0."""

    start: _Place
    end: _Place
    content: str


class Output(msgspec.Struct):
    """An nbformat output, as far as it is looked at."""

    output_type: Literal["stream", "error", "display_data", "execute_result", "update_display_data"]
    name: str = "stdout"
    text: str | list[str] = ""
    data: dict[str, Any] = {}
    ename: str = "Error"
    evalue: str = ""
    traceback: list[str] = []


class AttachedCell(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A cell by its id. Without ``source`` the server reads it."""

    id: _Name
    input_type: Literal["code", "markdown", "raw"] = "code"
    index: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Position from 0."""
    execution_count: int | None = None
    source: str | None = None
    outputs: list[Output] = []
    selection: Selection | None = None


class _Attachment(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    mention: _Mention | None = None
    """What stands for it in the text of the message, e.g. ``@df``."""


class FileAttachment(_Attachment, kw_only=True, tag="file"):
    """A file or folder below the server's root, or what is selected in it."""

    value: _Text
    mimetype: str | None = None
    selection: Selection | None = None


class NotebookAttachment(_Attachment, kw_only=True, tag="notebook"):
    """Cells of a notebook; all of them if none are named."""

    value: _Name
    mimetype: str | None = None
    cells: Annotated[list[AttachedCell], msgspec.Meta(max_length=200)] = []


class ErrorAttachment(_Attachment, kw_only=True, tag="error"):
    """A cell whose run has failed, with what it says."""

    value: _Name
    cells: Annotated[list[AttachedCell], msgspec.Meta(min_length=1, max_length=1)]


class VariableAttachment(_Attachment, kw_only=True, tag="variable"):
    """A variable of the notebook's kernel; its value at this moment."""

    value: _Name


class ImageAttachment(_Attachment, kw_only=True, tag="image"):
    """An image that was pasted or dropped."""

    value: _Name
    mimetype: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    data: str
    """Base64."""


Attachment: TypeAlias = (
    FileAttachment | NotebookAttachment | ErrorAttachment | VariableAttachment | ImageAttachment
)
