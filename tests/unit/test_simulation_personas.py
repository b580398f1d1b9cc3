"""Personas: which there are, what becomes of their templates, what a template can't reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_eval.evalset.personas import PERSONAS
from agent_eval.evalset.schema import PERSONA_IDS, ConversationScenario
from agent_eval.evalset.templates import TemplateFault, check, render
from agent_eval.simulation.personas import Persona, persona_of


def scenario(persona: Any) -> ConversationScenario:
    return ConversationScenario.model_validate(
        {"starting_prompt": "Hi", "conversation_plan": "Buy {{ it }}.", "user_persona": persona}
    )


def inline(**behavior: Any) -> dict[str, Any]:
    made = {"name": "n", "description": "d", "behavior_instructions": [], "violation_rubrics": [], **behavior}
    return {"id": "p", "description": "Uses {{ braces }}.", "behaviors": [made]}


def known(scenario_: ConversationScenario, **more: Any) -> Persona:
    persona = persona_of(scenario_, **more)
    assert persona is not None
    return persona


def test_built_in_personas_are_adks() -> None:
    """Three personas made of eleven behaviors, as in google-adk 2.13.0."""
    assert set(PERSONAS) == set(PERSONA_IDS)
    behaviors = {name: {behavior.name for behavior in persona.behaviors} for name, persona in PERSONAS.items()}
    assert len(set().union(*behaviors.values())) == 11
    assert behaviors["EXPERT"] >= {"Corrects the agent", "Troubleshoots once", "Professional tone"}
    assert behaviors["NOVICE"] >= {"Does not correct the agent", "Answers everything", "Ends at the first failure"}
    assert behaviors["EVALUATOR"] >= {"Does not correct the agent", "Answers what is relevant"}
    for persona in PERSONAS.values():
        for behavior in persona.behaviors:
            assert behavior.behavior_instructions
            assert behavior.violation_rubrics


def test_texts_of_behaviors_are_templates__and_nothing_else_is() -> None:
    persona = known(
        scenario(
            inline(
                name="{{ stop_signal|upper }}",
                behavior_instructions=["End with {{ stop_signal }}", "Plan: {{ conversation_plan }}", "Plain"],
                violation_rubrics=["No {{ stop_signal }}"],
            )
        )
    )
    assert persona.description == "Uses {{ braces }}."
    (behavior,) = persona.behaviors
    assert behavior.name == "</FINISHED>"
    assert behavior.get_behavior_instructions_str() == "- End with </finished>\n- Plan: Buy {{ it }}.\n- Plain"
    assert behavior.get_violation_rubrics_str() == "- No </finished>"


def test_the_judges_stop_signal() -> None:
    persona = known(scenario(inline(violation_rubrics=["{{ stop_signal }}"])), stop_signal="<end>")
    assert persona.behaviors[0].violation_rubrics == ("<end>",)


def test_an_agent_has_no_way_into_a_persona() -> None:
    persona = known(scenario(inline(behavior_instructions=["{{ conversation_history }}"])))
    assert persona.behaviors[0].behavior_instructions == ("(the conversation so far)",)


def test_none() -> None:
    assert persona_of(scenario(None)) is None
    with pytest.raises(KeyError):
        persona_of(scenario("expert"))


@pytest.mark.parametrize(
    "attack",
    [
        "{{ persona.parse_file(secret) }}",
        "{{ persona.model_construct() }}",
        "{{ persona.__class__ }}",
        "{{ persona.behaviors[0].get_behavior_instructions_str.__globals__ }}",
        "{{ persona.behaviors[0].get_behavior_instructions_str.__func__.__globals__ }}",
        "{{ persona.__init__.__globals__['__builtins__'] }}",
        "{{ cycler.__init__.__globals__.os.environ }}",
        "{{ self.__init__.__globals__ }}",
        "{{ '{0.__class__}'.format(persona) }}",
        "{% set _ = things.append(1) %}",
    ],
)
def test_a_template_reaches_nothing_but_its_variables(attack: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"id": "TOKEN"}', encoding="utf-8")
    things: list[int] = []
    variables = {"persona": known(scenario("EXPERT")), "secret": str(secret), "things": things}
    try:
        text = render(attack, variables)
    except TemplateFault:
        text = ""
    assert (text, things) == ("", [])


def test_faults_say_where() -> None:
    with pytest.raises(TemplateFault, match=r"line 2 of the template"):
        check("a\n{{ b")
    with pytest.raises(TemplateFault, match="ZeroDivisionError"):
        render("{{ 1 // 0 }}", {})
    with pytest.raises(TemplateFault, match=r"^'x' is undefined$"):
        render("{{ x.y }}", {})


def test_variables() -> None:
    assert check("no template") == frozenset()
    assert check("{{ a }} {% set b = c %}{{ b }}{% for d in e %}{{ d }}{% endfor %}") == {"a", "c", "e"}
    assert render("{{ a }}|{{ missing }}|{{ b }}", {"a": "{{ b }}", "b": 1}) == "{{ b }}||1"
