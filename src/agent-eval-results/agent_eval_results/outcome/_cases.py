"""What each case of a report is to the gate, how cases failed, and the groups of cases that texts list."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal

from agent_eval_results import (
    CHANGED_FACTS,
    PASS,
    CaseComparison,
    CaseDecisionReport,
    CaseReport,
    CaseRunsReport,
    Change,
    ChangedAnswer,
    ComparisonReport,
    DecisionReport,
    RunError,
    RunReport,
)
from agent_eval_results.data.origin import CaseWord
from agent_eval_results.data.outcome import CaseOutcome, Standing
from agent_eval_scoring.core.reason import NO_REASON, Reason
from agent_eval_scoring.core.text import first_line
from agent_eval_scoring.core.tracebacks import frames_of

NEVER_RAN = frozenset({"agent-import", "agent-environment", "agent-server-down"})
"""Kinds of errors before the first model call."""
_LINE = 300
_CHANGING = re.compile(r"[0-9a-f]{8,}|[0-9]+(?:\.[0-9]+)?", re.IGNORECASE)
"""Parts in which messages about the same cause differ: counts, seconds, request ids."""
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
"""Values in messages of exceptions that one line raises."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One error, in one case or in many."""

    kind: str
    """The error's kind, or the code of the reason."""
    owner: str
    """`agent`, `provider` or `gate`; "" if no run ended with an error."""
    message: str
    """One line, from the first case."""
    cases: Sequence[CaseReport]
    """In the order of the report."""
    agent: str = ""
    """The agent's path; "" if unknown."""
    hint: str = ""
    no_key: bool = False
    """Whether the agent's model got no key, or refused it."""
    log: str = ""
    """A traceback and the end of the agent's log, from the first case."""
    file: str | None = None
    """The file of the agent's code that raised it, relative to the repository."""
    line: int | None = None

    @property
    def by_agent(self) -> bool:
        """Whether the author of the agent has to act."""
        return self.owner == "agent"

    @property
    def by_provider(self) -> bool:
        """Whether a service failed that the run needs."""
        return self.owner == "provider"

    @property
    def never_ran(self) -> bool:
        """Whether the agent could not be loaded, so none of its cases ran."""
        return self.kind in NEVER_RAN

    @property
    def advice(self) -> str:
        """The hint; "" for an outage of a model, after which there is nothing to do but to run it again."""
        is_outage = self.by_provider and not self.no_key and not self.never_ran
        return "" if is_outage else self.hint


def causes(report: RunReport, cases: Iterable[CaseReport]) -> list[Cause]:
    """Groups cases by the agent, kind and message of their error; the largest group first.

    Args:
        report: The report, which has the agent of each file.
        cases: Cases of the report. Those without a cause (see `has_cause`) are left out.
    """
    agents = report.agents_by_file
    members_by_key: dict[tuple[str, ...], list[tuple[CaseReport, Cause]]] = {}
    for case in cases:
        cause = _cause(case, agents.get(case.file, ""))
        if cause is not None:
            # Two lines of the agent that raise the same message are two mistakes; one line with other values is one.
            at = (cause.file or "", str(cause.line or "")) if cause.by_agent else ()
            # A hint may have a command with the case, which would make each case a cause of its own.
            hint = cause.hint.replace(case.case_id, "")
            message = cause.message if not any(at) else _QUOTED.sub("*", cause.message)
            key = (cause.agent, cause.kind, hint, _CHANGING.sub("0", message), *at)
            members_by_key.setdefault(key, []).append((case, cause))
    groups = [_together(members) for members in members_by_key.values()]
    return sorted(groups, key=lambda cause: -len(cause.cases))


def has_cause(case: CaseReport) -> bool:
    """Whether an error, rather than a low score, kept a case from passing."""
    if case.errored:
        return True
    # A score below its threshold says more than an error that another run ended with.
    scored_low = any(run.failed for metric in case.metrics for run in metric.runs if run.error is None)
    return case.failed and not scored_low and _error(case) is not None


def never_ran(case: CaseReport) -> bool:
    """Whether the agent could not be loaded. Texts report that once for all its cases."""
    return any(run.ended_by(NEVER_RAN) for run in case.runs)


def is_unanswered(case: CaseReport) -> bool:
    """Whether the only error is a missing answer, e.g. because a recording doesn't have the case."""
    return set(case.error_kinds) == {"agent-no-answer"}


