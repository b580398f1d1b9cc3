"""The first line of every text, the decision and its cause, and what to do next. UPDATE_GOLDEN=1 writes them."""

from __future__ import annotations

from collections.abc import Iterator

from comparison_samples import SITUATIONS, but, fine_cases, pull_request
from golden_files import check
from report_samples import case, crash, good, metric, outage, report, wrong_room

from agent_eval.report.phrases import next_step, next_text
from agent_eval.report.phrases._headline import headline, headline_status, other_reasons
from agent_eval.report.renderers import annotation_commands, comment_markdown, console, summary_markdown
from agent_eval.report.views import view_of
from agent_eval.results.decision import DecisionReasonReport, DecisionReport
from agent_eval.results.recording import RunError
from agent_eval.results.report import CaseReport, Origin, Reason, RunReport


def ended_by(*kinds: str, status: str = "failed") -> list[CaseReport]:
    """A case for each kind of error that ended it."""
    errors = [
        RunError(kind=kind, owner="agent" if status == "failed" else "provider", message="It is away.")
        for kind in kinds
    ]
    cases = [case(name, "failed", errors={0: error}) for name, error in zip("xyz", errors, strict=False)]
    return [item.model_copy(update={"status": status}) for item in cases]


def advisory(message: str = "Would fail: 1 of 8 cases; exit 0 because gate is advisory") -> RunReport:
    reason = Reason(code="advisory", message=message)
    made = pull_request("passed", but(wrong_room()), fine_cases(), reasons=[reason])
    made.gate = "advisory"
    return made


def one_run() -> Iterator[tuple[str, RunReport]]:
    """Runs that are compared with nothing."""
    reason = Reason(code="no-cases", message="nothing was gated\nmore")
    yield "one case passes", report("passed", [good("x")])
    yield "many pass", report("passed", [good(str(number)) for number in range(1_200)])
    yield "one case fails", report("failed", [wrong_room()])
    yield (
        "everything",
        report("failed", [wrong_room(), outage(), case("x", "not_run"), case("y", "quarantined"), good("z")]),
    )
    yield "no case", report("failed", [], reasons=[reason])
    yield "an invalid run", report("invalid", [], reasons=[reason])
    yield "no reason", report("inconclusive", [])
    yield "green, and nothing shown", report("passed", [wrong_room()], reasons=[reason])
    yield "an outage in the only case", report("inconclusive", [outage()])
    yield "an outage", report("inconclusive", [outage(), good("x")])
    green = report("inconclusive", [outage()])
    green.exit_code = 0
    yield "green by on-inconclusive", green
    for kinds in (
        ["server-unavailable"] * 2,
        ["agent-environment"] * 2,
        ["server-unavailable", "provider-unavailable"],
    ):
        yield f"an outage of {kinds}", report("inconclusive", ended_by(*kinds, status="errored"))
    yield "a recording without the cases", report("failed", ended_by("agent-no-answer", "agent-no-answer"))
    yield "no answer, and a crash", report("failed", [*ended_by("agent-no-answer"), crash()])
    yield "all too slow", report("failed", ended_by("deadline", "deadline"))
    yield "too slow, and a crash", report("failed", [*ended_by("deadline", "deadline"), crash()])
    broken = metric("euros", None, threshold=0.5)
    broken.runs[0].error = RunError(kind="custom-metric-invalid-result", owner="agent", message="returned None")
    yield "a custom metric breaks", report("failed", [case(name, "failed", broken) for name in ("milk", "bread")])
    for number, event in ((7, "pull_request"), (None, "merge_group"), (None, "push")):
        made = report("failed", [wrong_room(), good("x")])
        made.origin = Origin(pull_request=number, event=event)
        yield f"on {event}", made


def not_evaluated() -> Iterator[tuple[str, RunReport]]:
    """Cases without a score or a run, for a reason that a new start helps against or does not."""
    yield "not run", report("inconclusive", [case("x", "not_run"), good("y")])
    for code in (
        *("judge-invalid-request", "simulator-invalid-request", "judge-replay-miss", "judge-no-credentials"),
        *("judge-unavailable", "run-timeout", "stopped"),
    ):
        reason = Reason(code=code, message="The judge: 404")
        unscored = case("x", "errored", metric("safety_v1", None, threshold=0.5, reason=reason))
        missing = unscored if code.startswith(("judge", "simulator")) else case("x", "not_run", reason=reason)
        yield code, report("inconclusive", [missing, good("y")])


