"""Interpreters and their variables, before anything is known of an environment."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from agent_eval_agents.sandbox import Sandbox


def activation(python: Path, sandbox: Sandbox) -> dict[str, str]:
    """The variables that activate an interpreter's environment."""
    folder = python.parent
    path = os.pathsep.join((str(folder), sandbox.environment.get("PATH", os.defpath)))
    is_venv = (folder.parent / "pyvenv.cfg").is_file()
    return {"PATH": path} | ({"VIRTUAL_ENV": str(folder.parent)} if is_venv else {})


def likely_start(named: str, root: Path, sandbox: Sandbox) -> tuple[Path, Sandbox] | None:
    """The interpreter, if `agent-python` names a file, and the sandbox that an agent of it will have; unchecked."""
    python = root / named
    if not os.path.isfile(python):  # noqa: PTH113 - Path's raises where a directory can't be entered
        return None
    return python, replace(sandbox, environment={**sandbox.environment, **activation(python, sandbox)})
