"""Amazon Bedrock and Vertex AI in front of the same API: other paths, keys and framing."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

from tests.messages_api.errors import ApiError
from tests.messages_api.handlers import VERSIONS, ApiHandler, MessagesHandler
from tests.messages_api.stream import Event

BEDROCK_PREFIX = "anthropic."
TOKEN_SECONDS = 3_600


class CloudHandler(MessagesHandler):
    """The model stands in the path, the API's version in the body."""

    model = ""
    streams = False

    def check_access(self) -> None:
        if self.received.headers.get("authorization") != f"Bearer {self.api.key}":
            raise ApiError(403, "The security token included in the request is invalid.")

    def read_body(self) -> dict[str, Any]:
        body = super().read_body()
        if "model" in body:
            raise ApiError(400, "model: Extra inputs are not permitted")
        if body.pop("anthropic_version", None) not in VERSIONS:
            raise ApiError(400, "anthropic_version: Field required")
        self.received.body = {**body, "model": self.model, "stream": self.streams}
        return self.received.body


class BedrockHandler(CloudHandler):
    """``POST /model/{id}/invoke-with-response-stream``, framed as an AWS event stream."""

    content_type = "application/vnd.amazon.eventstream"

    async def post(self, *path: str) -> None:
        model, verb = path
        self.model = model.removeprefix(BEDROCK_PREFIX)
        self.streams = verb.endswith("stream")
        await self.answer()

    def encode(self, event: Event) -> bytes:
        data = json.dumps(event.data).encode()
        payload = json.dumps({"bytes": base64.b64encode(data).decode()}).encode()
        return aws_message(
            {
                ":event-type": "chunk",
                ":content-type": "application/json",
                ":message-type": "event",
            },
            payload,
        )


class VertexHandler(CloudHandler):
    """``POST /projects/…/models/{id}:streamRawPredict``."""

    async def post(self, *path: str) -> None:
        self.model, verb = path
        self.streams = verb == "streamRawPredict"
        await self.answer()


class TokenHandler(ApiHandler):
    """Google's exchange of a service account's signed claim for an access token."""

    def post(self) -> None:
        if self.get_body_argument("grant_type", "") != (
            "urn:ietf:params:oauth:grant-type:jwt-bearer"
        ):
            self.fail(ApiError(400, "unsupported_grant_type"))
            return
        self.send_json(
            {
                "access_token": self.api.key,
                "expires_in": TOKEN_SECONDS,
                "token_type": "Bearer",
            }
        )


def aws_message(headers: dict[str, str], payload: bytes) -> bytes:
    """One message of an AWS event stream: lengths, checksum, headers, payload, checksum."""
    encoded = b"".join(
        bytes([len(name)])
        + name.encode()
        + b"\x07"
        + struct.pack(">H", len(value))
        + value.encode()
        for name, value in headers.items()
    )
    total = 12 + len(encoded) + len(payload) + 4
    prelude = struct.pack(">II", total, len(encoded))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + encoded + payload
    return message + struct.pack(">I", zlib.crc32(message))


ROUTES = (
    (r"/model/([^/]+)/(invoke|invoke-with-response-stream)", BedrockHandler),
    (r"/projects/[^/]+/locations/[^/]+/publishers/anthropic/models/([^/:]+):(\w+)", VertexHandler),
    (r"/token", TokenHandler),
)
