"""All media say the same of a run and of its cases, whatever crosses.

What crosses: what a case did, the base branch, the gate's mode, the policy, a replay, other cases, how a run ends.

Each cell is decided by the gate's own code (`gate_play`), so no report is one that a run can't make. What a medium says
is read from what it writes, not from the code that writes it: a new medium is one function with a row in `MEDIA`.
Known disagreements are in `KNOWN`: what each side says, and where. A row that no longer happens has to go.
"""

from __future__ import annotations

import functools
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from crossing_table import Cell, Impossible, Row, Table
from gate_play import STEADY, TEN, Played, Story, by_score, play, report_of
from history_samples import FILE, case, replayed, report
from policy_texts import entry, quarantine

from agent_eval.api import CaseResult, EngineOutcome, EvalResult
from agent_eval.gate.verdict import unfinished
from agent_eval.pipeline.shards._part import part_verdict
from agent_eval.pytest_plugin._outcomes import outcome_in, session_fails, write_summary
from agent_eval_results import SHARD_MISSING, WITHOUT_KEY, CaseReport, MergeReport, Origin, RunError, RunReport
from agent_eval_results.data.comparison import BaselineReport
from agent_eval_results.data.report import Reason, SelectionReport, ShardReport, TargetReport
from agent_eval_results.report.html import PageSource
from agent_eval_results.report.html._case import PageCase
from agent_eval_results.report.html._index import Index
from agent_eval_results.report.html._source import Facts, plans
from agent_eval_results.report.renderers import (
    annotation_commands,
    comment_markdown,
    console,
    junit_xml,
    summary_markdown,
)
from agent_eval_results.report.renderers.outputs import output_values
from agent_eval_results.report.renderers.results_json import results_json

CASE, OTHER = "lamp_off", "door_shut"
"""The case that a cell is about, and the one beside it. Nine others pass."""


def subject(base: Any, head: Any, more: Any = "1", **others: Any) -> Story:
    """The case among the others, with as many runs on the base branch."""
    there = {name: "1" * len(base) for name in STEADY}
    known = {CASE: base} if base else {}
    return Story(base={**there, **known}, head={**dict.fromkeys(STEADY, "1"), CASE: head}, more={CASE: more}, **others)


def odd(head: CaseReport, base: str = TEN, more: Any = "0") -> Story:
    """The same with a case of the head that is more than a value."""
    there = {**dict.fromkeys(STEADY, TEN), **({CASE: base} if base else {})}
    return Story(base=there, head=dict.fromkeys(STEADY, "1"), heads=[head], more={CASE: more})


def fallen() -> Story:
    """Its score falls, and still passes."""
    scores = dict.fromkeys([*STEADY, CASE], [1.0] * 10)
    head = {**dict.fromkeys(STEADY, 1.0), CASE: 0.6}
    again = {name: [score] for name, score in head.items()}
    return Story(base=scores, head=head, more=again, make=by_score, policy=entry("max-drop = 0.1"))


def without_key() -> CaseReport:
    silent = case(CASE, "-")
    silent.reason = Reason(code=WITHOUT_KEY, message="no key")
    silent.runs[0].error = RunError(kind=WITHOUT_KEY, owner="gate", message="no key")
    return silent


def unanswered() -> CaseReport:
    silent = case(CASE, "x")
    silent.runs[0].error = RunError(kind="agent-no-answer", owner="agent", message="no answer")
    return silent


