"""The models that we call ourselves (judges, simulated users): what is asked, what comes back, and how it can fail.

Whoever asks sees only this page. Providers, retries, limits, budgets, the cache and the bill are behind it (pool.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

FailureKind = Literal[
    "unavailable",  # the provider did not answer well, also after retries
    "budget",  # a limit on calls, tokens or cost was reached
    "deadline",  # the call, or the run, had no time left
    "malformed",  # twice a reply that does not fit the schema
    "refused",  # the provider blocked the prompt or the reply
    "invalid-request",  # the provider does not accept what was asked: model name, configuration, key
    "no-credentials",  # a key, a project or a package is missing
    "replay-miss",  # replies come from a directory, and this one isn't there
]


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """One question to a model.

    Everything except `case_id` and `purpose` decides the answer and is part of the cache's key.
    """

    model: str
    """As ADK users write it: `gemini-2.5-flash`, a full Vertex resource name, `provider/model`."""
    prompt: str
    """The whole user message. The long part that requests have in common comes first, for the provider's own cache."""
    system: str | None = None
    """The system instruction."""
    schema: Mapping[str, Any] | None = None
    """The JSON Schema that the reply must fit; None asks for text."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The user's `judge_model_config`: fields of google-genai's GenerateContentConfig, in snake_case."""
    sample: int = 0
    """The vote, from 0: equal questions with different numbers are asked separately."""
    run: int = 0
    """The run of the case, from 0: a fresh run gets fresh votes."""
    case_id: str = ""
    """Who pays: the case."""
    purpose: str = ""
    """Who pays: the criterion, or `user-simulator`."""


@dataclass(frozen=True, kw_only=True)
class ModelUsage:
    """Tokens of one reply, or of all attempts for it. None: the provider didn't tell."""

    input_tokens: int | None = None
    """Tokens of the prompt, including those that the provider had cached."""
    output_tokens: int | None = None
    """Tokens of the reply, without the thoughts."""
    cached_tokens: int | None = None
    """The part of `input_tokens` that was read from the provider's cache."""
    thought_tokens: int | None = None
    """Tokens the model spent on thinking; paid as output."""


@dataclass(frozen=True, kw_only=True)
class ModelReply:
    """What a model answered."""

    text: str
    """The reply without the thoughts."""
    value: Any | None
    """The reply parsed as JSON, fitting the request's schema; None where none was given."""
    usage: ModelUsage
    """Of all attempts that were paid for this reply."""
    model_version: str
    """As the provider names what answered; the requested name if it doesn't tell."""
    calls: int
    """Attempts sent to the provider; 0 if the reply comes from our cache."""
    cached: bool
    """Whether it comes from our cache (or a replay directory)."""


class ModelFailure(Exception):
    """No reply. Never a score and never a vote: a missing measurement."""

    def __init__(self, kind: FailureKind, message: str, hint: str | None = None, *, calls: int = 0) -> None:
        """Describes it.

        Args:
            kind: What it is.
            message: What happened, in one sentence.
            hint: What to do about it.
            calls: Attempts that were sent to the provider for it.
        """
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.calls = calls


class Model(Protocol):
    """Whatever answers requests; safe to be used by many tasks at once."""

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answers.

        Raises:
            ModelFailure: there is no usable reply, and retrying was done already.
        """
        ...

    async def close(self) -> None:
        """Gives up connections. Idempotent."""
        ...
