"""The comment, judged by what a reader of the rendered page gets, and kept as files in `data/golden_comment`.

`UPDATE_GOLDEN=1 pytest tests/unit/test_report_comment.py` writes them anew.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from comparison_samples import FOUND, LINKS, SERVER, SITUATIONS, Situation, but, fine_cases, pull_request
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_pages import Page, nothing_of_theirs, rendered
from report_samples import EVIL, RESPONSE, SAMPLES, case, metric, wrong_room

from agent_eval.report.annotations import annotation_commands
from agent_eval.report.comment import DETAILS, LIMIT, SMALLEST_LIMIT, comment_markdown, utf16_length
from agent_eval.report.console import console
from agent_eval.report.sections import Links
from agent_eval.report.summary import summary_markdown
from agent_eval.results.comparison import BaselineReport, BaselineStatus
from agent_eval.results.report import Reason, TurnEvidence
from agent_eval.results.status import GateMode

GOLDEN = Path(__file__).parents[1] / "data" / "golden_comment"
TEXTS: Mapping[str, Callable[[Situation], str]] = {
    "comment.md": lambda one: comment_markdown(one.report, links=one.links, warnings=one.warnings),
    "summary.md": lambda one: summary_markdown(one.report, links=one.links, warnings=one.warnings, limit=150_000),
    "annotations.txt": lambda one: "".join(f"{line}\n" for line in annotation_commands(one.report)),
    "console.txt": lambda one: console(one.report, width=110),
}
CHOSEN = [(name, text) for name in SITUATIONS for text in TEXTS]


@functools.cache
def situation(name: str) -> Situation:
    return SITUATIONS[name]()


def comment(name: str, limit: int = LIMIT) -> str:
    one = situation(name)
    return comment_markdown(one.report, links=one.links, warnings=one.warnings, limit=limit)


@pytest.mark.parametrize(("name", "text"), CHOSEN)
def test_golden(name: str, text: str) -> None:
    file = GOLDEN / f"{name}.{text}"
    actual = TEXTS[text](situation(name))
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(actual, encoding="utf-8", newline="\n")
    assert file.exists(), "UPDATE_GOLDEN=1 writes it"
    assert actual == file.read_bytes().decode("utf-8")


def test_golden__no_file_is_left_over() -> None:
    assert {file.name for file in GOLDEN.iterdir()} == {f"{name}.{text}" for name, text in CHOSEN}


@pytest.mark.parametrize("text", ["comment.md", "summary.md"])
@pytest.mark.parametrize("name", SITUATIONS)
def test_markdown__renders_to_nothing_but_ours(name: str, text: str) -> None:
    page = nothing_of_theirs(TEXTS[text](situation(name)), f"{SERVER}/example/repo/")
    assert page.tags.count("details") == page.tags.count("summary")


def test_comment_markdown__first_line_is_the_verdict_with_the_numbers_that_made_it() -> None:
    assert {name: comment(name).splitlines()[0] for name in SITUATIONS} == {
        "first-run": "## ✅ Passed: all 8 cases",
        "fine": "## ✅ Passed: all 8 cases, as on the base",
        "regression": "## ❌ Failed: 2 of 9 cases, 7 passed; since the base 1 broken and 1 suspicious",
        "fix": "## ✅ Passed: all 8 cases; since the base 2 fixed",
        "mixed": "## ❌ Failed: 4 of 10 cases (3 below a threshold, 1 by an error of the agent), 6 passed; "
        "since the base 2 newly failing and 1 fixed",
        "errors": "## ⚠️ Inconclusive: 1 of 11 cases could not be judged, 3 not run, 7 passed; none newly failing",
        "no-baseline": "## ❌ Failed: 1 of 8 cases, 7 passed",
        "incompatible": "## ❌ Failed: 2 of 8 cases (1 below a threshold, 1 by an error of the agent), 6 passed",
        "many": "## ❌ Failed: 500 of 1,000 cases, 500 passed; since the base 250 newly failing",
        "scripts": "## ❌ Failed: 3 of 4 cases, 1 passed; since the base 3 newly failing",
        "hostile": "## ❌ Failed: 2 of 2 cases; since the base 1 broken",
        "flaky": "## ✅ Passed: 6 of 8 cases; nothing worse than on the base",
    }


def test_comment_markdown__tells_what_failed_before_too() -> None:
    both = pull_request("failed", but(wrong_room()), but(wrong_room()))
    page = rendered(comment_markdown(both, links=LINKS))
    assert page.text.startswith("❌ Failed: 1 of 8 cases, 7 passed; it failed on the base too")
    assert "1 case failed on the base too" in page.text
    assert "Newly failing" not in page.text


def test_comment_markdown__says_why_and_what_was_expected() -> None:
    page = rendered(comment("regression"))
    assert "broken: 0 of 6 now, 10 of 10 on base" in page.text
    assert "tool_trajectory_avg_score 0.50, needs 1.00, base 1.00" in page.text
    assert '- set_temperature(room="bedroom", celsius=21)\n+ set_temperature(room="kitchen", celsius=21)' in page.text
    assert "The answer says that the door is locked" in page.text
    assert page.text.index("broken: 0 of 6") < page.text.index("suspicious: 3 of 6")
    assert f"{LINKS.source_url}/tests/home_automation/basics.evalset.json#L48" in page.links


def test_comment_markdown__p_values_are_behind_a_click() -> None:
    page = rendered(comment("regression"))
    assert "p = 0.00012, p after Holm = 0.00036" in page.folded
    assert "p = " not in page.open
    assert "would have been seen 4 times out of 5" in page.folded
    assert "10 more runs of the head would decide" in page.folded


def test_comment_markdown__lists_apart_what_is_not_the_same_case() -> None:
    page = rendered(comment("mixed"))
    assert "Other cases than on the base: 1 new, 1 changed, 1 gone, 1 renamed" in page.text
    assert "lights.test.json:lamp_on → tests/home_automation/lights.test.json:lamp_is_on" in page.folded
    assert "thermostat_up: response_match_score 0.83 (base 0.91)" in page.folded
    assert "Fixed: good_morning" in page.open
    assert "Cases that pass: over the 8 of 10 that can be compared" in page.open
    assert page.open.index("This pull request changes agent-eval.toml") < page.open.index("Cases that pass")


def test_comment_markdown__errors_stand_apart_from_failures() -> None:
    page = rendered(comment("errors"))
    assert "Could not be judged" in page.open
    assert "weather_question · provider-unavailable in turn 2: 503 UNAVAILABLE: The model is overloaded." in page.open
    assert "3 cases: the run's deadline was over" in page.open
    assert "failing" not in page.open.split("\n", 1)[1]


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ("none-yet", "Nothing to compare with yet. Because."),
        ("fetch-failed", "Not compared with the base: its results could not be had. Because."),
        ("incompatible", "Not compared with the base: its results are not comparable. Because."),
    ],
)
def test_comment_markdown__says_why_there_is_no_baseline(status: BaselineStatus, sentence: str) -> None:
    one = pull_request("passed", fine_cases(), baseline=BaselineReport(status=status, message="Because."))
    assert sentence in rendered(comment_markdown(one)).open


def test_comment_markdown__says_where_the_baseline_is_from() -> None:
    page = rendered(comment("fine"))
    assert "The base's results are those of main at b45e0ff (its run, recorded 2026-09-20)." in page.open.replace(
        "\u200b", ""
    )
    assert f"{SERVER}/example/repo/actions/runs/1234000" in page.links


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("Those of b.json on main at 1111111, recorded for b45e0ff.", "recorded for b45e0ff (its run)."),
        ("The agent of main at b45e0ff was run again.", "main at b45e0ff (its run) was run again."),
        ("Nobody names it.", "Nobody names it (commit b45e0ff, its run)."),
        ("![x at b45e0ff](y) @z ` at b45e0ff", "![x at b45e0ff (its run)](y) @z ` at b45e0ff"),
        ("", "(commit b45e0ff, its run)."),
    ],
)
def test_comment_markdown__names_the_commit_of_the_baseline_once(message: str, told: str) -> None:
    baseline = FOUND.model_copy(update={"message": message, "recorded_at": None})
    one = pull_request("passed", fine_cases(), fine_cases(), baseline=baseline)
    page = nothing_of_theirs(comment_markdown(one, links=LINKS), f"{SERVER}/example/repo/")
    assert told in page.open.replace("\u200b", "")
    assert page.links.count(f"{SERVER}/example/repo/commit/{FOUND.commit}") == 1


def test_comment_markdown__a_message_is_not_cut_before_what_to_do() -> None:
    message = (
        "The token may not read the runs of .github/workflows/evals.yml: GET /repos/octo-org/octo-repo/actions/"
        "workflows/evals.yml/runs: GitHub answered 403 (Resource not accessible by integration). Add `actions: read` "
        "to the job's `permissions`."
    )
    one = pull_request("passed", fine_cases(), baseline=BaselineReport(status="fetch-failed", message=message))
    for text in (comment_markdown(one, warnings=[message]), summary_markdown(one, warnings=[message])):
        assert rendered(text).open.replace("\u200b", "").count(message) == 2


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/a",
        "https://github.com.evil.example/a",
        "https://github.com@evil.example/a",
        "http://github.com/a",
        "javascript:alert(1)",
        "//github.com/a",
        "https://github.com/a b",
        "https://github.com/\u202ea",
        "https://[",
        "",
    ],
)
def test_links__an_address_of_another_server_is_no_link(url: str) -> None:
    assert LINKS.own(url) is None
    one = pull_request("passed", fine_cases(), fine_cases(), baseline=FOUND.model_copy(update={"run_url": url}))
    page = rendered(comment_markdown(one, links=Links(server_url=SERVER, repository="o/r", run_url=url)))
    assert page.links == [f"{SERVER}/o/r/commit/{FOUND.commit}", f"{SERVER}/o/r/commit/{one.origin.head_commit}"]  # type: ignore[union-attr]


@pytest.mark.parametrize("limit", [SMALLEST_LIMIT, 4_000, 10_000, 25_000, LIMIT])
@pytest.mark.parametrize("name", ["many", "hostile", "scripts"])
def test_comment_markdown__keeps_to_its_limit_and_breaks_nothing(name: str, limit: int) -> None:
    text = comment(name, limit=limit)
    assert utf16_length(text) <= limit
    assert text.startswith("## ❌ Failed: ")
    nothing_of_theirs(text, f"{SERVER}/example/repo/")


def test_comment_markdown__500_failing_cases_fit_and_the_newest_failures_come_first() -> None:
    text = comment("many")
    page = rendered(text)
    assert 20_000 < utf16_length(text) <= LIMIT
    assert page.text.count("needs 1.00, base 1.00") >= 20
    assert "case_001" in page.open
    assert "250 cases failed on the base too" in page.open
    assert "case_003" not in page.open


def test_comment_markdown__says_that_it_was_shortened() -> None:
    assert "This comment was shortened to fit." in comment("many", limit=10_000)
    assert "shortened" not in comment("regression")


def test_details__each_step_tells_less() -> None:
    sizes = [len(comment("many", limit=limit)) for limit in (LIMIT, 30_000, 15_000, 6_000, 3_000)]
    assert sizes == sorted(sizes, reverse=True)
    for richer, poorer in itertools.pairwise(DETAILS):
        for name in ("explained", "detailed", "listed", "side", "log", "turns", "name"):
            assert getattr(poorer, name) <= getattr(richer, name)


def test_utf16_length__counts_as_javascript_does() -> None:
    assert utf16_length("a\u00e9\u5bdd\U0001f642") == len("a\u00e9\u5bdd\U0001f642".encode("utf-16-le")) // 2 == 5


def test_comment_markdown__refuses_an_impossible_limit() -> None:
    with pytest.raises(ValueError, match="at least 2,000 characters"):
        comment("fine", limit=1_999)


@pytest.mark.parametrize("name", SAMPLES)
def test_comment_markdown__holds_reports_that_know_nothing_of_a_base(name: str) -> None:
    page: Page = nothing_of_theirs(comment_markdown(SAMPLES[name](), links=LINKS), f"{SERVER}/example/repo/")
    assert "base" not in page.text.replace("baseline", "") or name in {"hostile", "wide", "failed", "invalid"}


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(st.text(max_size=60), st.sampled_from([EVIL, "```", "|", "x\n\ny", "@a", "</details>", "{{ 7 * 7 }}"]))
)
def test_comment_markdown__holds_any_text(value: str) -> None:
    turn = TurnEvidence(turn=0, score=0.0, user=value, expected=value, actual=value + "!", why=[value])
    failing = case(value, "failed", metric(value, 0.0, threshold=1.0, evidence={0: [turn]}), file=value or "x")
    errored = case("e" + value, "errored", reason=Reason(code=value, message=value))
    still = case("s" + value, "failed", metric(RESPONSE, 0.0, threshold=1.0))
    one = pull_request(
        "failed",
        [failing, errored, still, case("n" + value, "passed")],
        [
            case(value, "passed", metric(value, 1.0, threshold=1.0), file=value or "x"),
            still,
            case("g" + value, "passed"),
        ],
        baseline=BaselineReport(status="found", message=value, commit=value, run_url=value),
    )
    text = comment_markdown(one, links=LINKS, warnings=[value])
    nothing_of_theirs(text, f"{SERVER}/example/repo/")


def test_annotation_commands__newly_failing_cases_say_so_and_come_first() -> None:
    lines = annotation_commands(situation("mixed").report)
    titles = [line.split("title=")[1].split("::")[0] for line in lines]
    assert titles == [
        "thermostat_in_bedroom failed%2C passed on the base",
        "garage_door crashed%2C passed on the base",
        "fan_off failed (a new case)",
        "front_door failed%2C as on the base",
        "turn-without-reference",
    ]


@pytest.mark.parametrize(("gate", "kind"), [("thresholds", "error"), ("both", "error"), ("regressions", "warning")])
def test_annotation_commands__what_failed_before_is_as_loud_as_the_gate_takes_it(gate: GateMode, kind: str) -> None:
    one = situation("mixed").report.model_copy(update={"gate": gate})
    (line,) = [line for line in annotation_commands(one) if "front_door" in line]
    assert line.startswith(f"::{kind} ")


def test_console__tells_deltas_and_what_was_fixed() -> None:
    text = console(situation("mixed").report, width=140)
    assert "thermostat_in_bedroom · passed on the base" in text
    assert "tool_trajectory_avg_score 0.50, needs 1.00, base 1.00" in text
    assert "8 cases compared: 2 newly failing, 1 fixed, 1 still failing, 4 passing as before" in text
    assert "✓ fixed: good_morning" in text
    assert text.rstrip().endswith("since the base 2 newly failing and 1 fixed (12 s)")


def test_comment_markdown__invalid_tells_the_problems() -> None:
    page = rendered(comment_markdown(SAMPLES["invalid"](), links=LINKS))
    assert '"tool_trajectory_avg_scor" is not a metric' in page.open
