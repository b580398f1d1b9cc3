"""The first line of every text: the decision and its cause."""

from __future__ import annotations

import pytest
from comparison_samples import SITUATIONS, but, fine_cases, pull_request
from report_samples import case, crash, good, metric, outage, report, wrong_room

from agent_eval.report.phrases import next_step, next_text
from agent_eval.report.phrases._headline import headline, headline_status, other_reasons
from agent_eval.report.renderers import annotation_commands, comment_markdown, console, summary_markdown
from agent_eval.report.views import view_of
from agent_eval.results.decision import DecisionReasonReport, DecisionReport
from agent_eval.results.recording import RunError
from agent_eval.results.report import Origin, Reason, RunReport


def said(run_report: RunReport) -> str:
    return headline(view_of(run_report))


def then(run_report: RunReport) -> str:
    return next_text(next_step(view_of(run_report)))


def test_headline__one_case_and_many() -> None:
    assert said(report("passed", [good("x")])) == "Passed: the only case passes"
    assert said(report("passed", [good(str(number)) for number in range(1_200)])) == "Passed: all 1,200 cases pass"


def test_headline__inconclusive_by_errors_and_cases_that_did_not_run() -> None:
    assert said(report("inconclusive", [outage(), good("x")])) == (
        "Can't tell: the model's provider failed in 1 of 2 cases"
    )
    reason = Reason(code="judge-unavailable", message="The judge: 503")
    unscored = case("x", "errored", metric("safety_v1", None, threshold=0.5, reason=reason))
    assert said(report("inconclusive", [unscored, good("y")])) == "Can't tell: 1 of 2 cases could not be evaluated"
    stopped = report("inconclusive", [case("x", "not_run"), good("y")])
    assert said(stopped) == "Can't tell: 1 of 2 cases did not run"


@pytest.mark.parametrize(
    ("kinds", "what"),
    [
        (["server-unavailable"] * 2, "a server that the agent needs failed in 2 of 2 cases"),
        (["agent-environment"] * 2, "the installation of the agent's packages failed in 2 of 2 cases"),
        (["server-unavailable", "provider-unavailable"], "2 of 2 cases could not be evaluated"),
    ],
)
def test_headline__an_outage_is_of_what_failed(kinds: list[str], what: str) -> None:
    errors = [RunError(kind=kind, owner="provider", message="It is away.") for kind in kinds]
    cases = [case(f"case_{number}", "errored", errors={0: error}) for number, error in enumerate(errors)]
    assert said(report("inconclusive", cases)) == f"Can't tell: {what}"


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("judge-invalid-request", "fix `judge-model` or its key"),
        ("simulator-invalid-request", "fix the model of the simulated user or its key"),
        ("judge-replay-miss", "record the judge's replies again"),
        ("judge-no-credentials", "give the job a model key"),
        ("judge-unavailable", "run it again"),
        ("run-timeout", "raise `run-timeout`"),
        ("stopped", "run it again"),
    ],
)
def test_next_step__starting_the_job_again_is_advised_only_if_it_helps(code: str, remedy: str) -> None:
    reason = Reason(code=code, message="The judge: 404")
    unscored = case("x", "errored", metric("safety_v1", None, threshold=0.5, reason=reason))
    missing = unscored if code.startswith(("judge", "simulator")) else case("x", "not_run", reason=reason)
    assert then(report("inconclusive", [missing, good("y")])) == remedy


def test_hint__of_an_installation_that_a_server_ended_is_shown() -> None:
    hint = "The package index could not be reached: run the job again, or check UV_DEFAULT_INDEX and the proxies."
    error = RunError(kind="agent-environment", owner="provider", message="uv ended with exit code 2", hint=hint)
    run_report = report("inconclusive", [case("x", "errored", errors={0: error})])
    for text in (console(run_report), summary_markdown(run_report), comment_markdown(run_report)):
        assert "or check UV" in " ".join(text.replace("\\", "").split())


def test_headline__failed_with_everything() -> None:
    run_report = report("failed", [wrong_room(), outage(), case("x", "not_run"), case("y", "quarantined"), good("z")])
    assert said(run_report) == "Failed: 1 of 5 cases fails, 1 could not be evaluated, 1 did not run, 1 quarantined"


