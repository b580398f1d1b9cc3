"""What can be set about the models that we call. Plain data: the composition root fills it in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent_eval.models.prices import DEFAULT_PRICES, Price


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """How a failed attempt is repeated: after `initial * factor**n` seconds, jittered, or when the provider says."""

    attempts: int = 6
    """Attempts for one question; asking again after a malformed reply has as many of its own."""
    initial: float = 1.0
    """Seconds, as the next one."""
    maximum: float = 30.0
    factor: float = 2.0


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits over all calls of a run. Every attempt that is sent counts; replies from the cache do not."""

    max_calls: int | None = None
    max_tokens: int | None = None
    """Input, output and thoughts together."""
    max_cost: float | None = None
    """US dollars by the price table."""


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Everything about models but the questions."""

    judge_model: str | None = None
    """The `judge-model` input: for criteria that name no model. Here it only says whose key `api_key` is."""
    api_key: str | None = None
    """The `judge-api-key` input, so that the key needs no variable that the agent's process could get as well. It is
    for the provider of `judge_model`, or for the only one in use."""
    base_url: str | None = None
    """The address of that same provider. Never take it from a file of the pull request: the key is sent there."""
    concurrency: int = 16
    """Attempts in flight, per model; fewer for a while after a 429."""
    attempt_timeout: float = 60.0
    """Seconds for one attempt."""
    call_timeout: float = 300.0
    """Seconds for one question with all its attempts and pauses, from its first attempt on."""
    backoff: Backoff = field(default_factory=Backoff)
    outage: float = 120.0
    """Seconds without any answer, and three questions' worth of failed attempts, after which a model counts as down and
    is not asked any more. Longer than a minute, since quotas per minute are common."""
    budget: Budget = field(default_factory=Budget)
    prices: Mapping[str, Price] = field(default_factory=lambda: DEFAULT_PRICES)
    """By price key (names.py): the default table with `[prices]` of agent-eval.toml laid over it."""
    cache: Path | None = None
    """`--judge-cache DIR`; None: off."""
    cache_bytes: int = 256 * 1024 * 1024
    """The cache's size on disk; the entries that were used longest ago go first."""
    replay: Path | None = None
    """`--judge replay:DIR`: every reply comes from this cache directory, and one that isn't there is a failure."""
