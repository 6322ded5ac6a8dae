"""Fields and types of a request: what is missing, unknown, or of the wrong kind."""

from __future__ import annotations

import base64
import binascii
import json
import re
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from prime_ext.context.image_size import image_format, image_size
from tests.messages_api.errors import refuse

REQUEST_FIELDS: dict[str, type | tuple[type, ...]] = {
    "model": str,
    "max_tokens": int,
    "messages": list,
    "cache_control": dict,
    "compaction": dict,
    "container": str,
    "context_management": dict,
    "diagnostics": dict,
    "inference_geo": str,
    "metadata": dict,
    "output_config": dict,
    "service_tier": str,
    "speed": str,
    "stop_sequences": list,
    "stream": bool,
    "system": (str, list),
    "thinking": dict,
    "tool_choice": dict,
    "tools": list,
}
COUNT_FIELDS = (
    "model",
    "messages",
    "cache_control",
    "compaction",
    "context_management",
    "output_config",
    "speed",
    "system",
    "thinking",
    "tool_choice",
    "tools",
)
NULLABLE = {
    "cache_control",
    "compaction",
    "container",
    "context_management",
    "diagnostics",
    "inference_geo",
    "speed",
}

BLOCK_FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "text": ({"text"}, {"cache_control", "citations"}),
    "image": ({"source"}, {"cache_control", "transformations"}),
    "tool_use": ({"id", "name", "input"}, {"cache_control", "caller"}),
    "tool_result": ({"tool_use_id"}, {"cache_control", "content", "is_error"}),
    "thinking": ({"thinking", "signature"}, set()),
    "redacted_thinking": ({"data"}, set()),
    "compaction": ({"content", "signature"}, {"cache_control"}),
    "server_tool_use": ({"id", "name", "input"}, {"cache_control", "caller"}),
    "web_search_tool_result": ({"tool_use_id", "content"}, {"cache_control", "caller"}),
}
"""Required and optional fields of each block type, ``type`` aside."""

ROLE_BLOCKS = {
    "user": {"text", "image", "tool_result"},
    "assistant": {
        "text",
        "tool_use",
        "thinking",
        "redacted_thinking",
        "server_tool_use",
        "web_search_tool_result",
    },
}
RESULT_BLOCKS = {"text", "image"}

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
TOOL_ID = re.compile(r"[a-zA-Z0-9_-]+")
MAX_MESSAGES = 100_000

IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
IMAGE_MAX_BYTES = 5 * 1024 * 1024
"""Of base64."""
IMAGE_MAX_SIDE = 8_000
MANY_IMAGES = 20
MANY_IMAGES_MAX_SIDE = 2_000


def check_fields(body: dict[str, Any], *, counting: bool) -> None:
    """Top level: known fields of the right type, the required ones present."""
    known = COUNT_FIELDS if counting else tuple(REQUEST_FIELDS)
    for key, value in body.items():
        if key not in known:
            raise refuse(key, "Extra inputs are not permitted")
        if value is None and key in NULLABLE:
            continue
        kind = REQUEST_FIELDS[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise refuse(key, "Input has the wrong type")
    for key in ("model", "messages") if counting else ("model", "messages", "max_tokens"):
        if key not in body:
            raise refuse(key, "Field required")
    if not counting and body["max_tokens"] < 1:
        raise refuse("max_tokens", "Input should be greater than or equal to 1")
    if not body["messages"]:
        raise refuse("messages", "at least one message is required")
    if len(body["messages"]) > MAX_MESSAGES:
        raise refuse("messages", f"at most {MAX_MESSAGES} messages are allowed")


def system_blocks(system: str | list[Any] | None) -> list[dict[str, Any]]:
    """The system prompt as checked text blocks."""
    if system is None or system == "":
        return []
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]
    return [_block(block, f"system.{i}", {"text"}) for i, block in enumerate(system)]


def messages(raw: list[Any], *, compacted: bool = False) -> list[dict[str, Any]]:
    """Checked messages, their content as lists of blocks.

    ``compacted``: blocks of a compaction are known, as the beta has it.
    """
    checked = []
    for i, message in enumerate(raw):
        where = f"messages.{i}"
        if not isinstance(message, dict):
            raise refuse(where, "Input should be an object")
        for key in message:
            if key not in ("role", "content"):
                raise refuse(f"{where}.{key}", "Extra inputs are not permitted")
        role = message.get("role")
        if role not in ROLE_BLOCKS:
            raise refuse(f"{where}.role", "Input should be 'user' or 'assistant'")
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list):
            raise refuse(f"{where}.content", "Input should be a string or a list of blocks")
        if not content:
            raise refuse(where, "all messages must have non-empty content")
        blocks = [
            _block(
                block,
                f"{where}.content.{j}",
                ROLE_BLOCKS[role] | ({"compaction"} if compacted else set()),
            )
            for j, block in enumerate(content)
        ]
        checked.append({"role": role, "content": blocks})
    _check_images(checked)
    return checked


