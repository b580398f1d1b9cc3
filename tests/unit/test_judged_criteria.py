"""Each judged criterion: the material for the judge, and the score of its verdicts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from judged_samples import (
    ScriptedModel,
    conversation,
    failure,
    judged,
    refused,
    rubric,
    score,
    scored,
    turn,
    verdict,
    verdicts,
)
from remark_samples import lines

from agent_eval.core.content import Content, model_message
from agent_eval.core.invocation import AppDetails, IntermediateData, Invocation, InvocationEvents
from agent_eval.criteria.base import Conversation, Scored
from agent_eval.criteria.judged._material import RULE
from agent_eval.criteria.judged.quality import JUDGE_SPECS
from agent_eval.evalset.models import JUDGED_METRICS
from agent_eval.evalset.models.criteria import METRICS
from agent_eval.evalset.models.personas import PERSONAS
from agent_eval.evalset.models.schema import PERSONA_IDS, ConversationScenario
from agent_eval.models.protocol import ModelRequest
from agent_eval.models.vertex_eval import JUDGED_BY_SERVICE

MATCH = "final_response_match_v2"
ANSWER = "rubric_based_final_response_quality_v1"
TOOLS = "rubric_based_tool_use_quality_v1"
TRAJECTORY = "rubric_based_multi_turn_trajectory_quality_v1"
HALLUCINATIONS = "hallucinations_v1"
SIMULATOR = "per_turn_user_simulator_quality_v1"
SCENARIO: dict[str, Any] = {
    "conversation_scenario": ConversationScenario(starting_prompt="hi", conversation_plan="Buy a lamp.")
}


def always(reply: Any) -> ScriptedModel:
    return ScriptedModel(script=lambda _: reply)


def events(*listed: dict[str, Any]) -> InvocationEvents:
    return InvocationEvents.model_validate({"invocation_events": [{"author": "bot", **event} for event in listed]})


def rubrics_of(metric: str) -> dict[str, Any]:
    """The option of one rubric, if the metric has it."""
    return {"rubrics": [rubric("a")]} if metric.startswith("rubric") else {}


def texts(*texts: str, **rest: Any) -> dict[str, Any]:
    return {"content": {"role": "model", "parts": [{"text": text} for text in texts]}, **rest}


CALL = {"content": {"parts": [{"function_call": {"id": "1", "name": "find", "args": {"q": "lamp"}}}]}}
RESULT = {"content": {"parts": [{"function_response": {"id": "1", "name": "find", "response": {"price": 42}}}]}}
DETAILS = AppDetails.model_validate(
    {
        "agent_details": {
            "bot": {
                "name": "bot",
                "instructions": "Sell lamps.",
                "tool_declarations": [
                    {"function_declarations": [{"name": "find", "description": "Finds lamps", "parameters": None}]},
                    {"google_search": {}},
                ],
            },
            "helper": {"name": "helper", "instructions": "Help out."},
        }
    }
)


@pytest.mark.parametrize("metric", JUDGED_METRICS)
def test_prompts_begin_alike__for_the_providers_own_cache(metric: str) -> None:
    """The task and the agent's instructions come before the parts that differ from answer to answer."""

    def prompt(answer: str) -> str:
        model = always(None)
        case: dict[str, Any] = {
            "rubrics": [rubric("r", type_) for spec in METRICS.values() if (type_ := spec.rubric_type)]
        }
        if metric == SIMULATOR:
            case = SCENARIO
        turns = [turn(answer=answer, app_details=DETAILS), turn(answer=answer, app_details=DETAILS)]
        score(judged(metric, model, samples=1), conversation(turns, **case))
        return model.requests[0].prompt

    first, second = prompt("It is red."), prompt("Blue.")
    differs = next((at for at, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), len(first))
    common = first[:differs]

    assert RULE in common
    for text in ("Sell lamps.", "Buy a lamp."):
        assert (text in common) == (text in first)


