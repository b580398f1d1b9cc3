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
    ("cases", "is_cause"),
    [
        ([KEYLESS], True),
        ([case("passed"), KEYLESS, case("not_run", kind="without-key")], True),
        ([case("errored", kind="simulator-no-credentials")], True),
        ([case("errored", metric="judge-no-credentials")], True),
        ([], False),
        ([case("passed")], False),
        ([KEYLESS, case("errored", kind="provider-unavailable")], False),
        ([KEYLESS, case("not_run", kind="run-timeout")], False),
        ([case("errored")], False),
        ([case("errored", metric="judge-unavailable")], False),
    ],
)
@pytest.mark.parametrize("is_fork", [True, False])
def test_no_secrets__is_the_cause_of_everything_or_of_nothing(
    cases: list[CaseReport], is_cause: bool, is_fork: bool
) -> None:
    found = no_secrets(cases, is_fork=is_fork)
    assert (found and found.data) == ({"is_fork": is_fork} if is_cause else None)
