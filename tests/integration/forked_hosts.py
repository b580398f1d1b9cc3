"""Hosts that a parent forks and that run any code, without google-adk."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agent_eval_agents.host.connection import Connection
from agent_eval_agents.host.parents import Parent
from agent_eval_agents.sandbox import Child, kill_group
from agent_eval_scoring.core.masking import Masker

_ADK = ("adk/runners", "adk/apps/app", "adk/plugins/base_plugin", "adk/version", "genai/version")


def write_adk(directory: Path) -> None:
    """Something that has google-adk's names, in `site-packages`."""
    for name in _ADK:
        file = directory / f"site-packages/google/{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("__version__ = '0'\n")


class Host:
    """A host that runs the code it is given."""

    def __init__(self, process: Child, connection: Connection) -> None:
        self.process = process
        self._connection = connection

    async def run(self, code: str) -> Any:
        """What the body of a function returns."""
        source = "def evaluate(instance):\n    import json\n    def do():\n"
        source += "".join(f"        {line}\n" for line in code.splitlines())
        source += "    return {'score': 1, 'explanation': json.dumps(do())}\n"
        asked = {"function": "attack", "code": source, "instance": {}}
        return json.loads((await self._connection.ask("evaluate", asked)[1])["explanation"])


@contextlib.asynccontextmanager
async def host_of(parent: Parent, directory: Path, how: str = "fork") -> AsyncIterator[Host]:
    greeted = asyncio.Event()

    async def answer(method: str, params: dict[str, Any]) -> Any:
        greeted.set()
        return {"version": 1, "role": "functions"}

    ours, theirs = socket.socketpair()
    with theirs:
        process = await parent.fork(how, directory, theirs)
    connection = Connection(masker=Masker(), on_notify=lambda *_: None, on_request=answer)
    await connection.open(ours)
    reading = asyncio.create_task(connection.run())
    try:
        await asyncio.wait_for(greeted.wait(), 30)
        await asyncio.sleep(0)  # The answer is sent first.
        await connection.ask("load", {"agent": "x", "root": str(directory)})[1]
        yield Host(process, connection)
    finally:
        reading.cancel()
        await connection.close()
        await kill_group(process)
