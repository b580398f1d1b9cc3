"""The comment, judged by what a reader of the rendered page gets. `test_report_golden.py` keeps its texts."""

from __future__ import annotations

import dataclasses
import functools
import hashlib

import pytest
from comparison_samples import (
    FOUND,
    LINKS,
    SERVER,
    SITUATIONS,
    Situation,
    but,
    decided,
    fine_cases,
    pull_request,
    word_of,
)
from hypothesis import given
from markdown_pages import ANY_TEXT, Page, nothing_of_theirs, rendered
from report_samples import SAMPLES, SINGLE, case, good, saying, wrong_room

from agent_eval.report.phrases._headline import headline
from agent_eval.report.renderers._console import console
from agent_eval.report.renderers.annotations import annotation_commands
from agent_eval.report.renderers.markdown import (
    COMMENT_LIMIT,
    SMALLEST_LIMIT,
    comment_markdown,
    summary_markdown,
    utf16_length,
)
from agent_eval.report.views import view_of
from agent_eval.report.views._visible import one_line
from agent_eval.results.comparison import BaselineReport
from agent_eval.results.origin import GateMode
from agent_eval.results.report import Reason


@functools.cache
def situation(name: str) -> Situation:
    return SITUATIONS[name]()


@functools.cache
def comment(name: str, limit: int = COMMENT_LIMIT) -> str:
    run_report = situation(name)
    return comment_markdown(run_report.report, links=run_report.links, warnings=run_report.warnings, limit=limit)


@pytest.mark.parametrize("name", SITUATIONS)
def test_markdown__renders_to_nothing_but_ours(name: str) -> None:
    sample = situation(name)
    summary = summary_markdown(sample.report, links=sample.links, warnings=sample.warnings, limit=150_000)
    for text in (comment(name), summary):
        page = nothing_of_theirs(text, f"{SERVER}/example/repo/")
        assert page.tags.count("details") == page.tags.count("summary")
    assert utf16_length(comment(name)) <= 16_000, "as long as somebody reads"
    # The headline is the same in every text.
    assert comment(name).splitlines()[0] == summary.splitlines()[0]
    assert rendered(summary.splitlines()[0]).text.strip().endswith(one_line(headline(view_of(sample.report))))
    brief = headline(view_of(sample.report), brief=True)
    assert one_line(brief) in " ".join(console(sample.report, width=500).split())


def test_comment_markdown__says_which_of_several_it_is() -> None:
    first = comment_markdown(situation("fine").report, key="nightly `@x`").splitlines()[0]
    assert (
        rendered(first).text.strip() == "✅ Does not block: no regressions, all 8 cases pass, as on main · nightly @x"
    )


def test_comment_markdown__a_reason_that_explains_everything_is_the_headline() -> None:
    """Whatever an artifact says: it may come from a fork."""
    reason = Reason(code="run-ended-otherwise", message="The results say passed, but the run ended with failure")
    run_report = situation("fine").report.model_copy(update={"verdict": "failed", "reasons": [reason]})
    assert comment_markdown(run_report).splitlines()[0] == (
        "## ❌ Blocks the merge: the results say passed, but the run ended with failure"
    )


def test_comment_markdown__reports_what_failed_before_too() -> None:
    both = pull_request("failed", but(wrong_room()), but(wrong_room()))
    page = rendered(comment_markdown(both, links=LINKS))
    assert page.text.startswith("❌ Blocks the merge: 1 of 8 cases fails as on main")
    assert "1 case fails on main too" in page.text


def test_comment_markdown__a_changed_line_leads_to_the_diff() -> None:
    sample = situation("one-cause")
    links = dataclasses.replace(sample.links, pull_request=7)
    page = rendered(comment_markdown(sample.report, links=links))
    anchor = hashlib.sha256(b"home_automation/tools.py").hexdigest()
    assert f"{SERVER}/example/repo/pull/7/files#diff-{anchor}R42" in page.links


def test_comment_markdown__a_turn_leads_to_the_turn_in_the_report() -> None:
    sample = situation("one-cause")
    links = dataclasses.replace(sample.links, report_url=f"{SERVER}/example/repo/actions/runs/1/artifacts/2")
    page = rendered(comment_markdown(sample.report, links=links))
    assert any(link.endswith("bedroom_lamp_off&turn=1") for link in page.links)


