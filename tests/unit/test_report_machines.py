"""What programs read of a run: results.json, the outputs, annotations, JUnit."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from comparison_samples import BASE, SITUATIONS, cause, mixed
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
    TRAJECTORY,
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
from runner_log import outputs_in

from agent_eval.report.renderers.annotations import LONGEST_MESSAGE, annotation_commands, stop_commands
from agent_eval.report.renderers.junit import junit_xml
from agent_eval.report.renderers.outputs import FILE_OUTPUTS, OUTPUTS, github_outputs, output_values
from agent_eval.report.renderers.results_json import results_json, results_schema
from agent_eval.results import AgentChange
from agent_eval.results.decision import CaseDecisionReport, DecisionReport
from agent_eval.results.report import Reason, RunReport, VerdictValue


def read(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    text.encode("utf-8")
    return json.loads(text, parse_constant=refuse)


def test_results_schema__is_the_published_one() -> None:
    """UPDATE_GOLDEN=1 writes it."""
    check("../../schemas/results.schema.json", json.dumps(results_schema(), indent=2, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("name", SAMPLES)
def test_results_json__matches_its_schema(name: str) -> None:
    jsonschema.validate(read(results_json(SAMPLES[name]())), results_schema(), jsonschema.Draft202012Validator)


def test_results_schema__refuses_what_is_not_ours() -> None:
    data = read(results_json(failed()))
    data["verdict"] = "fine"
    data["cases"][0]["metrics"][0]["scores"] = 1
    errors = list(jsonschema.Draft202012Validator(results_schema()).iter_errors(data))
    assert {tuple(error.path) for error in errors} == {("verdict",), ("cases", 0, "metrics", 0)}


def test_results_json__has_totals_and_stable_keys() -> None:
    data = read(results_json(failed()))
    assert list(data)[:4] == ["schema_version", "scoring_version", "tool_version", "verdict"]
    assert data["totals"] == {
        "cases": 6, "passed": 3, "failed": 3, "errored": 0, "not_run": 0, "quarantined": 0, "pass_rate": 0.5,
    }  # fmt: skip
    assert data["cases"][3]["duration"] == 3.75
    assert [run["score"] for run in data["cases"][3]["metrics"][0]["runs"]] == [1.0, 0.0, 1.0]
    assert results_json(failed()) == results_json(failed())
    assert results_json(failed()).endswith("}\n")


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


DELIMITER = "ghadelimiter_0123456789abcdef"
PATHS = {"results-file": "out/results.json", "junit-file": "out/junit.xml"}


def outputs_of(text: str) -> dict[str, str]:
    """The outputs as GitHub's runner reads them; each name is there once."""
    pairs = outputs_in(text)
    values = dict(pairs)
    assert len(values) == len(pairs)
    return values


def test_github_outputs__are_read_back() -> None:
    values = outputs_of(github_outputs(failed(), PATHS, DELIMITER))
    assert values == {
        "verdict": "failed", "total": "6", "passed": "3", "failed": "3", "errored": "0", "pass-rate": "0.5",
        "newly-failing": "", "regressions": "", "fixed": "", "metrics": values["metrics"],
        "baseline": "", "baseline-sha": "", "baseline-source": "", "comment-url": "",
        "results-file": "out/results.json", "junit-file": "out/junit.xml", "summary-file": "", "recordings-file": "",
        "cases-file": "", "report-file": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mixed", {"newly-failing": "2", "regressions": "2", "fixed": "1"}),
        ("regression", {"newly-failing": "2", "regressions": "1", "fixed": "0"}),  # The other one is suspicious only.
        ("no-baseline", {"newly-failing": "", "regressions": "", "fixed": "", "baseline-sha": ""}),
        ("fine", {"baseline": "found", "baseline-sha": BASE, "baseline-source": "artifact"}),
    ],
)
def test_output_values__show_what_changed_since_the_base(name: str, expected: dict[str, str]) -> None:
    values = output_values(SITUATIONS[name]().report, PATHS)
    assert {key: values[key] for key in expected} == expected
    assert list(values) == list(OUTPUTS), "the documented ones"


