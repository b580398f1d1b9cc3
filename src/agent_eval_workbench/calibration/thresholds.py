"""Suggests thresholds that the current agent would pass with a given probability, from recorded runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import ROUND_FLOOR, Decimal
from itertools import groupby
from pathlib import Path
from typing import Literal

from pydantic import Field

from agent_eval import __version__
from agent_eval.baseline.reader import UnreadableError, read_file
from agent_eval.core.problem import Problem, Severity
from agent_eval.core.text import harmless, plural
from agent_eval.core.wire import WireModel
from agent_eval.evalset.models import METRICS
from agent_eval.evalset.paths import absolute, name_of
from agent_eval.report.views import folded, percent_text, score_text, threshold_text
from agent_eval.results import FILES, CaseReport, RunReport

_STEP = Decimal("0.001")
"""Suggestions are rounded down to a multiple of this, since thresholds are written by hand."""

NamedReport = tuple[str, RunReport]
"""A results.json file and its path."""


class RoundMinimum(WireModel):
    """The lowest score of a round, which is one run of every case of a config."""

    score: float | None
    """None: the agent failed without a score, which is below every threshold."""
    case_id: str
    report: str
    """The results.json file."""
    run: int
    """0-based."""

    @property
    def rank(self) -> float:
        """The score as a number that can be compared."""
        return -math.inf if self.score is None else self.score


class Suggestion(WireModel):
    """The suggested threshold of one metric of a config."""

    config: str | None
    """The config file; None: ADK's defaults."""
    metric: str
    threshold: float
    """The current one."""
    suggestion: float | None
    """None if there are no usable rounds, or too many in which the agent failed without a score."""
    probability: float | None
    """That the agent passes `suggestion`; at least the requested one if `enough`."""
    enough: bool
    """Whether there are enough rounds for the requested probability."""
    rounds: int
    held: int
    """Number of rounds in which all cases reached the current threshold."""
    cases: int
    lowest: RoundMinimum | None
    dropped: dict[str, int] = Field(default_factory=dict)
    """Number of unusable rounds by reason."""


class ThresholdsReport(WireModel):
    """What `agent-eval calibrate --suggest-thresholds --format json` prints."""

    schema_version: Literal["1"] = "1"
    tool_version: str = __version__
    wanted: float
    """The requested probability."""
    num_runs: int
    """Number of runs per case in the gate, all of which must pass."""
    needed: int
    """Number of rounds needed for the requested probability."""
    suggestions: list[Suggestion]
    together: float | None
    """Lower bound on the probability that all suggestions hold (Bonferroni); None if a metric has none."""
    notices: list[str] = Field(default_factory=list)


def read_results(paths: Sequence[Path], root: Path) -> tuple[list[NamedReport], list[Problem]]:
    """Reads results.json files.

    Args:
        paths: The files, or the output directories of runs.
        root: The directory that names are relative to.

    Returns:
        The reports, the newest last, and the problems; with an error among them the reports are incomplete.
    """
    reports: list[NamedReport] = []
    problems: list[Problem] = []
    for path in dict.fromkeys(paths):
        file = path / FILES["results-file"] if path.is_dir() else path
        name = name_of(absolute(file), absolute(root))
        message, hint = "", ""
        if file.name.endswith((".jsonl", ".jsonl.gz")):
            message = "Recordings have no scores."
            hint = f"Score them with `agent-eval run --agent recorded:{name}`, then give its results.json."
        else:
            try:
                report = read_file(path)
            except UnreadableError as error:
                message, hint = error.message, error.hint
            else:
                listed = {file.file for file in report.files}
                if not report.cases:
                    message, hint = "It has no cases.", "Give the results.json of a run that evaluated cases."
                elif not all(case.file in listed for case in report.cases):
                    message = "It has cases of a file that it doesn't list, so their criteria are unknown."
                    hint = "Give results.json as a run wrote it."
                else:
                    reports.append((name, report))
        if message:
            problems.append(
                Problem(severity=Severity.ERROR, code="results-unusable", message=message, hint=hint, file=name)
            )
    return sorted(reports, key=lambda entry: entry[1].started_at), problems


