"""The commands of docs/authoring.md that set up and record, from a folder with nothing but an agent to a green run."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import host_forks
import pytest
from adk_envs import adk_python
from gate_runs import AGENT_EVAL, Repository, repository_in
from pty_terminal import on_terminal
from test_sources_adk import produce

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"^agent-eval (?:init|record)\b[^#\n]*", re.MULTILINE)


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path / "repository") as made:
        agent = made.root / "agents" / "home"
        shutil.copytree(
            ROOT / "examples" / "home_automation", agent, ignore=shutil.ignore_patterns("evals", "__pycache__")
        )
        yield made


def cases(repository: Repository, name: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads((repository.root / "evals" / name).read_text("utf-8"))["eval_cases"]
    return listed


@pytest.mark.slow
def test_docs_authoring__every_command_of_init_and_record_runs(repository: Repository) -> None:
    page = (ROOT / "docs" / "authoring.md").read_text(encoding="utf-8")
    commands = [shlex.split(line)[1:] for line in COMMAND.findall(page)]
    assert len(commands) >= 10
    root, python = repository.root, ["--agent-python", str(adk_python())]
    (root / "messages.txt").write_text("Good morning\nTurn on the fan in the bedroom\n", "utf-8")
    produce(root)
    (root / "agents" / "home" / ".adk").mkdir()
    shutil.copy(root / "session.db", root / "agents" / "home" / ".adk")

    init, chat, *others = commands
    assert repository.gate(*init).code == 0
    with on_terminal([*AGENT_EVAL, *chat, *python], cwd=root, environment=repository.environment()) as terminal:
        terminal.expect(r"you> $")
        terminal.type("Turn off the lamp in the bedroom")
        terminal.expect(r"agent> The bedroom lamp is now off\.")
        terminal.expect(r"you> $")
        terminal.type("/save")
        terminal.expect("Added 1 case")
        assert terminal.code() == 0
    green = repository.gate("run", "evals")
    assert (green.code, len(green.statuses)) == (0, 1), green.out + green.err
    forks = shlex.join(host_forks.command(adk_python()))
    for command in others:
        asks = "--from" not in command
        done = repository.gate(*command, *(("--agent-python", forks) if asks else ()))
        assert done.code == 0, (command, done.out, done.err)
        assert "--list" in command or re.search(r"(Added|Replaced) \d+ cases? in|nothing new", done.out), done.out
    # The chat, `--say`, the file of messages, the latest session, and a session's JSON. `all` skips both sessions of
    # the database, because a case has the messages of each.
    assert len(cases(repository, "home.evalset.json")) == 5
    assert len(cases(repository, "fixed.evalset.json")) == 1
    checked = repository.gate("validate")
    assert checked.code == 0, checked.out
    green = repository.gate("run", "evals")
    assert (green.code, set(green.statuses.values())) == (0, {"passed"}), green.out + green.err
