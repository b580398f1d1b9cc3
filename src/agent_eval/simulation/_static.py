"""The user of a case with fixed turns: sends the messages of the eval file, regardless of the agent's answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_eval.core.content import Content
from agent_eval.core.invocation import Invocation
from agent_eval.simulation.protocol import Stop


@dataclass(frozen=True, kw_only=True)
class StaticUser:
    """Replays the messages of a conversation with all their parts."""

    conversation: Sequence[Invocation]

    async def next_message(self, turns: Sequence[Invocation]) -> Content | Stop:
        """The user's message of the next turn."""
        if len(turns) < len(self.conversation):
            return self.conversation[len(turns)].user_content
        return Stop(reason="conversation-over", message="All turns of the case were sent.")
