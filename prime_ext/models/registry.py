"""The available models, the default model, and one shared instance of each model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime
from logging import Logger, LoggerAdapter
from typing import TYPE_CHECKING, Any

from prime_ext.models.anthropic import AnthropicModel
from prime_ext.models.connection import Connection
from prime_ext.models.credentials import CredentialStore
from prime_ext.models.model import Model, ModelError, ModelInfo

if TYPE_CHECKING:
    from prime_ext.config import ModelConfig

OFFLINE = "offline"
REMOTE_PROVIDERS = ("anthropic", "bedrock", "vertex", "foundry")
FALLBACK_MODEL = "claude-sonnet-5-5"
"""Default model if the Models API cannot be asked."""
BEDROCK_PREFIX = "anthropic."
DEFAULT_LINE = "sonnet"

LIST_SECONDS = 10.0
LISTED_FOR_SECONDS = 600.0
FAILED_FOR_SECONDS = 30.0
"""How long a list of models, or the failure to get one, is cached."""


class ModelRegistry:
    """Provides models by provider and id; instances are shared between sessions.

    Parameters
    ----------
    config:
        Source of ``provider`` and ``model``; also passed on to the models.
    credentials:
        Source of the keys; determines the default provider if ``ModelConfig.provider`` is ``auto``.
    """

    def __init__(
        self,
        config: ModelConfig,
        credentials: CredentialStore,
        log: Logger | LoggerAdapter[Any],
    ) -> None:
        self.credentials = credentials
        self._config = config
        self._log = log
        self._connections: dict[str, Connection] = {}
        self._models: dict[tuple[str, str], Model] = {}
        self._listed: tuple[Any, ...] = ()
        self._listed_until = 0.0
        self._listing = asyncio.Lock()
        if credentials.problem:
            log.warning("%s", credentials.problem)

    def default_provider(self) -> str:
        """Return ``ModelConfig.provider``; for ``auto``, the provider of the credential in use.

        Without a credential or server, ``auto`` means the offline agent.
        """
        if self._config.provider != "auto":
            return self._config.provider
        if self.credentials.configured():
            return self.credentials.current().provider
        return OFFLINE

    async def default_model(self, provider: str) -> str:
        """Return ``ModelConfig.model``, or the newest Sonnet that the API lists."""
        if provider == OFFLINE:
            return OFFLINE
        if self._config.model:
            return self._config.model
        if provider == "bedrock":
            return BEDROCK_PREFIX + FALLBACK_MODEL
        if provider != "anthropic":
            return FALLBACK_MODEL
        return newest(await self._list_anthropic()) or FALLBACK_MODEL

    async def list(self) -> list[ModelInfo]:
        """Return the models to choose from: the offline agent and those of the default provider."""
        provider = self.default_provider()
        found = [ModelInfo(OFFLINE, OFFLINE, "Offline agent", default=provider == OFFLINE)]
        if provider == OFFLINE:
            return found
        default = await self.default_model(provider)
        names = {default: default}
        if provider == "anthropic":
            for info in await self._list_anthropic():
                names[info.id] = getattr(info, "display_name", None) or info.id
        remote = self._connection(provider).remote
        found += [
            ModelInfo(model, provider, name, default=model == default, remote=remote)
            for model, name in names.items()
        ]
        return found

    def get(self, provider: str, model_id: str) -> Model:
        """Return the model with this id, created on first use.

        Raises
        ------
        ModelError
            With the code ``model_not_found`` for an unknown provider.
        """
        key = (provider, model_id)
        if key not in self._models:
            self._models[key] = self._make(provider, model_id)
        return self._models[key]

    def endpoint(self, provider: str) -> str | None:
        """Return the host that content is sent to; ``None`` for the offline agent."""
        return None if provider == OFFLINE else self._connection(provider).host

    async def connect(
        self, provider: str, api_key: str | None, base_url: str | None = None
    ) -> str | None:
        """Store the key that the user has entered, unless the server refuses it.

        Returns
        -------
        str or None
            Why the key could not be checked; it is stored nevertheless.

        Raises
        ------
        PrimeError
            As for ``CredentialStore.set`` and ``Connection.check``; the previously stored key
            stays.
        """
        entered = self.credentials.entered(provider, api_key, base_url)
        unchecked = None
        if self._config.provider != OFFLINE:  # "offline" allows no connections
            unchecked = await self._connection(provider).check(entered)
        await asyncio.to_thread(self.credentials.set, provider, api_key, base_url)
        self.forget()
        return unchecked

    def forget(self) -> None:
        """Invalidate the list of models: another key may have access to others."""
        self._listed_until = 0.0

    async def close(self) -> None:
        """Close all connections."""
        self._models.clear()
        connections = list(self._connections.values())
        self._connections.clear()
        for connection in connections:
            await connection.close()

    def _make(self, provider: str, model_id: str) -> Model:
        if provider == OFFLINE:
            from prime_ext.models.offline.model import OfflineModel

            return OfflineModel()
        if provider not in REMOTE_PROVIDERS:
            raise ModelError(
                f"There is no provider {provider!r}.",
                code="model_not_found",
                hint=f"Choose one of {', '.join((OFFLINE, *REMOTE_PROVIDERS))}.",
                status=400,
            )
        return AnthropicModel(self._connection(provider), model_id, self._config)

    def _connection(self, provider: str) -> Connection:
        if provider not in self._connections:
            self._connections[provider] = Connection(provider, self._config, self.credentials)
        return self._connections[provider]

    async def _list_anthropic(self) -> tuple[Any, ...]:
        """Return the SDK's ``ModelInfo`` of each active model; empty if the API cannot be asked."""
        async with self._listing:
            if time.monotonic() >= self._listed_until:
                listed = await self._ask()
                kept = FAILED_FOR_SECONDS if listed is None else LISTED_FOR_SECONDS
                self._listed_until = time.monotonic() + kept
                self._listed = listed or ()
            return self._listed

    async def _ask(self) -> tuple[Any, ...] | None:
        connection = self._connection("anthropic")
        try:
            listed = await asyncio.wait_for(_all_models(connection), LIST_SECONDS)
        except Exception as error:
            # A server may lack this route; any other problem is reported with the first message.
            reason = connection.redact(str(error)) or type(error).__name__
            self._log.info("%s does not list its models: %s", connection.host, reason)
            return None
        return tuple(
            info for info in listed if getattr(info, "lifecycle", None) in (None, "active")
        )


async def _all_models(connection: Connection) -> list[Any]:
    client = await connection.client()
    return [info async for info in client.models.list(limit=100)]


def newest(infos: Sequence[Any]) -> str | None:
    """Return the id of the newest Sonnet in ``infos``, or of the newest model if there is none."""

    def created(info: Any) -> float:
        moment = getattr(info, "created_at", None)
        return moment.timestamp() if isinstance(moment, datetime) else 0.0

    def in_line(info: Any) -> bool:
        line = getattr(info, "line", None)
        return line == DEFAULT_LINE if line else DEFAULT_LINE in info.id

    candidates = [info for info in infos if in_line(info)] or list(infos)
    return str(max(candidates, key=created).id) if candidates else None
