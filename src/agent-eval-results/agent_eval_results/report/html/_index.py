"""The index of the page: the header, what the list of cases needs, in columns, and the trend of the base branch, with
this run as a last point if it is not one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any

from agent_eval_results import (
    CaseComparison,
    CaseReport,
    HistoryRecord,
    HistoryReport,
    MetricReport,
    RunResult,
    TrendRow,
)
from agent_eval_results.data.trend import drift, trend_row
from agent_eval_results.report.html._case import PageCase, page_word
from agent_eval_results.report.html._causes import Causes, agent_changes
from agent_eval_results.report.html._header import about, header
from agent_eval_results.report.html._packing import number, shown
from agent_eval_results.report.html._runs import PageRun, base_runs
from agent_eval_results.report.html._source import Facts, Plan
from agent_eval_results.report.phrases import changed_note, drift_notices, headline
from agent_eval_results.report.views import MetricRow, first_difference, percent_text
from agent_eval_results.report.views.grouping import NO_NAME
from agent_eval_scoring.core.text import plural

DATA_VERSION = 1
_NAME, _LINE = 500, 300
_MEAN = 9
"""Decimals of a mean over cases: 0.8 five times is 0.8. It decides nothing."""
_LAST_ROWS = 20
"""Recorded runs in the strip of a metric."""


class Strings:
    """Repeated texts, each kept once."""

    def __init__(self) -> None:
        """Begins empty."""
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        """The index of a text."""
        return self._places.setdefault(text, len(self._places))

    def all(self) -> list[str]:
        """The texts by index."""
        return list(self._places)


class Index:
    """Collects a row for each case while the blocks are written."""

    def __init__(self, facts: Facts) -> None:
        """Begins without rows."""
        self.facts = facts
        self.strings = Strings()
        self.ignored = 0
        """Recordings that belong to no run."""
        self._columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        self._order: list[tuple[int, int, int]] = []
        self._metrics = [row.name for row in facts.view.metric_rows]
        self._causes = Causes(facts)
        self._agents = facts.report.agents_by_file

    def add(self, page_case: PageCase, block: int) -> None:
        """Adds the row of a case."""
        case, detail, facts = page_case.case, page_case.detail, self.facts
        self.ignored += page_case.runs.ignored
        self._causes.see(page_case)
        change = facts.change(case.case_id)
        metrics = {metric.name: metric for metric in case.metrics}
        bases = page_case.bases
        passed, runs = facts.view.judged_runs(case)
        history = facts.history_of(case)
        self._append(
            {
                **self._identity(case.case_id, case.file, case.eval_id, case.line),
                "status": case.status,
                "change": change.change if change is not None else None,
                "word": word_of(facts, case.case_id),
                "tags": tags_of(facts, case),
                "why": self._why(page_case),
                "scores": [number(metrics[name].score) if name in metrics else None for name in self._metrics],
                "deltas": [_delta(metrics.get(name), bases.get(name)) for name in self._metrics],
                "ok": [_ok(metrics.get(name)) for name in self._metrics],
                "seconds": number(fmean([run.duration for run in case.runs] or [0.0]), 3),
                "tokens": _tokens(case.runs),
                "cost": number(facts.costs[0].get(case.case_id), 6),
                "runs_passed": passed,
                "runs": runs,
                **self._base_counts(case),
                # Without recordings the results of today's runs are known nevertheless.
                **base_means(page_case.runs.base or base_runs(facts, case.case_id, is_read=False)),
                "group": self._group(case),
                "history": history.outcomes if history is not None else "",
                "records_s": self.strings.place(history.records if history is not None else ""),
                "user": page_case.user() if detail.words else "",
                "tools": [self.strings.place(tool) for tool in page_case.tools()] if detail.words else [],
                "block": block,
                "removed": 0,
            },
            facts.view.outcomes[case.case_id].rank,
        )

    def add_removed(self, change: CaseComparison, block: int) -> None:
        """Adds the row of a case that only the base branch has."""
        none = [None] * len(self._metrics)
        self._append(
            {
                **self._identity(self.facts.removed_id(change.case_id), change.file, change.eval_id, None),
                "status": change.base or "not_run",
                "change": "removed",
                "word": None,
                "tags": ["removed"],
                "why": f"The case exists on {self.facts.view.branch} only.",
                **{"scores": none, "deltas": none, "ok": none},
                **{"seconds": 0, "tokens": None, "cost": None, "runs_passed": 0, "runs": 0},
                **{**_NO_BASE, **base_means(()), "group": self._causes.count + 2, "records_s": self.strings.place("")},
                **{"history": "", "user": "", "tools": [], "block": block, "removed": 1},
            },
            _REMOVED,
        )

    def data(self, plan: Plan, blocks: int) -> dict[str, Any]:
        """The index as it is packed."""
        facts, rows = self.facts, self.rows()
        return {
            "report_data_version": DATA_VERSION,
            "level": plan.level,
            "left_out": list(plan.left_out),
            "title": f"agent-eval: {shown(headline(facts.view, words=plan.others.words), _LINE)}",
            "header": header(facts, self.ignored, words=plan.others.words),
            "about": about(facts),
            "causes": self._causes.data(plan.others),
            "agent_changes": agent_changes(facts),
            "metrics": metric_table(facts),
            "cases": rows["cases"],
            "blocks": blocks,
            "trend": trend(facts),
            "recorded": [record.recorded_at for record in facts.history.records] if facts.history is not None else [],
            "strings": rows["strings"],
        }

    def rows(self) -> dict[str, Any]:
        """The parts of it that grow with each case."""
        ranked = sorted(range(len(self._order)), key=self._order.__getitem__)
        ranks = [0] * len(ranked)
        for rank, at in enumerate(ranked):
            ranks[at] = rank
        return {"cases": {**self._columns, "rank": ranks}, "strings": self.strings.all()}

    def _group(self, case: CaseReport) -> int:
        """The part of the list: the number of its cause; then, without one, what needs attention and what doesn't."""
        number = self._causes.number(case.case_id)
        # A case that a cause explains stands with the others of that cause, whatever it is by itself.
        calm = self.facts.view.outcomes[case.case_id].is_calm
        return number if number is not None else self._causes.count + calm

    def _append(self, row: dict[str, Any], attention: int) -> None:
        # The last number keeps the order of the file among equals.
        self._order.append((row["group"], attention, len(self._order)))
        for name, column in self._columns.items():
            column.append(row[name])

    def _identity(self, case_id: str, file: str, eval_id: str, line: int | None) -> dict[str, Any]:
        return {
            "id": shown(case_id, 2_000),
            "file_s": self.strings.place(shown(file, 1_000)),
            "eval_id": shown(eval_id, 2_000),
            "line": line,
            "agent_s": self.strings.place(shown(self._agents.get(file, ""), _NAME)),
        }

    def _why(self, page_case: PageCase) -> str:
        case, detail = page_case.case, page_case.detail
        if case.passed:
            other = changed_note(self.facts.view.answers.get(case.case_id)) if detail.words else ""
            return shown("; ".join(filter(None, [other, *page_case.low[:1]])), _LINE)
        # Without words even our own sentence is left out: it quotes what the agent said.
        if not detail.words:
            return shown(case.reason.code, _NAME) if case.reason is not None else ""
        return shown(" ".join(first_difference(case, page_case.listed).split()), _LINE)

    def _base_counts(self, case: CaseReport) -> dict[str, int]:
        counts = self.facts.view.runs.get(case.case_id)
        return {"base_passed": counts.base_passed, "base_runs": counts.base_runs} if counts else _NO_BASE


