"""The files of a snapshot.

``kernel-state.dill`` is the *head*::

    magic (8) | component streams | manifest (JSON) | manifest offset, length (2 × u64, little
    endian) | HMAC-SHA256 over everything before (32) | end magic (8)

It is deliberately not a plain pickle: ``pickle.load`` or ``dill.load`` on it fails at the first
byte, so that nobody unpickles it by accident without its signature having been checked.

``kernel-state.d/`` holds the segments (large buffers), the previous head, the lock, and what the
verifier found. ``kernel-state.json`` is a readable copy of the manifest; the head wins.
"""

from __future__ import annotations

import json
import os
import re
import stat
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import signing
from .errors import SnapshotCorrupt, SnapshotMissing, SnapshotRefused, SnapshotTooNew

FORMAT_VERSION = 1
MAGIC = b"PRIMEKS\x01"
END_MAGIC = b"\x01SKEMIRP"
_LENGTHS = struct.Struct("<QQ")
_TRAILER_BYTES = _LENGTHS.size + signing.SIGNATURE_BYTES + len(END_MAGIC)

HEAD_NAME = "kernel-state.dill"
JSON_NAME = "kernel-state.json"
DATA_NAME = "kernel-state.d"
PREVIOUS_NAME = "previous.dill"
KEPT_NAME = "kept.dill"
_NUMBERED = re.compile(r"kept-[0-9]{1,9}")
VERIFIED_NAME = "verified.json"

IN_HEAD = "head"


@dataclass
class Extent:
    """A run of bytes in the head or in a segment.

    ``fast`` is its change-detection digest; ``strong`` its collision-resistant one, empty for
    what lies in the head (the signature covers that).
    """

    where: str
    offset: int
    length: int
    fast: str = ""
    strong: str = ""


@dataclass
class ComponentRecord:
    """One connected component of the namespace.

    ``roots`` are ``["class", key]``, ``["name", name]`` or ``["patch", place]`` in the order of the
    stream; ``uses``
    the keys of the classes whose instances occur in it; ``verified`` that this very content was
    read back before. ``packed``: empty, or the first of ``buffers`` is a pack (`packing`), and this
    the order in which the stream wants buffers: a length for one in the pack, −1 for a large one.
    """

    roots: Sequence[Sequence[str]]
    tier: str
    stream: Extent
    buffers: list[Extent]
    fingerprint: str
    uses: list[str] = field(default_factory=list)
    verified: bool = False
    packed: list[int] = field(default_factory=list)


@dataclass
class Manifest:
    """What a snapshot holds, without loading any of it.

    ``names`` maps a name to ``{status, reason, recipe, type, size, component}``; ``signature``
    says what `inspect` found: ``valid``, ``invalid``, or ``unchecked``.
    """

    version: int = FORMAT_VERSION
    id: str = ""
    created: str = ""
    generation: int = 0
    seq: int | None = None
    kernelspec: str | None = None
    python: str = ""
    cache_tag: str = ""
    process: str = ""
    fingerprint: str = ""
    names: dict[str, dict[str, Any]] = field(default_factory=dict)
    components: list[ComponentRecord] = field(default_factory=list)
    skeletons: Extent | None = None
    skeleton_keys: list[str] = field(default_factory=list)
    process_state: Extent | None = None
    modules: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    total_bytes: int = 0
    signature: str = "unchecked"

    def segments(self) -> dict[str, int]:
        """Live bytes by segment name."""
        live: dict[str, int] = {}
        for extent in self.extents():
            if extent.where != IN_HEAD:
                live[extent.where] = live.get(extent.where, 0) + extent.length
        return live

    def extents(self) -> list[Extent]:
        """Every extent the snapshot needs, an extent that is used twice only once."""
        found: dict[tuple[str, int], Extent] = {}
        for component in self.components:
            for extent in (component.stream, *component.buffers):
                found[(extent.where, extent.offset)] = extent
        for other in (self.skeletons, self.process_state):
            if other is not None:
                found[(other.where, other.offset)] = other
        return list(found.values())

    def to_dict(self) -> dict[str, Any]:
        """The manifest as JSON types. `dataclasses.asdict` would copy deeply."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields["names"] = {name: _without_empty(entry) for name, entry in self.names.items()}
        fields["components"] = [_as_json(component) for component in self.components]
        for name in ("skeletons", "process_state"):
            if fields[name] is not None:
                fields[name] = vars(fields[name])
        return fields

    def encode(self) -> bytes:
        """The manifest as JSON, an item a line, for people to read (`indent` takes a slow way)."""
        raw = self.to_dict()
        return json.dumps(raw, separators=(",\n", ":"), check_circular=False).encode("utf-8")

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Manifest:
        """Parse; raises `SnapshotCorrupt` on anything that is not a manifest of this version."""
        try:
            if raw["version"] != FORMAT_VERSION:
                raise SnapshotTooNew(
                    f"The snapshot has format version {raw['version']}, this library reads "
                    f"version {FORMAT_VERSION}; update prime_ext."
                )
            fields = {name: raw[name] for name in cls.__dataclass_fields__ if name in raw}
            fields["names"] = {
                name: {**_NAME_DEFAULTS, **entry} for name, entry in raw["names"].items()
            }
            fields["components"] = [_component(item) for item in raw["components"]]
            for name in ("skeletons", "process_state"):
                if fields.get(name) is not None:
                    fields[name] = Extent(**fields[name])
            return cls(**fields)
        except (KeyError, TypeError, ValueError) as error:
            raise SnapshotCorrupt(f"The snapshot's manifest is damaged: {error!r}") from error


_NAME_DEFAULTS = {"reason": "", "recipe": None, "type": "", "size": 0, "component": None}


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Thousands of entries say nothing but their defaults; those read and write slowly."""
    return {name: value for name, value in fields.items() if value or type(value) is int}