LIVE: Mapping[str, Callable[[], Story]] = {
    "passes": lambda: subject(TEN, "1"),
    "always fails": lambda: subject(TEN, "0", "0"),
    "sometimes fails": lambda: subject(TEN, "0", "0100100100"),
    "suspected": lambda: subject("1", "0", "01"),
    "suspected, undecided": lambda: subject(TEN, "0", "0", extra_runs=0),
    "fails as before": lambda: subject("0" * 10, "0", "0"),
    "flaky": lambda: subject("1101011011", "0", "0110101101"),
    "fails at first": lambda: subject(TEN, "0", "1"),
    "new": lambda: odd(case(CASE, "0"), base=""),
    "changed": lambda: odd(case(CASE, "0", fingerprint="another question")),
    "another metric": lambda: odd(case(CASE, "0", metric="another_score", measures="m2")),
    "fixed": lambda: subject("0" * 20, "1"),
    "scores less": fallen,
    "not evaluated": lambda: subject(TEN, "p", "p"),
    "no score": lambda: subject(TEN, "?", "?"),
    "not run": lambda: subject(TEN, "-", "-"),
    "without a key": lambda: odd(without_key()),
    "breaks": lambda: subject(TEN, "x", "x", base_more={}),
    "breaks once": lambda: subject(TEN, "x"),
    "breaks as before": lambda: subject("1111x11x11", "x", "11x1111"),
    "can't start": lambda: subject(TEN, "i", "i"),
    "no answer": lambda: odd(unanswered(), more="x"),
}

REPLAYED: Mapping[str, Callable[[], Story]] = {
    "passes": lambda: odd(replayed(case(CASE, "1"))),
    "always fails": lambda: odd(replayed(case(CASE, "0"))),
    "fails as before": lambda: odd(replayed(case(CASE, "0"), "failed"), base="0" * 10),
    "new": lambda: odd(replayed(case(CASE, "0")), base=""),
    "scores less": lambda: replace(
        odd(replayed(case(CASE, scores=[0.6]), response_match_score=0.9)), policy=entry("max-drop = 0.1")
    ),
    "no score": lambda: odd(replayed(case(CASE, "?"))),
    "breaks": lambda: odd(replayed(case(CASE, "x"))),
}
BESIDE = {"passing cases": "", "a regression": "0", "an outage": "p"}
POLICIES = {
    "none": "",
    "only informs": f'[[policy]]\ncases = ":{CASE}"\nblocking = false\n',
    "nothing blocks": "[[policy]]\nblocking = false\n",
    "the metric informs": entry("blocking = false"),
    "quarantined": quarantine(f":{CASE}"),
}
BASES = ("compared", "none yet", "away", "no pull request")
ENDS = ("whole", "on-inconclusive: pass", "stopped", "a part", "without a part", "some cases")
ONLY_LIVE = tuple(name for name in LIVE if name not in REPLAYED)
COMPARED_ONLY = (
    *("sometimes fails", "suspected", "suspected, undecided", "fails as before", "flaky", "fails at first", "changed"),
    *("another metric", "fixed", "scores less", "breaks once", "breaks as before", "new"),
)

TABLE = Table(
    name="media",
    axes={
        "case": tuple(LIVE),
        "evidence": ("live", "replayed"),
        "base": BASES,
        "beside": tuple(BESIDE),
        "gate": ("auto", "thresholds", "regressions", "both", "advisory"),
        "policy": tuple(POLICIES),
        "run": ENDS,
    },
    rows=(Row(where={}, expect="all media agree"),),
    impossible=(
        Impossible(where={"evidence": "replayed", "case": ONLY_LIVE}, why="a tape answers the same each time"),
        Impossible(
            where={"base": BASES[1:], "case": COMPARED_ONLY},
            why="without the base branch's results, a case passes, fails, breaks or has no result",
        ),
        Impossible(where={"run": "stopped", "base": "compared"}, why="a stopped gate compares nothing"),
        *(
            Impossible(where={"run": "a part", **where}, why="a part compares nothing, has no policy and no gate")
            for where in (
                {"base": ("compared", "away", "no pull request")},
                {"policy": tuple(POLICIES)[1:]},
                {"gate": ("thresholds", "regressions", "both", "advisory")},
            )
        ),
    ),
)
"""A quarantine always has an end: after it, the run is invalid, or it is the base branch's and is left out."""


