"""The interface of a provider's client: one request, one reply. Retries and budgets are elsewhere.

Also sorts the fields of `judge_model_config` into sent, ignored and unknown. They are those of google-genai's
GenerateContentConfig (3.4.0, a superset of 2.34), as in ADK.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.masking import Masked, first_line
from agent_eval_scoring.core.text import whole_line
from agent_eval_scoring.models.protocol import FailureKind, ModelUsage
from agent_eval_scoring.net.retry import NO_ACCESS, TEMPORARY, TOO_MANY, seconds_asked

_LONGEST_VERSION = 200
_NEVER_SECURE = re.compile(
    r"(?i)wrong.version.number|record.layer.failure|http.request|unsupported.protocol|certificate.verify.failed"
)
"""What OpenSSL says of a server that does not speak TLS, or that nobody trusts: another attempt is no use."""
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


class ProviderError(AgentEvalError):
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
            # OpenAI answers with 429 both for a rate and for an account without credit ("You exceeded your current
            # quota").
            hint="The key's quota is used up: add credit with the provider, or use another key."
            if "current quota" in message
            else None,
            sent=False,
        )
    # Gemini answers a wrong key with 400 ("API key not valid").
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
            hint="Check the model's name (`judge-model`, or `judge_model` of the criterion) and the base URL.",
            sent=False,
        )
    return ProviderError(f"the provider refused the request ({status_text})", kind="invalid-request", sent=False)


def retry_info_delay(details: Any) -> float | None:
    """Returns the delay of a `google.rpc.RetryInfo` in an error body, in seconds: Gemini's form of Retry-After."""
    error = details.get("error", details) if isinstance(details, dict) else {}
    entries = error.get("details") if isinstance(error, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and str(entry.get("@type", "")).endswith("google.rpc.RetryInfo"):
            # A protobuf Duration in JSON: seconds with an "s".
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


def connection_error(cause: BaseException, *, unsent: bool) -> ProviderError:
    """Returns the error for an attempt whose connection failed.

    Args:
        cause: What the HTTP client raised.
        unsent: Whether there was no connection at all.
    """
    text = error_text(cause)
    if _NEVER_SECURE.search(text):
        return ProviderError(
            f"no secure connection: {text}",
            kind="invalid-request",
            then="give-up",
            hint="Check the base URL: `https` needs a server that speaks TLS there, with a valid certificate. For an "
            "authority of your own, set SSL_CERT_FILE.",
            sent=False,
        )
    # A prompt that was sent may be billed, so the difference counts for the budget.
    what = "no connection" if unsent else "the connection broke"
    return ProviderError(f"{what}: {text}", then="retry", sent=not unsent)


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
    # Gateways that imitate a provider send what they like.
    plausible = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if plausible else None


SENT = frozenset(
    {
        "temperature", "top_p", "top_k", "max_output_tokens", "stop_sequences", "presence_penalty",
        "frequency_penalty", "seed", "thinking_config", "safety_settings", "labels", "media_resolution",
        "routing_config", "model_selection_config", "model_armor_config", "service_tier", "response_logprobs",
        "logprobs", "enable_enhanced_civic_answers", "system_instruction",
    }
)  # fmt: skip
"""Passed on to Gemini."""

SENT_TO_OPENAI: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_output_tokens": "max_completion_tokens",
    "stop_sequences": "stop",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "seed": "seed",
    "service_tier": "service_tier",
}
"""Fields that chat completions support too, with their name there."""

SENT_TO_ANTHROPIC: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_output_tokens": "max_tokens",
    "stop_sequences": "stop_sequences",
}
"""The same of Anthropic's messages."""

_SENT_TO = {"openai": SENT_TO_OPENAI, "azure": SENT_TO_OPENAI, "anthropic": SENT_TO_ANTHROPIC}

OURS = frozenset(
    {
        # URL and timeouts: a pull request may change the file, and must not redirect the key.
        "http_options", "should_return_http_response",
        # The format of the reply.
        "candidate_count", "response_mime_type", "response_schema", "response_json_schema", "response_modalities",
        "tools", "tool_config", "automatic_function_calling", "cached_content", "continuation_token",
        "automatic_continuation", "generation_output_config", "store",
        "speech_config", "audio_timestamp", "audio_transcription_config", "image_config",
    }
)  # fmt: skip
"""Fields of google-genai that agent-eval sets itself."""


@dataclass(frozen=True, kw_only=True)
class SortedConfig:
    """The fields of a `judge_model_config`."""

    sent: Mapping[str, Any]
    """In snake_case. Null fields are left out, as in google-genai."""
    ignored: tuple[str, ...]
    unknown: tuple[str, ...]

    def suggestion(self, field: str) -> str | None:
        """Returns the known field that is most similar to an unknown one."""
        return next(iter(difflib.get_close_matches(field, SENT | OURS, n=1, cutoff=0.7)), None)


def sort_config(config: Mapping[str, Any], protocol: str = "gemini") -> SortedConfig:
    """Sorts the fields; accepts camelCase too.

    Args:
        config: The user's config.
        protocol: How the model is called: others than Gemini's support fewer fields.
    """
    passed = {*_SENT_TO[protocol], "system_instruction"} if protocol in _SENT_TO else SENT
    sent: dict[str, Any] = {}
    ignored, unknown = [], []
    for key, value in config.items():
        name = re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: "_" + match[1].lower(), key)
        if name not in SENT | OURS:
            unknown.append(key)
        elif value is None:
            continue
        elif name in OURS or name not in passed:
            ignored.append(key)
        else:
            sent[name] = value
    return SortedConfig(sent=sent, ignored=tuple(ignored), unknown=tuple(unknown))


def split_system(sent: Mapping[str, Any], system: str | None) -> tuple[dict[str, Any], str | None]:
    """Separates the system instruction: the user's, followed by the request's."""
    rest = dict(sent)
    from_user = rest.pop("system_instruction", None)
    texts = [text for text in (from_user, system) if text]
    return rest, "\n\n".join(str(text) for text in texts) or None


REMINDER = (
    "\n\nYour last reply could not be read. Reply with a single JSON value that fits the schema you were given, and "
    "with nothing before or after it."
)
"""Appended to the prompt of the second call."""


def parse_reply(text: str, schema: Mapping[str, Any]) -> Any:
    """Parses a reply. Rejects code fences, prose, repeated keys and NaN, since they are ambiguous.

    Args:
        text: The reply without thoughts; may have white space around it.
        schema: JSON Schema, draft 2020-12.

    Raises:
        ValueError: The reply isn't JSON, or doesn't fit the schema; the message is one line.
    """
    from jsonschema import Draft202012Validator

    try:
        value = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except json.JSONDecodeError as error:
        if not text.strip():
            raise ValueError("it is empty") from error
        raise ValueError(f"it is not JSON: {error}") from error
    # The first error only: to find all of 10,000 wrong items takes as many times as long.
    mismatch = next(iter(Draft202012Validator(dict(schema)).iter_errors(value)), None)
    if mismatch is not None:
        where = "".join(f"[{part!r}]" for part in mismatch.absolute_path)
        raise ValueError(
            f"it does not fit the schema{f' at {where}' if where else ''}: {first_line(Masked(mismatch.message))}"
        )
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    # Two verdicts on one thing: which one counts would depend on the parser.
    if len(value) != len(pairs):
        raise ValueError("it has a key twice")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
