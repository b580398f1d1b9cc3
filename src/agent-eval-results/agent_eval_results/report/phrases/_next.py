"""What to do next: one or two sentences with the places to look at, the same in comment, summary, page and terminal.

Each code of `agent_eval_results.outcome` is a row or a function here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent_eval_results import (
    ACCEPT_RULES,
    NO_ACCESS,
    OTHER_SCORING,
    OTHER_VERSION,
    SHORT_HISTORY,
    UNREACHABLE,
    NoMoreRuns,
    Place,
    Reason,
)
from agent_eval_results.data.outcome import Actor
from agent_eval_results.outcome import actor_of, waits_for_none
from agent_eval_results.report.phrases._causes import place_reference, place_text
from agent_eval_results.report.phrases._significance import are_alike
from agent_eval_results.report.phrases._words import LIMITS, filled, parts
from agent_eval_results.report.phrases.rule_changes import base_name
from agent_eval_results.report.views import Reference, one_line
from agent_eval_results.report.views.digest import case_name
from agent_eval_results.report.views.grouping import View
from agent_eval_results.report.views.links import file_reference
from agent_eval_scoring.core.problem import docs_page
from agent_eval_scoring.core.text import first_line, listed, plural, shorten

_MOST_PLACES = 3
_MOST_FILES = 2
_NAME, _SHORT_NAME = 200, 60


@dataclass(frozen=True, kw_only=True)
class ToRun:
    """Words that lead to the run, where somebody can start or approve it again."""

    text: str

    is_waiting: bool = False
    """Whether they lead to the runs that wait for an approval instead."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of our documentation."""

    title: str
    url: str

    @property
    def text(self) -> str:
        """With the address, where it is no link."""
        return f"{self.title} ({self.url})"


Step = str | Reference | ToRun | Page
"""A part of a sentence."""

_AGAIN = ToRun(text="run the failed job again")
_ASK = " (without write access, e.g. from a fork: ask a maintainer)"
"""Who may not run a job again on GitHub, and on GitLab."""
_SETTINGS = ", in the CI's configuration or agent-eval.toml"
_ACCEPT = "accept it: `agent-eval accept`, and commit the eval files"
_PLAIN: Mapping[str, Sequence[Step]] = {
    "record-base-answers": ["compare with recorded answers: `baseline: rerun`, or results with recordings.jsonl.gz"],
    "merge-decides": ["nothing in this part: `agent-eval merge` decides"],
    "approve-with-secrets": [
        "read the diff, then approve the ",
        ToRun(text="waiting run", is_waiting=True),
        " that has secrets (running this one again does not help). If none waits, set one up: ",
        Page(title="Evals that need a key", url=f"{docs_page('forks')}#evals-that-need-a-key"),
        ". For the author: nothing",
    ],
    "give-dependabot-key": ["add the model key to Dependabot's secrets, then ", _AGAIN],
    "record-answers": ["record the answers again, or use `gate: thresholds`"],
    "run-base-more": ["run the base branch more often, then ", _AGAIN],
    "change-case": ["change the case or its criteria: another run would not score it"],
    "fix-judge-model": ["fix `judge-model` or its key"],
    "fix-simulator-model": ["fix the model of the simulated user or its key"],
    "record-judge": ["record the judge's replies again"],
    "run-tool-live": ["set `replay = false` for a tool; code that asks a model itself needs a live run"],
    "drop-policy": ["take the metric out of the `[[policy]]`"],
    "fix-failed-case": ["fix the case that failed: `fail-fast` ended the run"],
    "read-reasons": ["see the reason below"],
    "read-headline": ["fix what the first line says"],
    "fix-failure": ["fix what fails"],
    "fix-agent": ["fix the agent"],
    "check-answers": [
        "see below whether the changed answers are meant. If they are: nothing. If not: fix the agent, and add a check "
        "to the eval files that fails for them"
    ],
    "look-before-merge": ["look at the cases below before you merge"],
    "nothing-shown": ["nothing has to be done, but this run does not show that the agent works"],
    "nothing-compared": ["nothing", ", but nothing was compared: see below"],
    "nothing": ["nothing"],
}
_BEFORE_A_RERUN: Mapping[str, str] = {
    "give-key": "give the job a model key",
    "give-credentials": "give the agent credentials that its server accepts",
    "give-working-key": "give the job a model key that works",
    "give-login": "log the job in to Google Cloud (`google-github-actions/auth`) and pass the credentials on "
    "(`agent-env: +GOOGLE_APPLICATION_CREDENTIALS`)",
    "give-python": "install a Python that the agent's project allows in an earlier step (`actions/setup-python`), or "
    "set `agent-python`",
    "raise-quota": "raise the model's quota or credit, or wait until it renews",
}
_ADDRESSEES: Mapping[Actor, str] = {
    "author": "for the author",
    "reviewer": "for the reviewer",
    "maintainer": "for a maintainer",
    "base-owner": "for the owner of {base}",
    "ci-owner": "for the owner of the CI",
    "anyone": "for anyone with write access",
    "": "",
}
_RULES: Mapping[str, str] = {
    "restore-cases": "restore the cases",
    "restore-contents": "restore what the cases ask and expect",
    "meet-rules": "meet the base branch's rules",
}