def has_timed_out(case: CaseReport) -> bool:
    """Whether the agent's only error is that it took too long."""
    return set(case.error_kinds) == {"deadline"}


def has_crashed(case: CaseReport) -> bool:
    """Whether the agent, or a custom metric, raised an error in a run of the case. A tool call that is not recorded is
    no error: it only ended the run early.
    """
    # A custom metric is code of the pull request, like the agent.
    errors = [run.error for run in case.runs] + [run.error for metric in case.metrics for run in metric.runs]
    return any(error is not None and error.by_agent and error.kind != "tool-not-recorded" for error in errors)


def compares_answers(metric: str) -> bool:
    """Whether a metric compares the texts of answers (ADK's names)."""
    return "response_match" in metric or metric == "response_evaluation_score"


def same_answer(report: RunReport, cases: Sequence[CaseReport]) -> str:
    """The answer of every failed run of these cases, three at least, where other answers are expected in some of them;
    "" for none, or where the answer of a failed run is not known.
    """
    sides = [
        _sides_of([case, *(more for more in report.confirmations if more.case_id == case.case_id)]) for case in cases
    ]
    # Where all expect one answer, one wrong answer is no news: it shows no agent that says the same to everything.
    answers = {actual for pairs in sides for _, actual in pairs}
    differ = len({frozenset(expected for expected, _ in pairs) for pairs in sides}) > 1
    return answers.pop().strip() if len(cases) > 2 and all(sides) and differ and len(answers) == 1 else ""


def _sides_of(parts: Sequence[CaseReport]) -> set[tuple[str, str]]:
    """What was expected and what was answered where a criterion found answers to differ, in all failed runs of a case;
    empty if a failed run has no such answer.
    """
    pairs: set[tuple[str, str]] = set()
    for part in parts:
        scores = [
            score for metric in part.metrics if compares_answers(metric.name) for score in metric.runs if score.failed
        ]
        for run in part.runs:
            found = {
                (turn.expected, turn.actual) for score in scores if score.run == run.run for turn in score.evidence
            }
            # An answer that is not known may be another one.
            if run.failed and not found:
                return set()
            pairs |= found
    return pairs


def was_not_compared(report: RunReport) -> bool:
    """Whether the base branch's results were asked for, and there are none."""
    is_missing = report.baseline is not None and not report.baseline.found
    return is_missing and (report.comparison is None or not report.comparison.compared)


def log_of(error: RunError | None) -> str:
    """The traceback of an error and the end of the agent's log; "" where there is neither."""
    texts = (error.traceback, error.log_tail) if error is not None else ()
    return "\n\n".join(text.strip("\n") for text in texts if text and text.strip())


def _together(members: Sequence[tuple[CaseReport, Cause]]) -> Cause:
    case, first = members[0]
    # A command for one case would not do for the others.
    hint = first.hint if len(members) == 1 else first.hint.replace(f" '{case.case_id}'", "")
    return Cause(**{**first.__dict__, "hint": hint, "cases": tuple(case for case, _ in members)})


def _cause(case: CaseReport, agent: str) -> Cause | None:
    if not has_cause(case):
        return None
    error = _error(case)
    if error is not None:
        log = log_of(error)
        file, line = _place(error.traceback or "", agent)
        return Cause(
            kind=error.kind,
            owner=error.owner,
            message=first_line(error.message, _LINE),
            cases=(case,),
            agent=agent,
            hint=first_line(error.hint or "", _LINE),
            no_key=error.no_key,
            log=log,
            file=file,
            line=line,
        )
    missing = [metric for metric in case.metrics if metric.lacks_result and metric.reason is not None]
    for metric in missing[:1]:
        assert metric.reason is not None
        # An unavailable judge is one cause for all its metrics.
        shared = metric.reason.code == "budget" or metric.reason.code.startswith("judge-")
        message = first_line(metric.reason.message, _LINE)
        message = message if shared else f"{metric.name} not evaluated: {message}"
        return Cause(kind=metric.reason.code, owner="", message=message, cases=(case,), agent="" if shared else agent)
    reason = case.reason
    message = first_line(reason.message, _LINE) if reason is not None else NO_REASON
    return Cause(kind=reason.code if reason is not None else "", owner="", message=message, cases=(case,), agent=agent)


