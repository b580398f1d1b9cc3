"""What makes two scores comparable, and cases.jsonl.gz: stored lines, of which some are damaged."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from judged_samples import ScriptedModel, conversation, failure, judged, rubric, score, turn
from runner_doubles import planned as planned_case

from agent_eval.core.invocation import Invocation, adk_value
from agent_eval.criteria.judged.judge import QUESTIONS_VERSION
from agent_eval.evalset.models import JUDGED_METRICS, ConversationScenario, EvalCase
from agent_eval.evalset.models.criteria import CRITERION_MODELS
from agent_eval.evalset.parse.criteria import criterion
from agent_eval.results import Recording
from agent_eval.runner import StoredCase, StoredLines, case_lines, stored_index
from agent_eval.runner.fingerprints import MetricIdentity, case_fingerprint, metric_identity
from agent_eval.runner.journal import write_lines
from agent_eval.runner.plan import PlannedCase

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
    scenario, options = EvalCase(eval_id="s", conversation_scenario=SCENARIO), {"model": "gemini-2.5-pro"}
    assert case_fingerprint(scenario, options) != case_fingerprint(scenario, None), "how the user is simulated"
    assert case_fingerprint(case(), options) == same


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


def planned(case: EvalCase, user_config: Mapping[str, object] | None = None) -> PlannedCase:
    content = case_fingerprint(case, user_config)
    return replace(planned_case(case.eval_id), case=case, user_config=user_config, content=content)


def test_case_lines__a_case_is_read_back_as_it_was_run(tmp_path: Path) -> None:
    lamp = EvalCase(eval_id="lamp", conversation=[turn("where?", "here\u2028\U0001f4a1")])
    guest = EvalCase(eval_id="guest", conversation_scenario=SCENARIO)
    path = tmp_path / "cases.jsonl.gz"
    simulated = {"model": "gemini-2.5-pro"}
    write_lines(path, case_lines([planned(lamp, simulated), planned(guest, simulated)]))

    stored = list(StoredLines(path=path, model=StoredCase))
    assert [line.case for line in stored] == [lamp, guest]
    assert [line.case_id for line in stored] == ["a.test.json:lamp", "a.test.json:guest"]
    assert [line.user_simulator_config for line in stored] == [None, simulated]
    assert [line.fingerprint for line in stored] == [
        case_fingerprint(line.case, line.user_simulator_config) for line in stored
    ]


def test_stored_lines__damaged_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    good = b'{"run_id":"a:b#1","case_id":"a:b","file":"a","eval_set_id":"s","eval_id":"b","run":0,"fingerprint":"f",'
    good += b'"started_at":0,"duration":1}\n'
    path = tmp_path / "recordings.jsonl.gz"
    lines = StoredLines(path=path, model=Recording)
    assert list(lines) == []
    assert lines.skipped == 0

    path.write_bytes(gzip.compress(good + b"no json\n" + b'{"run_id": 1}\n' + good))
    assert [recording.run_id for recording in lines] == ["a:b#1", "a:b#1"]
    assert lines.skipped == 2

    path.write_bytes(gzip.compress(good * 1000)[:-9])
    assert 0 < len(list(lines)) <= 1000
    assert lines.skipped == 1


def test_stored_index__finds_lines_by_case_whatever_the_id(tmp_path: Path) -> None:
    ids = [
        "plain",
        'with "quotes"',
        "back\\slash",
        "line\nbreak",
        "日本語 \U0001f4a1",
        "\u2028",
        "",
        '","case_id":"other',
    ]
    cases = [planned(EvalCase(eval_id=name, conversation=[turn(name or "?", "here")])) for name in ids]
    path = tmp_path / "cases.jsonl.gz"
    by_hand = json.dumps(
        {"case_id": "by hand", "file": "a", "eval_set_id": "s", "fingerprint": "f", "case": {}}
    ).encode()
    cut = next(case_lines(cases[:1]))[:-20] + b"\n"
    strange = b'{"schema_version":"1","case_id":"not UTF-8 \xff"}\n'
    write_lines(path, [*case_lines(cases), by_hand + b"\n", b"no json\n", cut, strange])

    with stored_index(path, StoredCase) as index:
        assert index.skipped == 2  # The line that was cut off is found when it is needed.
        for case in cases:
            assert [line.case for line in index.of(case.case_id)] == [case.case]
        assert index.skipped == 3
        assert index.strangers(case.case_id for case in cases) == 1
        assert list(index.of("by hand")) == []
        assert index.skipped == 4


def test_adk_value__has_nothing_that_only_we_record() -> None:
    recorded = Invocation.model_validate(
        {
            "user_content": {"parts": [{"text": "hi"}]},
            "intermediate_data": {"invocation_events": [{"author": "home", "branch": "root.home"}]},
            "spans": [{"kind": "model", "agent": "home", "name": "m", "start": 0, "end": 1}],
        }
    )
    assert adk_value(recorded) == {
        "invocation_id": "",
        "user_content": {"parts": [{"text": "hi"}]},
        "intermediate_data": {"invocation_events": [{"author": "home"}]},
        "creation_timestamp": 0.0,
    }
