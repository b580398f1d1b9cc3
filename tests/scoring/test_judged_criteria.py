"""Each judged criterion: the material for the judge, and the score of its verdicts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from golden_files import check, check_names
from hypothesis import given
from hypothesis import strategies as st
from judged_samples import (
    ASKED_BY_US,
    ScriptedModel,
    asked,
    conversation,
    failure,
    judged,
    rubric,
    score,
    told,
    turn,
    verdict,
    verdicts,
)

from agent_eval_scoring.core.content import Content, model_message
from agent_eval_scoring.core.invocation import AppDetails, IntermediateData, Invocation, InvocationEvents
from agent_eval_scoring.criteria.base import Conversation
from agent_eval_scoring.criteria.judged._hallucinations import covering, read_sentences
from agent_eval_scoring.criteria.judged._material import RULE
from agent_eval_scoring.criteria.judged.quality import JUDGE_SPECS
from agent_eval_scoring.evalset.models.criteria import METRICS
from agent_eval_scoring.evalset.models.schema import ConversationScenario
from agent_eval_scoring.models.protocol import FailureKind, ModelRequest
from agent_eval_scoring.models.vertex_eval import JUDGED_BY_SERVICE

MATCH = "final_response_match_v2"
ANSWER = "rubric_based_final_response_quality_v1"
TOOLS = "rubric_based_tool_use_quality_v1"
TRAJECTORY = "rubric_based_multi_turn_trajectory_quality_v1"
HALLUCINATIONS = "hallucinations_v1"
SIMULATOR = "per_turn_user_simulator_quality_v1"
SCENARIO: dict[str, Any] = {
    "conversation_scenario": ConversationScenario(starting_prompt="hi", conversation_plan="Buy a lamp.")
}


TYPED: dict[str, Any] = {
    "rubrics": [rubric("typed", type_) for spec in METRICS.values() if (type_ := spec.rubric_type)]
}


def case_of(metric: str) -> dict[str, Any]:
    """The fields of a case that the metric can judge."""
    return SCENARIO if metric == SIMULATOR else TYPED


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


@pytest.mark.parametrize("metric", ASKED_BY_US)
def test_prompts_begin_alike__for_the_providers_own_cache(metric: str) -> None:
    """The task and the agent's instructions come before the parts that differ from answer to answer."""

    def prompt(answer: str) -> str:
        model = always(None)
        turns = [turn(answer=answer, app_details=DETAILS), turn(answer=answer, app_details=DETAILS)]
        score(judged(metric, model, samples=1), conversation(turns, **case_of(metric)))
        return model.requests[0].prompt

    first, second = prompt("It is red."), prompt("Blue.")
    differs = next((at for at, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), len(first))
    common = first[:differs]

    assert RULE in common
    for text in ("Sell lamps.", "Buy a lamp."):
        assert (text in common) == (text in first)


@pytest.mark.parametrize(
    ("metric", "options"),
    [*((metric, {}) for metric in ASKED_BY_US), *((metric, {"backend": "vertex"}) for metric in JUDGED_BY_SERVICE)],
)
def test_prompts__are_equal_if_only_ids_differ(metric: str, options: dict[str, Any]) -> None:
    """Ids are drawn anew in each run: else no cache and no tape would ever answer."""

    def prompts(drawn: str) -> list[str]:
        model = always({"score": 1, "explanation": "", "rubrics": []} if options else None)
        shown = json.loads(json.dumps([CALL, CALL, RESULT]).replace('"1"', f'"{drawn}"'))
        actual = [turn(intermediate_data=events(*shown), invocation_id=drawn)]
        score(judged(metric, model, samples=1, **options), conversation(actual, **case_of(metric)))
        return [request.prompt for request in model.requests]

    assert prompts("adk-1") == prompts("adk-2") != []


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


def scenario(persona: Any) -> ConversationScenario:
    form = {"starting_prompt": " hello ", "conversation_plan": "buy a lamp", "user_persona": persona}
    return ConversationScenario.model_validate(form)


def by_message(verdicts_: dict[str, str]) -> ScriptedModel:
    def script(request: ModelRequest) -> Any:
        message = request.prompt.split("next message, to be checked:\n")[1].split("\n")[1]
        return verdict(verdicts_[message])

    return ScriptedModel(script=script)


def violated(violation: str) -> dict[str, Any]:
    behavior = {"name": "n", "description": "d", "behavior_instructions": [], "violation_rubrics": [violation]}
    return {"id": "p", "description": "{{ d }}", "behaviors": [behavior]}


def simulated(*turns: Invocation, persona: Any = None) -> Conversation:
    return conversation(turns, conversation_scenario=scenario(persona))


