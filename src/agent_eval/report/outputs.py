"""The outputs of the GitHub action: the text that is appended to the file `GITHUB_OUTPUT` names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent_eval.results.comparison import ComparisonReport
from agent_eval.results.report import RunReport

FILE_OUTPUTS = ("results-file", "junit-file", "summary-file", "recordings-file")
"""Paths of what was written; an output is empty when its file was not written."""

OUTPUTS: Mapping[str, str] = {
    "verdict": "passed, failed, inconclusive or invalid.",
    "total": "Number of eval cases.",
    "passed": "Number of cases that passed.",
    "failed": "Number of cases that failed, by a score or by an error of the agent.",
    "errored": "Number of cases that could not be judged.",
    "pass-rate": "Passed cases among those that passed or failed, from 0 to 1; empty when there are none.",
    "newly-failing": "Number of cases that failed and did not on the base branch; empty without a comparison.",
    "baseline": "found, none-yet, fetch-failed or incompatible; empty where nothing is to be compared.",
    "comment-url": "Address of the pull-request comment, if there is one.",
    "results-file": "Path of results.json.",
    "junit-file": "Path of junit.xml.",
    "summary-file": "Path of summary.md.",
    "recordings-file": "Path of recordings.jsonl.gz.",
}
"""Every output by name, with its description (the same as in action.yml)."""

_DELIMITER = re.compile(r"[0-9A-Za-z_-]{16,}")


def output_values(report: RunReport, paths: Mapping[str, str]) -> dict[str, str]:
    """Every output's value, in the order of `OUTPUTS`. `comment-url` is told later, when there is one.

    Args:
        report: What to tell.
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
        "newly-failing": "" if report.comparison is None else str(_newly_failing(report.comparison)),
        "baseline": report.baseline.status if report.baseline is not None else "",
        "comment-url": "",  # Of what an output is told twice, the runner takes the last.
    }
    return values | {name: paths.get(name, "") for name in FILE_OUTPUTS}


def _newly_failing(comparison: ComparisonReport) -> int:
    return sum(case.change == "newly_failing" for case in comparison.cases)


def _rate(value: float) -> str:
    """At most six decimals, and 0 and 1 for those values only: workflows compare."""
    if value in {0.0, 1.0}:
        return f"{value:.0f}"
    return f"{min(max(value, 0.000001), 0.999999):.6f}".rstrip("0")


def github_outputs(report: RunReport, paths: Mapping[str, str], delimiter: str) -> str:
    """The text to append to the file.

    Each value stands between two lines with a delimiter that nobody could foresee, so that no value can pretend to
    be another output (GitHub's documentation of workflow commands, "multiline strings").

    Args:
        report: What to tell.
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
