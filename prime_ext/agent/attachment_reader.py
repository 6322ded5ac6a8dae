"""Reads the attachments of a message, when it is sent, into content for the model."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from prime_ext.agent.attachment import (
    AttachedCell,
    Attachment,
    ErrorAttachment,
    FileAttachment,
    ImageAttachment,
    NotebookAttachment,
    Output,
    Selection,
    VariableAttachment,
)
from prime_ext.agent.image_scaling import scaled
from prime_ext.agent.prompts import attachment_block
from prime_ext.agent.tools.files import describe_folder, read_file
from prime_ext.agent.tools.paths import Workspace, refuse_secret
from prime_ext.agent.tools.run_outcome import render_outputs
from prime_ext.context.cap import cap_text
from prime_ext.context.image_limits import refusal
from prime_ext.context.tokens import count_text
from prime_ext.errors import PrimeError
from prime_ext.notebook.cell import Cell, clean_source, fence
from prime_ext.notebook.describe import describe_cell
from prime_ext.notebook.lease import normal_path
from prime_ext.session.records import Block

if TYPE_CHECKING:
    from prime_ext.kernel.notebook_kernel import NotebookKernel
    from prime_ext.notebook.document import NotebookDocument
    from prime_ext.session.session import Session

SHARED_BY = 4
"""All attachments of a message together may have this many times the tokens of one."""


@dataclass(frozen=True)
class _Part:
    """One piece of content for the model, with its source."""

    kind: str
    name: str
    text: str
    rest: str
    """Where the model finds the text that is cut off."""
    images: list[Block]
    cell: Cell | None = None
    """The cell, if the part shows its full source."""


class AttachmentReader:
    """Read the attachments of one session's messages.

    Parameters
    ----------
    document:
        Returns the notebook at a path, for this session.
    """

    def __init__(
        self,
        session: Session,
        kernel: NotebookKernel,
        document: Callable[[str], NotebookDocument],
        root: Path,
    ) -> None:
        self._session = session
        self._kernel = kernel
        self._document = document
        self._root = root

    async def read(self, attachments: list[Attachment], max_tokens: int) -> list[dict[str, Any]]:
        """Read attachments, and return for each the fields to show and ``content`` for the model.

        Parameters
        ----------
        max_tokens:
            Size limit for the text of one attachment. Several attachments share at most `SHARED_BY`
            times as much. Longer text is cut in the middle, with a marker in its place.

        Raises
        ------
        PrimeError
            If an attachment cannot or must not be read. The message is then not sent.
        """
        share = min(max_tokens, SHARED_BY * max_tokens // max(1, len(attachments)))
        return [await self._read(attachment, share) for attachment in attachments]

    async def _read(self, attachment: Attachment, max_tokens: int) -> dict[str, Any]:
        parts = [part async for part in self._parts(attachment)]
        share = max(1, max_tokens // len(parts))
        content: list[Block] = []
        for part in parts:
            text, cut = await asyncio.to_thread(
                cap_text, part.text, share, count_text, where=part.rest
            )
            if attachment.mention:
                text = f"In the message it is called {attachment.mention}.\n{text}"
            images = await asyncio.to_thread(_scaled, part.images)
            content += [attachment_block(part.kind, part.name, text), *images]
            if part.cell is not None and not cut:
                self._seen(attachment.value, part.cell)
        return {**_facts(attachment, parts), "content": content}

    def _seen(self, path: str, cell: Cell) -> None:
        """Note that the model has seen this state of a cell.

        A later edit by the model then conflicts with any change made in between.
        """
        self._document(path).seen.shown(cell)

    async def _parts(self, attachment: Attachment) -> AsyncIterator[_Part]:
        # The session's own notebook is never refused: the user started the session for it.
        own = normal_path(attachment.value) == self._session.notebook
        if isinstance(attachment, NotebookAttachment | ErrorAttachment) and not own:
            refuse_secret(attachment.value, attachment.value)
        match attachment:
            case FileAttachment():
                yield await asyncio.to_thread(self._file, attachment)
            case VariableAttachment():
                yield await self._variable(attachment.value)
            case ImageAttachment():
                yield await asyncio.to_thread(_image, attachment)
            case NotebookAttachment() if not attachment.cells:
                yield await self._notebook(attachment.value)
            case NotebookAttachment() | ErrorAttachment():
                kind = "error" if isinstance(attachment, ErrorAttachment) else "cell"
                for attached in attachment.cells:
                    cell = await self._cell(attachment.value, attached, attachment.mention)
                    if attached.selection is not None:
                        yield _selected(attachment.value, attached.selection, cell)
                    else:
                        yield _whole_cell(kind, attachment.value, cell, attached.outputs)

    # --- cells --------------------------------------------------------------------------------

    async def _cell(self, path: str, attached: AttachedCell, mention: str | None) -> Cell:
        """Return the cell as the browser sent it; if that was only the id, read the notebook."""
        if attached.source is not None:
            return Cell(
                id=attached.id,
                cell_type=attached.input_type,
                source=clean_source(attached.source),
                index=attached.index if attached.index is not None else -1,
                execution_count=attached.execution_count,
                outputs=list(map(_plain, attached.outputs)),
            )
        cells = await self._document(path).cells()
        cell = next((cell for cell in cells if cell.id == attached.id), None)
        if cell is None:
            # This message is for a person, so it does not name the cell's id.
            called = f"The cell {mention}" if mention else "An attached cell"
            raise PrimeError(
                f"{called} is no longer in the notebook.",
                code="cell_not_found",
                hint="Remove it from the message, or choose another one.",
                status=404,
            )
        attached.outputs = _known(cell.outputs)
        attached.index, attached.input_type = cell.index, cell.cell_type  # type: ignore[assignment]
        return cell

    async def _notebook(self, path: str) -> _Part:
        cells = await self._document(path).cells()
        text = "\n\n".join(describe_cell(cell, len(cells)) for cell in cells)
        return _Part("notebook", path, text or "It has no cells.", "the notebook", [])

    # --- files and variables ------------------------------------------------------------------

    def _file(self, attachment: FileAttachment) -> _Part:
        workspace = Workspace(self._root, self._session.folder)
        found = workspace.find(attachment.value)
        shown = workspace.relative(found)
        if attachment.selection is not None:
            return _selected(shown, attachment.selection)
        if found.is_dir():
            return _Part("folder", shown, describe_folder(workspace, attachment.value), shown, [])
        try:
            content = read_file(workspace, attachment.value)
        except PrimeError as error:
            if error.code not in ("binary_file", "file_too_large", "image_refused"):
                raise
            # The model is told that the file exists and how to load it.
            content = [{"type": "text", "text": f"{error.message} {error.hint}"}]
        text = "\n".join(block["text"] for block in content if block["type"] == "text")
        images = [block for block in content if block["type"] == "image"]
        return _Part("file", shown, text, shown, images)

    async def _variable(self, name: str) -> _Part:
        if await self._kernel.find() is None:
            raise PrimeError(
                f"The notebook has no running kernel, so there is no variable {name!r}.",
                code="no_kernel",
                hint="Run the cell that defines it, or remove it from the message.",
                status=409,
            )
        answer = await self._kernel.inspect(name)
        images = []
        if answer.get("image") is not None:
            images.append({"type": "image", "source": {"type": "base64", **answer["image"]}})
        text = f"As it was in the kernel when the message was written:\n{answer['text']}"
        return _Part("variable", name, text, "the kernel", images)


def _whole_cell(kind: str, path: str, cell: Cell, outputs: list[Output]) -> _Part:
    text = describe_cell(cell, outputs=False)
    texts, images = render_outputs(list(map(_plain, outputs)))
    if texts:
        text += "\nIts output:\n" + "\n".join(texts)
    return _Part(kind, path, text, "the cell", images, cell)


def _selected(path: str, selection: Selection, cell: Cell | None = None) -> _Part:
    first, last = selection.start[0] + 1, selection.end[0] + 1
    lines = f"Line {first}" if first == last else f"Lines {first} to {last}"
    where = f" of {describe_cell(cell, outputs=False).splitlines()[0]}" if cell is not None else ""
    text = f"{lines}{where}:\n{fence(clean_source(selection.content))}"
    return _Part("selection", path, text, "the cell" if cell is not None else path, [])


def _image(attachment: ImageAttachment) -> _Part:
    source = {
        "type": "base64",
        "media_type": attachment.mimetype,
        "data": "".join(attachment.data.split()),
    }
    block = scaled({"type": "image", "source": source})
    reason = refusal(block)
    if reason is not None:
        raise PrimeError(
            f"The image {attachment.value!r} cannot be sent: {reason}.",
            code="image_refused",
            hint="Attach a smaller one, as PNG or JPEG.",
        )
    return _Part("image", attachment.value, "The image that follows.", "", [block])


def _scaled(images: list[Block]) -> list[Block]:
    return [scaled(image) for image in images]


def _known(outputs: Sequence[Any]) -> list[Output]:
    """Return the outputs that are valid nbformat 4; a file may also contain others."""
    known = []
    for output in outputs:
        with contextlib.suppress(msgspec.ValidationError):
            known.append(msgspec.convert(output, Output))
    return known


def _plain(output: Output) -> dict[str, Any]:
    """Return the output with texts joined, and without data that is neither text nor JSON."""
    data = {
        mime: value if mime.endswith("json") else "".join(value)
        for mime, value in output.data.items()
        if mime.endswith("json")
        or isinstance(value, str)
        or (isinstance(value, list) and all(isinstance(line, str) for line in value))
    }
    text = output.text if isinstance(output.text, str) else "".join(output.text)
    return {**msgspec.to_builtins(output), "text": text, "data": data}


def _facts(attachment: Attachment, parts: list[_Part]) -> dict[str, Any]:
    """Return the fields that show an attachment in the conversation, without its content."""
    facts: dict[str, Any] = msgspec.to_builtins(attachment)
    facts.pop("data", None)
    if isinstance(attachment, FileAttachment) and parts[0].kind == "folder":
        facts["mimetype"] = "inode/directory"
    for holder in (facts, *facts.get("cells", ())):
        if holder.get("selection"):
            holder["selection"] = {place: holder["selection"][place] for place in ("start", "end")}
    for cell, part in zip(facts.get("cells", ()), parts, strict=False):
        cell.pop("source", None)
        cell.pop("outputs", None)
        if part.cell is not None:
            cell["first_line"] = part.cell.first_line
    return facts