VALID = verdict("valid") | verdicts("yes") | {"sentences": []}
GROUNDED = texts("let me see", grounding_metadata={"web": "a page", "nothing": None})
RICH = (
    turn("typed", "the answer", intermediate_data=events(GROUNDED, CALL, RESULT), app_details=DETAILS),
    turn("more", "bye", app_details=DETAILS),
)
EXPECTED = (turn("asked", "the reference"), turn("asked again", "bye"))
OLD = {"intermediate_responses": [["bot", [{"text": "was expected"}]]]}
WITHOUT_IDS = {
    "tool_uses": [{"name": "f", "args": {"n": 1}}, {"name": "g", "args": {}}, {"name": "f", "args": {"n": 2}}],
    "tool_responses": [{"name": "f", "response": {"r": 1}}, {"name": "f", "response": {"r": 2}}],
}
MUTE = Invocation(user_content=Content(role="user"), final_response=model_message(""))
HIDDEN = replace(conversation([turn("Hi", "Hello")]), calls_visible=False)
STEPS = turn(
    "now", "Final.", intermediate_data=events(texts("Before."), CALL, RESULT, texts("After.")), app_details=DETAILS
)
EARLIER = turn("earlier question", "Earlier answer.", intermediate_data=events(RESULT))


def rich(metric: str) -> Conversation:
    return simulated(*RICH, persona="EXPERT") if metric == SIMULATOR else conversation(RICH, EXPECTED, **TYPED)


QUESTIONS: dict[str, tuple[str, Conversation, dict[str, Any]]] = {
    **{f"{metric}: two turns": (metric, rich(metric), {}) for metric in ASKED_BY_US},
    **{
        f"{metric}: little is known": (metric, conversation([turn("hello", "We close at six.")]), rubrics_of(metric))
        for metric in ASKED_BY_US
        if metric.startswith(("rubric", "multi_turn"))
    },
    **{
        f"{metric}: no instructions and tools": (
            metric,
            conversation([turn("hello", "We close at six.", app_details=AppDetails())]),
            rubrics_of(metric),
        )
        for metric in ASKED_BY_US
        if metric.startswith(("rubric", "multi_turn"))
    },
    f"{ANSWER}: calls can't be seen": (ANSWER, HIDDEN, rubrics_of(ANSWER)),
    f"{MATCH}: with the texts before the answers": (
        MATCH,
        conversation(
            [turn(answer="end", intermediate_data=events(texts("first", "second"), CALL))],
            [turn(answer="reference", intermediate_data=IntermediateData.model_validate(OLD))],
        ),
        {"include_intermediate_responses_in_final": True},
    ),
    f"{TOOLS}: responses without ids": (
        TOOLS,
        conversation([turn(intermediate_data=IntermediateData.model_validate(WITHOUT_IDS))]),
        rubrics_of(TOOLS),
    ),
    "safety_v1: no text": ("safety_v1", conversation([MUTE]), {}),
    f"{HALLUCINATIONS}: what is known at each step": (
        HALLUCINATIONS,
        conversation([EARLIER, STEPS]),
        {"evaluate_intermediate_nl_responses": True},
    ),
    f"{SIMULATOR}: a persona's template": (
        SIMULATOR,
        simulated(turn("hello"), persona=violated("No {{ stop_signal }}!")),
        {"stop_signal": "@end@"},
    ),
}


def test_questions__of_each_metric() -> None:
    pages: dict[str, str] = {}
    for name, (metric, shown, options) in QUESTIONS.items():
        model = sentence_judge({}) if metric == HALLUCINATIONS else always(VALID)
        score(judged(metric, model, samples=1, threshold=METRICS[metric].low, **options), shown)
        pages[f"{metric}.txt"] = pages.get(f"{metric}.txt", "") + f"== {name}\n{asked(model)}\n"
    for page, text in pages.items():
        check(f"golden_judge_questions/{page}", text)
    check_names("golden_judge_questions", pages)


def by_content(word: str, without: str, *, of: str) -> ScriptedModel:
    """One verdict of prompts with a text, another one of the others."""
    return ScriptedModel(script=lambda request: verdict(word if of in request.prompt else without, "a\nb"))


