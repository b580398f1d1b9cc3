"""Each contract on imports between the packages fails when an import violates it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
VIOLATIONS = {
    "Imports go downwards": ("agent_eval/core/text.py", "agent_eval.runner"),
    "Imports of the workbench go downwards": (
        "agent_eval_workbench/sources/cases.py",
        "agent_eval_workbench.commands.edit",
    ),
    "The gate does not import the workbench": ("agent_eval/commands/run.py", "agent_eval_workbench.sources"),
    "The workbench imports nothing on top of the gate": ("agent_eval_workbench/commands/init.py", "agent_eval.cli"),
    "What runs beside the agent imports nothing of ours": ("agent_eval_host/values.py", "agent_eval.core.text"),
    "Nothing of ours imports what runs beside the agent": ("agent_eval_workbench/commands/init.py", "agent_eval_host"),
    "A private module is imported by its own package only": (
        "agent_eval_workbench/commands/init.py",
        "agent_eval.pipeline._files",
    ),
}
"""A file and what it must not import, by the name of the contract."""


def broken(copy: Path) -> list[str]:
    """The contracts that don't hold in a copy of the source."""
    code = "import sys; sys.path[:0] = ['src', '.']; from importlinter.cli import lint_imports_command as lint; lint()"
    command = [sys.executable, "-c", code, "--no-logo", "--no-cache"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=120, check=False)
    lines = done.stdout.splitlines()
    assert any(line.startswith("Contracts: ") for line in lines), done.stdout + done.stderr
    return [line.partition(" BROKEN")[0] for line in lines if " BROKEN" in line]


def test_contracts__each_fails_when_it_is_violated(tmp_path: Path) -> None:
    """All at once: no violation is one of another contract, but that together they make a circle.

    `make lint` checks that they hold.
    """
    copy = tmp_path / "copy"
    for name in ("src", "tools"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for name, imported in VIOLATIONS.values():
        with (copy / "src" / name).open("a", encoding="utf-8") as file:
            file.write(f"\nimport {imported}\n")
    assert sorted(broken(copy)) == sorted([*VIOLATIONS, "No package imports another in a circle"])