def _as_json(component: ComponentRecord) -> dict[str, Any] | list[Any]:
    """As JSON types; of a small component, of which there may be thousands, without field names."""
    stream = component.stream
    if stream.where == IN_HEAD and component.tier == "c" and not component.buffers:
        where = (stream.offset, stream.length, stream.fast)
        return [
            component.roots,
            *where,
            component.fingerprint,
            component.uses,
            component.verified,
        ]
    fields = {**_without_empty(vars(component)), "stream": _without_empty(vars(stream))}
    if component.buffers:
        fields["buffers"] = [vars(buffer) for buffer in component.buffers]
    return fields


def _component(raw: Mapping[str, Any] | list[Any]) -> ComponentRecord:
    if isinstance(raw, list):
        roots, offset, length, fast, fingerprint, uses, verified = raw
        stream = Extent(IN_HEAD, offset, length, fast)
        return ComponentRecord(roots, "c", stream, [], fingerprint, uses, verified)
    fields = dict(raw)
    fields["stream"] = Extent(**fields["stream"])
    fields["buffers"] = [Extent(**extent) for extent in fields.get("buffers", ())]
    return ComponentRecord(**fields)


class HeadBuilder:
    """Collects the streams of a head; `finish` gives its bytes."""

    def __init__(self) -> None:
        self._parts: list[bytes | memoryview] = [MAGIC]
        self._size = len(MAGIC)

    def add(self, stream: bytes | memoryview, fast: str = "") -> Extent:
        """Append a stream, returning where it will lie."""
        extent = Extent(IN_HEAD, self._size, len(stream), fast)
        self._parts.append(stream)
        self._size += len(stream)
        return extent

    def finish(self, encoded: bytes, key: bytes) -> list[bytes | memoryview]:
        """The complete, signed head, in pieces; ``encoded`` is its manifest (`encode`)."""
        streams = b"".join(self._parts)  # thousands of small ones
        content = [streams, encoded, _LENGTHS.pack(self._size, len(encoded))]
        return [*content, signing.sign(key, *content), END_MAGIC]


@dataclass
class Head:
    """A head in memory, its signature already checked unless ``manifest.signature`` says not."""

    content: bytes
    manifest: Manifest

    def stream(self, extent: Extent) -> memoryview:
        """The bytes of an extent that lies in the head."""
        end = extent.offset + extent.length
        if extent.offset < 0 or extent.length < 0 or end > len(self.content):
            raise SnapshotCorrupt("The snapshot's manifest points outside of its head.")
        return memoryview(self.content)[extent.offset : end]

    def streams(self) -> memoryview:
        """All streams as they lie one behind the other."""
        end, _ = _LENGTHS.unpack_from(self.content, len(self.content) - _TRAILER_BYTES)
        return memoryview(self.content)[len(MAGIC) : end]