@functools.lru_cache(maxsize=64)
def played(case_: str, evidence: str, base: str, beside: str, gate: Any, policy: str, *, missing: bool) -> Played:
    """What the gate decides, before anything becomes of the run."""
    told = (REPLAYED if evidence == "replayed" else LIVE)[case_]()
    if value := BESIDE[beside]:
        again = [0.0] if told.make is by_score else value
        told = replace(told, heads=[*told.heads, case(OTHER, value)], more={**told.more, OTHER: again})
        told = replace(told, base={**told.base, OTHER: told.base["ok0"]})
    if missing:
        told = replace(told, heads=[*told.heads, of_missing_part()])
    told = replace(told, gate=gate, policy=POLICIES[policy] + told.policy)
    if base != "compared":
        away = Reason(code="provider-unavailable", message="503") if base == "away" else None
        told = replace(told, base={}, base_more=None, base_outage=away, pull_request=base != "no pull request")
    return play(told)


def of_missing_part() -> CaseReport:
    missing = case("of_part_2", "-")
    missing.runs[0].error = RunError(kind=SHARD_MISSING, owner="gate", message="its part left no results")
    return missing


def report_in(cell: Cell) -> RunReport:
    """The report of a run."""
    asked = [cell[axis] for axis in ("case", "evidence", "base", "beside", "gate", "policy")]
    decided = played(*asked, missing=cell["run"] == "without a part")
    verdict = decided.verdict
    facts: dict[str, Any] = {"on_inconclusive": "pass" if cell["run"] == "on-inconclusive: pass" else "fail"}
    if cell["base"] != "no pull request":
        facts["origin"] = Origin(repository="example/repo", commit="1" * 40, pull_request=7)
        if cell["run"] not in {"stopped", "a part"}:
            status = {"compared": "found", "none yet": "none-yet", "away": "fetch-failed"}[cell["base"]]
            facts["baseline"] = BaselineReport(status=status, branch="main", message="Where it is from.")
    match cell["run"]:
        case "stopped":
            stopped = Reason.of("not-compared", records=False)
            verdict = unfinished(verdict, stopped) if verdict.value != "inconclusive" else verdict
        case "without a part":
            facts["merged_from"] = MergeReport(total=2, missing=[2])
            verdict = unfinished(verdict, Reason.of(SHARD_MISSING, missing=[2], total=2))
        case "a part":
            facts["shard"] = ShardReport(index=1, total=2, plan="split")
            verdict = part_verdict(facts["shard"], report(*decided.cases))
        case "some cases":
            facts["selection"] = SelectionReport(targets=[TargetReport(path=FILE)])
    # Copies: a report writes into its cases what they are to its gate, and the next cell has the same ones.
    decided = replace(decided, verdict=verdict, cases=[each.model_copy() for each in decided.cases])
    return report_of(decided, **facts)


# What each medium says. A fact is of the run, or of one of the two cases. What a medium doesn't say is left out.

Fact = tuple[str, str]
"""Its name, and the case that it is about; "" for the run."""
Said = dict[Fact, Any]


def _counts(**values: Any) -> dict[Fact, Any]:
    return {(name.replace("_", " "), ""): value for name, value in values.items()}


def _red(report: RunReport, *, red: bool) -> dict[Fact, Any]:
    """Whether a run that ends with 0 shows an error nevertheless."""
    return _counts(shows_red=red) if report.exit_code == 0 else {}


def _next(report: RunReport, text: str) -> dict[Fact, Any]:
    """What to do next, and whether something is to be done about a run that does not end with 0."""
    text = re.sub(r"[`\\]", "", text)
    return _counts(next=text) | (_counts(is_fine=text.startswith("nothing")) if report.exit_code else {})


def _named(report: RunReport) -> dict[str, CaseReport]:
    """The two cases by their name."""
    return {case.eval_id: case for case in report.cases if case.eval_id in {CASE, OTHER}}


def by_results(report: RunReport) -> Said:
    read = json.loads(results_json(report))
    advises = read["gate"] == "advisory"  # `blocking` has those that would block.
    blocking = [] if advises else read["blocking"]
    said = _counts(
        verdict=read["verdict"],
        exit_code=read["exit_code"],
        failed=read["totals"]["failed"],
        not_evaluated=read["totals"]["errored"],
        blocking=len(blocking),
    )
    said |= _red(report, red=False) | (_counts(is_fine=False) if read["exit_code"] else {})
    for each in read["cases"]:
        if (name := each["eval_id"]) in {CASE, OTHER}:
            said["status", name] = each["status"]
            if (outcome := each.get("outcome")) is not None:
                assert outcome["blocks"] == (each["case_id"] in blocking)
                said["suspected", name] = outcome["standing"] == "suspected"
                if each["status"] != "not_run":
                    said["fails the run", name] = outcome["counts"]
    return said


