"""What to do next, as codes with data: a step for each sentence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from agent_eval_results import (
    CASES_REMOVED,
    CASES_REPLACED,
    NO_SECRETS,
    NOT_COMPARED,
    OTHER_SCORING,
    OTHER_VERSION,
    SHARD_MISSING,
    WITHOUT_KEY,
    CaseDecisionReport,
    CaseReport,
    CauseReport,
    NoMoreRuns,
    Place,
    Reason,
    RunReport,
)
from agent_eval_results.data.decision import CHANGED_FACTS
from agent_eval_results.data.outcome import Actor
from agent_eval_results.outcome._cases import (
    Cause,
    Lookups,
    behind,
    has_cause,
    same_answer,
    was_not_compared,
)
from agent_eval_scoring.core.text import shorten

_REFUSED = re.compile(r"[(]HTTP 40[13][)]")
_NO_LOGIN = re.compile(r"default credentials|DefaultCredentialsError|Google credentials", re.IGNORECASE)
_NO_PYTHON = re.compile(r"Python \S+ can't be downloaded")
_QUOTA = re.compile(
    r"current quota|insufficient_quota|quota exceeded|exceeded [\w ]*quota|credit balance", re.IGNORECASE
)
"""What providers say of a quota that is used up, or of credit that is. Words alone don't change the verdict."""
_OVER_TIME = re.compile(r"run-timeout [(]([0-9]+(?:[.][0-9]+)?) s[)]")
_LONGEST_HINT = 180
_LONGEST_ANSWER = 80
_OUTAGE = "provider-unavailable"
_OUTAGES = frozenset({_OUTAGE, "judge-unavailable", "simulator-unavailable"})
_LIMITS = frozenset({"raise-run-timeout", "raise-budget"})
_ENDED: Mapping[str, NoMoreRuns] = {"run-timeout": "time", "budget": "cost"}
"""The limits that end runs, by the kind of the runs' error."""
_EXTRA_LIMITS = frozenset({"limit", *_ENDED.values()})
_CRASHES = frozenset({"agent-exception", "agent-crash"})
_TOGETHER = frozenset({"cases-worse-together", "suite-worse"})
_OTHER_VERSIONS = frozenset({OTHER_VERSION, OTHER_SCORING})
_NO_KEY = frozenset({WITHOUT_KEY, "judge-no-credentials", "simulator-no-credentials"})
_NO_KEY_AT_ALL = "judge-credentials-missing"
_OF_THE_CASE = frozenset(
    {
        *("needs-reference", "no-reference-text", "no-facts", "needs-scenario", "persona-template-failed"),
        *("no-rubrics", "duplicate-rubric", "too-long", "too-deep", "calls-not-visible", "state-not-visible"),
        *("inner-calls-not-visible", "responses-not-visible", "case-value-missing"),
    }
)
"""Why a metric has no score that another run would not have either."""
_REMEDIES: Mapping[str, str] = {
    **dict.fromkeys(_OF_THE_CASE, "change-case"),
    "run-timeout": "raise-run-timeout",
    "budget": "raise-budget",
    **dict.fromkeys(_NO_KEY, "give-key"),
    "server-refused": "give-credentials",
    "no-key": "give-working-key",
    "no-login": "give-login",
    "quota": "raise-quota",
    "no-python": "give-python",
    "judge-invalid-request": "fix-judge-model",
    "simulator-invalid-request": "fix-simulator-model",
    "judge-replay-miss": "record-judge",
    "tool-not-replayable": "run-tool-live",
    "unreported": "drop-policy",
    "fail-fast": "fix-failed-case",
}
"""What to do about cases without a result, by the cause. For every other cause: run the job again."""
_TAPES = frozenset(
    {
        *("tool-tape-missing", "tool-tape-stale", "tool-not-recorded", "model-not-recorded", "model-calls-left"),
        *("simulator-replay-miss", "tape-changed"),
    }
)
"""Causes that end when the tapes are what the agent does."""
_RESTORE = {CASES_REMOVED: "restore-cases", CASES_REPLACED: "restore-contents"}
_ACTORS: Mapping[Actor, frozenset[str]] = {
    "anyone": frozenset({"run-again", "run-failed-job"}),
    "maintainer": frozenset({"approve-with-secrets", "accept-tapes"}),
    "reviewer": frozenset({"undo-looser-rules", "check-removed"}),
    "base-owner": frozenset({"repair-on-base", "run-base-more"}),
    "ci-owner": frozenset(
        {
            *("give-dependabot-key", "give-key", "give-working-key", "give-login", "give-credentials", "raise-quota"),
            *(
                "give-python",
                "raise-run-timeout",
                "raise-budget",
                "fix-judge-model",
                "fix-simulator-model",
                "drop-policy",
            ),
            *("record-base-answers", "run-with-model", "let-compare", "then-again"),
        }
    ),
    "": frozenset({"nothing", "nothing-compared", "nothing-shown", "flaky", "merge-decides", "not-caused-here"}),
}
"""Who does what, by the code of a step. The author of the pull request does all the rest."""
_NO_VERDICT = frozenset({"run-ended-otherwise", SHARD_MISSING, NOT_COMPARED})


