"""`agent-eval flaky`: finds flaky cases in stored results and proposes quarantine entries."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from pydantic import Field

from agent_eval.baseline.reader import UnreadableError, read_file
from agent_eval.commands import CliIO
from agent_eval.gate.history import extend, join, unfit
from agent_eval.gate.policy import DEFAULT_MAX_QUARANTINED
from agent_eval_results import BROKE, DEFAULT, PASSED, CaseHistory, HistoryReport, RunReport
from agent_eval_results.data.stored_runs import stored_rules, stored_runs
from agent_eval_results.data.trend import Flakiness, flakiness
from agent_eval_results.report.phrases import text
from agent_eval_scoring.core.text import harmless, plural
from agent_eval_scoring.core.wire import WireModel

MIN_RATE = 0.05
"""A case is proposed if the lower bound of the 95% interval of its failure rate is at least this."""
DAYS = 30
"""Duration of a proposed quarantine."""
_UNLIMITED = 1_000_000
"""A history limit above any number of runs."""


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code."""
    try:
        report = find_flaky(read_results([Path(word) for word in arguments.words or [DEFAULT]]))
    except UnreadableError as error:
        io.log(f"agent-eval: {error}")
        return 2
    if arguments.format == "toml":
        today = datetime.now(UTC).date()
        print(render_toml(report, today=today, owner=arguments.owner, days=arguments.days).rstrip())
    else:
        print(report.model_dump_json(indent=2))
    return 0


class Proposal(WireModel):
    """A flaky case."""

    case_id: str
    failures: int
    runs: int
    rate: float
    """Failure rate, 0 to 1."""
    low: float
    high: float
    """95% Wilson interval of the rate."""
    since: str | None = None
    """The commit of the first failure, or the URL of its run."""
    agent_errors: int = 0
    """Failures caused by an error of the agent."""
    metrics: dict[str, int] = Field(default_factory=dict)
    """How often each metric was below its threshold."""
    newest_failed: bool = False
    """Whether its last run failed."""


class FlakyReport(WireModel):
    """The flaky cases of stored results."""

    records: int
    """Gate runs in the results and their histories."""
    cases: int
    proposals: list[Proposal]
    """The flakiest first."""
    failing: list[str]
    """Ids of cases that failed in every run, of at least two: broken, not flaky."""
    skipped: list[str]
    """The files that were not used, each with the reason."""
    most_runs: int = 0
    """The highest number of runs of a case. A single run can't show that a case is flaky."""
    beyond_share: bool = False
    """Whether the proposals exceed the default of `max-quarantined`."""


def read_results(paths: Sequence[Path]) -> list[tuple[Path, RunReport]]:
    """Reads result files, and all `results.json` below directories, each with its path.

    Raises:
        UnreadableError: A file can't be read or used, or a directory contains no results.
    """
    files: list[Path] = []
    for path in paths:
        files += (sorted(path.rglob("results.json")) if path.is_dir() else []) or [path]
    return [(path, read_file(path)) for path in dict.fromkeys(files)]


def find_flaky(results: Sequence[tuple[Path, RunReport]], *, min_rate: float = MIN_RATE) -> FlakyReport:
    """Finds the flaky cases in results of the base branch and in the histories that these contain.

    Args:
        results: In any order. Results of pull requests and of incomplete runs are skipped.
        min_rate: 0 to 1; see MIN_RATE.
    """
    history: HistoryReport | None = None
    skipped = []
    for path, result in sorted(results, key=lambda item: item[1].started_at):
        if (reason := unfit(result)) is not None:
            skipped.append(f"{path}: {text(reason)}")
            continue
        # A result contains the history of earlier runs.
        extended = extend(result.history, result, _UNLIMITED)
        history = extended if history is None else join(history, extended)
    if history is None:
        return FlakyReport(records=0, cases=0, proposals=[], failing=[], skipped=skipped)
    proposals, failing, most_runs = [], [], 0
    for case in history.cases:
        rate = flakiness(history, case)
        most_runs = max(most_runs, rate.runs)
        if rate.is_mixed and rate.low >= min_rate:
            proposals.append(_proposal(history, case, rate))
        elif rate.runs > 1 and rate.failures == rate.runs:
            failing.append(case.case_id)
    proposals.sort(key=lambda proposal: (-proposal.low, proposal.case_id))
    return FlakyReport(
        records=len(history.records),
        cases=len(history.cases),
        proposals=proposals,
        failing=failing,
        skipped=skipped,
        most_runs=most_runs,
        beyond_share=len(proposals) > DEFAULT_MAX_QUARANTINED * len(history.cases),
    )


