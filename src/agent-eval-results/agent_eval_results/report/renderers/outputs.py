"""The outputs of the GitHub action: the text that is appended to the file `GITHUB_OUTPUT` names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from agent_eval_results import Change, RunReport
from agent_eval_results.outcome import change_counts
from agent_eval_results.report.views import digest, view_of

FILE_OUTPUTS = ("results-file", "junit-file", "summary-file", "recordings-file", "cases-file", "report-file")
"""Paths of what was written; an output is empty when its file was not written."""

OUTPUTS: Mapping[str, str] = {
    "verdict": "passed, failed, inconclusive or invalid.",
    "total": "Number of eval cases.",
    "passed": "Number of cases that passed.",
    "failed": "Number of cases that failed, by a score or by an error of the agent.",
    "errored": "Number of cases that could not be evaluated.",
    "pass-rate": "Share of passed cases among passed and failed cases, from 0 to 1; empty if there are none.",
    "newly-failing": "Number of cases that fail and did not fail on the base branch; empty without a comparison.",
    "regressions": "Number of regressions: by the statistical test if there is one, else the newly failing "
    "cases; empty without a comparison.",
    "fixed": "Number of cases that pass and did not pass on the base branch; empty without a comparison.",
    "changed-answers": "Number of cases that answer or act otherwise than on the base branch; empty without a "
    "comparison.",
    "base-worse": "true if the base branch, or a case there, got worse over its last runs; else empty.",
    "metrics": "Mean score of each metric, here and on the base branch, and the difference, as JSON: "
    '{"NAME": {"score": 0.9, "base": 1.0, "delta": -0.1}}.',
    "baseline": "found, none-yet, fetch-failed or incompatible; empty if there is nothing to compare with.",
    "baseline-sha": "Commit of the base branch's results, if there are any.",
    "baseline-source": "artifact, file or rerun, if a baseline was found.",
    "comment-url": "URL of the pull-request comment, if there is one.",
    "results-file": "Path of results.json.",
    "junit-file": "Path of junit.xml.",
    "summary-file": "Path of summary.md.",
    "recordings-file": "Path of recordings.jsonl.gz.",
    "cases-file": "Path of cases.jsonl.gz.",
    "report-file": "Path of report.html.",
}
"""Every output by name, with its description (the same as in action.yml)."""

_MOST_METRICS = 100
_LONGEST_NAME = 200
"""Of a metric: GitHub allows the outputs of a job 1 MB in all."""
_DELIMITER = re.compile(r"[0-9A-Za-z_-]{16,}")


def output_values(report: RunReport, paths: Mapping[str, str]) -> dict[str, str]:
    """Every output's value, in the order of `OUTPUTS`. `comment-url` follows later, if there is a comment.

    Args:
        report: The report.
        paths: Paths of the written files by their output's name, relative to the workspace.

    Raises:
        ValueError: If `paths` names something that is not a file output.
    """
    if unknown := set(paths) - set(FILE_OUTPUTS):
        raise ValueError(f"not a file output: {', '.join(sorted(unknown))}")
    totals = report.totals
    values = {
        "verdict": report.verdict,
        "total": str(totals.cases),
        "passed": str(totals.passed),
        "failed": str(totals.failed),
        "errored": str(totals.errored),
        "pass-rate": "" if totals.pass_rate is None else _rate(totals.pass_rate),
        "newly-failing": _count(report, "newly_failing"),
        "regressions": _regressions(report),
        "fixed": _count(report, "fixed"),
        "changed-answers": "" if report.comparison is None else str(len(report.comparison.changed_answers)),
        "base-worse": "true" if report.base_worse else "",
        "metrics": _metrics(report),
        "baseline": report.baseline.status if report.baseline is not None else "",
        "baseline-sha": (report.baseline.commit if report.baseline is not None else None) or "",
        "baseline-source": (report.baseline.source if report.baseline is not None else None) or "",
        "comment-url": "",  # The runner takes the last value of an output.
    }
    return values | {name: paths.get(name, "") for name in FILE_OUTPUTS}


def _count(report: RunReport, change: Change) -> str:
    return "" if report.comparison is None else str(change_counts(report.comparison)[change])


def _regressions(report: RunReport) -> str:
    """Regressions as every text names them; suspected ones are not among them."""
    if report.comparison is None:
        return ""
    return str(view_of(report).outcome.standings.get("regression", 0))


def _metrics(report: RunReport) -> str:
    compared = {metric.name: metric for metric in report.comparison.metrics} if report.comparison is not None else {}
    metrics: dict[str, dict[str, float | None]] = {}
    for row in digest.metric_rows(report)[:_MOST_METRICS]:
        comparison = compared.get(row.name)
        # As in the texts: where both sides have comparable cases, all three numbers are about those.
        score = comparison.score if comparison is not None and comparison.cases else None
        head, base, delta = (row.mean, None, None) if score is None else (score.head, score.base, score.delta)
        metrics[row.name[:_LONGEST_NAME]] = {
            name: None if value is None else round(value, 6)
            for name, value in {"score": head, "base": base, "delta": delta}.items()
        }
    return json.dumps(metrics)


def _rate(value: float) -> str:
    """At most six decimals, and 0 and 1 for those values only: workflows compare."""
    if value in {0.0, 1.0}:
        return f"{value:.0f}"
    return f"{min(max(value, 0.000001), 0.999999):.6f}".rstrip("0")


def github_outputs(report: RunReport, paths: Mapping[str, str], delimiter: str) -> str:
    """The text to append to the file.

    Each value is between two lines with an unpredictable delimiter, so that no value can add another output (GitHub's
    documentation of workflow commands, "multiline strings").

    Args:
        report: The report.
        paths: Paths of the written files by their output's name.
        delimiter: Random, new for each file; at least 16 letters, digits, `-` or `_`.

    Raises:
        ValueError: If the delimiter is too short or occurs in a value, or `paths` has an unknown name.
    """
    if not _DELIMITER.fullmatch(delimiter):
        raise ValueError("a delimiter needs at least 16 letters, digits, - or _")
    values = output_values(report, paths)
    if any(delimiter in value for value in values.values()):
        raise ValueError("the delimiter occurs in a value: take another one")
    return "".join(_written(name, value, delimiter) for name, value in values.items())


def one_output(name: str, value: str, delimiter: str) -> str:
    """The text to append to the file for one output.

    Args:
        name: One of `OUTPUTS`.
        value: Its value.
        delimiter: As for `github_outputs`.

    Raises:
        ValueError: If the delimiter is too short or occurs in the value.
    """
    if not _DELIMITER.fullmatch(delimiter) or delimiter in value:
        raise ValueError("take another delimiter")
    return _written(name, value, delimiter)


def _written(name: str, value: str, delimiter: str) -> str:
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"
