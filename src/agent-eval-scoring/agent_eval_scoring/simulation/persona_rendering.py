"""Personas with rendered texts, for the simulated user and its judge.

The built-in personas are in evalset/models/personas.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from agent_eval_scoring.evalset.models import PERSONAS, ConversationScenario, UserPersona
from agent_eval_scoring.evalset.parse import STOP_SIGNAL
from agent_eval_scoring.evalset.templates import render

_ELSEWHERE = "(the conversation so far)"
"""Replaces the conversation in a persona's texts, because an agent must not write into instructions."""


@dataclass(frozen=True, kw_only=True)
class Behavior:
    """A behavior. Templates of users can use all fields and methods, which have ADK's names."""

    name: str
    description: str
    behavior_instructions: tuple[str, ...]
    violation_rubrics: tuple[str, ...]

    def get_behavior_instructions_str(self) -> str:
        """The instructions as a list, one per line."""
        return "\n".join(f"- {instruction}" for instruction in self.behavior_instructions)

    def get_violation_rubrics_str(self) -> str:
        """The violations as a list, one per line."""
        return "\n".join(f"- {rubric}" for rubric in self.violation_rubrics)


@dataclass(frozen=True, kw_only=True)
class Persona:
    """A rendered persona. It is a plain object because templates can access it (evalset/templates.py)."""

    id: str
    description: str
    """Not a template, unlike the texts of behaviors."""
    behaviors: tuple[Behavior, ...]


def named_persona(scenario: ConversationScenario) -> UserPersona | None:
    """A scenario's persona; None if it has none.

    Raises:
        KeyError: There is no built-in persona of that name; validation refuses such a scenario.
    """
    persona = scenario.user_persona
    return PERSONAS[persona] if isinstance(persona, str) else persona


def persona_of(scenario: ConversationScenario, *, stop_signal: str = STOP_SIGNAL) -> Persona | None:
    """A scenario's persona with rendered texts; None if it has none.

    Args:
        scenario: The scenario.
        stop_signal: The value of `{{ stop_signal }}`.

    Raises:
        KeyError: As for `named_persona`.
        TemplateError: A text is not a valid template, or rendering fails.
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
