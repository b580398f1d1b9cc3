"""The decision and its cause in one sentence, worded here for every text: console, summary, comment, JUnit.

Plain text, as in `digest`. On a pull request it says what becomes of the merge; elsewhere what became of the run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent_eval.agents.host import KEY_HINT
from agent_eval.core.text import first_line, plural, shorten
from agent_eval.gate.caveats import NOTHING_SCORED
from agent_eval.gate.rule_changes import CASES_REMOVED
from agent_eval.report.views._causes import NEVER_RAN, Cause, causes
from agent_eval.report.views._visible import one_line
from agent_eval.report.views.digest import case_name, has_crashed, is_unanswered, with_status
from agent_eval.report.views.grouping import BaseComparison, Groups, change_counts, groups, is_suspected
from agent_eval.report.views.rule_changes import base_name
from agent_eval.results import WITHOUT_KEY, CaseReport, RunReport

_LINE = 300
_NAME = 60

_ON_MERGE: Mapping[str, str] = {
    "failed": "Blocks the merge",
    "inconclusive": "Can't tell",
    "invalid": "Blocks the merge",
}
_OF_A_RUN: Mapping[str, str] = {"failed": "Failed", "inconclusive": "Inconclusive", "invalid": "Invalid"}

_WHOLE_CAUSES = frozenset({"no-secrets", "run-ended-otherwise"})
"""Codes of reasons that explain all of a verdict: the headline is that reason, and no count of cases beside it."""
_NEVER_RAN: Mapping[str, str] = {
    "agent-import": "can't be imported",
    "agent-environment": "has no working environment",
}
_NO_KEY = "no-key"
"""Of cases whose agent's model refused the key, or got none."""
_REMEDIES: Mapping[str, str] = {
    "run-timeout": "raise run-timeout",
    "budget": "raise the budget",
    WITHOUT_KEY: "give the job a model key",
    _NO_KEY: "give the job a model key that works",
    "fail-fast": "",
}
"""What to do about cases without a verdict, by the cause. Of an unknown one: start the job again."""


def headline(report: RunReport, known: BaseComparison) -> str:
    """The decision and its cause.

    Args:
        report: What to say it of.
        known: What is known about the base branch.
    """
    said = _decision(report, known)
    if report.verdict == "invalid":
        return said
    gone = _gone(report, known)
    return f"{_with_rules(said, report)}{f'; {gone}' if gone and gone not in said else ''}"


def _decision(report: RunReport, known: BaseComparison) -> str:
    leads = _ON_MERGE if is_for_merge(report) else _OF_A_RUN
    if report.verdict == "passed" and report.reasons:
        return _advice(report, known) or _reason(report)  # Green, and no proof that the agent works.
    if report.verdict == "inconclusive" and report.exit_code == 0:
        return _allowed(report, leads["inconclusive"])
    if report.reasons and report.reasons[0].code in _WHOLE_CAUSES:
        reason = _reason(report)
        return f"{leads[report.verdict]}: {reason[:1].lower()}{reason[1:]}"
    if report.verdict == "invalid":
        errors = sum(problem.severity == "error" for problem in report.problems)
        found = plural(errors, "error") + " in the eval files or the configuration" if errors else _reason(report)
        return f"{leads['invalid']}: {found}; nothing was run"
    sorted_out = groups(report, known)
    if report.verdict == "passed":
        return _passed(report, known, sorted_out)
    parts = list(_wrong(report, known, sorted_out)) if report.verdict == "failed" else []
    parts += _undecided(report, known, sorted_out) if report.verdict == "inconclusive" else _unjudged(report, parts)
    sentence = ", ".join(parts)
    if not sentence:
        removal = bool(report.reasons) and report.reasons[0].code == CASES_REMOVED
        sentence = (_gone(report, known) if removal else "") or _inside(_reason(report))
    if report.totals.quarantined:
        sentence += f", {report.totals.quarantined:,} quarantined"
    remedy = _remedy(report) if report.verdict == "inconclusive" else ""
    return f"{leads[report.verdict]}: {sentence}{f'; {remedy}' if remedy else ''}"


def _advice(report: RunReport, known: BaseComparison) -> str:
    """What an advisory gate would have said of cases that fail; "" where there is no such case."""
    if report.gate != "advisory" or not (wrong := _wrong(report, known, groups(report, known))):
        return ""
    would = "Would block the merge" if is_for_merge(report) else "Would fail"
    return f"{would}: {', '.join(wrong)}; exit 0 because `gate` is `advisory`"


