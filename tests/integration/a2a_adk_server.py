"""ADK's own A2A servers around the fixture agent `dice`. Runs in an environment with google-adk[a2a].

Prints two ports: of a server that uses the executor that the client asks for, and of one with the older executor only.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "agents_fixtures"))

import uvicorn  # type: ignore[import-not-found]
from dice.agent import root_agent  # type: ignore[import-not-found]
from google.adk.a2a.executor.a2a_agent_executor import A2aAgentExecutor
from google.adk.a2a.utils.agent_to_a2a import to_a2a


def server(*, legacy: bool) -> tuple[int, uvicorn.Server, socket.socket]:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    app = to_a2a(
        root_agent,
        host="127.0.0.1",
        port=port,
        agent_executor_factory=lambda runner: A2aAgentExecutor(runner=runner, use_legacy=legacy),
    )
    return port, uvicorn.Server(uvicorn.Config(app, log_level="warning")), listening


async def main() -> None:
    servers = [server(legacy=False), server(legacy=True)]
    print(*(port for port, _, _ in servers), flush=True)
    await asyncio.gather(*(each.serve(sockets=[listening]) for _, each, listening in servers))


if __name__ == "__main__":
    asyncio.run(main())
