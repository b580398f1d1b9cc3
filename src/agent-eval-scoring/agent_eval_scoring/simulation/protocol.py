"""The interface of users, fixed or simulated, who talk to the agent; the options of simulated ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agent_eval_scoring.core.content import Content
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.evalset.models import LlmBackedUserSimulatorConfig

if TYPE_CHECKING:
    from agent_eval_scoring.models import FailureKind

StopReason = Literal[
    "conversation-over",  # every fixed turn was sent
    "turn-limit",  # max_allowed_invocations was reached
    "stop-signal",  # the simulated user ended it
]


PURPOSE = "user-simulator"
"""The purpose of its model calls, for the ledger."""

CODES: Mapping[FailureKind, str] = {
    "unavailable": "simulator-unavailable",
    "deadline": "simulator-deadline",
    "malformed": "simulator-no-message",
    "refused": "simulator-refused",
    "budget": "budget",
    "invalid-request": "simulator-invalid-request",
    "no-credentials": "simulator-no-credentials",
    "replay-miss": "simulator-replay-miss",
}
"""The code of a SimulatorFailure by kind of model failure."""


@dataclass(frozen=True, kw_only=True)
class SimulatorOptions:
    """Options of simulated users: `user_simulator_config`, with ADK's defaults."""

    model: str = "gemini-2.5-flash"
    config: Mapping[str, Any] = field(default_factory=dict)
    """`model_configuration`."""
    max_turns: int | None = 20
    """`max_allowed_invocations`: the maximum number of turns, including the starting prompt; None: no limit."""
    instructions: str | None = None
    """`custom_instructions`: a template that replaces our prompt."""
    function_calls: bool = False
    """`include_function_calls`: show tool calls and their responses."""


def simulator_options(config: Mapping[str, Any] | None) -> SimulatorOptions:
    """The options of a config.

    Args:
        config: EvalConfig.user_simulator_config; missing fields, or all for None, have ADK's defaults.
    """
    defaults = LlmBackedUserSimulatorConfig().model_dump()
    options = {**defaults, **(config or {})}
    generation = options["model_configuration"]
    is_default = options["model"] == defaults["model"]
    if not is_default and generation == defaults["model_configuration"] and not _is_gemini(options["model"]):
        generation = {}  # The default is a thinking budget, which only Gemini accepts.
    limit = options["max_allowed_invocations"]
    return SimulatorOptions(
        model=options["model"],
        config=generation,
        max_turns=limit if limit >= 0 else None,
        instructions=options["custom_instructions"],
        function_calls=options["include_function_calls"],
    )


def _is_gemini(model: str) -> bool:
    from agent_eval_scoring.models import parse_model

    try:
        provider = parse_model(model).provider
    except ValueError:
        return True  # An unknown name is reported elsewhere.
    return provider is None or provider.protocol == "gemini"


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


class SimulatorFailure(AgentEvalError):
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
