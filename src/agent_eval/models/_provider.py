"""What is asked of a provider's client: one attempt. Repeating, counting and reading the reply are done elsewhere."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from agent_eval.core.text import first_line, shorten
from agent_eval.models.protocol import FailureKind, ModelUsage

RETRIED_STATUSES = frozenset({408, 429, 500, 502, 503, 504, 529})
"""Worth another attempt. ADK's are 408, 429, 500, 502, 503, 504; 529 is how some gateways say overloaded."""

_MOST_TOKENS = 100_000_000
"""No reply of any model has more tokens, prompt included."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One attempt."""

    model: str
    """As the provider wants it."""
    prompt: str
    system: str | None = None
    schema: Mapping[str, Any] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    """Sorted: GenerateContentConfig's fields in snake_case, those that are sent."""
    timeout: float
    """Seconds."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """What came back, as it was."""

    text: str
    """Without thoughts."""
    usage: ModelUsage
    model_version: str | None
    end: Literal["complete", "truncated", "refused"] = "complete"
    note: str = ""
    """Why it is not complete."""

    def truncated(self, note: str) -> Told:
        """The same, cut off by a limit of tokens."""
        return replace(self, end="truncated", note=note)

    def refused(self, note: str) -> Told:
        """The same, withheld by the provider or the model."""
        return replace(self, end="refused", note=note)


class Trouble(Exception):
    """An attempt failed."""

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind = "unavailable",
        again: bool = False,
        throttled: bool = False,
        retry_after: float | None = None,
        hopeless: bool = False,
        hint: str | None = None,
        sent: bool = True,
    ) -> None:
        """Describes it.

        Args:
            message: One sentence.
            kind: What it is if it stays.
            again: Another attempt may succeed.
            throttled: The provider said "too many".
            retry_after: Seconds that it asked us to wait.
            hopeless: No other question to this model can succeed either: a wrong key, a model that doesn't exist.
            hint: What to do about it.
            sent: Whether a prompt may have been processed, and paid for, without our hearing of it.
        """
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.again = again
        self.throttled = throttled
        self.retry_after = retry_after
        self.hopeless = hopeless
        self.hint = hint
        self.sent = sent


class Client(Protocol):
    """A provider's client, for many attempts at once."""

    async def ask(self, ask: Ask) -> Told:
        """Makes one attempt.

        Raises:
            Trouble: It failed.
            Exception: Of any type, where the library can't make sense of the answer. The lane makes a Trouble of it.
        """
        ...

    async def close(self) -> None:
        """Gives up connections."""
        ...


def retry_after(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Seconds that a response asks to wait: `Retry-After` as seconds or a date (RFC 9110, 10.2.3), or `retry-after-ms`.

    Args:
        headers: Names in any case, if the mapping ignores case; else in lower case.
        now: Unix time in seconds; None: the clock's.
    """
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if value is None or (seconds := _number(value)) is not None:
        return None if value is None else seconds
    try:
        when = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, when.timestamp() - (time.time() if now is None else now))


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value is not None else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < float("inf") else None


def status_trouble(status: int, message: str, headers: Mapping[str, str], *, wait: float | None = None) -> Trouble:
    """What an HTTP status that is no success means.

    Args:
        status: The status.
        message: The provider's words.
        headers: Of the response.
        wait: Seconds to wait as told in the body.
    """
    said = f"{status}: {message}" if message else f"status {status}"
    if status in RETRIED_STATUSES:
        asked = retry_after(headers)
        return Trouble(
            f"the provider answered {said}",
            again=True,
            throttled=status in {429, 529},
            retry_after=wait if asked is None else asked,
            sent=False,
        )
    if status in {401, 403} or (status == 400 and "api key" in message.lower()):
        return Trouble(
            f"the provider refused the credentials ({said})",
            kind="invalid-request",
            hopeless=True,
            hint="Check that the key is that provider's, valid, and allowed to use this model.",
            sent=False,
        )
    if status == 404:
        return Trouble(
            f"the provider knows no such model or address ({said})",
            kind="invalid-request",
            hopeless=True,
            hint="Check the model's name (`judge-model`, `judge_model` of the criterion, or that of the simulated "
            "user), and the base URL if one is set.",
            sent=False,
        )
    return Trouble(f"the provider refused the request ({said})", kind="invalid-request", sent=False)


def told_delay(details: Any) -> float | None:
    """Seconds in a `google.rpc.RetryInfo` of the error's body, how Gemini says when a quota is free again."""
    found = details.get("error", details) if isinstance(details, dict) else {}
    entries = found.get("details") if isinstance(found, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and str(entry.get("@type", "")).endswith("google.rpc.RetryInfo"):
            match = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(entry.get("retryDelay", "")))
            return float(match[1]) if match else None
    return None


def said(error: BaseException) -> str:
    """The first line of an exception's message, in full: mask secrets before shortening it."""
    return first_line(str(error)) or type(error).__name__


def nonsense(error: BaseException) -> Trouble:
    """The trouble for an answer that a client library could not make sense of: another attempt may succeed."""
    return Trouble(f"the answer makes no sense: {type(error).__name__}: {said(error)}", again=True)


def version_name(value: Any) -> str | None:
    """The name of what answered, if the provider gave one."""
    return shorten(value, 200) if isinstance(value, str) else None


def token_count(value: Any) -> int | None:
    """A number of tokens as a provider reported it; None where it reported nothing or nothing plausible.

    A negative or absurd number would lower what counts as spent, or use up a budget at once. The budget then goes by
    its own estimate.
    """
    plausible = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if plausible else None
