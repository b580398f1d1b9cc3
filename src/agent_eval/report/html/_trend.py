"""The trend of the base branch, with this run as a last point if it is not one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agent_eval.core.text import plural
from agent_eval.gate.history import drift, trend_row
from agent_eval.report.html._packing import number, shown
from agent_eval.report.html._source import Facts
from agent_eval.report.phrases import drift_notices
from agent_eval.report.views import percent_text
from agent_eval.report.views.grouping import NO_NAME
from agent_eval.results import PASSED, UNKNOWN, CaseHistory, HistoryRecord, HistoryReport, TrendRow

_NAME, _LINE = 500, 2_000


def trend(facts: Facts) -> dict[str, Any] | None:
    """The rows of `history.trend`, what changed between them, and this run; None if nothing is recorded yet."""
    history = facts.history
    if history is None or not history.trend:
        return None
    return {
        "branch": _branch(facts),
        "rows": [_row(facts, row) for row in history.trend],
        "notes": [{"row": at, "text": shown(text, _LINE)} for at, text in _notes(history)],
        "drift": [shown(line, _LINE) for line in drift_notices(drift(history))],
        "head": _head(facts),
    }


def _branch(facts: Facts) -> str:
    origin = facts.report.origin
    if facts.view.branch != NO_NAME or facts.report.base_history is not None or origin is None:
        return facts.view.branch
    return shown(origin.ref.removeprefix("refs/heads/"), _NAME) or NO_NAME


def _head(facts: Facts) -> dict[str, Any] | None:
    """This run, if it is not recorded itself."""
    report = facts.report
    if report.history is not None or report.verdict == "invalid" or not report.cases:
        return None
    origin = report.origin
    record = HistoryRecord(
        commit=(origin.head_commit or origin.commit) if origin is not None else "",
        run_id=origin.run_id if origin is not None else None,
        run_attempt=origin.run_attempt if origin is not None else None,
        run_url=origin.run_url if origin is not None else None,
        recorded_at=report.started_at,
    )
    return _row(facts, trend_row(report, record))


def _row(facts: Facts, row: TrendRow) -> dict[str, Any]:
    return {
        "commit": shown(row.commit, 100),
        "run_url": facts.source.links.own(row.run_url),
        "time": number(row.recorded_at),
        **{name: getattr(row, name) for name in ("cases", "passed", "failed", "broke", "quarantined", "unknown")},
        "means": {shown(name, _NAME): number(mean) for name, mean in row.means.items()},
        **{name: number(getattr(row, name)) for name in ("p50", "p95", "tokens", "cost")},
        "suite": shown(row.suite, 100),
        "judges": [shown(judge, _NAME) for judge in row.judges],
        "adk": shown(row.adk, 200),
    }


def _notes(history: HistoryReport) -> Iterator[tuple[int, str]]:
    """What changed between two rows: the suite, a judge, google-adk."""
    for at, (before, after) in enumerate(zip(history.trend, history.trend[1:], strict=False), start=1):
        if before.suite != after.suite:
            same = _on_same_cases(history, before, after)
            yield at, f"The suite changed: {before.cases:,} cases before, {after.cases:,} since.{same}"
        if before.judges != after.judges:
            yield at, f"The judges changed from {_listed(before.judges)} to {_listed(after.judges)}."
        if before.adk != after.adk:
            yield at, f"google-adk changed from {before.adk or 'none'} to {after.adk or 'none'}."


def _listed(judges: Sequence[str]) -> str:
    return ", ".join(judges) or "none"


def _on_same_cases(history: HistoryReport, before: TrendRow, after: TrendRow) -> str:
    """The pass rates on the cases that both runs have with the same content; "" if their outcomes are not kept."""
    places = {_key(record): str(at) for at, record in enumerate(history.records)}
    first, second = places.get(_key(before)), places.get(_key(after))
    if first is None or second is None:
        return ""
    pairs = [
        (passed_before, passed_after)
        for case in history.cases
        if (passed_before := _passed(case, first)) is not None and (passed_after := _passed(case, second)) is not None
    ]
    if not pairs:
        return ""
    rates = [percent_text(sum(side) / len(pairs)) for side in zip(*pairs, strict=True)]
    return f" On the {plural(len(pairs), 'case')} that both runs have, {rates[0]} passed before and {rates[1]} after."


def _passed(case: CaseHistory, place: str) -> bool | None:
    """Whether all runs of a case passed in a recorded run; None if that is not known."""
    pairs = zip(case.outcomes, case.records.split(), strict=True)
    outcomes = [outcome for outcome, record in pairs if record == place]
    return None if not outcomes or UNKNOWN in outcomes else all(outcome == PASSED for outcome in outcomes)


def _key(record: HistoryRecord) -> tuple[object, ...]:
    return record.run_id, record.run_attempt, record.commit, record.recorded_at
