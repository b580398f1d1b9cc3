"""What is planned of loaded files, what it will cost, and what makes two scores comparable."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import golden_files
import pytest
from evalset_samples import loaded
from hypothesis import given
from hypothesis import strategies as st
from judged_samples import ScriptedModel, failure, rubric
from judged_samples import turn as judged_turn
from report_samples import case as report_case
from report_samples import report
from runner_doubles import planned as planned_case
from runner_doubles import session_input, turn

from agent_eval.pipeline.shards.split import RecordedSeconds, Unit, partition, recorded_seconds, split_hash, weigh
from agent_eval.runner import case_lines
from agent_eval.runner.plan import Plan, PlannedCase, make_plan
from agent_eval.settings.parsers import Shard, part
from agent_eval_agents.fingerprints import MetricIdentity, case_fingerprint, function_source, metric_identity
from agent_eval_agents.sources import source_fingerprint
from agent_eval_results import Recording, RunResult, StoredCase, StoredLines, stored_index, write_lines
from agent_eval_scoring.core.invocation import Invocation, adk_value
from agent_eval_scoring.core.problem import docs_page
from agent_eval_scoring.criteria.cost_estimate import Range, estimate
from agent_eval_scoring.criteria.custom import CustomMetric
from agent_eval_scoring.criteria.judged.judge import Judge
from agent_eval_scoring.evalset.models.criteria import CRITERION_MODELS
from agent_eval_scoring.evalset.models.schema import ConversationScenario, CriterionConfig, EvalCase, LoadedFile
from agent_eval_scoring.evalset.parse.criteria import criterion
from agent_eval_scoring.models.usage import Price

# What is planned of loaded files, and when a recorded run still stands for a new one.


RESPONSE = CriterionConfig(metric="response_match_score", threshold=0.8)


def case(eval_id: str = "one", message: str = "hello", **facts: Any) -> EvalCase:
    return EvalCase(eval_id=eval_id, conversation=[turn(message)], **facts)


def plan(*files: LoadedFile, source: str = "s", num_runs: int = 1) -> Plan:
    return make_plan(files, {file.path: "agent" for file in files}, {"agent": source}, num_runs)


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "agent.py").write_text("root_agent = 1", encoding="utf-8")
    (tmp_path / "tools" / "lamp.py").write_text("on = 1", encoding="utf-8")
    (tmp_path / ".env").write_text("MODEL=a", encoding="utf-8")
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    return tmp_path


OTHERS = "evals/home.test.json evals/test_config.json .git/config.json .venv/lib/adk.py __pycache__/agent.py"
OTHERS += " node_modules/x/package.json out/results.json env/lib/adk.py session.db"


def test_plan__a_fingerprint_of_an_agent_is_that_of_its_sources(agent: Path) -> None:
    def prints() -> tuple[str, str]:
        """From the agent's directory, and from one beside it: an agent may import any module of its repository."""
        return source_fingerprint(agent, agent, skip=[agent / "out"]), source_fingerprint(agent, agent / "tools")

    for path in OTHERS.split():
        before = prints()
        (agent / path).parent.mkdir(parents=True, exist_ok=True)
        (agent / path).write_text("{}", encoding="utf-8")
        assert prints()[0] == before[0], path
    for path in (
        "agent.py",
        "tools/lamp.py",
        ".env",
        "prompt.md",
        "root_agent.yaml",
        "uv.lock",
        "data.csv",
        ".prompts/a",
    ):
        before = prints()
        (agent / path).parent.mkdir(exist_ok=True)
        (agent / path).write_text("something else", encoding="utf-8")
        assert not set(prints()) & set(before), path


def test_plan__what_cannot_be_read_is_passed_over(agent: Path) -> None:
    os.symlink(agent / "gone.py", agent / "dangling.py")
    os.mkfifo(agent / "pipe.py")
    assert source_fingerprint(agent, agent) == source_fingerprint(agent, agent)
    assert source_fingerprint(agent / "nowhere", agent / "nowhere") == source_fingerprint(agent, None)


POLITE = CriterionConfig(metric="polite", threshold=0.5, options={"words": ["please"]})


RUBRICS = CriterionConfig(metric="rubric_based_tool_use_quality_v1", threshold=0.8)
SAFE = CriterionConfig(metric="safety_v1", threshold=0.8)
OWN = {"rubric_id": "r", "rubric_content": {"text_property": "It asks."}, "type": "TOOL_USE_QUALITY"}
RUBRIC_CASE = EvalCase.model_validate({**case("judged").model_dump(), "rubrics": [OWN]})
JUDGE = Judge(model=ScriptedModel(script=lambda _: failure("malformed")))


