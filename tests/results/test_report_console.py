"""The console, and what people read of a run in each medium."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

import pytest
from comparison_samples import LAMPS, LINKS, SERVER, SITUATIONS, Situation, cause, home, lamp
from golden_files import check, check_names
from hypothesis import given
from hypothesis import strategies as st
from markdown_pages import nothing_of_theirs
from report_samples import (
    EVIL,
    RESPONSE,
    SAMPLES,
    TRAJECTORY,
    case,
    crash,
    ended_by,
    failed,
    good,
    metric,
    report,
    saying,
    turn_of,
)
from rich.cells import cell_len

from agent_eval_results.data.causes import CauseCode, Place
from agent_eval_results.data.conversation import ConversationReport, StepReport, TurnReport
from agent_eval_results.data.decision import PassRates
from agent_eval_results.data.report import (
    CaseReport,
    ModelUsageReport,
    ProblemReport,
    Reason,
    RunReport,
    ShardReport,
    TurnEvidence,
)
from agent_eval_results.report.phrases import next_step, next_text, pass_rates_notices, put_into_words, say
from agent_eval_results.report.renderers import annotation_commands, comment_markdown, summary_markdown
from agent_eval_results.report.renderers._console import console
from agent_eval_results.report.renderers.junit import junit_xml
from agent_eval_results.report.views import Links, usage_line, view_of
from agent_eval_results.report.views.examples import example_of
from agent_eval_scoring.core.content import FunctionCall
from agent_eval_scoring.core.recording import RunError
from agent_eval_scoring.criteria._differences import render_call
from agent_eval_scoring.criteria._explain import explain_trajectory

FILES = {"results": "out/results.json", "report": "out/report.html"}


def harmless(text: str) -> None:
    """Nothing in the text acts on a terminal or on GitHub's runner."""
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    for line in text.split("\n"):
        assert not re.match(r"::[a-z]", line.strip(), re.IGNORECASE), line
        assert "##[" not in line


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_console__keeps_its_width_and_does_nothing(name: str, width: int) -> None:
    text = console(SAMPLES[name](), width=width, files={"summary": "out/summary.md"})
    harmless(text)
    # A zero-width joiner makes rich and terminals disagree about an emoji; nothing else may stand out.
    assert max(cell_len(line) for line in text.splitlines() if "\u200d" not in line) <= width


def test_console__colour_only_when_asked_for() -> None:
    assert "\x1b[" not in console(failed())
    coloured = console(failed(), color=True)
    assert "\x1b[1;31m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured).split() == console(failed()).split()


@given(
    st.one_of(
        st.text(max_size=80),
        st.sampled_from([EVIL, "[bold]x[/bold]", "[/]", ":smile:", "x" * 300 + "::error::y", "a " * 60 + "::error::y"]),
    ),
    st.integers(40, 130),
)
def test_console__shows_any_text(value: str, width: int) -> None:
    run_report = saying(value, file=value or "x")
    text = console(run_report, width=width, files={"summary": value})
    harmless(text)
    assert "Failed: " in text and ("[bold]" in value) == ("[bold]" in text), "markup is not markup"
    harmless(console(run_report, width=width, files={"summary": value}, verbose=True))


def test_console__a_very_long_id_does_not_fill_the_text() -> None:
    cases = [case("x" * 5_000 + str(number), "failed", metric(TRAJECTORY, 0.1, threshold=0.8)) for number in range(40)]
    text = console(report("failed", cases), width=100)
    assert "…4,9" in text.replace("\n", "")
    assert len(text) < 60_000


@pytest.mark.parametrize(("event", "answer"), [("KeyError: 'garage'", ""), ("SAFETY: refused", " (SAFETY: refused)")])
def test_console__says_an_exception_once(event: str, answer: str) -> None:
    crashed = crash()
    step = StepReport(error=event)
    turn = TurnReport(turn=0, user="Open the garage.", expected_answer="It is open.", steps=[step])
    crashed.conversation = ConversationReport(run=0, turns=[turn])
    sides = [(side.expected, side.now) for side in example_of(crashed).sides]
    assert sides == [("It is open.", f"(no answer){answer}"), ("", "KeyError: 'garage'")]


