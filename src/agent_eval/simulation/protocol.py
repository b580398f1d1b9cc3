"""The interface of users, fixed or simulated, who talk to the agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from agent_eval.core.content import Content
from agent_eval.core.invocation import Invocation

StopReason = Literal[
    "conversation-over",  # every fixed turn was sent
    "turn-limit",  # max_allowed_invocations was reached
    "stop-signal",  # the simulated user ended it
]


@dataclass(frozen=True, kw_only=True)
class Stop:
    """There is no further message; the conversation is complete."""

    reason: StopReason
    message: str
    """One sentence for the report."""


class User(Protocol):
    """The user of one conversation. It keeps no state; its next message depends on the turns so far."""

    async def next_message(self, turns: Sequence[Invocation]) -> Content | Stop:
        """The next message to the agent.

        Args:
            turns: The turns so far, one per message of this user.

        Raises:
            SimulatorFailure: There is no message although the conversation is not complete.
        """
        ...


class SimulatorFailure(Exception):
    """The simulated user failed. This says nothing about the agent."""

    def __init__(self, message: str, *, code: str, hint: str | None = None, by_file: bool = False) -> None:
        """Creates the exception.

        Args:
            message: What happened, one sentence.
            code: Stable, kebab-case; simulated.py has the codes.
            hint: What to do about it.
            by_file: Whether the cause is the eval file or its config, which the pull request can fix.
        """
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.by_file = by_file
