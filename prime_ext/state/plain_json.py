"""JSON without the functions of `json`: a notebook may have replaced them by ones of its own."""

from __future__ import annotations

import json
from typing import Any


def dumps(value: Any, **options: Any) -> str:
    """Return a value as JSON. The options are those of `json.JSONEncoder`."""
    return json.JSONEncoder(**options).encode(value)


def loads(text: str | bytes) -> Any:
    """Parse JSON. Raises ``ValueError`` if it is not valid."""
    return json.JSONDecoder().decode(text if isinstance(text, str) else text.decode("utf-8"))