def by_page(report: RunReport) -> Said:
    facts = Facts(PageSource(report=report))
    plan, index = plans("full")[0], Index(facts)
    for each in report.cases:
        index.add(PageCase(facts, each, plan.others), 0)
    data = index.data(plan, 1)
    head, cases = data["header"], data["cases"]
    said = _counts(
        verdict=head["verdict"],
        exit_code=head["exit_code"],
        failed=head["counts"]["failed"],
        not_evaluated=head["counts"]["errored"],
        blocking=head["counts"]["blocking"],
        suspected=head["counts"]["suspected"],
        regressions=sum("regression" in tags for tags in cases["tags"]),
    )
    said |= _next(report, "".join(piece["text"] for piece in head["next"]))
    for name, status, tags in zip(cases["eval_id"], cases["status"], cases["tags"], strict=True):
        if name in {CASE, OTHER}:
            said["status", name] = status
            said["suspected", name] = "suspected" in tags
            if status not in {"errored", "not_run"}:
                said["fails the run", name] = "blocking" in tags
    return said


def by_api(report: RunReport) -> Said:
    result = EvalResult(report=report)
    said = _counts(verdict=result.verdict, exit_code=result.exit_code)
    return said | {("status", name): CaseResult(report=case).status for name, case in _named(report).items()}


def by_outputs(report: RunReport) -> Said:
    values = output_values(report, {})
    said = _counts(verdict=values["verdict"], failed=int(values["failed"]), not_evaluated=int(values["errored"]))
    return said | (_counts(regressions=int(values["regressions"])) if values["regressions"] else {})


_WHY = (
    (r"suspected regression", "suspected"),
    (r"^flaky|^passed again|not clearly more often than on main", "flaky"),
    (r"failed on main too|as on main|fails? on main too", "fails as before"),
)


def _why(words: str) -> str:
    return next((why for pattern, why in _WHY if re.search(pattern, words)), "something else")


def by_junit(report: RunReport) -> Said:
    said: dict[Fact, Any] = {}
    root = ElementTree.fromstring(junit_xml(report).encode())
    for test in root.iter("testcase"):
        name, red = str(test.get("name")), [*test.iter("failure"), *test.iter("error")]
        if name in {CASE, OTHER}:
            skipped = test.find("skipped")
            message = str(skipped.get("message")) if skipped is not None else ""
            if skipped is None or message.startswith("Not blocking"):
                said["fails the run", name] = bool(red)
            if match := re.match(r"Not blocking \((.*?)\):", message):
                said["why it does not", name] = _why(match[1])
    return said | _red(report, red=int(root.get("failures", 0)) + int(root.get("errors", 0)) > 0)


def by_annotations(report: RunReport) -> Said:
    said: dict[Fact, Any] = {}
    commands = annotation_commands(report, limit=99)
    for command in commands:
        level, title = re.match(r"::(\w+) .*?title=(.*?)::", command).groups()  # type: ignore[union-attr]
        for name in _named(report):
            if re.search(rf"\b{name}\b", command):
                said["fails the run", name] = level == "error"
                said["suspected", name] = "suspected regression" in title
                if level == "warning" and title.startswith(name):
                    said["why it does not", name] = _why(title)
    return said | _red(report, red=any(command.startswith("::error") for command in commands))


