"""What the root `action.yml` uses, as stand-ins for act: actions of others can't be downloaded everywhere."""

from __future__ import annotations

import re
from pathlib import Path

from container_engine import REPOSITORY

ACTION = (REPOSITORY / "action.yml").read_text("utf-8")
_USED = {
    "actions/cache": "cache",
    "actions/upload-artifact": "upload",
    "actions/download-artifact": "download",
}
ADDRESS = 'outputs:\n  artifact-url: {description: x, value: "${{ steps.upload.outputs.artifact-url }}"}\n'
"""The output of what stands for actions/upload-artifact."""


def stand_in(folder: Path, inputs: list[str], steps: str, outputs: str = "") -> None:
    """Writes an action that takes these inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    taken = "".join(f"  {name}: {{description: x}}\n" for name in inputs)
    text = f"name: x\ndescription: x\ninputs:\n{taken}{outputs}runs:\n  using: composite\n  steps:{steps}"
    (folder / "action.yml").write_text(text, "utf-8")


def replaced_actions(actions: Path) -> list[str]:
    """The arguments of act with which ours and what it uses come from this folder."""
    (actions / "ours").mkdir(parents=True, exist_ok=True)
    (actions / "ours/action.yml").write_text(ACTION, "utf-8")
    folders = {"org/agent-eval-action@v1": "ours"}
    for used, folder in _USED.items():
        (version,) = set(re.findall(rf"uses: {used}(?:/\w+)?@(\w+)", ACTION))
        folders[f"{used}@{version}"] = folder
    return [word for name, to in folders.items() for word in ("--local-repository", f"{name}={actions / to}")]
