"""Raw HTTP to the test API, for requests that no SDK would make."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.messages_api.server import MessagesAPI

MODEL = "claude-sonnet-5-5"
TOOL: dict[str, Any] = {"name": "run_code", "input_schema": {"type": "object"}}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.content)
        return parsed

    @property
    def error(self) -> str:
        return str(self.json["error"]["message"])

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for chunk in self.content.decode().split("\n\n"):
            if chunk:
                name, data = chunk.split("\n")
                yield name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


class Client:
    """Sends whatever it is given."""

    def __init__(self, api: MessagesAPI) -> None:
        self._api = api

    def send(
        self,
        body: object,
        path: str = "/v1/messages",
        *,
        method: str = "POST",
        headers: dict[str, str | None] | None = None,
    ) -> Answer:
        sent = {
            "x-api-key": self._api.key,
            "anthropic-version": "2023-06-01",
            "content-type": "application/json",
            **(headers or {}),
        }
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self._api.url.removeprefix("http://"), timeout=60)
        try:
            connection.request(
                method,
                path,
                data if method == "POST" else None,
                {name: value for name, value in sent.items() if value is not None},
            )
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def ask(self, messages: list[dict[str, Any]], **fields: Any) -> Answer:
        """A request that is complete but for what is given."""
        made = {"model": MODEL, "max_tokens": 1_000, "messages": messages, **fields}
        return self.send({key: value for key, value in made.items() if value is not None})


def user(*content: str | dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": [_block(part) for part in content]}


def assistant(*content: str | dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": [_block(part) for part in content]}


def call(call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "run_code", "input": arguments}


def result(call_id: str, content: Any = "ok", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


def _block(part: str | dict[str, Any]) -> dict[str, Any]:
    return {"type": "text", "text": part} if isinstance(part, str) else part


def marked(block: str | dict[str, Any], ttl: str | None = None) -> dict[str, Any]:
    mark = {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}
    return {**_block(block), "cache_control": mark}
