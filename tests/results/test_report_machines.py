"""What programs read of a run: results.json, the outputs, annotations, JUnit."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
from comparison_samples import SITUATIONS, cause, mixed
from golden_files import check
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, Skipped
from lxml import etree
from report_samples import (
    EVIL,
    HOME,
    RESPONSE,
    SAMPLES,
    case,
    crash,
    failed,
    good,
    metric,
    outage,
    report,
    saying,
    wrong_room,
)
from runner_log import Command, commands_in, outputs_in

from agent_eval_results import AgentChange
from agent_eval_results.data.decision import CaseDecisionReport, DecisionReport
from agent_eval_results.data.origin import GateMode
from agent_eval_results.data.report import Reason, RunReport, VerdictValue
from agent_eval_results.report.renderers.annotations import LONGEST_MESSAGE, annotation_commands, stop_commands
from agent_eval_results.report.renderers.junit import junit_xml
from agent_eval_results.report.renderers.outputs import FILE_OUTPUTS, OUTPUTS, github_outputs, output_values
from agent_eval_results.report.renderers.results_json import results_json, results_schema


def read(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    text.encode("utf-8")
    return json.loads(text, parse_constant=refuse)


def test_results_schema__is_the_published_one() -> None:
    """UPDATE_GOLDEN=1 writes it."""
    check("../../schemas/results.schema.json", json.dumps(results_schema(), indent=2, ensure_ascii=False) + "\n")


VALIDATOR = functools.cache(lambda: jsonschema.Draft202012Validator(results_schema()))


@pytest.mark.parametrize("name", SAMPLES)
def test_results_json__matches_its_schema(name: str) -> None:
    VALIDATOR().validate(read(results_json(SAMPLES[name]())))


def test_results_json__carries_any_text_and_number() -> None:
    odd = case(
        "\ud800 \x00 卧室 🙇",
        "failed",
        metric(RESPONSE, float("nan"), float("inf"), threshold=0.8, details={"\udfff": float("-inf"), "n": 1e300}),
        reason=Reason(code="x", message="\ud83d"),
    )
    data = read(results_json(report("failed", [odd])))
    assert data["cases"][0]["eval_id"] == "\ufffd \x00 卧室 🙇"
    assert [run["score"] for run in data["cases"][0]["metrics"][0]["runs"]] == [None, None]
    assert data["cases"][0]["metrics"][0]["runs"][0]["details"] == {"\ufffd": None, "n": 1e300}


TOKEN = "0123456789abcdef0123"
DELIMITER = "ghadelimiter_0123456789abcdef"
PATHS = {"results-file": "out/results.json", "junit-file": "out/junit.xml"}


def outputs_of(text: str) -> dict[str, str]:
    """The outputs as GitHub's runner reads them; each name is there once."""
    pairs = outputs_in(text)
    values = dict(pairs)
    assert len(values) == len(pairs)
    return values


def test_output_values__of_every_report() -> None:
    """UPDATE_GOLDEN=1 writes them. They are read back from the file of outputs as they are, and all are documented."""
    reports = {name: sample() for name, sample in SAMPLES.items()}
    reports |= {f"pull request: {name}": situation().report for name, situation in SITUATIONS.items()}
    for good_ones, bad_ones in ((0, 0), (4, 0), (0, 4), (2, 1), (1, 3)):
        cases = [case("x", "passed")] * good_ones + [case("y", "failed")] * bad_ones
        reports[f"{good_ones} passed, {bad_ones} failed"] = report("passed", cases)
    lines = []
    for name, each in reports.items():
        values = output_values(each, PATHS)
        assert outputs_of(github_outputs(each, PATHS, DELIMITER)) == values
        assert list(values) == list(OUTPUTS)
        lines.append(f"{name}: {' '.join(f'{key}={value}' for key, value in values.items() if value)}\n")
    check("golden_output_values.txt", "".join(lines))


def test_github_outputs__a_path_cannot_add_an_output() -> None:
    evil = "x\nverdict=passed\nverdict<<EOF\npassed\nEOF\nghadelimiter_\n"
    values = outputs_of(github_outputs(failed(), {"results-file": evil}, DELIMITER))
    assert values["verdict"] == "failed"
    assert values["results-file"] == evil
    assert set(values) == set(OUTPUTS)


