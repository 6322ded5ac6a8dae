"""The files of a snapshot.

``kernel-state.dill`` is the *head*::

    magic (8) | component streams | manifest (JSON) | manifest offset, length (2 × u64, little
    endian) | HMAC-SHA256 over everything before (32) | end magic (8)

The head is deliberately not a plain pickle: ``pickle.load`` and ``dill.load`` fail at its first
byte, so that nobody unpickles it by accident before its signature has been checked.

``kernel-state.d/`` holds the segments (large buffers), the previous and kept heads, the lock, and
the results of the verifier. ``kernel-state.json`` is a readable copy of the manifest; if the two
differ, the head counts.
"""

from __future__ import annotations

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
from .plain_json import dumps, loads

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

    ``where`` is `IN_HEAD` or the name of a segment. ``fast`` is the digest for change detection;
    ``strong`` the collision-resistant one, empty in the head, which the signature covers.
    """

    where: str
    offset: int
    length: int
    fast: str = ""
    strong: str = ""


@dataclass
class ComponentRecord:
    """One connected component of the namespace.

    Attributes
    ----------
    roots: ``["class", key]``, ``["name", name]`` or ``["patch", place]``, in the order of the
        stream.
    tier: how it was pickled: ``c``, ``python``, ``dill`` or ``salvage``.
    stream: where the pickle stream lies.
    buffers: where its out-of-band buffers lie.
    fingerprint: digest of the roots and the content.
    uses: keys of the classes that occur in it.
    verified: whether a component with this fingerprint has been read back before.
    packed: empty, or, if the first of ``buffers`` is a pack (`packing`), the order in which the
        stream takes buffers: the length of one in the pack, −1 for a large one.
    attributes: those of objects whose class says what is saved of them (`own_attributes`).
    """

    roots: Sequence[Sequence[str]]
    tier: str
    stream: Extent
    buffers: list[Extent]
    fingerprint: str
    uses: list[str] = field(default_factory=list)
    verified: bool = False
    packed: list[int] = field(default_factory=list)
    attributes: str = ""


@dataclass
class Manifest:
    """The description of a snapshot's contents, readable without loading any of them.

    ``names`` maps a name to ``{status, reason, recipe, type, size, component}``, where
    ``component`` is an index into ``components``, or None for a skipped name. ``signature`` is
    ``valid``, ``invalid`` or ``unchecked``.
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
        """Return the bytes that the snapshot uses of each segment, by segment name."""
        live: dict[str, int] = {}
        for extent in self.extents():
            if extent.where != IN_HEAD:
                live[extent.where] = live.get(extent.where, 0) + extent.length
        return live

    def extents(self) -> list[Extent]:
        """Return every extent the snapshot needs, each once."""
        found: dict[tuple[str, int], Extent] = {}
        for component in self.components:
            for extent in (component.stream, *component.buffers):
                found[(extent.where, extent.offset)] = extent
        for other in (self.skeletons, self.process_state):
            if other is not None:
                found[(other.where, other.offset)] = other
        return list(found.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the manifest as JSON types, without the deep copies of `dataclasses.asdict`."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields["names"] = {name: _without_empty(entry) for name, entry in self.names.items()}
        fields["components"] = [_as_json(component) for component in self.components]
        for name in ("skeletons", "process_state"):
            if fields[name] is not None:
                fields[name] = vars(fields[name])
        return fields

    def encode(self) -> bytes:
        """Return the manifest as JSON, one item per line so that people can read it.

        Line breaks come from the separators, because ``indent`` selects json's slow encoder.
        """
        raw = self.to_dict()
        return dumps(raw, separators=(",\n", ":"), check_circular=False).encode("utf-8")

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Manifest:
        """Parse a manifest. Raises `SnapshotCorrupt` if it is damaged or of another version."""
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
    """Drop fields that are empty or false: there may be thousands of entries to read and write."""
    return {name: value for name, value in fields.items() if value or type(value) is int}


def _as_json(component: ComponentRecord) -> dict[str, Any] | list[Any]:
    """Return a component as JSON types; a small one, of which there may be thousands, as a list."""
    stream = component.stream
    is_simple = component.tier == "c" and not component.buffers and not component.attributes
    if stream.where == IN_HEAD and is_simple:
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
    """Collects the streams of a head and returns its bytes from `finish`."""

    def __init__(self) -> None:
        self._parts: list[bytes | memoryview] = [MAGIC]
        self._size = len(MAGIC)

    def add(self, stream: bytes | memoryview, fast: str = "") -> Extent:
        """Append a stream and return its extent."""
        extent = Extent(IN_HEAD, self._size, len(stream), fast)
        self._parts.append(stream)
        self._size += len(stream)
        return extent

    def join(self) -> None:
        """Make one piece of all streams, so that they need not be kept one by one."""
        self._parts = [b"".join(self._parts)]

    def copy(self) -> HeadBuilder:
        """Return a builder that goes on from here."""
        other = HeadBuilder()
        other._parts, other._size = self._parts[:], self._size
        return other

    def finish(self, encoded: bytes, key: bytes) -> list[bytes | memoryview]:
        """Return the complete, signed head in pieces. ``encoded`` is `Manifest.encode`'s result."""
        content = [*self._parts, encoded, _LENGTHS.pack(self._size, len(encoded))]
        return [*content, signing.sign(key, *content), END_MAGIC]


@dataclass
class Head:
    """A head in memory. Its signature is valid unless ``manifest.signature`` says otherwise."""

    content: bytes
    manifest: Manifest

    def stream(self, extent: Extent) -> memoryview:
        """Return the bytes of an extent in the head."""
        end = extent.offset + extent.length
        if extent.offset < 0 or extent.length < 0 or end > len(self.content):
            raise SnapshotCorrupt("The snapshot's manifest points outside of its head.")
        return memoryview(self.content)[extent.offset : end]

    def streams(self) -> memoryview:
        """Return all streams of the head as one contiguous view."""
        end, _ = _LENGTHS.unpack_from(self.content, len(self.content) - _TRAILER_BYTES)
        return memoryview(self.content)[len(MAGIC) : end]


def read_private(path: Path) -> bytes:
    """Return the content of a regular file; refuse symbolic links and other kinds of file."""
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
    """Check the signature of a head, then parse its manifest. Nothing is unpickled here.

    With ``key=None`` the signature is not checked: enough for inspecting a snapshot, but not for
    loading it. ``hint`` is appended to error messages and says what to do.

    Raises `SnapshotCorrupt` if the head is incomplete or damaged, and `SnapshotRefused` if it was
    altered or signed with another key.
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
        raw = loads(bytes(signed[start : start + length]))
    except ValueError as error:
        raise SnapshotCorrupt(damaged) from error
    manifest = Manifest.from_dict(raw)
    manifest.signature = "unchecked" if key is None else "valid"
    return Head(content, manifest)


def numbered(directory: Path) -> list[str]:
    """Return the existing generations ``kept-N``, the newest first."""
    try:
        stems = [path.stem for path in (directory / DATA_NAME).glob("kept-*.dill")]
    except OSError:
        return []
    found = [stem for stem in stems if _NUMBERED.fullmatch(stem)]
    return sorted(found, key=lambda stem: int(stem.partition("-")[2]), reverse=True)


def generations(directory: Path) -> list[str]:
    """Return the names of all generations that may exist, those in use first."""
    return ["current", "previous", *numbered(directory), "kept"]


def head_path(directory: Path, generation: str) -> Path:
    """Return the path of a generation's head: ``current``, ``previous``, ``kept``, ``kept-N``."""
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
    """Return a hint to load another generation if this one fails; empty if there is none."""
    for other in generations(directory):
        if other != generation and head_path(directory, other).exists():
            which = "The previous" if other == "previous" else "Another"
            return f"{which} generation may be intact: load it with generation={other!r}."
    return ""


def read_head(directory: Path, key: bytes | None, generation: str = "current") -> Head:
    """Read the head of one generation and check it as `parse_head` does."""
    path = head_path(directory, generation)
    try:
        content = read_private(path)
    except SnapshotMissing as error:
        hint = other_generation(directory, generation) if generation == "current" else ""
        raise SnapshotMissing(f"{error} {hint}".rstrip()) from None
    return parse_head(content, key, path, other_generation(directory, generation))