def by_pytest(report: RunReport) -> Said:
    said: dict[Fact, Any] = {}
    engine = EngineOutcome(exit_code=report.exit_code or 0, report=report, console="", log="", output=Path())
    outcomes = {case.eval_id: outcome_in(engine, case.case_id) for case in report.cases}
    red = {name for name, made in outcomes.items() if made.kind in {"fail", "error"} and not made.expected_failure}
    for name in _named(report):
        if outcomes[name].kind != "skip":
            said["fails the run", name] = name in red
    reporter = Lines()
    write_summary(reporter, engine, "results", set())  # type: ignore[arg-type]
    verdict, code = re.search(r"^verdict: (\w+), exit code (\d)$", reporter.text, re.MULTILINE).groups()  # type: ignore[union-attr]
    said |= _counts(verdict=verdict, exit_code=int(code))
    said |= _red(report, red=bool(red) or session_fails(engine, set()))
    if match := re.search(r"^Next[^:]*: (.*)\.$", reporter.text, re.MULTILINE):
        said |= _next(report, match[1])
    return said


class Lines:
    """What takes the place of pytest's terminal."""

    def __init__(self) -> None:
        self.text = ""

    def section(self, title: str) -> None:
        self.text += f"{title}\n"

    def line(self, text: str, **_: Any) -> None:
        self.text += f"{text}\n"


def by_console(report: RunReport) -> Said:
    text = console(report, width=400)
    said: dict[Fact, Any] = {}
    for block in text.split("\n\n"):
        for name in _named(report):
            if re.match(rf"\S? +{name}  ", block) and re.search(r"suspected|always fails|sometimes fails|worse", block):
                said["suspected", name] = "suspected regression" in block
    if match := re.search(r"^ *Next[^:]*: (.*)\.$", text, re.MULTILINE):
        said |= _next(report, match[1])
    headline = text.rstrip().split("\n\n")[-1].split("\n")[0]
    return said | _of_headline(re.sub(r" \([^()]*\)\.$", "", headline))


_VERDICTS = (
    (
        r"Does not block, since `on-inconclusive`|.*exit 0 because `on-inconclusive`|Can't tell|Part 1 of 2",
        "inconclusive",
    ),
    (r"Does not block|Passed|.*exit 0 because `gate`|No regressions|Nothing was gated", "passed"),
    (r"Blocks the merge|Failed", "failed"),
)
_NUMBERS = {
    "regressions": (r"(\d+) regressions? vs\.", r"(no) regressions?\b"),
    "suspected": (r"(\d+) suspected regressions?", r"(is) a suspected regression", r"(\d+) are suspected regressions"),
    "not evaluated": (r"(\d+) (?:of \d+ cases )?could not be evaluated", r"provider failed in (\d+) of"),
}


def _of_headline(sentence: str) -> Said:
    verdict = next((value for pattern, value in _VERDICTS if re.match(pattern, sentence)), sentence)
    said = _counts(verdict=verdict)
    for name, patterns in _NUMBERS.items():
        # What does not block is a clause of its own.
        found = [match[1] for pattern in patterns for match in re.finditer(pattern, sentence)]
        if found:
            said[name, ""] = sum(
                {"no": 0, "is": 1}[number] if not number.isdigit() else int(number) for number in found
            )
    for name in (CASE, OTHER):
        if match := re.search(rf"{name} (fails on main too|is a suspected regression)", sentence):
            said["why it does not", name] = _why(match[1].replace("is a ", ""))
    return said


def _of_markdown(text: str, report: RunReport) -> Said:
    said: dict[Fact, Any] = {}
    for row in re.findall(r"^\| \S+&nbsp;.*$", text, re.MULTILINE):
        for name in _named(report):
            if f"`{name}`" in row:
                said["suspected", name] = "*suspected:*" in row
    if match := re.search(r"^\*\*Next[^:]*:\*\* (.*)\.$", text, re.MULTILINE):
        said |= _next(report, match[1])
    title = re.sub(r"\\(.)", r"\1", text.split("\n")[0])
    return said | _of_headline(title.split(" ", 2)[2])


MEDIA: Mapping[str, Callable[[RunReport], Said]] = {
    "results.json": by_results,
    "page": by_page,
    "API": by_api,
    "outputs": by_outputs,
    "JUnit": by_junit,
    "annotations": by_annotations,
    "pytest": by_pytest,
    "console": by_console,
    "summary": lambda report: _of_markdown(summary_markdown(report), report),
    "comment": lambda report: _of_markdown(comment_markdown(report), report),
}


