"""Starts a container action as GitHub's runner does, and reads its log as the runner does.

Source: actions/runner, src/Runner.Worker/Handlers/ContainerActionHandler.cs (mounts, variables),
Container/DockerCommandManager.cs (`docker run`), FileCommandManager.cs (file commands),
src/Runner.Common/ActionCommand.cs (commands in the log); read at 258d6c857.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from container_engine import REPOSITORY, Engine

from agent_eval.agents.sandbox.uids import STATE_DIR

RUNNER_USER = (1001, 118)
"""Whom the workspace belongs to on a hosted runner (`runner:docker`)."""

COMMANDS = frozenset(
    {
        "add-mask", "add-matcher", "add-path", "debug", "echo", "endgroup", "error", "group",
        "internal-set-repo-path", "notice", "remove-matcher", "save-state", "set-env", "set-output", "warning",
    }
)  # fmt: skip

SECRETS = {
    "GITHUB_TOKEN": "ghs_parents_github_token_0123456789",
    "ACTIONS_RUNTIME_TOKEN": "actions.runtime.token.0123456789",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "id.token.request.0123456789",
    "INPUT_JUDGE-API-KEY": "input_key_with_dashes_0123456789",
    "SOME_SECRET": "job_level_secret_0123456789",
}
"""What a job has in its environment and an agent must not see."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A workflow command that the runner would carry out."""

    name: str
    properties: Mapping[str, str]
    data: str


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
        return list(commands_in(self.log))

    def results(self, folder: str = "agent-eval-results") -> dict[str, Any]:
        """The parsed results.json."""
        result: dict[str, Any] = json.loads((self.workspace / folder / "results.json").read_text("utf-8"))
        return result


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
        for name, text in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text, "utf-8")
        git = ["git", "-C", str(path), "-c", "user.name=t", "-c", "user.email=t@example.org"]
        for arguments in (
            ["init", "--quiet", "--initial-branch=main"],
            ["add", "--all"],
            ["commit", "--quiet", "--allow-empty", "--message=start"],
            ["config", "http.https://github.com/.extraheader", "AUTHORIZATION: basic c2VjcmV0LWNoZWNrb3V0LXRva2Vu"],
        ):
            subprocess.run([*git, *arguments], check=True, capture_output=True, timeout=60)
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


def eval_set(name: str, cases: Mapping[str, tuple[str, str]]) -> str:
    """The text of an eval set with cases of one turn: what the user says, what is expected, by eval id."""

    def message(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "parts": [{"text": text}]}

    return json.dumps(
        {
            "eval_set_id": name,
            "eval_cases": [
                {
                    "eval_id": eval_id,
                    "conversation": [
                        {"user_content": message("user", said), "final_response": message("model", expected)}
                    ],
                }
                for eval_id, (said, expected) in cases.items()
            ],
        }
    )


def outputs_in(text: str) -> list[tuple[str, str]]:
    """What the runner reads from a file of outputs.

    Raises:
        ValueError: The step would fail with a parse error.
    """
    result = []
    lines = iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        equals, heredoc = line.find("="), line.find("<<")
        if equals >= 0 and (heredoc < 0 or equals < heredoc):
            result.append((line[:equals], line[equals + 1 :]))
        elif heredoc >= 0:
            name, delimiter = line[:heredoc], line[heredoc + 2 :]
            value = []
            for inner in lines:
                if inner == delimiter:
                    break
                value.append(inner)
            else:
                raise ValueError(f"no end delimiter {delimiter!r} for {name!r}")
            result.append((name, "\n".join(value)))
        else:
            raise ValueError(f"neither NAME=VALUE nor NAME<<DELIMITER: {line!r}")
    return result


def commands_in(log: str) -> list[Command]:
    """The commands that the runner would carry out, honouring `stop-commands`."""
    result = []
    token: str | None = None
    for line in log.splitlines():
        command = _second_form(line, token) or _first_form(line)
        if command is None:
            continue
        if token is not None:
            if command.name == token:
                token = None
        elif command.name == "stop-commands":
            token = command.data
        elif command.name in COMMANDS:
            result.append(command)
    return result


def _second_form(line: str, token: str | None) -> Command | None:
    """`::name key=value,...::data` at the start of a line."""
    match = re.match(r"\s*::(?P<name>[^\s:]+)(?:\s+(?P<properties>.*?))?::(?P<data>.*)$", line)
    if match is None:
        return None
    return Command(
        name=match["name"], properties=_properties(match["properties"] or "", ","), data=_unescape(match["data"])
    )


def _first_form(line: str) -> Command | None:
    """`##[name key=value;...]data` anywhere in a line."""
    match = re.search(r"##\[(?P<name>[^\s\]]+)(?:\s+(?P<properties>[^\]]*))?\](?P<data>.*)$", line)
    if match is None:
        return None
    return Command(
        name=match["name"], properties=_properties(match["properties"] or "", ";"), data=_unescape(match["data"])
    )


def _properties(text: str, separator: str) -> dict[str, str]:
    pairs = (part.split("=", 1) for part in text.split(separator) if "=" in part)
    return {name.strip(): _unescape(value) for name, value in pairs}


def _unescape(text: str) -> str:
    for code, character in {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%3B": ";", "%5D": "]"}.items():
        text = text.replace(code, character)
    return text.replace("%25", "%")
