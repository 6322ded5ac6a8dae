"""Who has agreed that conversation content is sent to which server."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

from prime_ext.models.credentials import is_loopback
from prime_ext.private_file import replace_private


class ConsentStore:
    """A small file: for each user, the servers they have agreed to."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def given(self, user: str, endpoint: str) -> bool:
        """Whether ``user`` has agreed to ``endpoint``. An unreadable file counts as no."""
        return endpoint in self._read().get(user, [])

    def give(self, user: str, endpoint: str) -> None:
        """Remember it."""
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
    """Whether a person has to agree before content goes to ``endpoint``.

    Parameters
    ----------
    setting:
        ``remote``: for any server but this machine; ``always``; ``never``.
    endpoint:
        Host, with port if any; ``None`` for a model that runs inside this process.
    """
    if endpoint is None or setting == "never":
        return False
    return setting == "always" or not is_local(endpoint)


def is_local(endpoint: str) -> bool:
    """Whether ``host``, ``host:port`` or ``[v6]:port`` is this machine."""
    return is_loopback(urlsplit(f"//{endpoint}").hostname or "")


def explanation(endpoint: str, model: str, *, encrypted: bool) -> str:
    """What the person is told, Markdown."""
    warning = (
        ""
        if encrypted or is_local(endpoint)
        else " **The connection is plain http: whoever is on the way can read all of it.**"
    )
    return (
        f"To answer, Prime sends this conversation to the model `{model}` at **{endpoint}**: your "
        "messages, what you attach, the cells, outputs, variables and files that the agent reads "
        "while it works, and summaries of them. Keys that the server knows are taken out. The "
        "records stay on this machine. You are asked once for each server." + warning
    )
