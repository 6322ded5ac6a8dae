"""Classification of failed requests: the message for the user, and whether to retry."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from prime_ext.models.credentials import SHARED_VARIABLES
from prime_ext.models.model import ContextOverflow, ModelError

TRANSIENT = frozenset({408, 409, 425, 429})

LONGEST_WAIT_S = 300.0
"""Longest ``retry-after`` that is obeyed; beyond it the request fails and the user decides."""
BACKOFF_BASE_S, BACKOFF_CAP_S = 1.0, 30.0
JITTER = 0.25

CONNECTION_ATTEMPTS = 3
"""Maximum number of attempts when the server is unreachable or silent, since such a server rarely
comes back within a turn."""

REASONS = {
    "rate_limited": "rate limited",
    "overloaded": "overloaded",
    "server_error": "server error",
    "unreachable": "connection lost",
    "stalled": "no answer",
}

OVERFLOWS = (
    re.compile(r"prompt is too long: (?P<tokens>\d+) tokens > (?P<maximum>\d+)"),
    re.compile(r"exceed(?:s)? context limit: (?P<input>\d+) \+ (?P<output>\d+) > (?P<maximum>\d+)"),
    re.compile(r"\((?P<tokens>\d+) tokens\) exceeds the available context size \((?P<maximum>\d+)"),
    re.compile(
        r"maximum context length is (?P<maximum>\d+) tokens\D+(?P<tokens>\d+)", re.IGNORECASE
    ),
    re.compile(r"input is too long for requested model", re.IGNORECASE),
)
"""Overflow messages of the API itself and of compatible servers: llama.cpp, vLLM, Bedrock."""


class StreamBroke(Exception):
    """A stream ended before its message was complete, or could not be parsed."""


@dataclass(frozen=True)
class Peer:
    """The server that a request was sent to, for error messages."""

    provider: str
    host: str
    model: str
    key_origin: str
    """Origin of the key: a variable, a trait or ``the panel``; empty without a key."""


@dataclass(frozen=True)
class Failure:
    """Outcome of a failed attempt."""

    error: ModelError
    passes: bool
    """Whether the failure is transient, so that the same request may succeed when it is retried."""
    retry_after_s: float | None = None
    """Delay in seconds that the server asked for."""
    max_attempts: int | None = None
    """Maximum number of attempts, if it is smaller than the configured one."""

    @property
    def reason(self) -> str:
        return REASONS.get(self.error.code, self.error.message)


def backoff(attempt: int, retry_after_s: float | None, random: Callable[[], float]) -> float:
    """Return the delay in seconds after attempt number ``attempt``.

    It grows exponentially with jitter, unless the server has asked for ``retry_after_s``.
    """
    if retry_after_s is not None and retry_after_s > 0:
        return retry_after_s
    exponential = min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2.0 ** min(attempt - 1, 16))
    return exponential * (1 - JITTER * random())


def parse_retry_after(value: str | None, milliseconds: str | None = None) -> float | None:
    """Parse ``retry-after`` (seconds or an HTTP date) or ``retry-after-ms``, in seconds."""
    try:
        if milliseconds:
            return float(milliseconds) / 1000
        if value:
            return float(value)
    except ValueError:
        pass
    moment = email.utils.parsedate_tz(value) if value else None
    return None if moment is None else max(0.0, email.utils.mktime_tz(moment) - time.time())


def from_status(
    status: int,
    kind: str,
    message: str,
    peer: Peer,
    *,
    retry_after_s: float | None = None,
    should_retry: str | None = None,
) -> Failure:
    """Classify a response with an error status, or an ``error`` event in a stream.

    Parameters
    ----------
    status:
        HTTP status; 200 for an ``error`` event in a stream.
    kind:
        The API's error type, e.g. ``overloaded_error``; empty if there is none.
    message:
        The server's error message, redacted.
    should_retry:
        Value of the header ``x-should-retry``.
    """
    passes = status in TRANSIENT or status >= 500 or kind in _KIND_PASSES
    if should_retry in ("true", "false"):
        passes = should_retry == "true"
    error = _refused(status, kind, message, peer)
    if retry_after_s is not None and retry_after_s > LONGEST_WAIT_S:
        minutes = round(retry_after_s / 60)
        error.hint = f"Try again in {minutes} minutes."
        passes = False
    return Failure(error, passes, retry_after_s)


_KIND_PASSES = frozenset({"overloaded_error", "api_error", "rate_limit_error", "timeout_error"})


def _refused(status: int, kind: str, message: str, peer: Peer) -> ModelError:
    said = f" It says: {message}" if message else ""
    if status == 401 or kind == "authentication_error":
        return ModelError(
            f"{peer.host} refused the key.{said}",
            code="bad_credentials",
            hint=_key_hint(peer),
        )
    if status == 403 or kind == "permission_error":
        return ModelError(
            f"{peer.host} does not let this key use {peer.model}.{said}",
            code="bad_credentials",
            hint="Choose another model, or use a key that may use it.",
        )
    # A server of one's own that lacks the path names no model; the type may be the same.
    named = "model" in message.lower() or peer.model in message
    if status == 404 and peer.provider == "anthropic" and not named:
        return ModelError(
            f"{peer.host} does not speak the Messages API at the URL that is set.{said}",
            code="not_messages_api",
            hint="Check the URL and its path. A server that speaks only the OpenAI API needs a "
            "proxy that translates, such as LiteLLM.",
        )
    if status == 404 or kind == "not_found_error":
        return ModelError(
            f"{peer.host} has no model {peer.model!r}.{said}",
            code="model_not_found",
            hint="Choose another model in the panel, or set ModelConfig.model.",
        )
    if status == 413 or kind == "request_too_large":
        return ModelError(
            f"The request is larger than {peer.host} accepts.",
            code="request_too_large",
            hint="Compact the conversation, or leave out large images.",
        )
    if status == 429 or kind == "rate_limit_error":
        return ModelError(
            f"{peer.host} limits the rate of requests.{said}",
            code="rate_limited",
            hint="Wait a minute and send the message again.",
        )
    if status == 529 or kind == "overloaded_error":
        return ModelError(
            f"{peer.host} is overloaded.",
            code="overloaded",
            hint="Wait a minute and send the message again.",
        )
    if status >= 500 or status in TRANSIENT or kind in ("api_error", "timeout_error"):
        return ModelError(
            f"{peer.host} failed ({kind or status}).{said}",
            code="server_error",
            hint="Send the message again; if it fails again, look at the server's status page.",
        )
    for pattern in OVERFLOWS:
        found = pattern.search(message)
        if found:
            return _overflow(found, message)
    hint = "This is a fault of the request; the server's log has it in full."
    if status == 402 or kind == "billing_error" or "credit balance" in message:
        hint = "Check plan and billing of the account that the key belongs to."
    return ModelError(f"{peer.host} refused the request.{said}", code="bad_request", hint=hint)


def _overflow(found: re.Match[str], message: str) -> ContextOverflow:
    parts = {name: int(value) for name, value in found.groupdict().items() if value}
    tokens = parts.get("tokens", parts.get("input", 0) + parts.get("output", 0))
    return ContextOverflow(tokens or None, parts.get("maximum"), message)


def _key_hint(peer: Peer) -> str:
    if not peer.key_origin:
        return "Enter a key in the panel, or set PRIME_API_KEY and restart the server."
    if peer.key_origin == "the panel":
        return "Enter a valid key in the panel."
    if peer.key_origin in SHARED_VARIABLES:
        return (
            f"Enter a valid key in the panel, or correct {peer.key_origin} and restart the server."
        )
    return f"Correct {peer.key_origin} and restart the server."


def no_credentials(peer: Peer, message: str = "") -> Failure:
    """Return the failure for a missing key, or for cloud credentials that could not be loaded."""
    hints = {
        "bedrock": "Configure AWS credentials and ModelConfig.region, or set "
        "AWS_BEARER_TOKEN_BEDROCK, and restart the server.",
        "vertex": "Run `gcloud auth application-default login`, set ModelConfig.project and "
        "ModelConfig.region, and restart the server.",
        "foundry": "Set ModelConfig.project to the resource's name and ANTHROPIC_FOUNDRY_API_KEY, "
        "and restart the server.",
    }
    return Failure(
        ModelError(
            f"There are no credentials for {peer.host}." + (f" {message}" if message else ""),
            code="no_credentials",
            hint=hints.get(peer.provider, _key_hint(peer)),
        ),
        passes=False,
    )


def key_refused(host: str, message: str, has_key: bool) -> ModelError:
    """Return the error for a key, or a server without a key, that the user has just entered."""
    said = f" It says: {message}" if message else ""
    return ModelError(
        f"{host} refused the key.{said}" if has_key else f"{host} requires an API key.{said}",
        code="bad_credentials",
        hint="Copy the key again from the provider's console; nothing was stored."
        if has_key
        else "Enter it beside the URL; nothing was stored.",
        status=400,
    )


def not_installed(provider: str, package: str) -> ModelError:
    """Return the error for a provider whose client needs a package that is not installed."""
    return ModelError(
        f"The provider {provider!r} needs the package {package}, which is not installed.",
        code="not_installed",
        hint=f'Run `pip install "prime_ext[{provider}]"` and restart the server.',
    )


def unreachable(peer: Peer, cause: str) -> Failure:
    """Return the failure for a server that could not be connected to."""
    return Failure(
        ModelError(
            f"{peer.host} cannot be reached ({cause}).",
            code="unreachable",
            hint="Check the network, any proxy, and ModelConfig.base_url or ANTHROPIC_BASE_URL.",
        ),
        passes=True,
        max_attempts=CONNECTION_ATTEMPTS,
    )


def broken(peer: Peer, cause: str) -> Failure:
    """Return the failure for a stream that was cut off or could not be parsed."""
    return Failure(
        ModelError(
            f"The answer of {peer.host} broke off ({cause}).",
            code="unreachable",
            hint="Send the message again; if it happens again, check proxies on the way.",
        ),
        passes=True,
    )


def stalled(peer: Peer, seconds: float) -> Failure:
    """Return the failure for a connection considered dead after ``seconds`` of silence."""
    return Failure(
        ModelError(
            f"{peer.host} sent nothing for {seconds:g} seconds.",
            code="stalled",
            hint="Send the message again, or raise ModelConfig.stall_seconds for a slow server.",
        ),
        passes=True,
        max_attempts=CONNECTION_ATTEMPTS,
    )