def custom(source: str = "s", code: str | None = "agent.metrics.polite") -> tuple[LoadedFile, dict[str, Any]]:
    metrics = {} if code is None else {"polite": {"code_config": {"name": code}}}
    return loaded("a.test.json", case(), criteria=(POLITE,), custom_metrics=metrics), {"sources": lambda *_: source}


def led(wish: str = "buy") -> EvalCase:
    scenario = ConversationScenario(starting_prompt="hi", conversation_plan=wish)
    return EvalCase(eval_id="a", conversation_scenario=scenario)


TWO = [
    loaded(path, *map(case, names), criteria=(RESPONSE,))
    for path, names in (("b.test.json", "xy"), ("a.test.json", "x"))
]
PLANS: dict[str, tuple[Sequence[LoadedFile], dict[str, Any]]] = {
    "in order": (TWO, {"num_runs": 2}),
    "rubrics of one case": ([loaded("a.test.json", RUBRIC_CASE, case("bare"), criteria=(RUBRICS,))], {"judge": JUDGE}),
    "no judge": ([loaded("a.test.json", case(), criteria=(RESPONSE, SAFE))], {}),
    "no agent": (TWO, {"agents": {}}),
    **{
        name: ([file], {**options, **more})
        for name, (file, options), more in (
            ("a custom metric", custom(), {}),
            ("its source has changed", custom(source="t"), {}),
            ("another function", custom(code="agent.metrics.rude"), {}),
            ("of a recording, which has no environment", custom(), {"without_code": {"agent"}}),
            ("of a server", custom(), {"agents": {"a.test.json": "adk:http://h"}, "without_code": {"adk:http://h"}}),
            ("without a function", custom(code=None), {}),
        )
    },
}


def test_plan__what_is_planned_and_what_is_refused() -> None:
    lines = []
    polite: list[str] = []
    for name, (files, options) in PLANS.items():
        options = {"agents": {file.path: "agent" for file in files}, "num_runs": 1, **options}
        result = make_plan(files, fingerprints={"agent": "s"}, **options)
        lines += [f"{name}:", f"  runs: {[planned.run_id(run) for planned, run in result.runs()]}"]
        for planned in result.cases:
            lines.append(
                f"  {planned.case_id}, line {planned.line}: {', '.join(each.name for each in planned.criteria)}"
            )
            lines += [f"    {each}" for each in planned.criteria if isinstance(each, CustomMetric)]
            if "polite" in planned.identities:
                polite.append(planned.identities["polite"].fingerprint)
        lines += [f"  {line}" for problem in result.problems for line in str(problem).splitlines()]
    golden_files.check("golden_plans.txt", "\n".join(lines).replace(docs_page("criteria"), "DOCS") + "\n")
    assert len(set(polite)) == len(polite) == 3, "scores of another function or source are not compared"


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


NEEDED: dict[str, dict[str, Any]] = {
    "trajectory_single_tool_use": {"tool_name": "f"},
    "tool_rules": {"rules": [{"never": "f"}]},
    "judge_prompt": {"prompt_template": "Rate {response}."},
}
MATCH = "final_response_match_v2"
SCENARIO = ConversationScenario(starting_prompt="hi", conversation_plan="ask for a lamp")


def asking(**changes: Any) -> EvalCase:
    return EvalCase(**{"eval_id": "a", "conversation": [judged_turn("where?", "here")], **changes})


def identity(metric: str, default_model: str = "some-judge", **options: Any) -> MetricIdentity:
    form = {"threshold": 0.5, **options}
    return metric_identity(criterion(metric, CRITERION_MODELS[metric].model_validate(form)), default_model)


def calling(args: dict[str, Any], branch: str | None = None, **fields: Any) -> EvalCase:
    event = {"author": "home", "content": {"parts": [{"function_call": {"name": "set_timer", "args": args}}]}}
    data = {"invocation_events": [{**event, "branch": branch}]}
    return asking(conversation=[judged_turn("where?", "here", intermediate_data=data, **fields)])


