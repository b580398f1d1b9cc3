"""The interface of a provider's client: one request, one reply. Retries, budgets and parsing happen elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from agent_eval.core.text import whole_line
from agent_eval.models.protocol import FailureKind, ModelUsage
from agent_eval.net.retry import seconds_asked
from agent_eval.net.statuses import NO_ACCESS, TEMPORARY, TOO_MANY

_LONGEST_VERSION = 200
_MOST_TOKENS = 100_000_000
"""Upper bound for a plausible token count, including the prompt."""


@dataclass(frozen=True, kw_only=True)
class ProviderRequest:
    """One attempt's request."""

    model: str
    """The provider's own name of the model."""
    prompt: str
    system: str | None = None
    schema: Mapping[str, Any] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    """The GenerateContentConfig fields to send, in snake_case."""
    timeout: float
    """Seconds."""


@dataclass(frozen=True, kw_only=True)
class ProviderReply:
    """A provider's reply, unparsed."""

    text: str
    """The reply without thoughts."""
    usage: ModelUsage
    model_version: str | None
    end: Literal["complete", "truncated", "refused"] = "complete"
    note: str = ""
    """Why the reply is not complete; "" if it is."""

    def truncated(self, note: str) -> ProviderReply:
        """This reply, marked as cut off by a token limit."""
        return replace(self, end="truncated", note=note)

    def refused(self, note: str) -> ProviderReply:
        """This reply, marked as refused by the provider or the model."""
        return replace(self, end="refused", note=note)


Then = Literal["fail", "retry", "slow-down", "give-up"]
"""What follows from a failed attempt: the request fails; another attempt may succeed; it may, but the provider answered
"too many requests"; all other requests to this model fail too (a wrong key, an unknown model)."""


class ProviderError(Exception):
    """An attempt failed."""

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind = "unavailable",
        then: Then = "fail",
        retry_after: float | None = None,
        hint: str | None = None,
        sent: bool = True,
    ) -> None:
        """Creates the error.

        Args:
            message: One sentence. What the provider said is in it in full: the channel masks and then shortens it.
            kind: The kind of the failure if no attempt succeeds.
            then: What to do next.
            retry_after: Seconds that the provider asks us to wait.
            hint: What to do about it.
            sent: Whether the provider may have processed, and billed, the prompt.
        """
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.then = then
        self.retry_after = retry_after
        self.hint = hint
        self.sent = sent


class Client(Protocol):
    """A provider's client, for many attempts at once."""

    async def send(self, request: ProviderRequest) -> ProviderReply:
        """Makes one attempt.

        Raises:
            ProviderError: The attempt failed.
            Exception: Of any type, if the library can't parse the answer. The channel turns it into a ProviderError.
        """
        ...

    async def close(self) -> None:
        """Closes connections."""
        ...


def status_error(status: int, message: str, headers: Mapping[str, str], *, wait: float | None = None) -> ProviderError:
    """Turns an unsuccessful HTTP status into an error.

    Args:
        status: The HTTP status.
        message: The provider's message.
        headers: The response headers.
        wait: Seconds to wait according to the response body; the header takes precedence.
    """
    status_text = f"{status}: {message}" if message else f"status {status}"
    if status in TEMPORARY:
        header_wait = seconds_asked(headers)
        return ProviderError(
            f"the provider answered {status_text}",
            then="slow-down" if status in TOO_MANY else "retry",
            retry_after=wait if header_wait is None else header_wait,
            sent=False,
        )
    if status in NO_ACCESS or (status == 400 and "api key" in message.lower()):
        return ProviderError(
            f"the provider refused the credentials ({status_text})",
            kind="invalid-request",
            then="give-up",
            hint="Check that the key is that provider's, valid, and allowed to use this model.",
            sent=False,
        )
    if status == 404:
        return ProviderError(
            f"the provider does not know this model or URL ({status_text})",
            kind="invalid-request",
            then="give-up",
            hint="Check the model's name (`judge-model`, `judge_model` of the criterion, or the simulated user's) and "
            "the base URL.",
            sent=False,
        )
    return ProviderError(f"the provider refused the request ({status_text})", kind="invalid-request", sent=False)


def retry_info_delay(details: Any) -> float | None:
    """Returns the delay of a `google.rpc.RetryInfo` in an error body, in seconds: Gemini's form of Retry-After."""
    error = details.get("error", details) if isinstance(details, dict) else {}
    entries = error.get("details") if isinstance(error, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and str(entry.get("@type", "")).endswith("google.rpc.RetryInfo"):
            match = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(entry.get("retryDelay", "")))
            return float(match[1]) if match else None
    return None


def error_text(error: BaseException) -> str:
    """Returns the first line of an exception's message, in full: the channel masks and then shortens it."""
    return whole_line(str(error)) or type(error).__name__


def unreadable_reply(error: BaseException) -> ProviderError:
    """Returns the retryable error for an answer that a client library could not parse."""
    return ProviderError(f"the answer could not be parsed: {type(error).__name__}: {error_text(error)}", then="retry")


def credentials_rejected(error: BaseException) -> ProviderError:
    """Returns the error for a `google.auth.exceptions.GoogleAuthError`, before anything was sent."""
    return ProviderError(
        f"Google's credentials were rejected: {error_text(error)}",
        kind="no-credentials",
        then="retry" if getattr(error, "retryable", False) else "give-up",
        hint="Check the service account or the workload identity that the job uses.",
        sent=False,
    )


def timeout_error(seconds: float) -> ProviderError:
    """Returns the retryable error for an attempt without an answer in time."""
    return ProviderError(f"no answer within {round(seconds, 1):g} s", kind="deadline", then="retry")


def version_name(value: Any) -> str | None:
    """Returns the reported model version; None if it is missing or implausible."""
    return value if isinstance(value, str) and len(value) <= _LONGEST_VERSION else None


def token_count(value: Any) -> int | None:
    """Returns a reported token count; None if it is missing or implausible.

    A negative or absurd number would corrupt the budget, which then uses its own estimate.
    """
    plausible = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if plausible else None
