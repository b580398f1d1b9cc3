"""An environment that is made before its agent asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from agent_eval_agents.sandbox import Sandbox
from agent_eval_agents.venv.environment import AgentInterpreter, EnvironmentRequest, ensure_environment
from agent_eval_scoring.core.masking import Masker


class BegunEnvironment:
    """Is made at once. The first agent with the same request gets it, its lines for the log, and its failure."""

    def __init__(self, request: EnvironmentRequest, *, sandbox: Sandbox, masker: Masker, cache_dir: Path) -> None:
        """As for `ensure_environment`."""
        self._request = request
        self._lines: list[str] = []
        self._say: Callable[[str], None] = self._lines.append
        making = ensure_environment(
            request, sandbox=sandbox, masker=masker, cache_dir=cache_dir, log=lambda line: self._say(line)
        )
        self._making = asyncio.create_task(making)
        self._is_taken = False

    def take(self, request: EnvironmentRequest, log: Callable[[str], None]) -> asyncio.Task[AgentInterpreter] | None:
        """What gets the interpreter, cancelled with who waits for it; None for another request, or if it is taken."""
        if self._is_taken or request != self._request:
            return None
        self._is_taken = True
        for line in self._lines:
            log(line)
        self._say = log
        return self._making

    def cancel(self) -> None:
        """Has what is still made ended, which starts no process from now on."""
        self._making.cancel()

    async def close(self) -> None:
        """Waits for the end, after `cancel`. Never raises."""
        self._making.cancel()
        await asyncio.gather(self._making, return_exceptions=True)
