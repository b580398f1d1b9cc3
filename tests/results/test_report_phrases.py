"""Every fact of a run has a phrase, and only `report/phrases` has sentences about a run."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import report_samples
from comparison_samples import SITUATIONS, but, cause, fine_cases, pull_request
from golden_files import check
from report_samples import RESPONSE, case, crash, ended_by, good, metric, outage, report, wrong_room

from agent_eval_results.data.causes import (
    AgentChange,
    AgentChangeCode,
    AgentFacts,
    AgentTree,
    CauseCode,
    CauseReport,
    Place,
    ToolFacts,
)
from agent_eval_results.data.comparison import RuleChange
from agent_eval_results.data.decision import DecisionReasonReport, DecisionReport, SuiteTestReport
from agent_eval_results.data.origin import CaseWord, Origin
from agent_eval_results.data.outcome import RunOutcome
from agent_eval_results.data.report import CaseReport, ProblemReport, RunReport, TurnEvidence
from agent_eval_results.report.phrases import (
    PHRASES,
    agent_change,
    agent_changes,
    agent_unchanged,
    cause_evidence,
    cause_line,
    cause_sentence,
    cause_title,
    changed_here,
    next_step,
    next_text,
    outcome_in_words,
    put_into_words,
    suite_lines,
    text,
)
from agent_eval_results.report.phrases._headline import HEADLINES, headline, headline_status, other_reasons
from agent_eval_results.report.phrases._next import STEPS
from agent_eval_results.report.phrases.rule_changes import rule_rows, rule_sentences
from agent_eval_results.report.renderers import comment_markdown
from agent_eval_results.report.views import view_of
from agent_eval_scoring.core.reason import Facts, NoMoreRuns, Numbers, Reason
from agent_eval_scoring.core.recording import RunError

# Every fact of a run has a phrase, and only `report/phrases` has sentences about a run.


SOURCE = Path(__file__).parents[2] / "src"
BELOW = ("gate", "runner", "criteria", "data", "outcome", "baseline", "pipeline")
"""Packages that emit facts."""

LAMP: Numbers = {
    "case": "home.test.json:lamp",
    "metric": "pass",
    "head": 0.0,
    "head_runs": 5,
    "base": 1.0,
    "base_runs": 10,
    "again": False,
}
TIDY: Numbers = {**LAMP, "case": "home.test.json:tidy", "metric": "tidiness", "head": 0.5, "base": 0.75, "again": True}
BY_TYPE: Mapping[Any, tuple[object, object]] = {
    int: (1, 3),
    float: (1.0, 0.25),
    bool: (True, False),
    list[str]: (["one"], [*"abcde"]),
    list[int]: ([3], [2, 3, 5]),
    list[float]: ([0.5, 1.0],) * 2,
    list[Numbers]: ([LAMP], [TIDY, LAMP]),
    list[Reason]: ([Reason(code="x", message="one part"), Reason(code="x", message="another")],) * 2,
    dict[str, list[float]]: ({"greets": [1.0, 0.5]},) * 2,
    Reason | None: (Reason(code="x", message="the reason behind it"),) * 2,
}
"""Facts about one thing, and about several."""
BY_NAME: Mapping[str, tuple[object, object]] = {
    "cases": (["home.test.json:lamp"], [f"home.test.json:c{number}" for number in range(5)]),
    "causes": ({"agent-import": 1}, {"agent-import": 6, "run-timeout": 3}),
    "here": (3.0, 0.5),
    "informing": (0, 2),
    "kind": ("provider-unavailable",) * 2,
    "kinds": ([], ["number", "object"]),
    "metric": ("pass", "tidiness"),
    "models": (["gemini-x"], ["gemini-x", "none"]),
    "names": ({"off": 1, "lamp": 2},) * 2,
    "remedy": ("limit", "recorded"),
    "rises": (False, True),
    "side": ("base", "here"),
    "there": (1.0, 2.0),
    "total": (1, 9),
    "turn": (2, 0),
    "votes": ("3:2", ""),
}
"""Facts whose values a phrase looks at."""
NONE: Mapping[str, Mapping[str, Any]] = {
    "part": {"count": 0, "runs": 0},
    "quarantined-cases": {"count": 0},
    "call-missing": {"at": 0},
    "num-runs-differ": {"count": 0},
    "not-replayed": {"message": ""},
    "toolset-lost": {"cases": []},
    "votes-failed": {"message": "a whole sentence."},
}
"""Values with which a phrase says something else, most of them absent ones."""


def facts_of(phrase: str) -> Iterator[dict[str, Any]]:
    """The facts that a phrase takes, of one thing, of several and of none; a text is its own name."""
    hints = get_type_hints(Facts)
    names = inspect.signature(PHRASES[phrase]).parameters.keys() - {"base", "change"}
    pairs = {name: BY_NAME.get(name) or BY_TYPE.get(hints[name], (name, name)) for name in names}
    one, several = ({name: pair[at] for name, pair in pairs.items()} for at in (0, 1))
    yield from (one, several, *({**several, name: none} for name, none in NONE.get(phrase, {}).items()))


def test_phrases__every_code_is_rendered() -> None:
    """UPDATE_GOLDEN=1 writes them. They take facts only."""
    lines = [
        f"{name}: {text(Reason(code=name, data=facts), 'main')}" for name in sorted(PHRASES) for facts in facts_of(name)
    ]
    assert not [line for line in lines if line == f"{line.partition(':')[0]}: {line.partition(':')[0]}"]
    check("golden_phrases.txt", "\n".join(dict.fromkeys(lines)) + "\n")


def test_reason__survives_json_and_a_text_falls_back_to_its_code() -> None:
    because = Reason.of("min-pass-rate", passed=1, runs=3, rate=0.5)
    again = Reason.model_validate_json(Reason.of("quarantined", because=because, until="", runs=0).model_dump_json())
    assert "until" not in again.data and again.data["runs"] == 0
    assert again.data["because"] == because.model_dump()
    assert text(Reason(code="failed", message="said before")) == "said before"
    assert [text(each) for each in (Reason.of("unknown", count=1), Reason(code="failed"))] == ["unknown", "failed"]


def calls(packages: Iterable[str], functions: Container[str]) -> Iterator[tuple[str, ast.Call]]:
    """Every call of some functions in the packages, with its place."""
    for package in packages:
        for path in sorted(SOURCE.glob(f"*/*/{package}/**/*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in functions:
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", node


def test_reasons__have_no_sentence_below_phrases() -> None:
    places = list(calls(BELOW, {"Reason", "DecisionReasonReport", "NotEvaluated"}))
    sentences = [
        place
        for place, call in places
        for keyword in call.keywords
        if keyword.arg == "message" and isinstance(keyword.value, ast.Constant | ast.JoinedStr | ast.BinOp)
    ]

    assert len(places) > 3
    assert sentences == []


SAYS_ITSELF = {"policy_checks.py", "code.py", "custom.py", "packages.py", "registry.py"}
"""Modules with texts that are none about a run: problems of settings and of code."""


def sentences(path: Path) -> Iterator[str]:
    """Texts of a module with three words of prose, apart from docstrings and errors."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_log = isinstance(node, ast.Call) and ast.unparse(node.func) == "_LOG.debug"
        if is_docstring or is_log or isinstance(node, ast.Raise | ast.Assert):
            skipped.update(map(id, ast.walk(node)))
    for node in ast.walk(tree):
        if id(node) not in skipped and isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = [word for word in node.value.split() if word.isalpha() and word.islower()]
            if len(words) >= 3 and node.value not in get_args(CaseWord):
                yield f"{path.relative_to(SOURCE)}:{node.lineno}: {node.value}"


