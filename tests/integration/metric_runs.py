"""The process of the custom metrics, with the functions of `agents_fixtures/checks`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from adk_envs import FIXTURES

from agent_eval.agents.host import HostSpec
from agent_eval.agents.host.metric_hosts import MetricHosts
from agent_eval.agents.protocol import MetricCall, MetricFailure
from agent_eval.agents.sandbox.spawn import Sandbox
from agent_eval.core.masking import Masker


@asynccontextmanager
async def metric_hosts(
    tmp_path: Path,
    python: Sequence[str],
    *,
    timeout: float = 60,
    secret: str = "",
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[MetricHosts]:
    """Hosts in that interpreter; `secret` is masked in what they say."""

    async def spec() -> HostSpec:
        return HostSpec(
            python=list(python),
            agent_path=str(FIXTURES / "checks"),
            root=FIXTURES,
            sandbox=Sandbox(environment={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **(environment or {})}),
            masker=Masker([secret] if secret else []),
            log_dir=tmp_path,
            start_timeout=120,
            role="metrics",
        )

    runner = MetricHosts(spec, name="metrics", timeout=timeout)
    try:
        yield runner
    finally:
        await runner.close()


async def failure_of(runner: MetricHosts, call: MetricCall) -> MetricFailure:
    """What the call raises."""
    with pytest.raises(MetricFailure) as caught:
        await runner.evaluate(call)
    return caught.value
