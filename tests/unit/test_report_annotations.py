from __future__ import annotations

from dataclasses import dataclass

import pytest
from comparison_samples import SITUATIONS
from hypothesis import given
from hypothesis import strategies as st
from report_samples import EVIL, HOME, SAMPLES, failed, report, saying

from agent_eval.report.renderers.annotations import LONGEST_MESSAGE, annotation_commands, stop_commands
from agent_eval.results.decision import CaseDecisionReport, DecisionReport

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


def read(lines: list[str]) -> list[Command]:
    return [as_the_runner_reads(line) for line in lines]


def test_annotations__errors_come_first_and_the_last_one_counts_the_rest() -> None:
    commands = read(annotation_commands(SAMPLES["many"](), limit=10, more="summary.md"))
    assert len(commands) == 10
    assert commands[-1].properties == {"title": "and 41 more errors"}
    assert commands[-1].message == "Failed: 50 of 150 cases fail. 41 more errors in summary.md."
    ten = report("failed", SAMPLES["many"]().cases[:28])
    assert [item.properties["title"] for item in read(annotation_commands(ten))][-1] == "case_027 failed"
    with pytest.raises(ValueError, match="below 2"):
        annotation_commands(failed(), limit=1)


@pytest.mark.parametrize(("blocking", "level"), [(["evals/home.test.json:other"], "warning"), ([], "error")])
def test_annotations__a_failed_case_that_does_not_block_is_a_warning(blocking: list[str], level: str) -> None:
    case = next(case for case in failed().cases if case.status == "failed")
    [command] = read(annotation_commands(report("failed", [case]).model_copy(update={"blocking": blocking})))
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
    [command] = read(annotation_commands(report("passed", [case]).model_copy(update={"decision": decision})))
    assert command.name == "warning"
    assert command.properties["title"] == f"{case.eval_id} {title}"


@given(st.one_of(st.text(), st.sampled_from([EVIL, EVIL * 40, "%0A::error::", "a,b:c%,;]", "x" * 9_000])))
def test_annotations__carry_any_text_on_one_line(value: str) -> None:
    commands = read(annotation_commands(saying(value, file=value)))
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
    first, second, third = read(annotation_commands(run_report))
    assert (first.properties["file"], first.properties["line"]) == (HOME, "6")
    assert second.properties["file"] == "home_automation/agent.py"
    assert third.properties["title"].startswith("thermostat_in_bedroom"), "no cause explains it"