@pytest.mark.parametrize(
    ("metric", "options"),
    [*((metric, {}) for metric in JUDGED_METRICS), *((metric, {"backend": "vertex"}) for metric in JUDGED_BY_SERVICE)],
)
def test_prompts__are_equal_if_only_ids_differ(metric: str, options: dict[str, Any]) -> None:
    """Ids are drawn anew in each run: else no cache and no tape would ever answer."""

    def prompts(drawn: str) -> list[str]:
        model = always({"score": 1, "explanation": "", "rubrics": []} if options else None)
        case: dict[str, Any] = {
            "rubrics": [rubric("r", type_) for spec in METRICS.values() if (type_ := spec.rubric_type)]
        }
        shown = json.loads(json.dumps([CALL, CALL, RESULT]).replace('"1"', f'"{drawn}"'))
        actual = [turn(intermediate_data=events(*shown), invocation_id=drawn)]
        score(
            judged(metric, model, samples=1, **options),
            conversation(actual, **SCENARIO if metric == SIMULATOR else case),
        )
        return [request.prompt for request in model.requests]

    assert prompts("adk-1") == prompts("adk-2") != []


@pytest.mark.parametrize(
    ("metric", "shown", "hidden"),
    [
        (MATCH, ["asked", "the answer", "the reference"], ["typed", "let me see", "lamp"]),
        (
            ANSWER,
            [
                "Sell lamps.",
                "Help out.",
                "Finds lamps",
                "google_search",
                "typed",
                '"price": 42',
                "a page",
                "the answer",
            ],
            ['"nothing"', "the reference"],
        ),
        (TOOLS, ["Finds lamps", "typed", '"price": 42'], ["the answer", "Sell lamps."]),
    ],
)
def test_material__of_each_metric(metric: str, shown: list[str], hidden: list[str]) -> None:
    model = always(verdict("valid") | verdicts("yes"))
    grounded = texts("let me see", grounding_metadata={"web": "a page", "nothing": None})
    actual = turn("typed", "the answer", intermediate_data=events(grounded, CALL, RESULT), app_details=DETAILS)

    criterion_ = judged(metric, model, samples=1, **rubrics_of(metric))
    scored(criterion_, conversation([actual], [turn("asked", "the reference")]))

    [request] = model.requests
    assert [text for text in shown if text not in request.prompt] == []
    assert [text for text in hidden if text in request.prompt] == []


@pytest.mark.parametrize(
    ("metric", "shown", "code"),
    [
        (MATCH, conversation([turn()], **SCENARIO), "needs-reference"),
        (MATCH, conversation([turn()], [turn(), turn()]), "turn-count"),
        (SIMULATOR, conversation([turn()]), "needs-scenario"),
        (SIMULATOR, conversation([], **SCENARIO), "no-turns"),
        *(
            (metric, conversation([]), "no-turns")
            for metric in (ANSWER, TOOLS, TRAJECTORY, HALLUCINATIONS, "safety_v1", "multi_turn_task_success_v1")
        ),
    ],
)
def test_no_score__and_no_call(metric: str, shown: Conversation, code: str) -> None:
    model = always(None)

    assert refused(judged(metric, model), shown).code == code
    assert model.requests == []


# --- final_response_match_v2 ------------------------------------------------------------------------------------------


def test_match__intermediate_texts() -> None:
    model = always(verdict("valid"))
    actual = turn(answer="end", intermediate_data=events(texts("first", "second"), CALL))
    old = IntermediateData.model_validate({"intermediate_responses": [["bot", [{"text": "was expected"}]]]})
    expected = turn(answer="reference", intermediate_data=old)

    criterion_ = judged(MATCH, model, samples=1, include_intermediate_responses_in_final=True)
    scored(criterion_, conversation([actual], [expected]))

    [request] = model.requests
    assert "first\nsecond\nend" in request.prompt
    assert "was expected\nreference" in request.prompt


def test_match__explains_what_failed() -> None:
    model = ScriptedModel(script=lambda r: verdict("invalid" if "wrong" in r.prompt else "valid", "a\nb"))

    result = scored(
        judged(MATCH, model, threshold=1.0),
        conversation([turn(), turn(answer="wrong")], [turn(), turn(answer="right")]),
    )

    assert (result.score, result.turn_scores) == (0.5, (1.0, 0.0))
    [finding] = result.findings
    assert (finding.turn, finding.expected, finding.actual) == (1, "right", "wrong")
    assert lines(finding.why) == ("invalid (3:0): a b",)


# --- rubrics ----------------------------------------------------------------------------------------------------------