def _block(block: object, where: str, allowed: set[str]) -> dict[str, Any]:
    if not isinstance(block, dict):
        raise refuse(where, "Input should be an object")
    kind = block.get("type")
    if kind not in BLOCK_FIELDS or kind not in allowed:
        expected = ", ".join(sorted(allowed))
        raise refuse(where, f"Input tag '{kind}' does not match any of the expected: {expected}")
    required, optional = BLOCK_FIELDS[kind]
    for key in block:
        if key != "type" and key not in required | optional:
            raise refuse(f"{where}.{kind}.{key}", "Extra inputs are not permitted")
    for key in sorted(required):
        if key not in block:
            raise refuse(f"{where}.{kind}.{key}", "Field required")
    if block.get("cache_control") is not None:
        check_cache_control(block["cache_control"], f"{where}.{kind}.cache_control")
    _BLOCK_CHECKS[kind](block, f"{where}.{kind}")
    return block


def check_cache_control(mark: object, where: str) -> None:
    if not isinstance(mark, dict) or mark.get("type") != "ephemeral":
        raise refuse(where, "type: Input should be 'ephemeral'")
    for key in mark:
        if key not in ("type", "ttl"):
            raise refuse(f"{where}.{key}", "Extra inputs are not permitted")
    if mark.get("ttl", "5m") not in ("5m", "1h"):
        raise refuse(f"{where}.ttl", "Input should be '5m' or '1h'")


