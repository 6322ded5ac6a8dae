"""Outputs of a running call, sent again and again as they grow: only what is new of them."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

Frame = dict[str, Any]


def news(before: Frame | None, frame: Frame) -> Frame | None:
    """``frame`` for whoever has the one ``before``; ``None`` if it tells them nothing.

    ``from`` outputs of the frame before stay, ``outputs`` replace what followed them. With
    ``tail``, ``{kept, text}``, the output behind those that stay goes on as well: the first
    ``kept`` UTF-16 code units of its text, as browsers count, and then ``text``.
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
    """How the text of one stream goes on; ``None`` if it is another stream, or another text."""
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
    """Length of the beginning that both texts have."""
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
