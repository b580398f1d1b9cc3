"""What decided a run, as codes with data: what every text says first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from agent_eval_results import (
    CASES_REMOVED,
    NO_SECRETS,
    NOT_COMPARED,
    NOTHING_SCORED,
    SHARD_MISSING,
    CaseReport,
    Change,
    Reason,
    RunReport,
    Totals,
)
from agent_eval_results.data.outcome import RunOutcome
from agent_eval_results.outcome._cases import (
    Groups,
    Lookups,
    behind,
    change_counts,
    has_crashed,
    has_timed_out,
    is_unanswered,
    never_ran,
    was_not_compared,
)
from agent_eval_results.outcome._steps import code_of, significant_together
from agent_eval_scoring.core.text import shorten

_NAME, _MOST_NAMED = 60, 2
_WHOLE_CAUSES = frozenset({NO_SECRETS, "run-ended-otherwise", SHARD_MISSING, NOT_COMPARED})
"""Codes of reasons that explain the whole verdict: the headline is that reason, without counts of cases."""
_ENDED_EARLY = ("disk-full", "agent-not-ended")
"""Codes of problems because of which no result of a run counts, although it began."""
_QUIET = frozenset({"suspected", "quarantined", "fails-without-blocking", "fails-there-too"})
_FAILED_SERVICES: Mapping[str, str] = {
    "provider-unavailable": "model-provider-failed",
    "simulator-unavailable": "model-provider-failed",
    "server-unavailable": "server-failed",
    "agent-environment": "installation-failed",
}

_MISSING: Mapping[str, str] = {"no-key": "no-model-key", "no-login": "no-login", "quota": "quota-used-up"}
"""What a service lacks, by `code_of` its only cause."""


def headline_of(found: Lookups) -> Reason:
    """The decision and its cause: `parts` are joined, `beside` are clauses of their own."""
    report = found.report
    if not report.has_verdict:
        return Reason.of("part", because=_first(report))
    decision = _decision(found)
    if not report.is_invalid:
        gone = [] if any(part.code == "cases-gone" for part in decision.data.get("parts", ())) else _gone(found)
        if report.failed and not report.has_reason(CASES_REMOVED):
            decision.data["aside"] = [*decision.data.get("aside", ()), *gone]
            gone = []
        decision.data["beside"] = [*decision.data.get("beside", ()), *_by_rules(report), *gone, *_replayed(report)]
    return decision


def _first(report: RunReport) -> Reason | None:
    return report.reasons[0] if report.reasons else None


def _decision(found: Lookups) -> Reason:
    report, totals = found.report, found.report.totals
    first = _first(report)
    code = first.code if first is not None else ""
    if report.passed:
        return _passed(found)
    if report.is_inconclusive and report.exit_code == 0:
        scored = totals.passed + totals.failed
        if totals.failed and not totals.errored:  # What they do on the base branch is open.
            return Reason.of("allowed-open", because=first, aside=_informing(found))
        return Reason.of("allowed", count=totals.errored, total=totals.cases, passed=scored)
    if code in _WHOLE_CAUSES:
        return Reason.of("by-reason", because=first)
    if report.is_invalid:
        return _invalid(report)
    parts = list(failures(found)) if report.failed else []
    parts += _undecided(found) if report.is_inconclusive else _unjudged(report, is_first=not parts)
    if not parts and report.failed and code == CASES_REMOVED:
        parts = _gone(found)
    more = [*_shared_causes(found), *_quarantined(totals)]
    if was_not_compared(report) and any(part.code == "fails" for part in parts):
        more.insert(0, Reason.of("not-compared"))  # They may fail there as well.
    if parts:
        aside = _aside(report, parts, more) if report.failed else _informing(found)
        parts = [part for part in [*parts, *more] if part not in aside]
        return Reason.of("by-cases", parts=parts, aside=[_alone(part, totals) for part in aside])
    return Reason.of("by-reason", because=first, parts=more)


def _invalid(report: RunReport) -> Reason:
    codes = {problem.code for problem in report.problems}
    if (early := next((code for code in _ENDED_EARLY if code in codes), None)) is not None:
        return Reason.of("by-cases", parts=[Reason.of("ended-early", kind=early)])
    nothing = [Reason.of("nothing-run")]
    if errors := sum(problem.is_error for problem in report.problems):
        return Reason.of("by-cases", parts=[Reason.of("errors-in-files", count=errors)], beside=nothing)
    return Reason.of("by-reason", because=_first(report), beside=nothing)


def _passed(found: Lookups) -> Reason:
    report, groups, totals, rules = found.report, found.groups, found.report.totals, found.report.rule_changes
    if rules is not None and rules.only_here and rules.decides == "head":
        return Reason.of("by-looser-rules", count=len(rules.only_here), total=totals.cases, base=_branch(report))
    if report.reasons:
        # It passes without any proof that the agent works.
        wrong = list(failures(found)) if report.is_advisory else []
        result = behind(report.reasons[0]).get("result") or "failed"
        aside: list[Reason] = []
        if wrong and result == "inconclusive":
            # What would have been inconclusive without `advisory` must not read as a failure.
            wrong, aside = _undecided(found) or wrong, _informing(found)
        if wrong:
            return Reason.of("advised", parts=wrong, result=result, aside=aside)
        return Reason.of("by-reason", because=report.reasons[0])
    comparison, notes = report.comparison, list(_beside(found))
    passing = Reason.of("passing", count=totals.passed, total=totals.cases)
    if comparison is None or not comparison.compared:
        return Reason.of("by-cases", parts=[passing, *[Reason.of("not-compared")] * was_not_compared(report), *notes])
    other = sum(changed.passes for changed in found.answers.values())
    passing.data["is_same"] = totals.passed == totals.cases == comparison.unchanged and not other
    if other:
        notes.append(Reason.of("answers-changed", count=other))
    if changed := change_counts(comparison)["changed"]:
        # An expectation that was edited to fit the answer passes: it is not the case of the base branch.
        notes.insert(0, Reason.of("cases-changed", count=changed))
    news = [Reason.of("no-regression-shown" if groups.worse else "no-regressions")]
    if groups.better:
        news.append(Reason.of("improved" if report.decision is not None else "newly-passes", count=len(groups.better)))
    if not groups.worse and not groups.better and not notes and _gone(found):
        news = []  # What is gone is the news.
    return Reason.of("by-cases", parts=[*news, passing], beside=notes)


def _aside(report: RunReport, parts: Sequence[Reason], more: Sequence[Reason]) -> list[Reason]:
    """What does not block, beside what does; nothing if all parts are of that kind."""
    # What is significant only together has its share in it.
    quiet = _QUIET - ({"suspected"} if significant_together(report) else set())
    aside = [part for part in [*parts, *more] if part.code in quiet]
    return aside if any(part not in aside for part in parts) else []


def _alone(part: Reason, totals: Totals) -> Reason:
    if part.code == "fails-there-too":
        return _of_all(part, totals)
    return Reason.of("fails", count=part.data["count"]) if part.code == "fails-without-blocking" else part


def _beside(found: Lookups) -> Iterator[Reason]:
    """The cases that don't pass in a run that passed."""
    totals, groups = found.report.totals, found.groups
    for code, cases in (
        ("fails-there-too", groups.still),
        ("may-be-regression", [case for case in groups.worse if case.failed]),
        ("does-not-block", [case for case in groups.failed if case.failed]),
    ):
        if cases:
            yield Reason.of(code, count=len(cases), cases=_named(cases, 1))
    yield from _unjudged(found.report, is_first=False)
    yield from _quarantined(totals)