@pytest.mark.parametrize(
    ("expected", "got", "said"),
    [
        ({"n": "3"}, {"n": 3}, 'get(n): expected "3", got 3 (expected text, not a number)'),
        ({"n": True}, {"n": "true"}, 'get(n): expected true, got "true" (expected a boolean, not text)'),
        ({"n": None}, {"n": "null"}, 'get(n): expected null, got "null" (expected null, not text)'),
        ({"n": "Rome"}, {"n": "rome"}, 'get(n): expected "Rome", got "rome" (only upper and lower case differ)'),
        ({"n": 3}, {"n": 4}, None),
        ({"n": "3"}, {"n": [3]}, None),
    ],
)
def test_console__says_in_what_calls_of_one_look_differ(expected: Any, got: Any, said: str | None) -> None:
    wanted, made = FunctionCall(name="get", args=expected), FunctionCall(name="get", args=got)
    evidence = TurnEvidence(turn=0, score=0.0, user="Hi", why=list(explain_trajectory([wanted], [made])))
    failing = case("a", "failed", metric(TRAJECTORY, 0.0, threshold=1.0, evidence={0: [evidence]}))
    step = StepReport(call=render_call(made))
    turn = TurnReport(turn=0, user="Hi", expected_calls=[render_call(wanted)], steps=[step])
    failing.conversation = ConversationReport(run=0, turns=[turn])
    put_into_words(report("failed", [failing]))
    again = CaseReport.model_validate_json(failing.model_dump_json())  # as from a file
    remarks = example_of(failing).remarks
    assert remarks == example_of(again).remarks
    assert remarks == (() if said is None else (said,))


def passing(cases: int, files: int) -> RunReport:
    return report(
        "passed", [good(f"case_{n}", file=f"evals/number_{n % files}.test.json", line=n + 1) for n in range(cases)]
    )


