"""Removal of secrets from text, records and frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from prime_ext.clean_text import well_formed


class Redaction:
    """Replaces every known secret by ``[key]``.

    Parameters
    ----------
    secrets:
        Returns the secrets that are known now, longest first, as one may contain another.
    """

    def __init__(self, secrets: Callable[[], Sequence[str]]) -> None:
        self._secrets = secrets

    def __call__(self, text: str) -> str:
        """Return ``text`` without secrets."""
        for secret in self._secrets():
            text = text.replace(secret, "[key]")
        return text

    def throughout(self, value: Any) -> Any:
        """Return a copy of a JSON value in which no string and no key of an object has a secret."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, dict):
            return {self.throughout(key): self.throughout(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.throughout(item) for item in value]
        return value

    def is_due(self, line: bytes) -> bool:
        """Return whether JSON that msgspec has written may hold a secret.

        This is a hundred times as fast as to look at each string of a large value, and almost no
        value holds one. A secret within a string of the value is found for certain, because its
        characters are always written in the same way.
        """
        return any(
            msgspec.json.encode(well_formed(secret))[1:-1] in line for secret in self._secrets()
        )
