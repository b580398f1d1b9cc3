"""The interface of the models that agent-eval calls (judges, simulated users): request, reply, failure.

Callers use only this module. Providers, retries, limits, budgets, cache and usage accounting are behind it (pool.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.wire import WireModel

FailureKind = Literal[
    "unavailable",  # no valid answer from the provider, after retries
    "budget",  # a limit on calls, tokens or cost was reached
    "deadline",  # the time limit of the call or the run was reached
    "malformed",  # two replies did not fit the schema
    "refused",  # the provider blocked the prompt or the reply
    "invalid-request",  # the provider rejects the request: model name, configuration, key
    "no-credentials",  # a key, a project or a package is missing
    "replay-miss",  # no reply to the request is recorded, and no model may be asked
]


class TapedReply(WireModel):
    """A reply as a tape has it."""

    text: str = ""
    model_version: str = ""
    failure: Literal["malformed", "refused"] | None = None
    """Why the model gave no usable reply; `text` says it."""


@dataclass(frozen=True, kw_only=True)
class Replies:
    """The replies of models in one run of a case, by the cache keys of their requests in the run 0."""

    taped: Mapping[str, TapedReply] = field(default_factory=dict)
    """Those on the case's tape, which answer."""
    only: bool = False
    """Whether no model may be asked for another one."""
    given: dict[str, TapedReply] = field(default_factory=dict)
    """Gets those that a model gives."""


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """A request to a model.

    All fields except the last three affect the reply and are part of the cache key.
    """

    model: str
    """The name as in ADK: `gemini-2.5-flash`, a full Vertex resource name, `provider/model`."""
    prompt: str
    """The complete user message. The long common part comes first, so that the provider can cache it."""
    system: str | None = None
    """The system instruction."""
    schema: Mapping[str, Any] | None = None
    """The JSON Schema of the reply; None requests text."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The user's `judge_model_config`: fields of google-genai's GenerateContentConfig, in snake_case."""
    sample: int = 0
    """Number of the vote, from 0: equal requests with different numbers are sent separately."""
    run: int = 0
    """Number of the case's run, from 0: each run gets its own votes."""
    case_id: str = ""
    """The case that the usage is attributed to."""
    purpose: str = ""
    """The criterion, or `user-simulator`, that the usage is attributed to."""
    replies: Replies | None = None
    """Those of the run, if it is recorded or replayed."""


@dataclass(frozen=True, kw_only=True)
class ModelUsage:
    """Tokens of one reply, or of all its attempts. None: not reported by the provider."""

    input_tokens: int | None = None
    """Tokens of the prompt, including cached ones."""
    output_tokens: int | None = None
    """Tokens of the reply, without thoughts."""
    cached_tokens: int | None = None
    """The part of `input_tokens` from the provider's cache."""
    thought_tokens: int | None = None
    """Tokens of the model's thoughts; billed as output."""


@dataclass(frozen=True, kw_only=True)
class ModelReply:
    """A model's reply."""

    text: str
    """The reply without thoughts."""
    value: Any | None
    """The reply parsed as JSON, valid by the request's schema; None without a schema."""
    usage: ModelUsage
    """Usage of all billed attempts for this reply."""
    model_version: str
    """The model version that the provider reports, else the requested name."""
    calls: int
    """Attempts sent to the provider; 0 for a recorded reply."""
    cached: bool
    """Whether the reply comes from our cache or a tape."""


class ModelFailure(AgentEvalError):
    """A request without a usable reply. It counts as a missing measurement, never as a score or a vote."""

    def __init__(self, kind: FailureKind, message: str, hint: str | None = None, *, calls: int = 0) -> None:
        """Creates the failure.

        Args:
            kind: The kind of failure.
            message: What happened, in one sentence.
            hint: What to do about it.
            calls: Attempts sent to the provider.
        """
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.calls = calls


class Model(Protocol):
    """Answers requests. Safe for concurrent tasks."""

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answers a request.

        Raises:
            ModelFailure: No usable reply, after all retries.
        """
        ...

    async def close(self) -> None:
        """Closes connections. Idempotent."""
        ...