def test_gate_and_criteria__have_no_prose() -> None:
    """What judges are asked, in `criteria/judged`, is for a model."""
    modules = sorted(path for each in ("gate/**", "outcome", "criteria") for path in SOURCE.glob(f"*/*/{each}/*.py"))
    modules = [path for path in modules if path.name not in SAYS_ITSELF]

    assert len(modules) > 30
    assert [sentence for path in modules for sentence in sentences(path)] == []


def test_phrases__every_code_that_is_emitted_has_one() -> None:
    """By the first argument of `Reason.of`, `say` and the like, where it is a text."""
    emitted: dict[str, str] = {}
    for place, call in calls((*BELOW, "commands"), {"Reason.of", "NotEvaluated.of", "say", "_reason", "add"}):
        for phrase in [keyword.value for keyword in call.keywords if keyword.arg == "phrase"] or call.args[:1]:
            for literal in [phrase] if isinstance(phrase, ast.Constant) else ast.walk(phrase):
                if isinstance(literal, ast.Constant) and isinstance(literal.value, str) and literal.value:
                    emitted[literal.value] = place
    said = PHRASES.keys() | HEADLINES | STEPS

    assert len(emitted) > 30
    assert {name: place for name, place in emitted.items() if name not in said} == {}


# The first line of every text, the decision and its cause, and what to do next. UPDATE_GOLDEN=1 writes them.


