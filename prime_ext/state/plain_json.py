"""JSON without the attributes of `json`: a notebook may have replaced them by its own."""

from __future__ import annotations

from json.decoder import JSONDecoder
from json.encoder import JSONEncoder
from typing import Any


def dumps(value: Any, **options: Any) -> str:
    """Return a value as JSON. The options are those of `json.JSONEncoder`."""
    return JSONEncoder(**options).encode(value)


def loads(text: str | bytes) -> Any:
    """Parse JSON. Raises ``ValueError`` if it is not valid."""
    return JSONDecoder().decode(text if isinstance(text, str) else text.decode("utf-8"))