def next_of(found: Lookups) -> list[Reason]:
    """What to do next, in the order in which to do it."""
    match found.report.verdict:
        case "invalid":
            return [_fix_problems(found.report)]
        case "inconclusive":
            return list(_undecided(found))
        case "failed":
            return list(_failed(found))
    return list(_passed(found))


def actor_of(step: Reason) -> Actor:
    """Who does a step; empty: no one, since there is nothing to do."""
    return next((actor for actor, codes in _ACTORS.items() if step.code in codes), "author")


def waits_for_none(step: Reason) -> bool:
    """Whether it can be taken meanwhile: it is about the base branch's results, not about what failed."""
    return step.code == "let-compare"


def can_accept(found: Lookups) -> bool:
    """Whether cases fail by what the agent did, so that it may be the new expectation."""
    failing = [*found.groups.worse, *found.groups.failed]
    # What an agent does without some of its tools is no new expectation.
    lacking = {case.case_id for case in failing if any(run.lost_toolsets for run in case.runs)}
    acceptable = (case.failed and not has_cause(case) and case.case_id not in lacking for case in failing)
    return any(acceptable) and not same_answer(found.report, failing)


def again_helps(found: Lookups) -> bool:
    """Whether cases without a result may have one in another run of the same, unlike what no tape answers."""
    return (
        bool(found.report.totals.not_run)
        or not found.errors
        or any(cause.kind not in {*_TAPES, *_OF_THE_CASE, "judge-replay-miss"} for cause in found.errors)
    )


def _fix_problems(report: RunReport) -> Reason:
    errors = [problem for problem in report.problems if problem.is_error]
    if not errors:
        return Reason.of("run-failed-job")
    if all(problem.code == _NO_KEY_AT_ALL for problem in errors):
        return Reason.of("give-key")
    # One with a file leads a reader to a line; the others are listed in the order of the report anyway.
    place = next((problem for problem in errors if problem.file), errors[0])
    return _at("fix-problem", place.file, place.line, more_errors=len(errors) - 1)


def _at(code: str, file: str | None, line: int | None, more_errors: int = 0) -> Reason:
    """A step with the line to fix, as far as it is known."""
    facts = {"file": file, "line": line, "more_errors": more_errors}
    return Reason(code=code, data={name: value for name, value in facts.items() if value})


def _undecided(found: Lookups) -> Iterator[Reason]:
    report = found.report
    reasons = {reason.code: reason for reason in report.reasons}
    # From what leaves nothing to look at to what does: one step is enough, since another run follows it.
    if not report.has_verdict and not any(reason.data.get("count") for reason in report.reasons):
        yield Reason.of("merge-decides")
    elif NO_SECRETS in reasons:
        is_fork = reasons[NO_SECRETS].data.get("is_fork", True)
        yield Reason.of("approve-with-secrets" if is_fork else "give-dependabot-key")
    elif report.totals.errored or report.totals.not_run:
        yield from _about_unjudged(found)
    elif "facts-open" in reasons:
        is_unrecorded = reasons["facts-open"].data.get("phrase") == "facts-not-recorded"
        yield from [Reason.of("record-base-answers")] if is_unrecorded else _more_runs(report, "limit")
    elif "recorded-answers" in reasons:
        yield Reason.of("record-answers")
    elif "thin-base" in reasons:
        yield Reason.of("run-base-more")
    elif report.decision is not None and report.decision.is_inconclusive and _OUTAGE not in reasons:
        lacks = {case.lacks for case in _open_suspects(report)}
        yield from _more_runs(report, "again" if lacks.isdisjoint(_EXTRA_LIMITS) else "limit")
    else:
        codes = [code for reason in report.reasons if (code := behind(reason)["code"])]
        yield Reason.of(_REMEDIES.get(codes[0], "run-again") if codes else "run-again")


