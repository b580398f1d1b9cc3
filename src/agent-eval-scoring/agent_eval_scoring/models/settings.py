"""Settings of the models that agent-eval calls. Plain data; the pipeline fills it in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval_scoring.models.usage import DEFAULT_PRICES, Price
from agent_eval_scoring.net.retry import Retry


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits for all calls of a run. Every sent attempt counts; cached replies don't."""

    max_calls: int | None = None
    max_tokens: int | None = None
    """Input, output and thoughts together."""
    max_cost: float | None = None
    """US dollars, by the price table."""


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Settings of all models of a run."""

    judge_model: str | None = None
    """The `judge-model` input: for criteria that name no model. Here it only determines the provider of
    `api_key`."""
    api_key: str | None = None
    """The `judge-api-key` input, which keeps the key out of variables that the agent's process could see. It belongs to
    the provider of `judge_model`, or to the only provider in use."""
    base_url: str | None = None
    """The base URL of that provider. Never read it from a file of the pull request: the key is sent there."""
    concurrency: int = 16
    """Attempts in flight per model at first; fewer after a 429."""
    most_concurrent: int = 64
    """The most attempts in flight per model, reached if the provider neither refuses any nor becomes slower."""
    attempt_timeout: float = 60.0
    """Seconds for one attempt."""
    call_timeout: float = 300.0
    """Seconds for one call, from its first attempt, including retries and waits."""
    retry: Retry = field(default_factory=lambda: Retry(first=0.5, longest=15.0, jitter=1.0))
    """Of a failed attempt. The second call after a malformed reply has as many attempts of its own."""
    outage: float = 120.0
    """Seconds without any answer after which a model counts as down, if the attempts of three calls have failed too.
    Longer than a minute, since quotas per minute are common."""
    budget: Budget = field(default_factory=Budget)
    prices: Mapping[str, Price] = field(default_factory=lambda: DEFAULT_PRICES)
    """By price key (names.py): the default table, overridden by `[prices]` of agent-eval.toml."""
    cache: Path | None = None
    """`--judge-cache DIR`; None: off."""
    cache_bytes: int = 256 * 1024 * 1024
    """Maximum size of the cache on disk; the least recently used replies are evicted first."""
    offline: bool = False
    """`replay: all`: nothing is sent. Replies come from tapes and, of any endpoint, from the cache."""


@dataclass(frozen=True, kw_only=True)
class ModelUse:
    """A use of a model by a criterion or a simulated user."""

    model: str
    config: Mapping[str, Any] = field(default_factory=dict)
    """The `judge_model_config`."""
    case_id: str
    purpose: str
    """The criterion, or `user-simulator`."""
    file: str | None = None
    """The file that configures the criterion."""