def advisory() -> RunReport:
    reason = Reason(code="advisory", message="Would fail: 1 of 8 cases; exit 0 because gate is advisory")
    made = pull_request("passed", but(wrong_room()), fine_cases(), reasons=[reason])
    return made.changed(gate="advisory")


_NO_LOGIN = "The agent can't be imported: DefaultCredentialsError: Your default credentials were not found."


def one_run() -> Iterator[tuple[str, RunReport]]:
    """Runs that are compared with nothing."""
    reason = Reason(code="no-cases", message="nothing was gated\nmore")
    yield "one case passes", report("passed", [good("x")])
    yield "many pass", report("passed", [good(str(number)) for number in range(1_200)])
    yield "one case fails", report("failed", [wrong_room()])
    yield (
        "everything",
        report("failed", [wrong_room(), outage(), case("x", "not_run"), case("y", "quarantined"), good("z")]),
    )
    yield "no case", report("failed", [], reasons=[reason])
    yield "an invalid run", report("invalid", [], reasons=[reason])
    yield "no reason", report("inconclusive", [])
    yield "green, and nothing shown", report("passed", [wrong_room()], reasons=[reason])
    yield "an outage in the only case", report("inconclusive", [outage()])
    yield "an outage", report("inconclusive", [outage(), good("x")])
    yield "green by on-inconclusive", report("inconclusive", [outage()]).changed(exit_code=0)
    for kinds in (
        ["server-unavailable"] * 2,
        ["agent-environment"] * 2,
        ["server-unavailable", "provider-unavailable"],
    ):
        yield f"an outage of {kinds}", report("inconclusive", ended_by(*kinds, status="errored"))
    asked = "The agent's MCP server did not answer: http://x (HTTP 403)."
    refused = case("x", "failed", errors={0: RunError(kind="server-unavailable", owner="provider", message=asked)})
    yield "a refused server", report("inconclusive", [refused.changed(status="errored")])
    for name, words in (
        ("a quota that is used up", "429: You exceeded your current quota, please check your plan and billing details"),
        ("a provider that is overloaded", "429 RESOURCE_EXHAUSTED: Resource exhausted. Please try again later."),
    ):
        used_up = RunError(kind="provider-unavailable", owner="provider", message=words)
        yield name, report("inconclusive", [case("x", "errored", errors={0: used_up})])
    hint = "No installed Python is one that ... allows, and Python 3.15.2 can't be downloaded. Install one."
    python = RunError(kind="agent-environment", owner="provider", message="`uv sync` ended", hint=hint)
    yield "a missing Python", report("inconclusive", [case("x", "errored", errors={0: python})])
    login = RunError(kind="provider-unavailable", owner="provider", message=_NO_LOGIN, no_key=True)
    yield "a missing login", report("inconclusive", [case("x", "errored", errors={0: login})])
    informing = report("failed", [wrong_room(), crash(), case("q", "quarantined"), good("z")])
    yield "not all that fail block", informing.changed(blocking=[informing.cases[0].case_id])
    later = [case(f"x{n}", "not_run", reason=Reason(code=code)) for n, code in enumerate(["run-timeout", "budget"])]
    yield "several causes, each with its remedy", report("inconclusive", [*later, outage()])
    yield "a recording without the cases", report("failed", ended_by("agent-no-answer", "agent-no-answer"))
    yield "no answer, and a crash", report("failed", [*ended_by("agent-no-answer"), crash()])
    placed = 'Traceback (most recent call last):\n  File "home_automation/tools.py", line 15, in find\nOSError: no\n'
    raised = RunError(kind="agent-exception", owner="agent", message="OSError: no", traceback=placed)
    crashed = report("failed", [case(name, "failed", errors={0: raised}) for name in ("x", "y")])
    yield "one crash, at a line of the agent", crashed
    yield "all too slow", report("failed", ended_by("deadline", "deadline"))
    yield "too slow, and a crash", report("failed", [*ended_by("deadline", "deadline"), crash()])
    broken = metric("euros", None, threshold=0.5)
    broken.runs[0].error = RunError(kind="custom-metric-invalid-result", owner="agent", message="returned None")
    yield "a custom metric breaks", report("failed", [case(name, "failed", broken) for name in ("milk", "bread")])
    for number, event in ((7, "pull_request"), (None, "merge_group"), (None, "push")):
        origin = Origin(pull_request=number, event=event)
        yield f"on {event}", report("failed", [wrong_room(), good("x")]).changed(origin=origin)