def test_output_values__show_scores_and_deltas() -> None:
    metrics = json.loads(output_values(SITUATIONS["mixed"]().report, PATHS)["metrics"])
    assert metrics["response_match_score"] == {"score": 0.888333, "base": 0.781733, "delta": 0.1066}
    assert metrics["tool_trajectory_avg_score"]["delta"] == pytest.approx(-1 / 12, abs=1e-6)
    alone = json.loads(output_values(SITUATIONS["no-baseline"]().report, PATHS)["metrics"])
    assert alone["tool_trajectory_avg_score"] == {"score": 0.9375, "base": None, "delta": None}


def test_github_outputs__a_path_cannot_add_an_output() -> None:
    evil = "x\nverdict=passed\nverdict<<EOF\npassed\nEOF\nghadelimiter_\n"
    values = outputs_of(github_outputs(failed(), {"results-file": evil}, DELIMITER))
    assert values["verdict"] == "failed"
    assert values["results-file"] == evil
    assert set(values) == set(OUTPUTS)


@pytest.mark.parametrize(
    "delimiter", ["", "EOF", "short", "with space 0123456789", "line\nbreak0123456789abc", DELIMITER]
)
def test_github_outputs__refuses_a_delimiter_that_is_weak_or_occurs(delimiter: str) -> None:
    with pytest.raises(ValueError, match="occurs" if delimiter == DELIMITER else "at least 16"):
        github_outputs(failed(), {"results-file": f"a\n{DELIMITER}\n"}, delimiter)


def test_output_values__refuse_an_unknown_file() -> None:
    with pytest.raises(ValueError, match="not a file output: verdict"):
        output_values(failed(), {"verdict": "passed"})
    assert set(FILE_OUTPUTS) < set(OUTPUTS)


@pytest.mark.parametrize(
    ("passed", "failed", "rate"), [(0, 0, ""), (4, 0, "1"), (0, 4, "0"), (2, 1, "0.666667"), (1, 3, "0.25")]
)
def test_outputs__pass_rate(passed: int, failed: int, rate: str) -> None:
    cases = [case("x", "passed")] * passed + [case("y", "failed")] * failed
    assert output_values(report("passed", cases), {})["pass-rate"] == rate


TOKEN = "0123456789abcdef0123"


@dataclass
class Command:
    name: str
    properties: dict[str, str]
    message: str


def as_the_runner_reads(line: str) -> Command:
    """actions/runner, ActionCommand.cs, TryParseV2."""
    assert "\n" not in line
    assert "\r" not in line
    assert "##[" not in line
    assert line.startswith("::")
    head, message = line[2:].split("::", 1)
    name, _, listed = head.partition(" ")

    def plain(value: str, pairs: str) -> str:
        for char in pairs:
            value = value.replace(f"%{ord(char):02X}", char)
        return value.replace("%25", "%")

    properties = dict(pair.split("=", 1) for pair in listed.split(","))
    return Command(name, {key: plain(value, "\r\n:,") for key, value in properties.items()}, plain(message, "\r\n"))


def commands_of(lines: list[str]) -> list[Command]:
    return [as_the_runner_reads(line) for line in lines]


def test_annotations__errors_come_first_and_the_last_one_counts_the_rest() -> None:
    commands = commands_of(annotation_commands(SAMPLES["many"](), limit=10, more="summary.md"))
    assert len(commands) == 10
    assert commands[-1].properties == {"title": "and 41 more errors"}
    assert commands[-1].message == "Failed: 50 of 150 cases fail. 41 more errors in summary.md."
    ten = report("failed", SAMPLES["many"]().cases[:28])
    assert [item.properties["title"] for item in commands_of(annotation_commands(ten))][-1] == "case_027 failed"
    with pytest.raises(ValueError, match="below 2"):
        annotation_commands(failed(), limit=1)


def annotation_of(status: str, **facts: object) -> Command:
    """The only one of a run with a case of this status."""
    case = next(case for case in failed().cases if case.status == status)
    [command] = commands_of(annotation_commands(report("failed", [case]).model_copy(update=facts)))
    return command


