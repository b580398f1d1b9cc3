"""`agent-eval flaky`: which cases pass and fail by chance, by stored results, and how to quarantine them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from pydantic import Field

from agent_eval.baseline import UnreadableError, read_file
from agent_eval.core.text import harmless, plural
from agent_eval.core.wire import WireModel
from agent_eval.gate.history import Flakiness, extend, flakiness, join, stored_rules, stored_runs, unfit
from agent_eval.gate.policy import DEFAULT_MAX_QUARANTINED
from agent_eval.results import BROKE, PASSED, CaseHistory, HistoryRecord, HistoryReport, RunReport

MIN_RATE = 0.05
"""A case is proposed when its failure rate is at least this, by the lower end of the 95% interval."""
DAYS = 30
"""How long a proposed quarantine lasts."""
_EVERYTHING = 1_000_000
"""More runs than anybody hands over: nothing is dropped."""


class Proposal(WireModel):
    """A case that passes and fails by chance."""

    case_id: str
    failures: int
    runs: int
    rate: float
    """Of failures, 0 to 1."""
    low: float
    high: float
    """95% Wilson interval of the rate."""
    since: str | None = None
    """The commit of the first failure, or the address of its run."""
    agent_errors: int = 0
    """Failures in which the agent broke."""
    metrics: dict[str, int] = Field(default_factory=dict)
    """How often each metric was below its threshold."""
    newest_failed: bool = False
    """Whether its last run failed."""


class FlakyReport(WireModel):
    """What the results say about chance."""

    records: int
    """Runs of the gate that were read."""
    cases: int
    proposals: list[Proposal]
    """The flakiest first."""
    failing: list[str]
    """Ids of cases that failed in all of at least two runs: broken, not flaky."""
    skipped: list[str]
    """Which files were left out, and why."""
    most_runs: int = 0
    """Of any case; one run passes or fails, and shows nothing of chance."""
    beyond_share: bool = False
    """Whether the proposals are more than the usual share of the cases."""


@dataclass(frozen=True, kw_only=True)
class _Read:
    path: Path
    report: RunReport


def read_results(paths: Sequence[Path]) -> list[_Read]:
    """Reads result files; of a directory all `results.json` in it.

    Raises:
        UnreadableError: A file can't be read or used, or a directory has none.
    """
    files: list[Path] = []
    for path in paths:
        found = sorted(path.rglob("results.json")) if path.is_dir() else [path]
        if not found:
            raise UnreadableError(
                f"There is no results.json in {harmless(str(path))}.", "Name a directory that runs have written to."
            )
        files += found
    return [_Read(path=path, report=read_file(path)) for path in dict.fromkeys(files)]


def find_flaky(results: Sequence[_Read], *, min_rate: float = MIN_RATE) -> FlakyReport:
    """Finds the flaky cases in results of the base branch, the histories that they carry included.

    Args:
        results: In any order. Those of pull requests, and those that were broken off, are left out.
        min_rate: 0 to 1; see MIN_RATE.
    """
    history: HistoryReport | None = None
    skipped = []
    ordered = sorted(results, key=lambda one: one.report.started_at)
    for one in ordered:
        if (why := unfit(one.report)) is not None:
            skipped.append(f"{one.path}: {why}")
    fit = [one for one in ordered if unfit(one.report) is None]
    for one in fit:
        # A result carries the runs before it along.
        own = extend(one.report.history, one.report, _EVERYTHING)
        history = own if history is None else join(history, own)
    if history is None:
        return FlakyReport(records=0, cases=0, proposals=[], failing=[], skipped=skipped)
    proposals, failing, most_runs = [], [], 0
    for case in history.cases:
        found = flakiness(history, case)
        most_runs = max(most_runs, found.runs)
        if found.is_mixed and found.low >= min_rate:
            proposals.append(_proposal(history, case, found))
        elif found.runs > 1 and found.failures == found.runs:
            failing.append(case.case_id)
    proposals.sort(key=lambda one: (-one.low, one.case_id))
    return FlakyReport(
        records=len(history.records),
        cases=len(history.cases),
        proposals=proposals,
        failing=failing,
        skipped=skipped,
        most_runs=most_runs,
        beyond_share=len(proposals) > DEFAULT_MAX_QUARANTINED * len(history.cases),
    )


def _proposal(history: HistoryReport, case: CaseHistory, found: Flakiness) -> Proposal:
    runs = stored_runs(history, case)
    below = {
        key[0]: sum(key in run.scores and not rule.holds(run.scores[key]) for run in runs)
        for key, rule in stored_rules(history, case).items()
    }
    return Proposal(
        case_id=case.case_id,
        failures=found.failures,
        runs=found.runs,
        rate=round(found.rate, 4),
        low=round(found.low, 4),
        high=round(found.high, 4),
        since=_name(found.since),
        agent_errors=sum(run.outcome == BROKE for run in runs),
        metrics={name: count for name, count in below.items() if count},
        newest_failed=bool(runs) and runs[-1].outcome != PASSED,
    )


def _name(record: HistoryRecord | None) -> str | None:
    return (record.commit or record.run_url or None) if record is not None else None


def render_toml(report: FlakyReport, *, today: date, owner: str = "", days: int = DAYS) -> str:
    """Entries for agent-eval.toml, each below a comment with its evidence.

    Args:
        report: What was found.
        today: In UTC.
        owner: Who will see to the cases; if "" the entries lack one, and agent-eval refuses them until somebody signs.
        days: How long the entries hold.
    """
    lines = [f"# From {plural(report.records, 'run')} of {plural(report.cases, 'case')} on the base branch."]
    lines += [f"# Left out: {told}" for told in report.skipped]
    lines += [f"# Broken rather than flaky, it never passed: {case_id}" for case_id in report.failing]
    if not report.proposals:
        few = "# That says nothing of chance: give results of more runs of the base branch, or of --num-runs 10."
        lines.append(few if report.most_runs < 2 else "# No case is flaky by them.")
    if report.beyond_share:
        lines.append(
            f"# These are more than {DEFAULT_MAX_QUARANTINED:.0%} of the cases: mend some, or raise max-quarantined."
        )
    shown = [" ".join(harmless(line).split()) for line in lines]
    expires = (today + timedelta(days=days)).isoformat()
    for one in report.proposals:
        since = f" since {one.since[:8] if '/' not in one.since else one.since}" if one.since else ""
        counts = f"{one.failures:,} of {plural(one.runs, 'run')} failed"
        unsigned = "" if owner else "  # who mends it? Without a name the entry is an error."
        shown += [
            "",
            " ".join(harmless(f"# {counts} ({one.low:.0%} to {one.high:.0%} at 95%){since}{_causes(one)}").split()),
            "[[quarantine]]",
            f"case = {_quoted(one.case_id)}",
            f"reason = {_quoted(f'flaky: {counts}{since}')}",
            f"owner = {_quoted(owner)}{unsigned}",
            f"expires = {expires}",
        ]
    return "\n".join(shown) + "\n"


def _causes(one: Proposal) -> str:
    causes = [f"{name} missed its threshold {_times(count)}" for name, count in one.metrics.items()]
    causes += [f"the agent broke {_times(one.agent_errors)}"] if one.agent_errors else []
    return f"; {', '.join(causes)}" if causes else ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _quoted(text: str) -> str:
    """A TOML string on one line in which nothing acts on a terminal either."""
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
