"""Bedrock, Vertex AI and Foundry: the SDK's own clients, pointed at a local server."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from prime_ext.config import ModelConfig
from prime_ext.models.anthropic import AnthropicModel
from prime_ext.models.connection import Connection
from prime_ext.models.credentials import CredentialStore
from prime_ext.models.model import ModelError, Retry
from tests.messages_api.script import Fault, call, reply
from tests.messages_api.server import MessagesAPI
from tests.models.conftest import MakeModel, ask, collect, final


@pytest.fixture(autouse=True)
def no_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_BEARER_TOKEN_BEDROCK",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "ANTHROPIC_FOUNDRY_API_KEY",
        "ANTHROPIC_FOUNDRY_RESOURCE",
        "CLOUD_ML_REGION",
    ):
        monkeypatch.delenv(name, raising=False)
    # No look at the machine's own configuration, nor at a metadata service.
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent")


async def test_foundry_speaks_the_same_api(
    messages_api: MessagesAPI, make_model: MakeModel
) -> None:
    messages_api.enqueue(reply("from foundry"))
    model = make_model(provider="foundry")
    model._config.provider = "foundry"
    last = await final(model, ask())
    assert last.content == [{"type": "text", "text": "from foundry"}]
    body = messages_api.requests[0].body
    assert "diagnostics" not in body, "only Anthropic's own API has it"
    assert not messages_api.other_requests, "nor does it list models"


async def test_bedrock_streams_in_its_own_framing(
    messages_api: MessagesAPI, make_model: MakeModel
) -> None:
    said = "From Bedrock, in an event stream of Amazon's. " * 3
    messages_api.enqueue(
        reply(said, call("run_code", code="1")),
        reply("x", fault=Fault("error", after=3)),
        reply("ok"),
    )
    model = make_model(
        "anthropic.claude-sonnet-5-5", provider="bedrock", region="eu-west-1", max_attempts=2
    )
    model._config.provider = "bedrock"
    tools = [{"name": "run_code", "input_schema": {"type": "object"}}]
    last = await final(model, ask(tools=tools))
    assert last.content[0] == {"type": "text", "text": said}
    assert last.content[1]["input"] == {"code": "1"}
    assert last.stop_reason == "tool_use"
    assert last.usage["input_tokens"] > 0
    path = "/model/anthropic.claude-sonnet-5-5/invoke-with-response-stream"
    assert messages_api.requests[0].path == path
    events = await collect(model, ask())
    assert [e.reason for e in events if isinstance(e, Retry)] == ["overloaded"]


async def test_a_key_that_bedrock_refuses(messages_api: MessagesAPI, make_model: MakeModel) -> None:
    model = make_model(provider="bedrock", region="eu-west-1", api_key="wrong-0123456789")
    model._config.provider = "bedrock"
    with pytest.raises(ModelError) as caught:
        await final(model, ask())
    assert caught.value.code == "bad_credentials"


async def test_vertex_streams_with_a_service_account(
    messages_api: MessagesAPI,
    make_model: MakeModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    account = tmp_path / "account.json"
    account.write_text(json.dumps(service_account(f"{messages_api.url}/token")))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
    messages_api.enqueue(reply("From Vertex."))
    model = make_model(provider="vertex", project="my-project", region="us-east5")
    last = await final(model, ask())
    assert last.content == [{"type": "text", "text": "From Vertex."}]
    assert messages_api.requests[0].path == (
        "/projects/my-project/locations/us-east5/publishers/anthropic/models/"
        "claude-sonnet-5-5:streamRawPredict"
    )


def service_account(token_uri: str) -> dict[str, str]:
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return {
        "type": "service_account",
        "project_id": "my-project",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_email": "prime@my-project.iam.gserviceaccount.com",
        "token_uri": token_uri,
    }


async def test_bedrock_asks_for_what_it_needs(tmp_path: Path) -> None:
    error = await refused("bedrock", tmp_path)
    assert error.code == "no_credentials"
    assert "ModelConfig.region" in error.hint


async def test_bedrock_without_credentials(tmp_path: Path) -> None:
    error = await refused("bedrock", tmp_path, region="eu-west-1", base_url="http://127.0.0.1:9")
    assert error.code == "no_credentials"
    assert "AWS" in error.hint


async def test_vertex_without_credentials(tmp_path: Path) -> None:
    error = await refused("vertex", tmp_path, base_url="http://127.0.0.1:9")
    assert error.code == "no_credentials"
    assert "gcloud auth application-default login" in error.hint


async def test_foundry_without_a_resource(tmp_path: Path) -> None:
    error = await refused("foundry", tmp_path)
    assert error.code == "no_credentials"
    assert "ModelConfig.project" in error.hint


@pytest.mark.parametrize(
    ("provider", "module", "package"),
    [("bedrock", "boto3", "boto3"), ("vertex", "google.auth", "google-auth")],
)
async def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str, module: str, package: str
) -> None:
    find_spec = importlib.util.find_spec

    def without(name: str, *arguments: Any) -> Any:
        return None if name == module else find_spec(name, *arguments)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    error = await refused(provider, tmp_path, region="eu-west-1")
    assert error.code == "not_installed"
    assert package in error.message
    assert f'pip install "prime_ext[{provider}]"' in error.hint


async def refused(provider: str, folder: Path, **traits: Any) -> ModelError:
    config = ModelConfig(provider=provider, max_attempts=1, **traits)
    connection = Connection(
        provider, config, CredentialStore(config, folder / "credentials.json", {})
    )
    model = AnthropicModel(connection, "claude-sonnet-5-5", config)
    try:
        with pytest.raises(ModelError) as caught:
            await collect(model, ask())
    finally:
        await connection.close()
    return caught.value