@pytest.mark.parametrize(("blocking", "level"), [(["evals/home.test.json:other"], "warning"), ([], "error")])
def test_annotations__a_failed_case_that_does_not_block_is_a_warning(blocking: list[str], level: str) -> None:
    command = annotation_of("failed", blocking=blocking)
    assert (command.name, "without blocking" in command.properties["title"]) == (level, level == "warning")


@pytest.mark.parametrize(
    ("status", "metric", "title"),
    [
        ("passed", "response_match_score", "response_match_score: suspected regression"),
        ("failed", "pass", "sometimes fails, suspected regression"),
    ],
)
def test_annotations__a_suspected_regression_that_does_not_block_is_a_warning(
    status: str, metric: str, title: str
) -> None:
    case = next(case for case in failed().cases if case.status == status)
    drop = CaseDecisionReport(case_id=case.case_id, metric=metric, word="suspicious")
    decision = DecisionReport(outcome="passed", cases=[drop], alpha=0.05)
    command = annotation_of(status, verdict="passed", decision=decision)
    assert (command.name, command.properties["title"]) == ("warning", f"{case.eval_id} {title}")


@given(st.one_of(st.text(), st.sampled_from([EVIL, EVIL * 40, "%0A::error::", "a,b:c%,;]", "x" * 9_000])))
def test_annotations__carry_any_text_on_one_line(value: str) -> None:
    commands = commands_of(annotation_commands(saying(value, file=value)))
    assert [command.name for command in commands] == ["error", "error", "warning", "warning"]
    for command in commands:
        assert set(command.properties) <= {"file", "line", "col", "title"}
        assert len(command.message) <= LONGEST_MESSAGE < 4_096
        assert len(command.properties["title"]) <= 255


def test_stop_commands__wraps_the_text() -> None:
    wrapped = stop_commands("::error::x\n##[error]y", TOKEN)
    assert wrapped == f"::stop-commands::{TOKEN}\n::error::x\n##[error]y\n::{TOKEN}::\n"
    assert stop_commands("x\n", TOKEN).count("\n") == 3


@pytest.mark.parametrize("token", ["", "short", "pause-logging", "with space 0123456789", TOKEN])
def test_stop_commands__refuses_a_token_that_is_weak_or_occurs(token: str) -> None:
    with pytest.raises(ValueError, match="occurs" if token == TOKEN else "at least 16"):
        stop_commands(f"::{TOKEN}::", token)


def test_annotations__a_cause_without_a_changed_line_is_at_its_example() -> None:
    run_report = SITUATIONS["two-causes"]().report
    run_report.causes[0].changed_here = []
    first, second, third = commands_of(annotation_commands(run_report))
    assert (first.properties["file"], first.properties["line"]) == (HOME, "6")
    assert second.properties["file"] == "home_automation/agent.py"
    assert third.properties["title"].startswith("thermostat_in_bedroom"), "no cause explains it"


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


def find(root: etree._Element, path: str) -> etree._Element:
    element = root.find(path)
    assert element is not None, path
    return element


def on_a_pull_request(verdict: VerdictValue, *, blocking: tuple[str, ...] = ()) -> RunReport:
    """Two failed cases and one that could not be evaluated; which of them block is the gate's word."""
    run_report = report(verdict, [good("fine"), wrong_room(), crash(), outage()])
    run_report.gate = "regressions"
    run_report.blocking = [f"{HOME}:{eval_id}" for eval_id in blocking]
    return run_report


def of_case(root: etree._Element, name: str, child: str) -> etree._Element:
    return find(root, f".//testcase[@name='{name}']/{child}")


def test_junit_xml__what_does_not_block_is_skipped_and_says_what_went_wrong() -> None:
    """Jenkins turns a build unstable by one failure, though the gate has passed."""
    root = parsed(on_a_pull_request("passed"))
    assert (root.get("failures"), root.get("errors"), len(root.findall(".//skipped"))) == ("0", "0", 3)
    message = str(of_case(root, "thermostat_in_bedroom", "skipped").get("message"))
    assert message.startswith("Not blocking (") and f"{TRAJECTORY} 0.50, needs 1.00" in message
    assert '{"error": "unknown room: bedroom"}' in str(of_case(root, "thermostat_in_bedroom", "system-out").text)
    named = find(root, ".//property[@name='not-blocking']").get("value")
    assert named == "thermostat_in_bedroom, garage_door, weather_question"
    advisory = on_a_pull_request("passed", blocking=("fine", "wrong_room"))
    advisory.gate = "advisory"
    assert (parsed(advisory).get("failures"), parsed(advisory).get("errors")) == ("0", "0")


