"""An agent behind A2A: its card, and what its sessions share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from agent_eval.agents.a2a._dialect import CARD_PATHS, AgentCard, BadCard, read_card
from agent_eval.agents.a2a._server import A2aServer
from agent_eval.agents.a2a._session import A2aSession
from agent_eval.agents.driver import AgentSpec
from agent_eval.agents.http import HttpClient, TooLarge, failures, first_reply, origin_of, parse_url
from agent_eval.agents.http.failures import ServerProcess
from agent_eval.agents.protocol import Session, SessionRequest


class A2aAgent:
    """Implements `protocol.Agent`."""

    def __init__(self, spec: AgentSpec, *, process: ServerProcess | None = None) -> None:
        """Opens no connection yet.

        Args:
            spec: Its source is the server's URL: the one above the agent card.
            process: The server's process, if the gate started it. It never gets the workflow's headers.
        """
        context = spec.context
        self._url = parse_url(spec.source)
        self._client = HttpClient(
            self._url,
            headers=context.remote.headers if process is None else None,
            environ=context.remote.environ,
            masker=context.masker,
        )
        self._context = context
        self._process = process
        self._server: A2aServer | None = None
        self._starting = asyncio.Lock()

    @property
    def server(self) -> A2aServer:
        """The server; `start` must have succeeded."""
        assert self._server is not None
        return self._server

    @property
    def provenance(self) -> Mapping[str, str]:
        """The server's URL, the agent's name and version, and the dialect."""
        facts = {"driver": "a2a", "url": self._url.base}
        if self._server is not None:
            card = self._server.card
            facts |= {"agent": card.name, "version": card.version, "a2a": card.dialect.version}
        return {name: value for name, value in facts.items() if value}

    @property
    def metrics(self) -> None:
        """Custom metrics need the agent's code."""
        return None

    async def start(self) -> None:
        """Reads the agent card.

        Raises:
            AgentFailure: The server does not answer.
            AgentRefused: It refuses access, or has no usable card.
        """
        async with self._starting:
            if self._server is None:
                self._server = A2aServer(
                    await self._read_card(),
                    self._client,
                    limiter=self._context.limiter,
                    log=self._context.log,
                    process=self._process,
                    secrets_withheld=self._context.remote.secrets_withheld,
                )

    async def _read_card(self) -> AgentCard:
        url = self._url.base
        for path in CARD_PATHS:
            try:
                reply = await first_reply(
                    self._client, path, server=self._process, secrets_withheld=self._context.remote.secrets_withheld
                )
            except TooLarge as error:
                raise failures.refused(f"The agent card of {url} can't be used: {error}.") from None
            if reply.status != 404:
                break
        else:
            raise failures.refused(
                f"The agent at {url} has no agent card at {CARD_PATHS[0]} (HTTP 404).",
                "Name the URL above the card, e.g. `a2a:http://127.0.0.1:8000/a2a/APP` for `adk api_server --a2a`.",
            )
        if reply.status != 200:
            raise failures.unexpected_status(reply, self._process)
        try:
            card = read_card(reply.json(), self._url)
        except BadCard as error:
            raise failures.refused(
                f"The agent at {url} can't be used: {error}.", "See docs/remote-agents.md for what the gate speaks."
            ) from None
        if self._client.has_headers and origin_of(card.url) != self._url.origin:
            raise failures.refused(
                f"The agent card of {url} sends requests to {origin_of(card.url)}, to which `agent-headers` do not go.",
                "Name that server in `agent`, or correct the URL in the agent card.",
            )
        return card

    async def open(self, request: SessionRequest) -> Session:
        """Opens a session. The server makes the conversation with the first message."""
        return A2aSession(self.server, request)

    async def close(self) -> None:
        """Ends all connections. Never raises."""
        if self._server is not None:
            await self._server.settle()
        await self._client.close()