def read_private(path: Path) -> bytes:
    """The content of a regular file that no symbolic link stands in for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        raise SnapshotMissing(f"There is no snapshot at {path}.") from None
    except OSError as error:
        raise SnapshotRefused(f"{path} cannot be opened as a plain file: {error}") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SnapshotRefused(f"{path} is not a regular file.")
        return file.read()


def parse_head(content: bytes, key: bytes | None, source: Path, hint: str = "") -> Head:
    """Check the signature, then read the manifest. Nothing is unpickled here.

    With ``key=None`` the signature stays unchecked: good for looking, refused for loading.
    ``hint``: what to do if there is something wrong with it.
    Raises `SnapshotCorrupt` for what is not a whole head, `SnapshotRefused` for a foreign one.
    """
    whole = (
        len(content) >= len(MAGIC) + _TRAILER_BYTES
        and content.startswith(MAGIC)
        and content.endswith(END_MAGIC)
    )
    if not whole:
        raise SnapshotCorrupt(f"{source} is not a complete snapshot head. {hint}".rstrip())
    signed = memoryview(content)[: -signing.SIGNATURE_BYTES - len(END_MAGIC)]
    signature = content[len(signed) : len(signed) + signing.SIGNATURE_BYTES]
    if key is not None and not signing.verify(key, signed, signature):
        raise SnapshotRefused(
            f"{source} was altered or was not made with this key, so it was not loaded. "
            f"If it comes from another machine, import it with explicit trust. {hint}".rstrip()
        )
    start, length = _LENGTHS.unpack(signed[-_LENGTHS.size :])
    damaged = f"{source} has a damaged manifest. {hint}".rstrip()
    if start + length != len(signed) - _LENGTHS.size:
        raise SnapshotCorrupt(damaged)
    try:
        raw = json.loads(bytes(signed[start : start + length]))
    except ValueError as error:
        raise SnapshotCorrupt(damaged) from error
    manifest = Manifest.from_dict(raw)
    manifest.signature = "unchecked" if key is None else "valid"
    return Head(content, manifest)


def numbered(directory: Path) -> list[str]:
    """The generations ``kept-N`` that are there, the newest first."""
    try:
        stems = [path.stem for path in (directory / DATA_NAME).glob("kept-*.dill")]
    except OSError:
        return []
    found = [stem for stem in stems if _NUMBERED.fullmatch(stem)]
    return sorted(found, key=lambda stem: int(stem.partition("-")[2]), reverse=True)


def generations(directory: Path) -> list[str]:
    """The generations that there may be, those in use first."""
    return ["current", "previous", *numbered(directory), "kept"]


def head_path(directory: Path, generation: str) -> Path:
    """Where the head of a generation lies: ``current``, ``previous``, ``kept`` or ``kept-N``."""
    names = {
        "current": directory / HEAD_NAME,
        "previous": directory / DATA_NAME / PREVIOUS_NAME,
        "kept": directory / DATA_NAME / KEPT_NAME,
    }
    if _NUMBERED.fullmatch(generation):
        return directory / DATA_NAME / f"{generation}.dill"
    try:
        return names[generation]
    except KeyError:
        raise ValueError(
            f"generation must be one of {', '.join(names)}, not {generation!r}."
        ) from None


def other_generation(directory: Path, generation: str) -> str:
    """What to do if a generation is damaged or gone; empty if there is no other one."""
    for other in generations(directory):
        if other != generation and head_path(directory, other).exists():
            which = "The previous" if other == "previous" else "Another"
            return f"{which} generation may be intact: load it with generation={other!r}."
    return ""


def read_head(directory: Path, key: bytes | None, generation: str = "current") -> Head:
    """Read and check the head of one generation."""
    path = head_path(directory, generation)
    try:
        content = read_private(path)
    except SnapshotMissing as error:
        hint = other_generation(directory, generation) if generation == "current" else ""
        raise SnapshotMissing(f"{error} {hint}".rstrip()) from None
    return parse_head(content, key, path, other_generation(directory, generation))
