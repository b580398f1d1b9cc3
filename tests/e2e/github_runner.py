"""Starts a container action as GitHub's runner does, and reads its log as the runner does.

Source: actions/runner, src/Runner.Worker/Handlers/ContainerActionHandler.cs (mounts, variables),
Container/DockerCommandManager.cs (`docker run`); read at 258d6c857.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from base_repos import new_repo
from container_engine import REPOSITORY, Engine
from runner_log import Command, commands_in, outputs_in

from agent_eval_agents.sandbox.uids import STATE_DIR

RUNNER_USER = (1001, 118)
"""Whom the workspace belongs to on a hosted runner (`runner:docker`)."""

SECRETS = {
    "GITHUB_TOKEN": "ghs_parents_github_token_0123456789",
    "ACTIONS_RUNTIME_TOKEN": "actions.runtime.token.0123456789",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "id.token.request.0123456789",
    "INPUT_JUDGE-API-KEY": "input_key_with_dashes_0123456789",
    "SOME_SECRET": "job_level_secret_0123456789",
}
"""What a job has in its environment and an agent must not see."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A step that ended."""

    exit_code: int
    log: str
    """stdout and stderr, as the runner sees them."""
    outputs: Mapping[str, str]
    summary: str
    workspace: Path
    temp: Path
    """`${{ runner.temp }}` as the steps outside of containers see it."""
    file_commands: Mapping[str, str]
    """The raw content of each file command's file by its variable."""

    @property
    def commands(self) -> list[Command]:
        """The workflow commands in the log."""
        return commands_in(self.log)

    def results(self, folder: str = "agent-eval-results") -> dict[str, Any]:
        """The parsed results.json."""
        result: dict[str, Any] = json.loads((self.workspace / folder / "results.json").read_text("utf-8"))
        return result

    def answers(self) -> list[str]:
        """What the agent said, turn by turn."""
        with gzip.open(self.workspace / "agent-eval-results/recordings.jsonl.gz", "rt", encoding="utf-8") as lines:
            turns = [turn for line in lines for turn in json.loads(line)["invocations"]]
        return [turn["final_response"]["parts"][0]["text"] for turn in turns]


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Runs steps; each gets its own runner directories, the workspace is the caller's."""

    engine: Engine
    image: str
    scratch: Path
    cache_volume: str

    def workspace(self, path: Path, examples: Sequence[str], files: Mapping[str, str]) -> Path:
        """Makes a git work tree as actions/checkout leaves it: token included.

        Args:
            path: Where.
            examples: Names of our examples to copy into it.
            files: Texts of other files by their path; they may replace those of an example.
        """
        path.mkdir(parents=True)
        for example in examples:
            shutil.copytree(
                REPOSITORY / "examples" / example,
                path / example,
                ignore=shutil.ignore_patterns("__pycache__", "agent-eval-results"),
            )
        repo = new_repo(path)
        repo.commit(files)
        repo.git("config", "http.https://github.com/.extraheader", "AUTHORIZATION: basic c2VjcmV0LWNoZWNrb3V0LXRva2Vu")
        self.hand_over(path)
        return path

    def hand_over(self, path: Path) -> None:
        """Gives a tree to the runner's user, where we may."""
        if os.geteuid() == 0:
            for entry in (path, *path.rglob("*")):
                os.chown(entry, *RUNNER_USER, follow_symlinks=False)

    def step(
        self,
        workspace: Path,
        *arguments: str,
        inputs: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        event: Mapping[str, Any] | None = None,
        beside: Callable[[str], None] | None = None,
        timeout: float = 300,
    ) -> Finished:
        """Runs the action as one step of a job.

        Args:
            workspace: Mounted as /github/workspace.
            arguments: `args` of the action; ours has none.
            inputs: By their names in action.yml.
            environment: The job's own variables.
            event: The webhook's payload; by default that of a pull request of which nothing more is known.
            beside: Called with the container's name in a thread of its own, while it runs.
            timeout: Seconds after which the container is killed.
        """
        home = self.scratch / uuid.uuid4().hex
        mounts = {
            "/github/runner_temp": home / "_temp",
            "/github/home": home / "_temp/_github_home",
            "/github/workflow": home / "_temp/_github_workflow",
            "/github/file_commands": home / "_temp/_runner_file_commands",
            "/github/workspace": workspace,
        }
        for source in mounts.values():
            source.mkdir(parents=True, exist_ok=True)
        payload = {"pull_request": {"number": 7}} if event is None else event
        (mounts["/github/workflow"] / "event.json").write_text(json.dumps(payload), "utf-8")
        files = {
            variable: mounts["/github/file_commands"] / f"{stem}_{uuid.uuid4()}"
            for variable, stem in {
                "GITHUB_OUTPUT": "set_output",
                "GITHUB_ENV": "set_env",
                "GITHUB_PATH": "add_path",
                "GITHUB_STATE": "save_state",
                "GITHUB_STEP_SUMMARY": "step_summary",
            }.items()
        }
        for file in files.values():
            file.touch()
            file.chmod(0o644)
        self.hand_over(home)
        variables = {
            **SECRETS,
            "HOME": "/github/home",
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION": "__self",
            "GITHUB_API_URL": "https://api.github.com",
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": "/github/workflow/event.json",
            "GITHUB_JOB": "evals",
            "GITHUB_REPOSITORY": "octo/agent",
            "GITHUB_RUN_ID": "1",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_SHA": "0" * 40,
            "GITHUB_WORKSPACE": "/github/workspace",
            "RUNNER_OS": "Linux",
            "RUNNER_TEMP": "/github/runner_temp",
            **{variable: f"/github/file_commands/{file.name}" for variable, file in files.items()},
            **{f"INPUT_{name.replace(' ', '_').upper()}": value for name, value in (inputs or {}).items()},
            **(environment or {}),
        }
        name = f"agent-eval-test-{uuid.uuid4().hex[:12]}"
        if beside is not None:
            threading.Thread(target=beside, args=(name,), daemon=True).start()
        try:
            done = self.engine.run(
                "run", "--name", name, "--rm", "--workdir", "/github/workspace",
                *(part for variable in variables for part in ("-e", variable)),
                "-v", f"{self._socket()}:/var/run/docker.sock",
                *(part for target, source in mounts.items() for part in ("-v", f"{source}:{target}")),
                # Not the runner's: keeps the agents' environments between tests.
                "-v", f"{self.cache_volume}:{STATE_DIR}",
                self.image,
                *arguments,
                environment=variables,
                timeout=timeout,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            self.engine.run("kill", name)
            raise
        raw = {variable: file.read_text("utf-8") for variable, file in files.items()}
        return Finished(
            exit_code=done.returncode,
            log=done.stdout.decode("utf-8", "replace"),
            outputs=dict(outputs_in(raw["GITHUB_OUTPUT"])),
            summary=raw["GITHUB_STEP_SUMMARY"],
            workspace=workspace,
            temp=mounts["/github/runner_temp"],
            file_commands=raw,
        )

    def _socket(self) -> str:
        host = os.environ.get("DOCKER_HOST", "")
        return host.removeprefix("unix://") if host.startswith("unix://") else "/var/run/docker.sock"