def compared() -> Iterator[tuple[str, RunReport]]:
    """Runs of pull requests."""
    imported = SITUATIONS["import-error"]().report
    yield (
        "some are not imported",
        imported.model_copy(update={"cases": [*imported.cases, good("x", file="evals/other.test.json")]}),
    )
    head = but(wrong_room())
    word = {"case_id": head[3].case_id, "metric": "pass", "word": "suspicious", "evidence": ""}
    together = DecisionReasonReport(code="cases-worse-together", message="x")
    decision = {"outcome": "failed", "alpha": 0.05, "cases": [word], "reasons": [together]}
    yield (
        "worse only together",
        pull_request("failed", head, fine_cases(), decision=DecisionReport.model_validate(decision)),
    )
    yield "advisory", advisory()
    silent = ended_by("agent-no-answer", "agent-no-answer")
    yield "no longer an answer", pull_request("failed", silent, [good("x"), good("y")])
    # Where another case had decided, nothing was run again: one failure of one run is no regression.
    head = but(wrong_room(), crash())
    once = pull_request("failed", head, fine_cases(), decision=DecisionReport(outcome="failed", alpha=0.05))
    once.blocking = [item.case_id for item in head if item.eval_id == "garage_door"]
    yield "one that never ran again is suspected", once
    dependabot = SITUATIONS["fork-without-key"]().report
    dependabot.reasons = [Reason.of("no-secrets", is_fork=False)]
    yield "dependabot", dependabot
    recorded = SITUATIONS["too-few-runs"]().report
    recorded.reasons[0].code = "recorded-answers"
    yield "recorded answers", recorded
    cases = fine_cases()
    cases[0].fingerprint = cases[1].fingerprint = "asks something else"
    yield "edited cases are not those of main", pull_request("passed", cases, fine_cases())
    nothing = Reason(code="nothing-scored", message="Nothing was evaluated: none of 8 cases was scored")
    yield "nothing scored", pull_request("inconclusive", fine_cases(), fine_cases(), reasons=[nothing])
    # Something else than the comparison fails the run, e.g. an error of the agent.
    suspected = SITUATIONS["tool-broken"]().report
    assert suspected.decision is not None
    suspected.decision.outcome = "inconclusive"
    yield "suspected ones are not counted as regressions", suspected


def test_headline__and_next_step_of_every_situation() -> None:
    situations = [*one_run(), *not_evaluated(), *compared()]
    lines = [
        f"{name}: {headline(view_of(made))}\n    {next_text(next_step(view_of(made)))}\n" for name, made in situations
    ]
    check("golden_headlines.txt", "".join(lines))


def test_headline__an_advisory_gate_says_what_it_would_have_done() -> None:
    blocked = headline(view_of(pull_request("failed", but(wrong_room()), fine_cases())))
    assert headline(view_of(advisory())).endswith(f": {blocked.removeprefix('Blocks the merge: ')}")
    assert headline_status(advisory()) == "warning"


def test_hint__of_an_installation_that_a_server_ended_is_shown() -> None:
    hint = "The package index could not be reached: run the job again, or check UV_DEFAULT_INDEX and the proxies."
    error = RunError(kind="agent-environment", owner="provider", message="uv ended with exit code 2", hint=hint)
    run_report = report("inconclusive", [case("x", "errored", errors={0: error})])
    for text in (console(run_report), summary_markdown(run_report), comment_markdown(run_report)):
        assert "or check UV" in " ".join(text.replace("\\", "").split())


def test_headline__what_did_not_answer_does_not_crash_elsewhere() -> None:
    alone = report("failed", ended_by("agent-no-answer", "agent-no-answer"))
    assert "crash" not in console(alone) + summary_markdown(alone) + "".join(annotation_commands(alone))
    slow = report("failed", ended_by("deadline"))
    assert "It is away." in console(slow)
    assert any("title=x timed out" in line for line in annotation_commands(slow))


def test_other_reasons__are_those_that_neither_headline_nor_table_say() -> None:
    reasons = [
        Reason(code="failed", message="1 of 1 case"),
        Reason(code="case-worse", message="1 case is worse: " + "a long list " * 40),
        Reason(code="x", message="min-pass-rate is 0.9"),
    ]
    run_report = report("failed", [wrong_room(), crash()], reasons=reasons)
    assert other_reasons(view_of(run_report)) == ["min-pass-rate is 0.9"]
    assert other_reasons(view_of(advisory())) == [], "the headline has it"
