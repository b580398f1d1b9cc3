"""Adds runs to the base branch's history and removes outdated ones. Pure.

A stored run is valid for a case as long as the case's fingerprint is unchanged, and its score for a metric as long as
the metric's fingerprint is unchanged. Only runs and scores of changed cases and metrics are removed. The trend of the
base branch is a row of totals for each recorded run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import agent_eval_results as results
from agent_eval_results.data.answers import never_started, silent_cases
from agent_eval_results.data.pairing import pair_up, scope
from agent_eval_results.data.stored_runs import (
    HistoryWriter,
    StoredRun,
    outcome_of,
    rescored,
    rules_of,
    scores_by_run,
    stored,
    stored_rules,
    stored_runs,
)
from agent_eval_results.data.trend import trend_row

KEEP = 20
"""Records (runs of the gate on the base branch) of a case that are kept unless a setting says otherwise."""


def extend(
    previous: results.HistoryReport | None, report: results.RunReport, keep: int = KEEP
) -> results.HistoryReport:
    """Adds a run of the base branch to the history.

    The history contains only comparable runs. Invalid or interrupted runs, runs of a pull request, runs without a
    result, and runs of silent agents are omitted, and so are confirmation runs (with numbers above `num_runs`), which
    are not a random sample. Adding a run again changes nothing.

    Args:
        previous: The history in the newest baseline; None if there is none.
        report: A run of the base branch.
        keep: The maximum number of records per case, at least 1; the newest are kept.

    Returns:
        The history to store with the report.
    """
    trend = previous.trend if previous is not None else []
    nothing = results.HistoryReport(scoring_version=report.scoring_version, keep=keep, trend=trend)
    # Another scoring version gives the same answers other scores.
    earlier = previous if previous is not None and previous.scoring_version == report.scoring_version else nothing
    record = _record(report)
    # The trend remembers longer: a record whose runs are outdated must not come back as a new one.
    if unfit(report) is not None or key_of(record) in map(key_of, (*earlier.records, *trend)):
        return earlier
    records = [*earlier.records, record]
    olds = pair_up(report.cases, (), report.selection, history=earlier.cases).stored
    writer = HistoryWriter(keep=keep)
    silent = silent_cases(report.cases, report.agents_by_file)
    # A single case with an error may be flaky; several cases with nothing but errors mean that the agent is down.
    cases = [
        case
        for case in report.cases
        if not case.replayed and (case.case_id not in silent or (len(silent) == 1 and not never_started(case)))
    ]
    for case in cases:
        old = olds.get(case.case_id)
        fresh = fresh_runs(case, report.num_runs, len(records) - 1)
        if old is not None and not case.metrics:
            # Every run raised an error before scoring: only the earlier runs have the thresholds.
            runs = [*stored_runs(earlier, old), *fresh]
            writer.add_stored(case.case_id, case.fingerprint, stored_rules(earlier, old), runs)
            continue
        rules = rules_of(case)
        runs = rescored(earlier, old, rules) if old is not None else []
        writer.add(case, rules, [*runs, *fresh])
    replayed = {olds[case.case_id].case_id for case in report.cases if case.replayed and case.case_id in olds}
    # Cases that this run omitted may run again next time.
    here = {case.case_id for case in cases} | {olds[case.case_id].case_id for case in cases if case.case_id in olds}
    # A run of some files says nothing of the others. What no record has had for `keep` records is gone.
    for old in earlier.cases:
        runs = stored_runs(earlier, old) if old.case_id not in here else []
        if runs and (old.case_id in replayed or runs[-1].record >= len(records) - keep):
            writer.add_stored(old.case_id, old.fingerprint, stored_rules(earlier, old), runs)
    trend = joined_rows(trend, [trend_row(report, record)])
    return writer.report(report.scoring_version, records).model_copy(update={"trend": trend})


def join(older: results.HistoryReport, newer: results.HistoryReport) -> results.HistoryReport:
    """Merges two histories of the same repository; shared runs count once.

    Args:
        older: Its runs are rescored with the newer history's rules.
        newer: Its cases come first. With another scoring version, only the trend of the older history is used.
    """
    trend = joined_rows(older.trend, newer.trend)
    if older.scoring_version != newer.scoring_version:
        return newer.model_copy(update={"trend": trend})
    by_key = {key_of(record): record for record in (*older.records, *newer.records)}
    records = sorted(by_key.values(), key=lambda record: record.recorded_at)
    number = {key_of(record): at for at, record in enumerate(records)}
    before = {case.case_id: case for case in older.cases}
    # Nothing is dropped: its callers (`flaky`, `view`) were given these runs to look at all of them.
    writer = HistoryWriter(keep=older.keep + newer.keep)
    for case in newer.cases:
        rules = stored_rules(newer, case)
        runs = _moved(newer, stored_runs(newer, case), number)
        old = before.pop(case.case_id, None)
        if old is not None and old.fingerprint == case.fingerprint:
            there = {run.record for run in runs}
            more = _moved(older, rescored(older, old, rules), number)
            runs += [run for run in more if run.record not in there]
        writer.add_stored(case.case_id, case.fingerprint, rules, sorted(runs, key=lambda run: run.record))
    for old in before.values():
        runs = _moved(older, stored_runs(older, old), number)
        writer.add_stored(old.case_id, old.fingerprint, stored_rules(older, old), runs)
    return writer.report(newer.scoring_version, records).model_copy(update={"trend": trend})


def _moved(
    history: results.HistoryReport, runs: Iterable[StoredRun], number: Mapping[tuple[object, ...], int]
) -> list[StoredRun]:
    """The runs with their records' indices in another history."""
    return [replace(run, record=number[key_of(history.records[run.record])]) for run in runs]


