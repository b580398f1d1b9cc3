"""The models of results: read again, merged, of ADK, and whose files they are."""

from __future__ import annotations

import ast
import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from export_samples import stored
from golden_files import check
from hypothesis import given
from hypothesis import strategies as st
from report_samples import SAMPLES, good, metric, wrong_room
from source_samples import ANSWERED, ASKED, adk_result

import agent_eval_results as results
from agent_eval.baseline.reader import read_report
from agent_eval.cli import main
from agent_eval_agents.protocol import AgentFailure, SessionRequest
from agent_eval_agents.recorded import RecordedAgent, check_recording
from agent_eval_results import FileReport
from agent_eval_results.data.folder import give_to_owner
from agent_eval_results.data.merging import WITHOUT_KEY, merge, status_of_run
from agent_eval_results.data.report import CaseReport, MetricReport, Reason, RunReport, RunResult, RunScore
from agent_eval_results.report.phrases import text
from agent_eval_results.report.renderers.results_json import results_json
from agent_eval_scoring.core.content import text_of, user_message
from agent_eval_scoring.core.invocation import tool_calls
from agent_eval_scoring.core.recording import RunError
from agent_eval_scoring.evalset.adk_results import AdkStatus, adk_set_result
from agent_eval_workbench.exports.adk_web import adk_exports, adk_json

# results.json can be read again.


def test_results__has_all_that_it_lists_and_nothing_else() -> None:
    tree = ast.parse(Path(results.__file__).read_text("utf-8"))
    block = next(each for each in tree.body if isinstance(each, ast.If))
    imported = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert sorted(str(node.module) for node in imported) == sorted(results._MODULES)
    for node in imported:
        assert node.names[0].name == "*" or all(hasattr(results, name.name) for name in node.names), node.module
    assert hasattr(results, "RunReport")
    assert not hasattr(results, "RunRaport")


@pytest.mark.parametrize("name", SAMPLES)
def test_report__is_written_as_pydantic_would_and_read_again(name: str) -> None:
    report = SAMPLES[name]()
    written = results_json(report)
    assert results_json(RunReport.model_validate_json(written)) == written
    # Pydantic can't write lone surrogates.
    assert name == "hostile" or written == report.model_dump_json(indent=1) + "\n"


def test_report__counts_are_computed_again_and_former_fields_are_left_out() -> None:
    written = results_json(SAMPLES["failed"]())
    facts = json.loads(written)
    facts["totals"]["passed"] = 1_000
    former = {"opened": [{"agent": "home", "paths": ["home/agent.py"]}], "unaffected": [{"file": "a", "cases": 1}]}
    assert results_json(RunReport.model_validate({**facts, **former})) == written


# Runs become cases: the same numbers whatever finished first and wherever it ran.


NAMES = ("trajectory", "response")
THRESHOLDS = {"trajectory": 1.0, "lenient": 0.7, "response": 0.5, "tokens": None, "mine": 5.0}
CRASH = RunError(kind="agent-crash", owner="agent", message="It left")
OUTAGE = RunError(kind="provider-unavailable", owner="provider", message="503")
STOPPED = RunError(kind="stopped", owner="gate", message="Stopped")
INVALID = RunError(kind="custom-metric-exception", owner="agent", message="it raised")
MISSING = Reason(code="turn-count", message="2 turns instead of 1")
NO_KEY = Reason(code=WITHOUT_KEY, message="There is no key")

Score = float | tuple[float, Literal["passed", "failed"]] | RunError | Reason | None
Scores = dict[str, Score]
"""By metric; with what a metric said itself. An error or a reason: why it was not evaluated; None has a reason."""


def score_of(run: int, threshold: float | None, score: Score) -> RunScore:
    if isinstance(score, RunError):
        return RunScore(run=run, status="not_evaluated", error=score, reason=Reason(code="x", message="m"))
    if score is None or isinstance(score, Reason):
        return RunScore(run=run, status="not_evaluated", reason=score or MISSING)
    if isinstance(score, tuple):
        return RunScore(run=run, score=score[0], status=score[1])
    if threshold is None:
        return RunScore(run=run, score=score, status="informational")
    return RunScore(run=run, score=score, status="passed" if score >= threshold else "failed")


