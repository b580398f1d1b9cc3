"""Who talks to the agent: what the runner needs of a user, fixed or simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from agent_eval.core.content import Content
from agent_eval.core.invocation import Invocation

StopReason = Literal[
    "conversation-over",  # every fixed turn was played
    "turn-limit",  # max_allowed_invocations was reached
    "stop-signal",  # the simulated user ended it
]


@dataclass(frozen=True, kw_only=True)
class Stop:
    """There is no further message: the conversation ends well."""

    reason: StopReason
    message: str
    """One sentence for the report."""


class User(Protocol):
    """One conversation's user. It keeps no state: what it says next follows from the turns so far."""

    async def next_message(self, turns: Sequence[Invocation]) -> Content | Stop:
        """The next message to the agent.

        Args:
            turns: What happened so far, a turn for each message that this user gave.

        Raises:
            SimulatorFailure: There should be a message, and there is none.
        """
        ...


class SimulatorFailure(Exception):
    """The simulated user could not be played. It says nothing about the agent."""

    def __init__(self, message: str, *, code: str, hint: str | None = None, by_file: bool = False) -> None:
        """Describes it.

        Args:
            message: One sentence that says what happened.
            code: Stable, kebab-case; simulated.py has the codes.
            hint: What to do about it.
            by_file: The eval file or its config is to blame, which the pull request can mend, and not the world.
        """
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.by_file = by_file