SPANS = [{"kind": "tool", "name": "set_timer", "start": 0.1, "end": 0.2}]
CASES: dict[str, tuple[EvalCase, dict[str, Any]]] = {
    "a case": (asking(), {}),
    "another id": (asking(eval_id="b", creation_timestamp=7.0), {}),
    "an id of a turn": (asking(conversation=[judged_turn("where?", "here", invocation_id="i-9")]), {}),
    "a user simulator that nobody is": (asking(), {"user": {"model": "another"}}),
    "another source": (asking(), {"source": "changed"}),
    "another answer": (asking(conversation=[judged_turn("where?", "there")]), {}),
    "another message": (asking(conversation=[judged_turn("where", "here")]), {}),
    "two turns": (asking(conversation=[judged_turn("where?", "here")] * 2), {}),
    "rubrics": (asking(rubrics=[rubric("polite")]), {}),
    "a session": (asking(session_input=session_input()), {}),
    "a state": (asking(session_input=session_input(state={"room": 1})), {}),
    "a call": (calling({"duration": 5}), {}),
    "its measurements": (calling({"duration": 5}, duration=1.0, spans=SPANS, branch="root.home"), {}),
    "another argument": (calling({"duration": 6}), {}),
    "a scenario": (led(), {}),
    "another plan": (led("sell"), {}),
    "another simulator": (led(), {"user": {"model": "another"}}),
}
MODEL: dict[str, Any] = {"judge_model_options": {"judge_model": "another"}}
METRICS: dict[str, tuple[str, dict[str, Any]]] = {
    "trajectory": ("tool_trajectory_avg_score", {}),
    "another threshold": ("tool_trajectory_avg_score", {"threshold": 0.9}),
    "another order": ("tool_trajectory_avg_score", {"match_type": "IN_ORDER"}),
    "another metric": ("response_match_score", {}),
    "a judge": (MATCH, {}),
    "another default": (MATCH, {"default_model": "another"}),
    "another model": (MATCH, MODEL),
    "the same": (MATCH, {**MODEL, "default_model": "more"}),
    "more samples": (MATCH, {"judge_model_options": {"num_samples": 3}}),
    "its temperature": (MATCH, {"judge_model_options": {"judge_model_config": {"temperature": 0.7}}}),
    "another prompt": ("judge_prompt", {"prompt_template": "Rate {agent_data}."}),
    **{
        name: (name, {"rubrics": [rubric("a").model_dump()], "rubric_weights": {"a": 2.0}})
        if name.startswith("rubric")
        else (name, NEEDED.get(name, {}))
        for name in CRITERION_MODELS
    },
}


def test_fingerprints__which_are_the_same() -> None:
    """Equal fingerprints have the number of the first one."""
    numbers: dict[str, int] = {}

    def number(fingerprint: str) -> int:
        assert len(fingerprint) == 16
        return numbers.setdefault(fingerprint, len(numbers) + 1)

    lines = ["Cases, as they are run and compared:"]
    for name, (of, facts) in CASES.items():
        user = facts.get("user")
        file = loaded("a.test.json", of, user_simulator_config=user)
        [planned] = plan(file, source=facts.get("source", "s")).cases
        assert planned.user_config == (user)
        lines.append(f"{name}: {number(planned.fingerprint)}, {number(case_fingerprint(of, user))}")
    lines.append("Metrics, with their judges:")
    for name, (metric, options) in METRICS.items():
        known_by = identity(metric, **options)
        lines.append(f"{name}: {number(known_by.fingerprint)}, {known_by.judge}")
    golden_files.check("golden_fingerprints.txt", "\n".join(lines) + "\n")


def planned(case: EvalCase, user_config: Mapping[str, object] | None = None) -> PlannedCase:
    content = case_fingerprint(case, user_config)
    return replace(planned_case(case.eval_id), case=case, user_config=user_config, content=content)


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


IDS = ("plain", 'with "quotes"', "back\\slash", "line\nbreak", "日本語 \U0001f4a1", "\u2028", "", '","case_id":"other')


def test_stored_index__finds_cases_as_they_were_run_whatever_the_id(tmp_path: Path) -> None:
    simulated = {"model": "gemini-2.5-pro"}
    cases = [planned(EvalCase(eval_id=name, conversation=[judged_turn("?", "here\u2028")]), simulated) for name in IDS]
    cases.append(planned(EvalCase(eval_id="guest", conversation_scenario=SCENARIO), simulated))
    path = tmp_path / "cases.jsonl.gz"
    by_hand = {"case_id": "by hand", "file": "a", "eval_set_id": "s", "fingerprint": "f", "case": {}}
    cut = next(case_lines(cases[:1]))[:-20] + b"\n"
    strange = b'{"schema_version":"1","case_id":"not UTF-8 \xff"}\n'
    write_lines(path, [*case_lines(cases), json.dumps(by_hand).encode() + b"\n", b"no json\n", cut, strange])

    with stored_index(path, StoredCase) as index:
        assert index.skipped == 2  # The line that was cut off is found when it is needed.
        for case in cases:
            [line] = index.of(case.case_id)
            user = simulated if case.case.conversation is None else None
            assert (line.case, line.case_id, line.user_simulator_config) == (case.case, case.case_id, user)
            assert line.fingerprint == case_fingerprint(line.case, user)
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


@pytest.mark.parametrize("text", ["1", "0/4", "5/4", "1/257", "1/0", "-1/4", "1/4/2", "a/b", "1.0/4"])
def test_part__refuses_what_is_no_part(text: str) -> None:
    with pytest.raises(ValueError, match="must be I/N with 1 <= I <= N <= 256"):
        part(text)
    assert (part(""), part(" 2/5 ")) == (None, Shard(index=2, total=5))
    assert str(part("256/256")) == "256/256"