def next_step(view: View, *, words: bool = True) -> list[Step]:
    """What to do next, in one or two sentences without the last full stop. What another one than `next_label` names has
    to do says so.

    Args:
        view: The report.
        words: Whether an agent's answer may be quoted, and the hint to its error.
    """
    steps: list[Step] = []
    actor = view.outcome.actor
    for reason in view.outcome.next:
        first, *others = sentence(view, reason if words else _without_words(reason))
        # Where nobody is named, the step is for whoever did the one before.
        other, actor = actor, actor_of(reason) or actor
        addressee = _addressee(view, actor) if other != actor else ""
        if steps and addressee:
            # It does not wait for the step before.
            lead = f"meanwhile, {addressee}" if waits_for_none(reason) else addressee
            steps += [f". {lead[:1].upper()}{lead[1:]}: ", first, *others]
            continue
        if steps and isinstance(first, str):
            first = f". {first[:1].upper()}{first[1:]}"
        steps += [first, *others]
    return steps


def _without_words(step: Reason) -> Reason:
    data = {name: value for name, value in step.data.items() if name not in {"got", "hint"}}
    return Reason(code={"follow-hint": "fix-error"}.get(step.code, step.code), data=data)


def next_label(view: View) -> str:
    """What stands before the next step: on a pull request with who has to do it."""
    addressee = _addressee(view, view.outcome.actor)
    return f"Next, {addressee}" if addressee else "Next"


def _addressee(view: View, actor: Actor) -> str:
    origin = view.report.origin
    if not view.report.is_for_merge and (origin is None or not origin.run_url):
        return ""  # On somebody's own machine.
    words = _ADDRESSEES[actor]
    if actor == "author" and not view.report.is_for_merge:
        words = "for the author of the commit"
    return words.replace("{base}", view.branch)


def next_text(steps: Sequence[Step]) -> str:
    """The same as plain text."""
    return "".join(step if isinstance(step, str) else step.text for step in steps)


def sentence(view: View, reason: Reason) -> Sequence[Step]:
    """One step."""
    if (plain := _PLAIN.get(reason.code)) is not None:
        return plain
    if (remedy := _BEFORE_A_RERUN.get(reason.code)) is not None:
        return [f"{remedy}, then ", *_run_again(view)]
    if (rules := _RULES.get(reason.code)) is not None:
        return [f"{rules}, or let a maintainer accept the change: {_how_to_accept(view)}"]
    return filled(_SENTENCES[reason.code], {"base": view.branch, **reason.data, "view": view})


def _run_again(view: View) -> list[Step]:
    merged = view.report.merged_from
    if merged is not None and merged.missing and not view.report.is_for_merge:
        run = listed([f"`--shard {index}/{merged.total}`" for index in merged.missing], _MOST_PLACES)
        return [f"run {parts(merged.missing, merged.total)} ({run}) into a directory of its own, and merge again"]
    return [_AGAIN if view.report.is_for_merge else "run it again"]


def _only_again(view: View) -> list[Step]:
    return [*_run_again(view), *[_ASK] * view.report.is_for_merge]


