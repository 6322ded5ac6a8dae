"""The model of one session: its choice, the limits of its context, and the user's consent."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from prime_ext.agent import consent
from prime_ext.agent.prompts import system_prompt
from prime_ext.compaction.meter import ContextMeter
from prime_ext.compaction.replacement import Frozen
from prime_ext.context.limits import Limits
from prime_ext.errors import PrimeError
from prime_ext.models.model import Capabilities, Model, ModelError
from prime_ext.session.records import ApprovalRequest

if TYPE_CHECKING:
    from prime_ext.agent.approvals import Approvals
    from prime_ext.agent.services import AgentServices
    from prime_ext.agent.work import Work
    from prime_ext.session.session import Session

DEFAULT_MAX_OUTPUT = 32_000
RESULT_TOKENS = 10_000
"""Size limit of one result in tokens while the model's limits are not known."""


class SessionModel:
    """Resolve the model of a session, anew for each turn."""

    def __init__(
        self,
        session: Session,
        services: AgentServices,
        approvals: Approvals,
        work: Work,
    ) -> None:
        self._session = session
        self._services = services
        self._approvals = approvals
        self._work = work
        self._measuring = asyncio.Lock()
        self._capabilities: Capabilities
        self.meter: ContextMeter | None = None
        self.limits: Limits | None = None

    @property
    def known_tokens(self) -> int | None:
        """Latest known size of the context in tokens; ``None`` if it is not known."""
        return self.meter.known_tokens if self.meter else None

    def get(self, text: str = "") -> Model:
        """Return the model in force, or for ``/tour`` the offline model, which plays a tour."""
        if text.strip().partition(" ")[0] == "/tour":
            return self._services.models.get("offline", "offline")
        return self._services.models.get(self._session.provider, self._session.model)

    async def measures(self, model: Model) -> tuple[ContextMeter, Limits]:
        """Return the meter that measures the context for ``model``, and the context's limits."""
        capabilities = await model.capabilities()
        self._capabilities = capabilities
        limits = self.limits_within(self._session.windows.get(model.id, capabilities.window))
        async with self._measuring:
            if self.meter is None or self.meter.model != model.id:
                meter = ContextMeter(model.id, capabilities.image_token_cap)
                await meter.resume(self._session.context_records())
                self.meter = meter
            return self.meter, limits

    def limits_within(self, window: int) -> Limits:
        """Compute and return the context's limits for a window of ``window`` tokens."""
        config = self._services.context_config
        wanted = self._services.model_config.max_output_tokens or DEFAULT_MAX_OUTPUT
        self.limits = Limits.resolve(
            window=min(window, self._capabilities.window),
            max_output=min(wanted, self._capabilities.max_output),
            max_context_tokens=config.max_context_tokens,
            prefire_margin_tokens=config.prefire_margin_tokens,
            prefix_share=config.prefix_share,
            keep_tail_tokens=config.keep_tail_tokens,
            tool_result_cap_tokens=config.tool_result_cap_tokens,
            landing_share=config.landing_share,
            min_cache_tokens=self._capabilities.min_cache_tokens,
        )
        return self.limits

    async def measure_unasked(self) -> None:
        """Measure the context before the first turn.

        This is skipped if the user has not consented to the model's server, because measuring may
        send a request to it.
        """
        model = self.get()
        if not self._needs_consent(model):
            await self.measures(model)

    async def result_cap(self) -> int:
        """Return the size limit of an attachment, in tokens of the public tokenizer.

        It is the same as that of a tool result.
        """
        if self.limits is None:
            with contextlib.suppress(PrimeError):  # reported when the turn begins
                await self.measure_unasked()
        if self.limits is None or self.meter is None:
            return self._services.context_config.tool_result_cap_tokens or RESULT_TOKENS
        return self.meter.raw_tokens(self.limits.tool_result_cap)

    async def ask_consent(self, model: Model, turn: str | None, user: str | None) -> None:
        """Ask for consent, once per user and server, before content is sent to the server.

        Raises
        ------
        ModelError
            ``consent_declined`` if the user declines.
        """
        endpoint = model.endpoint
        who = user or ""
        call_id = f"consent-{turn or self._session.log.last_seq}"
        if endpoint is None or not self._needs_consent(model):
            return
        asked = self._approvals.asked(call_id) is not None
        if not asked and self._services.consents.given(who, endpoint):
            return
        self._work.enter("approval")
        answer = await self._approvals.ask(
            ApprovalRequest(
                call_id=call_id,
                what="consent",
                summary=f"Send this conversation to {endpoint}?",
                detail=consent.explanation(endpoint, model.id, encrypted=model.encrypted),
                turn=turn,
            )
        )
        if answer.decision != "allow":
            raise ModelError(
                f"Nothing was sent to {endpoint}: you declined.",
                code="consent_declined",
                hint="Send the message again to be asked again, or choose another model.",
            )
        self._services.consents.give(answer.user or who, endpoint)

    async def frozen_next(self) -> Frozen:
        """Return the model, system prompt and tools to freeze at the next compaction."""
        notebook = self._session.notebook
        return Frozen(
            provider=self._session.chosen_provider,
            model=self._session.chosen_model,
            system=system_prompt(notebook, await self._services.kernel_name(notebook)),
            tools=self._services.tools.definitions(),
        )

    def _needs_consent(self, model: Model) -> bool:
        return consent.needed(self._services.model_config.consent, model.endpoint)