def not_evaluated() -> Iterator[tuple[str, RunReport]]:
    """Cases without a score or a run, for a reason that a new start helps against or does not."""
    yield "not run", report("inconclusive", [case("x", "not_run"), good("y")])
    for code in (
        *("judge-invalid-request", "simulator-invalid-request", "judge-replay-miss", "judge-no-credentials"),
        *("judge-unavailable", "run-timeout", "stopped"),
    ):
        reason = Reason(code=code, message="The judge: 404")
        unscored = case("x", "errored", metric("safety_v1", None, threshold=0.5, reason=reason))
        missing = unscored if code.startswith(("judge", "simulator")) else case("x", "not_run", reason=reason)
        yield code, report("inconclusive", [missing, good("y")])


def compared() -> Iterator[tuple[str, RunReport]]:
    """Runs of pull requests."""
    imported = SITUATIONS["import-error"]().report
    yield (
        "some are not imported",
        imported.model_copy(update={"cases": [*imported.cases, good("x", file="evals/other.test.json")]}),
    )
    head = but(wrong_room())
    word = {"case_id": head[3].case_id, "metric": "pass", "word": "suspicious", "evidence": ""}
    together = DecisionReasonReport(code="cases-worse-together", message="x")
    decision = {"outcome": "failed", "alpha": 0.05, "cases": [word], "reasons": [together]}
    yield (
        "worse only together",
        pull_request("failed", head, fine_cases(), decision=DecisionReport.model_validate(decision)),
    )
    yield "advisory", advisory()
    undecided = SITUATIONS["too-few-runs"]().report.changed(verdict="passed", gate="advisory", origin=None, exit_code=0)
    undecided.reasons = [Reason.of("advisory", because=Reason.of("budget", phrase="would-be", result="inconclusive"))]
    yield "advisory, and it can't tell", undecided
    yield "the same, read from a file", RunReport.model_validate_json(undecided.model_dump_json())
    outage_of_base = SITUATIONS["unchanged"]().report.changed(verdict="inconclusive", decision=None)
    outage_of_base.reasons = [Reason(code="no-baseline", message="Not compared", data={"because": {"code": "budget"}})]
    yield "a limit of the base's run, read from a file", RunReport.model_validate_json(outage_of_base.model_dump_json())
    silent = ended_by("agent-no-answer", "agent-no-answer")
    yield "no longer an answer", pull_request("failed", silent, [good("x"), good("y")])
    # Where another case had decided, nothing was run again: one failure of one run is no regression.
    head = but(wrong_room(), crash())
    once = pull_request("failed", head, fine_cases(), decision=DecisionReport(outcome="failed", alpha=0.05))
    once.blocking = [item.case_id for item in head if item.eval_id == "garage_door"]
    yield "one that never ran again is suspected", once
    dependabot = SITUATIONS["fork-without-key"]().report
    dependabot.reasons = [Reason.of("no-secrets", is_fork=False)]
    yield "dependabot", dependabot
    of_suite = SITUATIONS["regression"]().report
    assert of_suite.decision is not None
    of_suite.decision.reasons = [DecisionReasonReport(code="suite-worse", message="x")]
    yield "a suspected one has its share in what blocks", of_suite
    limits: tuple[NoMoreRuns, ...] = ("time", "cost")
    for limit in limits:
        late = SITUATIONS["too-few-runs"]().report
        assert late.decision is not None
        late.decision.cases[0].lacks, late.decision.extra_runs = limit, limit == "cost"
        yield f"the {limit} limit ended its extra runs", late
    beside = SITUATIONS["too-few-runs"]().report
    assert beside.decision is not None
    beside.decision.reasons = [DecisionReasonReport(code="budget", case_ids=[beside.decision.cases[0].case_id])]
    informs = {"case_id": beside.cases[0].case_id, "lacks": "limit"}
    beside.decision.cases.append(beside.decision.cases[0].model_copy(update=informs))
    yield "a suspected one that only informs is beside it", beside
    late = SITUATIONS["too-few-runs"]().report
    assert late.decision is not None
    late.decision.cases[0].lacks = None
    late.reasons = [Reason.of("facts-open", phrase="facts-not-run", cases=["lamp"])]
    over = RunError(kind="run-timeout", owner="gate", message="The run took longer than run-timeout (60 s)")
    late.confirmations = [case("good_morning", "errored", errors={0: over})]
    yield "the time limit ended the extra runs for changed facts", late
    for why in (
        None,
        Reason.of("no-access", subject="GitLab"),
        Reason.of("no-access", subject="a forge of tomorrow"),
        *map(Reason.of, ("unreachable", "short-history", "a code of tomorrow")),
        Reason(code="no-access", data={"subject": 7, "base": "another name"}),
    ):
        unread = SITUATIONS["no-baseline"]().report
        assert unread.baseline is not None
        unread.baseline.reason = why
        yield f"nothing to compare with: {why and (why.code, why.data)}", unread
    older = Reason.of("other-version", wanted="1.10.0", got="1.9.0")
    for why in (None, Reason.of("other-scoring", wanted="1.0.0", got="v" * 80), older, Reason.of("other-judge")):
        unread = SITUATIONS["incompatible"]().report
        assert unread.baseline is not None
        unread.baseline.reason = why
        yield f"nothing comparable: {why and why.code}", unread
    recorded = SITUATIONS["too-few-runs"]().report
    recorded.reasons[0].code = "recorded-answers"
    yield "recorded answers", recorded
    cases = fine_cases()
    cases[0].fingerprint = cases[1].fingerprint = "asks something else"
    yield "edited cases are not those of main", pull_request("passed", cases, fine_cases())
    nothing = Reason(code="nothing-scored", message="Nothing was evaluated: none of 8 cases was scored")
    yield "nothing scored", pull_request("inconclusive", fine_cases(), fine_cases(), reasons=[nothing])
    # Something else than the comparison fails the run, e.g. an error of the agent.
    suspected = SITUATIONS["tool-broken"]().report
    assert suspected.decision is not None
    suspected.decision.outcome = "inconclusive"
    yield "suspected ones are not counted as regressions", suspected
    base = fine_cases()
    base[3].status = "errored"
    yield "nothing to compare a failing case with", pull_request("failed", but(wrong_room()), base)
    accepted = pull_request("failed", but(wrong_room()), fine_cases())
    accepted.rule_changes = SITUATIONS["loosened"]().report.rule_changes
    yield "a case fails by looser rules that are accepted, too", accepted


