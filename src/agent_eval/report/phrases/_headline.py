"""The decision and its cause in one sentence, the same in every text: console, summary, comment, JUnit.

On a pull request it is about the merge, elsewhere about the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agent_eval.core.text import every, first_line, plural, share
from agent_eval.gate.rule_effects import CASES_REMOVED
from agent_eval.report.phrases._causes import cause_title
from agent_eval.report.phrases._failures import case_names, failing_ids, failures, suspected_text
from agent_eval.report.phrases.rule_changes import base_name
from agent_eval.report.views import never_ran
from agent_eval.report.views.grouping import View, change_counts
from agent_eval.results import NOT_COMPARED, SHARD_MISSING, CaseReport, RunReport, Totals

_LINE = 300

_ON_MERGE: Mapping[str, str] = {
    "passed": "Does not block",
    "failed": "Blocks the merge",
    "inconclusive": "Can't tell yet, blocks until it can",
    "invalid": "Blocks the merge",
}
_OF_A_RUN: Mapping[str, str] = {
    "passed": "Passed",
    "failed": "Failed",
    "inconclusive": "Can't tell",
    "invalid": "Invalid",
}

_WHOLE_CAUSES = frozenset({"no-secrets", "run-ended-otherwise", SHARD_MISSING, NOT_COMPARED})
"""Codes of reasons that explain the whole verdict: the headline is that reason, without counts of cases."""
_ENDED_EARLY: Mapping[str, str] = {
    "disk-full": "the disk is full",
    "agent-not-ended": "processes of the agent could not be ended",
}
"""By code of a problem: why no result of a run counts, although it began."""


def headline(view: View, *, brief: bool = False) -> str:
    """The decision and its cause.

    Args:
        view: The report.
        brief: For a text that shows the causes right above: only their number.
    """
    report = view.report
    if report.shard is not None and report.verdict != "invalid":
        reason = _reason(report)
        return f"{reason[:1].upper()}{reason[1:]}"
    decision = _decision(view, brief=brief)
    if report.verdict == "invalid":
        return decision
    gone = "" if _is_about_removal(view) else _gone(view)
    separator = ", but" if report.verdict == "passed" else ";"
    return f"{_with_rules(decision, report)}{f'{separator} {gone}' if gone else ''}{_replayed(report)}"


def _replayed(report: RunReport) -> str:
    """How many cases no model answered."""
    count, total = sum(case.replayed for case in report.cases), len(report.cases)
    if not count:
        return ""
    return "; replayed" if count == total else f"; {count:,} of {total:,} replayed"


def _lead(report: RunReport) -> str:
    return (_ON_MERGE if report.is_for_merge else _OF_A_RUN)[report.verdict]


def _decision(view: View, *, brief: bool) -> str:
    report = view.report
    lead = _lead(report)
    if report.verdict == "passed" and report.reasons:
        # It passes without any proof that the agent works.
        reason = _reason(report)
        return _advice(view) or (f"{lead}: {_inside(reason)}" if report.is_for_merge else reason)
    if report.verdict == "inconclusive" and report.exit_code == 0:
        return _allowed(report)
    if report.reasons and report.reasons[0].code in _WHOLE_CAUSES:
        reason = _reason(report)
        return f"{lead}: {reason[:1].lower()}{reason[1:]}"
    if report.verdict == "invalid":
        codes = {problem.code for problem in report.problems}
        if (early := next((text for code, text in _ENDED_EARLY.items() if code in codes), None)) is not None:
            return f"{lead}: {early}, so the run ended early"
        errors = sum(problem.severity == "error" for problem in report.problems)
        cause = plural(errors, "error") + " in the eval files or the configuration" if errors else _reason(report)
        return f"{lead}: {cause}; nothing was run"
    if report.verdict == "passed":
        return _passed(view)
    sentence = ", ".join(_counts(view))
    if not sentence:
        sentence = _gone(view) if _is_about_removal(view) else _inside(_reason(report))
    if report.totals.quarantined:
        sentence += f", {report.totals.quarantined:,} quarantined"
    return f"{lead}: {sentence}{_with_causes(view, brief=brief)}"


def _with_causes(view: View, *, brief: bool) -> str:
    """What the failing cases share, e.g. `, one cause: find_devices returns nothing`; "" for nothing."""
    report = view.report
    failing = failing_ids(view.groups)
    shared = [cause for cause in report.causes if not failing.isdisjoint(cause.cases)]
    if not shared or report.verdict != "failed":
        return ""
    explained = failing.intersection(case for cause in shared for case in cause.cases)
    title = cause_title(shared)
    title = title.partition(":")[0] if brief else title
    if len(explained) < len(failing):
        return f", {len(explained):,} of them with {title}"
    return f", {'all with ' * brief}{title}"


def _counts(view: View) -> list[str]:
    """The cases because of which a run is not `passed`, in groups; empty if it is for another reason."""
    report = view.report
    parts = list(failures(view)) if report.verdict == "failed" else []
    return parts + (_undecided(view) if report.verdict == "inconclusive" else list(_unjudged(report.totals, parts)))


def _is_about_removal(view: View) -> bool:
    """Whether the headline is that cases were removed."""
    report = view.report
    if report.verdict != "failed" or not report.reasons or report.reasons[0].code != CASES_REMOVED:
        return False
    return not _counts(view) and bool(_gone(view))


def _is_first_reason(view: View) -> bool:
    """Whether the headline is the first reason, and not counts of cases."""
    report = view.report
    if report.verdict == "passed":
        return not _advice(view)
    if report.verdict == "inconclusive" and report.exit_code == 0:
        return False
    if report.reasons[0].code in _WHOLE_CAUSES or report.shard is not None:
        return True
    return not _counts(view)


def _advice(view: View) -> str:
    """What a gate that is not advisory would have said about failing cases; "" if there are none."""
    report = view.report
    if report.gate != "advisory" or not (wrong := failures(view)):
        return ""
    if report.is_for_merge:
        return f"{_lead(report)}, since `gate` is `advisory`: {', '.join(wrong)}"
    return f"Would fail: {', '.join(wrong)}; exit 0 because `gate` is `advisory`"


def _allowed(report: RunReport) -> str:
    """An inconclusive run that a setting lets pass."""
    totals = report.totals
    unscored = every(totals.cases, "case")
    if totals.errored < totals.cases:
        unscored = share(totals.errored, totals.cases, "case")
    if totals.passed or totals.failed:
        sentence = f"{unscored} could not be evaluated"
    else:
        sentence = f"nothing was evaluated, {unscored} ended with an error"
    if report.is_for_merge:
        return f"{_ON_MERGE['passed']}, since `on-inconclusive` is `pass`: {sentence}"
    return f"{_lead(report)}: {sentence}; exit 0 because `on-inconclusive` is `pass`"


def headline_status(report: RunReport) -> str:
    """What the symbol before the headline shows: the verdict, or `warning` for a run that passed with reservations."""
    if report.verdict != "passed":
        return report.verdict
    changes = report.rule_changes
    loosened = changes is not None and (changes.only_here or changes.removed or changes.replaced)
    return "warning" if report.reasons or report.warnings or loosened else "passed"


def _reason(report: RunReport) -> str:
    return first_line(report.reasons[0].message, _LINE) if report.reasons else "no reason was recorded"


def _inside(sentence: str) -> str:
    """A sentence after a colon: it begins in lower case, unless it begins with a name, e.g. of a variable."""
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def _unjudged(totals: Totals, before: Sequence[str]) -> Iterator[str]:
    """How many cases have no result."""
    if totals.errored:
        yield f"{_some(totals.errored, totals, before)} could not be evaluated"
    if totals.not_run:
        yield f"{_some(totals.not_run, totals, before or ['errored'] * bool(totals.errored))} did not run"


def _some(size: int, totals: Totals, before: Sequence[str]) -> str:
    return f"{size:,}" if before else share(size, totals.cases, "case")


_FAILED = {
    "provider-unavailable": "the model's provider failed",
    "simulator-unavailable": "the model's provider failed",
    "server-unavailable": "a server that the agent needs failed",
    "agent-environment": "the installation of the agent's packages failed",
}


def _undecided(view: View) -> list[str]:
    report, groups = view.report, view.groups
    parts = list(_unjudged(report.totals, ()))
    unjudged = view.errors
    if unjudged and all(cause.owner == "provider" for cause in unjudged):
        errored = share(report.totals.errored, report.totals.cases, "case")
        what, *others = {_FAILED.get(cause.kind, "") for cause in unjudged}
        if all(cause.no_key for cause in unjudged):
            parts[0] = f"{errored} had no model key that works"
        elif what and not others:
            parts[0] = f"{what} in {errored}"
    if groups.worse and report.decision is not None and report.decision.outcome == "inconclusive":
        parts.append(suspected_text(groups.worse))
    return parts


def _passed(view: View) -> str:
    report, groups = view.report, view.groups
    totals, comparison, lead = report.totals, report.comparison, _lead(report)
    passing = f"{share(totals.passed, totals.cases, 'case')} pass" if totals.passed < totals.cases else ""
    passing = passing or _all(totals.cases)
    notes = list(_beside(view))
    if comparison is None or not comparison.compared:
        return ", ".join([f"{lead}: {passing}", *notes])
    if totals.passed == totals.cases == comparison.unchanged:
        passing += f", as on {view.branch}"
    if changed := change_counts(comparison)["changed"]:
        # An expectation that was edited to fit the answer passes: it is not the case of the base branch.
        notes.insert(0, f"{plural(changed, 'case was', 'cases were')} changed here")
    first = ["no regression shown" if groups.worse else "no regressions"]
    if groups.better:
        count = len(groups.better)
        first.append(
            f"{plural(count, 'case')} {'improved' if view.decided else 'newly passes' if count == 1 else 'newly pass'}"
        )
    if not groups.worse and not groups.better and not notes and _gone(view):
        first = []  # What is gone is the news.
    return f"{lead}: {'; '.join([', '.join([*first, passing]), *notes])}"


def _all(total: int) -> str:
    return f"{every(total, 'case')} {'passes' if total == 1 else 'pass'}"


def _beside(view: View) -> Iterator[str]:
    """The cases that don't pass in a run that passed."""
    report, groups = view.report, view.groups
    on = f"on {view.branch}"
    failing = [case for case in report.cases if case.status == "failed"]
    suspected = [case for case in groups.worse if case.status == "failed"]
    phrases: list[tuple[Sequence[CaseReport], str, str]] = [
        (groups.still, f"fails {on} too", f"fail {on} too"),
        (
            suspected,
            "is a suspected regression",
            "are suspected regressions",
        ),
        ([case for case in groups.failed if case in failing], "fails without blocking", "fail without blocking"),
    ]
    for cases, singular, several in phrases:
        if cases:
            yield f"{case_names(cases)} {singular}" if len(cases) == 1 else f"{len(cases):,} {several}"
    totals = report.totals
    for size, what in (
        (totals.errored, "could not be evaluated"),
        (totals.not_run, "did not run"),
        (totals.quarantined, "quarantined"),
    ):
        if size:
            yield f"{size:,} {what}"