TWO_RUBRICS = ScriptedModel(script=lambda request: verdicts(*["yes", "no"][: request.prompt.count('"number": ')]))
BAD_AND_GOOD = turn(answer="Bad. Good.", intermediate_data=events(texts("Fine. Fine.")))
HALF_BAD = conversation([BAD_AND_GOOD, turn(answer="Good.")])
BAD: dict[str, str | None] = {"Bad": "unsupported"}
CUT = {"True. A lie. True too.": ["True.", "True too.", "Made up."]}
TWO_TURNS = conversation([turn(), turn()])
FAILING = simulated(turn("hello"), persona=violated("{{ 1 / 0 }}"))
NO_TURNS = (ANSWER, TOOLS, TRAJECTORY, HALLUCINATIONS, "safety_v1", "multi_turn_task_success_v1")
OUTCOMES: dict[str, tuple[str, ScriptedModel, Conversation, dict[str, Any]]] = {
    "a scenario, and a metric that needs references": (MATCH, always(None), conversation([turn()], **SCENARIO), {}),
    "fewer turns than expected": (MATCH, always(None), conversation([turn()], [turn(), turn()]), {}),
    "no scenario": (SIMULATOR, always(None), conversation([turn()]), {}),
    "a scenario without turns": (SIMULATOR, always(None), conversation([], **SCENARIO), {}),
    **{f"{metric}: no turns": (metric, always(None), conversation([]), {}) for metric in NO_TURNS},
    "one of two answers is wrong": (
        MATCH,
        by_content("invalid", "valid", of="wrong"),
        conversation([turn(), turn(answer="wrong")], [turn(), turn(answer="right")]),
        {"threshold": 1.0, "samples": 5},
    ),
    "rubrics of their type are averaged over all verdicts, not over turns": (
        ANSWER,
        TWO_RUBRICS,
        conversation(
            [turn(), turn()],
            [turn(), turn(rubrics=[rubric("b", "FINAL_RESPONSE_QUALITY")])],
            rubrics=[rubric("untyped"), rubric("other", "OTHER")],
        ),
        {"rubrics": [rubric("a")], "threshold": 0.9},
    ),
    "no rubrics": (ANSWER, always(None), conversation([turn()]), {}),
    "a rubric twice": (
        ANSWER,
        always(None),
        conversation([turn()], rubrics=[rubric("a", "FINAL_RESPONSE_QUALITY")]),
        {"rubrics": [rubric("a")]},
    ),
    "a dialogue": (TRAJECTORY, always(verdicts("no")), conversation(RICH), {"rubrics": [rubric("a")]}),
    "all texts": (HALLUCINATIONS, sentence_judge(BAD), HALF_BAD, {"evaluateIntermediateNlResponses": True}),
    "answers": (HALLUCINATIONS, sentence_judge(BAD), HALF_BAD, {"threshold": 1.0}),
    "a turn without a text": (HALLUCINATIONS, sentence_judge(BAD), conversation([BAD_AND_GOOD, turn(answer=None)]), {}),
    "no text": (HALLUCINATIONS, always(None), conversation([turn(answer=None)]), {}),
    "a sentence that is missing from the split, and one that is not there": (
        HALLUCINATIONS,
        sentence_judge({"lie": "unsupported"}, CUT),
        conversation([turn(answer="True. A lie. True too.")]),
        {},
    ),
    "a sentence without a label": (
        HALLUCINATIONS,
        sentence_judge({"odd": None}),
        conversation([turn(answer="Fine. So odd.")]),
        {"threshold": 0.9},
    ),
    **{
        f"a simulated user: {first}, {third}, {stop}": (
            SIMULATOR,
            by_message({"two": "valid", "three": third, "</finished>": stop}),
            simulated(turn(first), turn("two"), turn("three")),
            {"threshold": 1.0},
        )
        for first, third, stop in (
            ("hello", "invalid", "valid"),
            ("hello", "valid", "invalid"),
            ("hi", "valid", "valid"),  # The first message is compared, not judged.
        )
    },
    "a persona's template that fails": (SIMULATOR, always(None), FAILING, {}),
    **{
        f"{metric}: {word}": (
            metric,
            always(verdict(word)),
            conversation([turn(), turn()]),
            {"threshold": spec.span[1]},
        )
        for metric, spec in JUDGE_SPECS.items()
        for word in spec.scale
    },
    "two verdicts pass": ("response_evaluation_score", always(verdict("2")), conversation([turn()]), {"threshold": 4}),
}


def test_outcomes__of_each_metric() -> None:
    text = ""
    for name, (metric, model, shown, options) in OUTCOMES.items():
        result = score(judged(metric, model, **{"samples": 1, **options}), shown)
        words = {str((request.schema or {}).get("properties", {}).get("verdict")) for request in model.requests}
        text += f"== {name}, by {len(model.requests)} requests for {sorted(words)}\n{told(result)}\n"
    check("golden_judge_outcomes.txt", text)


def test_vertex_metrics__are_those_of_the_service_in_the_range_of_the_metric() -> None:
    assert set(JUDGED_BY_SERVICE) == set(JUDGE_SPECS)
    for metric, spec in JUDGE_SPECS.items():
        assert spec.span == (METRICS[metric].low, METRICS[metric].high)