def with_reasons() -> Iterator[tuple[str, RunReport]]:
    """Runs whose reasons neither headline nor table say, and others."""
    reasons = [
        Reason(code="failed", message="1 of 1 case"),
        Reason(code="case-worse", message="1 case is worse: " + "a long list " * 40),
        Reason(code="x", message="min-pass-rate is 0.9"),
    ]
    yield "only one reason is not said", report("failed", [wrong_room(), crash()], reasons=reasons)
    unscored = report("inconclusive", [good("x")], reasons=[Reason(code="nothing-scored", message="No score")])
    yield "the reason is the headline", unscored
    yield "the headline says why it is green", unscored.changed(exit_code=0)
    lost = Reason(code="provider-unavailable", message="1 case failed, and the base branch's runs have no result")
    yield (
        "green, and a failing case can't be compared",
        report("inconclusive", [wrong_room(), good("x")], reasons=[lost]).changed(exit_code=0),
    )
    no_key = ProblemReport(
        severity="error", code="judge-credentials-missing", message="There is no key", file="test_config.json", line=1
    )
    yield "no key for a judge", report("invalid", [], problems=[no_key])
    yield "no key, and a mistake", report("invalid", [], problems=[no_key, no_key.changed(code="bad-json", line=7)])


def answered(*runs: str | None, expected: str, name: str = "x") -> CaseReport:
    """A case whose failed runs gave these answers; None: one of a failed run that is not known."""
    texts = {
        n: [TurnEvidence(turn=0, expected=expected, actual=text)] for n, text in enumerate(runs) if text is not None
    }
    return case(name, "failed", metric(RESPONSE, *[0.0] * len(runs), threshold=0.8, evidence=texts), runs=len(runs))