def _error(case: CaseReport) -> RunError | None:
    errors = [run.error for run in case.runs if run.error is not None]
    errors += [run.error for metric in case.metrics for run in metric.runs if run.error is not None]
    # What the author can fix comes before an outage that another run met.
    blamed = [error for error in errors if error.by_agent]
    return next(iter([*blamed, *errors]), None)


def _place(traceback: str, agent: str) -> tuple[str | None, int | None]:
    """The innermost line of a traceback that is the agent's own."""
    frames = frames_of(traceback, agent)
    return (frames[-1].file, frames[-1].line) if frames else (None, None)


Trend = Literal["regression", "suspected regression", "better", "flaky", "passed again", ""]
"""How a case compares with the base branch by the statistics, whatever its status is. `flaky`: it also fails sometimes
there. `passed again`: it failed once, passed when run again, and never failed there. Empty: unchanged, or without
statistics."""

_WEIGHT: Sequence[CaseWord] = ("broken", "worse", "fixed", "better", "suspicious", "flaky as before", "unchanged")
_FLAKY = frozenset({"flaky", "passed again"})
_WITHOUT_RESULT: Mapping[str, Standing] = {
    "errored": "not-evaluated",
    "quarantined": "quarantined",
    "not_run": "not-run",
}
_RANKS: Mapping[Standing, int] = {
    "regression": 1,
    "failed": 2,
    "fails-as-before": 2,
    "not-evaluated": 3,
    "suspected": 4,
    "flaky": 5,
    "quarantined": 6,
    "not-run": 7,
    "improved": 8,
    "passed": 9,
}
"""The order of what needs attention, after what blocks."""


_CALM = frozenset[Standing]({"improved", "passed"})


class Outcome(CaseOutcome):
    """The same, with what texts say beside it."""

    would_block: bool
    """Whether it blocks, or would if the gate were not advisory."""
    excused: bool
    """Whether it did not pass and does not count."""
    word: CaseWord
    """Of its most significant metric."""
    trend: Trend
    is_flaky: bool
    """Whether it failed in some runs, about as often as on the base branch."""
    has_failed_there: bool
    """Whether the base branch's history has it both pass and fail, or it is flaky."""
    as_before: bool
    """Whether it fails on the base branch too, and no less often."""
    always_fails: bool
    """Whether the statistics name it and no run of it passed."""
    is_calm: bool
    """Whether it passes, and no more is to be said of it than that it got better."""
    label: str
    """How it compares with the base branch: `metric-worse`, `always-fails`, `sometimes-fails`, its trend or its change;
    with `-suspected` where that may be chance. Empty: not at all, or what happened to it says more."""

    @property
    def is_unjudged(self) -> bool:
        """Whether its label is that it could not be compared."""
        return self.label == "unjudged"

    @property
    def is_flaky_there(self) -> bool:
        """Whether it also fails sometimes on the base branch."""
        return self.trend == "flaky"

    @property
    def is_better(self) -> bool:
        """Whether the statistics say so; another pass alone is no evidence."""
        return self.trend == "better"


_SECTIONS: Mapping[Standing, str] = {
    "regression": "worse",
    "suspected": "worse",
    "failed": "failed",
    "fails-as-before": "still",
    "flaky": "flaky",
    "improved": "better",
    "not-evaluated": "errored",
    "quarantined": "quarantined",
}
"""Cases that pass as before and those that did not run are in no group."""