def of_few_runs() -> Iterator[tuple[str, str]]:
    """What the console shows of things that few runs have."""
    hint = 'Write into agent-eval.toml:\n    [agents]\n    "evals/**" = "a"\n::error::mine'
    problem = ProblemReport(severity="error", code="agent-ambiguous", message="Two agents.", hint=hint)
    yield "a hint to copy keeps its lines", console(report("invalid", [], problems=[problem]), width=100)
    stopped = SAMPLES["inconclusive"]()
    stopped.notices = [say("journal-kept", file="journal.jsonl")]
    # Not a command: the report does not know all settings of its run.
    yield "a run that can be resumed", console(stopped, width=120)
    part = report("inconclusive", [case("x", "passed", metric(TRAJECTORY, 1.0, threshold=0.8))])
    part.shard = ShardReport(index=1, total=2, plan="p", cases=["x"], suite_cases=2, weights_from="turns")
    part.reasons = [Reason.of("part", part=1, total=2, runs=1, count=0)]
    yield f"a complete part: {next_text(next_step(view_of(part)))}", console(part, width=120)
    odd = report("failed", [case("x\x1b[2J; rm -rf", "failed", metric(TRAJECTORY, 0.1, threshold=0.8))])
    yield "the command names no id that a terminal would change", console(odd, width=200)
    steps = [StepReport(call="open_door()", responses=['{"error": "jammed"}'])]
    turn = TurnReport(turn=0, user="Open it.", steps=steps, answer="No.", expected_answer="It is open.")
    low = metric(RESPONSE, 0.1, threshold=0.8, evidence={0: [turn_of("", "", "", "1 of 3 words", score=0.1)]})
    door = case("door", "failed", metric(TRAJECTORY, 1.0, threshold=1.0), low)
    door.conversation = ConversationReport(run=0, turns=[turn])
    yield "an error of a tool is marked, also of an expected call", console(report("failed", [door]), width=100)
    for wanted in ("find()", "find(room='hall')"):
        steps = [StepReport(call="find()"), StepReport(call="switch()")]
        turn = TurnReport(turn=0, user="On.", steps=steps, answer="Ok.", expected_calls=[wanted])
        more = case("more", "failed", metric(TRAJECTORY, 0.0, threshold=1.0))
        more.conversation = ConversationReport(run=0, turns=[turn])
        yield f"a call too many, where {wanted} was expected", console(report("failed", [more]), width=100)
    yield "nobody is there to accept", console(failed(), attended=False)
    page = "a_rather_long_directory/" * 4 + "report.html"
    yield "a path is on one line", console(SITUATIONS["regression"]().report, width=60, files={"report": page})
    missing = SITUATIONS["import-error"]().report
    missing.causes = [cause("exception", missing.cases, [], call=0, failing=22, exception="ImportError")]
    yield "an agent that can't be imported is said once, without a cause", console(missing, width=120)
    unpriced = SITUATIONS["fine"]().report
    unpriced.model_usage = [ModelUsageReport(model="mine", calls=12)]
    yield "an unknown price is no line", console(unpriced)
    for cases, files in ((1, 1), (200, 31), (1_000, 1_000)):  # It takes few lines.
        yield f"{cases} cases of {files} files pass", console(passing(cases, files), width=80, files=FILES)
    # A metric of DeepEval writes the calls as indented JSON, and at the end which were expected.
    call = '[ToolCall(\n    name="weather",\n    input_parameters={\n        "city": "Paris, the capital"\n    }\n)]'
    why = (
        f"ToolCorrectnessMetric: 0.0: [\n\t Incomplete tool usage: missing tools {call}; expected ['weather'], "
        "called ['clock'].\n\t Tool Selection Reason: No available tools were provided to assess tool selection "
        "criteria. An agent that has none at all can't choose one that is wrong, so that this part is always 1.\n]\n"
    )
    evidence = TurnEvidence(turn=0, score=0.0, user="How warm?", why=[why])
    asked = case("asks", "failed", metric("tools_right", 0.0, threshold=0.5, evidence={0: [evidence]}))
    said = TurnReport(turn=0, user="How warm?", answer="Noon.", steps=[StepReport(call="clock()")])
    asked.conversation = ConversationReport(run=0, turns=[said])
    for medium in (console, comment_markdown, summary_markdown):
        yield f"a reason of several lines: {medium.__name__}", medium(report("failed", [asked]))
    alone, slow = (report("failed", ended_by(*[kind] * 2)) for kind in ("agent-no-answer", "deadline"))
    yield "what did not answer does not crash elsewhere", console(alone)
    yield "timed out", "\n".join([console(slow), *annotation_commands(slow)])
    hint = "The package index could not be reached: run the job again, or check UV_DEFAULT_INDEX and the proxies."
    error = RunError(kind="agent-environment", owner="provider", message="uv ended with exit code 2", hint=hint)
    for medium in (console, comment_markdown, summary_markdown):
        text = medium(report("inconclusive", [case("x", "errored", errors={0: error})]))
        yield f"an installation that a server ended: {medium.__name__}", text
    yield "verbose, without a comparison", console(passing(3, 1), verbose=True)
    yield "verbose, with extra runs", console(SITUATIONS["flaky"]().report, width=200, verbose=True)
    costly = SITUATIONS["mixed"]().report
    costly.model_usage = [ModelUsageReport(model="gemini-2.5-flash", calls=12, cost=0.1)]
    costly.pass_rates = [PassRates(k=1, cases=8, any=0.9, all=0.9), PassRates(k=3, cases=8, any=1.0, all=0.7)]
    costly.notices = [*pass_rates_notices(costly.pass_rates), usage_line(costly.model_usage[0]), "20 tapes"]
    for verbose in (False, True):
        yield f"all numbers, notices and paths: {verbose}", console(costly, files=FILES, verbose=verbose, width=140)
    hint = summary_markdown(report("invalid", [], problems=[problem]))
    yield "a hint to copy keeps its lines in the summary", hint


def test_console__of_few_runs() -> None:
    """UPDATE_GOLDEN=1 writes it."""
    check("golden_consoles.txt", "".join(f"# {name}\n{text}\n" for name, text in of_few_runs()))


