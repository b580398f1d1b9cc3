"""Names of new eval sets."""

from __future__ import annotations

from pathlib import Path

from agent_eval.core.problem import Problem, Severity
from agent_eval.evalset.discovery import SUFFIXES, discover
from agent_eval.evalset.json import read_document
from agent_eval.evalset.paths import absolute


def new_set_id(new: Path, root: Path | None) -> tuple[str, list[Problem]]:
    """The id of a new eval set: the stem of its file, because ADK finds an eval set by it.

    Args:
        new: The file.
        root: The directory whose eval files must not have the same id. None skips this check.

    Returns:
        The id, and a notice if it is not the stem because another file has it.
    """
    name = stem(new)
    taken = _set_ids(root, new) if root is not None else {}
    if name not in taken:
        return name, []
    longer = f"{name}_{absolute(new).parent.name}"
    return longer, [
        Problem(
            severity=Severity.NOTICE,
            code="eval-set-id-taken",
            message=f"The id of the eval set is `{longer}`, because `{taken[name]}` has the id `{name}`.",
            hint="`adk web` finds an eval set by the name of its file.",
            file=new.as_posix(),
        )
    ]


def _set_ids(root: Path, exclude: Path) -> dict[str, str]:
    """The ids of the eval sets below a directory, each with the name of a file, except for one file."""
    ids: dict[str, str] = {}
    for file in discover(root).files:
        document = None if file.path == absolute(exclude) else read_document(file.path, file.name)[0]
        set_id = document.value.get("eval_set_id") if document and isinstance(document.value, dict) else None
        if isinstance(set_id, str):
            ids.setdefault(set_id, file.name)
    return ids


def stem(path: Path) -> str:
    """A file's name without the suffix of an eval file."""
    for suffix in (*SUFFIXES, ".json"):
        if path.name.endswith(suffix) and path.name != suffix:
            return path.name.removesuffix(suffix)
    return path.name
