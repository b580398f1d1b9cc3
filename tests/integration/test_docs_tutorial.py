"""docs/tutorial.md: every command runs, in its order, against a fake Gemini and a stand-in for GitHub.

UPDATE_GOLDEN=1 writes the output into the page; then read it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import host_forks
import pytest
from adk_envs import adk_python
from base_repos import new_repo
from fake_github import FakeGitHub
from gate_runs import Repository
from pull_requests import Lab

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^(```(\w+).*)\n((?:.*\n)*?)```$", re.MULTILINE)
VARIES = re.compile(r"\d+(\.\d+)? (ms|s)\b|\b\d+ tokens|(?<=token_usage_v1) +\S+|[ ─]+")
PASSING = re.compile(
    r"^\d+ of \d+ runs.*\n|^agent-eval: The agent can't run.*\n|^ warning \[agent-not-isolated\](.*\n)+?\n", re.M
)
"""What depends on the machine: progress, and a user who is root."""
AGENT_EVAL = """agent-eval() {
  case $1 in run|record) set -- "$@" --agent-python "$PYTHON_OF_THE_AGENT";; esac
  "$PYTHON_OF_THE_GATE" -m agent_eval "$@"
}
"""


@dataclass
class Reader(Lab):
    """Somebody who does what the page says."""

    gemini: str
    comments: list[str] = field(default_factory=list)

    def commit(self, rates: object = None, **files: str | None) -> str:
        """The commits of the branch that was pushed."""
        self.repo.git("reset", "-q", "--hard", "two-cairos")
        self.github.state.take_git(self.repo.root)
        return self.repo.head

    def console(self, commands: str) -> str:
        """Runs the commands of a block; a push starts the workflow."""
        shown = []
        for command in re.findall(r"^\$ (.+)$", commands, re.MULTILINE):
            done = subprocess.run(
                ["bash", "-c", AGENT_EVAL + command], cwd=self.repo.root, env=self.environment(), text=True,
                check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout
            shown += [f"$ {command}", *done.stdout.rstrip().splitlines()]
            if "git push" in command:
                self.workflow()
        return PASSING.sub("", "".join(f"{line.rstrip()}\n" for line in shown))

    def environment(self) -> dict[str, str]:
        variables = self.repository.environment()
        variables.pop("CI", None)  # The reader sits at a desk.
        return {
            **variables,
            "GOOGLE_GEMINI_BASE_URL": self.gemini,
            "GOOGLE_API_KEY": "any",
            "PYTHON_OF_THE_AGENT": shlex.join(host_forks.command(adk_python())),
            "PYTHON_OF_THE_GATE": sys.executable,
        }

    def workflow(self) -> None:
        model = {"GOOGLE_GEMINI_BASE_URL": self.gemini, "GOOGLE_API_KEY": "any"}
        if self.repo.git("branch", "--show-current") == "main":
            self.base_run(environment=model, code=0)
            return
        self.pull_request(7, environment=model, code=0 if self.comments else 1)
        self.repo.git("switch", "-q", "two-cairos")
        [comment] = self.github.state.comments_of(7)
        self.comments.append(visible(comment.body))


def visible(comment: str) -> str:
    """What a reader of a comment sees without a click, without its links."""
    text = re.split(r"^(?:<details|###)", comment.partition("\n")[2], flags=re.MULTILINE)[0]
    return re.sub(r"\[(.+?)\]\(http.*?\)", r"\1", text).replace("&nbsp;", " ").rstrip() + "\n"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    script = [sys.executable, str(PAGE.parents[1] / "examples" / "weather_model.py"), "--port", "0"]
    with FakeGitHub() as github, subprocess.Popen(script, stdout=subprocess.PIPE, text=True) as gemini:
        assert gemini.stdout is not None
        url = gemini.stdout.readline().strip().partition("=")[2]
        repo = new_repo(tmp_path / "my-agent")
        repo.git("init", "-q", "--bare", str(tmp_path / "remote.git"))
        for name, value in {
            "user.name": "Mona",
            "user.email": "mona@example.com",
            "remote.origin.url": "https://github.com/mona/my-agent",
            f"url.{tmp_path}/remote.git.insteadOf": "https://github.com/mona/my-agent",
        }.items():
            repo.git("config", name, value)
        made = Reader(repository=Repository(root=repo.root), github=github, repo=repo, gemini=url)
        yield made
        made.repository.end()
        gemini.kill()


def same(text: str) -> str:
    """What is the same in each run."""
    return VARIES.sub(" ", text)


@pytest.mark.slow
def test_docs_tutorial__output_is_that_of_its_commands(reader: Reader) -> None:
    agent = reader.repo.root / "weather" / "agent.py"

    def played(block: re.Match[str]) -> str:
        start, language, text = block.groups()
        if language == "python":
            agent.write_text(text, "utf-8")
        elif language == "diff":
            before, after = (re.findall(rf"^{re.escape(sign)}(.*)$", text, re.MULTILINE)[0] for sign in "-+")
            assert before in agent.read_text("utf-8")
            agent.write_text(agent.read_text("utf-8").replace(before, after), "utf-8")
        elif language in {"console", "markdown"}:
            output = reader.console(text) if language == "console" else reader.comments[-1]
            return block[0] if same(output) == same(text) else f"{start}\n{output}```"
        return block[0]

    page = PAGE.read_text(encoding="utf-8")
    played_page = BLOCK.sub(played, page)
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(played_page, encoding="utf-8")
    else:
        assert played_page == page, "UPDATE_GOLDEN=1 writes it"
    assert len(reader.comments) == 2
    for question, answer in (("How warm is it in Cairo today?", "31 degrees"), ("Is it warm?", "In which city?")):
        said = reader.console(f'$ agent-eval record evals/more.evalset.json --say "{question}"')
        assert answer in said, "a reader may ask the model of the page something else, too"
