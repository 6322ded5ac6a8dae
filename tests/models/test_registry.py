"""Which provider and model are taken, and what is listed."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prime_ext.config import ModelConfig
from prime_ext.errors import PrimeError
from prime_ext.models.anthropic import AnthropicModel
from prime_ext.models.credentials import CredentialStore
from prime_ext.models.model import ModelError
from prime_ext.models.registry import ModelRegistry, newest
from tests.messages_api.script import reply
from tests.messages_api.server import MessagesAPI
from tests.models.conftest import ask, final


def bare(tmp_path: Path, environ: dict[str, str] | None = None, **traits: Any) -> ModelRegistry:
    config = ModelConfig(**traits)
    credentials = CredentialStore(config, tmp_path / "credentials.json", environ or {})
    return ModelRegistry(config, credentials, logging.getLogger("test"))


def test_the_default_provider(tmp_path: Path) -> None:
    assert bare(tmp_path).default_provider() == "offline"
    assert bare(tmp_path, {"ANTHROPIC_API_KEY": "sk-0123456789"}).default_provider() == "anthropic"
    assert bare(tmp_path, base_url="http://127.0.0.1:1").default_provider() == "anthropic"
    assert bare(tmp_path, provider="vertex").default_provider() == "vertex"
    offline = bare(tmp_path, {"ANTHROPIC_API_KEY": "sk-0123456789"}, provider="offline")
    assert offline.default_provider() == "offline"
    bare(tmp_path).credentials.set("foundry", "key-0123456789")
    assert bare(tmp_path).default_provider() == "foundry"


async def test_the_newest_sonnet_in_use_is_the_default(
    messages_api: MessagesAPI, registry: ModelRegistry
) -> None:
    assert await registry.default_model("anthropic") == "claude-sonnet-5-5"
    listed = await registry.list()
    assert [info.id for info in listed if info.default] == ["claude-sonnet-5-5"]
    assert {info.id for info in listed} >= {"offline", "claude-opus-5-5", "claude-haiku-4-5"}
    assert "claude-sonnet-3-9" not in {info.id for info in listed}, "it is retired"
    assert not any(info.remote for info in listed), "the test API is on this machine"
    assert next(i.name for i in listed if i.id == "claude-opus-5-5") == "Claude Opus 5.5"
    assert len(messages_api.other_requests) == 1, "listed once"
    registry.forget()
    await registry.list()
    assert len(messages_api.other_requests) == 2


async def test_the_configured_model_comes_first(
    messages_api: MessagesAPI, registry: ModelRegistry, model_config: ModelConfig
) -> None:
    model_config.model = "my-own-model"
    assert await registry.default_model("anthropic") == "my-own-model"
    assert not messages_api.other_requests
    listed = await registry.list()
    assert [info.id for info in listed if info.default] == ["my-own-model"]


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/", "/v1/messages"])
async def test_a_url_with_a_part_of_the_api_in_its_path(
    messages_api: MessagesAPI, registry: ModelRegistry, model_config: ModelConfig, path: str
) -> None:
    model_config.base_url = messages_api.url + path
    messages_api.enqueue(reply("in"))
    model = registry.get("anthropic", await registry.default_model("anthropic"))
    assert (await final(model, ask())).content[0]["text"] == "in"


async def test_a_server_without_a_list(messages_api: MessagesAPI, registry: ModelRegistry) -> None:
    messages_api.lists_models = False
    assert await registry.default_model("anthropic") == "claude-sonnet-5-5"
    assert [info.id for info in await registry.list()] == ["offline", "claude-sonnet-5-5"]
    assert len(messages_api.other_requests) == 1, "not asked again at once"


async def test_a_server_that_is_down_still_lists(
    messages_api: MessagesAPI, registry: ModelRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "test")
    messages_api.stop()
    assert [info.id for info in await registry.list()] == ["offline", "claude-sonnet-5-5"]
    assert "does not list its models" in caplog.text


def test_newest() -> None:
    def info(model: str, created: Any = None, line: str | None = None) -> Any:
        return SimpleNamespace(id=model, created_at=created, line=line)

    assert newest([]) is None
    assert newest([info("qwen3-coder"), info("llama")]) == "qwen3-coder"
    assert newest([info("llama"), info("some-sonnet")]) == "some-sonnet"
    assert newest([info("x", line="sonnet"), info("old-sonnet-like", line="opus")]) == "x"


async def test_models_are_shared_and_follow_a_new_key(
    messages_api: MessagesAPI, registry: ModelRegistry, model_config: ModelConfig
) -> None:
    good = messages_api.key
    model_config.api_key = ""
    registry.credentials.set("anthropic", "sk-wrong-0123456789")
    model = registry.get("anthropic", "claude-sonnet-5-5")
    assert isinstance(model, AnthropicModel)
    assert registry.get("anthropic", "claude-sonnet-5-5") is model
    with pytest.raises(ModelError) as caught:
        await final(model, ask())
    assert caught.value.hint == "Enter a valid key in the panel."
    registry.credentials.set("anthropic", good)
    messages_api.enqueue(reply("in"))
    assert (await final(model, ask())).content[0]["text"] == "in"


async def test_a_key_is_kept_once_its_server_has_taken_it(
    messages_api: MessagesAPI, registry: ModelRegistry, model_config: ModelConfig
) -> None:
    model_config.api_key = ""
    assert await registry.connect("anthropic", messages_api.key) is None
    assert registry.credentials.api_key() == messages_api.key
    assert not messages_api.requests, "listing models costs nothing"
    wrong = "sk-wrong-0123456789"
    with pytest.raises(PrimeError) as caught:
        await registry.connect("anthropic", wrong)
    assert (caught.value.code, caught.value.status) == ("bad_credentials", 400)
    assert "refused the key" in caught.value.message
    assert wrong not in caught.value.message
    assert registry.credentials.api_key() == messages_api.key, "the one of before stays"
    with pytest.raises(PrimeError, match="requires an API key"):
        await registry.connect("anthropic", None, messages_api.url)


async def test_a_key_that_cannot_be_checked_is_kept(
    messages_api: MessagesAPI, registry: ModelRegistry, model_config: ModelConfig
) -> None:
    model_config.api_key = ""
    messages_api.lists_models = False
    assert await registry.connect("anthropic", messages_api.key) is None
    messages_api.stop()
    unchecked = await registry.connect("anthropic", "sk-offline-0123456789")
    assert unchecked is not None
    assert unchecked.startswith("127.0.0.1:")
    assert "cannot be reached" in unchecked
    assert registry.credentials.api_key() == "sk-offline-0123456789"


async def test_what_speaks_another_language_is_said_to(
    registry: ModelRegistry, model_config: ModelConfig
) -> None:
    async def page(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<p/>")
        await writer.drain()
        writer.close()

    model_config.api_key = ""
    async with await asyncio.start_server(page, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        unchecked = await registry.connect("anthropic", None, f"http://{host}:{port}")
    assert unchecked == f"{host}:{port} does not answer as the Messages API does."


async def test_without_leave_to_send_nothing_is_asked(
    messages_api: MessagesAPI, registry: ModelRegistry, model_config: ModelConfig
) -> None:
    model_config.api_key = ""
    model_config.provider = "offline"
    assert await registry.connect("anthropic", "sk-wrong-0123456789") is None
    assert not messages_api.other_requests


def test_unknown_providers(registry: ModelRegistry) -> None:
    with pytest.raises(ModelError) as caught:
        registry.get("nobody", "x")
    assert caught.value.code == "model_not_found"
    assert caught.value.status == 400


def test_endpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "CLOUD_ML_REGION"):
        monkeypatch.delenv(name, raising=False)
    assert bare(tmp_path).endpoint("offline") is None
    assert bare(tmp_path).endpoint("anthropic") == "api.anthropic.com"
    assert bare(tmp_path, base_url="http://[::1]:80/x").endpoint("anthropic") == "[::1]:80"
    assert bare(tmp_path, base_url="https://h.example/x").endpoint("anthropic") == "h.example"
    assert bare(tmp_path, region="eu-west-1").endpoint("bedrock") == (
        "bedrock-runtime.eu-west-1.amazonaws.com"
    )
    assert bare(tmp_path).endpoint("bedrock") == "Amazon Bedrock"
    assert bare(tmp_path).endpoint("vertex") == "aiplatform.googleapis.com"
    assert bare(tmp_path, region="us-east5").endpoint("vertex") == (
        "us-east5-aiplatform.googleapis.com"
    )
    assert bare(tmp_path, project="mine").endpoint("foundry") == "mine.services.ai.azure.com"


async def test_the_offline_agent(registry: ModelRegistry) -> None:
    model = registry.get("offline", "offline")
    assert (model.provider, model.endpoint) == ("offline", None)
    assert await registry.default_model("offline") == "offline"


async def test_an_unusable_file_of_keys_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "credentials.json").write_text("{")
    (tmp_path / "credentials.json").chmod(0o600)
    bare(tmp_path)
    assert "damaged" in caplog.text
