"""Personas: the built-in ones, rendering of their templates, and what a template can't access."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_eval.evalset.models.schema import ConversationScenario
from agent_eval.evalset.templates import TemplateError, check, render
from agent_eval.simulation.persona_rendering import Persona, persona_of


def scenario(persona: Any) -> ConversationScenario:
    return ConversationScenario.model_validate(
        {"starting_prompt": "Hi", "conversation_plan": "Buy {{ it }}.", "user_persona": persona}
    )


def inline(**behavior: Any) -> dict[str, Any]:
    complete = {"name": "n", "description": "d", "behavior_instructions": [], "violation_rubrics": [], **behavior}
    return {"id": "p", "description": "Uses {{ braces }}.", "behaviors": [complete]}


def known(scenario_: ConversationScenario, **more: Any) -> Persona:
    persona = persona_of(scenario_, **more)
    assert persona is not None
    return persona


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


def test_personas__the_judges_stop_signal() -> None:
    persona = known(scenario(inline(violation_rubrics=["{{ stop_signal }}"])), stop_signal="<end>")
    assert persona.behaviors[0].violation_rubrics == ("<end>",)


def test_persona_of__conversation_is_not_rendered() -> None:
    persona = known(scenario(inline(behavior_instructions=["{{ conversation_history }}"])))
    assert persona.behaviors[0].behavior_instructions == ("(the conversation so far)",)


def test_persona_of__no_persona() -> None:
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
def test_personas__a_template_reaches_nothing_but_its_variables(attack: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"id": "TOKEN"}', encoding="utf-8")
    things: list[int] = []
    variables = {"persona": known(scenario("EXPERT")), "secret": str(secret), "things": things}
    try:
        text = render(attack, variables)
    except TemplateError:
        text = ""
    assert (text, things) == ("", [])


def test_persona_of__fault_names_the_text() -> None:
    with pytest.raises(TemplateError, match=r"line 2 of the template"):
        check("a\n{{ b")
    with pytest.raises(TemplateError, match="ZeroDivisionError"):
        render("{{ 1 // 0 }}", {})
    with pytest.raises(TemplateError, match=r"^'x' is undefined$"):
        render("{{ x.y }}", {})


def test_persona_of__variables() -> None:
    assert check("no template") == frozenset()
    assert check("{{ a }} {% set b = c %}{{ b }}{% for d in e %}{{ d }}{% endfor %}") == {"a", "c", "e"}
    assert render("{{ a }}|{{ missing }}|{{ b }}", {"a": "{{ b }}", "b": 1}) == "{{ b }}||1"
