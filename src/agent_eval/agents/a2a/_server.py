"""What the sessions of an agent behind A2A share: the connection, the card, and what is known about the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from agent_eval.agents.a2a import _rpc
from agent_eval.agents.a2a._dialect import AgentCard
from agent_eval.agents.a2a._task import TaskReader
from agent_eval.agents.http import HttpClient, HttpFailure, Reply, TooLarge, failures
from agent_eval.agents.http.failures import ServerProcess
from agent_eval.agents.protocol import AgentFailure, AgentRefused
from agent_eval.core.limiter import Limiter
from agent_eval.core.text import first_line
from agent_eval.net.statuses import UNPROCESSED


class A2aServer:
    """A server whose card was read."""

    def __init__(
        self,
        card: AgentCard,
        client: HttpClient,
        *,
        limiter: Limiter,
        log: Callable[[str], None],
        process: ServerProcess | None,
        secrets_withheld: bool,
    ) -> None:
        """Sends nothing.

        Args:
            card: The agent card.
            client: For requests to it. Its owner closes it.
            limiter: Is notified of throttling.
            log: Writes a line.
            process: The server's process, if the gate started it.
            secrets_withheld: GitHub gives the job no secrets.
        """
        self.card = card
        self.client = client
        self.limiter = limiter
        self.process = process
        self.streams = card.streaming
        """Whether turns are sent as streams; False once a server has refused one."""
        self.shows_calls = card.shows_calls
        """Whether the server is known to show its agent's tool calls."""
        self._secrets_withheld = secrets_withheld
        self._reached = False
        self._log = log
        self._warned = False
        self._background: set[asyncio.Task[None]] = set()

    def note(self, reader: TaskReader) -> None:
        """Takes in what a turn shows about the server."""
        self.shows_calls = self.shows_calls or reader.shows_calls
        if reader.lost_digits and not self._warned:
            self._warned = True
            self._log(
                f"[a2a-large-number] {first_line(self.card.name, 100)}: a number beyond 2^53 may have lost digits, "
                "because A2A 1.0 sends numbers as doubles. Pass such ids as strings."
            )

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs something that a cancelled turn can't wait for. `settle` waits for it."""
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def admitted(self, reply: Reply) -> None:
        """Checks the status of an answer.

        Raises:
            AgentFailure: The server has no capacity, or refuses access to a job without secrets.
            AgentRefused: The server has refused access from the beginning. Cards are often open to everyone.
        """
        if reply.status in UNPROCESSED:
            raise failures.overloaded(reply, 0.0, 1)
        refusal = failures.not_admitted(
            reply,
            self.card.url,
            has_headers=self.client.has_headers,
            secrets_withheld=self._secrets_withheld,
        )
        if refusal is not None and not self._reached:
            raise refusal
        self._reached = True

    async def lost(self, error: HttpFailure) -> AgentFailure | AgentRefused:
        """The failure of a request without an answer."""
        if not self._reached and error.reason != "broken":
            return failures.not_reached(error, f"{self.card.url} (from its agent card)", self.process)
        if self.process is not None:
            await self.process.settle()
        return failures.lost(error.message, self.process)

    async def settle(self) -> None:
        """Waits for what runs in the background."""
        await asyncio.gather(*self._background, return_exceptions=True)

    async def call(self, method: str, task_id: str) -> Any:
        """Calls a method with a task's id.

        Raises:
            AgentFailure: The call failed.
        """
        dialect = self.card.dialect
        try:
            reply = await self.client.request(
                "POST", self.card.url, body=dialect.request(method, {"id": task_id}), headers=dialect.headers
            )
            self.admitted(reply)
            return _rpc.result_of(reply, self.process)
        except HttpFailure as error:
            raise await self.lost(error) from error
        except TooLarge as error:
            raise _rpc.unreadable(str(error)) from error
        except _rpc.RpcError as error:
            raise _rpc.failure(error) from error