def part(run: int, outcome: Scores | RunError, *, case: str = "a.json:one") -> CaseReport:
    """A case with a single run, as the runner makes it."""
    error = outcome if isinstance(outcome, RunError) else None
    given = {} if isinstance(outcome, RunError) else outcome
    scores = {name: score_of(run, limit, given[name]) for name, limit in THRESHOLDS.items() if name in given}
    not_run = error is not None and error.owner == "gate"
    status = "not_run" if not_run else status_of_run(error, scores.values())
    result = RunResult(run_id=f"{case}#{run + 1}", run=run, status=status, error=error)
    file, _, eval_id = case.partition(":")
    return CaseReport(
        case_id=case,
        file=file,
        eval_set_id=file,
        eval_id=eval_id,
        status=result.status,
        metrics=[
            MetricReport(name=name, threshold=THRESHOLDS[name], status=score.status, runs=[score])
            for name, score in scores.items()
        ],
        runs=[result],
    )


def judged(*outcomes: Scores | RunError, rate: float = 1.0) -> CaseReport:
    (case,) = merge([part(run, outcome) for run, outcome in enumerate(outcomes)], min_pass_rate=rate)
    return case


def both(trajectory: float | None, response: float | None) -> Scores:
    return {"trajectory": trajectory, "response": response}


GOOD, BAD = both(1.0, 1.0), both(0.0, 1.0)

outcomes = st.one_of(
    st.sampled_from([CRASH, OUTAGE, STOPPED]),
    st.fixed_dictionaries(
        {name: st.one_of(st.none(), st.floats(0, 1, allow_subnormal=False)) for name in NAMES} | {"tokens": st.just(7)}
    ),
)


@given(st.lists(outcomes, min_size=1, max_size=7), st.floats(0, 1), st.data())
def test_merge__any_partition_in_any_order_merges_to_the_same(
    runs: list[Scores | RunError], rate: float, data: st.DataObject
) -> None:
    parts = [part(run, outcome) for run, outcome in enumerate(runs)]
    given_parts = [report.model_dump() for report in parts]
    whole = merge(parts, min_pass_rate=rate)
    shuffled = data.draw(st.permutations(parts))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(parts)), max_size=3)))
    groups = [shuffled[start:end] for start, end in zip([0, *cuts], [*cuts, len(parts)], strict=True)]
    merged_groups = [case for group in groups for case in merge(group, min_pass_rate=rate)]
    assert merge(merged_groups, min_pass_rate=rate) == whole
    assert merge(whole, min_pass_rate=rate) == whole
    assert [report.model_dump() for report in parts] == given_parts, "what it is given stays as it is"


@given(st.lists(outcomes, min_size=1, max_size=5), st.floats(0, 1))
def test_merge__nothing_passes_without_a_passing_score_of_every_metric(
    runs: list[Scores | RunError], rate: float
) -> None:
    case = judged(*runs, rate=rate)
    if case.status == "passed":
        gating = [metric for metric in case.metrics if metric.threshold is not None]
        assert [metric.status for metric in gating] == ["passed", "passed"]
        assert all(metric.score is not None and metric.score >= (metric.threshold or 0) for metric in gating)
        assert sum(run.status == "passed" for run in case.runs) / len(case.runs) >= rate - 1e-9
        assert case.reason is None
    else:
        assert case.reason is not None
        assert text(case.reason) != case.reason.code


OUTCOMES: Mapping[str, Scores | RunError] = {
    "good": GOOD,
    "bad": BAD,
    "low": both(1.0, 0.49),
    "crash": CRASH,
    "outage": OUTAGE,
    "stopped": STOPPED,
    "unscored": both(1.0, None),
    "unscored bad": both(0.0, None),
    "without a key": {"trajectory": 1.0, "response": NO_KEY},
}
OWN: Mapping[str, Scores | RunError] = {
    "5 does not pass": {"mine": (5.0, "failed")},
    "invalid": {"mine": INVALID},
    **{f"{value:g} {status}": {"mine": (value, status)} for value in (3.0, 7.0) for status in ("passed", "failed")},
}
"""Of a metric with the threshold 5 that says itself whether it passed: fewer may be better."""


