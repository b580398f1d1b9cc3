"""What is planned of loaded files, what it will cost, and what makes two scores comparable."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import loaded
from hypothesis import given
from hypothesis import strategies as st
from judged_samples import ScriptedModel, conversation, failure, judged, rubric, score
from judged_samples import turn as judged_turn
from report_samples import case as report_case
from report_samples import report
from runner_doubles import planned as planned_case
from runner_doubles import session_input, turn

from agent_eval.core.invocation import Invocation, adk_value
from agent_eval.core.problem import Severity
from agent_eval.criteria.custom import CustomMetric
from agent_eval.criteria.judged.building import judge_calls
from agent_eval.criteria.judged.judge import QUESTIONS_VERSION, Judge
from agent_eval.criteria.registry import INFORMATIONAL
from agent_eval.evalset.models import JUDGED_METRICS
from agent_eval.evalset.models.criteria import CRITERION_MODELS
from agent_eval.evalset.models.schema import ConversationScenario, CriterionConfig, EvalCase, LoadedFile
from agent_eval.evalset.parse.criteria import criterion
from agent_eval.models.usage import Price
from agent_eval.results import Recording, RunResult
from agent_eval.runner import (
    Part,
    RecordedSeconds,
    StoredCase,
    StoredLines,
    case_lines,
    parse_part,
    partition,
    recorded_seconds,
    split_hash,
    stored_index,
    weigh,
)
from agent_eval.runner.cost_estimate import CriterionEstimate, Estimate, FileEstimate, Range, estimate
from agent_eval.runner.fingerprints import MetricIdentity, case_fingerprint, function_source, metric_identity
from agent_eval.runner.journal import write_lines
from agent_eval.runner.partition import Unit
from agent_eval.runner.plan import Plan, PlannedCase, make_plan, source_fingerprint

# What is planned of loaded files, and when a recorded run still stands for a new one.


RESPONSE = CriterionConfig(metric="response_match_score", threshold=0.8)


def case(eval_id: str = "one", message: str = "hello", **facts: Any) -> EvalCase:
    return EvalCase(eval_id=eval_id, conversation=[turn(message)], **facts)


def plan(*files: LoadedFile, source: str = "s", num_runs: int = 1) -> Plan:
    return make_plan(files, {file.path: "agent" for file in files}, {"agent": source}, num_runs)


def test_plan__every_selected_case_in_order() -> None:
    files = (("b.test.json", "xy"), ("a.test.json", "x"))
    two = [loaded(path, *map(case, names), criteria=(RESPONSE,)) for path, names in files]
    result = plan(*two, num_runs=2)
    assert [planned.case_id for planned in result.cases] == ["b.test.json:x", "b.test.json:y", "a.test.json:x"]
    assert [planned.run_id(run) for planned, run in result.runs()][:3] == [
        "b.test.json:x#1",
        "b.test.json:x#2",
        "b.test.json:y#1",
    ]
    assert result.cases[1].line == 4
    assert [criterion.name for criterion in result.cases[0].criteria] == [
        "response_match_score",
        *(criterion.name for criterion in INFORMATIONAL),
    ]
    assert result.problems == ()


def test_make_plan__a_rubric_metric_judges_only_the_cases_that_have_rubrics() -> None:
    rubrics = CriterionConfig(metric="rubric_based_tool_use_quality_v1", threshold=0.8)
    own = {"rubric_id": "r", "rubric_content": {"text_property": "It asks."}, "type": "TOOL_USE_QUALITY"}
    judged = EvalCase.model_validate({**case("judged").model_dump(), "rubrics": [own]})
    file = loaded("a.test.json", judged, case("bare"), criteria=(RESPONSE, rubrics))
    result = make_plan(
        [file],
        {file.path: "agent"},
        {"agent": "s"},
        1,
        judge=Judge(model=ScriptedModel(script=lambda _: failure("malformed"))),
    )
    names = [{criterion.name for criterion in planned.criteria} for planned in result.cases]
    assert ["rubric_based_tool_use_quality_v1" in each for each in names] == [True, False]
    assert all("response_match_score" in each for each in names)


def test_plan__what_cannot_be_run_is_refused_and_not_left_out() -> None:
    scenario = EvalCase(
        eval_id="sim", conversation_scenario=ConversationScenario(starting_prompt="hi", conversation_plan="buy")
    )
    judge = CriterionConfig(metric="safety_v1", threshold=0.8)
    result = plan(
        loaded("a.test.json", case(), criteria=(RESPONSE, judge)),
        loaded(
            "b.test.json", case("fine"), scenario, criteria=(RESPONSE,), user_simulator_config={"type": "llm_audio"}
        ),
    )
    assert [
        (problem.code, problem.file, problem.line) for problem in result.problems if problem.severity is Severity.ERROR
    ] == [
        ("metric-unsupported", "test_config.json", None),
        ("scenario-unsupported", "b.test.json", 4),
    ]
    assert all(problem.hint for problem in result.problems)
    assert make_plan([loaded("a.test.json", case())], {}, {}, 1).cases == (), "a file without an agent"


def test_plan__a_scenario_is_planned_and_its_plan_decides_what_a_resumed_run_may_reuse() -> None:
    def scenario(wish: str) -> EvalCase:
        return EvalCase(
            eval_id="sim", conversation_scenario=ConversationScenario(starting_prompt="hi", conversation_plan=wish)
        )

    buy, sell, other = (
        plan(loaded("a.test.json", scenario(wish), criteria=(), user_simulator_config=config)).cases[0]
        for wish, config in (("buy", None), ("sell", None), ("buy", {"model": "another"}))
    )
    assert len({buy.fingerprint, sell.fingerprint, other.fingerprint}) == 3
    assert other.user_config == {"model": "another"}


def fingerprint(of: EvalCase, source: str = "s") -> str:
    return plan(loaded("a.test.json", of), source=source).cases[0].fingerprint


@pytest.mark.parametrize(
    "other",
    [
        case(message="hello again"),
        case(session_input=session_input()),
        case(session_input=session_input(state={"room": "kitchen"})),
        EvalCase(eval_id="one", conversation=[turn("hello"), turn("hello")]),
    ],
)
def test_plan__a_fingerprint_changes_with_what_the_agent_gets(other: EvalCase) -> None:
    assert fingerprint(other) != fingerprint(case())
    assert fingerprint(case()) != fingerprint(case(), source="changed")
    expected = EvalCase(eval_id="one", conversation=[turn("hello", "another answer")])
    assert fingerprint(case()) == fingerprint(expected), "what is only expected does not count"


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "agent.py").write_text("root_agent = 1", encoding="utf-8")
    (tmp_path / "tools" / "lamp.py").write_text("on = 1", encoding="utf-8")
    (tmp_path / ".env").write_text("MODEL=a", encoding="utf-8")
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    return tmp_path


@pytest.mark.parametrize("path", ["agent.py", "tools/lamp.py", ".env", "prompt.md", "root_agent.yaml", "uv.lock"])
def test_plan__a_changed_source_changes_the_fingerprint(agent: Path, path: str) -> None:
    before, beside = source_fingerprint(agent, agent), source_fingerprint(agent, agent / "tools")
    (agent / path).write_text("something else", encoding="utf-8")
    assert source_fingerprint(agent, agent) != before
    assert source_fingerprint(agent, agent / "tools") != beside, "an agent may import any module of its repository"


@pytest.mark.parametrize(
    "path",
    [
        "evals/home.test.json",
        "evals/test_config.json",
        ".git/config.json",
        ".venv/lib/adk.py",
        "__pycache__/agent.py",
        "node_modules/x/package.json",
        "picture.png",
        "out/results.json",
        "env/lib/adk.py",
    ],
)
def test_plan__other_files_do_not_change_the_fingerprint(agent: Path, path: str) -> None:
    before = source_fingerprint(agent, agent, skip=[agent / "out"])
    (agent / path).parent.mkdir(parents=True, exist_ok=True)
    (agent / path).write_text("{}", encoding="utf-8")
    assert source_fingerprint(agent, agent, skip=[agent / "out"]) == before


def test_plan__what_cannot_be_read_is_passed_over(agent: Path) -> None:
    os.symlink(agent / "gone.py", agent / "dangling.py")
    os.mkfifo(agent / "pipe.py")
    assert source_fingerprint(agent, agent) == source_fingerprint(agent, agent)
    assert source_fingerprint(agent / "nowhere", agent / "nowhere") == source_fingerprint(agent, None)


POLITE = CriterionConfig(metric="polite", threshold=0.5, options={"words": ["please"]})


def planned_custom(
    *, without_code: Collection[str] = (), source: str = "s", code: str | None = "agent.metrics.polite"
) -> Plan:
    custom = {} if code is None else {"polite": {"code_config": {"name": code}}}
    file = loaded("a.test.json", case(), criteria=(POLITE,), custom_metrics=custom)
    return make_plan([file], {"a.test.json": "agent"}, {}, 1, without_code=without_code, sources=lambda *_: source)


def test_plan_custom__a_custom_metric_is_scored_by_its_function() -> None:
    [only] = planned_custom().cases

    assert only.criteria[0] == CustomMetric(
        name="polite", threshold=0.5, function="agent.metrics.polite", options={"words": ["please"]}
    )


@pytest.mark.parametrize(
    ("code", "without_code", "problem"),
    [
        ("agent.metrics.polite", {"agent"}, "custom-metric-without-agent"),  # a recording has no environment
        (None, (), "criterion-package-broken"),
    ],
)
def test_plan_custom__a_metric_that_nothing_can_score_is_refused(
    code: str | None, without_code: Collection[str], problem: str
) -> None:
    result = planned_custom(code=code, without_code=without_code)

    assert result.cases == ()
    assert [(found.code, found.file) for found in result.problems] == [(problem, "test_config.json")]


def test_plan_custom__scores_of_another_function_or_another_source_are_not_compared() -> None:
    prints = {
        planned_custom(source=source, code=code).cases[0].identities["polite"].fingerprint
        for source, code in (("s", "agent.metrics.polite"), ("t", "agent.metrics.polite"), ("s", "agent.metrics.rude"))
    }

    assert len(prints) == 3


def test_plan_custom__the_source_of_a_function_is_found_without_importing_it(tmp_path: Path) -> None:
    package = tmp_path / "agents" / "home"
    (package / "metrics").mkdir(parents=True)
    (tmp_path / "shared.py").write_text("raise SystemExit")
    (package / "polite.py").write_text("raise SystemExit(1)")
    (package / "metrics" / "__init__.py").write_text("raise SystemExit(2)")

    def found(function: str) -> str:
        return function_source(function, tmp_path, package)

    assert found("agent.polite.fn") == found("home.polite.fn") == found("agents.home.polite.fn") != ""
    assert len({found("agent.polite.fn"), found("home.metrics.fn"), found("shared.fn"), ""}) == 4
    assert found("nowhere.fn") == found("fn") == ""


# What makes two scores comparable, and cases.jsonl.gz: stored lines, of which some are damaged.


MATCH = "final_response_match_v2"
SCENARIO = ConversationScenario(starting_prompt="hi", conversation_plan="ask for a lamp")


def asking(**changes: Any) -> EvalCase:
    return EvalCase(**{"eval_id": "a", "conversation": [judged_turn("where?", "here")], **changes})


def identity(metric: str, default_model: str = "some-judge", **options: Any) -> MetricIdentity:
    form = {"threshold": 0.5, **options}
    return metric_identity(criterion(metric, CRITERION_MODELS[metric].model_validate(form)), default_model)


def test_fingerprints__a_case_is_known_by_what_it_asks_and_expects() -> None:
    same = case_fingerprint(asking(), None)

    assert case_fingerprint(asking(eval_id="b", creation_timestamp=7.0), None) == same
    assert case_fingerprint(asking(conversation=[judged_turn("where?", "here", invocation_id="i-9")]), None) == same
    others = [
        asking(conversation=[judged_turn("where?", "there")]),
        asking(conversation=[judged_turn("where", "here")]),
        asking(conversation=[judged_turn("where?", "here"), judged_turn("where?", "here")]),
        asking(rubrics=[rubric("polite")]),
        asking(session_input={"app_name": "a", "user_id": "u", "state": {"room": 1}}),
    ]
    assert len({same, *(case_fingerprint(other, None) for other in others)}) == len(others) + 1
    scenario, options = EvalCase(eval_id="s", conversation_scenario=SCENARIO), {"model": "gemini-2.5-pro"}
    assert case_fingerprint(scenario, options) != case_fingerprint(scenario, None), "how the user is simulated"
    assert case_fingerprint(asking(), options) == same


def test_case_fingerprint__measurements_do_not_count_but_arguments_of_the_same_names_do() -> None:
    def calling(args: dict[str, Any], **fields: Any) -> EvalCase:
        event = {"author": "home", "content": {"parts": [{"function_call": {"name": "set_timer", "args": args}}]}}
        event |= {"branch": fields.pop("branch", None)}
        data = {"invocation_events": [event]}
        return asking(conversation=[judged_turn("where?", "here", intermediate_data=data, **fields)])

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
        spoken = conversation([judged_turn("hello", "We close at six.")], [judged_turn("hello", "Until six.")])
        if metric == "per_turn_user_simulator_quality_v1":
            spoken = conversation(
                [judged_turn("hello", "We close at six."), judged_turn("ok")], conversation_scenario=SCENARIO
            )
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
    lamp = EvalCase(eval_id="lamp", conversation=[judged_turn("where?", "here\u2028\U0001f4a1")])
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
    cases = [planned(EvalCase(eval_id=name, conversation=[judged_turn(name or "?", "here")])) for name in ids]
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


# Splitting a suite: every case once, the same split everywhere, no part far heavier than the others.


WEIGHTS = st.dictionaries(st.text(min_size=1, max_size=8), st.integers(0, 500).map(float), max_size=60)


def loads(weights: dict[str, float], assignment: dict[str, int], total: int) -> list[float]:
    return [sum(weights[name] for name, part in assignment.items() if part == number + 1) for number in range(total)]


@given(WEIGHTS, st.integers(1, 256), st.randoms())
def test_partition__has_every_case_once_and_no_part_above_the_bound(
    weights: dict[str, float], total: int, shuffling: random.Random
) -> None:
    assignment = partition(weights, total)
    shuffled = list(weights.items())
    shuffling.shuffle(shuffled)

    assert assignment.keys() == weights.keys()
    assert set(assignment.values()) <= set(range(1, total + 1))
    assert partition(dict(shuffled), total) == assignment
    heaviest = max(weights.values(), default=0.0)
    assert max(loads(weights, assignment, total)) <= sum(weights.values()) / total + heaviest


def test_partition__of_equal_cases_is_even_and_more_parts_than_cases_are_empty() -> None:
    even = partition({str(number): 0.0 for number in range(12)}, 4)
    few = partition({"a": 3.0, "b": 2.0}, 5)

    assert sorted(even.values()) == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    assert few == {"a": 1, "b": 2}


def test_weigh__uses_turns_or_recorded_seconds_and_estimates_new_cases_by_their_turns() -> None:
    units = [Unit(case_id="a", fingerprint="1", turns=3), Unit(case_id="new", fingerprint="2", turns=2)]

    assert weigh(units) == {"a": 3.0, "new": 2.0}
    assert weigh(units, RecordedSeconds(per_run={"a": 9.0}, per_turn=1.5)) == {"a": 9.0, "new": 3.0}
    assert weigh(units, RecordedSeconds()) == {"a": 3.0, "new": 2.0}


def test_split_hash__depends_on_contents_parts_and_runs_only() -> None:
    units = [Unit(case_id="a", fingerprint="1", turns=3), Unit(case_id="b", fingerprint="2", turns=2)]
    plain = split_hash({"a": 1, "b": 2}, units, total=2, num_runs=1)

    assert plain == split_hash({"b": 2, "a": 1}, reversed(units), total=2, num_runs=1)
    others = [
        split_hash({"a": 2, "b": 1}, units, total=2, num_runs=1),
        split_hash({"a": 1, "b": 2}, units, total=3, num_runs=1),
        split_hash({"a": 1, "b": 2}, units, total=2, num_runs=3),
        split_hash({"a": 1, "b": 2}, [units[0], Unit(case_id="b", fingerprint="9", turns=2)], total=2, num_runs=1),
    ]
    assert len({plain, *others}) == 5


def test_recorded_seconds__is_the_median_over_reports_of_completed_runs() -> None:
    def result(seconds: float, **more: Any) -> Any:
        run = RunResult(run_id="x", run=0, status="passed", duration=seconds, turns=2)
        return report("passed", [report_case("a", "passed").model_copy(update={"runs": [run.model_copy(update=more)]})])

    recorded = recorded_seconds([result(2.0), result(4.0), result(9.0), result(99.0, status="errored")])

    assert (list(recorded.per_run.values()), recorded.per_turn) == ([4.0], 2.0)
    assert recorded_seconds([]).per_turn == 0.0


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "1/257", "1/0", "-1/4", "1/4/2", "a/b", "1.0/4"])
def test_parse_part__refuses_what_is_no_part(text: str) -> None:
    with pytest.raises(ValueError, match="must be I/N with 1 <= I <= N <= 256"):
        parse_part(text)
    assert parse_part(" 2/5 ") == Part(index=2, total=5)
    assert str(parse_part("256/256")) == "256/256"


# The estimate of calls and cost, from the files alone.


PRICES = {"judge": Price(input=1.0, output=10.0)}
ANSWER_TOKENS = 500


def estimated(*turns: Any, eval_id: str = "c") -> EvalCase:
    return EvalCase(eval_id=eval_id, conversation=list(turns) or [judged_turn(), judged_turn()])


def scenario(eval_id: str = "s") -> EvalCase:
    led = ConversationScenario(starting_prompt="hi", conversation_plan="p")
    return EvalCase(eval_id=eval_id, conversation_scenario=led)


def metric(name: str, samples: int = 5, **options: Any) -> CriterionConfig:
    form: dict[str, Any] = {"threshold": 1.0, **options}
    if name not in {"response_match_score", "tool_trajectory_avg_score"}:
        form = {"judge_model_options": {"num_samples": samples}} | form
    return criterion(name, CRITERION_MODELS[name].model_validate(form))


def file(cases: Sequence[EvalCase], *criteria: CriterionConfig, user: dict[str, Any] | None = None) -> LoadedFile:
    return loaded("a.test.json", *cases, criteria=criteria, user_simulator_config=user)


def only(*files: LoadedFile, runs: int = 1, prices: dict[str, Price] | None = None) -> FileEstimate:
    [file_estimate] = estimate(files, num_runs=runs, default_model="openai/judge", prices=prices).files
    return file_estimate


def span(least: int, most: int | None) -> Range:
    return Range(least=least, most=most)


def test_estimate__fixed_turns_are_counted_for_every_run() -> None:
    file_estimate = only(
        file([estimated(), estimated(judged_turn(), eval_id="d")], metric("final_response_match_v2")), runs=4
    )

    assert (file_estimate.cases, file_estimate.runs, file_estimate.turns) == (2, 4, span(12, 12))
    [row] = file_estimate.criteria
    assert (row.model, row.samples, row.cases) == ("openai/judge", 5, 2)
    assert row.calls == span(12 * 3, 12 * 5), "three votes of five settle a turn"


def test_estimate__calls_about_sentences_are_one_each_and_not_known_for_messages_on_the_way() -> None:
    [row] = only(file([estimated()], metric("hallucinations_v1", samples=9))).criteria
    assert (row.samples, row.calls) == (1, span(4, 6))
    config = metric("hallucinations_v1", evaluate_intermediate_nl_responses=True)
    [row] = only(file([estimated()], config), prices=PRICES, runs=3).criteria
    assert row.calls == span(3 * 4, None)
    assert row.cost is not None
    assert row.cost[0] > 0 and row.cost[1] is None


def test_estimate__who_judges() -> None:
    [free] = only(file([estimated()], metric("response_match_score")), prices=PRICES).criteria
    assert free == CriterionEstimate(metric="response_match_score", cases=1), "computed metrics make no calls"
    own = metric("safety_v1", judge_model_options={"judge_model": "gemini-2.5-pro"})
    files = [file([estimated()], own, metric("final_response_match_v2"))] * 2
    whole = estimate(files, num_runs=1, default_model="openai/judge")

    assert [row.model for row in whole.files[0].criteria] == ["gemini-2.5-pro", "openai/judge"]
    assert whole.models == ["gemini-2.5-pro", "openai/judge"]
    assert [row.tokens for row in whole.with_model()] == [None] * 4, "nothing was weighed without prices"
    assert (whole.cases, whole.turns, whole.calls) == (2, span(4, 4), span(24, 40)), "sums of the files"
    weighed = estimate(files, num_runs=1, default_model="openai/unknown", prices=PRICES)
    assert [(row.tokens is None, row.cost) for row in weighed.with_model()] == [(False, None)] * 4, "no invented price"
    assert weighed.tokens == sum((row.tokens for row in weighed.with_model() if row.tokens), span(0, 0))
    assert estimate([], num_runs=1, default_model="m") == Estimate(files=[])


@pytest.mark.parametrize(
    ("limit", "turns", "user"), [(5, (1, 5), (1, 4)), (1, (1, 1), (0, 0)), (-1, (1, None), (1, None))]
)
def test_estimate__a_simulated_user(limit: int, turns: tuple[int, int | None], user: tuple[int, int | None]) -> None:
    led = file([scenario(), estimated(judged_turn())], metric("safety_v1"), user={"max_allowed_invocations": limit})
    file_estimate = only(led, runs=2)

    assert file_estimate.turns == (span(*turns) + span(1, 1)).times(2)
    row = file_estimate.criteria[-1]
    assert (row.metric, row.cases, row.model) == ("user-simulator", 1, "gemini-2.5-flash")
    assert row.calls == span(*user).times(2)


def test_estimate__a_whole_conversation_is_judged_once_however_long_it_gets() -> None:
    unbounded = {"max_allowed_invocations": -1}
    whole, each = only(
        file([scenario()], metric("multi_turn_task_success_v1"), metric("safety_v1"), user=unbounded)
    ).criteria[:2]

    calls = judge_calls("multi_turn_task_success_v1", 5, turns=1, texts=1)
    assert whole.calls == span(calls.least, calls.most)
    assert each.calls == span(3, None)


def test_estimate__tokens_are_weighed_by_the_prompts_that_would_be_sent() -> None:
    def tokens(text: str) -> Range:
        eval_case = estimated(judged_turn(answer=text))
        [row] = only(file([eval_case], metric("final_response_match_v2", samples=1)), prices=PRICES).criteria
        assert row.calls == span(1, 1)
        assert row.tokens is not None
        return row.tokens

    short, long = tokens("x"), tokens("x" * 4001)
    assert short.least == short.most
    # The answer stands in the prompt twice: as the reference, and as what the agent would say.
    assert long.least - short.least == pytest.approx(2000, abs=2)
    assert short.least > ANSWER_TOKENS


def test_estimate__many_cases_are_sampled_and_counted_in_full() -> None:
    cases = [estimated(judged_turn(answer="x" * 400), eval_id=str(number)) for number in range(200)]
    config = metric("final_response_match_v2", samples=1)
    [few] = only(file(cases[:1], config), prices=PRICES).criteria
    [many] = only(file(cases, config), prices=PRICES).criteria

    assert few.tokens is not None
    assert many.tokens == few.tokens.times(200)


def test_estimate__rubrics_are_weighed_too() -> None:
    name = "rubric_based_final_response_quality_v1"
    rubrics = [rubric("a").model_dump()]
    more = [*rubrics, rubric("b" * 400).model_dump()]
    [few], [many] = (
        only(file([estimated()], metric(name, rubrics=some)), prices=PRICES).criteria for some in (rubrics, more)
    )

    assert few.calls == many.calls == span(2 * 3, 2 * 5 * 2)
    assert few.tokens is not None
    assert many.tokens is not None
    assert many.tokens.least > few.tokens.least + 6 * 90


def test_estimate__the_second_question_about_sentences_is_weighed() -> None:
    """It holds all that the agent knew; the first one only what it said."""
    [row] = only(
        file([estimated(judged_turn(user="y" * 8000, answer="x"))], metric("hallucinations_v1")), prices=PRICES
    ).criteria

    assert row.tokens is not None
    assert row.tokens.least > 2 * ANSWER_TOKENS + 8000 / 4


def test_estimate__cost_is_what_the_tokens_cost() -> None:
    config = metric("final_response_match_v2", judge_model_options={"judge_model": "openai/judge"})
    [row] = only(file([estimated()], config), prices=PRICES).criteria

    assert row.tokens is not None
    assert row.tokens.most is not None
    for tokens, calls, cost in ((row.tokens.least, 6, 0), (row.tokens.most, 10, 1)):
        output = calls * ANSWER_TOKENS
        assert row.cost is not None
        assert row.cost[cost] == pytest.approx(((tokens - output) * 1.0 + output * 10.0) / 1e6)


def test_estimate__the_tokens_of_scenarios_are_unknown() -> None:
    played = file([scenario(), estimated()], metric("safety_v1", samples=1))
    [row, _] = only(played, prices=PRICES).criteria

    assert row.model is not None
    assert (row.tokens, row.cost) == (None, None)
    alone = estimate([played], num_runs=1, default_model="openai/judge", prices=PRICES)
    assert (alone.tokens, alone.cost) == (Range(least=0, most=None), None)
    fixed = file([estimated()], metric("safety_v1", samples=1))
    both = estimate([played, fixed], num_runs=1, default_model="openai/judge", prices=PRICES)
    assert both.tokens.least > 0 and both.cost is not None and both.cost[0] > 0
    assert (both.tokens.most, both.cost[1]) == (None, None), "what has no estimate is no reason to name a most"
