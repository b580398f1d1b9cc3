"""Bytecode for the environments of agents, made while they run: an installation waits for none."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from pathlib import Path

from agent_eval_agents.sandbox import Account, kill_group
from agent_eval_agents.sandbox.uids import claim, free_uids
from agent_eval_agents.venv._store import Place

_LOG = logging.getLogger("agent_eval.environments")
_SCRIPT = Path(__file__).with_name("compile_modules.py")
_ACTIVE: set[Path] = set()
"""What is compiled now: several agents of a run may have one environment."""


class Compiling:
    """Compiles an environment's modules with what the run leaves of the machine; the next run goes on with the rest."""

    def __init__(self, place: Place, process: asyncio.subprocess.Process, stack: contextlib.ExitStack) -> None:
        """Use `begin`."""
        self._stack = stack
        self._process = process
        self._waiting = asyncio.create_task(self._wait(place))

    @classmethod
    async def begin(cls, place: Place | None, account: Account | None) -> Compiling | None:
        """Starts it; None if nothing is to do, or it can't be started: modules are compiled at each import then.

        Args:
            place: The environment, which belongs to us already; None for one that isn't ours.
            account: The agents' user.
        """
        if place is None or place.marker in _ACTIVE or place.is_compiled():
            return None
        with contextlib.ExitStack() as stack:
            try:
                # Of its own: the agents' code must not get at what writes into an environment of later runs.
                uid = -1 if account is None else claim(stack, reversed(list(free_uids())))
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", _SCRIPT, place.directory, place.python, str(uid)),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                    start_new_session=True,
                    cwd="/",
                    env={},
                )
            except OSError as error:
                _LOG.debug("modules of %s are not compiled: %s", place.directory, error)
                return None
            _ACTIVE.add(place.marker)
            stack.callback(_ACTIVE.discard, place.marker)
            return cls(place, process, stack.pop_all())
        return None

    async def _wait(self, place: Place) -> None:
        code = await self._process.wait()
        _LOG.debug("compiling modules of %s ended with exit code %d", place.directory, code)
        if code == 0:
            place.note_compiled()

    async def close(self) -> None:
        """Ends it. Never raises."""
        self._waiting.cancel()
        await kill_group(self._process)
        self._stack.close()
