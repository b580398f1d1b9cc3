"""`agent-eval export adk`: writes results where `adk web` lists them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from agent_eval.baseline.reader import UnreadableError
from agent_eval.commands import CliIO
from agent_eval.core.text import harmless, plural
from agent_eval.evalset.json import write_text
from agent_eval_workbench.exports import StoredRun, adk_exports, adk_json

HISTORY = Path(".adk", "eval_history")
"""Where `adk web` keeps results, below the directory of an agent (google-adk 2.13.0)."""
_HINT = "Name the directory of the agent with `--agent DIR`."


def write_history(stored: StoredRun, agent: Path | None, io: CliIO) -> None:
    """Writes the results of a run to the histories of its agents.

    Args:
        stored: The run.
        agent: The directory of the agent; None for that of each agent that ran, below the current directory.
        io: Where to log.

    Raises:
        UnreadableError: No agent of the run has a directory here, or a link is in the way.
        OSError: A file can't be written.
    """
    root = Path.cwd()
    agents = {file.file: file.agent for file in stored.report.files}
    folders = {}
    for file in dict.fromkeys(case.file for case in stored.report.cases):
        folder = agent if agent is not None else _folder(agents.get(file, ""), root)
        if folder is not None:
            folders[file] = folder
        else:
            io.log(f"agent-eval: {harmless(file)} is left out: its agent has no directory here. {_HINT}")
    _check(folders)
    written = 0
    for export in adk_exports(stored, {file: folder.resolve().name for file, folder in folders.items()}):
        path = folders[export.file] / HISTORY / export.name
        write_text(path, json.dumps(adk_json(export.result), indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        io.log(f"Wrote {harmless(os.path.relpath(path, root))}")
        written += 1
    if not written:
        raise UnreadableError("No case of these results has run, so there is nothing to export.", "Run it again.")
    io.log(f"{plural(written, 'result')} for the Eval tab of `adk web`.")


def _folder(agent: str, root: Path) -> Path | None:
    """The directory of an agent by its name; None if it isn't one below the root."""
    path = root / agent
    inside = bool(agent) and path.resolve().is_relative_to(root.resolve()) and path.resolve() != root.resolve()
    return path if inside and path.is_dir() else None


def _check(folders: Mapping[str, Path]) -> None:
    if not folders:
        raise UnreadableError("None of the agents of these results is a directory here.", _HINT)
    for folder in set(folders.values()):
        if not folder.is_dir():
            raise UnreadableError(f"{harmless(str(folder))} is not a directory.", _HINT)
        history = folder / HISTORY
        # A link in a checkout could lead what we write to another place.
        link = next((path for path in (history.parent, history) if path.is_symlink()), None)
        if link is not None:
            raise UnreadableError(f"{harmless(str(link))} is a symbolic link.", "Remove the link.")