def _named(cases: Sequence[CaseReport], most: int = _MOST_NAMED) -> list[str]:
    """Ids of few cases, which a text names; empty for more."""
    return [case.case_id for case in cases] if len(cases) <= most else []


def _unjudged(report: RunReport, *, is_first: bool) -> list[Reason]:
    """How many cases have no result; of all cases, if nothing is before it."""
    totals = report.totals
    why = {case.reason.code if case.reason is not None else "" for case in report.cases if case.did_not_run}
    counts = {"not-evaluated": totals.errored, "out-of-time" if why == {"run-timeout"} else "not-run": totals.not_run}
    parts = [Reason.of(code, count=count) for code, count in counts.items() if count]
    return [part if number or not is_first else _of_all(part, totals) for number, part in enumerate(parts)]


def _of_all(part: Reason, totals: Totals) -> Reason:
    return Reason(code=part.code, data={**part.data, "total": totals.cases})


def _quarantined(totals: Totals) -> list[Reason]:
    return [Reason.of("quarantined", count=totals.quarantined)] if totals.quarantined else []


def _undecided(found: Lookups) -> list[Reason]:
    report, errors = found.report, found.errors
    parts = _unjudged(report, is_first=True)
    if errors and all(cause.by_provider for cause in errors):
        services = {_FAILED_SERVICES.get(cause.kind, "") for cause in errors}
        codes = {code_of(cause) for cause in errors}
        code = _MISSING.get(codes.pop(), "") if len(codes) == 1 else ""
        code = code or ("no-model-key" if all(cause.no_key for cause in errors) else "")
        code = code or (services.pop() if len(services) == 1 else "")
        if code:
            parts[0] = Reason.of(code, count=report.totals.errored, total=report.totals.cases)
    if suspected := _keeping_open(found):
        parts.append(Reason.of("suspected", count=len(suspected), cases=_named(suspected)))
    return parts