def _allowed(report: RunReport, lead: str) -> str:
    """A run that came to nothing and is green, since a setting says so."""
    totals = report.totals
    share = f"all {totals.cases:,} cases" if totals.cases > 1 else "the only case"
    if totals.errored < totals.cases:
        share = f"{totals.errored:,} of {plural(totals.cases, 'case')}"
    said = f"{lead}: {share} could not be judged" if totals.passed or totals.failed else ""
    said = said or f"Nothing was evaluated: {share} could not be judged"
    return f"{said}; exit 0 because `on-inconclusive` is `pass`"


def headline_status(report: RunReport) -> str:
    """What stands before the headline: a verdict, or `warning` for one that passed and deserves a look."""
    if report.verdict != "passed":
        return report.verdict
    changes = report.rule_changes
    loosened = changes is not None and (changes.only_here or changes.removed)
    return "warning" if report.reasons or loosened else "passed"


def is_for_merge(report: RunReport) -> bool:
    """Whether the run is about a merge: that of a pull request or of a merge queue."""
    origin = report.origin
    return origin is not None and (origin.pull_request is not None or origin.event == "merge_group")


def _reason(report: RunReport) -> str:
    return first_line(report.reasons[0].message, _LINE) if report.reasons else "no reason was recorded"


def _inside(sentence: str) -> str:
    """A sentence as it stands behind a colon. A name, e.g. of a variable, keeps its letters."""
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence


@dataclass(frozen=True, kw_only=True)
class _FailureGroup:
    """Failing cases with the same thing wrong."""

    cases: Sequence[CaseReport]
    one: str
    """The verb for a single case."""
    many: str
    adjective: str = ""

    def told(self, total: int, *, first: bool) -> str:
        """E.g. `2 of 9 cases broke`, `1 new case fails`, `1 more may have got worse`."""
        size = len(self.cases)
        verb = self.one if size == 1 else self.many
        if self.adjective:
            return f"{plural(size, f'{self.adjective} case')} {verb}"
        return f"{size:,} of {plural(total, 'case')} {verb}" if first else f"{size:,} more {verb}"


def _wrong(report: RunReport, known: BaseComparison, sorted_out: Groups) -> list[str]:
    """What fails, the weightiest first."""
    total = report.totals.cases
    failing = [case for case in [*sorted_out.worse, *sorted_out.failed, *sorted_out.still] if case.status == "failed"]
    dead = [cause for cause in causes(report, failing) if cause.kind in NEVER_RAN]
    gone = {case.case_id for cause in dead for case in cause.cases}
    alone = len({file.agent for file in report.files}) <= 1
    parts = [_never_ran(cause, total, alone=alone) for cause in dead]
    for kind in _failure_groups(report, known, sorted_out, gone):
        if kind.cases:
            parts.append(kind.told(total, first=not parts))
    if parts and not dead and any(reason.code == NOTHING_SCORED for reason in report.reasons):
        parts.append("so nothing was evaluated")
    return parts


