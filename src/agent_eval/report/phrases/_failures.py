"""What fails, in the words of the headline: `1 regression vs. main (lamp)`, `2 more fail as on main`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent_eval.core.text import plural, share, shorten
from agent_eval.gate.verdict import NOTHING_SCORED
from agent_eval.report.phrases._words import as_often
from agent_eval.report.views import NEVER_RAN, Cause, never_ran, one_line
from agent_eval.report.views.digest import case_name, has_crashed, has_timed_out, is_unanswered
from agent_eval.report.views.grouping import Groups, View
from agent_eval.results import CaseReport

_NAME = 60
_TOGETHER = frozenset({"cases-worse-together", "suite-worse"})
_NEVER_RAN: Mapping[str, str] = {
    "agent-import": "can't be imported",
    "agent-environment": "has no working environment",
}


@dataclass(frozen=True, kw_only=True)
class _FailureGroup:
    """Failing cases that the headline counts together."""

    cases: Sequence[CaseReport]
    singular: str = ""
    """The verb for a single case."""
    several: str = ""
    adjective: str = ""
    phrase: str = ""
    """The whole phrase, for a group that is not counted as a part of all cases."""

    def text(self, total: int, *, first: bool) -> str:
        """E.g. `2 of 9 cases fail`, `1 new case fails`, `1 more fails as on main`."""
        if self.phrase:
            return self.phrase
        size = len(self.cases)
        verb = self.singular if size == 1 else self.several
        if self.adjective:
            return f"{plural(size, f'{self.adjective} case')} {verb}"
        return f"{share(size, total, 'case')} {verb}" if first else f"{size:,} more {verb}"


def failures(view: View) -> list[str]:
    """What fails, the worst first: a phrase for each group of cases."""
    report = view.report
    total = report.totals.cases
    dead = [cause for cause in view.crashes if cause.kind in NEVER_RAN]
    gone = {case.case_id for cause in dead for case in cause.cases}
    alone = len({file.agent for file in report.files}) <= 1
    parts = [_never_ran(cause, total, alone=alone) for cause in dead]
    for group in _failure_groups(view, gone):
        if group.cases:
            parts.append(group.text(total, first=not parts))
    if parts and not dead and any(reason.code == NOTHING_SCORED for reason in report.reasons):
        parts.append("so nothing was evaluated")
    return parts


def _failure_groups(view: View, gone: Collection[str]) -> Iterator[_FailureGroup]:
    report, sorted_out = view.report, view.groups
    worse, failed, still = (
        [case for case in cases if case.case_id not in gone]
        for cases in (sorted_out.worse, sorted_out.failed, sorted_out.still)
    )
    suspected = [case for case in worse if view.standing(case) == "suspected"]
    apart = {case.case_id for case in suspected}
    worse = [case for case in worse if case.case_id not in apart]
    silent = [case for case in worse if is_unanswered(case)]
    regressions = [case for case in worse if not is_unanswered(case)]
    explained = failing_ids(sorted_out).intersection(case for cause in report.causes for case in cause.cases)
    names = "" if explained else _in_brackets(regressions) or f" in {plural(report.totals.cases, 'case')}"
    yield _FailureGroup(cases=regressions, phrase=f"{plural(len(regressions), 'regression')} vs. {view.branch}{names}")
    yield _FailureGroup(cases=silent, singular="no longer answers", several="no longer answer")
    with_whom = "together" if len(suspected) > 1 else "with the other cases"
    decided = report.decision.reasons if report.decision is not None else ()
    is_joint = not worse and report.verdict == "failed" and any(reason.code in _TOGETHER for reason in decided)
    together = f", significant {with_whom}" * is_joint
    yield _FailureGroup(cases=suspected, phrase=suspected_text(suspected) + together)
    if report.comparison is None:
        silent = [case for case in failed if is_unanswered(case)]
        yield _FailureGroup(cases=silent, singular="has no answer", several="have no answer")
        failed = [case for case in failed if not is_unanswered(case)]
        timed_out = sum(map(has_timed_out, failed))
        crashed = sum(map(has_crashed, failed)) - timed_out
        if crashed == len(failed) and not any(run.error is not None for case in failed for run in case.runs):
            why = "by an error of a custom metric"
            yield _FailureGroup(cases=failed, singular=f"fails {why}", several=f"fail {why}")
        elif timed_out == len(failed):
            yield _FailureGroup(cases=failed, singular="times out", several="time out")
        elif crashed == len(failed):
            yield _FailureGroup(cases=failed, singular="crashes", several="crash")
        else:
            of_them = f" ({crashed:,} {'crashes' if crashed == 1 else 'crash'})" if crashed else ""
            yield _FailureGroup(cases=failed, singular="fails", several=f"fail{of_them}")
        return
    changes = {case.case_id: view.changes[case.case_id].change for case in failed if case.case_id in view.changes}
    flaky = [case for case in failed if view.outcomes[case.case_id].is_flaky]
    failed = [case for case in failed if not view.outcomes[case.case_id].is_flaky]
    yield _FailureGroup(
        cases=[case for case in failed if changes.get(case.case_id) == "added"],
        singular="fails",
        several="fail",
        adjective="new",
    )
    yield _FailureGroup(
        cases=[case for case in failed if changes.get(case.case_id) == "changed"],
        singular="fails",
        several="fail",
        adjective="changed",
    )
    others = [case for case in failed if changes.get(case.case_id) not in {"added", "changed", "still_failing"}]
    why = f"and can't be compared with {view.branch}"
    yield _FailureGroup(cases=others, singular=f"fails {why}", several=f"fail {why}")
    if report.gate in {"thresholds", "both"}:
        how = as_often(view.branch)
        yield _FailureGroup(cases=flaky, singular=f"fails {how}", several=f"fail {how}")
        still = [*(case for case in failed if changes.get(case.case_id) == "still_failing"), *still]
        yield _FailureGroup(cases=still, singular=f"fails as on {view.branch}", several=f"fail as on {view.branch}")


def failing_ids(sorted_out: Groups) -> frozenset[str]:
    """Ids of the failing cases that ran, but for those that fail on the base branch too."""
    failing = [*sorted_out.worse, *sorted_out.failed]
    return frozenset(case.case_id for case in failing if case.status == "failed" and not never_ran(case))


def _never_ran(cause: Cause, total: int, *, alone: bool) -> str:
    agent = "the agent" if alone or not cause.agent else f"the agent {shorten(cause.agent, _NAME)}"
    what = f"{agent} {_NEVER_RAN[cause.kind]}"
    size = len(cause.cases)
    if size == total:
        return (
            f"{what}, so none of {plural(total, 'case')} ran" if total > 1 else f"{what}, so the only case did not run"
        )
    return f"{what}, so {size:,} of {plural(total, 'case')} did not run"


def suspected_text(cases: Sequence[CaseReport]) -> str:
    """E.g. `1 suspected regression (lamp)`."""
    return plural(len(cases), "suspected regression") + _in_brackets(cases)


def _in_brackets(cases: Sequence[CaseReport]) -> str:
    """The names of one or two cases; "" for more."""
    return f" ({case_names(cases)})" if len(cases) <= 2 else ""


def case_names(cases: Sequence[CaseReport]) -> str:
    """The names of one or two cases."""
    return ", ".join(map(_short_name, cases))


def _short_name(case: CaseReport) -> str:
    """The name of a case. It is cut first, since a forged one may have megabytes, and shows no code."""
    return shorten(one_line(shorten(case_name(case), 1_000)).replace("`", "'"), _NAME)