def _compare_answers(view: View, remedy: str, count: int = 0, cases: Sequence[str] = ()) -> list[Step]:
    steps: list[Step] = ["fix the agent if the new answer below is wrong"]
    if not cases or len(cases) < count:
        again = _ACCEPT if remedy == "limit" else ToRun(text="run the job again")
        steps += [". If it is right, ", again]
    if not cases:
        return steps
    runs = view.runs[cases[0]]
    here, there = f"{runs.head_passed:,} of {runs.head_runs:,}", f"{runs.base_passed:,} of {runs.base_runs:,}"
    named = (
        f"{case_name(view.cases[cases[0]])} passes only sometimes, here ({here} runs) and on {view.branch} ({there})"
    )
    others = f", and so do {len(cases) - 1:,} more" if len(cases) > 1 else ""
    both = "let the case pass with both answers" if len(cases) == 1 else "let these cases pass with all of them"
    return [*steps, f". Accepting it is no way out: {named}{others}. If both answers are right, {both}"]


def _accept_answers(*, is_whole: bool = False) -> list[Step]:
    tape = ". That needs no new tape, but without one (`--record all`), a case goes on running live"
    return [f"fix the agent or, if its new behaviour is right, {_ACCEPT}{tape * is_whole}"]


def _raise_run_timeout(view: View, here: float | None = None, remedy: str = "") -> list[Step]:
    value = f" (now {here:g} s)" if here is not None else ""
    again = "if cases are cut off again, " if remedy else ""
    return [f"{again}raise `run-timeout`{value}" + _SETTINGS * view.report.is_for_merge]


def _fix_crash(view: View, cases: Sequence[str], count: int) -> list[Step]:
    others = f", the first of {count:,} cases that crash"
    return ["fix the crash in ", _case(view, cases[0]), *[others] * (count > 1)]


def _raise_limit(view: View, remedy: NoMoreRuns, more: int = 0) -> list[Step]:
    ask = "ask the owner of the CI to raise" if view.report.is_for_merge else "raise"
    made = f", reached after {plural(more, 'extra run')}" if more else ""
    return [f"to have more runs decide instead, {ask} {LIMITS[remedy]}{made}"]


def _then_again(count: int) -> list[Step]:
    cases = "case" if count == 1 else f"{count:,} cases"
    return [f"then run again{f': that also repeats the {cases} in which the provider failed' if count else ''}"]


_VERSIONS = "use the same version of agent-eval here{wanted} and on {base}{got}"
_OLDER_HERE = "use agent-eval {got} here, too (it made the results of {base}; this run is of {wanted})"
_OLDER_THERE = "use agent-eval {wanted} on {base}, too, as in this run (the results of {base} are of {got})"
_VERSION = re.compile(r"[0-9]{1,6}(?:[.][0-9]{1,6}){1,3}")
_LET_COMPARE: Mapping[str, str] = {
    NO_ACCESS: "let the job's token read earlier runs",
    UNREACHABLE: "see why the job could not fetch the results of {base} (below)",
    SHORT_HISTORY: "check out with `fetch-depth: 0`",
    OTHER_VERSION: _VERSIONS,
    OTHER_SCORING: _VERSIONS,
}
"""What makes the base branch's results readable, by why they are not."""
_ACCESS: Mapping[str, str] = {
    "GitHub": "give the job the permission `actions: read`",
    "GitLab": "let the job's `GITLAB_TOKEN` read earlier pipelines",
}


def _let_compare(kind: str, base: str, subject: str = "", wanted: str = "", got: str = "") -> list[Step]:
    way = _ACCESS.get(subject) if kind == NO_ACCESS else None
    versions = {"wanted": _version(wanted), "got": _version(got)}
    step = way or _LET_COMPARE.get(kind, "let the job read the results of {base} (see below)")
    # With two plain versions the older side is known, and only that one has to change.
    if step == _VERSIONS and _VERSION.fullmatch(wanted) and _VERSION.fullmatch(got) and wanted != got:
        here, there = ([int(part) for part in version.split(".")] for version in (wanted, got))
        step, versions = (_OLDER_HERE if here < there else _OLDER_THERE), {"wanted": wanted, "got": got}
    step = step.format(base=base, **versions)
    return [f"{step}, and run again: what fails on {base} too may then not block"]


def _version(version: str) -> str:
    return f" ({shorten(one_line(version), _SHORT_NAME)})" if version else ""


def _at(file: str | None, line: int | None) -> Step:
    """A line to fix; without a file, the error that the text shows."""
    return file_reference(file, line) or "this error"