LENIENT: Mapping[str, Scores] = {
    "unscored, and failed": {"lenient": 0.5, "response": None},
    "scored": {"lenient": 1.0, "response": 1.0},
}
"""Of a mean that passes although one run does not."""
THREE = ("good", "low", "bad", "outage", "unscored bad")


def test_merge__of_each_combination_of_runs() -> None:
    """UPDATE_GOLDEN=1 writes what becomes of their metrics, and of the case by the rate of runs that has to pass."""
    tables = [*itertools.product((OUTCOMES, OWN, LENIENT), (1, 2)), (THREE, 3)]
    lines = []
    for names in itertools.chain.from_iterable(itertools.combinations_with_replacement(*each) for each in tables):
        runs = [{**OUTCOMES, **OWN, **LENIENT}[name] for name in names]
        rates: dict[str, list[str]] = {}
        for rate in (1.0, 0.6666666667, 0.5, 0.0):
            case = judged(*runs, rate=rate)
            why = f": {text(case.reason)} ({case.reason.code})" if case.reason else ""
            rates.setdefault(f"{case.status}{why}", []).append(f"{rate:.2f}")
        metrics = [f"{one.name} {one.status} {one.score} {one.direction}" for one in case.metrics]
        lines.append(f"{' + '.join(names)}: {', '.join(metrics) or 'no metric'}")
        lines += [f"    {', '.join(each)}: {outcome}" for outcome, each in rates.items()]
    check("golden_merged.txt", "\n".join(lines) + "\n")


def test_merge__a_missing_key_hides_no_failure_and_only_rounding_is_forgiven() -> None:
    case = judged({"trajectory": 0.0, "response": NO_KEY})
    assert (case.status, case.runs[0].status, case.reason) == ("failed", "failed", judged(BAD).reason)
    assert judged(GOOD, GOOD, both(1.0, 0.49), rate=0.667).status == "failed"


def test_merge__the_mean_is_a_running_sum_and_an_informational_one_gates_nothing() -> None:
    runs: list[Scores | RunError] = [{"response": 0.1, "tokens": tokens} for tokens in [900.0, 100.0] * 5]
    response, tokens = judged(*runs, rate=0.0).metrics
    total = 0.0
    for _ in runs:
        total += 0.1
    assert response.score == total / 10
    assert total != 1.0, "the difference that a compensated sum would hide"
    assert (tokens.status, tokens.score) == ("informational", 500.0)
    assert judged({**GOOD, "tokens": 900.0}).status == "passed"


def test_merge__runs_and_cases_keep_their_order_and_a_later_run_replaces_its_namesake() -> None:
    parts = [part(2, BAD), part(0, BAD), part(1, CRASH), part(0, GOOD, case="a.json:two"), part(0, GOOD)]
    (case, other) = merge(parts, min_pass_rate=1.0)
    assert (case.case_id, other.case_id, other.status) == ("a.json:one", "a.json:two", "passed")
    assert [run.run for run in case.runs] == [0, 1, 2]
    assert [(score.run, score.score) for score in case.metrics[0].runs] == [(0, 1.0), (2, 0.0)]
    assert case.reason == Reason.of("min-pass-rate", passed=1, runs=3, rate=1.0)


# ADK's results of an eval set: as a recording, and written for `adk web`.


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def request(run: int = 0, eval_id: str = "lamp_off") -> SessionRequest:
    return SessionRequest(eval_set_id="other", eval_id=eval_id, run=run, app_name="a", user_id="u")