# The estimate of calls and cost, from the files alone.


PRICES = {"judge": Price(input=1.0, output=10.0)}


def estimated(*turns: Any, eval_id: str = "c") -> EvalCase:
    return EvalCase(eval_id=eval_id, conversation=list(turns) or [judged_turn(), judged_turn()])


def metric(name: str, samples: int = 5, **options: Any) -> CriterionConfig:
    form: dict[str, Any] = {"threshold": 1.0, **options}
    if name not in {"response_match_score", "tool_trajectory_avg_score"}:
        form = {"judge_model_options": {"num_samples": samples}} | form
    return criterion(name, CRITERION_MODELS[name].model_validate(form))


def file(cases: Sequence[EvalCase], *criteria: CriterionConfig, turns: int | None = None) -> LoadedFile:
    user = None if turns is None else {"max_allowed_invocations": turns}
    return loaded("a.test.json", *cases, criteria=criteria, user_simulator_config=user)


def rubrics(*texts: str) -> CriterionConfig:
    made = [rubric(text).model_dump() for text in texts]
    return metric("rubric_based_final_response_quality_v1", rubrics=made)


SAFETY, ONCE = metric("safety_v1"), metric(MATCH, samples=1)
FIXED, ONE = [estimated()], [estimated(judged_turn())]
WORDY = [estimated(judged_turn(answer="x" * 400), eval_id=str(number)) for number in range(200)]
ESTIMATES: dict[str, tuple[list[LoadedFile], int]] = {
    "turns of every run, and three votes of five settle one": ([file([*FIXED, *ONE], metric(MATCH))], 4),
    "no judge": ([file(FIXED, metric("response_match_score"))], 1),
    "sentences, one call each": ([file(FIXED, metric("hallucinations_v1", samples=9))], 1),
    "messages on the way": ([file(FIXED, metric("hallucinations_v1", evaluate_intermediate_nl_responses=True))], 3),
    "its own judge": ([file(FIXED, metric("safety_v1", judge_model_options={"judge_model": "own"}), ONCE)] * 2, 1),
    **{f"a user with {n} turns": ([file([led(), *ONE], SAFETY, turns=n)], 2) for n in (5, 1, -1)},
    "a whole conversation": ([file([led()], metric("multi_turn_task_success_v1"), SAFETY, turns=-1)], 1),
    "a short answer": ([file([estimated(judged_turn(answer="x"))], ONCE)], 1),
    "a long one, which the prompt has twice": ([file([estimated(judged_turn(answer="x" * 4_001))], ONCE)], 1),
    "one case": ([file(WORDY[:1], ONCE)], 1),
    "two hundred, of which some are weighed": ([file(WORDY, ONCE)], 1),
    "a rubric": ([file(FIXED, rubrics("a"))], 1),
    "and a long one": ([file(FIXED, rubrics("a", "b" * 400))], 1),
    "all that the agent knew": ([file([estimated(judged_turn("y" * 8_000, "x"))], metric("hallucinations_v1"))], 1),
    "a scenario": ([file([led(), *FIXED], metric("safety_v1", samples=1))], 1),
    "and a file without one": ([file([led()], SAFETY), file(FIXED, metric("safety_v1", samples=1))], 1),
    "two by the names of a pool": ([file(ONE, *(replace(ONCE, label=label) for label in ("tone", "rude")))], 1),
    "nothing": ([], 1),
}


def shown(of: Any, *names: str) -> str:
    """Ranges as `least..most`."""
    values = {name: getattr(of, name) for name in names}
    ranges = {name: f"{each.least}..{each.most}" for name, each in values.items() if isinstance(each, Range)}
    return ", ".join(f"{name} {value}" for name, value in {**values, **ranges}.items())


def test_estimate__of_calls_tokens_and_cost() -> None:
    lines = []
    for name, (files, runs) in ESTIMATES.items():
        whole = estimate(files, num_runs=runs, default_model="openai/judge", prices=PRICES)
        lines += [f"{name}: {shown(whole, 'cases', 'turns', 'calls', 'tokens', 'cost', 'models')}"]
        for of_file in whole.files:
            lines.append(f"  {shown(of_file, 'cases', 'runs', 'turns')}")
            facts = ("metric", "model", "cases", "samples", "calls", "tokens", "cost")
            lines += [f"    {shown(row, *facts)}" for row in of_file.criteria]
    golden_files.check("golden_estimates.txt", "\n".join(lines) + "\n")


def test_estimate__without_prices() -> None:
    files = [file(FIXED, metric(MATCH))]
    for prices, model, weighed in ((None, "openai/judge", False), (PRICES, "openai/unknown", True)):
        [row] = estimate(files, num_runs=1, default_model=model, prices=prices).with_model()
        assert (row.tokens is not None, row.cost) == (weighed, None), "nothing is weighed in vain, no price invented"
