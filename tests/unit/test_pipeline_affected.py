"""Which agents changed files can affect."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from agent_eval.pipeline._affected import affected_agents

AGENTS = {
    "evals/cat.test.json": "agents/cat",
    "agents/dog/evals/dog.evalset.json": "agents/dog",
    "evals/far.test.json": "adk:https://example.com#far",
    "agents/zoo/zoo.test.json": "agents/zoo",
    "agents/zoo/cat.test.json": "agents/cat",
}
DIRECTORIES = {name: PurePosixPath(name) for name in ("agents/cat", "agents/dog", "agents/zoo")}
MENTIONS = {"agents/zoo": frozenset({"agents/dog"})}
REMOTE = "adk:https://example.com#far"
"""What it depends on is unknown: always affected."""
EVERYONE = set(AGENTS.values())


@pytest.mark.parametrize(
    ("changed", "affected"),
    [
        ([], set()),
        (["README.md", "LICENSE", ".gitignore", "CHANGELOG"], set()),
        (["agents/cat/agent.py"], {"agents/cat"}),
        (["agents/cat/prompts/README.md"], {"agents/cat"}),
        (["agents/dog/tools.py"], {"agents/dog", "agents/zoo"}),
        (["evals/cat.test.json"], {"agents/cat"}),
        (["evals/cat.test.tools/lamp.tape.json"], {"agents/cat"}),
        (["agents/zoo/cat.test.tools/lamp.tape.json"], {"agents/cat"}),
        (["agents/zoo/gone.test.tools/lamp.tape.json"], {"agents/zoo"}),
        (["evals/test_config.json"], {"agents/cat"}),
        (["agents/eval_config.json"], {"agents/dog", "agents/zoo", "agents/cat"}),
        (["test_config.json"], EVERYONE),
        (["evals/gone.test.json"], EVERYONE),
        (["common/prompts.py"], EVERYONE),
        (["agents/catalogue/agent.py"], EVERYONE),
        (["pyproject.toml"], EVERYONE),
        (["agent-eval.toml"], EVERYONE),
        ([".github/workflows/evals.yml"], EVERYONE),
        (["../elsewhere.py"], EVERYONE),
        (["docs/knowledge.md"], EVERYONE),
    ],
)
def test_affected_agents__by_what_changed(changed: list[str], affected: set[str]) -> None:
    assert affected_agents(changed, AGENTS, DIRECTORIES, MENTIONS) == affected | {REMOTE}


def test_affected_agents__mentions_are_followed() -> None:
    mentions = {"agents/cat": frozenset({"agents/zoo"}), **MENTIONS}
    assert affected_agents(["agents/dog/tools.py"], AGENTS, DIRECTORIES, mentions) == EVERYONE


def test_affected_agents__an_agent_at_the_root_is_always_affected() -> None:
    directories = {**DIRECTORIES, "agents/cat": None}
    assert affected_agents(["README.md"], AGENTS, directories, {}) == {"agents/cat", REMOTE}
