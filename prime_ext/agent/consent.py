"""Consent of users to send conversation content to a model's server."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

from prime_ext.models.credentials import is_loopback
from prime_ext.private_file import replace_private


class ConsentStore:
    """A JSON file with the servers that each user has consented to."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def given(self, user: str, endpoint: str) -> bool:
        """Return whether ``user`` has consented to ``endpoint``.

        If the file cannot be read, nobody has.
        """
        return endpoint in self._read().get(user, [])

    def give(self, user: str, endpoint: str) -> None:
        """Store that ``user`` has consented to ``endpoint``."""
        consents = self._read()
        consents[user] = sorted({*consents.get(user, []), endpoint})
        replace_private(self._path, json.dumps(consents, indent=1))

    def _read(self) -> dict[str, list[str]]:
        try:
            consents = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return consents if isinstance(consents, dict) else {}


def needed(setting: str, endpoint: str | None) -> bool:
    """Return whether a person must consent before content is sent to ``endpoint``.

    Parameters
    ----------
    setting:
        ``remote`` (for any server except this machine), ``always`` or ``never``.
    endpoint:
        Host, with a port if there is one; ``None`` for a model that runs inside this process.
    """
    if endpoint is None or setting == "never":
        return False
    return setting == "always" or not is_local(endpoint)


def is_local(endpoint: str) -> bool:
    """Return whether ``host``, ``host:port`` or ``[v6]:port`` is this machine."""
    return is_loopback(urlsplit(f"//{endpoint}").hostname or "")


def explanation(endpoint: str, model: str, *, encrypted: bool) -> str:
    """Return the Markdown text that explains the request to the person."""
    warning = (
        ""
        if encrypted or is_local(endpoint)
        else " **The connection is plain http: anyone on the network path can read all of it.**"
    )
    return (
        f"To answer, Prime sends this conversation to the model `{model}` at **{endpoint}**: your "
        "messages, what you attach, the cells, outputs, variables and files that the agent reads "
        "while it works, and summaries of them. Keys that the server knows are taken out. The "
        "records stay on this machine. You are asked once for each server." + warning
    )
