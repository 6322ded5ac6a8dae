"""The SDK client of one provider, built in a thread on first use and rebuilt for a new key."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from prime_ext.models import failures
from prime_ext.models.credentials import Credential, CredentialStore, is_loopback

if TYPE_CHECKING:
    from prime_ext.config import ModelConfig

ANTHROPIC_HOST = "api.anthropic.com"
CONNECT_SECONDS = 15.0
CHECK_SECONDS = 10.0
"""Timeout for checking whether a server accepts a key."""

LISTS_NOTHING = (404, 405, 501)
"""HTTP statuses by which a server says that it has no Models API."""

REQUIRES = {"bedrock": ("boto3", "botocore"), "vertex": ("google.auth",)}
"""Modules that a provider's client imports but that the SDK does not depend on."""


class Connection:
    """Connection to one provider, shared by its models.

    Parameters
    ----------
    provider:
        ``anthropic``, ``bedrock``, ``vertex`` or ``foundry``.
    config:
        ``region``, ``project`` and ``stall_seconds``.
    credentials:
        Source of the key; the client is rebuilt whenever its ``version`` changes.
    """

    def __init__(self, provider: str, config: ModelConfig, credentials: CredentialStore) -> None:
        self.provider = provider
        self._config = config
        self._credentials = credentials
        self._client: Any = None
        self._version = -1
        self._building = asyncio.Lock()
        self._retired: list[Any] = []

    async def client(self) -> Any:
        """Return the provider's asynchronous client.

        Raises
        ------
        ModelError
            With the code ``not_installed`` or ``no_credentials``.
        """
        async with self._building:
            if self._client is None or self._version != self._credentials.version:
                version = self._credentials.version
                credential = self._credentials.current()
                made = await asyncio.to_thread(self._build, credential)
                if self._client is not None:
                    # A reply may still be streaming through the old client.
                    self._retired.append(self._client)
                self._client, self._version = made, version
            return self._client

    @property
    def stall_seconds(self) -> float:
        return self._config.stall_seconds

    @property
    def host(self) -> str:
        """Host that requests are sent to, with the port if the URL names one."""
        return self._host(self._credentials.current())

    def _host(self, credential: Credential) -> str:
        base_url = self._base_url(credential)
        if base_url:
            return _host_of(base_url)
        if self.provider == "bedrock":
            region = self._region("AWS_REGION", "AWS_DEFAULT_REGION")
            return f"bedrock-runtime.{region}.amazonaws.com" if region else "Amazon Bedrock"
        if self.provider == "vertex":
            region = self._region("CLOUD_ML_REGION") or "global"
            prefix = "" if region == "global" else f"{region}-"
            return f"{prefix}aiplatform.googleapis.com"
        if self.provider == "foundry":
            resource = self._config.project or os.environ.get("ANTHROPIC_FOUNDRY_RESOURCE")
            return f"{resource}.services.ai.azure.com" if resource else "Microsoft Foundry"
        return ANTHROPIC_HOST

    @property
    def remote(self) -> bool:
        """Whether requests leave this machine."""
        return not is_loopback(urlsplit(f"//{self.host}").hostname or "")

    @property
    def encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        base_url = self._base_url(self._credentials.current())
        return not base_url or urlsplit(base_url).scheme != "http"

    @property
    def identity(self) -> tuple[int, str]:
        """A value that changes whenever the server or the key changes."""
        return self._credentials.version, self.host

    def peer(self, model: str) -> failures.Peer:
        """Describe the server and key for error messages about a request to ``model``."""
        credential = self._credentials.current()
        return failures.Peer(
            self.provider, self.host, model, credential.origin if credential.has_key else ""
        )

    async def check(self, credential: Credential) -> str | None:
        """Ask the server whether it accepts ``credential``, before the credential is stored.

        The check lists the models, which costs nothing. Only ``anthropic`` is checked: the other
        providers do not list models. A server without a Models API counts as accepting.

        Returns
        -------
        str or None
            Why the check was inconclusive; ``None`` if the credential is accepted or was not
            checked.

        Raises
        ------
        PrimeError
            With the code ``bad_credentials`` if the server refuses the credential, or
            ``not_installed`` or ``no_credentials``.
        """
        if self.provider != "anthropic":
            return None
        client = await asyncio.to_thread(self._build, credential)
        import anthropic  # already imported by _build

        host = self._host(credential)
        try:
            await asyncio.wait_for(client.models.list(limit=1), CHECK_SECONDS)
        except anthropic.AuthenticationError as error:
            raise failures.key_refused(
                host, self._said(error.api_message, credential), credential.has_key
            ) from None
        except anthropic.APIStatusError as error:
            if error.status_code in LISTS_NOTHING:
                return None
            return f"{host} answered with {error.status_code}."
        except asyncio.TimeoutError:
            return f"{host} has not answered for {CHECK_SECONDS:g} seconds."
        except anthropic.APIConnectionError as error:
            cause = error.__cause__ or error
            said = self._said(str(cause), credential) or type(cause).__name__
            return f"{host} cannot be reached ({said})."
        except Exception:  # the SDK does not validate responses of other servers
            return f"{host} does not answer as the Messages API does."
        finally:
            await client.close()
        return None

    def _said(self, text: str | None, credential: Credential) -> str:
        """Remove all keys, including the one being checked, from the ``text`` of a server."""
        text = (text or "").replace(credential.api_key or "\0", "[key]")
        return self.redact(text)

    def redact(self, text: str) -> str:
        """Remove every known key from ``text``: servers may echo what they were sent."""
        return self._credentials.redact(text)

    async def close(self) -> None:
        """Close every client; replies that are still streaming are cut off."""
        clients = [*self._retired, *([self._client] if self._client is not None else [])]
        self._retired, self._client = [], None
        for client in clients:
            await client.close()

    def _region(self, *variables: str) -> str:
        if self._config.region:
            return self._config.region
        return next((os.environ[name] for name in variables if os.environ.get(name)), "")

    def _base_url(self, credential: Credential) -> str | None:
        if self.provider == "anthropic":
            return _sdk_base(credential.base_url) if credential.provider == "anthropic" else None
        if credential.provider == self.provider and credential.source == "stored":
            return credential.base_url
        # ANTHROPIC_BASE_URL is meant for Anthropic's own API, the trait for the provider in use.
        return self._config.base_url or os.environ.get(
            f"ANTHROPIC_{self.provider.upper()}_BASE_URL"
        )

    def _build(self, credential: Credential) -> Any:
        self._check_installed()
        sdk = importlib.import_module("anthropic")
        # AnthropicModel retries by itself, so that the user sees each retry. A read that exceeds
        # the timeout is a stall: while a model thinks, the API sends pings.
        common: dict[str, Any] = {
            "max_retries": 0,
            "timeout": sdk.Timeout(
                self._config.stall_seconds,
                connect=min(CONNECT_SECONDS, self._config.stall_seconds),
            ),
        }
        base_url = self._base_url(credential)
        if base_url:
            common["base_url"] = base_url
        key = credential.api_key if credential.provider == self.provider else None
        try:
            return getattr(self, f"_build_{self.provider}")(sdk, credential, key, common)
        except (sdk.AnthropicError, ValueError) as error:
            # A region, project or resource is missing.
            raise failures.no_credentials(
                self.peer("the model"), self.redact(str(error))
            ).error from None

    def _check_installed(self) -> None:
        for module in REQUIRES.get(self.provider, ()):
            try:
                found = importlib.util.find_spec(module) is not None
            except ModuleNotFoundError:
                found = False
            if not found:
                raise failures.not_installed(self.provider, module.replace(".", "-"))

    def _build_anthropic(
        self, sdk: Any, credential: Credential, key: str | None, common: dict[str, Any]
    ) -> Any:
        if key:
            return sdk.AsyncAnthropic(api_key=key, **common)
        if credential.auth_token:
            return sdk.AsyncAnthropic(auth_token=credential.auth_token, **common)
        if "base_url" in common:
            # Send no key to a server of the user's own, in particular none that the SDK would find
            # in a profile for another server.
            return sdk.AsyncAnthropic(
                api_key="", default_headers={"Authorization": sdk.Omit()}, **common
            )
        # The SDK looks for a profile or workload identity.
        return sdk.AsyncAnthropic(**common)

    def _build_bedrock(
        self, sdk: Any, credential: Credential, key: str | None, common: dict[str, Any]
    ) -> Any:
        if self._config.region:
            common["aws_region"] = self._config.region
        return sdk.AsyncAnthropicBedrock(api_key=key, **common)

    def _build_vertex(
        self, sdk: Any, credential: Credential, key: str | None, common: dict[str, Any]
    ) -> Any:
        if self._config.project:
            common["project_id"] = self._config.project
        region = self._region("CLOUD_ML_REGION") or "global"
        return sdk.AsyncAnthropicVertex(region=region, **common)

    def _build_foundry(
        self, sdk: Any, credential: Credential, key: str | None, common: dict[str, Any]
    ) -> Any:
        if self._config.project and "base_url" not in common:
            common["resource"] = self._config.project
        return sdk.AsyncAnthropicFoundry(api_key=key, **common)


def _sdk_base(url: str | None) -> str | None:
    """Return ``url`` without the path that the SDK appends, which is often copied with it."""
    return re.sub(r"/v1(/messages|/models)?/*$", "", url) if url else url


def _host_of(url: str) -> str:
    """Return host and port of ``url``, without a port if the URL names none."""
    parts = urlsplit(url)
    host = parts.hostname or url
    if ":" in host:
        host = f"[{host}]"
    return f"{host}:{parts.port}" if parts.port else host