COLUMNS = (
    *("id", "file_s", "eval_id", "line", "agent_s", "status", "change", "word", "tags", "why", "scores", "deltas"),
    *("ok", "seconds", "tokens", "cost", "runs_passed", "runs", "base_passed", "base_runs", "base_seconds"),
    *("base_tokens", "group", "history", "records_s", "user", "tools", "block", "removed"),
)
"""The columns of `cases`; `rank` follows when all cases are known."""

_REMOVED = 12
_NO_BASE: dict[str, int] = {"base_passed": 0, "base_runs": 0}


def base_means(runs: Iterable[PageRun]) -> dict[str, Any]:
    """Mean seconds and tokens of the base branch's runs of a case that ended without an error; None if unknown."""
    results = [run.result for run in runs if run.result.error is None and not run.result.did_not_run]
    seconds = [result.duration for result in results]
    return {"base_seconds": number(fmean(seconds), 3) if seconds else None, "base_tokens": _tokens(results)}


_TAGS = (
    *("blocking", "regression", "suspected", "flaky", "quarantined", "fixed"),
    *("new", "changed", "changed_answer", "renamed", "replayed"),
)
_CHANGES = {"added": "new", "changed": "changed"}


def tags_of(facts: Facts, case: CaseReport) -> list[str]:
    """Tags for search and filters, in a fixed order. A standing is a tag if it has the name of one."""
    change = facts.change(case.case_id)
    outcome = facts.view.outcomes[case.case_id]
    more = {
        "blocking": outcome.blocks,
        "flaky": outcome.has_failed_there,
        "fixed": outcome.is_better,  # By the statistics: passing once more is no evidence.
        "changed_answer": case.case_id in facts.view.answers,
        "renamed": change is not None and change.renamed_from is not None,
        "replayed": case.replayed,
    }
    held = {outcome.standing, *(tag for tag, holds in more.items() if holds)}
    held |= {_CHANGES.get(change.change, "")} if change is not None else set()
    return [tag for tag in _TAGS if tag in held]