def test_junit_xml__what_blocks_is_a_failure_beside_what_does_not() -> None:
    root = parsed(on_a_pull_request("failed", blocking=("thermostat_in_bedroom", "fine")))
    for name, child in (
        ("thermostat_in_bedroom", "failure"), ("garage_door", "skipped"), ("weather_question", "error")
    ):  # fmt: skip
        of_case(root, name, child)
    # It passed its thresholds and got worse all the same: a red gate without a red case would puzzle.
    assert of_case(root, "fine", "failure").get("type") == "regression"


@pytest.mark.parametrize("verdict", ["failed", "inconclusive"])
def test_junit_xml__what_is_red_stays_red_where_nothing_was_decided_by_case(verdict: VerdictValue) -> None:
    root = parsed(on_a_pull_request(verdict))
    assert (root.get("failures"), root.get("errors"), len(root.findall(".//skipped"))) == ("1", "2", 0)


def test_junit_xml__a_case_that_is_red_on_the_base_branch_or_in_quarantine_says_so() -> None:
    run_report = mixed().report
    run_report.verdict = "passed"
    skipped = of_case(parsed(run_report), "front_door", "skipped")
    assert str(skipped.get("message")).startswith("Not blocking (failed on ")
    quarantined = wrong_room()
    quarantined.status = "quarantined"
    root = parsed(report("passed", [quarantined]))
    find(root, ".//testcase/skipped")
    assert '{"error": "unknown room: bedroom"}' in str(find(root, ".//testcase/system-out").text)


def test_junit_xml__times_have_milliseconds() -> None:
    slow = good("slow").model_copy(update={"runs": [good("x").runs[0].model_copy(update={"duration": 0.1 + 0.2})]})
    root = parsed(report("passed", [slow]))
    assert {element.get("time") for element in root.iter() if element.get("time")} == {"0.300"}
    huge = good("huge").model_copy(update={"runs": [good("x").runs[0].model_copy(update={"duration": 123456.789})]})
    parsed(report("passed", [huge]))


def test_junit_xml__a_megabyte_is_shortened() -> None:
    text = "卧室🙇\x00\x1b[31m" * 150_000
    big = saying(text)
    document = junit_xml(big)
    parsed(big)
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


def test_junit_xml__a_cause_is_a_property_of_its_suite_and_in_the_text_of_its_cases() -> None:
    report = SAMPLES["failed"]()
    failing = [case for case in report.cases if case.status == "failed"][:1]
    report.causes = [cause("tool-empty", failing, [], call=0, failing=2, tool="find", actual="{}")]
    report.causes[0].message = "find returned {}"
    root = parsed(report)
    [first] = root.findall(".//property[@name='cause.1']")
    assert first.get("value") == f"find returned {{}}: {failing[0].eval_id}"
    texts = [failure.text or "" for failure in root.iter("failure")]
    assert sum("Cause: find returned {}, in 1 of 2 failing cases" in text for text in texts) == 1


def test_junit_xml__what_changed_in_the_agent_is_a_property_of_the_suites_that_test_it() -> None:
    report = SAMPLES["failed"]()
    path = report.files[0].agent
    report.agent_changes = [
        AgentChange(code="model", path=path, agent="home", message="model a to b"),
        AgentChange(code="model", path="another", agent="another", message="model c to d"),
    ]
    suites = parsed(report).findall("testsuite")
    shown = {suite.get("name"): suite.findall("./properties/property[@name='agent-change.1']") for suite in suites}
    for file in report.files:
        expected = ["model a to b"] if file.agent == path else []
        assert [each.get("value") for each in shown[file.file]] == expected
    assert not any("model c to d" in (each.get("value") or "") for each in parsed(report).iter("property"))