def suggest(reports: Sequence[NamedReport], *, requested: float, num_runs: int) -> ThresholdsReport:
    """Suggests a threshold for each config and metric of the newest report.

    A round is one run number of one report. Rounds with other cases, changed cases, or metrics that were scored
    differently are left out.

    Args:
        reports: From `read_results`, at least one.
        requested: The probability with which the current agent should pass, above 0 and below 1.
        num_runs: Runs per case in the gate; each must pass.
    """
    newest = reports[-1][1]
    files = {file.file: file for file in newest.files}
    members: dict[tuple[str | None, str], list[tuple[CaseReport, float]]] = {}
    for case in newest.cases:
        for metric, threshold in files[case.file].criteria.items():
            members.setdefault((files[case.file].config, metric), []).append((case, threshold))
    rounds, duplicates = _distinct_rounds(reports)
    suggestions = []
    for (config, metric), cases in members.items():
        minima: list[RoundMinimum] = []
        dropped: Counter[str] = Counter()
        for name, report, run in rounds:
            minimum = _minimum([case for case, _ in cases], metric, name, report, run)
            if isinstance(minimum, str):
                dropped[minimum] += 1
            else:
                minima.append(minimum)
        suggestion = suggest_one(minima, metric=metric, threshold=cases[0][1], requested=requested, num_runs=num_runs)
        suggestion.config, suggestion.cases, suggestion.dropped = config, len(cases), dict(dropped)
        suggestions.append(suggestion)
    notices = [f"{plural(duplicates, 'round')} left out: another file has the same answers."] if duplicates else []
    commits = {report.provenance.get("commit") for _, report in reports} - {None}
    if len(commits) > 1:
        notices.append(f"The runs are of {len(commits)} commits; the suggestions include the variation between them.")
    return ThresholdsReport(
        wanted=requested,
        num_runs=num_runs,
        needed=rounds_needed(requested, num_runs),
        suggestions=suggestions,
        together=joint_probability([suggestion.probability for suggestion in suggestions]),
        notices=notices,
    )


def suggest_one(
    minima: Sequence[RoundMinimum], *, metric: str, threshold: float, requested: float, num_runs: int
) -> Suggestion:
    """The suggestion from the minima of all rounds. The caller sets `config`, `cases` and `dropped`."""
    ascending = sorted(minima, key=lambda minimum: minimum.rank)
    count = len(ascending)
    orders = [order for order in range(1, count + 1) if probability(count, order, num_runs) >= requested - 1e-12]
    # The order must not depend on the scores: with ties it could be higher, but the probability would not hold.
    order = orders[-1] if orders else 1
    score = ascending[order - 1].score if ascending else None
    return Suggestion(
        config=None,
        metric=metric,
        threshold=threshold,
        suggestion=None if score is None else _rounded_down(score, metric),
        probability=None if score is None else probability(count, order, num_runs),
        enough=bool(orders) and score is not None,
        rounds=count,
        held=sum(minimum.rank >= threshold for minimum in ascending),
        cases=1,
        lowest=ascending[0] if ascending else None,
    )


def probability(rounds: int, order: int, num_runs: int) -> float:
    """The probability that all of `num_runs` new rounds are at least as good as the `order`-th lowest recorded one.

    This is the distribution-free lower prediction limit (Hahn and Meeker, "Statistical Intervals", 1991, chapter 5): if
    old and new rounds are exchangeable, it is C(rounds - order + num_runs, num_runs) / C(rounds + num_runs, num_runs),
    and higher with ties.

    Raises:
        ValueError: Unless 1 <= order <= rounds and num_runs >= 1.
    """
    if not 1 <= order <= rounds or num_runs < 1:
        raise ValueError(f"no prediction from {rounds} rounds, order {order}, for {num_runs}")
    return math.prod((rounds - order + new) / (rounds + new) for new in range(1, num_runs + 1))


def rounds_needed(requested: float, num_runs: int) -> int:
    """The minimum number of rounds whose lowest score holds with a probability (above 0, below 1)."""
    least = max(1, math.ceil(num_runs * requested / (1 - requested) - 1e-9))
    return least if probability(least, 1, num_runs) >= requested - 1e-12 else least + 1


def joint_probability(probabilities: Sequence[float | None]) -> float | None:
    """A lower bound on the probability that all hold (Bonferroni); None if one is unknown or there are none."""
    misses = [1 - each for each in probabilities if each is not None]
    return max(0.0, 1 - sum(misses)) if misses and len(misses) == len(probabilities) else None


def _rounded_down(score: float, metric: str) -> float:
    rounded = float(Decimal(repr(score)).quantize(_STEP, rounding=ROUND_FLOOR))
    spec = METRICS.get(metric)
    return rounded if spec is None else max(rounded, spec.low)


def _distinct_rounds(reports: Sequence[NamedReport]) -> tuple[list[tuple[str, RunReport, int]], int]:
    """All rounds as (file, report, run number), and how many duplicates (the same answers scored twice) there are."""
    rounds: list[tuple[str, RunReport, int]] = []
    seen: set[frozenset[tuple[str, float]]] = set()
    duplicates = 0
    for name, report in reports:
        for number in sorted({run.run for case in report.cases for run in case.runs}):
            starts = frozenset(
                (case.case_id, run.started_at)
                for case in report.cases
                for run in case.runs
                if run.run == number and run.started_at is not None
            )
            if starts and starts in seen:
                duplicates += 1
            else:
                seen.add(starts)
                rounds.append((name, report, number))
    return rounds, duplicates