def _proposal(history: HistoryReport, case: CaseHistory, rate: Flakiness) -> Proposal:
    runs = stored_runs(history, case)
    below = {
        key[0]: sum(key in run.scores and not rule.holds(run.scores[key]) for run in runs)
        for key, rule in stored_rules(history, case).items()
    }
    return Proposal(
        case_id=case.case_id,
        failures=rate.failures,
        runs=rate.runs,
        rate=round(rate.rate, 4),
        low=round(rate.low, 4),
        high=round(rate.high, 4),
        since=(rate.since.commit or rate.since.run_url or None) if rate.since is not None else None,
        agent_errors=sum(run.outcome == BROKE for run in runs),
        metrics={name: count for name, count in below.items() if count},
        newest_failed=bool(runs) and runs[-1].outcome != PASSED,
    )


def render_toml(report: FlakyReport, *, today: date, owner: str = "", days: int = DAYS) -> str:
    """Entries for agent-eval.toml, each below a comment with its evidence.

    Args:
        report: From `find_flaky`.
        today: The date in UTC.
        owner: The owner of the entries. If it is "", agent-eval rejects the entries until an owner is added.
        days: Days until the entries expire.
    """
    lines = [f"# From {plural(report.records, 'run')} of {plural(report.cases, 'case')} on the base branch."]
    lines += [f"# Skipped: {reason}" for reason in report.skipped]
    lines += [f"# Not flaky but broken, never passed: {case_id}" for case_id in report.failing]
    if not report.proposals:
        too_few = "# Too few runs to find flaky cases: add results of the base branch, or of a run with --num-runs 10."
        lines.append(too_few if report.most_runs < 2 else "# No case is flaky in these runs.")
    if report.beyond_share:
        lines.append(
            f"# More than {DEFAULT_MAX_QUARANTINED:.0%} of the cases: fix some of them, or raise max-quarantined."
        )
    shown = [" ".join(harmless(line).split()) for line in lines]
    expires = (today + timedelta(days=days)).isoformat()
    for case in report.proposals:
        since = f" since {case.since[:8] if '/' not in case.since else case.since}" if case.since else ""
        counts = f"{case.failures:,} of {plural(case.runs, 'run')} failed"
        missing_owner = "" if owner else "  # required: who fixes the case"
        shown += [
            "",
            " ".join(harmless(f"# {counts} ({case.low:.0%} to {case.high:.0%} at 95%){since}{_causes(case)}").split()),
            "[[quarantine]]",
            f"case = {_quoted(case.case_id)}",
            f"reason = {_quoted(f'flaky: {counts}{since}')}",
            f"owner = {_quoted(owner)}{missing_owner}",
            f"expires = {expires}",
        ]
    return "\n".join(shown) + "\n"


def _causes(case: Proposal) -> str:
    causes = [f"{name} missed its threshold {_times(count)}" for name, count in case.metrics.items()]
    causes += [f"the agent had an error {_times(case.agent_errors)}"] if case.agent_errors else []
    return f"; {', '.join(causes)}" if causes else ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _quoted(text: str) -> str:
    """A TOML string on one line, safe to print to a terminal."""
    escaped = (
        f"\\{character}"
        if character in '"\\'
        else character
        if character.isprintable()
        else f"\\u{ord(character):04x}"
        if ord(character) < 0x10000
        else f"\\U{ord(character):08x}"
        for character in text
    )
    return f'"{"".join(escaped)}"'