def _string(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise refuse(where, "Input should be a valid string")
    return value


def _text(block: dict[str, Any], where: str) -> None:
    text = _string(block["text"], f"{where}.text")
    if not text:
        raise refuse("messages", f"{where}: text content blocks must be non-empty")
    if not text.strip():
        raise refuse("messages", f"{where}: text content blocks must contain non-whitespace text")


def _thinking(block: dict[str, Any], where: str) -> None:
    _string(block["thinking"], f"{where}.thinking")
    _string(block["signature"], f"{where}.signature")


def _redacted(block: dict[str, Any], where: str) -> None:
    _string(block["data"], f"{where}.data")


def _tool_use(block: dict[str, Any], where: str) -> None:
    if not TOOL_ID.fullmatch(_string(block["id"], f"{where}.id")):
        raise refuse(f"{where}.id", "String should match pattern '^[a-zA-Z0-9_-]+$'")
    if not TOOL_NAME.fullmatch(_string(block["name"], f"{where}.name")):
        raise refuse(f"{where}.name", "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'")
    if not isinstance(block["input"], dict):
        raise refuse(f"{where}.input", "Input should be a valid dictionary")


def _found(block: dict[str, Any], where: str) -> None:
    _string(block["tool_use_id"], f"{where}.tool_use_id")
    for i, page in enumerate(block["content"]):
        for key in ("title", "url", "encrypted_content"):
            _string(page.get(key), f"{where}.content.{i}.{key}")


def _tool_result(block: dict[str, Any], where: str) -> None:
    _string(block["tool_use_id"], f"{where}.tool_use_id")
    if not isinstance(block.get("is_error", False), bool):
        raise refuse(f"{where}.is_error", "Input should be a valid boolean")
    content = block.get("content", "")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise refuse(f"{where}.content", "Input should be a string or a list of blocks")
    for i, inner in enumerate(content):
        _block(inner, f"{where}.content.{i}", RESULT_BLOCKS)
        if block.get("is_error") and inner["type"] != "text":
            raise refuse(where, 'all content must be type "text" if "is_error" is true')


def _image(block: dict[str, Any], where: str) -> None:
    source = block["source"]
    if not isinstance(source, dict):
        raise refuse(f"{where}.source", "Input should be an object")
    if source.get("type") == "url":
        if set(source) != {"type", "url"} or not str(source["url"]).startswith("https://"):
            raise refuse(f"{where}.source", "Only HTTPS URLs are supported.")
        return
    if source.get("type") != "base64":
        raise refuse(f"{where}.source.type", "Input should be 'base64' or 'url'")
    if set(source) != {"type", "media_type", "data"}:
        raise refuse(f"{where}.source", "base64 sources have `media_type` and `data`")
    media_type = source["media_type"]
    if media_type not in IMAGE_TYPES:
        expected = ", ".join(IMAGE_TYPES)
        raise refuse(f"{where}.source.base64.media_type", f"Input should be one of {expected}")
    try:
        data = base64.b64decode(source["data"], validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise refuse(f"{where}.source.base64", "invalid base64 data") from None
    encoded = len(source["data"])
    if encoded > IMAGE_MAX_BYTES:
        raise refuse(
            f"{where}.source.base64",
            f"image exceeds 5 MB maximum: {encoded} bytes > {IMAGE_MAX_BYTES} bytes",
        )
    found = image_format(data)
    if found is None or image_size(data) is None:
        raise refuse(f"{where}.source.base64.data", "Could not process image")
    if found != media_type:
        raise refuse(
            f"{where}.source.base64.data",
            f"Image does not match the provided media type {media_type}",
        )


def _compaction(block: dict[str, Any], where: str) -> None:
    _string(block["signature"], f"{where}.signature")
    if not _string(block["content"], f"{where}.content"):
        raise refuse(f"{where}.content", "String should have at least 1 character")


_BLOCK_CHECKS = {
    "text": _text,
    "image": _image,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
    "compaction": _compaction,
    "server_tool_use": _tool_use,
    "web_search_tool_result": _found,
}


def images(checked: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Every image of the messages with the place it stands at."""
    found = []
    for i, message in enumerate(checked):
        for j, block in enumerate(message["content"]):
            where = f"messages.{i}.content.{j}"
            if block["type"] == "image":
                found.append((where, block))
            elif block["type"] == "tool_result" and isinstance(block.get("content"), list):
                found += [
                    (f"{where}.tool_result.content.{k}", inner)
                    for k, inner in enumerate(block["content"])
                    if inner["type"] == "image"
                ]
    return found


def pixels(image: dict[str, Any]) -> tuple[int, int] | None:
    """Width and height; ``None`` for an image that is only linked to."""
    source = image["source"]
    if source["type"] != "base64":
        return None
    return image_size(base64.b64decode(source["data"]))


def _check_images(checked: list[dict[str, Any]]) -> None:
    found = images(checked)
    limit = MANY_IMAGES_MAX_SIDE if len(found) > MANY_IMAGES else IMAGE_MAX_SIDE
    for where, image in found:
        size = pixels(image)
        if size is not None and max(size) > limit:
            many = " for many-image requests" if limit == MANY_IMAGES_MAX_SIDE else ""
            raise refuse(
                f"{where}.image.source.base64.data",
                f"At least one of the image dimensions exceed max allowed size{many}: "
                f"{limit} pixels",
            )


def tools(raw: list[Any] | None) -> list[dict[str, Any]]:
    """Checked tool definitions."""
    names: set[str] = set()
    for i, tool in enumerate(raw or []):
        where = f"tools.{i}"
        if not isinstance(tool, dict):
            raise refuse(where, "Input should be an object")
        if tool.get("type", "custom") not in ("custom", None):
            raise refuse(f"{where}.type", "Server tools are not served here")
        for key in tool:
            if key not in (
                "type",
                "name",
                "description",
                "input_schema",
                "cache_control",
                "strict",
                "eager_input_streaming",
                "input_examples",
            ):
                raise refuse(f"{where}.custom.{key}", "Extra inputs are not permitted")
        for key in ("name", "input_schema"):
            if key not in tool:
                raise refuse(f"{where}.custom.{key}", "Field required")
        name = _string(tool["name"], f"{where}.custom.name")
        if not TOOL_NAME.fullmatch(name):
            raise refuse(
                f"{where}.custom.name", "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
            )
        if name in names:
            raise refuse("tools", "Tool names must be unique.")
        names.add(name)
        _schema(tool["input_schema"], f"{where}.custom.input_schema")
        if tool.get("cache_control") is not None:
            check_cache_control(tool["cache_control"], f"{where}.custom.cache_control")
    return list(raw or [])


def _schema(schema: object, where: str) -> None:
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise refuse(f"{where}.type", "Input should be 'object'")
    wrong = _wrong_with(json.dumps(schema))
    if wrong is not None:
        raise refuse(
            where, f"JSON schema is invalid. It must match JSON Schema draft 2020-12: {wrong}"
        )


@cache
def _wrong_with(schema: str) -> str | None:
    """A session sends the same schemas with each request, and to check them takes 50 ms."""
    try:
        Draft202012Validator.check_schema(json.loads(schema))
    except SchemaError as error:
        return str(error.message)
    return None
