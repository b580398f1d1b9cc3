"""The decision and its cause in one sentence, the same in every text: console, summary, comment, JUnit.

On a pull request it is about the merge, elsewhere about the run. Each code of `agent_eval_results.outcome` is a row or
a function here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from agent_eval_results import Reason, RunReport
from agent_eval_results.outcome import failing_ids, further_reasons
from agent_eval_results.report.phrases._answers import changed_sentence
from agent_eval_results.report.phrases._causes import cause_line, cause_title
from agent_eval_results.report.phrases._words import VERDICTS, as_often, filled
from agent_eval_results.report.views.digest import case_name
from agent_eval_results.report.views.grouping import View
from agent_eval_scoring.core.reason import NO_REASON
from agent_eval_scoring.core.text import every, first_line, plural, share

_LINE, _NAME = 300, 60

_COUNTED: Mapping[str, tuple[str, str]] = {
    "no-longer-answers": ("no longer answers", "no longer answer"),
    "no-answer": ("has no answer", "have no answer"),
    "metric-breaks": ("fails by an error of a custom metric", "fail by an error of a custom metric"),
    "times-out": ("times out", "time out"),
    "crashes": ("crashes", "crash"),
    "fails-alone": ("fails and can't be compared with {base}", "fail and can't be compared with {base}"),
    "fails-as-often": (f"fails {as_often('{base}')}", f"fail {as_often('{base}')}"),
    "fails-without-blocking": ("fails without blocking", "fail without blocking"),
    "fails-as-before": ("fails as on {base} and blocks", "fail as on {base} and block"),
}
"""What fails, of one case and of several: `2 of 9 cases crash`, `1 other case fails as on main and blocks`."""
_SIMPLE: Mapping[str, tuple[str, str]] = {
    "not-evaluated": ("could not be evaluated",) * 2,
    "not-run": ("did not run",) * 2,
    "out-of-time": ("did not run before the time limit",) * 2,
    "quarantined": ("quarantined",) * 2,
    "no-model-key": ("had no model key that works",) * 2,
    "no-login": ("had no Google credentials",) * 2,
    "fails-there-too": ("fails on {base} too", "fail on {base} too"),
    "may-be-regression": ("is a suspected regression", "are suspected regressions"),
    "does-not-block": ("fails without blocking", "fail without blocking"),
}
"""The same without `other`; a single case may be named."""
_PLAIN: Mapping[str, str] = {
    "so-nothing": "so nothing was evaluated",
    "no-regressions": "no regressions",
    "no-regression-shown": "no regression shown",
    "not-compared": "not compared with {base}",
    "nothing-run": "nothing was run",
}
_SERVICES: Mapping[str, str] = {
    "model-provider-failed": "the model's provider failed",
    "quota-used-up": "the quota of the model's provider is used up",
    "server-failed": "a server that the agent needs failed",
    "installation-failed": "the installation of the agent's packages failed",
}
_NEVER_RAN: Mapping[str, str] = {
    "agent-import": "the agent{} can't be imported",
    "agent-environment": "the agent{} has no working environment",
    "agent-server-down": "the server of the agent{} does not answer",
}
_ENDED_EARLY: Mapping[str, str] = {
    "disk-full": "the disk is full",
    "agent-not-ended": "processes of the agent could not be ended",
}


def headline(view: View, *, brief: bool = False, words: bool = True) -> str:
    """The decision and its cause.

    Args:
        view: The report.
        brief: For a text that shows the causes right above: only their number.
        words: Whether answers may be quoted.
    """
    made, say = view.outcome.headline, partial(_clause, view, {"brief": brief, "words": words})
    # `beside` goes on with the sentence; what does not block is one of its own, so that nobody reads it as a reason.
    sentence = say(made)
    for clause in made.data.get("beside", ()):
        but = clause.code == "cases-gone" and view.report.passed
        sentence += f"{', but' if but else ';'} {say(clause)}"
    if aside := made.data.get("aside"):
        sentence += f". Not blocking: {', '.join(map(say, aside))}"
        if [clause.code for clause in aside] == ["suspected"]:
            sentence += ", which may be chance"
    return sentence


def _clause(view: View, how: Mapping[str, bool], reason: Reason) -> str:
    facts = {"base": view.branch, **reason.data}
    facts["because"] = first_line(why.message, _LINE) if (why := facts.get("because")) else NO_REASON
    facts["parts"] = list(filter(None, (_clause(view, how, part) for part in facts.get("parts", ()))))
    count, of = facts.get("count", 0), facts.get("total", 0)
    if (text := _PLAIN.get(reason.code)) is not None:
        return text.replace("{base}", facts["base"])
    if (service := _SERVICES.get(reason.code)) is not None:
        return f"{service} in {share(count, of, 'case')}"
    others = plural(count, "other case")
    # `other` only of cases that fail: of those, the clause before has counted the first ones.
    if (verbs := _COUNTED.get(reason.code)) is None and (verbs := _SIMPLE.get(reason.code)) is not None:
        others = f"{count:,}"
    if verbs is not None:
        verb = verbs[count != 1].replace("{base}", facts["base"])
        named = case_names(view, facts["cases"]) if facts.get("cases") else ""
        return f"{named or (share(count, of, 'case') if of else others)} {verb}"
    return filled(_CLAUSES[reason.code], {**facts, "view": view, **how})


def _lead(report: RunReport) -> str:
    look = VERDICTS[report.verdict]
    return look.on_merge if report.is_for_merge else look.words


def _by_cases(view: View, parts: Sequence[str]) -> str:
    return f"{_lead(view.report)}: {', '.join(parts)}"


def _by_reason(view: View, because: str, parts: Sequence[str]) -> str:
    if view.report.passed and not view.report.is_for_merge:
        return because
    return _by_cases(view, [_inside(because), *parts])


def _advised(view: View, parts: Sequence[str], result: str) -> str:
    """What a gate that is not advisory would have said about failing cases."""
    if view.report.is_for_merge:
        return f"{_lead(view.report)}, since `gate` is `advisory`: {', '.join(parts)}"
    lead = {"failed": "fail"}.get(result, "be inconclusive")
    return f"Would {lead}: {', '.join(parts)}; exit 0 because `gate` is `advisory`"


def _allowed(view: View, count: int, total: int, passed: int) -> str:
    """An inconclusive run that a setting lets pass."""
    unscored = every(total, "case") if count >= total else share(count, total, "case")
    sentence = f"{unscored} could not be evaluated"
    if not passed:
        sentence = f"nothing was evaluated, {unscored} ended with an error"
    return _allowed_open(view, sentence)


def _allowed_open(view: View, because: str) -> str:
    sentence = _inside(because)
    if view.report.is_for_merge:
        return f"{VERDICTS['passed'].on_merge}, since `on-inconclusive` is `pass`: {sentence}"
    return f"{_lead(view.report)}: {sentence}; exit 0 because `on-inconclusive` is `pass`"


def _by_looser_rules(view: View, count: int, total: int, base: str) -> str:
    if view.report.is_for_merge:
        some = f"{count:,} of {plural(total, 'case')} {'passes' if count == 1 else 'pass'}"
        return f"{_lead(view.report)}: {some} only by this {view.report.change}'s looser rules, which were accepted"
    would = f"{count:,} of {plural(total, 'case')} would fail by those of {base}"
    return f"Passed only by rules that are looser than those of {base}: {would}"


def _by_stricter_rules(view: View, count: int, base: str) -> str:
    return f"{count:,} by rules of {base} that this {view.report.change} loosens"


def _fails_by_their_rules(view: View, count: int, total: int, base: str) -> str:
    loosened = f"rules of {base} that this {view.report.change} loosens"
    return f"{count:,} of {plural(total, 'case')} would fail by {loosened}"


def _passing(view: View, count: int, total: int, base: str, *, is_same: bool = False) -> str:
    some = f"{share(count, total, 'case')} pass"
    flaky = view.groups.flaky
    # One without a pass at all does not pass sometimes.
    if flaky and all(view.judged_runs(case)[0] for case in flaky):
        some += f", {len(flaky):,} {'passes' if len(flaky) == 1 else 'pass'} sometimes"
    passing = some if count < total else f"{every(total, 'case')} {'passes' if total == 1 else 'pass'}"
    return passing + f", as on {base}" * is_same


def _never_ran_(kind: str, count: int, total: int, agent: str = "") -> str:
    what = _NEVER_RAN[kind].format(f" {agent}" if agent else "")
    if count == total:
        return (
            f"{what}, so none of {plural(total, 'case')} ran" if total > 1 else f"{what}, so the only case did not run"
        )
    return f"{what}, so {count:,} of {plural(total, 'case')} did not run"


def _regressions(view: View, count: int, base: str, *, is_explained: bool, cases: Sequence[str] = ()) -> str:
    if not cases and not is_explained:
        return f"{share(count, view.report.totals.cases, 'case')} are regressions vs. {base}"
    names = f" ({case_names(view, cases)})" if cases else ""
    return f"{plural(count, 'regression')} vs. {base}{names * (not is_explained)}"


def _suspected(view: View, count: int, cases: Sequence[str] = (), *, is_joint: bool = False) -> str:
    names = f" ({case_names(view, cases)})" if cases else ""
    joint = f", significant {'together' if count > 1 else 'with the other cases'}"
    return plural(count, "suspected regression") + names + joint * is_joint


def _fails(count: int, total: int = 0, crashed: int = 0) -> str:
    of_them = f" ({crashed:,} {'crashes' if crashed == 1 else 'crash'})" if crashed and count > 1 else ""
    some = share(count, total, "case") if total else plural(count, "other case")
    return f"{some} {'fails' if count == 1 else 'fail'}{of_them}"


def _adjective(adjective: str, count: int) -> str:
    return f"{plural(count, f'{adjective} case')} {'fails' if count == 1 else 'fail'}"


def _shared_causes(view: View, shared: Sequence[int], count: int, total: int, *, brief: bool) -> str:
    """What failing cases share: `one cause: find_devices returns nothing`; of several, how many each explains."""
    causes = [view.report.causes[number] for number in shared]
    title = cause_title(causes)
    if len(causes) > 1:
        if brief:
            return f"{f'{count:,} of them' if count < total else 'each'} with one of {title.partition(':')[0]}"
        # A case may have several causes: each is counted once, for the first, so that the numbers add up.
        left = set(failing_ids(view.groups))
        shares = []
        for cause in causes:
            shares.append(f"{len(left.intersection(cause.cases)):,} because {cause_line(cause)}")
            left.difference_update(cause.cases)
        more = [f"and {len(shares) - 2:,} more causes"] if len(shares) > 3 else shares[2:]
        other = f"{total - count:,} for {'another reason' if total - count == 1 else 'other reasons'}"
        return ", ".join([*shares[:2], *more, *[other] * (count < total and len(shares) <= 3)])
    if brief and total == 1:
        return ""
    title = title.partition(":")[0] if brief else title
    return f"{count:,} of them with {title}" if count < total else f"{'all with ' * brief}{title}"


def _cases_gone(view: View, count: int, base: str, total: int = 0) -> str:
    if count == total > 1:
        return f"all of {base}'s {plural(total, 'case')} are gone"
    cases = plural(total, "case") if view.report.rule_changes is not None else "cases"
    return f"{count:,} of {base}'s {cases} {'is' if count == 1 else 'are'} gone"


def _replayed(count: int, total: int, *, is_whole: bool = False) -> str:
    if count == total:
        return "replayed"
    if is_whole:
        live = "the failing case is the only one" if total - count == 1 else "the failing cases are the only ones"
        return f"{live} that ran live ({count:,} {'was' if count == 1 else 'were'} replayed from tapes)"
    return f"{count:,} of {plural(total, 'case')} {'was' if count == 1 else 'were'} replayed"


_CLAUSES: Mapping[str, Callable[..., str]] = {
    "part": lambda because: f"{because[:1].upper()}{because[1:]}",
    "by-cases": _by_cases,
    "by-reason": _by_reason,
    "advised": _advised,
    "allowed": _allowed,
    "allowed-open": _allowed_open,
    "by-looser-rules": _by_looser_rules,
    "by-stricter-rules": _by_stricter_rules,
    "fails-by-their-rules": _fails_by_their_rules,
    "errors-in-files": lambda count: f"{plural(count, 'error')} in the eval files or the configuration",
    "ended-early": lambda kind: f"{_ENDED_EARLY[kind]}, so the run ended early",
    "passing": _passing,
    "improved": lambda count: f"{plural(count, 'case')} improved",
    "newly-passes": lambda count: f"{plural(count, 'case')} {'newly passes' if count == 1 else 'newly pass'}",
    "cases-changed": lambda count: f"{plural(count, 'case was', 'cases were')} changed here",
    "answers-changed": changed_sentence,
    "never-ran": _never_ran_,
    "regressions": _regressions,
    "suspected": _suspected,
    "fails": _fails,
    "new-fails": partial(_adjective, "new"),
    "changed-fails": partial(_adjective, "changed"),
    "shared-causes": _shared_causes,
    "cases-gone": _cases_gone,
    "replayed": _replayed,
}
HEADLINES = frozenset().union(_COUNTED, _SIMPLE, _PLAIN, _SERVICES, _CLAUSES)
"""All codes of headlines and their parts."""


def case_names(view: View, cases: Sequence[str]) -> str:
    """The names of one or two cases, which show no code."""
    return ", ".join(case_name(view.cases[each]).replace("`", "'") for each in cases)


def headline_status(report: RunReport) -> str:
    """What the symbol before the headline shows: the verdict, or `warning` for a run that passed with reservations."""
    if not report.passed:
        return report.verdict
    changes = report.rule_changes
    # A green symbol over fewer or weaker checks would be believed.
    loosened = changes is not None and (changes.only_here or changes.removed or changes.replaced)
    return "warning" if report.reasons or report.warnings or loosened else "passed"


def _inside(sentence: str) -> str:
    """A sentence after a colon: it begins in lower case, unless it begins with a name, e.g. of a variable."""
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def other_reasons(view: View, limit: int = 600) -> list[str]:
    """The gate's reasons that neither the headline nor the list of cases says, a line each."""
    lines = [first_line(reason.message, limit) for reason in further_reasons(view, view.outcome)]
    return [line for line in lines if line][:5]
