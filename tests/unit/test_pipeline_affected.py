"""Which agents changed files can affect."""

from __future__ import annotations

import dataclasses
from pathlib import PurePosixPath

import pytest

from agent_eval.pipeline._affected import KnownAgent, affected_agents


def agent(directory: str | None, *opened: str, inputs: tuple[str, ...] = ()) -> KnownAgent:
    return KnownAgent(
        directory=None if directory is None else PurePosixPath(directory),
        inputs=frozenset(map(PurePosixPath, inputs)),
        opened=frozenset(opened),
    )


AGENTS = {
    "cat": agent(
        "agents/cat",
        *("agents/cat/agent.py", "agents", "shared/words.py", "shared/link", "agents/dog/data.txt", "vendor/lib/x.py"),
        inputs=("evals/cat.test.json", "evals/cat.test.tools", "evals/test_config.json"),
    ),
    "dog": agent("agents/dog", "agents/dog/agent.py", inputs=("evals/dog.test.json", "evals/test_config.json")),
    "pup": agent("agents/dog/pup", "agents/dog/pup/agent.py", "agents/"),
    "cow": agent("agents/cow", "agents/cow/agent.py", "agents/none/x.txt"),
}
EVERYONE = set(AGENTS)


@pytest.mark.parametrize(
    ("letter", "path", "affected"),
    [
        ("M", "shared/words.py", {"cat"}),
        ("M", "shared/other.py", set()),
        ("M", "README.md", set()),
        ("M", "agents/cow/notes.md", {"cow"}),
        ("M", "agents/dog/data.txt", {"cat", "dog"}),
        ("M", "agents/dog/pup/agent.py", {"dog", "pup"}),
        ("M", "vendor", {"cat"}),  # a submodule
        ("M", "evals/cat.test.json", {"cat"}),
        ("M", "evals/cat.test.tools/case.tape.json", {"cat"}),
        ("A", "evals/cat.test.tools/case.tape.json", EVERYONE),
        ("M", "evals/test_config.json", {"cat", "dog"}),
        ("M", "elsewhere/test_config.json", EVERYONE),
        ("A", "shared/new.py", EVERYONE),
        ("D", "shared/words.py", EVERYONE),
        ("T", "shared/link", EVERYONE),
        ("A", "agents/cow/new.txt", {"cow", "pup"}),  # The pup has listed agents/.
        ("D", "agents/cow/agent.py", {"cow", "pup"}),
        ("A", "agents/cow/__init__.py", EVERYONE),
        ("A", "agents/cow/tools/__init__.py", {"cow", "pup"}),
        ("A", "agents/dog/new.txt", {"cat", "dog", "pup"}),
        ("A", "agents/dog/pup/new.txt", {"dog", "pup"}),
        ("A", "agents/catalogue/new.txt", EVERYONE),
        ("M", "agent-eval.toml", EVERYONE),
        ("M", "agents/cow/.env", EVERYONE),
        ("M", ".github/workflows/evals.yml", EVERYONE),
        ("M", ".gitlab-ci.yml", EVERYONE),
        ("M", "shared/certs/own.pem", EVERYONE),
        ("M", "uv.lock", EVERYONE),
        ("M", "agents/cow/requirements-dev.txt", EVERYONE),
        ("M", "requirements/base.txt", EVERYONE),
        ("M", "agents/pyproject.toml", EVERYONE),
        ("M", "Dockerfile", EVERYONE),
        ("M", "config/answers.jsonl", EVERYONE),
    ],
)
def test_affected_agents__by_what_changed(letter: str, path: str, affected: set[str]) -> None:
    assert affected_agents({path: letter}, AGENTS, {"config/answers.jsonl"}) == affected


def test_affected_agents__without_a_list_or_a_directory_it_is_always_affected() -> None:
    agents = {
        **AGENTS,
        "old": dataclasses.replace(AGENTS["cow"], opened=None),
        "root": dataclasses.replace(AGENTS["cow"], directory=None),
    }
    assert affected_agents({"README.md": "M"}, agents) == {"old", "root"}


def test_affected_agents__an_agent_that_listed_the_top_depends_on_every_file() -> None:
    agents = {**AGENTS, "hen": agent("hen", "./")}
    assert affected_agents({"agents/cow/new.txt": "A"}, agents) == {"cow", "pup", "hen"}