@pytest.mark.parametrize("form", ["object", "camelCase", "string", "two results of one case are its runs"])
async def test_recorded__answers_from_a_result(form: str, tmp_path: Path) -> None:
    value: Any = adk_result()
    expected = [ANSWERED]
    if form == "camelCase":
        [only] = adk_set_result(value).model_dump(by_alias=True)["evalCaseResults"]
        value = {"evalSetResultId": "x", "evalCaseResults": [only]}
    elif form.startswith("two"):
        value["eval_case_results"].append(json.loads(json.dumps(value["eval_case_results"][0]).replace(ANSWERED, "2")))
        expected.append("2")
    path = write(tmp_path / "x.evalset_result.json", json.dumps(value) if form == "string" else value)
    assert check_recording("recorded:x", path, []) == []
    agent = RecordedAgent(path)
    await agent.start()
    for run, answer in enumerate(expected):
        any_run = run if len(expected) == 2 else 3
        turn = await (await agent.open(request(any_run))).send(user_message(ASKED), timeout=1)
        assert text_of(turn.final_response) == answer
        assert [call.args for call in tool_calls(turn.intermediate_data)] == [{"on": False}]
    with pytest.raises(AgentFailure, match=r"has no run 3 of this case|has no case with this id"):
        await agent.open(request(2, "lamp_off" if len(expected) == 2 else "other"))
    await agent.close()


def test_models__keys_of_another_version_are_ignored_and_mistakes_are_not() -> None:
    value = adk_result()
    turn = value["eval_case_results"][0]["eval_metric_result_per_invocation"][0]
    for part in (turn, actual := turn["actual_invocation"], actual["intermediate_data"]["tool_uses"][0]):
        part["new_field"] = {"a": 1}
    result = adk_set_result(value)
    assert result.eval_case_results[0].eval_metric_result_per_invocation[0].actual_invocation.invocation_id == "e-1"
    actual["user_content"] = 3
    with pytest.raises(ValueError, match=r"eval_case_results\.0\.eval_metric_result_per_invocation\.0"):
        adk_set_result(value)


def test_models__deprecated_fields_only() -> None:
    named, scored = {"metric_name": "response_match_score", "threshold": 0.8}, {"score": 0.9, "eval_status": 1}
    old = {"eval_set_file": "lights", "eval_id": "lamp_off", "final_eval_status": 1, "session_id": "s"}
    [case] = adk_set_result({"evalCaseResults": [{**old, "eval_metric_results": [[named, scored]]}]}).eval_case_results
    assert case.eval_set_id == "lights"
    [metric] = case.overall_eval_metric_results
    assert (metric.metric_name, metric.threshold, metric.score) == ("response_match_score", 0.8, 0.9)
    assert metric.eval_status is AdkStatus.PASSED


def test_export__a_result_per_eval_file_and_run() -> None:
    """UPDATE_GOLDEN=1 writes them."""
    exports = list(adk_exports(stored(), {"evals/home.test.json": "home app"}))
    values = [adk_json(each.result) for each in exports]
    shown = [{"name": each.name, "file": each.file, **value} for each, value in zip(exports, values, strict=True)]
    check("golden_adk_results.json", json.dumps(shown, indent=1) + "\n")
    assert [adk_json(adk_set_result(value)) for value in values] == values
    assert list(adk_exports(stored(), {})) == []


@pytest.fixture
def adk_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with results of a run and an agent."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents" / "home").mkdir(parents=True)
    (tmp_path / "agent-eval-results").mkdir()
    report = stored().report
    files = [FileReport(file="evals/home.test.json", eval_set_id="home", agent="agents/home")]
    report = report.model_copy(update={"files": files})
    (tmp_path / "agent-eval-results" / "results.json").write_text(report.model_dump_json(), encoding="utf-8")
    return tmp_path


def test_export_adk__writes_to_the_agent_that_ran_or_the_named_one(adk_results: Path) -> None:
    (adk_results / "other").mkdir()
    for arguments, agent in (((), "agents/home"), (("--agent", "other"), "other"), ((), "agents/home")):
        assert main(["export", "adk", *arguments]) == 0
        written = list((adk_results / agent / ".adk" / "eval_history").glob("*.evalset_result.json"))
        assert len(written) == 1, "a second export writes the same file"
        assert written[0].name.startswith(f"{Path(agent).name}_home_")


