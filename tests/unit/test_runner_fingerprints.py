"""What makes two scores comparable, and what doesn't."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from judged_samples import ScriptedModel, conversation, failure, judged, rubric, score, turn

from agent_eval.criteria.judged.judge import QUESTIONS_VERSION
from agent_eval.evalset.models import JUDGED_METRICS
from agent_eval.evalset.models.criteria import CRITERION_MODELS
from agent_eval.evalset.models.schema import ConversationScenario, EvalCase
from agent_eval.evalset.parse.criteria import criterion
from agent_eval.runner.fingerprints import MetricIdentity, case_fingerprint, metric_identity

MATCH = "final_response_match_v2"
SCENARIO = ConversationScenario(starting_prompt="hi", conversation_plan="ask for a lamp")


def case(**changes: Any) -> EvalCase:
    return EvalCase(**{"eval_id": "a", "conversation": [turn("where?", "here")], **changes})


def identity(metric: str, default_model: str = "some-judge", **options: Any) -> MetricIdentity:
    form = {"threshold": 0.5, **options}
    return metric_identity(criterion(metric, CRITERION_MODELS[metric].model_validate(form)), default_model)


def test_fingerprints__a_case_is_known_by_what_it_asks_and_expects() -> None:
    same = case_fingerprint(case(), None)

    assert case_fingerprint(case(eval_id="b", creation_timestamp=7.0), None) == same
    assert case_fingerprint(case(conversation=[turn("where?", "here", invocation_id="i-9")]), None) == same
    others = [
        case(conversation=[turn("where?", "there")]),
        case(conversation=[turn("where", "here")]),
        case(conversation=[turn("where?", "here"), turn("where?", "here")]),
        case(rubrics=[rubric("polite")]),
        case(session_input={"app_name": "a", "user_id": "u", "state": {"room": 1}}),
    ]
    assert len({same, *(case_fingerprint(other, None) for other in others)}) == len(others) + 1


def test_case_fingerprint__measurements_do_not_count_but_arguments_of_the_same_names_do() -> None:
    def calling(args: dict[str, Any], **fields: Any) -> EvalCase:
        event = {"author": "home", "content": {"parts": [{"function_call": {"name": "set_timer", "args": args}}]}}
        event |= {"branch": fields.pop("branch", None)}
        data = {"invocation_events": [event]}
        return case(conversation=[turn("where?", "here", intermediate_data=data, **fields)])

    same = case_fingerprint(calling({"duration": 5}), None)
    spans = [{"kind": "tool", "name": "set_timer", "start": 0.1, "end": 0.2}]
    assert case_fingerprint(calling({"duration": 5}, duration=1.0, spans=spans, branch="root.home"), None) == same
    assert case_fingerprint(calling({"duration": 6}), None) != same


def test_fingerprints__how_the_user_is_simulated_counts_for_scenarios_only() -> None:
    options = {"model": "gemini-2.5-pro"}
    scenario = EvalCase(eval_id="s", conversation_scenario=SCENARIO)

    assert case_fingerprint(scenario, options) != case_fingerprint(scenario, None)
    assert case_fingerprint(case(), options) == case_fingerprint(case(), None)


def test_fingerprints__a_metric_is_known_by_its_options_not_by_its_threshold() -> None:
    trajectory = "tool_trajectory_avg_score"

    assert identity(trajectory) == identity(trajectory, threshold=0.9)
    assert identity(trajectory).judge is None
    assert identity(trajectory) != identity(trajectory, match_type="IN_ORDER")
    assert identity(trajectory).fingerprint != identity("response_match_score").fingerprint


def test_fingerprints__another_judge_makes_other_scores() -> None:
    default = identity(MATCH)

    assert default.judge == "some-judge"
    for other in (
        identity(MATCH, default_model="another"),
        identity(MATCH, judge_model_options={"judge_model": "another"}),
        identity(MATCH, judge_model_options={"num_samples": 3}),
        identity(MATCH, judge_model_options={"judge_model_config": {"temperature": 0.7}}),
    ):
        assert other.fingerprint != default.fingerprint
    named = identity(MATCH, default_model="another", judge_model_options={"judge_model": "some-judge"})
    assert named.fingerprint == default.fingerprint


def test_fingerprints__no_option_of_any_metric_lacks_a_fingerprint() -> None:
    for metric in CRITERION_MODELS:
        options: dict[str, Any] = {"tool_name": "f"} if metric == "trajectory_single_tool_use" else {}
        if metric.startswith("rubric"):
            options = {"rubrics": [rubric("a").model_dump()], "rubric_weights": {"a": 2.0}}
        assert len(identity(metric, **options).fingerprint) == 16


ASKED = {
    1: "aba253c024dff889",
    2: "9a9259303ab6b2af",
    3: "4f8d6161a373fb75",
}
"""Hash of the first question of every judged metric, by QUESTIONS_VERSION."""


def test_fingerprints__the_version_of_the_questions_rises_with_every_change_of_them() -> None:
    asked = hashlib.sha256()
    for metric in sorted(JUDGED_METRICS):
        model = ScriptedModel(script=lambda _: failure("malformed"))
        options: dict[str, Any] = {"rubrics": [rubric("kind").model_dump()]} if metric.startswith("rubric") else {}
        spoken = conversation([turn("hello", "We close at six.")], [turn("hello", "Until six.")])
        if metric == "per_turn_user_simulator_quality_v1":
            spoken = conversation([turn("hello", "We close at six."), turn("ok")], conversation_scenario=SCENARIO)
        score(judged(metric, model, samples=1, **options), spoken)
        assert model.requests, metric
        first = model.requests[0]
        asked.update(json.dumps([metric, first.system, first.prompt, first.schema], sort_keys=True).encode())

    assert asked.hexdigest()[:16] == ASKED[QUESTIONS_VERSION], (
        "A judge is asked something else than before: raise QUESTIONS_VERSION and note the new hash, so that scores of "
        "before are not compared with scores of now."
    )