def test_headline__of_a_single_case() -> None:
    assert said(report("failed", [wrong_room()])) == "Failed: the only case fails"
    assert said(report("inconclusive", [outage()])) == "Can't tell: the model's provider failed in the only case"


def test_headline__a_reason_is_shown_where_no_number_explains() -> None:
    reason = Reason(code="no-cases", message="nothing was gated\nmore")
    assert said(report("failed", [], reasons=[reason])) == "Failed: nothing was gated"
    assert said(report("invalid", [], reasons=[reason])) == "Invalid: nothing was gated; nothing was run"
    assert said(report("inconclusive", [])) == "Can't tell: no reason was recorded"
    assert said(report("passed", [wrong_room()], reasons=[reason])) == "nothing was gated", "green, and nothing shown"


@pytest.mark.parametrize(("number", "event"), [(7, "pull_request"), (None, "merge_group")])
def test_headline__speaks_of_the_merge_where_there_is_one(number: int | None, event: str) -> None:
    run_report = report("failed", [wrong_room(), good("x")])
    run_report.origin = Origin(pull_request=number, event=event)
    assert said(run_report) == "Blocks the merge: 1 of 2 cases fails"
    run_report.origin = Origin(event="push")
    assert said(run_report) == "Failed: 1 of 2 cases fails"


def test_headline__an_agent_that_never_ran_is_the_cause() -> None:
    run_report = SITUATIONS["import-error"]().report
    assert said(run_report) == "Blocks the merge: the agent can't be imported, so none of 22 cases ran"
    other = good("x", file="evals/other.test.json")
    mixed = run_report.model_copy(update={"cases": [*run_report.cases, other]})
    assert said(mixed) == "Blocks the merge: the agent can't be imported, so 22 of 23 cases did not run"


def test_headline__cases_that_are_worse_only_together() -> None:
    head = but(wrong_room())
    word = {"case_id": head[3].case_id, "metric": "pass", "word": "suspicious", "evidence": ""}
    reason = DecisionReasonReport(code="cases-worse-together", message="x")
    decision = DecisionReport.model_validate({"outcome": "failed", "alpha": 0.05, "cases": [word], "reasons": [reason]})
    run_report = pull_request("failed", head, fine_cases(), decision=decision)
    assert (
        said(run_report)
        == "Blocks the merge: 1 suspected regression (thermostat_in_bedroom), significant with the other cases"
    )


def test_headline__an_advisory_gate_says_what_it_would_have_done() -> None:
    reason = Reason(code="advisory", message="Would fail: 1 of 8 cases; exit 0 because gate is advisory")
    run_report = pull_request("passed", but(wrong_room()), fine_cases(), reasons=[reason])
    run_report.gate = "advisory"
    blocked = said(pull_request("failed", but(wrong_room()), fine_cases())).removeprefix("Blocks the merge: ")
    assert said(run_report) == f"Does not block, since `gate` is `advisory`: {blocked}"
    assert headline_status(run_report) == "warning"


def test_headline__green_by_a_setting_says_so() -> None:
    run_report = report("inconclusive", [outage()])
    run_report.exit_code = 0
    assert said(run_report) == (
        "Can't tell: nothing was evaluated, the only case ended with an error; "
        "exit 0 because `on-inconclusive` is `pass`"
    )


def test_other_reasons__are_those_that_neither_headline_nor_table_say() -> None:
    reasons = [
        Reason(code="failed", message="1 of 1 case"),
        Reason(code="case-worse", message="1 case is worse: " + "a long list " * 40),
        Reason(code="x", message="min-pass-rate is 0.9"),
    ]
    run_report = report("failed", [wrong_room(), crash()], reasons=reasons)
    assert other_reasons(view_of(run_report)) == ["min-pass-rate is 0.9"]


