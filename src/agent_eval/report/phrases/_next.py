"""What to do about a result: the second line of a comment, the last one on a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent_eval.core.text import first_line, listed, plural, shorten
from agent_eval.forge import ACCEPT_RULES
from agent_eval.gate.rule_effects import CASES_REMOVED, CASES_REPLACED
from agent_eval.gate.verdict import NO_SECRETS
from agent_eval.report.phrases._causes import place_reference, place_text
from agent_eval.report.phrases._words import as_often
from agent_eval.report.phrases.rule_changes import base_name
from agent_eval.report.views import NEVER_RAN, Cause, Reference, has_cause, one_line
from agent_eval.report.views.digest import case_name, with_status
from agent_eval.report.views.grouping import View, change_counts
from agent_eval.report.views.links import file_reference
from agent_eval.results import (
    NOT_COMPARED,
    SHARD_MISSING,
    WITHOUT_KEY,
    CaseReport,
    CauseReport,
    Place,
    RemovedCases,
    RuleChangesReport,
    RunReport,
)

_REFUSED = re.compile(r"[(]HTTP 40[13][)]")
_OUTAGE = "provider-unavailable"
_MOST_PLACES = 3
_MOST_FILES = 2
_NAME = 200
_ACCEPT = "If the new behaviour is right: `agent-eval accept`"


@dataclass(frozen=True, kw_only=True)
class ToRun:
    """Words that lead to the run, where somebody can start or approve it again."""

    text: str


Step = str | Reference | ToRun
"""A part of a sentence."""

_AGAIN = ToRun(text="run the failed job again")
_FOR_NOTHING = "Nothing in this pull request caused it"
_OF_THE_CASE = frozenset(
    {
        *("needs-reference", "no-reference-text", "no-facts", "needs-scenario", "persona-template-failed"),
        *("no-rubrics", "duplicate-rubric", "calls-not-visible", "too-long", "too-deep"),
    }
)
"""Why a metric has no score that another run would not have either."""
_REMEDIES: Mapping[str, str] = {
    **dict.fromkeys(_OF_THE_CASE, "change the case or its criteria: another run would say the same"),
    "run-timeout": "raise `run-timeout`",
    "budget": "raise the budget",
    WITHOUT_KEY: "give the job a model key",
    "server-refused": "give the agent credentials that its server accepts",
    "no-key": "give the run a model key that works",
    "judge-no-credentials": "give the job a model key",
    "simulator-no-credentials": "give the job a model key",
    "judge-invalid-request": "fix `judge-model` or its key",
    "simulator-invalid-request": "fix the model of the simulated user or its key",
    "judge-replay-miss": "record the judge's replies again",
    "tool-not-replayable": "set `replay = false` for a tool; code that asks a model itself needs a live run",
    "unreported": "take the metric out of the `[[policy]]`",
    "fail-fast": "fix the case that failed: `fail-fast` ended the run",
}
"""What to do about cases without a result, by the cause. For every other cause: run the job again."""

_TAPES = frozenset(
    {
        "tool-tape-missing",
        "tool-tape-stale",
        "tool-not-recorded",
        "model-not-recorded",
        "model-calls-left",
        "simulator-replay-miss",
        "tape-changed",
    }
)
"""Causes that end when the tapes are what the agent does."""


_RESTORE = {CASES_REMOVED: "restore the cases, ", CASES_REPLACED: "restore what the cases ask and expect, "}


def next_step(view: View) -> list[Step]:
    """What to do next, in one or two sentences without the last full stop.

    Args:
        view: The report.
    """
    report = view.report
    match report.verdict:
        case "invalid":
            return list(_fix_problems(report))
        case "inconclusive":
            return list(_undecided(view))
        case "failed":
            return list(_failed(view))
    return list(_passed(view))


def next_text(steps: Sequence[Step]) -> str:
    """The same as plain text."""
    return "".join(step if isinstance(step, str) else step.text for step in steps)


def can_accept(view: View) -> bool:
    """Whether cases fail by what the agent did, so that it may be the new expectation."""
    failing = [*view.groups.worse, *view.groups.failed]
    lacking = {case.case_id for case in failing if any(run.lost_toolsets for run in case.runs)}
    return any(case.status == "failed" and not has_cause(case) and case.case_id not in lacking for case in failing)


def again_helps(view: View) -> bool:
    """Whether cases without a result may have one in another run of the same, unlike what no tape answers."""
    return (
        bool(view.report.totals.not_run)
        or not view.errors
        or any(cause.kind not in {*_TAPES, *_OF_THE_CASE, "judge-replay-miss"} for cause in view.errors)
    )


def _fix_problems(report: RunReport) -> Iterator[Step]:
    errors = [problem for problem in report.problems if problem.severity == "error"]
    if not errors:
        yield _AGAIN
        return
    place = next((problem for problem in errors if problem.file), errors[0])
    yield "fix "
    yield _at(place.file or None, place.line)
    if len(errors) > 1:
        yield f" and {plural(len(errors) - 1, 'other error')}, listed below"


def _undecided(view: View) -> Iterator[Step]:
    report = view.report
    codes = {reason.code for reason in report.reasons}
    if report.shard is not None and not any(reason.data.get("count") for reason in report.reasons):
        yield "nothing in this part: `agent-eval merge` decides"
        return
    if NO_SECRETS in codes:
        yield from _without_secrets(report)
        return
    if report.totals.errored or report.totals.not_run:
        yield from _about_unjudged(view)
    elif "recorded-answers" in codes:
        yield "record the answers again, or use `gate: thresholds`"
    elif "thin-base" in codes:
        yield "run the base branch more often, then "
        yield _AGAIN
    elif report.decision is not None and report.decision.outcome == "inconclusive" and _OUTAGE not in codes:
        yield "compare the answers below. If the new one is wrong, fix it; if not, "
        yield ToRun(text="run the job again")
    else:
        behind = [why.code for reason in report.reasons if (why := reason.data.get("because")) is not None]
        yield _REMEDIES[behind[0]] if behind and behind[0] in _REMEDIES else _again(report)


def _without_secrets(report: RunReport) -> Iterator[Step]:
    if next(reason for reason in report.reasons if reason.code == NO_SECRETS).data.get("is_fork", True):
        yield "a maintainer reads the diff and then "
        yield ToRun(text="approves the run with secrets")
        yield " (how: page “Forks” of the documentation). For the author: nothing"
    else:
        yield "add the model key to Dependabot's secrets, then "
        yield _AGAIN


def _again(report: RunReport) -> Step:
    return _AGAIN if report.is_for_merge else "run it again"


def _about_unjudged(view: View) -> Iterator[Step]:
    report, found = view.report, view.errors
    codes = [_code(cause) for cause in found for _ in cause.cases]
    codes += [case.reason.code if case.reason else "" for case in with_status(report, "not_run")]
    common = max(codes, key=codes.count)
    if common in _TAPES:
        yield from _record_again(report, common, codes.count(common))
    elif common in _REMEDIES:
        yield _REMEDIES[common]
    else:
        yield _again(report)
    if report.is_for_merge and any(cause.kind == common and cause.owner == "provider" for cause in found):
        yield f". {_FOR_NOTHING}"


def _code(cause: Cause) -> str:
    if cause.kind == "server-unavailable" and _REFUSED.search(cause.message):
        return "server-refused"
    return "no-key" if cause.no_key else cause.kind


def _record_again(report: RunReport, code: str, count: int) -> Iterator[Step]:
    cases, tapes = ("the case", "its tape") if count == 1 else (f"these {count:,} cases", "their tapes")
    models = report.options.get("replay") in {"all", "missing-live"}
    if code == "tape-changed":
        yield f"run {cases} with a model (`replay: missing-live`)"
        if report.rule_changes is not None and not report.rule_changes.unread:
            yield f", or let a maintainer accept {tapes}: {_how_to_accept(report)}"
        return
    what = cases if models else "its tools" if count == 1 else f"the tools of {cases}"
    yield f"record {what} again (`--record all`) and commit {tapes}"
    if models and report.is_for_merge:
        yield f". A maintainer then accepts {tapes}: {_how_to_accept(report)}"


def _failed(view: View) -> Iterator[Step]:
    report, sorted_out = view.report, view.groups
    failing = [*sorted_out.worse, *sorted_out.failed]
    first = report.reasons[0].code if report.reasons else ""
    if first in {"run-ended-otherwise", SHARD_MISSING, NOT_COMPARED}:
        yield _AGAIN
        return
    rules = report.rule_changes
    if rules is not None and (first in _RESTORE or (rules.only_here and rules.decides == "base")):
        yield _RESTORE.get(first, "meet the base branch's rules, ")
        yield "or let a maintainer accept the change: "
        yield _how_to_accept(report)
        return
    dead = next((cause for cause in view.crashes if cause.kind in NEVER_RAN and cause.cases[0] in failing), None)
    if dead is not None:
        yield "follow the hint on " if dead.advice else "fix "
        yield _at(dead.file, dead.line)
        return
    lost = next((lost for case in failing for run in case.runs for lost in run.lost_toolsets), None)
    places, one_of = _places(report, failing)
    if lost is not None:
        yield f"see why {shorten(one_line(lost.toolset), _NAME)} has no tools"
    elif places:
        yield from _look_at(places, one_of=one_of)
    elif raised := next((each.data.place for each in _causes(report, failing) if each.code == "exception"), None):
        yield "look at "
        yield Reference(text=place_text(raised), file=raised.file, line=raised.first)
    elif failing or sorted_out.still:
        yield "look at "
        yield _case(_example(report, [*failing, *sorted_out.still]))
        if len(failing) > 1:
            yield " first"
    else:
        yield "see the reason below" if len(report.reasons) > 1 else "fix what the first line says"
    if can_accept(view):
        yield f". {_ACCEPT}"


def _example(report: RunReport, cases: Sequence[CaseReport]) -> CaseReport:
    """The first case; or the one that its cause is shown by."""
    shown = next((cause.example.case_id for cause in _causes(report, cases[:1])), "")
    return next((case for case in cases if case.case_id == shown), cases[0])


def _case(case: CaseReport) -> Reference:
    return Reference(text=shorten(case_name(case), _NAME), file=case.file, line=case.line, case_id=case.case_id)


def _at(file: str | None, line: int | None) -> Step:
    """A line to fix; without a file, the error that the text shows."""
    shown = file_reference(file, line)
    return "this error" if shown is None else shown


def _how_to_accept(report: RunReport) -> str:
    if report.is_for_merge:
        return f"set the label `{ACCEPT_RULES}` and start this job again"
    return "set `rule-changes` to `report`"


def _places(report: RunReport, cases: Sequence[CaseReport]) -> tuple[list[Place], bool]:
    """The places that the pull request changes, of the causes of these cases; whether it may be any of them."""
    causes = _causes(report, cases)
    places: list[Place] = []
    for cause in causes:
        for place in cause.changed_here[: None if cause.one_of else 1]:
            if place not in places:
                places.append(place)
    return places, any(cause.one_of for cause in causes)


def _causes(report: RunReport, cases: Sequence[CaseReport]) -> list[CauseReport]:
    ids = {case.case_id for case in cases}
    return [cause for cause in report.causes if not ids.isdisjoint(cause.cases)]


def _look_at(places: Sequence[Place], *, one_of: bool) -> Iterator[Step]:
    yield f"look at one of these {len(places)} places, changed here: " if one_of else "look at "
    shown = places[:_MOST_PLACES]
    for number, place in enumerate(shown):
        yield " and " if number and number == len(places) - 1 else ", " if number else ""
        yield place_reference(place)
    if left := len(places) - len(shown):
        yield f" and {left:,} more"
    if not one_of:
        yield f", {'all ' if len(places) > 2 else 'both ' if len(places) == 2 else ''}changed here"


def _passed(view: View) -> Iterator[Step]:
    report, sorted_out = view.report, view.groups
    rules = report.rule_changes
    if rules is not None and rules.only_here and rules.decides == "head":
        yield from _loosened(rules)
    elif gone := _gone(report):
        yield from gone
    elif report.gate == "advisory" and (sorted_out.worse or sorted_out.failed):
        yield "look at the cases below before you merge"
    elif sorted_out.worse:
        yield "look at "
        yield _case(sorted_out.worse[0])
        yield ": it may be a regression"
    elif report.reasons:
        yield "nothing has to be done, but this run does not show that the agent works"
    else:
        yield "nothing"
        if report.baseline is not None and report.baseline.status == "fetch-failed":
            yield ", but nothing was compared: see below"
        if sorted_out.flaky:
            flaky = plural(len(sorted_out.flaky), "case")
            yield f". {flaky} failed in some runs, {as_often(view.branch)}"


def _loosened(rules: RuleChangesReport) -> Iterator[Step]:
    ways = {
        f"set the label `{ACCEPT_RULES}`": f"remove the label `{ACCEPT_RULES}`",
        "`rule-changes` is `report`": "set `rule-changes` to `block`",
    }
    way = next((way for accepted, way in ways.items() if accepted in rules.accepted), "do not merge")
    size = len(rules.only_here)
    these = "this case blocks" if size == 1 else f"these {size:,} cases block"
    yield f"if the looser rules are not intended, {way}; by the rules of {base_name(rules)}, {these}"


def _gone(report: RunReport) -> list[Step]:
    """Whether removed cases were removed on purpose; empty if none were."""
    removed = report.rule_changes.removed if report.rule_changes is not None else []
    count = sum(file.removed for file in removed)
    if not count:
        count = change_counts(report.comparison)["removed"] if report.comparison is not None else 0
    if not count:
        return []
    whole = [file for file in removed if file.removed == file.base]
    if removed and len(whole) == len(removed):
        what = _files(whole) + (" was" if len(whole) == 1 else " were")
    else:
        what = plural(count, "case") + (f" of {_files(removed)}" if removed else "")
        what += " was" if count == 1 else " were"
    ends = "this check" if count == 1 else f"these {count:,} checks"
    return [f"check that {what} removed on purpose. Merging ends {ends} for good"]


def _files(files: Sequence[RemovedCases]) -> str:
    return listed([f"`{first_line(file.file, _NAME)}`" for file in files], _MOST_FILES, "file")
