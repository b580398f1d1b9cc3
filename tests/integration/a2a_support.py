"""Agents behind A2A, created as the pipeline does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from agent_eval.agents.a2a.agent import A2aAgent
from agent_eval.agents.driver import AgentSpec, DriverContext, RemoteOptions
from agent_eval.agents.sandbox.spawn import Sandbox
from agent_eval.core.limiter import Limiter
from agent_eval.core.masking import Masker


def a2a_agent(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    secrets_withheld: bool = False,
    secrets: tuple[str, ...] = (),
    log: Callable[[str], None] = lambda _: None,
) -> A2aAgent:
    """An agent behind A2A, not started."""
    root = Path("/nowhere")
    context = DriverContext(
        root=root,
        python=None,
        requirements=None,
        interpreter=None,
        setup=None,
        installer={},
        sandbox=Sandbox(environment={}),
        masker=Masker(secrets),
        workers=1,
        cache_dir=root,
        log_dir=root,
        log=log,
        limiter=Limiter(8),
        turn_timeout=60,
        remote=RemoteOptions(headers=headers or {}, secrets_withheld=secrets_withheld),
    )
    return A2aAgent(AgentSpec(source=url, directory=None, working_directory=root, context=context))
