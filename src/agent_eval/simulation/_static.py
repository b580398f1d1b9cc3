"""The user of a case with fixed turns: says what the eval file says, whatever the agent answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_eval.core.content import Content
from agent_eval.core.invocation import Invocation
from agent_eval.simulation.protocol import Stop


@dataclass(frozen=True, kw_only=True)
class StaticUser:
    """Replays a conversation, parts that are no text included."""

    conversation: Sequence[Invocation]

    async def next_message(self, turns: Sequence[Invocation]) -> Content | Stop:
        """The user's message of the next turn, as it stands in the case."""
        if len(turns) < len(self.conversation):
            return self.conversation[len(turns)].user_content
        return Stop(reason="conversation-over", message="All turns of the case were played.")