def _keeping_open(found: Lookups) -> list[CaseReport]:
    """The cases without which the statistics would have decided; none if they have."""
    decision, worse = found.report.decision, found.groups.worse
    if decision is None or not decision.is_inconclusive:
        return []
    ids = {case_id for reason in decision.reasons if reason.blocking for case_id in reason.case_ids}
    # If the suite as a whole is open, no case is named.
    return [case for case in worse if case.case_id in ids] or worse


def _informing(found: Lookups) -> list[Reason]:
    """Worse cases that do not block, beside those that keep the gate open."""
    opened = _keeping_open(found)
    rest = [case for case in found.groups.worse if opened and case not in opened]
    suspected = [case for case in rest if found.standing(case) == "suspected"]
    sure = [case for case in rest if case not in suspected]
    return [
        Reason.of(code, count=len(cases), cases=_named(cases))
        for code, cases in (("regressions", sure), ("suspected", suspected))
        if cases
    ]


def failures(found: Lookups) -> Iterator[Reason]:
    """What fails, the worst first: a reason for each group of cases, of which the first says of how many."""
    report, totals = found.report, found.report.totals
    dead = [cause for cause in found.crashes if cause.never_ran]
    # The name of the only agent would be a path that everybody knows.
    several = len({file.agent for file in report.files}) > 1
    for cause in dead:
        agent = shorten(cause.agent, _NAME) if several else ""
        yield Reason.of("never-ran", kind=cause.kind, count=len(cause.cases), total=totals.cases, agent=agent)
    groups = list(_failure_groups(found, {case.case_id for cause in dead for case in cause.cases}))
    yield from [_of_all(groups[0], totals), *groups[1:]] if groups and not dead else groups
    if groups and not dead and report.has_reason(NOTHING_SCORED):
        yield Reason.of("so-nothing")


def _failure_groups(found: Lookups, gone: Collection[str]) -> Iterator[Reason]:
    report, groups = found.report, found.groups
    worse, failed, still = (
        [case for case in cases if case.case_id not in gone] for cases in (groups.worse, groups.failed, groups.still)
    )
    suspected = [case for case in worse if found.standing(case) == "suspected"]
    worse = [case for case in worse if found.standing(case) != "suspected"]
    silent = [case for case in worse if is_unanswered(case)]
    regressions = [case for case in worse if not is_unanswered(case)]
    if regressions:
        explained = bool(_explained(found))
        yield Reason.of("regressions", count=len(regressions), cases=_named(regressions), is_explained=explained)
    yield from _group("no-longer-answers", silent)
    if suspected:
        is_joint = not worse and report.failed and significant_together(report)
        yield Reason.of("suspected", count=len(suspected), cases=_named(suspected), is_joint=is_joint)
    ids = frozenset(report.blocking)
    quiet: list[CaseReport] = [case for case in failed if ids and case.case_id not in ids]
    failed = [case for case in failed if not ids or case.case_id in ids]
    if report.comparison is None:
        yield from _group("no-answer", [case for case in failed if is_unanswered(case)])
        yield from _how_failed([case for case in failed if not is_unanswered(case)])
        yield from _group("fails-without-blocking", quiet)
        return
    by_code: dict[str, list[CaseReport]] = {code: [] for code in (*_CHANGES.values(), "fails-as-often")}
    for case in failed:
        change = found.changes[case.case_id].change if case.case_id in found.changes else "unjudged"
        flaky = found.outcomes[case.case_id].is_flaky
        by_code["fails-as-often" if flaky else _CHANGES.get(change, "fails-alone")].append(case)
    # Where the report says what blocks, they do not.
    if not ids:
        by_code["fails-as-before"] += still
    # Where regressions alone decide, what fails as often there does not fail the run, so it is not its headline.
    for code in _ORDER if report.gate in {"thresholds", "both"} else _ORDER[:3]:
        yield from _group(code, by_code[code])
    if ids:
        yield from _group("fails-there-too", still)
    yield from _group("fails-without-blocking", quiet)