@pytest.mark.parametrize("name", SITUATIONS)
def test_comment_markdown__the_first_three_lines_say_whether_it_blocks_and_what_to_do(name: str) -> None:
    """For a run of a pull request."""
    title, blank, step = comment(name).splitlines()[:3]
    leads = ("Blocks the merge", "Does not block", "Can't tell yet, blocks until it can")
    assert any(lead in title for lead in leads) or name == "hostile"
    assert (blank, step[:10]) == ("", "**Next:** ")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Those of b.json on main at 1111111, recorded for b45e0ff.", "recorded for b45e0ff (its run)."),
        ("The agent of main at b45e0ff was run again.", "main at b45e0ff was run again (its run)."),
        ("Nobody names it.", "Nobody names it (commit b45e0ff, its run)."),
        ("![x at b45e0ff](y) @z ` at b45e0ff", "![x at b45e0ff](y) @z ` at b45e0ff (its run)."),
        ("", "(commit b45e0ff, its run)."),
    ],
)
def test_comment_markdown__names_the_commit_of_the_baseline_once(message: str, expected: str) -> None:
    baseline = FOUND.model_copy(update={"message": message, "recorded_at": None})
    run_report = pull_request("passed", fine_cases(), fine_cases(), baseline=baseline)
    page = nothing_of_theirs(comment_markdown(run_report, links=LINKS), f"{SERVER}/example/repo/")
    assert expected in page.folded.replace("\u200b", "")
    assert page.links.count(f"{SERVER}/example/repo/commit/{FOUND.commit}") == 1


def test_comment_markdown__a_message_is_not_cut_before_what_to_do() -> None:
    message = (
        "The token may not read the runs of .github/workflows/evals.yml: GET /repos/octo-org/octo-repo/actions/"
        "workflows/evals.yml/runs: GitHub answered 403 (Resource not accessible by integration). Add `actions: read` "
        "to the job's `permissions`."
    )
    run_report = pull_request("passed", fine_cases(), baseline=BaselineReport(status="fetch-failed", message=message))
    for text in (comment_markdown(run_report, warnings=[message]), summary_markdown(run_report, warnings=[message])):
        assert rendered(text).open.replace("\u200b", "").count(message.replace("`", "")) == 2


@pytest.mark.parametrize("limit", [SMALLEST_LIMIT, 10_000, COMMENT_LIMIT])
@pytest.mark.parametrize("name", ["many", "hostile", "scripts"])
def test_comment_markdown__keeps_to_its_limit_and_breaks_nothing(name: str, limit: int) -> None:
    text = comment(name, limit=limit)
    assert utf16_length(text) <= limit
    assert text.startswith("## ❌ ")
    nothing_of_theirs(text, f"{SERVER}/example/repo/", second_parser=False)


def test_comment_markdown__a_case_without_a_line_to_compare_is_no_example() -> None:
    worse = good("lamp_on", file=SINGLE, line=4)
    decision = decided("failed", word_of(worse, "worse", (9, 10), (10, 10), blocking=True, p_value=0.01))
    text = comment_markdown(pull_request("failed", but(wrong_room()), fine_cases(), decision=decision))
    examples = text.partition("Expected and actual")[2].partition("</details>")[0]
    assert "thermostat_in_bedroom" in examples and "lamp_on" not in examples


def test_comment_markdown__says_that_it_was_shortened() -> None:
    whole = utf16_length(comment("many", limit=60_000))
    for limit in (6_000, whole - 1):
        assert "This comment was shortened to fit." in comment("many", limit=limit)
    assert "shortened" not in comment("regression")


def test_utf16_length__counts_as_javascript_does() -> None:
    assert utf16_length("a\u00e9\u5bdd\U0001f642") == len("a\u00e9\u5bdd\U0001f642".encode("utf-16-le")) // 2 == 5


def test_comment_markdown__refuses_an_impossible_limit() -> None:
    with pytest.raises(ValueError, match="at least 2,000 characters"):
        comment("fine", limit=1_999)


@pytest.mark.parametrize("name", SAMPLES)
def test_comment_markdown__holds_reports_that_know_nothing_of_a_base(name: str) -> None:
    page: Page = nothing_of_theirs(comment_markdown(SAMPLES[name](), links=LINKS), f"{SERVER}/example/repo/")
    assert "on the base branch" not in page.text or name in {"hostile", "wide", "failed", "invalid"}


@given(ANY_TEXT)
def test_comment_markdown__holds_any_text(value: str) -> None:
    head = saying(value, file=value or "x").cases
    errored, still = case("e" + value, "errored", reason=Reason(code=value, message=value)), head[1]
    run_report = pull_request(
        "failed",
        [*head, errored, case("n" + value, "passed")],
        [head[0].model_copy(update={"status": "passed"}), still, case("g" + value, "passed")],
        baseline=BaselineReport(status="found", message=value, commit=value, run_url=value),
    )
    text = comment_markdown(run_report, links=LINKS, warnings=[value])
    nothing_of_theirs(text, f"{SERVER}/example/repo/")


@pytest.mark.parametrize(("gate", "kind"), [("thresholds", "error"), ("both", "error"), ("regressions", "warning")])
def test_annotation_commands__what_failed_before_is_as_loud_as_the_gate_takes_it(gate: GateMode, kind: str) -> None:
    run_report = situation("mixed").report.model_copy(update={"gate": gate})
    (line,) = [line for line in annotation_commands(run_report) if "front_door" in line]
    assert line.startswith(f"::{kind} ")
