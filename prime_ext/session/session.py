"""One live session: its log, what is derived from the records, and who is watching."""

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

    from prime_ext.session.log import SessionLog
    from prime_ext.session.recall import Excerpt, Hit
    from prime_ext.session.records import Block
    from prime_ext.session.stream import EndReason, Frame, Subscription


class Session:
    """A session that this process may write.

    Everything here is derived from the log and kept up to date on ``append``; nothing is stored
    anywhere else. To be used from the event loop's thread only, but for what says otherwise.
    """

    def __init__(self, id: str, folder: Path, log: SessionLog) -> None:  # noqa: A002
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
        self.redact: Callable[[str], str] | None = None
        """Takes secrets out of a string; applied to every string of a record before it is
        written."""
        self.on_append: Callable[[AnyRecord], None] | None = None
        """Called with every record as it was stored, before subscribers see it."""
        self.recall = Recall(folder, log)
        self.outputs = Outputs(folder / OUTPUTS_NAME)
        self._stream = Stream(log)
        self._start = start
        self.notebook = start.notebook
        self.title = start.title
        self.permission_mode = start.permission_mode
        self.restore = start.restore
        """When variables come back by themselves; ``None``: as the server is configured."""
        self.model = start.model
        """Model in force: it was used to freeze the system prompt and tools."""
        self.provider = start.provider
        self.chosen_model = start.model
        """Model asked for last; in force from the next compaction on."""
        self.chosen_provider = start.provider
        self.system: list[Block] = start.system
        self.tools: list[dict[str, Any]] = start.tools
        """System prompt and tools in force."""
        self.windows: dict[str, int] = {}
        """Model id → tokens it takes at most, where its server has said so in a refusal."""
        self.server_refused = False
        """The model's server does not edit or compact the context, although it was asked to."""
        self.going_run: ToolResult | None = None
        """The last answer about a run that outlasted its call and has not ended."""
        self.compaction: CompactionEnd | None = None
        """The compaction whose summary begins the context, if any."""
        self._begun = False
        """The context holds more than system prompt and tools."""
        self._context_from = start.seq + 1
        """``seq`` of the first record of the context behind ``session_start``."""
        self._context: list[AnyRecord] = [start]
        self._restore()

    def _restore(self) -> None:
        """Derive the state from the records, reading only those that matter."""
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
        """``session_start`` with what compactions have frozen anew; each says what it changed."""
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
        """Take over what ``record`` changes."""
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
            # A damaged record can say anything; what is out of the context stays out of it.
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
        """What the context is projected from, oldest first.

        ``session_start`` with what is frozen now, then every record from the ``kept_from_seq`` of
        the last compaction that put a summary in place of the history (from that compaction itself
        if it kept nothing), or every record if there was none. A new list; the records are
        immutable.
        """
        return list(self._context)

    def records_of(self, *kinds: str) -> list[AnyRecord]:
        """Every record of these kinds in the whole log, oldest first. May be read in a thread."""
        return self.log.get_all(self.log.seqs_of(*kinds))

    def append(self, record: AnyRecord, *, sync: bool = False) -> AnyRecord:
        """Redact ``record``, write it, take it into the context and send it to subscribers.

        Returns it as it was stored, with ``seq``, ``id`` and ``ts``. With ``sync`` it is on the
        disk when this returns.

        Raises
        ------
        PrimeError
            ``session_not_written`` if the file system refuses it.
        """
        with self._written_or_told():
            stored = self.log.append(self._redacted(record))
        self._context.append(stored)
        self._follow(stored)
        self._follow_run(stored)
        if stored is self.compaction:
            kept = [r for r in self._context[1:] if r.seq >= self._context_from]
            self._context = [self._head(), *kept]
        if self.on_append is not None:
            self.on_append(stored)
        self._stream.publish_record(msgspec.to_builtins(stored))
        if sync:
            self.sync()
        if isinstance(stored, TurnEnd):
            self._index_in_background()
        return stored

    def _index_in_background(self) -> None:
        """Spare the first search of a long session the wait for its index."""
        with contextlib.suppress(RuntimeError):  # no event loop: no hurry either
            asyncio.get_running_loop().run_in_executor(None, self.recall.catch_up)

    def sync(self) -> None:
        """Wait until every record is on the disk. May be called from a thread."""
        with self._written_or_told():
            self.log.sync()

    def _redacted(self, record: AnyRecord) -> AnyRecord:
        if self.redact is None:
            return record
        values = _map_strings(
            mend(msgspec.to_builtins(record, str_keys=True, enc_hook=str)), self.redact
        )
        return msgspec.convert(values, type(record))

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

    # --- What a record would be too long for ---------------------------------------------

    def clean(self, text: str | None) -> str | None:
        """``text`` as a record holds it."""
        return text if text is None or self.redact is None else self.redact(mend(text))

    def keep(self, name: str, data: bytes, *, text: str) -> bool:
        """Keep ``data`` as ``outputs/{name}``; whether it could be.

        It is not if ``text``, which is what it says, holds a secret.
        """
        if self.redact is not None and self.redact(text) != text:
            return False
        try:
            self.outputs.keep(name, data)
        except OSError:
            return False
        return True

    # --- Finding again ------------------------------------------------------------------------

    def search(
        self,
        query: str,
        kinds: Sequence[str] | None = None,
        before: int | None = None,
        limit: int = 20,
    ) -> list[Hit]:
        """Records that match, the best first. See ``Recall.search``. Call it in a thread."""
        return self.recall.search(query, kinds, before, limit)

    def read(self, seqs: Sequence[int], max_chars: int = 12_000) -> list[Excerpt]:
        """The text of records. See ``Recall.read``. Call it in a thread."""
        return self.recall.read(seqs, max_chars)

    # --- Watching ------------------------------------------------------------------------

    @property
    def watched(self) -> bool:
        """Whether anyone follows the session now."""
        return bool(self._stream.subscribers)

    @property
    def state(self) -> dict[str, Any]:
        """The last ``ISessionState``."""
        return self._stream.state

    def set_state(self, state: dict[str, Any]) -> None:
        """Keep ``state`` and tell every subscriber."""
        self.publish({"type": "state", "state": state})

    def publish(self, frame: Frame) -> None:
        """Send a transient frame: one that is not a record.

        ``delta`` frames are kept until the message is a record or a ``delta_reset``, the newest
        ``progress`` frame of each thing until that thing ends, for subscribers who join later.
        Secrets are taken out of ``progress`` frames, which show what code puts out.
        """
        if frame["type"] == "progress" and self.redact is not None:
            frame = _map_strings(frame, self.redact)
        self._stream.publish(frame)

    @asynccontextmanager
    async def subscribe(self, after: int = 0) -> AsyncIterator[Subscription]:
        """Frames from record ``after`` (exclusive) on: replay, ``ready``, then live.

        Every record with ``seq > after`` comes exactly once and in order, whatever is appended
        meanwhile.
        """
        subscription = self._stream.subscription(after)
        try:
            yield subscription
        finally:
            await subscription.aclose()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed or deleted: nothing can be appended any more."""
        return self._stream.ended is not None

    @property
    def is_deleted(self) -> bool:
        """Whether it was deleted while this process had it open."""
        return self._stream.ended == "deleted"

    def close(self, reason: EndReason = "closed") -> None:
        """End every subscription and close the files."""
        self._stream.end(reason)
        self.recall.close()
        self.log.close()


def _rewrites_context(record: CompactionEnd) -> bool:
    # A prune only shortens tool outputs in place; its records say which.
    return record.outcome == "ok" and record.path != "prune"


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {
            _map_strings(key, change): _map_strings(item, change) for key, item in value.items()
        }
    if isinstance(value, list):
        return [_map_strings(item, change) for item in value]
    return value