def _failure_groups(
    report: RunReport, known: BaseComparison, sorted_out: Groups, gone: Collection[str]
) -> Iterator[_FailureGroup]:
    worse, failed, still = (
        [case for case in cases if case.case_id not in gone]
        for cases in (sorted_out.worse, sorted_out.failed, sorted_out.still)
    )
    # What blocks by itself, e.g. since the agent never answered, is more than a suspicion.
    suspected = [case for case in worse if is_suspected(case, known) and case.case_id not in report.blocking]
    broke = [case for case in worse if case not in suspected]
    silent = [case for case in broke if is_unanswered(case)]
    yield _FailureGroup(cases=[case for case in broke if case not in silent], one="broke", many="broke")
    yield _FailureGroup(cases=silent, one="has no answer any more", many="have no answer any more")
    together = not broke and report.verdict == "failed" and known.together
    verb = "got worse, taken together" if together else "may have got worse"
    yield _FailureGroup(cases=suspected, one=verb, many=verb)
    if known.comparison is None:
        silent = [case for case in failed if is_unanswered(case)]
        yield _FailureGroup(cases=silent, one="has no answer", many="have no answer")
        failed = [case for case in failed if case not in silent]
        crashed = sum(has_crashed(case) for case in failed)
        if crashed == len(failed) and not any(run.error is not None for case in failed for run in case.runs):
            why = "by an error of a custom metric"
            yield _FailureGroup(cases=failed, one=f"fails {why}", many=f"fail {why}")
        elif crashed == len(failed):
            yield _FailureGroup(cases=failed, one="crashes", many="crash")
        else:
            of_them = f" ({crashed:,} {'crashes' if crashed == 1 else 'crash'})" if crashed else ""
            yield _FailureGroup(cases=failed, one="fails", many=f"fail{of_them}")
        return
    change = {case.case_id: one.change for case in failed if (one := known.changes.get(case.case_id)) is not None}
    yield _FailureGroup(
        cases=[case for case in failed if change.get(case.case_id) == "added"],
        one="fails",
        many="fail",
        adjective="new",
    )
    yield _FailureGroup(
        cases=[case for case in failed if change.get(case.case_id) == "changed"],
        one="fails",
        many="fail",
        adjective="changed",
    )
    others = [case for case in failed if change.get(case.case_id) not in {"added", "changed"}]
    why = f"and can't be compared with {known.branch}"
    yield _FailureGroup(cases=others, one=f"fails {why}", many=f"fail {why}")
    if report.gate in {"thresholds", "both"}:
        yield _FailureGroup(cases=still, one=f"fails as on {known.branch}", many=f"fail as on {known.branch}")


def _never_ran(cause: Cause, total: int, *, alone: bool) -> str:
    agent = "the agent" if alone or not cause.agent else f"the agent {shorten(cause.agent, _NAME)}"
    what = f"{agent} {_NEVER_RAN[cause.kind]}"
    size = len(cause.cases)
    if size == total:
        return (
            f"{what}, so none of {plural(total, 'case')} ran" if total > 1 else f"{what}, so the only case did not run"
        )
    return f"{what}, so {size:,} of {plural(total, 'case')} did not run"


def _unjudged(report: RunReport, before: Sequence[str]) -> Iterator[str]:
    """How many cases have no verdict."""
    totals = report.totals
    if totals.errored:
        yield f"{_some(totals.errored, report, before)} could not be judged"
    if totals.not_run:
        yield f"{_some(totals.not_run, report, before or ['errored'] * bool(totals.errored))} did not run"


def _some(size: int, report: RunReport, before: Sequence[str]) -> str:
    return f"{size:,}" if before else f"{size:,} of {plural(report.totals.cases, 'case')}"


def _undecided(report: RunReport, known: BaseComparison, sorted_out: Groups) -> list[str]:
    parts = list(_unjudged(report, ()))
    size = len(sorted_out.worse)
    if size and report.decision is not None and report.decision.outcome == "inconclusive":
        named = f" ({_names(sorted_out.worse)})" if size <= 2 else ""
        parts.append(f"{_some(size, report, parts)} may have got worse{named}")
    return parts


def _names(cases: Sequence[CaseReport], most: int = 2) -> str:
    more = f" and {len(cases) - most:,} more" if len(cases) > most else ""
    return ", ".join(shorten(one_line(case_name(case)), _NAME) for case in cases[:most]) + more


def _remedy(report: RunReport) -> str:
    """What to do about a run that came to no verdict, by what most of its cases lack."""
    unjudged = causes(report, with_status(report, "errored"))
    codes = [_NO_KEY if cause.hint.startswith(KEY_HINT) else cause.kind for cause in unjudged for _ in cause.cases]
    codes += [case.reason.code if case.reason else "" for case in with_status(report, "not_run")]
    if codes:
        return _REMEDIES.get(max(codes, key=codes.count), "start the job again")
    undecided = [reason.code for reason in report.reasons]
    if "budget" in undecided:
        return "allow more extra runs"
    return "run the base branch more often" if "thin-base" in undecided else ""