def word_of(facts: Facts, case_id: str) -> str | None:
    """The word of the statistical decision for the case's most significant metric; None if it is unchanged."""
    return page_word(facts.view.outcomes[case_id].word) if case_id in facts.view.decisions else None


def metric_table(facts: Facts) -> list[dict[str, Any]]:
    """A row for each metric, gating ones first."""
    comparison = facts.report.comparison
    compared = {metric.name: metric for metric in comparison.metrics} if comparison is not None else {}
    judges: dict[str, str] = {}
    for case in facts.report.cases:
        for metric in case.metrics:
            if metric.judge is not None:
                judges.setdefault(metric.name, metric.judge)
    return [_metric_row(facts, row, compared.get(row.name), judges.get(row.name)) for row in facts.view.metric_rows]


def _metric_row(facts: Facts, row: MetricRow, compared: Any, judge: str | None) -> dict[str, Any]:
    # The mean of the compared cases, so that it and the base branch's are of the same ones.
    score = compared.score if compared is not None and compared.cases else None
    note = compared.note.message if compared is not None and compared.note is not None else ""
    return {
        "name": shown(row.name, _NAME),
        "now": number(row.mean if score is None else score.head, _MEAN),
        "base": number(score.base, _MEAN) if score is not None else None,
        "delta": number(score.delta) if score is not None else None,
        "threshold": number((min if row.at_most else max)(row.thresholds)) if row.thresholds else None,
        "needs": row.threshold if len(row.thresholds) > 1 else None,
        "direction": "lower" if row.at_most else "higher",
        "gates": row.gates,
        "passed": row.passed,
        "failed": row.failed,
        "not_evaluated": row.not_evaluated,
        "cost": number(facts.costs[1].get(row.name), 6),
        "judge": shown(judge, _NAME) or None,
        "note": shown(note, 1_000),
        "history": _metric_history(facts, row.name),
    }


def _metric_history(facts: Facts, name: str) -> list[float | str | None]:
    """The metric's mean score in the last recorded runs of the base branch, oldest first."""
    rows = facts.history.trend[-_LAST_ROWS:] if facts.history is not None else []
    return [number(row.means.get(name)) for row in rows]


def _delta(metric: MetricReport | None, base: float | None) -> float | str | None:
    if metric is None or metric.score is None or base is None:
        return None
    # The difference of two equal means may be a rounding error, which must not be shown as a change.
    delta = metric.score - base
    return 0 if abs(delta) < 1e-9 else number(delta, 6)


def _ok(metric: MetricReport | None) -> int | None:
    return None if metric is None else {"passed": 1, "failed": 0}.get(metric.status)


def _tokens(runs: Iterable[RunResult]) -> int | None:
    """Mean tokens of the agent's model calls per run; None if none reported them."""
    counts = [
        # Thoughts are part of the output here (token_usage_v1), as in the trend and in the comparison.
        (run.usage.input_tokens or 0) + (run.usage.output_tokens or 0)
        for run in runs
        if run.usage.input_tokens is not None or run.usage.output_tokens is not None
    ]
    return round(sum(counts) / len(counts)) if counts else None


_NOTE = 2_000
"""Characters of what is said of a recorded run."""


def trend(facts: Facts) -> dict[str, Any] | None:
    """The rows of `history.trend`, what changed between them, and this run; None if nothing is recorded yet."""
    history = facts.history
    if history is None or not history.trend:
        return None
    return {
        "branch": _branch(facts),
        "rows": [_row(facts, row) for row in history.trend],
        "notes": [{"row": at, "text": shown(text, _NOTE)} for at, text in _notes(history)],
        "drift": [shown(line, _NOTE) for line in drift_notices(drift(history), facts.report.change)],
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
    # A run of the base branch is the newest row of its own history; a second row would count it twice.
    if report.history is not None or report.is_invalid or not report.cases:
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
    places = {_key(record): at for at, record in enumerate(history.records)}
    first, second = places.get(_key(before)), places.get(_key(after))
    if first is None or second is None:
        return ""
    pairs = [
        (passed_before, passed_after)
        for case in history.cases
        if (passed_before := case.passed_in(first)) is not None and (passed_after := case.passed_in(second)) is not None
    ]
    if not pairs:
        return ""
    rates = [percent_text(sum(side) / len(pairs)) for side in zip(*pairs, strict=True)]
    return f" On the {plural(len(pairs), 'case')} that both runs have, {rates[0]} passed before and {rates[1]} after."


def _key(record: HistoryRecord) -> tuple[object, ...]:
    return record.run_id, record.run_attempt, record.commit, record.recorded_at