def _fix_problem(file: str | None = None, line: int | None = None, more_errors: int = 0) -> list[Step]:
    others = f" and {plural(more_errors, 'other error')}, listed below"
    return ["fix ", _at(file, line), *[others] * bool(more_errors)]


def _follow_hint(file: str | None = None, line: int | None = None, hint: str = "") -> list[Step]:
    # A hint is written below an error; here it is the next step, so a question becomes one.
    advice = re.sub(r"^Did you mean ([^?]+)\?", r"Write \1.", hint).removesuffix(".")
    # Not a name in capitals, e.g. of a variable.
    if advice[1:2].islower():
        advice = f"{advice[:1].lower()}{advice[1:]}"
    if not advice:
        return ["fix ", _at(file, line), ", following its hint"]
    steps: list[Step] = [first_line(advice, _NAME)]
    return steps if (place := file_reference(file, line)) is None else [*steps, " (see ", place, ")"]


def _these(count: int) -> tuple[str, str]:
    return ("the case", "its tape") if count == 1 else (f"these {count:,} cases", "their tapes")


def _run_with_model(view: View, count: int, *, needs_accepting: bool) -> list[Step]:
    cases, tapes = _these(count)
    accept = f", or let a maintainer accept {tapes}: {_how_to_accept(view)}"
    return [f"run {cases} with a model (`replay: missing-live`)", *[accept] * needs_accepting]


def _record_cases(count: int) -> list[Step]:
    cases, tapes = _these(count)
    return [f"record {cases} again (`--record all`) and commit {tapes}"]


def _record_tools(count: int) -> list[Step]:
    cases, tapes = _these(count)
    tools = "its tools" if count == 1 else f"the tools of {cases}"
    return [f"record {tools} again (`--record all`) and commit {tapes}"]


def _accept_tapes(view: View, count: int) -> list[Step]:
    return [f"then accept {_these(count)[1]}: {_how_to_accept(view)}"]


def _how_to_accept(view: View) -> str:
    if view.report.is_for_merge:
        return f"set the label `{ACCEPT_RULES}` and start this job again"
    return "set `rule-changes` to `report`"


def _look_at_places(places: Sequence[Place], *, one_of: bool) -> list[Step]:
    one_of = one_of and len(places) > 1
    steps: list[Step] = [f"look at one of these {len(places)} places, changed here: " if one_of else "look at "]
    shown = places[:_MOST_PLACES]
    for number, place in enumerate(shown):
        steps.append(" and " if number and number == len(places) - 1 else ", " if number else "")
        steps.append(place_reference(place))
    if left := len(places) - len(shown):
        steps.append(f" and {left:,} more")
    if not one_of:
        steps.append(f", {'all ' if len(places) > 2 else 'both ' if len(places) == 2 else ''}changed here")
    return steps


def _look_at_line(places: Sequence[Place]) -> list[Step]:
    return ["look at ", Reference(text=place_text(places[0]), file=places[0].file, line=places[0].first)]


def _case(view: View, case_id: str) -> Reference:
    case = view.cases[case_id]
    return Reference(text=case_name(case), file=case.file, line=case.line, case_id=case_id)


def _look_at_case(
    view: View, cases: Sequence[str], total: int, got: str = "", crashed: int = 0, *, is_whole: bool = False
) -> list[Step]:
    case, then = _case(view, cases[0]), "then " * bool(crashed)
    if got:
        return [f"all {total:,} failing cases answer “{one_line(got)}”: look at ", case, " first"]
    live = ", and at why it ran live" if is_whole and total == 1 else ""
    failing = [each for each in (*view.groups.worse, *view.groups.failed) if view.outcomes[each.case_id].would_block]
    if len(failing) == total and are_alike(failing, view):
        return [f"{then}look at ", case, f". The other {total - 1:,} have the same first difference"]
    other = "other " * bool(crashed)
    if total > 1:
        return [f"{then}look at the {total:,} {other}failing cases, ", case, " first"]
    return [f"{then}look at ", case, *[live] * bool(live)]


def _look_at_others(view: View, cases: Sequence[str], count: int) -> list[Step]:
    what = "which fails for another reason" if count == 1 else f"the first of {count:,} that fail for another reason"
    return ["Then look at ", _case(view, cases[0]), f", {what}"]