def _passed(report: RunReport, known: BaseComparison, sorted_out: Groups) -> str:
    totals = report.totals
    comparison = known.comparison
    share = f"{totals.passed:,} of {plural(totals.cases, 'case')} {'passes' if totals.cases == 1 else 'pass'}"
    notes = list(_beside(report, known, sorted_out))
    if comparison is None or not comparison.compared:
        told = f"Passed: {share}" if totals.passed < totals.cases else f"Passed: {_all(totals.cases)}"
        return ", ".join([told, *notes])
    if totals.passed == totals.cases == comparison.unchanged:
        share += f", as on {known.branch}"
    if changed := change_counts(comparison)["changed"]:
        # An expectation that was edited to fit the answer passes: the reader must not take it for the old case.
        notes.insert(0, f"{plural(changed, 'case was', 'cases were')} changed here")
    lead = "No regression shown" if sorted_out.worse else "Nothing got worse"
    if sorted_out.better:
        lead = f"{plural(len(sorted_out.better), 'case')} got better{' and nothing got worse' * (not sorted_out.worse)}"
    return f"{lead}: {'; '.join([share, *notes])}"


def _all(total: int) -> str:
    return "the only case passes" if total == 1 else f"all {total:,} cases pass"


def _beside(report: RunReport, known: BaseComparison, sorted_out: Groups) -> Iterator[str]:
    """What a run that passed has beside the cases that pass."""
    on = f"on {known.branch}"
    failing = [case for case in report.cases if case.status == "failed"]
    again = [case for case in sorted_out.flaky if known.significance[case.case_id].kind == "passed again"]
    flaky = [case for case in sorted_out.flaky if case not in again]
    told: list[tuple[Sequence[CaseReport], str, str]] = [
        (sorted_out.still, f"fails {on} too", f"fail {on} too"),
        (flaky, f"fails now and then as {on}", f"fail now and then as {on}"),
        (again, "failed at first and not again", "failed at first and not again"),
        ([case for case in sorted_out.worse if case.status == "failed"], "may have got worse", "may have got worse"),
        ([case for case in sorted_out.failed if case in failing], "fails without blocking", "fail without blocking"),
    ]
    for cases, one, many in told:
        if cases:
            yield f"{_names(cases) if len(cases) == 1 else f'{len(cases):,}'} {one if len(cases) == 1 else many}"
    totals = report.totals
    for size, what in (
        (totals.errored, "could not be judged"),
        (totals.not_run, "did not run"),
        (totals.quarantined, "quarantined"),
    ):
        if size:
            yield f"{size:,} {what}"


def _with_rules(said: str, report: RunReport) -> str:
    """The sentence with the cases whose fate depends on the rules that a pull request changes."""
    found = report.rule_changes
    if found is None or not found.only_here:
        return said
    size, base = len(found.only_here), base_name(found)
    if found.decides == "base":
        return f"{said}; {size:,} by rules of {base} that this pull request loosens"
    would = f"{size:,} of {plural(report.totals.cases, 'case')} would fail by those of {base}"
    if report.verdict == "passed":
        return f"Passes only by rules that this pull request loosens: {would}"
    return f"{said}; {would.replace('those', 'rules')} that this pull request loosens"


def _gone(report: RunReport, known: BaseComparison) -> str:
    """How many cases of the base branch are not there any more; "" for none."""
    found, branch = report.rule_changes, known.branch
    if found is not None:
        removed, branch = found.removed_cases, base_name(found)
        cases = plural(found.base_cases, "case")
    else:
        removed, cases = change_counts(known.comparison)["removed"] if known.comparison is not None else 0, "cases"
    if found is not None and removed == found.base_cases > 1:
        return f"all of {branch}'s {cases} are gone"
    return f"{removed:,} of {branch}'s {cases} {'is' if removed == 1 else 'are'} gone" if removed else ""


_IN_THE_TABLE = frozenset(
    {
        "advisory",
        "failed",
        "case-worse",
        "broken-case",
        "cases-worse-together",
        "agent-error",
        "not-comparable",
        CASES_REMOVED,
    }
)
"""Codes of reasons that only name cases, which every text lists anyway, or which the headline says in other words."""


def other_reasons(report: RunReport, known: BaseComparison, limit: int = 600) -> list[str]:
    """What the gate gave as reasons and neither the headline nor the list of cases says, a line each."""
    said = headline(report, known)
    kinds = {cause.kind for cause in causes(report, with_status(report, "errored"))}
    kinds |= {case.reason.code for case in with_status(report, "not_run") if case.reason is not None}
    if kinds:
        kinds.add("nothing-scored")  # The headline and the causes say that in more words.
    lines = [
        first_line(reason.message, limit)
        for reason in report.reasons[:10]
        if reason.code not in _IN_THE_TABLE and reason.code not in kinds
    ]
    return [line for line in lines if line and line.casefold() not in said.casefold()][:5]
