"""``openapi.yaml`` is valid, and describes exactly the doors there are."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any, get_args, get_type_hints

import msgspec
from jupyter_events.yaml import loads
from openapi_spec_validator import OpenAPIV31SpecValidator

from prime_ext.agent import attachment
from prime_ext.handlers import API, handlers, server, sessions, snapshots
from prime_ext.handlers.base import PrimeHandler
from prime_ext.handlers.server import NotFoundHandler
from prime_ext.session.outline import SessionSummary

VERBS = ("get", "post", "put", "patch", "delete")
EXAMPLES = {
    "session_id": "abc", "call_id": "toolu_1", "seq": "7", "snapshot_id": "s1", "turn": "t1"
}  # fmt: skip


def description() -> dict[str, Any]:
    text = files("prime_ext").joinpath("openapi.yaml").read_text(encoding="utf-8")
    loaded = loads(text)
    assert isinstance(loaded, dict)
    return loaded


def test_it_is_valid() -> None:
    assert not list(OpenAPIV31SpecValidator(description()).iter_errors())


def test_every_door_is_in_it_and_nothing_else() -> None:
    described = {}
    for path, item in description()["paths"].items():
        url = API.rstrip("/") + path.format(**EXAMPLES)
        door = next(cls for pattern, cls in handlers() if re.fullmatch(pattern, url))
        assert door is not NotFoundHandler, f"{path} leads nowhere"
        described[door] = {verb.upper() for verb in VERBS if verb in item}
    open_doors: dict[Any, set[str]] = {}
    for _, door in handlers():
        if issubclass(door, PrimeHandler):
            open_doors[door] = set(door.verbs())
        else:
            open_doors[door] = {"GET"}
    del open_doors[NotFoundHandler]
    assert described == open_doors


def test_every_verb_says_how_it_refuses() -> None:
    for path, item in description()["paths"].items():
        for verb in set(VERBS) & set(item):
            responses = item[verb]["responses"]
            assert "403" in responses, path
            if "{session_id}" in path and not path.endswith("/stream"):
                assert {"404", "409"} <= set(responses), path
            if "requestBody" in item[verb]:
                assert {"400", "413"} <= set(responses), path


def fields_of(struct: type[msgspec.Struct]) -> tuple[set[str], set[str]]:
    """All fields of a struct and the required ones."""
    fields = msgspec.structs.fields(struct)
    field = struct.__struct_config__.tag_field
    tag = {field} if field else set()
    return (
        {f.encode_name for f in fields} | tag,
        {f.encode_name for f in fields if f.required} | tag,
    )


def test_the_bodies_are_those_the_doors_take() -> None:
    schemas = description()["components"]["schemas"]
    for struct in (
        *get_args(attachment.Attachment),
        attachment.AttachedCell,
        attachment.Selection,
        server.Credentials,
        sessions.NewSession,
        sessions.SessionChanges,
        sessions.Message,
        sessions.Compaction,
        sessions.Decision,
        snapshots.Restoring,
    ):
        schema = schemas[struct.__name__]
        assert schema["additionalProperties"] is False
        described = set(schema["properties"]), set(schema.get("required", []))
        assert described == fields_of(struct), struct.__name__
    modes = get_args(sessions.Mode)
    assert schemas["PermissionMode"]["enum"] == list(modes)
    assert list(schemas["SessionSummary"]["properties"]) == [
        *get_type_hints(SessionSummary),
        "activity",
    ]