@pytest.mark.parametrize(
    "token", ["", "short", "pause-logging", "with space 0123456789", "line\nbreak012345678", TOKEN]
)
def test_tokens__are_refused_if_they_are_weak_or_occur(token: str) -> None:
    says = "occurs" if token == TOKEN else "at least 16"
    with pytest.raises(ValueError, match=says):
        github_outputs(failed(), {"results-file": f"a\n{TOKEN}\n"}, token)
    with pytest.raises(ValueError, match=says):
        stop_commands(f"::{TOKEN}::", token)


def test_output_values__refuse_an_unknown_file() -> None:
    with pytest.raises(ValueError, match="not a file output: verdict"):
        output_values(failed(), {"verdict": "passed"})
    assert set(FILE_OUTPUTS) < set(OUTPUTS)


def commands_of(lines: list[str]) -> list[Command]:
    """What GitHub's runner carries out: one command a line."""
    commands = commands_in("\n".join(lines) + "\n")
    assert len(commands) == len(lines)
    assert not any("##[" in line for line in lines)
    return commands


def test_annotations__errors_come_first_and_the_last_one_counts_the_rest() -> None:
    commands = commands_of(annotation_commands(SAMPLES["many"](), limit=10, more="summary.md"))
    assert len(commands) == 10
    assert commands[-1].properties == {"title": "and 41 more errors"}
    assert commands[-1].data == "Failed: 50 of 150 cases fail. 41 more errors in summary.md."
    ten = report("failed", SAMPLES["many"]().cases[:28])
    assert [item.properties["title"] for item in commands_of(annotation_commands(ten))][-1] == "case_027 failed"
    with pytest.raises(ValueError, match="below 2"):
        annotation_commands(failed(), limit=1)


def annotated() -> Iterator[tuple[str, RunReport]]:
    """Runs with a case that is no error, or has no line of its own."""
    cases = {case.status: case for case in failed().cases}
    for what, blocking in (("blocks", []), ("does not block", ["evals/home.test.json:other"])):
        yield f"a failed case {what}", report("failed", [cases["failed"]]).changed(blocking=blocking)
    for one, name in ((cases["passed"], RESPONSE), (cases["failed"], "pass")):
        drop = CaseDecisionReport(case_id=one.case_id, metric=name, word="suspicious")
        decision = DecisionReport(outcome="passed", cases=[drop], alpha=0.05)
        yield f"a suspected regression of {name}", report("passed", [one]).changed(decision=decision)
    run_report = SITUATIONS["two-causes"]().report
    run_report.causes[0].changed_here = []
    for gate in get_args(GateMode):  # What failed before is as loud as the gate takes it.
        front = [each for each in mixed().report.cases if "front" in each.eval_id]
        blocking = [front[0].case_id if gate in {"thresholds", "both"} else "evals/home.test.json:other"]
        kept = mixed().report.changed(gate=gate, blocking=blocking, cases=front)
        yield f"failed before, gate {gate}", kept.changed(verdict="passed") if gate == "advisory" else kept
    yield "a cause without a changed line, a cause, and a case that none explains", run_report


def test_annotations__of_few_runs() -> None:
    """UPDATE_GOLDEN=1 writes them."""
    lines = [f"{name}:\n" + "".join(f"{line}\n" for line in annotation_commands(made)) for name, made in annotated()]
    check("golden_annotations.txt", "".join(lines))


@given(st.one_of(st.text(), st.sampled_from([EVIL, EVIL * 40, "%0A::error::", "a,b:c%,;]", "x" * 9_000])))
def test_annotations__carry_any_text_on_one_line(value: str) -> None:
    commands = commands_of(annotation_commands(saying(value, file=value)))
    assert [command.name for command in commands] == ["error", "error", "warning", "warning"]
    for command in commands:
        assert set(command.properties) <= {"file", "line", "col", "title"}
        assert len(command.data) <= LONGEST_MESSAGE < 4_096
        assert len(command.properties["title"]) <= 255


def test_stop_commands__wraps_the_text() -> None:
    wrapped = stop_commands("::error::x\n##[error]y", TOKEN)
    assert wrapped == f"::stop-commands::{TOKEN}\n::error::x\n##[error]y\n::{TOKEN}::\n"
    assert stop_commands("x\n", TOKEN).count("\n") == 3


SCHEMA = etree.XMLSchema(etree.parse(str(Path(__file__).parents[1] / "data" / "jenkins-junit.xsd")))