def _with_rules(sentence: str, report: RunReport) -> str:
    """The sentence, with the number of cases that only the rules of this pull request let pass."""
    rules = report.rule_changes
    if rules is None or not rules.only_here:
        return sentence
    size, branch = len(rules.only_here), base_name(rules)
    if rules.decides == "base":
        return f"{sentence}; {size:,} by rules of {branch} that this pull request loosens"
    would = f"{size:,} of {plural(report.totals.cases, 'case')} would fail by those of {branch}"
    if report.verdict == "passed":
        if report.is_for_merge:
            accepted = f"{_lead(report)}, since its looser rules are accepted"
            return f"{accepted}: {size:,} of {plural(report.totals.cases, 'case')} pass only by them"
        return f"Passed only by rules that are looser than those of {branch}: {would}"
    return f"{sentence}; {would.replace('those', 'rules')} that this pull request loosens"


def _gone(view: View) -> str:
    """How many cases of the base branch were removed; "" for none."""
    report = view.report
    rules, branch = report.rule_changes, view.branch
    if rules is not None:
        removed, branch = rules.removed_cases, base_name(rules)
        cases = plural(rules.base_cases, "case")
    else:
        removed, cases = change_counts(report.comparison)["removed"] if report.comparison is not None else 0, "cases"
    if rules is not None and removed == rules.base_cases > 1:
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
        "replayed-failed",
        "invalid",
        CASES_REMOVED,
    }
)
"""Codes of reasons that only name cases, which every text lists, or that the headline says in other words."""


def other_reasons(view: View, limit: int = 600) -> list[str]:
    """The gate's reasons that neither the headline nor the list of cases says, a line each."""
    report = view.report
    said = report.reasons[:1] if report.reasons and _is_first_reason(view) else []
    kinds = {cause.kind for cause in view.errors}
    kinds |= {case.reason.code for case in report.cases if case.status == "not_run" and case.reason is not None}
    if kinds or any(map(never_ran, report.cases)):
        kinds.add("nothing-scored")  # The headline and the causes say that in detail.
    lines = [
        first_line(reason.message, limit)
        for reason in report.reasons[:10]
        if reason.code not in _IN_THE_TABLE and reason.code not in kinds and reason not in said
    ]
    return [line for line in lines if line][:5]
