"""Sources and storage of the API key, and the secrets to redact from all text."""

from __future__ import annotations

import ipaddress
import json
import os
import stat
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from prime_ext.config import ModelConfig
from prime_ext.errors import PrimeError
from prime_ext.private_file import replace_private
from prime_ext.redaction import Redaction

PRIME_KEY = "PRIME_API_KEY"
SHARED_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
"""Variables that users also set for their own notebooks: used, but left in the environment."""
BASE_URL_VARIABLE = "ANTHROPIC_BASE_URL"
PROVIDER_SECRETS = (
    "ANTHROPIC_FOUNDRY_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
)
"""Variables that the provider clients read by themselves; listed only for redaction."""

KEYED_PROVIDERS = ("anthropic", "bedrock", "foundry")
"""Providers for which an API key suffices."""
SHORTEST_SECRET = 8
"""Minimum length for redaction; redacting shorter strings would hit ordinary words."""
LONGEST_KEY = 4_096


@dataclass(frozen=True)
class Credential:
    """The key and server that a client is built with; the key is meant for that server only."""

    source: str
    """``environment``, ``config``, ``stored`` or ``none``."""
    origin: str
    """Variable, trait or place where the key was found, for messages."""
    provider: str = "anthropic"
    api_key: str | None = field(default=None, repr=False)
    auth_token: str | None = field(default=None, repr=False)
    base_url: str | None = None

    @property
    def has_key(self) -> bool:
        return bool(self.api_key or self.auth_token)


