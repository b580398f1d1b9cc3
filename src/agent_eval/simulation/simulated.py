"""The simulated user of a scenario, played by a model.

Turns, the end of the conversation and the material for the model are those of google-adk 2.13.0's LLM-backed user
simulator; the prompt is our own (docs/simulation.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_eval.core.content import Content, user_message
from agent_eval.core.invocation import Invocation
from agent_eval.core.prompt_fence import fenced
from agent_eval.evalset.models import ConversationScenario, EvalCase, LlmBackedUserSimulatorConfig
from agent_eval.evalset.parse import STOP_SIGNAL, ends_the_conversation
from agent_eval.evalset.templates import TemplateError, render
from agent_eval.models import FailureKind, Model, ModelFailure, ModelRequest, parse_model
from agent_eval.simulation._prompt import draft
from agent_eval.simulation._static import StaticUser
from agent_eval.simulation._transcript import Line, as_text, lines
from agent_eval.simulation.persona_rendering import persona_of
from agent_eval.simulation.protocol import SimulatorFailure, Stop, User

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
TEMPLATE_CODE = "simulator-template-failed"
"""The code if a template of the case or the config fails on this conversation."""

_WAIT = "Run it again later; this says nothing about the agent."
_HINTS: Mapping[FailureKind, str] = {
    "malformed": "The model may have spent its tokens on thinking: try another `model`, or a larger "
    "`max_output_tokens` in `model_configuration`, in `user_simulator_config`.",
    "refused": "Change the scenario, or `safety_settings` in `model_configuration`, in `user_simulator_config`.",
}
"""Hints for model failures without one."""


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
    if generation == defaults["model_configuration"] and not _is_gemini(options["model"]):
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
    try:
        provider = parse_model(model).provider
    except ValueError:
        return True  # An unknown name is reported elsewhere.
    return provider is None or provider.protocol == "gemini"


@dataclass(frozen=True, kw_only=True)
class SimulatedUser:
    """Leads one conversation according to a scenario."""

    scenario: ConversationScenario
    options: SimulatorOptions
    model: Model
    case_id: str
    """Attributes the calls to the case."""
    run: int = 0
    """0-based. Each run is a separate conversation, even with a cache."""

    async def next_message(self, turns: Sequence[Invocation]) -> Content | Stop:
        """The starting prompt; after it the model's reply to the scenario and the conversation so far.

        Raises:
            SimulatorFailure: The model returned no message, or a template failed.
        """
        limit = self.options.max_turns
        if limit is not None and len(turns) >= limit:
            return Stop(
                reason="turn-limit",
                message=f"The conversation ended at its limit of {limit} turns (max_allowed_invocations).",
            )
        text = await self._ask(turns) if turns else self.scenario.starting_prompt
        if ends_the_conversation(text):
            return Stop(reason="stop-signal", message="The simulated user ended the conversation.")
        if not text.strip():
            raise SimulatorFailure(
                "The message of the simulated user is empty",
                code=CODES["malformed"],
                hint=_HINTS["malformed"] if turns else "Check the scenario's starting prompt.",
            )
        return user_message(text)

    async def _ask(self, turns: Sequence[Invocation]) -> str:
        transcript = lines(turns, function_calls=self.options.function_calls)
        try:
            prompt = self._prompt(transcript)
        except TemplateError as error:
            raise SimulatorFailure(
                f"The simulated user's instructions can't be rendered: {error}",
                code=TEMPLATE_CODE,
                hint="Correct `custom_instructions` in the config, or the persona in the scenario.",
                by_file=True,
            ) from error
        request = ModelRequest(
            model=self.options.model,
            prompt=prompt,
            config=self.options.config,
            # A template may omit the conversation. The prompt is then the same on each turn, but the reply must be new.
            sample=len(turns),
            run=self.run,
            case_id=self.case_id,
            purpose=PURPOSE,
        )
        try:
            return (await self.model.generate(request)).text
        except ModelFailure as failure:
            raise SimulatorFailure(
                f"The simulated user: {failure.message}",
                code=CODES[failure.kind],
                hint=failure.hint or _HINTS.get(failure.kind, _WAIT),
            ) from failure

    def _prompt(self, transcript: Sequence[Line]) -> str:
        persona = persona_of(self.scenario)
        if self.options.instructions is None:
            return fenced(draft(self.scenario, persona, transcript, stop_signal=STOP_SIGNAL))
        variables: dict[str, Any] = {
            "stop_signal": STOP_SIGNAL,
            "conversation_plan": self.scenario.conversation_plan,
            "conversation_history": as_text(transcript),
        }
        if persona is not None:
            variables["persona"] = persona
        return render(self.options.instructions, variables)


def user_of(
    case: EvalCase, config: Mapping[str, Any] | None, model: Model | None, *, case_id: str, run: int = 0
) -> User:
    """The user of a run of a case.

    Args:
        case: The case.
        config: The `user_simulator_config` that applies to it.
        model: Plays the user of a scenario; None if no case has one.
        case_id: Attributes the calls to the case.
        run: 0-based.

    Raises:
        ValueError: The case has a scenario, but there is no model.
    """
    if case.conversation_scenario is None:
        return StaticUser(conversation=case.conversation or ())
    if model is None:
        raise ValueError(f"{case_id} has a scenario, but there is no model for its user")
    return SimulatedUser(
        scenario=case.conversation_scenario,
        options=simulator_options(config),
        model=model,
        case_id=case_id,
        run=run,
    )
