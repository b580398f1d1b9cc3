"""A repository on a stand-in for GitHub, whose pushes and pull requests run the action in the container.

Everything is real but GitHub: git and its server, the clone of depth 1 that actions/checkout makes, the container as
the runner starts it, the artifact made of what the run leaves.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from base_repos import Repo
from container_engine import REPOSITORY, Engine
from fake_github import FakeGitHub, Run
from gate_runs import eval_set, program
from git_server import GitServer
from github_runner import RUNNER_USER, Finished, Runner

WORKFLOW = ".github/workflows/evals.yml"
TOOLS = "home_automation/tools.py"
AS_GOOD = 'not wanted or device["room"].casefold() == wanted'
"""Of that file."""
BROKEN = 'not room or device["room"] == room'
"""The same line in examples/home_automation_broken."""


def reachable(engine: Engine) -> tuple[str, str]:
    """An address to listen on so that containers can reach us, and the name by which they do."""
    template = "{{with index .IPAM.Config 0}}{{.Gateway}} {{.Subnet}}{{end}}"
    *named, subnet = engine.check("network", "inspect", "bridge", "--format", template).split() or [""]
    try:
        # Some versions of dockerd don't name the gateway: it is the first address.
        gateway = named[0] if named else str(next(ipaddress.ip_network(subnet).hosts()))
        ipaddress.ip_address(gateway)
        with socket.create_server((gateway, 0)):
            return gateway, gateway
    except (ValueError, OSError):  # The engine lives in a virtual machine, as on a Mac.
        return "127.0.0.1", "host.docker.internal"


@dataclass(kw_only=True)
class Project:
    """The repository. `origin` is what the forge has; each run gets a workspace of its own."""

    origin: Repo
    github: FakeGitHub
    forge: GitServer
    runner: Runner
    scratch: Path
    runs: list[Run] = field(default_factory=list)

    def example(self, name: str) -> dict[str, bytes]:
        """The files of one of our examples."""
        top = REPOSITORY / "examples" / name
        paths = [path for path in top.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        return {f"{name}/{path.relative_to(top).as_posix()}": path.read_bytes() for path in paths}

    def commit(self, files: Mapping[str, str | bytes | None]) -> str:
        """Commits to main."""
        self.origin.git("checkout", "-q", *(["main"] if self._has("main") else ["--orphan", "main"]))
        sha = self.origin.commit(files)
        self.github.state.take_git(self.origin.root)
        return sha

    def push(self, files: Mapping[str, str | bytes | None]) -> Finished:
        """Commits to main, runs the gate on it, and uploads its artifact."""
        sha = self.commit(files)
        run = self.github.state.run(sha, path=WORKFLOW)
        repository = {"default_branch": "main", "full_name": self.github.state.repository}
        done = self._run(run, "push", {"repository": repository, "after": sha}, sha, "refs/heads/main", {})
        self.github.state.upload(run, done.workspace / "agent-eval-results")
        return done

    def pull_request(self, number: int, files: Mapping[str, str | bytes | None], **more: str) -> Finished:
        """Commits to the pull request's branch, and runs the gate on GitHub's merge of it.

        Args:
            number: Made at the first push.
            files: To commit.
            more: Inputs of this run, with underscores.
        """
        branch = f"change-{number}"
        self.origin.git("checkout", "-q", branch if number in self.github.state.pulls else "main")
        if number not in self.github.state.pulls:
            self.origin.branch(branch)
        head = self.origin.commit(files)
        merge = self.origin.merge(branch, "main")
        self.github.state.take_git(self.origin.root)
        if number not in self.github.state.pulls:
            self.github.state.pull(number, head_sha=head, head_ref=branch)
        self.github.state.pulls[number].head_sha = head
        payload = self.github.state.event_of(number)
        run = self.github.state.run(head, path=WORKFLOW, event="pull_request", branch=branch, pulls=(number,))
        inputs = {name.replace("_", "-"): value for name, value in more.items()}
        return self._run(run, "pull_request", payload, merge, f"refs/pull/{number}/merge", inputs)

    def _has(self, branch: str) -> bool:
        return bool(self.origin.git("branch", "--list", branch))

    def _run(
        self, run: Run, event: str, payload: Mapping[str, Any], sha: str, ref: str, inputs: Mapping[str, str]
    ) -> Finished:
        self.runs.append(run)
        workspace = self._checkout(sha, self.scratch / f"workspace-{run.id}")
        done = self.runner.step(
            workspace,
            inputs={"github-token": self.github.token, **inputs},
            environment={
                "GITHUB_EVENT_NAME": event,
                "GITHUB_SHA": sha,
                "GITHUB_REF": ref,
                "GITHUB_REPOSITORY": self.github.state.repository,
                "GITHUB_RUN_ID": str(run.id),
                "GITHUB_RUN_ATTEMPT": str(run.attempt),
                "GITHUB_SERVER_URL": self.forge.url,
                "GITHUB_API_URL": self.github.api_url,
                "GITHUB_WORKFLOW_REF": f"{self.github.state.repository}/{run.path}@{ref}",
                "GITHUB_ACTOR": "mona",
            },
            event=payload,
        )
        run.conclusion = "success" if done.exit_code == 0 else "failure"
        return done

    def _checkout(self, sha: str, root: Path) -> Path:
        """As actions/checkout leaves it: of depth 1, the runner's user's, with the token in its configuration."""
        self.origin.git("config", "uploadpack.allowAnySHA1InWant", "true")
        made = self.origin.shallow_checkout(sha, root)
        made.git("remote", "set-url", "origin", f"{self.forge.url}/{self.github.state.repository}")
        basic = base64.b64encode(f"x-access-token:{self.github.token}".encode()).decode()
        made.git("config", f"http.{self.forge.url}/.extraheader", f"AUTHORIZATION: basic {basic}")
        self.runner.hand_over(root)
        return root


def strangers(root: Path) -> list[Path]:
    """What in a workspace doesn't belong to the runner's user; it could not clean that up."""
    owner = RUNNER_USER if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    return [path for path in (root, *root.rglob("*")) if (path.lstat().st_uid, path.lstat().st_gid) != owner]


def git_in(root: Path, *arguments: str) -> list[str]:
    """The lines that git says in a workspace of the runner's user."""
    return program("git", "-c", f"safe.directory={root}", "-C", root, *arguments).stdout.splitlines()


def changed_in(root: Path) -> list[str]:
    """What git sees in a workspace beside the results."""
    return [line for line in git_in(root, "status", "--porcelain") if "agent-eval-results" not in line]


def evil_files(said: str, cases: int, secrets: Mapping[str, str]) -> dict[str, str]:
    """The agent that tries to get at secrets, and cases that expect it to have got nothing."""
    sources = {
        name: Path(__file__)
        .with_name(f"evil_{name}.py")
        .read_text("utf-8")
        .replace('"@SECRETS@"', repr(json.dumps(secrets)))
        for name in ("agent", "attempts")
    }
    conversations = {f"attempt-{number}": [(said, "nothing")] for number in range(cases)}
    return {
        "evil/__init__.py": "from . import agent as agent\n",
        **{f"evil/{name}.py": source for name, source in sources.items()},
        "evil/evil.test.json": json.dumps(eval_set("evil", conversations)),
    }