def parsed(report_: RunReport) -> etree._Element:
    """The document, after everything that reads such files has accepted it."""
    data = junit_xml(report_).encode("utf-8")
    root = etree.fromstring(data)
    SCHEMA.assertValid(root)
    suites = JUnitXml.fromstring(data)
    assert suites.tests == int(root.get("tests", "-1"))
    for suite in suites:
        assert suite.tests == len(list(suite)) == int(suite._elem.get("tests", "-1"))
        results = [result for test in suite for result in test.result]
        assert suite.failures == sum(isinstance(result, Failure) for result in results)
        assert suite.errors == sum(isinstance(result, Error) for result in results)
        assert suite.skipped == sum(isinstance(result, Skipped) for result in results)
        assert math.isclose(suite.time, sum(test.time for test in suite), abs_tol=0.001 * (1 + len(list(suite))))
    return root


def on_a_pull_request(verdict: VerdictValue, *, blocking: tuple[str, ...] = ()) -> RunReport:
    """Two failed cases and one that could not be evaluated; which of them block is the gate's word."""
    run_report = report(verdict, [good("fine"), wrong_room(), crash(), outage()])
    run_report.gate = "regressions"
    run_report.blocking = [f"{HOME}:{eval_id}" for eval_id in blocking]
    return run_report


def with_suites_of_two_agents() -> RunReport:
    """A change is a property of the suites that test its agent; a cause is one, and in the text of its cases."""
    run_report = failed()
    failing = [case for case in run_report.cases if case.status == "failed"][:1]
    run_report.causes = [cause("tool-empty", failing, [], call=0, failing=2, tool="find", actual="{}")]
    run_report.causes[0].message = "find returned {}"
    run_report.files[1].agent = "another"
    for agent, message in ((run_report.files[0].agent, "model a to b"), ("another", "model c to d")):
        run_report.agent_changes.append(AgentChange(code="model", path=agent, agent=agent, message=message))
    return run_report


def for_jenkins() -> Iterator[tuple[str, RunReport]]:
    """Jenkins turns a build unstable by one failure, though the gate has passed: what does not block is skipped."""
    yield "nothing blocks", on_a_pull_request("passed")
    yield "advisory", on_a_pull_request("passed", blocking=("fine", "wrong_room")).changed(gate="advisory")
    # It passed its thresholds and got worse all the same: a red gate without a red case would puzzle.
    yield "two block", on_a_pull_request("failed", blocking=("thermostat_in_bedroom", "fine"))
    for verdict in ("failed", "inconclusive"):
        yield f"{verdict}: nothing was decided by case", on_a_pull_request(verdict)
    yield "a case that failed on main", mixed().report.changed(verdict="passed")
    yield "quarantined", report("passed", [wrong_room().changed(status="quarantined")])
    times = {seconds: good(f"takes {seconds}", line=1) for seconds in (0.1 + 0.2, 123456.789)}
    for seconds, each in times.items():
        each.runs[0].duration = seconds
    yield "times have milliseconds", report("passed", list(times.values()))
    yield "two agents", with_suites_of_two_agents()


def test_junit_xml__of_few_runs() -> None:
    """UPDATE_GOLDEN=1 writes them, without what the cases say where others have it."""
    texts = []
    for name, made in for_jenkins():
        parsed(made)
        kept = junit_xml(made) if name in {"nothing blocks", "quarantined"} else OUTPUT.sub("", junit_xml(made))
        texts.append(f"{name}:\n{kept}")
    check("golden_junit.txt", "".join(texts))


OUTPUT = re.compile(r"\n *<system-out>.*?</system-out>", re.DOTALL)


def test_junit_xml__a_megabyte_is_shortened() -> None:
    big = saying("卧室🙇\x00\x1b[31m" * 65_000)
    document = etree.tostring(parsed(big), encoding="unicode")
    assert len(document) < 100_000
    assert "more characters" in document
    assert not re.search("[\x00-\x08\x0b-\x1f]", document)


@given(st.text(st.characters()))
def test_junit_xml__any_text_is_carried(text: str) -> None:
    parsed(saying(text, file=text))


@pytest.mark.parametrize("name", SAMPLES)
def test_junit_xml__is_accepted_by_jenkins_schema_and_holds_nothing_but_ours(name: str) -> None:
    root = parsed(SAMPLES[name]())
    assert {str(element.tag) for element in root.iter()} <= {
        "testsuites", "testsuite", "testcase", "failure", "error", "skipped", "system-out", "properties", "property",
    }  # fmt: skip
    assert not {"\x1b", "\u202e"} & set(junit_xml(SAMPLES[name]()))