# Sentences: no part of the text is lost, and nothing is added.


@pytest.mark.parametrize(
    ("text", "sentences", "expected"),
    [
        ("One. Two.", ["One.", "Two."], ["One.", "Two."]),
        ("One.  Two\nthree.", ["One.", "Two three."], ["One.", "Two three."]),
        ("One. Two. Three.", ["One.", "Three."], ["One.", "Two.", "Three."]),
        ("One. Two.", [], ["One. Two."]),
        ("One.", ["One.", "Invented."], ["One."]),
        ("One. Two.", ["Two.", "One."], ["One.", "Two."]),  # out of order: the second does not occur after the first
        ("Ja. Ja. Nein.", ["Ja.", "Ja.", "Nein."], ["Ja.", "Ja.", "Nein."]),
        ("今天很好。订单已发货！", ["今天很好。"], ["今天很好。", "订单已发货！"]),
        ("- one\n- two\n", ["one", "two"], ["one", "two"]),
        ("😀", ["", "  "], []),
        ("", ["x"], []),
    ],
)
def test_judged_sentences__covering(text: str, sentences: list[str], expected: list[str]) -> None:
    assert covering(text, sentences) == expected


@given(st.text(max_size=40), st.lists(st.text(max_size=8), max_size=5))
def test_every_letter_of_the_text_is_in_a_sentence__once_and_in_order(text: str, sentences: list[str]) -> None:
    covered = covering(text, sentences)

    assert "".join(c for c in "".join(covered) if c.isalnum()) == "".join(c for c in text if c.isalnum())


@pytest.mark.parametrize("value", [None, [], "x", {}, {"sentences": "x"}, {"sentences": [1, None]}])
def test_a_reply_of_another_form__has_no_sentences(value: object) -> None:
    assert read_sentences(value) == []


# The metrics that Vertex AI's evaluation service judges: the score of its verdicts.


SUCCESS, COHERENCE = "multi_turn_task_success_v1", "response_evaluation_score"


def opinion(score: float, why: str = "because", **rubrics: bool) -> dict[str, Any]:
    listed = [{"rubric": name, "met": met, "reasoning": f"about {name}"} for name, met in rubrics.items()]
    return {"score": score, "explanation": why, "rubrics": listed}


def by_answer(**scores: Any) -> ScriptedModel:
    """Scores by the text of the answer."""
    return ScriptedModel(script=lambda request: scores[_answer(request)])


def _answer(request: ModelRequest) -> str:
    said: str = json.loads(request.prompt)["instance"]["response"]["contents"]["contents"][0]["parts"][0]["text"]
    return said


TALK: dict[str, Any] = {"conversation_scenario": ConversationScenario(starting_prompt="hello", conversation_plan="p")}
ALL = by_answer(good=opinion(5.0), fair=opinion(3.0), bad=opinion(1.0, "it jumps about"))
HALF = opinion(0.5, "half of it", books=True, pays=False)
GOOD_AND_LOST = conversation([turn(answer="good"), turn(answer="lost")])
LOST: tuple[FailureKind, ...] = ("unavailable", "malformed", "budget")
OF_THE_SERVICE: dict[str, tuple[str, ScriptedModel, Conversation, float]] = {
    "answers": (COHERENCE, ALL, conversation([turn("hi", text) for text in ("good", "fair", "bad")]), 3.5),
    "a conversation and its rubrics": (SUCCESS, always(HALF), conversation([turn(), turn()]), 0.7),
    "a scenario has no reference": ("safety_v1", always(opinion(1.0)), conversation([turn()], **TALK), 0.5),
    "a scenario, and a metric that demands one": (COHERENCE, always(None), conversation([turn()], **TALK), 3),
    **{
        f"an answer is lost: {kind}, {threshold}": (
            "safety_v1",
            by_answer(good=opinion(1.0), lost=failure(kind)),
            GOOD_AND_LOST,
            threshold,
        )
        for kind in LOST
        for threshold in (1.0, 0.5)
    },
    **{f"the score {score}": (COHERENCE, always(opinion(score)), conversation([turn()]), 3) for score in (0.0, 7.0)},
}


def test_vertex_metrics__outcomes() -> None:
    """What the service is asked, and what its verdicts amount to."""
    text = ""
    for name, (metric, model, shown, threshold) in OF_THE_SERVICE.items():
        result = score(judged(metric, model, backend="vertex", threshold=threshold), shown)
        assert {(request.model, request.purpose) for request in model.requests} <= {("vertex-eval", metric)}
        question = asked(model)
        text += f"== {name}\n{question if question not in text else ''}{told(result)}\n"
    check("golden_judge_vertex.txt", text)
