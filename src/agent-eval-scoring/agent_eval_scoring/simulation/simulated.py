"""The simulated user of a scenario, played by a model.

Turns, the end of the conversation and the material for the model are those of google-adk 2.13.0's LLM-backed user
simulator; the prompt is our own (docs/simulation.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_eval_scoring.core.content import Content, user_message
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.prompt_fence import fenced
from agent_eval_scoring.evalset.models import ConversationScenario
from agent_eval_scoring.evalset.parse import STOP_SIGNAL, ends_the_conversation
from agent_eval_scoring.evalset.templates import TemplateError, render
from agent_eval_scoring.models import FailureKind, Model, ModelFailure, ModelRequest, Replies
from agent_eval_scoring.simulation._prompt import Line, as_text, draft, lines
from agent_eval_scoring.simulation.persona_rendering import persona_of
from agent_eval_scoring.simulation.protocol import CODES, PURPOSE, SimulatorFailure, SimulatorOptions, Stop

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
class SimulatedUser:
    """Leads one conversation according to a scenario."""

    scenario: ConversationScenario
    options: SimulatorOptions
    model: Model
    case_id: str
    """Attributes the calls to the case."""
    run: int = 0
    """0-based. Each run is a separate conversation, even with a cache."""
    replies: Replies | None = None
    """Those of the run, if it is recorded or replayed."""

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
            replies=self.replies,
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