def disagreements(report: RunReport) -> dict[Fact, dict[str, Any]]:
    """What is not said alike: by fact, what each medium says."""
    says: dict[Fact, dict[str, Any]] = defaultdict(dict)
    for medium, said in MEDIA.items():
        for fact, value in said(report).items():
            says[fact][medium] = value
    return {fact: _labelled(values) for fact, values in says.items() if len(set(values.values())) > 1}


def _labelled(values: Mapping[str, Any]) -> dict[str, Any]:
    """What each medium says; of numbers only which is the larger one."""
    if not all(type(value) is int for value in values.values()):
        return dict(values)
    order = sorted(set(values.values()))
    return {medium: ("fewer", "more", "most")[order.index(value)] for medium, value in values.items()}


PLAIN = dict(
    zip(TABLE.axes, ["always fails", "live", "compared", "passing cases", "regressions", "none", "whole"], strict=True)
)


@dataclass(frozen=True)
class Known:
    """What some media say of a fact otherwise than the others."""

    fact: str
    says: Mapping[str, Any]
    """By medium."""
    others: Any
    """What all other media say that say something."""
    where: Mapping[str, str]
    """The cells in which it may be so: some axes, each with values between bars."""
    seen: Mapping[str, str]
    """One of them, by what is not as in `PLAIN`."""
    why: str

    def explains(self, cell: Cell, fact: str, values: Mapping[str, Any]) -> bool:
        """Whether it is this disagreement."""
        return (
            fact == self.fact
            and all(cell[axis] in among.split("|") for axis, among in self.where.items())
            and all(value == self.says.get(medium, self.others) for medium, value in values.items())
        )


ADVISORY = {"gate": "advisory"}
EVERY = "if the gate did not decide by case, every failure counts (docs/results.md, junit.xml)"
FAILS, RED = "fails the run", "shows red"
KNOWN = (
    Known(FAILS, {"page": False}, True, {}, {"beside": "an outage", "policy": "only informs"}, EVERY),
    Known(
        RED,
        {"results.json": False},
        True,
        {"run": "a part"},
        {"base": "none yet", "gate": "auto", "run": "a part"},
        f"{EVERY}, and 0 does not judge a part",
    ),
    Known(
        "regressions",
        {"page": "more", "outputs": "more"},
        "fewer",
        {"case": "scores less|no answer|can't start"},
        {"case": "scores less", "gate": "thresholds"},
        "the headline says that there are none where one doesn't block, and counts apart what does not answer or start",
    ),
)


def unexplained(cells: Iterable[Cell]) -> Iterator[str]:
    for cell in cells:
        for (fact, name), values in disagreements(report_in(cell)).items():
            if not any(known.explains(cell, fact, values) for known in KNOWN):
                yield f"{' | '.join(cell.values())}: {fact} {name}: {values}"


CELLS = [parameters.values[0] for parameters in TABLE.cells_to_run()]


@pytest.mark.parametrize("case_", LIVE)
def test_media__agree_on_each_case_and_on_the_run(case_: str) -> None:
    assert "\n".join(unexplained(cell for cell in CELLS if cell["case"] == case_)) == ""


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: f"{known.fact}, {', '.join(known.says)}")
def test_media__known_disagreement_is_still_there(known: Known) -> None:
    cell = {**PLAIN, **known.seen}
    found = disagreements(report_in(cell))
    assert any(known.explains(cell, fact, values) for (fact, _), values in found.items()), found


@pytest.mark.parametrize("other", [{}, {"run": "on-inconclusive: pass"}, {"gate": "advisory"}])
def test_headline__counts_what_keeps_the_gate_open(other: Mapping[str, str]) -> None:
    cell = {**PLAIN, "case": "suspected, undecided", "beside": "a regression", "policy": "only informs", **other}
    made = report_in(cell)
    for text in (console(made, width=400), summary_markdown(made), comment_markdown(made)):
        assert re.search(r": 1 suspected regression .*door.?_shut.* Not blocking: 1 suspected regression ", text), text