_CHANGES: Mapping[Change, str] = {
    "added": "new-fails",
    "changed": "changed-fails",
    "unjudged": "fails-alone",
    "still_failing": "fails-as-before",
}
_ORDER = ("new-fails", "changed-fails", "fails-alone", "fails-as-often", "fails-as-before")


def _group(code: str, cases: Sequence[CaseReport]) -> list[Reason]:
    return [Reason.of(code, count=len(cases))] if cases else []


def _how_failed(failed: Sequence[CaseReport]) -> list[Reason]:
    timed_out = sum(map(has_timed_out, failed))
    # A deadline is an error of the agent, so it counts as a crash, too.
    crashed = sum(map(has_crashed, failed)) - timed_out
    kinds = [run.error.kind for case in failed for run in case.runs if run.error is not None]
    if crashed == len(failed) and all(kind.startswith("custom-metric") for kind in kinds):
        return _group("metric-breaks", failed)
    if timed_out == len(failed) or crashed == len(failed):
        return _group("times-out" if timed_out else "crashes", failed)
    return [Reason.of("fails", count=len(failed), crashed=crashed)] if crashed else _group("fails", failed)


def _explained(found: Lookups) -> frozenset[str]:
    return failing_ids(found.groups).intersection(case for cause in found.report.causes for case in cause.cases)


def failing_ids(groups: Groups) -> frozenset[str]:
    """Ids of the failing cases that ran, but for those that fail on the base branch too."""
    failing = [*groups.worse, *groups.failed]
    return frozenset(case.case_id for case in failing if case.failed and not never_ran(case))


def _shared_causes(found: Lookups) -> Iterator[Reason]:
    report, failing = found.report, failing_ids(found.groups)
    shared = [number for number, cause in enumerate(report.causes) if not failing.isdisjoint(cause.cases)]
    if shared and report.failed:
        yield Reason.of("shared-causes", shared=shared, count=len(_explained(found)), total=len(failing))


def _by_rules(report: RunReport) -> list[Reason]:
    """The number of cases that only the rules of this pull request let pass."""
    rules = report.rule_changes
    # A run that passed by rules of its own has these cases as its headline already.
    if rules is None or not rules.only_here or (report.passed and rules.decides == "head"):
        return []
    code = "by-stricter-rules" if rules.decides == "base" else "fails-by-their-rules"
    return [Reason.of(code, count=len(rules.only_here), total=report.totals.cases, base=_branch(report))]


def _branch(report: RunReport) -> str:
    """The base branch of the rules; "" if it is unknown."""
    return shorten(report.rule_changes.base_ref, _NAME) if report.rule_changes is not None else ""


def _gone(found: Lookups) -> list[Reason]:
    """How many cases of the base branch were removed; without rules, of how many is unknown."""
    rules, comparison = found.report.rule_changes, found.report.comparison
    if rules is not None:
        removed, total = rules.removed_cases, rules.base_cases
    else:
        removed, total = change_counts(comparison)["removed"], 0
    return [Reason.of("cases-gone", count=removed, total=total, base=_branch(found.report))] if removed else []


def _replayed(report: RunReport) -> list[Reason]:
    """How many cases no model answered, and whether the failing ones are just the others."""
    count = sum(case.replayed for case in report.cases)
    failing = {case.case_id for case in report.cases if case.went_wrong}
    live = {case.case_id for case in report.cases if not case.replayed}
    is_rest = report.failed and failing == live
    return [Reason.of("replayed", count=count, total=len(report.cases), is_whole=is_rest)] if count else []


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


def further_reasons(found: Lookups, outcome: RunOutcome) -> list[Reason]:
    """The gate's reasons that neither headline nor next step nor the list of cases says."""
    report = found.report
    # `because` is the first reason, so the headline has said it.
    said = report.reasons[: "because" in outcome.headline.data]
    kinds = {cause.kind for cause in found.errors}
    kinds |= {case.reason.code for case in report.cases if case.did_not_run and case.reason is not None}
    if kinds or any(map(never_ran, report.cases)):
        kinds.add(NOTHING_SCORED)  # The headline and the causes say that in detail.
    if any(step.code == "raise-limit" for step in outcome.next):
        kinds.add("budget")
    return [
        reason
        for reason in report.reasons[:10]
        if reason.code not in _IN_THE_TABLE and reason.code not in kinds and reason not in said
    ]