def test_next__the_answer_of_all_failing_cases_is_said_only_where_every_failed_run_gave_it() -> None:
    sorry = [answered("Sorry", expected=text, name=text) for text in ("a", "b")]
    again = answered("Hello", expected="c", name="c")
    passes_once = answered("Sorry", "", expected="c", name="c")
    passes_once.runs[1].status = passes_once.metrics[0].runs[1].status = "passed"
    passes_once.metrics[0].runs[1].evidence = []
    last = answered("Sorry", expected="c", name="c")
    situations: Mapping[str, tuple[list[CaseReport], list[CaseReport], bool]] = {
        "one failed run of each": ([*sorry, last], [], True),
        "all failed runs say it": ([*sorry, answered("Sorry", "Sorry", expected="c")], [], True),
        "a run passes": ([*sorry, passes_once], [], True),
        "another failed run says something else": ([*sorry, answered("Sorry", "Hello", expected="c")], [], False),
        "the answer of another failed run is not known": ([*sorry, answered("Sorry", None, expected="c")], [], False),
        "an extra run says something else": ([*sorry, last], [again], False),
        "blank answers": ([answered(" \n", expected=text, name=text) for text in "abc"], [], False),
        "no answers": ([answered("", expected=text, name=text) for text in "abc"], [], False),
        "the same is expected of all": ([answered("Yes", expected="no", name=text) for text in "abc"], [], False),
        "two cases": (sorry, [], False),
    }
    for name, (cases, extra, is_said) in situations.items():
        steps = view_of(report("failed", cases).changed(confirmations=extra)).outcome.next
        assert bool(steps[0].data.get("got")) == is_said, name
        # What all cases are answered with, whatever they expect, is no new expectation; any other answer may be one.
        assert [step.code for step in steps] == ["look-at-case", "fix-agent" if is_said else "accept-answers"], name


def test_headline__and_next_step_of_every_situation() -> None:
    """With the reasons that the headline leaves out."""
    lines = []
    for name, made in (*one_run(), *not_evaluated(), *compared(), *with_reasons()):
        view = view_of(made)
        lines += [f"{name}: {headline_status(made)}: {headline(view)}\n", f"    {next_text(next_step(view))}\n"]
        lines += [f"    also: {reason}\n" for reason in other_reasons(view)]
    check("golden_headlines.txt", "".join(lines))


# What a pull request changes in the agent, in words.


def change(code: Any, **values: Any) -> AgentChange:
    return AgentChange(code=code, path="home", agent=values.pop("agent", "home_automation"), **values)


def with_changes(*changes: AgentChange, tools: int = 5, sub_agents: int = 0) -> RunReport:
    agents = [AgentFacts(name="home_automation", tools=[ToolFacts(name=f"tool_{number}") for number in range(tools)])]
    agents += [AgentFacts(name=f"helper_{number}") for number in range(sub_agents)]
    made = report_samples.report("failed", [])
    made.agents, made.agent_changes = [AgentTree(agent="home", agents=agents)], list(changes)
    return made


def test_agent_change__each_code_with_and_without_values() -> None:
    """UPDATE_GOLDEN=1 writes them, and what is said of several and of what stays."""
    values = {"agent": "planner", "tool": "find", "base": "a", "head": "b"}
    facts: Sequence[dict[str, Any]] = (
        values,
        {**values, "base": ""},
        {**values, "base": "b"},
        dict.fromkeys(values, "x" * 5_000),
        *({"added": added, "removed": removed} for added, removed in ((0, 0), (1, 0), (0, 2), (3, 1))),
    )
    lines = [f"{code}: {agent_change(change(code, **each))}" for code in get_args(AgentChangeCode) for each in facts]
    source, model = change("tool-source", tool="tool_1"), change("model", base="a", head="b")
    added, told = change("agent-added", agent="planner"), change("instruction", added=1)
    for changed in ([], [source], [model], [model, source], [model, added], [model, told]):
        for tools, helpers, most in ((5, 0, 3), (0, 0, 3), (5, 1, 1)):
            made = with_changes(*changed, tools=tools, sub_agents=helpers)
            said, same = agent_changes(made, most=most), agent_unchanged(made, "main")
            codes = ", ".join(each.code for each in changed)
            lines.append(
                f"{codes} with {tools} tools and {helpers} sub-agents: {said or 'nothing'} | {same or 'nothing'}"
            )
    put_into_words(made)
    lines += [f"message: {each.message}" for each in made.agent_changes]
    check("golden_agent_changes.txt", "\n".join(dict.fromkeys(lines)) + "\n")