def _more_runs(report: RunReport, remedy: Literal["limit", "again"]) -> Iterator[Reason]:
    decision = report.decision
    open_cases = {case.case_id for case in _open_suspects(report) if case.lacks in _EXTRA_LIMITS}
    suspected = open_cases.intersection(case.case_id for case in report.cases)
    # With another expectation, runs would fail that pass now.
    unsteady = [
        runs.case_id
        for runs in (decision.runs if decision is not None and remedy == "limit" else ())
        if runs.case_id in suspected and 0 < runs.head_passed < runs.head_runs and 0 < runs.base_passed < runs.base_runs
    ]
    yield Reason.of("compare-answers", remedy=remedy, cases=unsteady, count=len(suspected))
    if remedy == "limit":
        yield Reason.of(
            "raise-limit", remedy=_reached(report), more=report.decision.extra_runs if report.decision else 0
        )


def _open_suspects(report: RunReport) -> list[CaseDecisionReport]:
    """The decisions on suspected cases, without those that only inform beside what keeps the gate open."""
    decision = report.decision
    if decision is None:
        return []
    ids = {case_id for reason in decision.reasons if reason.blocking for case_id in reason.case_ids}
    # No decision about scores is a reason for what a case says.
    blocks = {case.case_id for case in decision.cases if case.metric == CHANGED_FACTS} | ids
    return [case for case in decision.cases if case.word == "suspicious" and (not ids or case.case_id in blocks)]


def _reached(report: RunReport) -> NoMoreRuns:
    """The limit that ended the extra runs."""
    for case in report.decision.cases if report.decision is not None else ():
        if case.lacks in _EXTRA_LIMITS:
            return case.lacks
    ended = (run.error.kind for case in report.every_case for run in case.runs if run.error is not None)
    return next((_ENDED[kind] for kind in ended if kind in _ENDED), "limit")


def _about_unjudged(found: Lookups) -> Iterator[Reason]:
    report, errors = found.report, found.errors
    codes = [code_of(cause) for cause in errors for _ in cause.cases]
    codes += [case.reason.code if case.reason else "" for case in report.cases if case.did_not_run]
    counts = Counter(codes)
    [(common, _), *_] = counts.most_common(1)
    # A setting to change comes with a new run, which is all that the others need.
    remedies = dict.fromkeys(_REMEDIES.get(code, "") for code, _ in counts.most_common() if code not in _TAPES)
    tapes = [code for code in counts if code in _TAPES]
    # Tapes come first: with a changed setting alone, the next run would miss the same answers.
    if tapes:
        yield from _record_again(report, max(tapes, key=counts.__getitem__), sum(counts[code] for code in tapes))
    outages = sum(counts[code] for code in _OUTAGES)
    # Without the outage, the next run may end in time.
    again = bool(outages) and not tapes and {*remedies} - {""} == {"raise-run-timeout"}
    if again:
        yield Reason.of("run-again")
    for remedy in filter(None, remedies):
        yield _raise_run_timeout(found, again=again) if remedy == "raise-run-timeout" else Reason.of(remedy)
    if not again and not _LIMITS.isdisjoint(remedies):
        yield Reason.of("then-again", count=outages)
    if not tapes and not any(remedies):
        yield Reason.of("run-again")
    if report.is_for_merge and any(cause.kind == common and cause.by_provider for cause in errors):
        yield Reason.of("not-caused-here")


def _raise_run_timeout(found: Lookups, *, again: bool) -> Reason:
    """With its value, as far as our own message about it is in the report."""
    messages = [case.reason.message for case in found.report.cases if case.did_not_run and case.reason is not None]
    messages += [cause.message for cause in found.errors if cause.kind == "run-timeout"]
    limit = next((match for message in messages if (match := _OVER_TIME.search(message[:_LONGEST_HINT]))), None)
    facts: dict[str, object] = {"here": float(limit[1])} if limit is not None else {}
    return Reason(code="raise-run-timeout", data={**facts, "remedy": "again"} if again else facts)


def code_of(cause: Cause) -> str:
    """The kind of an error, or what it says more exactly: `server-refused`, `no-python`, `no-login`, `quota` ..."""
    if cause.kind == "server-unavailable" and _REFUSED.search(cause.message):
        return "server-refused"
    if cause.kind == "agent-environment" and _NO_PYTHON.search(cause.hint):
        return "no-python"
    if cause.kind in _NO_KEY or cause.no_key:
        return "no-login" if _NO_LOGIN.search(cause.message) else "no-key" if cause.no_key else cause.kind
    return "quota" if cause.kind in _OUTAGES and _QUOTA.search(cause.message) else cause.kind


