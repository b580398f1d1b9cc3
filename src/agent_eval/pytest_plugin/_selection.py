"""The selected items as paths of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_eval.pytest_plugin._items import CaseItem


def selectors(items: Sequence[CaseItem]) -> Iterable[str]:
    """`FILE:ID,ID` for each file of the items."""
    by_file: dict[str, list[str]] = {}
    for item in items:
        by_file.setdefault(item.file, []).append(pattern(item.eval_id))
    for file, patterns in by_file.items():
        yield f"{file}:{','.join(dict.fromkeys(patterns))}"


def pattern(eval_id: str) -> str:
    """An id or a glob that names it.

    A comma separates ids, and spaces around an id are removed. Such an id is written with `?` for each character that
    has a meaning.
    """
    if "," not in eval_id and eval_id == eval_id.strip():
        return eval_id
    return "".join("?" if char in ",*?[" or char.isspace() else char for char in eval_id)
