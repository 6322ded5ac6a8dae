"""Incremental ``progress`` frames: only the new part of a running call's growing outputs."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

Frame = dict[str, Any]


def news(before: Frame | None, frame: Frame) -> Frame | None:
    """Return ``frame`` as a difference to the frame ``before``; ``None`` if nothing is new.

    Returns
    -------
    dict or None
        The first ``from`` outputs of the earlier frame stay, and ``outputs`` replaces those after
        them. With ``tail``, an object ``{kept, text}``, the output after the first ``from`` ones is
        a stream that stays in part: the first ``kept`` UTF-16 code units (which browsers count) of
        its text, followed by ``text``. ``outputs`` then follows this output.
    """
    old, new = (before or {}).get("outputs"), frame.get("outputs")
    if not old or new is None:
        return frame
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    if same == len(old) == len(new):
        rest = {key: value for key, value in frame.items() if key != "outputs"}
        told = {key: before.get(key) for key in rest} if before else {}
        return None if rest == told else rest
    tail = _tail(old[same], new[same]) if same < min(len(old), len(new)) else None
    if tail is not None:
        return {**frame, "from": same, "tail": tail, "outputs": new[same + 1 :]}
    return {**frame, "from": same, "outputs": new[same:]} if same else frame


def _tail(old: Any, new: Any) -> dict[str, Any] | None:
    """Return how the text of a stream output continues; ``None`` if it is a different output."""
    if not _is_stream(old) or not _is_stream(new) or {**old, "text": ""} != {**new, "text": ""}:
        return None
    kept = _common(old["text"], new["text"])
    if kept == 0:
        return None
    return {"kept": _code_units(new["text"][:kept]), "text": new["text"][kept:]}


def _is_stream(output: Any) -> bool:
    return (
        isinstance(output, dict)
        and output.get("output_type") == "stream"
        and isinstance(output.get("text"), str)
    )


def _common(one: str, other: str) -> int:
    """Return the length of the common prefix of both texts."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[:middle] == other[:middle]:
            least = middle
        else:
            most = middle - 1
    return least


def _code_units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
