"""Why no eval file was found: names the files that git ignores, and those that only lack the suffix."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from agent_eval.core.files import MAX_SETTINGS, read_regular
from agent_eval.core.text import listed
from agent_eval.evalset.discovery._listing import SUFFIXES, ignored_by, only_tracked_files
from agent_eval.evalset.paths import name_of

_MOST_FILES = 2_000
_KEYS = (b'"eval_cases"', b'"evalCases"', b'"expected_tool_use"')
"""What only eval files have: sets in both spellings, and lists of turns."""


def reasons(root: Path, directories: list[Path], skip: frozenset[Path]) -> Iterator[str]:
    """Sentences about agents that were named instead, and about files that look like eval files but were not found.

    Args:
        root: The repository.
        directories: The searched directories.
        skip: Directories not to search.
    """
    for agent in (path for path in directories if path != root and (path / "agent.py").is_file()):
        name = name_of(agent, root)
        yield f"`{name}` is an agent: `agent-eval run --agent {name}` runs the eval files of the repository on it."
    files = list(islice((path for folder in directories for path in _json_files(folder, skip)), _MOST_FILES))
    for path in (path for path in files if path.name.endswith(SUFFIXES)):
        if (rule := ignored_by(path)) is not None:
            yield f"Git ignores `{name_of(path, root)}` ({rule})."
            break  # Usually the rule covers the others, too.
    lacking = [path for path in files if not path.name.endswith(SUFFIXES) and _looks_like_evals(path)]
    if lacking:
        names = listed([f"`{name_of(path, root)}`" for path in lacking], 3)
        first = lacking[0]
        right = f"{first.name.split('.')[0]}{SUFFIXES[1]}"
        what = "looks like an eval file" if len(lacking) == 1 else "look like eval files"
        yield f"{names} {what}: rename {'it' if len(lacking) == 1 else 'them'}, e.g. to `{right}`."


def _json_files(directory: Path, skip: frozenset[Path]) -> Iterator[Path]:
    for folder, folders, files in os.walk(directory):
        folders[:] = sorted(name for name in folders if not only_tracked_files(Path(folder, name), skip))
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".json"))


def _looks_like_evals(path: Path) -> bool:
    try:
        text = read_regular(path, MAX_SETTINGS)
    except OSError:
        return False
    return any(key in text for key in _KEYS)
