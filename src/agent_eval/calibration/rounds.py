"""Recorded runs as rounds: one answer to every case of a config, and the lowest score among them for each metric."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_eval.baseline import UnreadableError, read_file
from agent_eval.core.problem import Problem, Severity
from agent_eval.core.text import plural
from agent_eval.evalset.paths import absolute, name_of
from agent_eval.results import FILES, CaseReport, MetricReport, RunReport

FAILED = -math.inf
"""The score of a round in which the agent failed without one: no threshold would pass it."""


@dataclass(frozen=True, kw_only=True)
class Low:
    """The lowest score of a round: the one that a threshold must not exceed."""

    score: float
    """Or FAILED."""
    case_id: str
    report: str
    """The file that it stands in."""
    run: int
    """0-based."""


@dataclass(kw_only=True)
class Series:
    """All rounds of a metric under one config."""

    config: str | None
    """None: ADK's defaults."""
    metric: str
    threshold: float
    """The present one."""
    cases: int
    lows: list[Low] = field(default_factory=list)
    """One for each round."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Rounds that can't be used, by reason."""


def read_results(paths: Sequence[Path], root: Path) -> tuple[list[tuple[str, RunReport]], list[Problem]]:
    """Reads results.json files.

    Args:
        paths: The files, or the output directories that they lie in.
        root: What to call them relative to.

    Returns:
        Names and reports, the newest last, and what is wrong; with an error among it the reports are not complete.
    """
    found: list[tuple[str, RunReport]] = []
    problems: list[Problem] = []
    for path in dict.fromkeys(paths):
        file = path / FILES["results-file"] if path.is_dir() else path
        name = name_of(absolute(file), absolute(root))
        if file.name.endswith((".jsonl", ".jsonl.gz")):
            message = "Recordings hold no scores."
            hint = f"Score them first: `agent-eval run --agent recorded:{name}`, then give its results.json."
            problems.append(_unusable(name, message, hint))
            continue
        try:
            report = read_file(path)
        except UnreadableError as error:
            problems.append(_unusable(name, error.message, error.hint))
            continue
        listed = {file.file for file in report.files}
        if not report.cases:
            problems.append(_unusable(name, "It has no cases.", "Give results.json of a run that ran."))
        elif not all(case.file in listed for case in report.cases):
            message = "It has cases of a file that it doesn't list, so their criteria are not known."
            problems.append(_unusable(name, message, "Give results.json as a run wrote it."))
        else:
            found.append((name, report))
    return sorted(found, key=lambda pair: pair[1].started_at), problems


def _unusable(file: str, message: str, hint: str) -> Problem:
    return Problem(severity=Severity.ERROR, code="results-unusable", message=message, hint=hint, file=file)


def collect(reports: Sequence[tuple[str, RunReport]]) -> tuple[list[Series], list[str]]:
    """Makes rounds of reports.

    A round is one run number of one report. The newest report says which cases and metrics there are; what an older
    one has of other cases, of cases that were changed, or of metrics that were scored otherwise, does not count.

    Args:
        reports: As `read_results` gives them, at least one.

    Returns:
        A series for each config and gating metric, in the order of the newest report, and what the reader should know.
    """
    newest = reports[-1][1]
    files = {file.file: file for file in newest.files}
    series: dict[tuple[str | None, str], Series] = {}
    members: dict[tuple[str | None, str], list[tuple[CaseReport, str]]] = {}
    for case in newest.cases:
        file = files[case.file]
        for metric, threshold in file.criteria.items():
            key = (file.config, metric)
            made = series.setdefault(key, Series(config=file.config, metric=metric, threshold=threshold, cases=0))
            made.cases += 1
            members.setdefault(key, []).append((case, metric))
    rounds, notices = _distinct(reports)
    for name, report, run in rounds:
        by_id = {case.case_id: case for case in report.cases}
        for key, wanted in members.items():
            lows: list[Low] = []
            missing = ""
            for case, metric in wanted:
                score = _score(by_id.get(case.case_id), case, metric, run)
                if isinstance(score, str):
                    missing = score
                    break
                lows.append(Low(score=score, case_id=case.case_id, report=name, run=run))
            if missing:
                series[key].dropped[missing] += 1
            else:
                series[key].lows.append(min(lows, key=lambda low: low.score))
    return list(series.values()), [*notices, *_commits(reports)]


def _distinct(reports: Sequence[tuple[str, RunReport]]) -> tuple[list[tuple[str, RunReport, int]], list[str]]:
    """The rounds, each once: the same answers scored twice are one."""
    rounds: list[tuple[str, RunReport, int]] = []
    seen: set[frozenset[tuple[str, float]]] = set()
    again = 0
    for name, report in reports:
        for run in sorted({run.run for case in report.cases for run in case.runs}):
            started = frozenset(
                (case.case_id, one.started_at)
                for case in report.cases
                for one in case.runs
                if one.run == run and one.started_at is not None
            )
            if started and started in seen:
                again += 1
                continue
            seen.add(started)
            rounds.append((name, report, run))
    note = f"{plural(again, 'round')} left out: the same answers are in another of the files."
    return rounds, [note] if again else []


def _score(there: CaseReport | None, case: CaseReport, name: str, run: int) -> float | str:
    """The score of a case in a round, or why the round can't be used."""
    if there is None:
        return "a case is missing"
    if there.fingerprint != case.fingerprint and there.fingerprint and case.fingerprint:
        return "a case was another one then"
    result = next((one for one in there.runs if one.run == run), None)
    if result is None:
        return "a case is missing"
    if result.error is not None and result.error.owner == "agent":
        return FAILED
    scored, metric = _metric(there, name), _metric(case, name)
    if scored is None:
        return "it was not measured" if result.error is None else "a run broke off"
    if metric is not None and scored.fingerprint != metric.fingerprint and scored.fingerprint and metric.fingerprint:
        return "it was measured otherwise then"
    value = next((one.score for one in scored.runs if one.run == run), None)
    if value is None:
        return "it was not evaluated" if result.error is None else "a run broke off"
    return value


def _metric(case: CaseReport, name: str) -> MetricReport | None:
    return next((metric for metric in case.metrics if metric.name == name), None)


def _commits(reports: Iterable[tuple[str, RunReport]]) -> list[str]:
    commits = {report.provenance.get("commit") for _, report in reports} - {None}
    if len(commits) < 2:
        return []
    return [
        f"The runs are of {len(commits)} commits: the thresholds fit an agent that varies as much as it did over those."
    ]