# Causes in words: a sentence with values, a title without, the counter-evidence, the place.


VALUES: Mapping[str, Any] = {
    "agent": "root",
    "tool": "find",
    "names": ["room"],
    "actual": '"Bad"',
    "expected": '"bath"',
    "exception": "KeyError",
    "place": Place(file="home/tools.py", first=33, symbol="_thermostat"),
    "seconds": 4.0,
    "metric": "tone",
    "rubric": "polite",
    "gone": ["lamp"],
    "new": ["fan"],
}
FACTS: Mapping[str, Mapping[str, Any]] = {
    "all": VALUES,
    "only what every cause has": {name: VALUES[name] for name in ("tool", "exception", "metric")},
    "an empty value": {**VALUES, "actual": "null", "tool": ""},
    "several names": {**VALUES, "names": ["room", "place"]},
    "another name": {**VALUES, "renamed": True},
    "a new name": {**VALUES, "renamed": True, "gone": []},
    "no name": {**VALUES, "renamed": True, "new": [], "expected": None},
}


def a_cause(code: CauseCode, *, compared: bool = True, places: Sequence[Place] = (), **data: Any) -> CauseReport:
    made = cause(code, [good("one"), good("two")], list(places), call=0, failing=12, **data)
    return made if compared else made.model_copy(update={"base": None})


def test_causes__each_code_with_and_without_a_base() -> None:
    """UPDATE_GOLDEN=1 writes them."""
    lines = []
    for code, (name, facts), compared in itertools.product(get_args(CauseCode), FACTS.items(), (True, False)):
        made = a_cause(code, compared=compared, **facts)
        assert compared or "main" not in cause_sentence(made, "main"), (code, name)
        lines.append(f"{code}: {cause_sentence(made, 'main')} | {cause_line(made)}")
    path = f"[Errno 2] No such file or directory: '/home/runner/{'work/' * 30}data/policy.txt'"
    lost = a_cause("exception", exception="FileNotFoundError", actual=f"FileNotFoundError: {path}")
    lines.append(f"a long path: {cause_sentence(lost, 'main')}")
    places = (Place(file="home/tools.py", first=43, last=47, symbol="find"), Place(file="data.json"))
    find, heat = a_cause("tool-empty", tool="find", places=places), a_cause("tool-error", compared=False, tool="heat")
    lines += [f"evidence: {cause_evidence(each, 'main')}. {changed_here(each)}" for each in (find, heat)]
    lines += [f"title: {cause_title(each)}" for each in ([], [find], [find, heat], [find, heat, find])]
    check("golden_causes.txt", "\n".join(dict.fromkeys(lines)) + "\n")


@pytest.mark.parametrize("code", get_args(CauseCode))
def test_cause_sentence__untrusted_text_stays_in_a_line_and_short(code: CauseCode) -> None:
    text = "x\n\x1b[31m\u202e" + "y" * 1_000_000
    for facts in FACTS.values():
        forged: dict[str, Any] = {name: text if isinstance(value, str) else value for name, value in facts.items()}
        made = a_cause(code, **forged)
        for said in (cause_sentence(made, "main"), cause_line(made)):
            assert len(said) < 400
            assert said.isprintable()


# What a report says about changed rules.


def loosened(**changes: object) -> RunReport:
    """A run for which the stricter rules of the base branch decided, and no case fails by them."""
    report = SITUATIONS["loosened"]().report
    assert report.rule_changes is not None
    change = report.rule_changes.changes[0].model_copy(update={"fails": 0})
    update = {"decides": "base", "accepted": "", "only_here": [], "changes": [change], **changes}
    return report.changed(rule_changes=report.rule_changes.model_copy(update=update), origin=None)


