"""A model registry that talks to the test API."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from prime_ext.config import ModelConfig
from prime_ext.models.anthropic import AnthropicModel
from prime_ext.models.connection import Connection
from prime_ext.models.credentials import CredentialStore
from prime_ext.models.model import Model, ModelEvent, ModelRequest, Reply, TextDelta
from prime_ext.models.registry import ModelRegistry
from tests.messages_api.server import MessagesAPI

MODEL = "claude-sonnet-5-5"


@pytest.fixture
def model_config(messages_api: MessagesAPI) -> ModelConfig:
    return ModelConfig(base_url=messages_api.url, api_key=messages_api.key, stall_seconds=5.0)


@pytest.fixture
def credentials(model_config: ModelConfig, tmp_path: Path) -> CredentialStore:
    return CredentialStore(model_config, tmp_path / "credentials.json", {})


@pytest.fixture
def registry(
    model_config: ModelConfig,
    credentials: CredentialStore,
    jp_asyncio_loop: asyncio.AbstractEventLoop,
) -> Iterator[ModelRegistry]:
    registry = ModelRegistry(model_config, credentials, logging.getLogger("test"))
    yield registry
    jp_asyncio_loop.run_until_complete(registry.close())


class Waits:
    """Stands in for sleeping between attempts."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def waits() -> Waits:
    return Waits()


MakeModel = Callable[..., AnthropicModel]


@pytest.fixture
def make_model(
    model_config: ModelConfig,
    credentials: CredentialStore,
    waits: Waits,
    jp_asyncio_loop: asyncio.AbstractEventLoop,
) -> Iterator[MakeModel]:
    connections: list[Connection] = []

    def make(model: str = MODEL, provider: str = "anthropic", **traits: Any) -> AnthropicModel:
        for name, value in traits.items():
            setattr(model_config, name, value)
        connection = Connection(provider, model_config, credentials)
        connections.append(connection)
        return AnthropicModel(connection, model, model_config, sleep=waits)

    yield make
    for connection in connections:
        jp_asyncio_loop.run_until_complete(connection.close())


@pytest.fixture
def model(make_model: MakeModel) -> AnthropicModel:
    return make_model()


def ask(text: str = "Hello", **fields: Any) -> ModelRequest:
    """A request with one user message."""
    made: dict[str, Any] = {
        "system": [{"type": "text", "text": "You help in a notebook."}],
        "tools": [],
        "messages": [{"role": "user", "content": [{"type": "text", "text": text}]}],
        "max_tokens": 4_096,
        **fields,
    }
    return ModelRequest(**made)


async def collect(model: Model, request: ModelRequest) -> list[ModelEvent]:
    return [event async for event in model.stream(request)]


async def final(model: Model, request: ModelRequest) -> Reply:
    reply = (await collect(model, request))[-1]
    assert isinstance(reply, Reply)
    return reply


def texts(events: list[Any]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))
