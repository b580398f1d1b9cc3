"""Who the simulated user plays: personas with their texts rendered.

The personas that a scenario can name are evalset/models/personas.py; the judge of the simulated user reads the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from agent_eval.evalset.models import PERSONAS, ConversationScenario, UserPersona
from agent_eval.evalset.parse import STOP_SIGNAL
from agent_eval.evalset.templates import render

_ELSEWHERE = "(the conversation so far)"
"""Stands for the conversation inside a persona's texts: an agent must not write into instructions."""


@dataclass(frozen=True, kw_only=True)
class Behavior:
    """A trait. Templates of users may read every field and call the methods, which have ADK's names."""

    name: str
    description: str
    behavior_instructions: tuple[str, ...]
    violation_rubrics: tuple[str, ...]

    def get_behavior_instructions_str(self) -> str:
        """The instructions as a list, a line each."""
        return "\n".join(f"- {instruction}" for instruction in self.behavior_instructions)

    def get_violation_rubrics_str(self) -> str:
        """The violations as a list, a line each."""
        return "\n".join(f"- {rubric}" for rubric in self.violation_rubrics)


@dataclass(frozen=True, kw_only=True)
class Persona:
    """A persona, rendered. A plain object, since it is given to templates (evalset/templates.py)."""

    id: str
    description: str
    """As it is; only the texts of behaviors are templates."""
    behaviors: tuple[Behavior, ...]


def named_persona(scenario: ConversationScenario) -> UserPersona | None:
    """A scenario's persona; None when it has none.

    Raises:
        KeyError: It names one that doesn't exist; validation refuses such a scenario.
    """
    given = scenario.user_persona
    return PERSONAS[given] if isinstance(given, str) else given


def persona_of(scenario: ConversationScenario, *, stop_signal: str = STOP_SIGNAL) -> Persona | None:
    """A scenario's persona with its texts rendered; None when it has none.

    Args:
        scenario: The scenario.
        stop_signal: What `{{ stop_signal }}` stands for in them.

    Raises:
        KeyError: As `named_persona`.
        TemplateFault: A text is no template, or fails.
    """
    persona = named_persona(scenario)
    if persona is None:
        return None
    fill = partial(
        render,
        variables={
            "stop_signal": stop_signal,
            "conversation_plan": scenario.conversation_plan,
            "conversation_history": _ELSEWHERE,
        },
    )
    return Persona(
        id=persona.id,
        description=persona.description,
        behaviors=tuple(
            Behavior(
                name=fill(behavior.name),
                description=fill(behavior.description),
                behavior_instructions=tuple(map(fill, behavior.behavior_instructions)),
                violation_rubrics=tuple(map(fill, behavior.violation_rubrics)),
            )
            for behavior in persona.behaviors
        ),
    )