@dataclass(frozen=True, kw_only=True)
class Groups:
    """The cases of the head by section; each is in one section at most."""

    worse: list[CaseReport] = field(default_factory=list)
    """Regressions, then suspected ones; without statistics, cases that failed only here."""
    failed: list[CaseReport] = field(default_factory=list)
    """Failing cases that can't be compared with the base branch, or that block by a threshold alone."""
    still: list[CaseReport] = field(default_factory=list)
    flaky: list[CaseReport] = field(default_factory=list)
    """Cases that failed in some runs, about as often as on the base branch."""
    better: list[CaseReport] = field(default_factory=list)
    errored: list[CaseReport] = field(default_factory=list)
    quarantined: list[CaseReport] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Lookups:
    """What a report says of each case, by its id."""

    report: RunReport

    @cached_property
    def decisions(self) -> Mapping[str, Sequence[CaseDecisionReport]]:
        """Results of the statistics, the most significant metric first; empty without statistics."""
        decisions: dict[str, list[CaseDecisionReport]] = {}
        for case in self.report.decision.cases if self.report.decision is not None else ():
            decisions.setdefault(case.case_id, []).append(case)
        for metrics in decisions.values():
            metrics.sort(key=lambda metric: _WEIGHT.index(metric.word))
        return decisions

    @cached_property
    def runs(self) -> Mapping[str, CaseRunsReport]:
        """Passed and scored runs of both sides."""
        return {case.case_id: case for case in self.report.decision.runs} if self.report.decision is not None else {}

    @cached_property
    def changes(self) -> Mapping[str, CaseComparison]:
        """Cases of the head that differ from the base branch."""
        comparison = self.report.comparison
        # A case that is gone may have the name that a renamed one has now.
        return {case.case_id: case for case in comparison.cases if not case.is_gone} if comparison is not None else {}

    @cached_property
    def cases(self) -> Mapping[str, CaseReport]:
        """The cases of the head by their id."""
        return {case.case_id: case for case in self.report.cases}

    @cached_property
    def answers(self) -> Mapping[str, ChangedAnswer]:
        """Cases that answer or act otherwise than on the base branch."""
        comparison = self.report.comparison
        return {case.case_id: case for case in comparison.changed_answers} if comparison is not None else {}

    @cached_property
    def outcomes(self) -> Mapping[str, Outcome]:
        """What each case is to the gate."""
        blocking = frozenset(self.report.blocking)
        return {case.case_id: _outcome(case, self, case.case_id in blocking) for case in self.report.cases}

    @cached_property
    def notable(self) -> frozenset[str]:
        """Ids of the head's cases that did not pass, or that differ in anything from the base branch."""
        not_passed = (case.case_id for case in self.report.cases if not case.passed)
        return frozenset((*not_passed, *self.changes, *self.answers, *self.decisions))

    def passes_as_before(self, case: CaseReport) -> bool:
        """Whether a case passes, and neither the statistics nor its answers say anything else of it.

        That its content or its name is another one does not count, unlike in `notable`.
        """
        outcome, change = self.outcomes[case.case_id], self.changes.get(case.case_id)
        is_news = change is not None and change.change in {"fixed", "added"}
        return outcome.standing == "passed" and not outcome.trend and not is_news and case.case_id not in self.answers

    def to_look_at(self) -> list[CaseReport]:
        """The cases that failed, could not be evaluated, or block although they pass: of them a person reads first."""
        return [case for case in self.report.cases if case.went_wrong or self.outcomes[case.case_id].would_block]

    def standing(self, case: CaseReport) -> Standing:
        """What a case is."""
        return self.outcomes[case.case_id].standing

    @cached_property
    def groups(self) -> Groups:
        """The cases by section."""
        groups = Groups()
        for case in self.report.cases:
            if (section := _SECTIONS.get(self.standing(case))) is not None:
                getattr(groups, section).append(case)
        groups.worse.sort(
            key=lambda case: (self.standing(case) == "suspected", not self.outcomes[case.case_id].always_fails)
        )
        return groups

    @cached_property
    def errors(self) -> Sequence[Cause]:
        """What kept cases from being evaluated."""
        return causes(self.report, self.groups.errored)

    @cached_property
    def crashes(self) -> Sequence[Cause]:
        """The errors because of which cases failed."""
        groups = self.groups
        failed = [case for case in (*groups.worse, *groups.failed, *groups.still) if case.failed]
        return causes(self.report, failed)


def shown_word(metric: CaseDecisionReport, decision: DecisionReport) -> CaseWord:
    """The word of a metric of a case as texts use it.

    A suspected regression is a regression for them if the comparison fails the run and the case's fresh runs alone say
    so, although the comparison names others. What else fails the run, such as an error of the agent, does not count.
    It is none if its fresh runs pass: what fails the run is not seen in it.
    """
    if metric.word == "suspicious" and metric.passed_again:
        return "flaky as before"
    if metric.word != "suspicious" or not decision.is_beyond_chance(metric) or decision.outcome != "failed":
        return metric.word
    return "worse" if metric.head_mean else "broken"


@lru_cache(maxsize=1024)
def _shared(**facts: Any) -> Outcome:
    """One object for the many cases that are the same to the gate."""
    return Outcome(**facts)


