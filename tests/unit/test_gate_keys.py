"""Why a run without secrets came to no verdict."""

from __future__ import annotations

import pytest

from agent_eval.gate.caveats import no_secrets
from agent_eval.results.recording import RunError
from agent_eval.results.report import CaseReport, CaseStatus, MetricReport, Reason, RunResult, RunScore


def case(status: CaseStatus, *, kind: str = "", no_key: bool = False, metric: str = "") -> CaseReport:
    error = RunError(kind=kind, owner="provider", message="No.", no_key=no_key) if kind else None
    metrics = []
    if metric:
        reason = Reason(code=metric, message="No key.")
        runs = [RunScore(run=0, status="not_evaluated", reason=reason)]
        metrics = [MetricReport(name="safety_v1", threshold=0.8, status="not_evaluated", reason=reason, runs=runs)]
    return CaseReport(
        case_id="a", file="a", eval_set_id="a", eval_id="a", status=status, metrics=metrics,
        runs=[RunResult(run_id="a#1", run=0, status=status, error=error)],
    )  # fmt: skip


KEYLESS = case("errored", kind="provider-unavailable", no_key=True)


@pytest.mark.parametrize(
    "cases",
    [
        [KEYLESS],
        [case("passed"), KEYLESS, case("not_run", kind="without-key")],
        [case("errored", kind="simulator-no-credentials")],
        [case("errored", metric="judge-no-credentials")],
    ],
    ids=["agent", "agent and judge", "simulator", "judge"],
)
def test_no_secrets__is_the_cause(cases: list[CaseReport]) -> None:
    fork, dependabot = no_secrets(cases, is_fork=True), no_secrets(cases, is_fork=False)
    assert fork is not None and fork.data == {"is_fork": True}
    assert dependabot is not None and dependabot.data == {"is_fork": False}


@pytest.mark.parametrize(
    "cases",
    [
        [],
        [case("passed")],
        [KEYLESS, case("errored", kind="provider-unavailable")],
        [KEYLESS, case("not_run", kind="run-timeout")],
        [case("errored")],
        [case("errored", metric="judge-unavailable")],
    ],
    ids=["no case", "all passed", "an outage too", "the time was over", "no reason", "the judge was down"],
)
def test_no_secrets__is_not_the_cause(cases: list[CaseReport]) -> None:
    assert no_secrets(cases, is_fork=True) is None