class CredentialStore:
    """Determine the key in use, and store the key that was entered in the panel.

    Precedence: ``PRIME_API_KEY``, the trait ``ModelConfig.api_key``, the key entered in the panel,
    ``ANTHROPIC_API_KEY``, ``ANTHROPIC_AUTH_TOKEN``.

    Parameters
    ----------
    config:
        Source of ``api_key``, ``base_url`` and ``provider``.
    path:
        File for the key and URL entered in the panel; created on first use, readable only by its
        owner.
    environ:
        Environment variables. ``PRIME_API_KEY`` is removed at once, so that no kernel started later
        inherits it.
    """

    def __init__(
        self,
        config: ModelConfig,
        path: Path,
        environ: MutableMapping[str, str] = os.environ,
    ) -> None:
        self._config = config
        self._path = path
        self._environ = environ
        self.redact = Redaction(self.secrets)
        self._prime_key = _take(PRIME_KEY, environ)
        self._stored, self.problem = self._read()
        """``problem``: reason why the file cannot be used, for the log; empty if it can."""
        self.version = 0
        """Incremented at each change, so that clients are rebuilt."""

    def current(self) -> Credential:
        """Return the credential in use."""
        provider = self._config.provider
        provider = "anthropic" if provider in ("auto", "offline") else provider
        base_url = self._base_url()
        if self._prime_key:
            return Credential(
                "environment", PRIME_KEY, provider, self._prime_key, base_url=base_url
            )
        if self._config.api_key:
            return Credential(
                "config", "ModelConfig.api_key", provider, self._config.api_key, base_url=base_url
            )
        if self._stored:
            return self._of_panel(self._stored)
        api_key, auth_token = (self._environ.get(name) or None for name in SHARED_VARIABLES)
        if provider == "anthropic" and api_key:
            return Credential(
                "environment", SHARED_VARIABLES[0], provider, api_key, base_url=base_url
            )
        if provider == "anthropic" and auth_token:
            return Credential(
                "environment",
                SHARED_VARIABLES[1],
                provider,
                auth_token=auth_token,
                base_url=base_url,
            )
        return Credential("none", "", provider, base_url=base_url)

    def source(self) -> str:
        """Return ``none``, ``environment``, ``config`` or ``stored``."""
        return self.current().source

    def api_key(self) -> str | None:
        return self.current().api_key

    def base_url(self) -> str | None:
        return self.current().base_url

    def configured(self) -> bool:
        """Whether a key or the URL of a server is configured."""
        current = self.current()
        return current.has_key or current.base_url is not None

    def secrets(self) -> list[str]:
        """Return all known keys for redaction, longest first, as one may contain another."""
        found = {
            self._prime_key,
            self._config.api_key,
            (self._stored or {}).get("api_key"),
            *(self._environ.get(name) for name in (*SHARED_VARIABLES, *PROVIDER_SECRETS)),
        }
        return sorted(
            (secret for secret in found if secret and len(secret) >= SHORTEST_SECRET),
            key=lambda secret: (-len(secret), secret),
        )

    def entered(
        self, provider: str, api_key: str | None, base_url: str | None = None
    ) -> Credential:
        """Return the credential for values entered in the panel, without storing them.

        Raises
        ------
        PrimeError
            As for ``set``, except ``credentials_unwritable``.
        """
        return self._of_panel(self._entry(provider, api_key, base_url))

    def set(self, provider: str, api_key: str | None, base_url: str | None = None) -> None:
        """Store the values that were entered in the panel.

        Raises
        ------
        PrimeError
            ``credentials_fixed`` if a key in the environment or configuration takes precedence;
            ``credentials_invalid`` if the key or URL is malformed; ``credentials_unwritable`` if
            the file cannot be written.
        """
        entry = self._entry(provider, api_key, base_url)
        self._write(entry)
        self._stored, self.problem = entry, ""
        self.version += 1

    def _entry(self, provider: str, api_key: str | None, base_url: str | None) -> dict[str, Any]:
        for value, origin in (
            (self._prime_key, PRIME_KEY),
            (self._config.api_key, "ModelConfig.api_key"),
        ):
            if value:
                raise PrimeError(
                    f"The key comes from {origin} and cannot be replaced here.",
                    code="credentials_fixed",
                    hint=f"Take {origin} out of the server's configuration and restart it.",
                    status=409,
                )
        return _checked(provider, api_key, base_url)

    def _of_panel(self, entry: dict[str, Any]) -> Credential:
        return Credential(
            "stored",
            "the panel",
            entry["provider"],
            entry.get("api_key"),
            base_url=entry.get("base_url") or self._base_url(),
        )

    def _base_url(self) -> str | None:
        return self._config.base_url or self._environ.get(BASE_URL_VARIABLE) or None

    def clear(self) -> None:
        """Delete the values that were entered in the panel."""
        with suppress(FileNotFoundError):
            self._path.unlink()
        self._stored, self.problem = None, ""
        self.version += 1

    def _read(self) -> tuple[dict[str, Any] | None, str]:
        if self._path.is_symlink():
            return None, f"{self._path} is not used: it is a symbolic link."
        try:
            # O_NOFOLLOW, where available, guards against a symlink created since the check.
            descriptor = os.open(self._path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        except FileNotFoundError:
            return None, ""
        except OSError as error:
            return None, f"{self._path} is not used: {error.strerror}."
        with os.fdopen(descriptor, encoding="utf-8") as file:
            problem = _unsafe(os.fstat(file.fileno()))
            if problem:
                return None, f"{self._path} is not used: {problem}."
            try:
                entry = json.load(file)
            except ValueError:
                entry = None
        if not isinstance(entry, dict) or entry.get("provider") not in KEYED_PROVIDERS:
            return None, f"{self._path} is not used: it is damaged. Enter the key again."
        return entry, ""

    def _write(self, entry: dict[str, Any]) -> None:
        """Replace the file atomically; at no moment is it readable by others."""
        if self._path.is_symlink():
            raise PrimeError(
                f"{self._path} is a symbolic link; a key is not written through one.",
                code="credentials_unwritable",
                hint="Remove the link and enter the key again.",
                status=409,
            )
        try:
            replace_private(self._path, json.dumps(entry))
        except OSError as error:
            raise PrimeError(
                f"The key could not be stored in {self._path.parent}: {error.strerror}.",
                code="credentials_unwritable",
                hint="Make the folder writable, or set PRIME_API_KEY and restart the server.",
                status=500,
            ) from None


def _take(name: str, environ: MutableMapping[str, str]) -> str | None:
    """Remove a variable from the environment and from the process's initial environment block.

    ``unsetenv`` only removes the pointer. On Linux the text itself stays readable in
    ``/proc/<pid>/environ`` for every process of the same user, including kernels, until it is
    overwritten.
    """
    value = environ.pop(name, None)
    if value is not None and environ is os.environ and sys.platform == "linux":
        _overwrite(name)
    return value or None


def _overwrite(name: str) -> None:
    import ctypes  # only needed if the variable is set

    marker = f"\0{name}=".encode()
    with suppress(OSError, ValueError, IndexError):
        block = b"\0" + Path("/proc/self/environ").read_bytes()
        at = block.find(marker)
        if at < 0:
            return
        start = at + len(marker) - 1
        length = block.index(b"\0", at + len(marker)) - at - len(marker)
        # Field 50 of stat (env_start) is the address of the block; rpartition drops fields 1 and 2.
        fields = Path("/proc/self/stat").read_text("ascii").rpartition(")")[2].split()
        ctypes.memset(int(fields[47]) + start, ord("x"), length)


def _unsafe(status: os.stat_result) -> str:
    """Return why a file that holds a key must not be trusted; empty if it may be."""
    if os.name != "posix":
        return ""
    if status.st_uid != os.geteuid():
        return "it belongs to another user"
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return "others can read it; run `chmod 600` on it, and change the key"
    return ""


def _checked(provider: str, api_key: str | None, base_url: str | None) -> dict[str, Any]:
    if provider not in KEYED_PROVIDERS:
        raise _invalid(
            f"A key is of no use to the provider {provider!r}.",
            f"Use one of {', '.join(KEYED_PROVIDERS)}; Vertex AI takes Google's own credentials.",
        )
    key = (api_key or "").strip()
    url = (base_url or "").strip()
    if not key and not url:
        raise _invalid("There is neither a key nor a server.", "Enter an API key, or a URL.")
    if len(key) > LONGEST_KEY or not all("!" <= character <= "~" for character in key):
        raise _invalid("This cannot be an API key.", "Copy it again, without spaces around it.")
    entry: dict[str, Any] = {"provider": provider}
    if key:
        entry["api_key"] = key
    if url:
        entry["base_url"] = _checked_url(url, bool(key))
    return entry


def _checked_url(url: str, with_key: bool) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise _invalid(
            f"{url!r} is not the URL of a server.", "It begins with https:// or http://."
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise _invalid(
            "The server's URL holds more than host, port and path.",
            "Enter a key in its own field.",
        )
    if with_key and parts.scheme == "http" and not is_loopback(host):
        raise _invalid(
            f"The key would be sent to {host} unencrypted.",
            "Use https://, or leave the key out if the server needs none.",
        )
    return url


def is_loopback(host: str) -> bool:
    """Whether ``host`` is ``localhost`` or a loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        # A name such as 127.0.0.1.example.org can resolve to any address.
        return False


def _invalid(message: str, hint: str) -> PrimeError:
    return PrimeError(message, code="credentials_invalid", hint=hint)