def _minimum(cases: Sequence[CaseReport], metric: str, name: str, report: RunReport, run: int) -> RoundMinimum | str:
    """The lowest score of a round, or the reason why the round is unusable."""
    by_id = {case.case_id: case for case in report.cases}
    minimum: RoundMinimum | None = None
    for case in cases:
        score = _score(by_id.get(case.case_id), case, metric, run)
        if isinstance(score, str):
            return score
        candidate = RoundMinimum(score=score, case_id=case.case_id, report=name, run=run)
        if minimum is None or candidate.rank < minimum.rank:
            minimum = candidate
    assert minimum is not None
    return minimum


def _score(case: CaseReport | None, newest: CaseReport, name: str, run: int) -> float | str | None:
    """The score of a case, None if the agent failed without one, or the reason why the round is unusable."""
    if case is None:
        return "a case is missing"
    if _differ(case.fingerprint, newest.fingerprint):
        return "a case was different"
    result = next((result for result in case.runs if result.run == run), None)
    if result is None:
        return "a case is missing"
    if result.error is not None and result.error.owner == "agent":
        return None
    metric, newest_metric = (
        next((metric for metric in each.metrics if metric.name == name), None) for each in (case, newest)
    )
    if metric is None:
        return "the metric was not configured" if result.error is None else "a run was aborted"
    if newest_metric is not None and _differ(metric.fingerprint, newest_metric.fingerprint):
        return "the metric was scored differently"
    score = next((score.score for score in metric.runs if score.run == run), None)
    if score is None:
        return "the metric was not evaluated" if result.error is None else "a run was aborted"
    return score


def _differ(fingerprint: str, other: str) -> bool:
    return fingerprint != other and bool(fingerprint and other)


def render_thresholds(report: ThresholdsReport) -> str:
    """Renders the suggestions as text that is safe to print to a log."""
    lines: list[str] = []
    for config, group in groupby(report.suggestions, key=lambda suggestion: suggestion.config):
        lines.append(folded(config) if config else "Files without a config (ADK's defaults)")
        lines += [line for suggestion in group for line in _suggestion_lines(suggestion, report)]
        lines.append("")
    runs = "1 run per case" if report.num_runs == 1 else f"{report.num_runs:,} runs per case, all of which must pass"
    lines.append(
        f"Probabilities are for the next gate with {runs}, and an unchanged agent. Method: distribution-free lower "
        "prediction limit, from the lowest score of each round."
    )
    if report.together is not None and len(report.suggestions) > 1:
        bound = f"with a probability of at least {percent_text(report.together)}" if report.together else ""
        lines.append(f"All suggestions hold {bound}." if bound else "There are too few rounds to say that all hold.")
    return harmless("\n".join([*lines, *report.notices])) + "\n"


def _suggestion_lines(suggestion: Suggestion, report: ThresholdsReport) -> Iterator[str]:
    current = threshold_text(suggestion.threshold)
    rounds, lowest = plural(suggestion.rounds, "round"), suggestion.lowest
    if suggestion.suggestion is None:
        reason = "the agent failed without a score in too many rounds" if lowest else "there are no usable rounds"
        yield f"  {suggestion.metric}: no suggestion, {reason} (now {current})"
    else:
        threshold, chance = threshold_text(suggestion.suggestion), percent_text(suggestion.probability)
        few = "" if suggestion.enough else f"; {percent_text(report.wanted)} needs {plural(report.needed, 'round')}"
        yield f"  {suggestion.metric}: {threshold} holds with at least {chance}{few} (now {current})"
    if lowest is not None:
        cases = plural(suggestion.cases, "case")
        yield f"      the current threshold held in {suggestion.held:,} of {rounds} with {cases} each"
    spec = METRICS.get(suggestion.metric)
    if lowest is not None and not (spec is not None and lowest.score == spec.high):
        score = "a failure without a score" if lowest.score is None else score_text(lowest.score)
        yield f"      lowest: {score}, {folded(lowest.case_id)}, run {lowest.run + 1} of {folded(lowest.report)}"
    if suggestion.suggestion is not None and suggestion.suggestion <= 0:
        yield "      a threshold of 0 never fails: look at the case with the lowest score first"
    if suggestion.dropped:
        dropped = suggestion.dropped.items()
        yield "      " + "; ".join(f"{plural(count, 'round')} left out: {reason}" for reason, count in dropped)