def unfit(report: results.RunReport) -> results.Reason | None:
    """Why a run must not become history; None if it may."""
    if report.is_invalid or not report.cases:
        return results.Reason.of("nothing-was-run")
    if report.caution is not None:
        return results.Reason.of("is-a-part", message=report.caution)
    if report.origin is not None and report.origin.pull_request is not None:
        return results.Reason.of("is-of-a-pull-request")
    if all(case.replayed for case in report.cases):
        return results.Reason.of("was-replayed")
    left = sum(broken_off(case) for case in report.cases)
    # The runs that ended before the interruption are the fastest ones, not a random sample.
    return results.Reason.of("broken-off", count=left) if left else None


def broken_off(case: results.CaseReport) -> bool:
    """Whether a case did not run to the end, except where `without-keys` leaves it out."""
    if case.did_not_run:
        return case.reason is None or case.reason.code != results.WITHOUT_KEY
    return any(run.did_not_run and (run.error is None or run.error.kind != results.WITHOUT_KEY) for run in case.runs)


def within(history: results.HistoryReport, selection: results.SelectionReport | None) -> results.HistoryReport:
    """The history of the cases that the selection includes."""
    if selection is None:
        return history
    here = scope(selection)
    return history.model_copy(update={"cases": [case for case in history.cases if here(case.case_id)]})


def fresh_runs(case: results.CaseReport, num_runs: int, record: int) -> list[StoredRun]:
    """The runs of a case that enter the history."""
    scores = scores_by_run(case)
    fresh = []
    for run in sorted(case.runs, key=lambda run: run.run):
        own = scores.get(run.run, {})
        outcome = outcome_of(run, own, None) if run.run < num_runs else None
        if outcome is not None and (outcome != results.UNKNOWN or own):
            rounded = {key: stored(score) for key, score in own.items()}
            fresh.append(StoredRun(record=record, outcome=outcome, scores=rounded))
    return fresh


def _record(report: results.RunReport) -> results.HistoryRecord:
    origin = report.origin
    if origin is None:
        return results.HistoryRecord(recorded_at=report.started_at, tool_version=report.tool_version)
    return results.HistoryRecord(
        commit=origin.commit,
        run_id=origin.run_id,
        run_attempt=origin.run_attempt,
        run_url=origin.run_url,
        recorded_at=report.started_at,
        tool_version=report.tool_version,
    )


def excerpt(
    history: results.HistoryReport, stored: Mapping[str, results.CaseHistory], *, with_scores: Collection[str]
) -> results.HistoryReport:
    """The trend, and the outcomes of the cases that were run and have the same content on the base branch.

    Args:
        history: The base branch's history.
        stored: Its cases by the head's id (`Pairing.stored`).
        with_scores: Ids of the head's cases that keep their scores. All scores would double a report.

    Returns:
        A history whose cases have the head's ids.
    """
    heads = {case.case_id: case_id for case_id, case in stored.items()}
    kept = []
    for case in history.cases:
        if (case_id := heads.get(case.case_id)) is not None:
            update = {"case_id": case_id} if case_id in with_scores else {"case_id": case_id, "scores": {}}
            kept.append(case.model_copy(update=update))
    return history.model_copy(update={"cases": kept, "trend": history.trend[-KEEP_ROWS:]})


KEEP_ROWS = 200
"""Rows that are kept: about 200 bytes each."""


def joined_rows(older: Sequence[results.TrendRow], newer: Sequence[results.TrendRow]) -> list[results.TrendRow]:
    """The newest KEEP_ROWS rows of both in order of time; a run that both have counts once."""
    rows = {key_of(row): row for row in (*older, *newer)}
    return sorted(rows.values(), key=lambda row: row.recorded_at)[-KEEP_ROWS:]


def key_of(record: results.HistoryRecord) -> tuple[object, ...]:
    """What identifies a run of the base branch."""
    # Outside of CI one commit may be run again and again: its time tells the runs apart.
    if record.run_id is not None:
        return record.run_id, record.run_attempt
    return record.commit, record.recorded_at
