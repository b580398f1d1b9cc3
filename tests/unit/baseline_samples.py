"""Results of base runs, and artifacts with them."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Mapping
from typing import Any

from agent_eval.results.report import (
    CaseReport,
    CaseStatus,
    MetricReport,
    MetricStatus,
    Origin,
    RunReport,
    RunResult,
    RunScore,
)

REPOSITORY = "octo/bots"
WORKFLOW = ".github/workflows/evals.yml"
RESPONSE = "response_match_score"


def sha(number: int) -> str:
    return f"{number:040x}"


def measured(
    score: float | None, *, name: str = RESPONSE, judge: str | None = None, fingerprint: str = "f"
) -> MetricReport:
    status: MetricStatus = "not_evaluated" if score is None else "passed" if score >= 0.8 else "failed"
    return MetricReport(
        name=name,
        score=score,
        threshold=0.8,
        status=status,
        judge=judge,
        fingerprint=fingerprint,
        runs=[RunScore(run=0, score=score, status=status)],
    )


def case(eval_id: str, status: CaseStatus = "passed", *metrics: MetricReport, fingerprint: str = "c") -> CaseReport:
    scores: dict[CaseStatus, float] = {"passed": 1.0, "failed": 0.25, "quarantined": 0.25}
    return CaseReport(
        case_id=f"evals/a.test.json:{eval_id}",
        file="evals/a.test.json",
        eval_set_id="a",
        eval_id=eval_id,
        status=status,
        fingerprint=f"{fingerprint}-{eval_id}" if fingerprint else "",
        metrics=list(metrics) or [measured(scores.get(status))],
        runs=[RunResult(run_id=f"{eval_id}#1", run=0, status=status, duration=0.5)],
    )


def results(*cases: CaseReport, origin: Origin | None = None, **changes: Any) -> RunReport:
    listed = list(cases) or [case("one"), case("two")]
    facts: dict[str, Any] = {
        "tool_version": "1.0.0",
        "verdict": "failed" if any(item.status == "failed" for item in listed) else "passed",
        "started_at": 1_790_000_000.0,
        "duration": 3.0,
        "num_runs": 1,
        "min_pass_rate": 1.0,
        "origin": origin,
        "cases": listed,
    }
    return RunReport(**facts | changes)


def wire(report: RunReport) -> bytes:
    return report.model_dump_json().encode()


def zipped(*files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Files of one name can be in it twice, each of another mapping."""
    data = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(data, "w", method) as archive:
        warnings.simplefilter("ignore")
        for name, content in (item for some in files for item in some.items()):
            archive.writestr(name, content)
    return data.getvalue()


def artifact(report: RunReport) -> bytes:
    """As actions/upload-artifact makes it of the output directory."""
    return zipped({"results.json": wire(report), "junit.xml": b"<testsuites/>", "logs/bot/worker-1.log": b"started\n"})
