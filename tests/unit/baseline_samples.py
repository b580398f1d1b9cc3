"""Results of base runs, and artifacts with them."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Mapping
from typing import Any

import report_samples
from report_samples import RESPONSE, metric, report

from agent_eval_results.data.report import CaseReport, CaseStatus, MetricReport, RunReport

REPOSITORY = "octo/bots"
WORKFLOW = ".github/workflows/evals.yml"


def sha(number: int) -> str:
    return f"{number:040x}"


def measured(
    score: float | None, *, name: str = RESPONSE, judge: str | None = None, fingerprint: str = "f"
) -> MetricReport:
    made = metric(name, score, threshold=0.8)
    made.judge, made.fingerprint = judge, fingerprint
    return made


def case(eval_id: str, status: CaseStatus = "passed", *metrics: MetricReport, fingerprint: str = "c") -> CaseReport:
    scores: dict[CaseStatus, float] = {"passed": 1.0, "failed": 0.25, "quarantined": 0.25}
    judged = metrics or (measured(scores.get(status)),)
    made = report_samples.case(eval_id, status, *judged, file="evals/a.test.json", line=None, duration=0.5)
    made.fingerprint = f"{fingerprint}-{eval_id}" if fingerprint else ""
    for run in made.runs:
        run.turns = 0
    return made


def results(*cases: CaseReport, **changes: Any) -> RunReport:
    listed = list(cases) or [case("one"), case("two")]
    made = report("failed" if any(item.status == "failed" for item in listed) else "passed", listed)
    return RunReport.model_validate({**dict(made), "provenance": {}, "files": [], **changes})


def wire(run: RunReport) -> bytes:
    return run.model_dump_json().encode()


def zipped(*files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Files of one name can be in it twice, each of another mapping."""
    data = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(data, "w", method) as archive:
        warnings.simplefilter("ignore")
        for name, content in (item for some in files for item in some.items()):
            archive.writestr(name, content)
    return data.getvalue()


def artifact(run: RunReport) -> bytes:
    """As actions/upload-artifact makes it of the output directory."""
    return zipped({"results.json": wire(run), "junit.xml": b"<testsuites/>", "logs/bot/worker-1.log": b"started\n"})