def _record_again(report: RunReport, code: str, count: int) -> Iterator[Reason]:
    models = report.options.get("replay") in {"all", "missing-live"}
    if code == "tape-changed":
        accepting = report.rule_changes is not None and not report.rule_changes.unread
        yield Reason.of("run-with-model", count=count, needs_accepting=accepting)
        return
    yield Reason.of("record-cases" if models else "record-tools", count=count, kind=code)
    if models and report.is_for_merge:
        yield Reason.of("accept-tapes", count=count)


def _failed(found: Lookups) -> Iterator[Reason]:
    report, groups = found.report, found.groups
    failing = [*groups.worse, *groups.failed]
    first = report.reasons[0].code if report.reasons else ""
    rules = report.rule_changes
    if first in _NO_VERDICT:
        yield Reason.of("run-failed-job")
        return
    # What the rules forbid fails the run whatever the cases do, and accepting the rules may be all that is needed.
    if rules is not None and (first in _RESTORE or (rules.only_here and rules.decides == "base")):
        yield Reason.of(_RESTORE.get(first, "meet-rules"))
        return
    # An agent that can't be loaded explains all of its cases; what else is wrong shows when it runs.
    dead = next((cause for cause in found.crashes if cause.never_ran and cause.cases[0] in failing), None)
    if dead is not None:
        step = _at("follow-hint" if dead.advice else "fix-error", dead.file, dead.line)
        if len(dead.advice) <= _LONGEST_HINT:
            step.data["hint"] = dead.advice
        yield step
        return
    look = _look(found, failing)
    blocking = [case for case in failing if not report.blocking or found.outcomes[case.case_id].would_block]
    crashed = [case for case in blocking if has_cause(case) and set(case.error_kinds) & _CRASHES]
    # Nobody accepts a crash, and it is the surest thing to look at.
    if look.code == "look-at-case" and not look.data.get("got") and 0 < len(crashed) < len(blocking):
        yield Reason.of("fix-crash", cases=[crashed[0].case_id], count=len(crashed))
        ids = {case.case_id for case in crashed}
        look = _look(found, [case for case in blocking if case.case_id not in ids])
        look.data["crashed"] = len(crashed)
    yield look
    if others := _unexplained(report, failing):
        yield Reason.of("look-at-others", cases=[others[0].case_id], count=len(others))
    if can_accept(found):
        yield Reason.of("accept-answers", is_whole=_lives(report, failing))
    elif look.data.get("got"):
        yield Reason.of("fix-agent")
    elif failing and look.code != "find-tools":
        yield Reason.of("fix-failure")
    if (gone := _check_removed(report)) is not None and report.is_for_merge:
        yield gone
    # Last: that a case fails is certain, and that it would be green with a comparison is not.
    if (why := _why_not_compared(report)) and failing:
        facts = {name: fact for name in ("subject", "wanted", "got") if isinstance(fact := why.data.get(name), str)}
        yield Reason(code="let-compare", data={"kind": why.code, **facts})


def _lives(report: RunReport, cases: Sequence[CaseReport]) -> bool:
    """Whether all of these cases ran live in a run that replays what it can."""
    is_replay = report.options.get("replay") == "missing-live" and any(case.replayed for case in report.cases)
    return is_replay and bool(cases) and not any(case.replayed for case in cases)


def _why_not_compared(report: RunReport) -> Reason | None:
    """Why there are no results of the base branch, if the owner of the CI can do something about it."""
    baseline = report.baseline
    if baseline is None or not was_not_compared(report):
        return None
    reason = baseline.reason or Reason(code=baseline.status)
    return reason if baseline.status == "fetch-failed" or reason.code in _OTHER_VERSIONS else None


def _look(found: Lookups, failing: Sequence[CaseReport]) -> Reason:
    report = found.report
    causes = _causes(report, failing)
    toolset = next((lost.toolset for case in failing for run in case.runs for lost in run.lost_toolsets), None)
    # An agent without its tools fails in many ways, of which each would be a cause of its own.
    if toolset is not None:
        return Reason.of("find-tools", subject=toolset)
    if places := _places(causes):
        return Reason.of("look-at-places", places=places, one_of=any(cause.one_of for cause in causes))
    if raised := next((cause.data.place for cause in causes if cause.code == "exception"), None):
        return Reason.of("look-at-line", places=[raised])
    if (crash := _only_crash(found, failing)) is not None and crash.file is not None:
        return Reason.of("look-at-line", places=[Place(file=crash.file, first=crash.line)])
    if failing:
        # The cause of the first case may be easier to see in another one: texts show its example.
        shown = next((cause.example.case_id for cause in _causes(report, failing[:1])), "")
        example = next((case for case in failing if case.case_id == shown), failing[0])
        same = shorten(same_answer(report, failing), _LONGEST_ANSWER)
        count = len(failing) if same else _to_fix(found, failing)
        is_live = _lives(report, failing)
        return Reason.of("look-at-case", cases=[example.case_id], total=count, got=same, is_whole=is_live)
    if still := found.groups.still:
        return _repair_on_base(still)
    return Reason.of("read-reasons" if len(report.reasons) > 1 else "read-headline")