def test_rubrics__of_their_type_are_averaged_over_all_verdicts_not_over_turns() -> None:
    type_ = "FINAL_RESPONSE_QUALITY"
    model = ScriptedModel(script=lambda r: verdicts(*["yes", "no"][: r.prompt.count('"number": ')]))
    turns = [turn(), turn(rubrics=[rubric("b", type_)])]

    result = scored(
        judged(ANSWER, model, samples=1, rubrics=[rubric("a")], threshold=0.9),
        conversation([turn(), turn()], turns, rubrics=[rubric("untyped"), rubric("other", "OTHER")]),
    )

    assert result.score == 2 / 3
    assert result.turn_scores == (1.0, 0.5)
    [finding] = result.findings
    assert lines(finding.why) == ("b: no: about 2",)
    assert (finding.expected, finding.actual) == ("b: it is b", "fine")


def test_rubrics__unusable() -> None:
    model = always(verdicts("yes"))
    case = [rubric("a", "FINAL_RESPONSE_QUALITY")]

    assert refused(judged(ANSWER, model), conversation([turn()])).code == "no-rubrics"
    assert (
        refused(judged(ANSWER, model, rubrics=[rubric("a")]), conversation([turn()], rubrics=case)).code
        == "duplicate-rubric"
    )
    assert model.requests == []


def test_trajectory_rubrics__show_the_whole_dialogue_once() -> None:
    model = always(verdicts("no"))
    turns = [
        turn("first", "done", intermediate_data=events(texts("hm"), CALL, RESULT), app_details=DETAILS),
        turn("second", "bye", app_details=DETAILS),
    ]

    result = scored(judged(TRAJECTORY, model, samples=1, rubrics=[rubric("a")]), conversation(turns))

    [request] = model.requests
    lines = (
        'USER TURN 1: first\nAGENT (bot) TURN 1: hm\nAGENT (bot) TURN 1 (tool call): find({"q": "lamp"})\n'
        'AGENT (bot) TURN 1 (tool output): find -> {"price": 42}\nAGENT (bot) TURN 1: done\n'
        "USER TURN 2: second\nAGENT (agent) TURN 2: bye"
    )
    assert lines in request.prompt
    assert request.prompt.count("Sell lamps.") == 1
    assert "- find: Finds lamps" in request.prompt
    assert '- {"google_search": {}}' in request.prompt, "ADK can't show such a tool"
    assert (result.score, result.turn_scores) == (0.0, (None, 0.0))


def test_responses_without_ids__belong_to_calls_by_name_and_order() -> None:
    data = IntermediateData.model_validate(
        {
            "tool_uses": [{"name": "f", "args": {"n": 1}}, {"name": "g", "args": {}}, {"name": "f", "args": {"n": 2}}],
            "tool_responses": [
                {"name": "f", "response": {"r": 1}},
                {"name": "f", "response": {"r": 2}},
            ],
        }
    )
    model = always(verdicts("yes"))

    scored(judged(TOOLS, model, samples=1, rubrics=[rubric("a")]), conversation([turn(intermediate_data=data)]))

    block = model.requests[0].prompt.split("to be checked:\n")[1].split("\n", 1)[1].split("\n</data")[0]
    responses = [step["tool_response"] for step in json.loads(block)["tool_calls_and_response"]]
    assert responses == [{"name": "f", "response": {"r": 1}}, "None", {"name": "f", "response": {"r": 2}}]


# --- hallucinations_v1 ------------------------------------------------------------------------------------------------


def sentence_judge(labels: dict[str, str | None], cuts: dict[str, list[str]] | None = None) -> ScriptedModel:
    """Splits at full stops by default, and labels by the words of a sentence."""

    def script(request: ModelRequest) -> Any:
        if request.prompt.endswith("List its sentences."):
            text = request.prompt.split("The text:\n")[1].split("\n", 1)[1].rsplit("\n</data", 1)[0]
            cut = [f"{part.strip()}." for part in text.split(".") if part.strip()]
            return {"sentences": (cuts or {}).get(text, cut)}
        block = request.prompt.split("The sentences to check:\n")[1].split("\n", 1)[1].rsplit("\n</data", 1)[0]
        entries = []
        for sentence in json.loads(block):
            label = next((label for part, label in labels.items() if part in sentence["sentence"]), "supported")
            if label is not None:
                entries.append({"number": sentence["number"], "rationale": "so", "label": label})
        return {"sentences": entries}

    return ScriptedModel(script=script)


