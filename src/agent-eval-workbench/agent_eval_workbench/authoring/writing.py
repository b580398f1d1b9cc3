"""Writes changed cases into their eval files, whose other characters stay as they are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_eval_scoring.core.problem import Problem, errors_of
from agent_eval_scoring.evalset.checks import check_cases
from agent_eval_scoring.evalset.json import (
    PatchError,
    parse_document,
    patched_text,
    replaced,
    value_text,
    write_if_unchanged,
)
from agent_eval_scoring.evalset.parse import read_eval_file
from agent_eval_workbench.authoring.proposals import Proposal
from agent_eval_workbench.authoring.prospects import OpenFile

CASES = "eval_cases"


def by_file(proposals: Iterable[Proposal]) -> Iterator[tuple[OpenFile, list[Proposal]]]:
    """The files with the proposals for their cases."""
    files: dict[str, tuple[OpenFile, list[Proposal]]] = {}
    for proposal in proposals:
        file = proposal.prospect.file
        files.setdefault(file.loaded.path, (file, []))[1].append(proposal)
    yield from files.values()


def changed_text(file: OpenFile, proposals: Iterable[Proposal]) -> str:
    """The text of a file with the proposed cases.

    Raises:
        PatchError: The text can't be changed as intended.
    """
    value = file.value
    for proposal in proposals:
        value = replaced(value, (CASES, proposal.prospect.index), proposal.value)
    return patched_text(file.text, file.value, value)


def write(root: Path, file: OpenFile, proposals: Sequence[Proposal]) -> list[Problem]:
    """Writes the proposed cases of a file.

    Returns:
        Why nothing was written; empty if it was.

    Raises:
        OSError: The file can't be written.
    """
    try:
        write_if_unchanged(root / file.loaded.path, file.text, changed_text(file, proposals))
    except PatchError as error:
        return [patch_problem(file.loaded.path, error)]
    return []


def patch_problem(file: str, error: PatchError) -> Problem:
    """The problem of a text that can't be changed."""
    return Problem(
        code="accept-patch",
        message=f"Nothing was written: {error}.",
        hint="Remove duplicate keys, or start again if the file was changed meanwhile.",
        file=file,
    )


def errors_in(text: str, file: str) -> list[Problem]:
    """The errors that `agent-eval validate` would report for the text of an eval file without its config."""
    document, problems = parse_document(text.encode(), file)
    if document is not None:
        parsed, problems = read_eval_file(document, session=None)
        problems += [] if parsed is None else check_cases(parsed)
    return errors_of(problems)


def unified(before: str, after: str, file: str) -> str:
    """The change of a file as a unified diff; "" if there is none.

    Only the lines from the first to the last difference are compared, because whole files can be large.
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    shorter = min(len(old), len(new))
    start = next((number for number in range(shorter) if old[number] != new[number]), shorter)
    most = shorter - start
    tail = next((number for number in range(most) if old[-1 - number] != new[-1 - number]), most)
    if start == len(old) == len(new):
        return ""
    context = 3
    first = max(start - context, 0)
    last = max(tail - context, 0)
    lines = difflib.unified_diff(
        old[first : len(old) - last], new[first : len(new) - last], f"a/{file}", f"b/{file}", n=context
    )
    return "".join(_moved(line, first) for line in lines)


def _moved(line: str, lines: int) -> str:
    """A line of a diff; in the header of a hunk, `lines` is added to the line numbers."""
    if not line.startswith("@@"):
        return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
    parts = line.split(" ")
    for place in (1, 2):
        sign, (number, *count) = parts[place][0], parts[place][1:].split(",")
        parts[place] = f"{sign}{','.join([str(int(number) + lines), *count])}"
    return " ".join(parts)


def case_text(file: OpenFile, index: int, value: Mapping[str, Any]) -> str:
    """The text of a case with a new value, as it would be in its file, without the indentation of the file.

    Raises:
        PatchError: The text can't be changed as intended.
    """
    changed = replaced(file.value, (CASES, index), value)
    return value_text(patched_text(file.text, file.value, changed), (CASES, index))
