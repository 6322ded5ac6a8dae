"""Records of changes to the notebook and to files, and of their undo."""

from __future__ import annotations

from typing import Any, ClassVar

from prime_ext.session.records.record import Record


class NotebookOp(Record, frozen=True, kw_only=True, omit_defaults=True, tag="notebook_op"):
    kind: ClassVar[str] = "notebook_op"

    op_id: str
    op: str
    """``insert_cell``, ``edit_cell``, ``delete_cell``, ``move_cell`` or ``run_cell``."""
    cell_id: str
    status: str
    """``applied``, ``conflict`` or ``failed``."""
    writer: str
    """``browser`` or ``server``."""
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    """``{source, hash, cell_type, index, prev, next}`` of the cell before and after the operation,
    for an undo. ``prev`` and ``next`` are the ids of its neighbours, ``hash`` is the hash of the
    source before redaction. For a conflict only the two sources are given."""
    reason: str | None = None
    """Why the operation failed or, if it was applied, why it is not on disk."""
    code: str | None = None
    """Stable name of the error that ``reason`` describes, if it is an error."""
    kept: str | None = None
    """Name of the file in ``outputs/`` with the cell (nbformat) as it was before it was deleted, or
    before the turn ran it for the first time."""
    reverts: str | None = None
    """Id of the turn whose operation this one undoes or, for a conflict, was to undo."""


class FileChange(Record, frozen=True, kw_only=True, omit_defaults=True, tag="file_change"):
    """A change of a file by ``edit_file`` or ``write_file``."""

    kind: ClassVar[str] = "file_change"

    path: str
    """Path of the file, relative to the server's root."""
    before_hash: str | None = None
    """SHA-256 of the content before; ``None`` if the file did not exist."""
    after_hash: str
    """SHA-256 of the content after."""
    kept: str | None = None
    """Name of the file in ``outputs/`` with the content before. ``None`` if the file did not exist
    or its content could not be kept, e.g. because it holds a secret."""


class Revert(Record, frozen=True, kw_only=True, omit_defaults=True, tag="revert"):
    """The user's undo of the changes that the agent made in ``turn``."""

    kind: ClassVar[str] = "revert"

    cells: list[dict[str, Any]] = []
    """``{cell_id, outcome, current?, earlier?, code?, reason?, outputs?}``.

    ``outcome`` is ``restored``, ``removed``, ``inserted``, ``moved``, or, if the cell was left
    unchanged, ``conflict`` or ``failed``. ``current`` is then its source now and ``earlier`` the
    source before the turn. ``reason`` is a sentence and ``code`` its stable name. ``outputs`` is
    ``restored`` or ``cleared`` if the cell showed outputs of the reverted source."""
    files: list[dict[str, Any]] = []
    """``{path, outcome, code?, reason?}``, where ``outcome`` is ``restored``, ``removed``,
    ``conflict`` or ``failed``."""
    unsaved: str | None = None
    """Why the notebook is not on disk yet, although it was reverted in the browser."""