def _repair_on_base(view: View, cases: Sequence[str], count: int, base: str) -> list[Step]:
    others = f"the first of {count:,} cases that fail on {base} too" if count > 1 else f"which fails on {base} too"
    return ["repair or quarantine ", _case(view, cases[0]), f", {others}"]


def _undo_looser_rules(view: View, count: int) -> list[Step]:
    rules = view.report.rule_changes
    assert rules is not None
    ways = {
        f"set the label `{ACCEPT_RULES}`": f"remove the label `{ACCEPT_RULES}`",
        "`rule-changes` is `report`": "set `rule-changes` to `block`",
    }
    # `accepted` is a sentence: results have no code for who accepted.
    way = next((way for accepted, way in ways.items() if accepted in rules.accepted), "do not merge")
    these = "this case blocks" if count == 1 else f"these {count:,} cases block"
    again = " and start this job again" if way.startswith("remove") else ""
    return [
        f"if the looser rules are not intended, {way}{again}: by the rules of {base_name(rules)}, {these}. If they are "
        "intended: nothing"
    ]


def _check_removed(
    count: int, *, is_whole: bool = False, files: Sequence[str] = (), cases: Sequence[str] = ()
) -> list[Step]:
    """Whether removed cases were removed on purpose."""
    named = listed([f"`{first_line(file, _NAME)}`" for file in files], _MOST_FILES, "file") if files else ""
    what = named if is_whole else plural(count, "case") + (f" of {named}" if files else "")
    if cases:
        # A backtick of the id would end the code.
        what = " and ".join(f"`{shorten(one_line(case), _SHORT_NAME).replace('`', chr(39))}`" for case in cases)
    verb = "was" if (len(files) if is_whole else count) == 1 else "were"
    those = "this case no longer runs" if count == 1 else f"these {count:,} cases no longer run"
    return [f"check that {what} {verb} removed on purpose. After the merge, {those}"]


def _flaky(view: View, count: int, base: str, cases: Sequence[str] = ()) -> list[Step]:
    shown = []
    for case_id in cases if count <= len(cases) else ():
        name, runs = case_name(view.cases[case_id]), view.runs.get(case_id)
        passed, judged = view.judged_runs(view.cases[case_id])
        there = f" (on {base} {runs.base_passed:,} of {runs.base_runs:,})" if runs is not None else ""
        shown.append(f"{name} passed {passed:,} of {plural(judged, 'run')}{there}")
    numbers = f": {', '.join(shown)}" if shown else ""
    return [f"{plural(count, 'case')} failed in some runs, which may be chance{numbers}"]


_SENTENCES: Mapping[str, Callable[..., Sequence[Step]]] = {
    "run-again": _only_again,
    "run-failed-job": lambda view: [_AGAIN, *[_ASK] * view.report.is_for_merge],
    "fix-problem": _fix_problem,
    "fix-error": lambda file=None, line=None: ["fix ", _at(file, line)],
    "follow-hint": _follow_hint,
    "run-with-model": _run_with_model,
    "record-cases": _record_cases,
    "record-tools": _record_tools,
    "accept-tapes": _accept_tapes,
    "find-tools": lambda subject: [f"see why {shorten(one_line(subject), _NAME)} has no tools"],
    "look-at-places": _look_at_places,
    "look-at-line": _look_at_line,
    "look-at-case": _look_at_case,
    "look-at-others": _look_at_others,
    "repair-on-base": _repair_on_base,
    "compare-answers": _compare_answers,
    "raise-limit": _raise_limit,
    "raise-run-timeout": _raise_run_timeout,
    "fix-crash": _fix_crash,
    "accept-answers": _accept_answers,
    "raise-budget": lambda view: [f"raise {LIMITS['cost']}" + _SETTINGS * view.report.is_for_merge],
    "then-again": _then_again,
    "not-caused-here": lambda view: [f"Nothing in this {view.report.change} caused it"],
    "let-compare": _let_compare,
    "look-at-suspected": lambda view, cases: ["look at ", _case(view, cases[0]), ": it may be a regression"],
    "undo-looser-rules": _undo_looser_rules,
    "check-removed": _check_removed,
    "flaky": _flaky,
}
STEPS = frozenset().union(_PLAIN, _BEFORE_A_RERUN, _RULES, _SENTENCES)
"""All codes of steps."""