@pytest.mark.parametrize("fault", ["no agent", "link", "outside", "no such directory"])
def test_export_adk__refusals_write_nothing(
    fault: str, adk_results: Path, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    path = adk_results / "agent-eval-results" / "results.json"
    arguments: list[str] = []
    if fault == "link":
        (adk_results / "agents" / "home" / ".adk").symlink_to(elsewhere)
    elif fault == "no such directory":
        arguments = ["--agent", "missing"]
    else:
        agent = "recorded:x.json" if fault == "no agent" else f"../{elsewhere.name}"
        path.write_text(path.read_text("utf-8").replace("agents/home", agent), encoding="utf-8")
    assert main(["export", "adk", *arguments]) == 2
    assert capsys.readouterr().err
    assert not list(adk_results.rglob("*.evalset_result.json"))
    assert not list(elsewhere.iterdir())


# Who gets what we wrote as root.


AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root writes files that are root's")
OWNER = 4242


@pytest.fixture
def root(tmp_path: Path) -> Path:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    os.chown(checkout, OWNER, OWNER)
    return checkout


def reply_in(folder: Path) -> Path:
    (folder / "ab").mkdir(parents=True)
    reply = folder / "ab" / "reply.json"
    reply.touch(mode=0o600)
    return reply


@AS_ROOT
def test_a_folder_in_the_checkout_or_outside__is_the_owners_and_a_link_gives_nothing_away(root: Path) -> None:
    inside, outside, missing = root / "deep" / "cache", root.parent / "temp" / "cache", root / "cache"
    for folder in (inside, outside):
        reply_in(folder)
        give_to_owner(folder, root)
        assert {path.stat().st_uid for path in (folder, *folder.rglob("*"))} == {OWNER}
    assert (root / "deep").stat().st_uid == OWNER
    assert outside.parent.stat().st_uid == 0, "it was there"
    give_to_owner(missing, root)
    assert not missing.exists()
    # A link of the checkout gives nothing away.
    reply = reply_in(root.parent / "elsewhere")
    (root / "cache").symlink_to(root.parent / "elsewhere")
    (root / "linked").symlink_to(root.parent)
    for folder in (root / "cache", root / "linked" / "elsewhere"):
        give_to_owner(folder, root)
    assert reply.stat().st_uid == 0


def test_merge__a_single_part_that_is_right_is_the_case() -> None:
    for part in merge([good("c"), wrong_room()], min_pass_rate=1.0):
        assert merge([part], min_pass_rate=1.0)[0] is part
        [made] = merge([part.changed(status="errored", reason=None)], min_pass_rate=1.0)
        assert made == part


def test_read_report__equal_metrics_are_one_and_others_stay() -> None:
    report = SAMPLES["passed"]()
    zero = metric("m", 0.0, threshold=None), metric("m", -0.0, threshold=None), metric("m", 0.0, threshold=0.5)
    with_texts = wrong_room().metrics
    report.cases = [
        good(f"c{number}").changed(metrics=metrics, case_id=f"c{number}")
        for number, metrics in enumerate([[metric("m", 1.0, threshold=0.5), *zero, *with_texts]] * 2)
    ]
    read = read_report(results_json(report).encode(), "It")
    assert isinstance(read, RunReport)
    assert results_json(read) == results_json(report)
    same = [one is other for one, other in zip(*(case.metrics for case in read.cases), strict=True)]
    assert same == [True] * 4 + [not any(run.evidence or run.details for run in each.runs) for each in with_texts]
    assert len({id(each) for each in read.cases[0].metrics[:4]}) == 4


@pytest.mark.parametrize("name", SAMPLES)
def test_read_report__what_was_read_is_written_the_same(name: str) -> None:
    written = results_json(SAMPLES[name]())
    read = read_report(written.encode(), "It")
    assert name == "hostile" or (isinstance(read, RunReport) and results_json(read) == written)