def test_hallucinations__means_of_texts_then_of_turns() -> None:
    model = sentence_judge({"Bad": "unsupported"})
    first = turn(answer="Bad. Good.", intermediate_data=events(texts("Fine. Fine.")))
    spelling: dict[str, Any] = {"evaluateIntermediateNlResponses": True}

    assert scored(judged(HALLUCINATIONS, model, **spelling), conversation([first, turn(answer="Good.")])).score == 0.875
    result = scored(judged(HALLUCINATIONS, model, threshold=1.0), conversation([first, turn(answer="Good.")]))
    assert (result.score, [finding.turn for finding in result.findings]) == (0.75, [0])
    silent = turn(answer=None)
    assert scored(judged(HALLUCINATIONS, model), conversation([first, silent])).turn_scores == (0.5, None)
    assert refused(judged(HALLUCINATIONS, model), conversation([silent])).code == "nothing-to-judge"


def test_hallucinations__context_of_each_step() -> None:
    model = sentence_judge({})
    turns = [
        turn("earlier question", "Earlier answer.", intermediate_data=events(RESULT)),
        turn(
            "now",
            "Final.",
            intermediate_data=events(texts("Before."), CALL, RESULT, texts("After.")),
            app_details=DETAILS,
        ),
    ]

    scored(judged(HALLUCINATIONS, model, evaluate_intermediate_nl_responses=True), conversation(turns))

    def context(sentence: str) -> str:
        prompts = [
            r.prompt for r in model.requests if "The sentences to check" in r.prompt and f'"{sentence}"' in r.prompt
        ]
        assert len(prompts) == 1
        return prompts[0].split("The sentences to check")[0]

    assert all(
        text in context("Final.") for text in ("earlier question", "Earlier answer.", "Sell lamps.", "now", "42")
    )
    this_turn = context("Before.").split("what happened in this turn")[1]
    assert "42" not in this_turn
    assert all(text in context("After.").split("what happened in this turn")[1] for text in ("42", '"q": "lamp"'))
    assert "After." not in context("After.")


def test_hallucinations__sentence_missing_from_the_split_is_checked() -> None:
    model = sentence_judge({"lie": "unsupported"}, {"True. A lie. True too.": ["True.", "True too.", "Made up."]})

    result = scored(judged(HALLUCINATIONS, model), conversation([turn(answer="True. A lie. True too.")]))

    assert [(judgement.subject, judgement.score) for judgement in result.judgements] == [
        ("True.", 1.0),
        ("A lie.", 0.0),
        ("True too.", 1.0),
    ]


def test_hallucinations__unlabelled_sentence_is_asked_again_and_never_passes() -> None:
    model = sentence_judge({"odd": None})

    result = refused(judged(HALLUCINATIONS, model, threshold=0.9), conversation([turn(answer="Fine. So odd.")]))

    assert result.code == "no-verdict"
    assert len(model.requests) == 3
    assert '"sentence": "Fine."' not in model.requests[-1].prompt


# --- per_turn_user_simulator_quality_v1 -------------------------------------------------------------------------------


def scenario(persona: Any) -> ConversationScenario:
    form = {"starting_prompt": " hello ", "conversation_plan": "buy a lamp", "user_persona": persona}
    return ConversationScenario.model_validate(form)


def simulated(model: ScriptedModel, turns: list[Invocation], persona: Any = None, **options: Any) -> Scored:
    return scored(judged(SIMULATOR, model, **options), conversation(turns, conversation_scenario=scenario(persona)))


def by_message(verdicts_: dict[str, str]) -> ScriptedModel:
    def script(request: ModelRequest) -> Any:
        message = request.prompt.split("next message, to be checked:\n")[1].split("\n")[1]
        return verdict(verdicts_[message])

    return ScriptedModel(script=script)


@pytest.mark.parametrize(
    ("first", "third", "stop", "scores"),
    [
        ("hello", "invalid", "valid", (1.0, 1.0, 0.0)),
        ("hello", "valid", "invalid", (1.0, 1.0, 0.0)),
        ("hi", "valid", "valid", (0.0, 1.0, 1.0)),  # The first message is compared, not judged.
    ],
)
def test_simulator__counts_turns_and_the_ending(first: str, third: str, stop: str, scores: tuple[float, ...]) -> None:
    model = by_message({"two": "valid", "three": third, "</finished>": stop})

    result = simulated(model, [turn(first), turn("two"), turn("three")], threshold=1.0)

    assert (result.score, result.turn_scores) == (2 / 3, scores)
    assert [(finding.turn, len(finding.why)) for finding in result.findings] == [(scores.index(0.0), 1)]