def _outcome(case: CaseReport, found: Lookups, would_block: bool) -> Outcome:
    report, metrics = found.report, found.decisions.get(case.case_id)
    runs, comparison = found.runs.get(case.case_id), found.changes.get(case.case_id)
    word = shown_word(metrics[0], report.decision) if metrics and report.decision is not None else "unchanged"
    trend = _trend(word, runs)
    change = comparison.change if comparison is not None else None
    blocks = would_block and not report.is_advisory
    no_pass = case.went_wrong
    # History counts here, other than for the standing: a case that is known to fail at times is never called calm.
    unsteady = trend in _FLAKY or any(metric.flakiness is not None for metric in metrics or ())
    excused = no_pass and not blocks and _is_excused(case, report)
    standing = _standing(case, report, trend, change, would_block=would_block)
    always_fails = metrics is not None and (metrics[0].word == "broken" if runs is None else runs.head_passed == 0)
    if standing in {"not-evaluated", "quarantined"}:
        label = ""
    elif trend and standing not in {"regression", "suspected"}:
        label = trend
    elif trend and metrics:
        how = "always-fails" if always_fails else "sometimes-fails"
        label = {PASS: how, CHANGED_FACTS: "answers-differ"}.get(metrics[0].metric, "metric-worse")
    else:  # Passing once more is no news beside statistics.
        label = "" if change is None or (change == "fixed" and report.decision is not None) else change
    return _shared(
        standing=standing,
        blocks=blocks,
        would_block=would_block,
        excused=excused,
        counts=blocks or (no_pass and not excused),
        rank=0 if would_block else _RANKS[standing],
        evidence="replayed" if case.replayed else "live",
        word=word,
        trend=trend,
        is_flaky=trend in _FLAKY,
        has_failed_there=unsteady,
        is_calm=standing in _CALM and not would_block and not unsteady,
        as_before=trend in _FLAKY or change == "still_failing",
        always_fails=always_fails,
        label=f"{label}-suspected" if standing == "suspected" else label,
    )


def _trend(word: CaseWord, runs: CaseRunsReport | None) -> Trend:
    match word:
        case "broken" | "worse":
            return "regression"
        case "suspicious":
            return "suspected regression"
        case "fixed" | "better":
            return "better"
        case "flaky as before":
            return "passed again" if runs is not None and runs.base_passed == runs.base_runs > 0 else "flaky"
    return ""


def _standing(
    case: CaseReport, report: RunReport, trend: Trend, change: Change | None, *, would_block: bool
) -> Standing:
    if case.status in _WITHOUT_RESULT:
        return _WITHOUT_RESULT[case.status]
    # Before the status: a case may pass and still have a score that got worse.
    if trend == "regression" or (trend == "suspected regression" and would_block):
        return "regression"
    if trend == "suspected regression":
        return "suspected"
    if case.passed:
        # One good run after a bad one is no improvement: if there are statistics, they decide.
        better = trend == "better" or (report.decision is None and change == "fixed")
        return "improved" if better else "passed"
    if trend in _FLAKY or change == "still_failing":
        if would_block:
            return "failed" if _by_threshold(case, report) else "regression"
        return "flaky" if trend in _FLAKY else "fails-as-before"
    if change != "newly_failing":
        return "failed"
    # One that was never run again, since another had decided, is suspected; one that blocks is more than that.
    return "suspected" if report.decision is not None and not trend and not would_block else "regression"


def _by_threshold(case: CaseReport, report: RunReport) -> bool:
    """Whether a case that is no worse than on the base branch blocks by a threshold.

    If thresholds don't block, it blocks e.g. because the agent raised an error in it.
    """
    crash_blocks = report.has_reason("agent-error") and has_crashed(case)
    return report.gate == "thresholds" or (report.gate == "both" and not crash_blocks)


def _is_excused(case: CaseReport, report: RunReport) -> bool:
    if report.passed or (report.exit_code == 0 and report.has_verdict):
        return True
    # A run that fails for another reason than its cases excuses none; what could not be evaluated still counts.
    return report.failed and bool(report.blocking) and case.failed


def behind(reason: Reason) -> Mapping[str, Any]:
    """Code and data of the reason behind a reason; empty for none. In a report of a file they are plain values."""
    because = reason.data.get("because")
    because = because.model_dump() if isinstance(because, Reason) else because if isinstance(because, dict) else {}
    data = because.get("data")
    return {**(data if isinstance(data, dict) else {}), "code": str(because.get("code", ""))}


def change_counts(comparison: ComparisonReport | None) -> Counter[Change]:
    """How many cases each change has; none without a comparison."""
    return Counter(case.change for case in comparison.cases) if comparison is not None else Counter()