def test_headline__a_recording_without_the_cases_has_no_answer_and_does_not_crash() -> None:
    error = RunError(kind="agent-no-answer", owner="agent", message="The recording has no case x", turn=0)
    silent = [case(name, "failed", errors={0: error}) for name in "xy"]

    alone = report("failed", silent)
    assert said(alone) == "Failed: 2 of 2 cases have no answer"
    assert said(report("failed", [silent[0], crash()])) == "Failed: 1 of 2 cases has no answer, 1 more crashes"
    assert said(pull_request("failed", silent, [good("x"), good("y")])) == (
        "Blocks the merge: 2 of 2 cases no longer answer"
    )
    assert "crash" not in console(alone) + summary_markdown(alone) + "".join(annotation_commands(alone))


def test_other_reasons__do_not_repeat_what_an_advisory_gate_would_say() -> None:
    reason = Reason(code="advisory", message="Would fail: 1 of 8 cases; exit 0 because `gate` is `advisory`")
    run_report = pull_request("passed", but(wrong_room()), fine_cases(), reasons=[reason])
    run_report.gate = "advisory"
    assert other_reasons(view_of(run_report)) == []


def test_headline__a_case_that_never_ran_again_is_suspected_and_no_regression() -> None:
    """Where another case had decided, nothing was run again: one failure of one run is no regression."""
    head = but(wrong_room(), crash())
    decision = DecisionReport(outcome="failed", alpha=0.05)
    run_report = pull_request("failed", head, fine_cases(), decision=decision)
    run_report.blocking = [item.case_id for item in head if item.eval_id == "garage_door"]

    assert said(run_report) == (
        "Blocks the merge: 1 regression vs. main (garage_door), 1 suspected regression (thermostat_in_bedroom)"
    )


def test_next_step__dependabot_needs_its_own_secret() -> None:
    run_report = SITUATIONS["fork-without-key"]().report
    run_report.reasons = [Reason.of("no-secrets", is_fork=False)]
    assert then(run_report) == "add the model key to Dependabot's secrets, then run the failed job again"


def test_next_step__recorded_answers_are_not_asked_to_run_again() -> None:
    run_report = SITUATIONS["too-few-runs"]().report
    run_report.reasons[0].code = "recorded-answers"
    assert then(run_report) == "record the answers again, or use `gate: thresholds`"


def test_headline__cases_that_were_edited_here_are_not_taken_for_those_of_main() -> None:
    cases = fine_cases()
    cases[0].fingerprint = cases[1].fingerprint = "asks something else"
    run_report = pull_request("passed", cases, fine_cases())
    assert said(run_report) == "Does not block: no regressions, all 8 cases pass; 2 cases were changed here"


def test_headline__a_custom_metric_that_breaks_is_no_crash_of_the_agent() -> None:
    broken = metric("euros", None, threshold=0.5)
    broken.runs[0].error = RunError(kind="custom-metric-invalid-result", owner="agent", message="returned None")
    cases = [case(name, "failed", broken) for name in ("milk", "bread")]
    assert said(report("failed", cases)) == "Failed: 2 of 2 cases fail by an error of a custom metric"


def test_headline__an_agent_that_takes_too_long_does_not_crash() -> None:
    late = {0: RunError(kind="deadline", owner="agent", message="The agent did not answer within 5 s")}
    slow = [case(name, "failed", errors=late) for name in ("milk", "bread")]
    assert said(report("failed", slow)) == "Failed: 2 of 2 cases time out"
    assert said(report("failed", [*slow, crash()])) == "Failed: 3 of 3 cases fail (1 crashes)"
    assert "The agent did not answer within 5 s" in console(report("failed", slow[:1]))
    assert any("title=milk timed out" in line for line in annotation_commands(report("failed", slow[:1])))


def test_headline__a_reason_behind_a_colon_begins_small() -> None:
    reason = Reason(code="nothing-scored", message="Nothing was evaluated: none of 8 cases was scored")
    run_report = pull_request("inconclusive", fine_cases(), fine_cases(), reasons=[reason])
    assert said(run_report).endswith("blocks until it can: nothing was evaluated: none of 8 cases was scored")


def test_headline__suspected_regressions_are_not_counted_as_regressions() -> None:
    """Something else than the comparison fails the run, e.g. an error of the agent."""
    run_report = SITUATIONS["tool-broken"]().report
    assert run_report.decision is not None
    run_report.decision.outcome = "inconclusive"
    assert said(run_report).startswith("Blocks the merge: 4 regressions vs. main in 12 cases, 2 suspected regressions")