def _to_fix(found: Lookups, failing: Sequence[CaseReport]) -> int:
    """How many cases the headline counts as failing, without those that it says do not block."""
    ids, failed = frozenset(found.report.blocking), {case.case_id for case in found.groups.failed}
    quiet = {case.case_id for case in failing if ids and case.case_id in failed and case.case_id not in ids}
    joint = significant_together(found.report)
    count = sum((joint or found.standing(case) != "suspected") and case.case_id not in quiet for case in failing)
    count += sum(found.outcomes[case.case_id].blocks for case in found.groups.still)
    return count or len(failing)


def significant_together(report: RunReport) -> bool:
    """Whether suspected cases have their share in what blocks."""
    decided = report.decision.reasons if report.decision is not None else ()
    return any(reason.code in _TOGETHER for reason in decided)


def _only_crash(found: Lookups, failing: Sequence[CaseReport]) -> Cause | None:
    """The one error because of which all these cases fail."""
    ids = {case.case_id for case in failing}
    return next((cause for cause in found.crashes if ids and ids <= {case.case_id for case in cause.cases}), None)


def _repair_on_base(still: Sequence[CaseReport]) -> Reason:
    return Reason.of("repair-on-base", cases=[still[0].case_id], count=len(still))


def _unexplained(report: RunReport, failing: Sequence[CaseReport]) -> list[CaseReport]:
    """The cases without a cause, if others have one that is shown by a place."""
    causes = _causes(report, failing)
    if not any(cause.changed_here or cause.code == "exception" for cause in causes):
        return []
    explained = {case_id for cause in causes for case_id in cause.cases}
    return [case for case in failing if case.case_id not in explained]


def _places(causes: Sequence[CauseReport]) -> list[Place]:
    """The places that the pull request changes, of these causes."""
    places: list[Place] = []
    for cause in causes:
        # One place for each cause keeps the sentence short; where any may be it, leaving some out would mislead.
        for place in cause.changed_here[: None if cause.one_of else 1]:
            if place not in places:
                places.append(place)
    return places


def _causes(report: RunReport, cases: Sequence[CaseReport]) -> list[CauseReport]:
    ids = {case.case_id for case in cases}
    return [cause for cause in report.causes if not ids.isdisjoint(cause.cases)]


def _passed(found: Lookups) -> Iterator[Reason]:
    report, groups, rules = found.report, found.groups, found.report.rule_changes
    # The first of these that holds: the more a green run hides, the earlier.
    if rules is not None and rules.only_here and rules.decides == "head":
        yield Reason.of("undo-looser-rules", count=len(rules.only_here))
    elif (gone := _check_removed(report)) is not None:
        yield gone
    elif report.is_advisory and (groups.worse or groups.failed):
        yield Reason.of("look-before-merge")
    elif groups.worse:
        yield Reason.of("look-at-suspected", cases=[groups.worse[0].case_id])
    elif report.reasons:
        yield Reason.of("nothing-shown")
    elif any(changed.passes for changed in found.answers.values()):
        yield Reason.of("check-answers")
    else:
        failed = report.baseline is not None and report.baseline.status == "fetch-failed"
        yield Reason.of("nothing-compared" if failed else "nothing")
        if groups.flaky:
            yield Reason.of("flaky", count=len(groups.flaky), cases=[case.case_id for case in groups.flaky[:2]])
        if groups.still and report.is_for_merge:
            yield _repair_on_base(groups.still)


def _check_removed(report: RunReport) -> Reason | None:
    """The check that cases were removed on purpose; None if there are none."""
    removed = report.rule_changes.removed if report.rule_changes is not None else []
    names = [case.eval_id for case in report.comparison.cases if case.is_gone] if report.comparison is not None else []
    count = sum(file.removed for file in removed) or len(names)
    is_whole = bool(removed) and all(file.removed == file.base for file in removed)
    files = [file.file for file in removed]
    named = [] if removed or len(names) > 2 else names
    step = Reason.of("check-removed", count=count, files=files, is_whole=is_whole, cases=named)
    return step if count else None
