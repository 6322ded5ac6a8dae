"""The context of one session: projected from the records, measured, checked and compacted."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prime_ext.compaction.compactor import AUTOMATIC, Compactor
from prime_ext.compaction.ledger_file import LedgerFile
from prime_ext.compaction.prefire import Approach, Prefire
from prime_ext.compaction.replacement import Terms
from prime_ext.compaction.strategy import CLIENT, Strategy, strategy
from prime_ext.context.prefix import PrefixProof
from prime_ext.context.projection import Projection
from prime_ext.context.projector import Projector
from prime_ext.context.prune import Rates
from prime_ext.context.refill import Contributor, RefillGuard, largest_contributor
from prime_ext.context.server_side import edits, was_edited
from prime_ext.errors import PrimeError
from prime_ext.models.model import ContextOverflow, Model, Price, Reply
from prime_ext.session.records import AnyRecord, CompactionEnd, CompactionStart, Error, Settings

if TYPE_CHECKING:
    from prime_ext.agent.history import History
    from prime_ext.agent.services import AgentServices
    from prime_ext.agent.session_model import SessionModel
    from prime_ext.compaction.meter import ContextMeter
    from prime_ext.context.limits import Limits
    from prime_ext.context.note import Note
    from prime_ext.kernel.snapshot import SnapshotKeeper
    from prime_ext.session.session import Session


@dataclass(frozen=True)
class AskedCompaction:
    """A compaction that a person asked for, waiting for the next step of the turn."""

    id: str
    instructions: str | None
    user: str | None


class SessionContext:
    """The context that a session sends to its model.

    ``use`` must be awaited with the turn's model before a turn begins.
    """

    def __init__(
        self,
        session: Session,
        services: AgentServices,
        model: SessionModel,
        keeper: SnapshotKeeper,
        history: History,
    ) -> None:
        self._session = session
        self._services = services
        self._session_model = model
        self._keeper = keeper
        self._history = history
        self._log = services.log
        log_path = str(session.folder / "session.jsonl")
        self._projector = Projector(session.context_records, log_path)
        self._ledger = LedgerFile(session.folder, session.log, services.log)
        self._prefire = Prefire(session, services.log, self._prepare)
        self._proof = PrefixProof()
        self._refills = RefillGuard()
        self._told: tuple[int, int] | None = None
        self._told_uncached = False
        self._compacting = False
        self.last_message_id: str | None = None
        """Id of the last reply. The model's server compares the next request with that reply's, and
        says why it could not be served from the prompt cache."""
        self.asked: AskedCompaction | None = None
        """Requested compaction that is still pending; it takes precedence over any other."""
        self.model: Model
        """Model in use; this and what depends on it is set by ``use``."""
        self.price: Price | None
        """Price of the model in use; ``None`` if it is not known."""
        self._rates = Rates()
        self._strategy = CLIENT
        self.meter: ContextMeter
        self.limits: Limits

    def resume(self) -> None:
        """Resume the note that was being made when the server stopped, if any."""
        self._prefire.resume(self._session.context_records())

    async def use(self, model: Model) -> None:
        """Measure and compact the context with ``model`` from now on."""
        self.model = model
        self.meter, self.limits = await self._session_model.measures(model)
        self.price = (await model.capabilities()).price
        self._rates = rates_of(self.price)
        self._strategy = await self._choose_strategy(model)

    async def _choose_strategy(self, model: Model) -> Strategy:
        wanted = self._services.context_config.server_side
        if wanted == "off" or self._session.server_refused:
            return CLIENT
        return strategy(wanted, await model.server_side())

    async def close(self) -> None:
        """Cancel the making of a note."""
        await self._prefire.close()

    # --- measuring ----------------------------------------------------------------------------

    def projection(self) -> Projection:
        """Return the context as the next request would send it."""
        return self._projector.now()

    async def tokens(self) -> int:
        """Return the size of the next request in tokens."""
        return await self.meter.context_tokens(self.projection())

    async def overhead(self) -> int:
        """Return the size of system prompt and tools in tokens.

        No compaction can shrink these.
        """
        return await self.meter.overhead_tokens(self.projection())

    @property
    def result_cap(self) -> int:
        """Size limit of one tool result, in tokens of the public tokenizer."""
        return self.meter.raw_tokens(self.limits.tool_result_cap)

    def marks_from(self, projection: Projection) -> int | None:
        """Return the index of the first message at which the request is long enough to be cached.

        ``SYSTEM`` if system prompt and tools alone are long enough, ``None`` if the whole request
        is not. See ``place_marks``.
        """
        shortest = self.limits.min_cache_tokens
        first = self.meter.cacheable_from(projection, shortest)
        if first is None and not self._told_uncached:
            self._told_uncached = True
            self._log.info(
                "Session %s: nothing comes from the prompt cache while the conversation is "
                "shorter than %d tokens, the least that this model caches",
                self._session.id,
                shortest,
            )
        return first

    def answered(self, projection: Projection, reply: Reply) -> None:
        """Take in the usage and the edits that the reply to ``projection`` reports."""
        self.last_message_id = reply.message_id
        self.meter.observe(projection, reply.usage, reply.content)
        self._refills.requested()
        if not was_edited(edits(projection.messages), reply.applied_edits):
            self.leave_server_side("it did not leave out what it was asked to")

    def leave_server_side(self, reason: str) -> None:
        """Record that server-side edits and compaction are no longer used in this session.

        From now on this process does both, and replaces what the model's server has already edited
        or compacted.
        """
        self._log.warning(
            "Session %s: the model's server does not edit or compact the context: %s",
            self._session.id,
            reason,
        )
        self._strategy = CLIENT
        self._rewrite(Settings(server_side=False))

    def drop_thinking(self, reason: str) -> None:
        """Record that the thinking so far is left out, because the model's server refuses it.

        Thinking is only valid after exactly the messages it was written after. These change if the
        session's folder is moved after a compaction, because its path is part of the summary turn,
        or if a record is damaged.
        """
        self._log.warning(
            "Session %s: the model's server refuses earlier thinking: %s", self._session.id, reason
        )
        self._rewrite(Settings(drops_thinking=True))

    def left_paused(self) -> None:
        """Note that the last reply was paused and will not go on.

        A call in it that has no result is left out of further requests, see ``finished``.
        """
        self._forget_request()

    def _rewrite(self, record: Settings) -> None:
        """Append a record that changes the context, and forget what was known of it."""
        self._session.append(record)
        self._prefire.forget()
        self._forget_request()
        self.meter.forget_usage()

    def _forget_request(self) -> None:
        """Forget the last request and its reply: the next one need not begin like that."""
        self._proof.reset()
        self.last_message_id = None

    @property
    def has_thinking(self) -> bool:
        """Whether the next request contains thinking."""
        return any(message.has_thinking for message in self.projection().messages)

    @property
    def is_server_side(self) -> bool:
        """Whether the next request relies on server-side edits or compaction."""
        messages = self.projection().messages
        return bool(edits(messages)) or any(
            block["type"] == "compaction" for block in messages[0].content
        )

    async def prove(self, projection: Projection) -> None:
        """Check that the request begins with the previous one; record an error if it does not."""
        messages = projection.wire_messages()
        found = await asyncio.to_thread(
            self._proof.check, projection.system, projection.tools, messages
        )
        if found is None:
            return
        where = "near its head" if found.message is None else f"at message {found.message}"
        self._log.warning("Session %s: the frozen prefix changed %s", self._session.id, where)
        self._session.append(
            Error(
                code="prefix_changed",
                message=f"The beginning of the conversation changed between two requests ({where}) "
                "although nothing was compacted: this request was not served from the cache.",
                hint="The conversation goes on. This is a fault of the extension; please report "
                "it with the server's log.",
                where="session",
            )
        )

    def is_news(self, overhead: int, threshold: int) -> bool:
        """Return whether these sizes in tokens have not been reported yet, and remember them.

        They are reported when the overhead alone exceeds the threshold.
        """
        news = (overhead, threshold) != self._told
        self._told = (overhead, threshold)
        return news

    # --- compacting ---------------------------------------------------------------------------

    async def _prepare(self, note: Note) -> None:
        """Prepare and count in advance the parts that a swap will put next to ``note``."""
        tokens = self.limits.ledger_tokens(await self.overhead())
        await self._ledger.text(note.through_seq, tokens, self.meter.text_tokens)
        await asyncio.to_thread(self.meter.text_tokens, note.text)

    async def prefire(self) -> None:
        """Start a note, or roll it forward, if the context approaches its threshold."""
        approach = await self._approach()
        if approach.tokens < self.limits.threshold or self._prefire.has_leapt:
            await self._prefire.consider(approach)

    async def goes_on(self) -> bool:
        """Return whether requests may continue above the threshold for now.

        See ``Prefire.goes_on``.
        """
        return await self._prefire.goes_on(await self._approach())

    async def _approach(self) -> Approach:
        return Approach(
            self.projection(),
            await self.tokens(),
            self.model,
            self.limits,
            self._rates,
            self._history.telemetry.compaction_count,
            self.meter,
            self._strategy,
        )

    def ask_compaction(self, instructions: str | None, user: str | None) -> str:
        """Request a compaction at the next step, and return the ``compaction_id`` of its records.

        Raises
        ------
        PrimeError
            ``compaction_pending`` (409) if a compaction is requested or running already.
        """
        if self.asked is not None or self._compacting:
            raise PrimeError(
                "A compaction is already pending or running.",
                code="compaction_pending",
                status=409,
            )
        self.asked = AskedCompaction(uuid.uuid4().hex, instructions, user)
        return self.asked.id

    def drop_compaction(self, reason: str) -> None:
        """Record the requested compaction as cancelled, if one is still pending."""
        asked, self.asked = self.asked, None
        if asked is None:
            return
        tokens = self._session_model.known_tokens or 0
        record = self._session.append(
            CompactionEnd(
                compaction_id=asked.id,
                outcome="cancelled",
                trigger="manual",
                tokens_before=tokens,
                tokens_after=tokens,
                reason=reason,
                user=asked.user,
            )
        )
        self._services.on_compaction(self._session, record)

    async def compact(
        self, trigger: str, instructions: str | None, turn: str | None
    ) -> CompactionEnd:
        """Compact now with the model in use, and return the end record. See ``Compactor.run``."""
        asked = self.asked
        if asked is not None:
            trigger, instructions = "manual", asked.instructions
        self._compacting = True
        try:
            return await self._compact(trigger, instructions, turn, asked)
        finally:
            self._compacting = False
            self.drop_compaction("It was stopped before it began.")

    async def _compact(
        self,
        trigger: str,
        instructions: str | None,
        turn: str | None,
        asked: AskedCompaction | None,
    ) -> CompactionEnd:
        compactor = Compactor(
            self._session,
            self._projector,
            self._keeper,
            self.meter,
            self._prefire,
            self._ledger,
            self._recorded,
            self.learn_window,
            self._log,
        )
        frozen = await self._session_model.frozen_next()
        # Blocks that this model's server has signed are of no use to another model.
        stays = (frozen.provider, frozen.model) == (self.model.provider, self.model.id)
        terms = Terms(
            model=self.model,
            limits=self.limits,
            rates=self._rates,
            compactions=self._history.telemetry.compaction_count,
            frozen=frozen,
            strategy=self._strategy if stays else CLIENT,
            instructions=instructions,
        )
        try:
            record = await compactor.run(
                trigger,
                terms,
                turn=turn,
                user=asked.user if asked else None,
                compaction_id=asked.id if asked else None,
            )
        finally:
            if compactor.has_rewritten:
                self._forget_request()
        if record.outcome == "ok":
            if trigger in AUTOMATIC:
                self._refills.compacted()
            else:
                self._refills.relax()
        return record

    def _recorded(self, record: AnyRecord) -> None:
        if isinstance(record, CompactionStart):
            self.asked = None  # from here on, the request has records of its own
        self._services.on_compaction(self._session, record)

    def learn_window(self, overflow: ContextOverflow) -> None:
        """Record and apply the window size that the model's server reports, if it does."""
        known = self._session.windows.get(self.model.id)
        if overflow.maximum is None or known == overflow.maximum:
            return
        self._session.append(Settings(windows={self.model.id: overflow.maximum}))
        self.limits = self._session_model.limits_within(overflow.maximum)

    # --- guarding -----------------------------------------------------------------------------

    async def refilled_by(self) -> Contributor | None:
        """Return the kind of content that fills the context again after each compaction.

        ``None`` if the context does not fill up again that quickly.
        """
        if not self._refills.gives_up:
            return None
        self._refills.relax()
        projection = self.projection()
        return largest_contributor(projection.messages, await self.meter.message_tokens(projection))


def rates_of(price: Price | None) -> Rates:
    """Return prices relative to a token of input, or the default rates if no price is known."""
    if price is None or not price.input:
        return Rates()
    return Rates(
        cache_read=price.cache_read / price.input,
        cache_write=price.cache_write_5m / price.input,
        output=price.output / price.input,
    )