def a_rule(kind: Any, fails: int | None) -> RuleChange:
    return RuleChange(kind=kind, metric="m", config=None, cases=9, base="0.9", head="0.8", fails=fails)


def ruled() -> Iterator[tuple[str, RunReport]]:
    """Runs of changed rules. Only some have something to accept, and say so where that changes the result."""
    renamed, new = {"evals/a.test.json:new": "evals/a.test.json:old"}, ["evals/a.test.json:one"]
    by_label = {"decides": "head", "accepted": "octocat set the label"}
    several: Sequence[dict[str, object]] = (
        {},
        {"only_here": new},
        {"changes": [a_rule("code", None)]},
        {"renamed": renamed},
        {"replaced": 6},
        {"removal": "blocked"},
        {**by_label, "only_here": new},
        {"changes": [], "tapes": 1},
        {**by_label, "changes": [], "tapes": 1},
        {"changes": [], "removal": "blocked"},
        {"changes": [], "renamed": renamed, "removal": "blocked"},
    )
    for changes in several:
        name = ", ".join(changes)
        yield f"passed: {name}", loosened(**changes)
        yield f"passed, advisory: {name}", loosened(**changes).changed(gate="advisory")
        for verdict in ("failed", "inconclusive"):
            yield f"{verdict}: {name}", loosened(**changes).changed(verdict=verdict)
        pulled = loosened(**changes).changed(verdict="failed", origin=Origin(pull_request=7))
        yield f"failed, of a pull request: {name}", pulled
    kinds = itertools.product(("code", "threshold"), (None, 0, 1, 2), ("base", "head"))
    for kind, fails, decides in kinds:
        yield f"{kind} decided by {decides}", loosened(changes=[a_rule(kind, fails)], decides=decides)


def test_rules__what_is_said_of_their_changes() -> None:
    """UPDATE_GOLDEN=1 writes it."""
    lines = []
    for name, made in ruled():
        lines.append(f"{name}\n")
        lines += [f"    {sentence}\n" for sentence in rule_sentences(made)]
        lines += [f"    row: {row.effect}\n" for row in rule_rows(made)]
    check("golden_rule_changes.txt", "".join(lines))


def test_rule_sentences__long_ids_are_shortened() -> None:
    report = loosened(renamed={f"evals/{'x' * 5_000}:{n}": f"evals/{'y' * 5_000}:{n}" for n in range(9)})
    [sentence] = rule_sentences(report)
    assert len(sentence) < 1_800
    assert "and 6 more cases" in sentence


def test_outcome__every_code_of_headlines_and_steps_is_emitted_and_says_what_the_texts_say() -> None:
    """The whole headline is the message of its code; each step has a sentence of its own."""
    source = "".join(path.read_text("utf-8") for path in sorted(SOURCE.glob("*/*/outcome/*.py")))
    assert [code for code in sorted(HEADLINES | STEPS) if f'"{code}"' not in source] == []
    for _, made in (*one_run(), *not_evaluated(), *compared(), *with_reasons()):
        view = view_of(made)
        outcome = RunOutcome.model_validate_json(outcome_in_words(view).model_dump_json())
        assert outcome.headline.message == headline(view)
        steps = re.sub(
            r"(?<=\. )(meanwhile, )?for [\w ]+: ", "", next_text(next_step(view)).lower()
        )  # Who does another step.
        assert ". ".join(step.message for step in outcome.next).lower() == steps
        assert sum(outcome.standings.values()) == len(made.cases)


def test_phrases__a_proposed_change_is_a_merge_request_on_gitlab() -> None:
    said = []
    for url in ("https://github.example/o/r/actions/runs/1", "https://gitlab.example/g/p/-/pipelines/1"):
        loosened = SITUATIONS["loosened"]().report
        assert loosened.origin is not None
        loosened.origin.run_url = url
        table = re.findall(r"What this .* changes about the gate", comment_markdown(loosened))
        assert loosened.decision is not None
        loosened.decision.suites = [SuiteTestReport(metric="pass", cases=12, drop=0.1, p_value=0.02)]
        tests = suite_lines(view_of(loosened))
        said.append("\n".join([headline(view_of(loosened)), *rule_sentences(loosened), *table, *tests]))
    here, there = said
    assert here.count("pull request") == 4 and there == here.replace("pull request", "merge request"), here
