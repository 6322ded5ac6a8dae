"""Attachments of a message, in the form in which a client sends them.

``file`` and ``notebook`` have the same fields as in ``@jupyter/chat``. They can also carry the
content that the browser shows, including unsaved edits and outputs, so that the model sees what the
person saw.
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
    """Selected part of a text. ``start`` and ``end`` are (line, column), counted from 0."""

    start: _Place
    end: _Place
    content: str


class Output(msgspec.Struct):
    """The fields of an nbformat output that are used."""

    output_type: Literal["stream", "error", "display_data", "execute_result", "update_display_data"]
    name: str = "stdout"
    text: str | list[str] = ""
    data: dict[str, Any] = {}
    ename: str = "Error"
    evalue: str = ""
    traceback: list[str] = []


class AttachedCell(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A cell, named by its id. Without ``source`` the server reads the cell itself."""

    id: _Name
    input_type: Literal["code", "markdown", "raw"] = "code"
    index: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Position in the notebook, counted from 0."""
    execution_count: int | None = None
    source: str | None = None
    outputs: list[Output] = []
    selection: Selection | None = None


class _Attachment(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    mention: _Mention | None = None
    """Text that stands for the attachment in the message, e.g. ``@df``."""


class FileAttachment(_Attachment, kw_only=True, tag="file"):
    """A file or folder below the server's root, or a selection in a file."""

    value: _Text
    mimetype: str | None = None
    selection: Selection | None = None


class NotebookAttachment(_Attachment, kw_only=True, tag="notebook"):
    """Cells of a notebook; the whole notebook if ``cells`` is empty."""

    value: _Name
    mimetype: str | None = None
    cells: Annotated[list[AttachedCell], msgspec.Meta(max_length=200)] = []


class ErrorAttachment(_Attachment, kw_only=True, tag="error"):
    """A cell whose execution failed, with its error output."""

    value: _Name
    cells: Annotated[list[AttachedCell], msgspec.Meta(min_length=1, max_length=1)]


class VariableAttachment(_Attachment, kw_only=True, tag="variable"):
    """A variable of the notebook's kernel, with its value at the time of sending."""

    value: _Name


class ImageAttachment(_Attachment, kw_only=True, tag="image"):
    """An image that was pasted or dropped."""

    value: _Name
    mimetype: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    data: str
    """Base64-encoded image."""


Attachment: TypeAlias = (
    FileAttachment | NotebookAttachment | ErrorAttachment | VariableAttachment | ImageAttachment
)
