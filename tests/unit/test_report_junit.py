from __future__ import annotations

import math
import re
from pathlib import Path
from typing import cast

import pytest
from comparison_samples import cause, mixed
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, Skipped
from lxml import etree
from report_samples import HOME, SAMPLES, TRAJECTORY, crash, good, outage, report, saying, wrong_room

from agent_eval.report.renderers.junit import junit_xml
from agent_eval.results import AgentChange
from agent_eval.results.report import RunReport, VerdictValue

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


def test_junit_xml__what_does_not_block_is_skipped_and_says_what_went_wrong() -> None:
    """Jenkins turns a build unstable by one failure, though the gate has passed."""
    root = parsed(on_a_pull_request("passed"))
    assert (root.get("failures"), root.get("errors")) == ("0", "0")
    assert len(root.findall(".//skipped")) == 3
    skipped = find(root, ".//testcase[@name='thermostat_in_bedroom']/skipped")
    assert cast(str, skipped.get("message")).startswith("Not blocking (")
    assert f"{TRAJECTORY} 0.50, needs 1.00" in cast(str, skipped.get("message"))
    out = cast(str, find(root, ".//testcase[@name='thermostat_in_bedroom']/system-out").text)
    assert '{"error": "unknown room: bedroom"}' in out
    named = find(root, ".//property[@name='not-blocking']").get("value")
    assert named == "thermostat_in_bedroom, garage_door, weather_question"
    advisory = on_a_pull_request("passed", blocking=("fine", "wrong_room"))
    advisory.gate = "advisory"
    assert (parsed(advisory).get("failures"), parsed(advisory).get("errors")) == ("0", "0")


def test_junit_xml__what_blocks_is_a_failure_beside_what_does_not() -> None:
    root = parsed(on_a_pull_request("failed", blocking=("thermostat_in_bedroom", "fine")))
    assert find(root, ".//testcase[@name='thermostat_in_bedroom']/failure") is not None
    assert find(root, ".//testcase[@name='garage_door']/skipped") is not None
    assert find(root, ".//testcase[@name='weather_question']/error") is not None
    # It passed its thresholds and got worse all the same: a red gate without a red case would puzzle.
    assert find(root, ".//testcase[@name='fine']/failure").get("type") == "regression"


@pytest.mark.parametrize("verdict", ["failed", "inconclusive"])
def test_junit_xml__what_is_red_stays_red_where_nothing_was_decided_by_case(verdict: VerdictValue) -> None:
    root = parsed(on_a_pull_request(verdict))
    assert (root.get("failures"), root.get("errors"), len(root.findall(".//skipped"))) == ("1", "2", 0)


def test_junit_xml__a_case_that_is_red_on_the_base_branch_or_in_quarantine_says_so() -> None:
    run_report = mixed().report
    run_report.verdict = "passed"
    skipped = find(parsed(run_report), ".//testcase[@name='front_door']/skipped")
    assert cast(str, skipped.get("message")).startswith("Not blocking (failed on ")
    quarantined = wrong_room()
    quarantined.status = "quarantined"
    root = parsed(report("passed", [quarantined]))
    assert find(root, ".//testcase/skipped") is not None
    assert '{"error": "unknown room: bedroom"}' in cast(str, find(root, ".//testcase/system-out").text)


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
