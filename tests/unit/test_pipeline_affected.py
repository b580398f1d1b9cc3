"""Which agents changed files can affect."""

from __future__ import annotations

import dataclasses
from pathlib import Path, PurePosixPath

import pytest

from agent_eval.agents.tape_rules import ToolRule
from agent_eval.pipeline._affected import _concerns_all, _mentions, affected_agents
from agent_eval.settings import read_settings

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
        (["common/license.py"], EVERYONE),
        (["CHANGELOG.json"], EVERYONE),
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


def test_mentions__what_the_files_of_an_agent_lead_to(tmp_path: Path) -> None:
    files = {
        "cat/agent.py": "root_agent = 1",
        "dog/agent.py": "from shared.registry import get",
        "shared/registry.py": "from shared import animals",
        "shared/animals.py": "import cat.agent",
        "cow/agent.py": "import catalogue",
        "cat/kitten/agent.py": "from ..agent import root_agent",
        "cat-old/agent.py": "",
        "hen/root_agent.yaml": "sub_agents: [{config_path: ../cat-old/root_agent.yaml}]",
        "evals/test_config.json": '{"name": "hen.metrics.score"}',
        ".venv/lib/cow.py": "import cat",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    (tmp_path / "ox").mkdir()
    (tmp_path / "ox/agent.py").symlink_to("../cow/agent.py")
    (tmp_path / "owl").mkdir()
    (tmp_path / "owl/prompts").symlink_to("../dog")
    names = ("cat", "dog", "cow", "cat/kitten", "cat-old", "hen", "ox", "owl")
    directories = {name: PurePosixPath(name) for name in names}

    mentions = _mentions(tmp_path, directories, {"cow": [tmp_path / "evals/test_config.json"]})

    assert mentions == {
        "cat": frozenset(),
        "dog": {"cat"},
        "cow": {"hen"},
        "cat/kitten": {"cat"},
        "cat-old": frozenset(),
        "hen": {"cat-old"},
        "ox": {"cow"},
        "owl": {"dog"},
    }


def test_concerns_all__files_that_the_settings_give_to_every_agent(tmp_path: Path) -> None:
    read, _ = read_settings(tmp_path)
    settings = dataclasses.replace(
        read,
        tools="replay",
        tool_rules=(ToolRule(name="*", depends=("cat/db/**",)),),
        agent_requirements=Path("cat/requirements.txt"),
        agent_setup="bash cat/setup.sh",
    )
    changed = ("cat/db/rooms.json", "cat/requirements.txt", "cat/setup.sh")

    assert [_concerns_all(settings, [path]) for path in changed] == [True] * 3
    assert not _concerns_all(settings, ["cat/agent.py", "README.md"])
    assert not _concerns_all(read, changed)
