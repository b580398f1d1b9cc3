"""The command that runs cases again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent_eval_results import CaseReport
from agent_eval_results.report.views.detail import one_line
from agent_eval_results.report.views.links import LONGEST_PATH

_MOST_SELECTORS = 20
_LONGEST_COMMAND = 2_000


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """How to run cases again."""

    command: str = ""
    """For a POSIX shell; "" if no case can be selected."""
    left_out: int = 0
    """Cases that the command does not run, because they can't be selected or are too many."""
    whole: Sequence[str] = ()
    """Files of which the command runs all cases, also those that were not asked for."""


def reproduce(cases: Sequence[CaseReport], options: Mapping[str, str] | None = None) -> Reproduction:
    """The command that runs these cases again.

    Args:
        cases: The cases.
        options: The report's `options`, which are flags of the run.
    """
    by_file: dict[str, list[str]] = {}
    for case in cases:
        by_file.setdefault(case.file, []).append(case.eval_id)
    selectors: list[str] = []
    whole: list[str] = []
    selected = 0
    for file, ids in by_file.items():
        selector = _selector(file, ids)
        if selector is None or len(selectors) == _MOST_SELECTORS or sum(map(len, selectors)) > _LONGEST_COMMAND:
            continue
        selectors.append(shlex.quote(selector))
        selected += len(ids)
        if selector in {file, f"./{file}"}:
            whole.append(file)
    command = " ".join(["agent-eval run", *_flags(options or {}), *selectors]) if selected else ""
    return Reproduction(command=command, left_out=len(cases) - selected, whole=whole)


REPEATED = ("agent", "config", "agent-python", "replay")
"""Settings that a run on another machine needs as well."""


def _flags(options: Mapping[str, str]) -> Iterator[str]:
    for name in REPEATED:
        value = options.get(name, "")
        if name == "agent-python" and options.get("agent", "").startswith("recorded:"):
            continue  # No agent runs, and the path is one of this machine.
        if value and not value.startswith("-") and len(value) <= LONGEST_PATH and one_line(value) == value:
            yield f"--{name} {shlex.quote(value)}"


def _selector(file: str, ids: Sequence[str]) -> str | None:
    """The selector of these cases of a file; None if the path can't be typed."""
    if not 0 < len(file) <= LONGEST_PATH or one_line(file) != file:
        return None
    # A leading dash would make it a flag, for example one that runs a command.
    path = f"./{file}" if file.startswith("-") else file
    # An id that is very long or has a comma can't be selected; for very many, the whole file is run.
    named = [eval_id for eval_id in ids if "," not in eval_id and len(eval_id) <= 100 and one_line(eval_id) == eval_id]
    whole = len(named) < len(ids) or len(ids) > _MOST_SELECTORS or ids == [file]
    return path if whole else f"{path}:{','.join(named)}"
