"""What it takes to run a workflow for real, by act."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from container_engine import REPOSITORY
from gate_runs import program

from agent_eval.settings import SETTINGS


def run_act(
    *arguments: str, cwd: Path, environment: Mapping[str, str], timeout: float = 400
) -> subprocess.CompletedProcess[bytes]:
    """Runs a workflow of a checkout; what act says is in `stdout`.

    Args:
        arguments: The event first.
        cwd: The checkout.
        environment: All of it.
        timeout: Seconds after which it is killed.
    """
    return subprocess.run(
        [Path(sys.executable).with_name("act"), *arguments, "--no-cache-server"],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout,
        check=False,
    )


def copied(root: Path, base: str) -> Path:
    """A copy of what git has of us, that builds on this base image; no repository yet."""
    listed = program("git", "-c", f"safe.directory={REPOSITORY}", "-C", REPOSITORY, "ls-files", "-z")
    for name in filter(None, listed.stdout.split("\0")):
        if (REPOSITORY / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, root / name)
    dockerfile = root / "Dockerfile"
    dockerfile.write_text(
        re.sub(r"^ARG BASE_IMAGE=.*$", f"ARG BASE_IMAGE={base}", dockerfile.read_text("utf-8"), flags=re.MULTILINE),
        "utf-8",
    )
    return root


# What the root `action.yml` uses, as stand-ins for act: actions of others can't be downloaded everywhere.

ACTION = (REPOSITORY / "action.yml").read_text("utf-8")
_USED = {"actions/cache": "cache", "actions/upload-artifact": "upload", "actions/download-artifact": "download"}
ADDRESS = 'outputs:\n  artifact-url: {description: x, value: "${{ steps.upload.outputs.artifact-url }}"}\n'
"""The output of what stands for actions/upload-artifact."""


NOTHING = '\n    - shell: bash\n      run: "true"\n'
_GATE_OUTPUTS = "outputs:\n" + "".join(
    f'  {name}: {{description: x, value: "${{{{ steps.gate.outputs.{name} }}}}"}}\n'
    for name in ("verdict", "report-file")
)


def stand_in(folder: Path, inputs: list[str], steps: str, outputs: str = "") -> None:
    """Writes an action that takes these inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    taken = "".join(f"  {name}: {{description: x}}\n" for name in inputs)
    text = f"name: x\ndescription: x\ninputs:\n{taken}{outputs}runs:\n  using: composite\n  steps:{steps}"
    (folder / "action.yml").write_text(text, "utf-8")


def stand_ins(actions: Path, *, upload: str, download: str = NOTHING, cache: str = NOTHING) -> None:
    """Writes what stands for actions of others: their steps; CACHE of `cache` is `restore` or `save`."""
    for name in ("restore", "save"):
        stand_in(actions / "cache" / name, ["path", "key", "restore-keys"], cache.replace("CACHE", name))
    stand_in(actions / "upload", ["name", "path", "retention-days", "archive", "overwrite"], upload, ADDRESS)
    stand_in(actions / "download", ["pattern", "path"], download)


def gate_stand_in(actions: Path, steps: str) -> None:
    """Writes what stands for the gate."""
    stand_in(actions / "ours/gate", [setting.input for setting in SETTINGS], steps, _GATE_OUTPUTS)


def replaced_actions(actions: Path) -> list[str]:
    """The arguments of act with which ours and what it uses come from this folder."""
    (actions / "ours").mkdir(parents=True, exist_ok=True)
    (actions / "ours/action.yml").write_text(ACTION, "utf-8")
    folders = {"org/agent-eval-action@v1": "ours"}
    for used, folder in _USED.items():
        (version,) = set(re.findall(rf"uses: {used}(?:/\w+)?@(\w+)", ACTION))
        folders[f"{used}@{version}"] = folder
    return [word for name, to in folders.items() for word in ("--local-repository", f"{name}={actions / to}")]
