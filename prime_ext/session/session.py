"""A live session: its log, the state derived from its records, and its subscribers."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from prime_ext.errors import PrimeError
from prime_ext.session.log import mend
from prime_ext.session.outputs import OUTPUTS_NAME, Outputs
from prime_ext.session.recall import Recall
from prime_ext.session.records import (
    FORMAT,
    AnyRecord,
    AssistantMessage,
    CompactionEnd,
    RunEnd,
    SessionStart,
    Settings,
    Title,
    ToolResult,
    TurnEnd,
    UserMessage,
)
from prime_ext.session.stream import Stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from pathlib import Path

    from prime_ext.redaction import Redaction
    from prime_ext.session.log import SessionLog
    from prime_ext.session.recall import Excerpt, Hit
    from prime_ext.session.records import Block
    from prime_ext.session.stream import EndReason, Frame, Subscription


class Session:
    """A session that this process has open for writing.

    All state is derived from the log and updated by ``append``; it is not stored anywhere else. Use
    it only from the event loop's thread, except for methods that say otherwise.
    """

    def __init__(self, id: str, folder: Path, log: SessionLog) -> None:  # noqa: A002
        refuse_newer(id, log)
        start = next(iter(log.get_all(log.seqs_of("session_start")[:1])), None)
        if not isinstance(start, SessionStart):
            raise PrimeError(
                f"The log of session {id} has no readable beginning.",
                code="session_damaged",
                hint=f"Look at {log.path}, and start a new session.",
                status=500,
            )
        self.id = id
        self.folder = folder
        self.log = log
        self.redact: Redaction | None = None
        """Removes secrets from records before they are written, and from frames and files."""
        self.on_append: Callable[[AnyRecord], None] | None = None
        """Called with every record as it was stored, before it is sent to subscribers."""
        self.recall = Recall(folder, log)
        self.outputs = Outputs(folder / OUTPUTS_NAME)
        self._stream = Stream(log)
        self._start = start
        self.notebook = start.notebook
        self.title = start.title
        self.permission_mode = start.permission_mode
        self.restore = start.restore
        """When variables are restored automatically. ``None``: as configured on the server."""
        self.model = start.model
        """Model in use, for which system prompt and tools were made."""
        self.provider = start.provider
        self.chosen_model = start.model
        """Model that the user chose last, used from the next compaction on."""
        self.chosen_provider = start.provider
        self.system: list[Block] = start.system
        self.tools: list[dict[str, Any]] = start.tools
        """System prompt and tools in use."""
        self.windows: dict[str, int] = {}
        """Model id → context window in tokens, where its server reported it in a refusal."""
        self.server_refused = False
        """Whether the model's server refused, or failed, to edit or compact the context."""
        self.going_run: ToolResult | None = None
        """Last result about a run that outlasted its call and has not ended."""
        self.compaction: CompactionEnd | None = None
        """The compaction whose summary begins the context, if any."""
        self._begun = False
        """Whether the context holds more than system prompt and tools."""
        self._context_from = start.seq + 1
        """``seq`` of the first record of the context after ``session_start``."""
        self._context: list[AnyRecord] = [start]
        self._restore()

    def _restore(self) -> None:
        """Derive the state from the log, reading only the relevant records."""
        first_message = self.log.seqs_of("user_message", "assistant_message")[:1]
        turning_points = self.log.seqs_of("settings", "title", "compaction_end")
        for record in self.log.get_all(sorted(first_message + turning_points)):
            self._follow(record)
        self._context = [self._head(), *self.log.read(self._context_from - 1)]
        if self.compaction is not None and self.compaction.run_seq is not None:
            answer = self.log.get(self.compaction.run_seq)
            self.going_run = answer if isinstance(answer, ToolResult) else None
        for record in self._context:
            self._follow_run(record)

    def _head(self) -> SessionStart:
        """Return ``session_start`` with the settings that compactions have changed since."""
        if self.compaction is None:
            return self._start
        return msgspec.structs.replace(
            self._start,
            provider=self.provider,
            model=self.model,
            system=self.system,
            tools=self.tools,
        )

    def _follow(self, record: AnyRecord) -> None:
        """Update the state by ``record``."""
        if isinstance(record, (UserMessage, AssistantMessage)):
            self._begun = True
        elif isinstance(record, Title):
            self.title = record.title
        elif isinstance(record, Settings):
            self.permission_mode = record.permission_mode or self.permission_mode
            self.notebook = record.notebook or self.notebook
            self.restore = record.restore or self.restore
            self.chosen_model = record.model or self.chosen_model
            self.chosen_provider = record.provider or self.chosen_provider
            self.windows.update(record.windows)
            self.server_refused |= record.server_side is False
            if not self._begun:
                self.model, self.provider = self.chosen_model, self.chosen_provider
        elif isinstance(record, CompactionEnd) and _rewrites_context(record):
            self._begun = True
            self.compaction = record
            # A damaged record may hold any number, but the context never grows backwards.
            kept_from = min(record.kept_from_seq or record.seq, record.seq)
            self._context_from = max(self._context_from, kept_from)
            self.model = record.model or self.model
            self.provider = record.provider or self.provider
            self.system = self.system if record.system is None else record.system
            self.tools = self.tools if record.tools is None else record.tools

    def _follow_run(self, record: AnyRecord) -> None:
        if isinstance(record, ToolResult) and record.run is not None:
            self.going_run = record if record.goes_on else None
        elif isinstance(record, RunEnd):
            ended = self.going_run is not None and self.going_run.run == record.tool_use_id
            self.going_run = None if ended else self.going_run

    # --- Records -------------------------------------------------------------------------

    def context_records(self) -> list[AnyRecord]:
        """Return the records that the context is projected from, oldest first, as a new list.

        The first is ``session_start`` with the settings now in use. Then follow all records from
        the ``kept_from_seq`` of the last compaction that wrote a summary (from its own record if it
        kept nothing), or all records if there was no such compaction.
        """
        return list(self._context)

    def records_of(self, *kinds: str) -> list[AnyRecord]:
        """Return all records of these kinds in the log, oldest first. May be called in a thread."""
        return self.log.get_all(self.log.seqs_of(*kinds))

    def append(self, record: AnyRecord, *, sync: bool = False) -> AnyRecord:
        """Redact ``record``, append it to the log and send it to subscribers.

        Parameters
        ----------
        sync:
            Wait for an fsync, so that the record survives a power cut.

        Returns
        -------
        AnyRecord
            The record as it was stored, with ``seq``, ``id`` and ``ts``.

        Raises
        ------
        PrimeError
            ``session_not_written`` (507) if the log cannot be written.
        """
        with self._written_or_told():
            stored = self.log.append(record, redact=self.redact)
        self._context.append(stored)
        self._follow(stored)
        self._follow_run(stored)
        if stored is self.compaction:
            kept = [r for r in self._context[1:] if r.seq >= self._context_from]
            self._context = [self._head(), *kept]
        if self.on_append is not None:
            self.on_append(stored)
        self._stream.publish_record(msgspec.to_builtins(stored), self.log.last_length)
        if sync:
            self.sync()
        if isinstance(stored, TurnEnd):
            self._index_in_background()
        return stored

    def _index_in_background(self) -> None:
        """Update the search index in a thread, so that the next search need not wait for it."""
        with contextlib.suppress(RuntimeError):  # Without an event loop the next search does it.
            asyncio.get_running_loop().run_in_executor(None, self.recall.catch_up)

    def sync(self) -> None:
        """Wait until every record is on the disk (fsync). May be called in a thread."""
        with self._written_or_told():
            self.log.sync()

    @contextlib.contextmanager
    def _written_or_told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise PrimeError(
                f"The session could not be written: {error.strerror or error}.",
                code="session_not_written",
                hint=f"Check free space and permissions of {self.folder}, then send again.",
                status=507,
            ) from error

    # --- Files in outputs/ ---------------------------------------------------------------

    def clean(self, text: str | None) -> str | None:
        """Return ``text`` as a record would store it: valid Unicode, without secrets."""
        return text if text is None or self.redact is None else self.redact(mend(text))

    def keep(self, name: str, data: bytes, *, text: str) -> bool:
        """Write ``data`` to ``outputs/{name}``.

        Nothing is written if ``text``, the textual content of ``data``, holds a secret.

        Returns
        -------
        bool
            Whether the file was written.
        """
        if self.redact is not None and self.redact(text) != text:
            return False
        try:
            self.outputs.keep(name, data)
        except OSError:
            return False
        return True

    # --- Searching and reading ------------------------------------------------------------------

    def search(
        self,
        query: str,
        kinds: Sequence[str] | None = None,
        before: int | None = None,
        limit: int = 20,
    ) -> list[Hit]:
        """Return matching records, best match first. See ``Recall.search``. Call in a thread."""
        return self.recall.search(query, kinds, before, limit)

    def read(self, seqs: Sequence[int], max_chars: int = 12_000) -> list[Excerpt]:
        """Return the text of records. See ``Recall.read``. Call in a thread."""
        return self.recall.read(seqs, max_chars)

    # --- Watching ------------------------------------------------------------------------

    @property
    def watched(self) -> bool:
        """Whether the session has live subscribers."""
        return bool(self._stream.subscribers)

    @property
    def state(self) -> dict[str, Any]:
        """The last ``ISessionState`` that was published."""
        return self._stream.state

    def set_state(self, state: dict[str, Any]) -> None:
        """Store ``state`` and send it to all subscribers."""
        self.publish({"type": "state", "state": state})

    def publish(self, frame: Frame) -> None:
        """Send a transient frame, which is not recorded, to all subscribers.

        For later subscribers, ``delta`` frames are kept until the message is recorded or reset by a
        ``delta_reset``, and ``progress`` frames until the activity ends. Secrets are removed from
        ``progress`` frames, which show the output of code.
        """
        size = None
        if frame["type"] == "progress" and self.redact is not None:
            line = _line(frame)
            if line is None or self.redact.is_due(line):
                frame = self.redact.throughout(frame)
            else:
                size = len(line)
        self._stream.publish(frame, size)

    @asynccontextmanager
    async def subscribe(self, after: int = 0) -> AsyncIterator[Subscription]:
        """Subscribe to frames: a replay of the log, a ``ready`` frame, then live frames.

        Every record with ``seq > after`` is delivered exactly once and in order, including records
        that are appended during the replay.
        """
        subscription = self._stream.subscription(after)
        try:
            yield subscription
        finally:
            await subscription.aclose()

    @property
    def is_closed(self) -> bool:
        """Whether the session was closed or deleted, so that nothing can be appended any more."""
        return self._stream.ended is not None

    @property
    def is_deleted(self) -> bool:
        """Whether the session was deleted while this process had it open."""
        return self._stream.ended == "deleted"

    def end_subscriptions(self, reason: EndReason = "closed") -> None:
        """End every subscription, because the session is about to be closed."""
        self._stream.end(reason)

    def close(self, reason: EndReason = "closed") -> None:
        """End every subscription and close the log and the search index."""
        self.end_subscriptions(reason)
        self.recall.close()
        self.log.close()


def refuse_newer(session_id: str, log: SessionLog) -> None:
    """Check that this version can go on with a log.

    Raises
    ------
    PrimeError
        ``session_newer`` (409).
    """
    if log.format > FORMAT:
        raise PrimeError(
            f"Session {session_id} was written by a newer version of prime_ext, in format "
            f"{log.format}; this version knows format {FORMAT}.",
            code="session_newer",
            hint="Install that version again, or start a new session. Nothing was changed.",
            status=409,
        )


def _rewrites_context(record: CompactionEnd) -> bool:
    # A prune only shortens tool results in place, as its own record says.
    return record.outcome == "ok" and record.path != "prune"


def _line(frame: Frame) -> bytes | None:
    """Return ``frame`` as JSON; ``None`` if JSON cannot represent all of it."""
    try:
        return msgspec.json.encode(frame)
    except (TypeError, ValueError, msgspec.MsgspecError):
        return None