@pytest.mark.parametrize("code", get_args(CauseCode))
@pytest.mark.parametrize("value", [EVIL, "x" * 50_000, "", "[bold]x[/bold]", "\n::error::y"])
def test_console__a_cause_of_any_text_does_nothing(code: CauseCode, value: str) -> None:
    run_report = SITUATIONS["one-cause"]().report
    place = Place(file=value, first=1, symbol=value)
    data = {"tool": value, "actual": value, "expected": value, "exception": value, "metric": value, "rubric": value}
    cases = run_report.cases[:9]
    run_report.causes = [
        cause(code, cases, [place], call=0, failing=9, **data, names=[value], gone=[value], new=[value], place=place)
    ]
    for change in run_report.agent_changes:
        change.tool, change.agent, change.places = value, value, [place]
    for width in (40, 100):
        text = console(run_report, width=width)
        harmless(text)
        assert len(text) < 20_000
    nothing_of_theirs(comment_markdown(run_report, links=LINKS), f"{SERVER}/example/repo/", second_parser=False)
    for line in annotation_commands(run_report):
        assert "\n" not in line and "##[" not in line


# What people read of a run, in each medium. `UPDATE_GOLDEN=1 pytest tests/results/test_report_console.py` writes it.


GOLDEN_FILES = {"summary": "agent-eval-results/summary.md", "results": "agent-eval-results/results.json"}
SOURCE = "https://github.com/example/repo/blob/5f0c1d2"

OF_RUNS: Mapping[str, Callable[[RunReport], str]] = {
    "console-80.txt": lambda report: console(report, width=80, files=GOLDEN_FILES),
    "console-120.txt": lambda report: console(report, width=120, files=GOLDEN_FILES),
    "summary.md": lambda report: summary_markdown(report, links=Links(source_url=SOURCE), files=GOLDEN_FILES),
    "junit.xml": junit_xml,
    "annotations.txt": lambda report: "".join(f"{line}\n" for line in annotation_commands(report)),
}
OF_PULL_REQUESTS: Mapping[str, Callable[[Situation], str]] = {
    "comment.md": lambda sample: comment_markdown(sample.report, links=sample.links, warnings=sample.warnings),
    "summary.md": lambda sample: summary_markdown(
        sample.report, links=sample.links, warnings=sample.warnings, limit=150_000
    ),
    "annotations.txt": lambda sample: OF_RUNS["annotations.txt"](sample.report),
    "console.txt": lambda sample: console(sample.report, width=110),
}
IN_ALL_MEDIA = {"flaky", "import-error", "loosened", "mixed", "no-baseline", "replayed-in-part", "two-causes"}
"""Of the other situations, only the comment is kept."""
GOLDEN: list[tuple[str, str, str]] = [
    *(("golden", name, text) for name in SAMPLES for text in OF_RUNS if (name, text) != ("many", "junit.xml")),
    *(
        ("golden_comment", name, text)
        for name in SITUATIONS
        for text in OF_PULL_REQUESTS
        if text == "comment.md" or name in IN_ALL_MEDIA
    ),
]


def test_console__what_all_cases_share_is_not_said_of_one() -> None:
    for names, said in (
        (LAMPS[:1], "1 regression vs. main"),
        (LAMPS[:2], "2 regressions vs. main, all with one cause"),
    ):
        head = [lamp(name, 1, "no devices") for name in names]
        nothing = cause("tool-empty", head, [], call=0, failing=len(head), tool="find_devices", actual="[]")
        situation = home(head, [lamp(name, 1, "passed") for name in names], [nothing])
        assert f"Blocks the merge: {said} (" in console(situation.report)


@pytest.mark.parametrize(("folder", "name", "text"), GOLDEN)
def test_golden__texts(folder: str, name: str, text: str) -> None:
    samples: Mapping[str, Callable[[], Any]] = SAMPLES if folder == "golden" else SITUATIONS
    texts: Mapping[str, Callable[[Any], str]] = OF_RUNS if folder == "golden" else OF_PULL_REQUESTS
    check(f"{folder}/{name}.{text}", texts[text](samples[name]()))


def test_golden__no_file_is_left_over() -> None:
    for folder in ("golden", "golden_comment"):
        check_names(folder, (f"{name}.{text}" for where, name, text in GOLDEN if where == folder))
