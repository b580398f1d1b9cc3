"""`only-affected`: a pull request pays for the agents that it can affect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_github import FakeGitHub
from pull_requests import BOT, Lab

ONLY = ("--only-affected",)
TOML = '[agents]\n"evals/bot*" = "bot"\n"evals/cat*" = "cat"\n'


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with FakeGitHub() as github:
        made = Lab.make(tmp_path / "zoo", github, "door", "window")
        made.repository.evals("evals/cat.evalset.json", {"purr": "Say purr.", "hiss": "Say hiss."})
        cat = {"cat__agent.py": BOT, "cat__answers.json": "{}", "cat__README.md": "The cat.\n"}
        made.commit({}, **{"agent-eval.toml": TOML, "cat____init__.py": "from . import agent\n", **cat})
        yield made
        made.repository.end()


def test_only_affected__runs_compares_and_reports_the_affected_agents_alone(lab: Lab) -> None:
    base = lab.base_run(*ONLY)
    assert (base.code, len(base.report.cases), base.report.unaffected) == (0, 4, []), base.out + base.err

    nothing = lab.pull_request(7, {}, *ONLY, files={"README.md": "New words.\n"})
    assert (nothing.code, nothing.report.verdict, nothing.report.cases) == (0, "passed", []), nothing.out + nothing.err
    assert [reason.code for reason in nothing.report.reasons] == ["unaffected"]
    assert {(item.file, item.agent, item.cases) for item in nothing.report.unaffected} == {
        ("evals/bot.evalset.json", "bot", 2),
        ("evals/cat.evalset.json", "cat", 2),
    }
    [comment] = lab.github.state.comments_of(7)
    assert "## ✅ Not affected by this pull request and not run: 4 cases of bot, cat" in comment.body

    # The cat gets worse: its cases alone are run, and those of the other agent have not gone.
    worse = lab.pull_request(8, {}, *ONLY, files={"cat/answers.json": '{"Say purr.": 0.0}'})
    assert worse.code == 1, worse.out + worse.err
    assert {case.file for case in worse.report.cases} == {"evals/cat.evalset.json"}
    assert [item.agent for item in worse.report.unaffected] == ["bot"]
    assert worse.report.comparison is not None
    assert {case.change for case in worse.report.comparison.cases} == {"newly_failing"}
    assert "Not affected by this pull request and not run: 2 cases of bot" in worse.out

    # What belongs to no agent may be imported by all.
    shared = lab.pull_request(9, {}, *ONLY, files={"common/prompts.py": "WORDS = 1\n"})
    assert (shared.code, len(shared.report.cases), shared.report.unaffected) == (0, 4, [])


def test_only_affected__an_invalid_file_of_an_unaffected_agent_is_still_exit_2(lab: Lab) -> None:
    lab.base_run(*ONLY)
    broken = lab.pull_request(7, {}, *ONLY, files={"evals/dog.evalset.json": "{", "README.md": "x\n"})
    assert (broken.code, broken.report.verdict) == (2, "invalid")