@pytest.mark.parametrize("persona", [None, *PERSONA_IDS])
def test_simulator__shows_plan_history_and_persona(persona: str | None) -> None:
    model = by_message({"two": "valid", "</finished>": "valid"})

    simulated(model, [turn("hello", "what?"), turn("two", None)], persona=persona)

    prompts = {request.prompt for request in model.requests}
    assert len(prompts) == 2
    assert all("buy a lamp" in prompt and "user: hello\n\nmodel: what?" in prompt for prompt in prompts)
    if persona:
        assert all(PERSONAS[persona].behaviors[0].violation_rubrics[0] in prompt for prompt in prompts)


def test_simulator__violations_are_templates() -> None:
    def persona(violation: str) -> dict[str, Any]:
        behavior = {"name": "n", "description": "d", "behavior_instructions": [], "violation_rubrics": [violation]}
        return {"id": "p", "description": "{{ d }}", "behaviors": [behavior]}

    model = by_message({"@end@": "valid"})
    simulated(model, [turn("hello")], persona=persona("No {{ stop_signal }}!"), stop_signal="@end@")
    assert all("No @end@!" in request.prompt and "{{ d }}" in request.prompt for request in model.requests)

    failing = conversation([turn("hello")], conversation_scenario=scenario(persona("{{ 1 / 0 }}")))
    assert refused(judged(SIMULATOR, model), failing).code == "persona-template-failed"


# --- Vertex AI's five -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", JUDGE_SPECS)
def test_vertex_metrics__scale_and_backend(metric: str) -> None:
    spec = JUDGE_SPECS[metric]
    for word, value in spec.scale.items():
        model = always(verdict(word))
        result = scored(judged(metric, model, samples=3, threshold=spec.span[1]), conversation([turn(), turn()]))

        assert result.score == value
        assert result.details["backend"] == "judge"
        assert result.details["judge"]["model"] == "input-model"
        assert len(model.requests) == (2 if spec.conversation else 4)
        assert bool(result.findings) == (value < spec.span[1])
        for request in model.requests:
            assert request.schema is not None
            assert request.schema["properties"]["verdict"]["enum"] == list(spec.scale)


def test_vertex_metrics__finding_lists_the_passing_verdicts() -> None:
    result = scored(judged("response_evaluation_score", always(verdict("2")), threshold=4), conversation([turn()]))

    assert [finding.expected for finding in result.findings] == ["5 or 4"]


def test_vertex_metrics__stay_in_the_range_of_the_metric() -> None:
    for metric, spec in JUDGE_SPECS.items():
        assert spec.span == (METRICS[metric].low, METRICS[metric].high)


def test_an_answer_without_text__is_still_judged() -> None:
    model = always(verdict("unsafe"))
    mute = Invocation(user_content=Content(role="user"), final_response=model_message(""))

    assert scored(judged("safety_v1", model), conversation([mute])).score == 0.0
    assert "(no text)" in model.requests[0].prompt


def test_answer_rubrics__unknown_tool_calls_are_not_called_absent() -> None:
    model = always(verdicts("yes"))
    criterion_ = judged(ANSWER, model, samples=1, rubrics=[rubric("polite").model_dump()])
    shown = conversation([turn("Hi", "Hello")])

    score(criterion_, shown)
    score(criterion_, replace(shown, calls_visible=False))

    first, second = (request.prompt for request in model.requests)
    assert "No intermediate steps were taken." in first
    assert "No intermediate steps were taken." not in second
    assert "does not show its tool calls" in second


@pytest.mark.parametrize("metric", [name for name in JUDGED_METRICS if name.startswith(("rubric", "multi_turn"))])
def test_question__unknown_instructions_and_tools_are_not_called_none(metric: str) -> None:
    asked = []
    for details in (None, AppDetails()):
        model = ScriptedModel(script=lambda _: failure("malformed"))
        actual = turn("hello", "We close at six.", app_details=details)
        criterion_ = judged(metric, model, samples=1, **rubrics_of(metric))
        score(criterion_, conversation([actual], [turn("hello", "Until six.")]))
        asked.append(model.requests[0].prompt)
    unknown, expected = ("Not known" in prompt for prompt in asked)
    assert unknown and not expected
