"""State and helpers that plans share: known variables and frames, and common tool calls."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from prime_ext.models.offline import observations
from prime_ext.models.offline.conversation import Call, Conversation, Result
from prime_ext.models.offline.names import listed, matching, near
from prime_ext.models.offline.observations import Column, Frame, Variable
from prime_ext.models.offline.phrases import PRONOUN
from prime_ext.models.offline.steps import Asking, Step, Stop

AMBIGUOUS = " can be "
"""Text between the user's phrase and the names that match it, in the question "which one?"."""

_SAVING = ("insert_cell", "edit_cell", "delete_cell", "move_cell", "run_cell")
"""Tools after which the whole notebook is saved."""

DECLINED = "You declined that, so I stopped and left everything as it was."


class Bench:
    """State of one run of a plan, filled from the results of the calls that the plan makes."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.last_cell: str | None = None
        """Id of the last cell that this turn inserted or ran."""
        self.unsaved: str | None = None
        """Why the notebook is not saved since this turn changed it, if so."""
        self._variables: list[Variable] | None = None
        self._frames: dict[str, Frame] = {}
        self._recent: str | None = None

    # --- calls ---------------------------------------------------------------------------------

    def call(self, tool: str, say: str = "", /, **arguments: object) -> Asking[Result]:
        """Make one call; a declined call ends the plan."""
        if tool not in self.conversation.tools:
            raise Stop(f"This session does not offer the tool `{tool}` that this takes.")
        given = {key: value for key, value in arguments.items() if value is not None}
        (result,) = yield Step(say, (Call(tool, given),))
        if result.declined:
            raise Stop(declined(result))
        if tool in _SAVING:
            unsaved = observations.unsaved(result.text)
            # A call that failed may have changed nothing, and so saved nothing.
            if unsaved is not None or not result.is_error:
                self.unsaved = unsaved
        return result

    def must(self, tool: str, say: str = "", /, **arguments: object) -> Asking[Result]:
        """Make one call that the rest of the plan depends on; an error ends the plan."""
        result = yield from self.call(tool, say, **arguments)
        if result.is_error:
            raise Stop(f"`{tool}` failed:\n\n{quoted(result.text)}")
        return result

    def cell(self, source: str, say: str = "", *, after: str | None = None) -> Asking[Result]:
        """Insert a code cell, run it, and return the result of the run."""
        inserted = yield from self.must("insert_cell", say, source=source, after=after)
        cell_id = observations.inserted_id(inserted.text)
        if cell_id is None:
            raise Stop("The cell is in the notebook, but I could not tell its id to run it.")
        self.last_cell = cell_id
        self.forget()
        return (yield from self.call("run_cell", cell_id=cell_id))

    def forget(self) -> None:
        """Discard what is known of the namespace, because code has run."""
        self._variables = None
        self._frames.clear()

    # --- variables and frames ------------------------------------------------------------------

    def variables(self) -> Asking[list[Variable]]:
        """Return the variables in the kernel."""
        if self._variables is None:
            result = yield from self.must("list_variables")
            self._variables = observations.variables(result.text)
        return self._variables

    def inspect(self, name: str) -> Asking[Frame]:
        """Return columns and size of the frame in variable ``name``."""
        if name not in self._frames:
            result = yield from self.must("inspect_variable", name=name)
            self._frames[name] = observations.frame(name, result.text)
        return self._frames[name]

    def use(self, name: str) -> None:
        """Make ``name`` the variable that "it" refers to from now on."""
        self._recent = name

    def frame(self, hint: str | None = None, columns: Sequence[str] = ()) -> Asking[Frame]:
        """Return the frame named by ``hint``, else one with ``columns``, else the last one used."""
        known = yield from self.variables()
        frames = [variable for variable in known if variable.is_frame]
        if hint is not None and not re.fullmatch(PRONOUN, hint, re.I):
            found = matching(hint, [variable.name for variable in frames])
            if found:
                self.use(found[0])
                return (yield from self.inspect(found[0]))
            other = next((variable for variable in known if variable.name == hint), None)
            if other is not None and other.type.endswith("Frame"):
                raise Stop(f"`{hint}` is a `{other.type}`; I write pandas code only.")
            if other is not None:
                raise Stop(f"`{hint}` is a `{other.type}`, not a data frame.")
            if len(frames) != 1:
                raise Stop(self._no_such_frame(hint, frames))
        if not frames:
            raise Stop(
                "There is no data frame in the kernel yet. Load one first: `load FILE.csv` "
                "(`list files` shows what is there)."
            )
        order = self._by_recency([variable.name for variable in frames])
        chosen = yield from self._with_columns(order, columns)
        self.use(chosen.name)
        return chosen

    def _with_columns(self, order: list[str], columns: Sequence[str]) -> Asking[Frame]:
        first = yield from self.inspect(order[0])
        if not columns or len(order) == 1:
            return first
        if all(matching(column, first.names) for column in columns):
            return first
        for name in order[1:6]:
            other = yield from self.inspect(name)
            if all(matching(column, other.names) for column in columns):
                return other
        return first

    def _by_recency(self, names: list[str]) -> list[str]:
        """Sort ``names`` by their last use in the conversation, most recent first."""

        def age(name: str) -> int:
            if name == self._recent:
                return -1
            pattern = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
            return next(
                (n for n, text in enumerate(self.conversation.earlier) if pattern.search(text)),
                len(self.conversation.earlier),
            )

        return sorted(names, key=age)

    @staticmethod
    def _no_such_frame(hint: str, frames: list[Variable]) -> str:
        if not frames:
            return (
                f"There is no data frame `{hint}` in the kernel, nor any other. "
                f"Load one first: `load {hint}`."
            )
        return (
            f"There is no data frame `{hint}` in the kernel. "
            f"There are {listed(variable.name for variable in frames)}."
        )

    @staticmethod
    def column(frame: Frame, phrase: str) -> Column:
        """Return the column of ``frame`` that ``phrase`` means.

        Raises
        ------
        Stop
            If no column or several match; the message names the candidates.
        """
        found = matching(phrase, frame.names)
        if len(found) == 1:
            return frame.column(found[0])
        if found:
            raise Stop(f"“{phrase}”{AMBIGUOUS}{listed(found)} of `{frame.name}`. Which one?")
        close = near(phrase, frame.names)
        if not frame.columns:
            raise Stop(f"I could not read the columns of `{frame.name}`.")
        if close:
            raise Stop(
                f"`{frame.name}` has no column “{phrase}”. Near it: {listed(close)}. "
                f"All columns: {listed(frame.names)}."
            )
        raise Stop(f"`{frame.name}` has no column “{phrase}”. It has {listed(frame.names)}.")

    # --- paths ---------------------------------------------------------------------------------

    @property
    def folder(self) -> str:
        """Folder of the notebook, which is the kernel's working directory; ``""`` is the root."""
        return posixpath.dirname(self.conversation.notebook)

    def from_kernel(self, path: str) -> str:
        """Convert a path from the server's root to one relative to the kernel's directory."""
        return posixpath.relpath(path, self.folder or ".")


def declined(result: Result) -> str:
    """Return the reply to a call that was not allowed."""
    if result.text.startswith("Plan mode"):
        return (
            "The permission mode is *plan*, so nothing is changed or run. "
            "Choose another mode in the panel and ask again."
        )
    return f"{DECLINED} What would you like instead?"


def quoted(text: str, lines: int = 40) -> str:
    """Return ``text`` as a fenced block of at most ``lines`` lines, its middle omitted."""
    rows = text.strip("\n").splitlines()
    if len(rows) > lines:
        rest = len(rows) - lines + 1
        rows = [*rows[: lines - 10], f"… {rest} lines left out …", *rows[len(rows) - 9 :]]
    marks = "`" * max(3, 1 + max((len(m) for m in re.findall(r"`{3,}", text)), default=2))
    return f"{marks}\n" + "\n".join(rows) + f"\n{marks}"
