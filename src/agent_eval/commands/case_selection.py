"""Cases of a report that the user selects, as for `agent-eval run`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path, PurePosixPath

from agent_eval.baseline.reader import UnreadableError
from agent_eval.core.selectors import matches, nearby, parse_selector
from agent_eval.core.text import harmless, plural
from agent_eval.results import DEFAULT, FILES, CaseReport, RunReport

_EVAL_FILES = (".test.json", ".evalset.json")


def split_words(words: Sequence[str], root: Path) -> tuple[Path, Sequence[str]]:
    """Splits the arguments `[RESULTS] [CASES...]`.

    The first one names the results if it is a file other than an eval file, or an output directory.

    Args:
        words: The arguments of the command.
        root: The directory that paths are relative to.
    """
    if words:
        path = root / words[0]
        # pathlib raises an error for a name that is too long for a file: many cases after a colon.
        is_file = os.path.isfile(path) and not words[0].endswith(_EVAL_FILES)  # noqa: PTH113
        if is_file or os.path.exists(path / FILES["results-file"]):  # noqa: PTH110
            return path, words[1:]
    return root / DEFAULT, words


def select_cases(report: RunReport, selectors: Sequence[str], source: str) -> list[CaseReport]:
    """The cases that at least one of the selectors selects.

    Args:
        report: The results.
        selectors: Eval ids, case ids, FILE:ID,ID, files, directories, globs of ids; `cause:2` for the cases with the
            second cause of the report.
        source: The name of the results, safe to print.

    Raises:
        UnreadableError: A selector selects no case.
    """
    paths = {case.file for case in report.cases}
    paths |= {str(folder) for file in paths for folder in PurePosixPath(file).parents}
    selected: set[str] = set()
    for selector in selectors:
        is_selected = _selector(selector.removeprefix("./"), paths)
        matching = {case.case_id for case in report.cases if is_selected(case)} or _with_cause(selector, report, source)
        if not matching:
            raise UnreadableError(f"{source} has no case {harmless(selector)!r}.", _suggestion(selector, report))
        selected |= matching
    return [case for case in report.cases if case.case_id in selected]


def _selector(text: str, paths: Collection[str]) -> Callable[[CaseReport], bool]:
    """Whether a case is selected by an eval id, a case id, FILE:ID,ID, a file, a directory, or a glob of ids.

    Args:
        text: The selector.
        paths: The files of the results, and the directories above them.
    """
    selector = parse_selector(text.rstrip("/"), paths.__contains__)
    path = selector.path if selector.path in paths else None

    def is_selected(case: CaseReport) -> bool:
        if matches(text, case.eval_id) or matches(text, case.case_id):
            return True
        in_path = path is not None and (path in {case.file, "."} or case.file.startswith(f"{path}/"))
        return in_path and (not selector.ids or any(matches(pattern, case.eval_id) for pattern in selector.ids))

    return is_selected


def _with_cause(selector: str, report: RunReport, source: str) -> set[str]:
    """The cases of `cause:NUMBER`; none if the selector is another.

    Raises:
        UnreadableError: There is no such cause.
    """
    name, separator, number = selector.partition(":")
    if name != "cause" or not separator:
        return set()
    causes = [f"cause:{place} is: {cause.message}" for place, cause in enumerate(report.causes, 1)]
    if not number.isdecimal() or not 0 < int(number) <= len(causes):
        hint = "; ".join(causes) or "No failing cases have a cause in common."
        raise UnreadableError(f"{source} has no {harmless(selector)!r}.", harmless(hint))
    return set(report.causes[int(number) - 1].cases)


def _suggestion(selector: str, report: RunReport) -> str:
    names = [name for case in report.cases for name in (case.eval_id, case.case_id)]
    if close := nearby(selector, names):
        return f"Did you mean {harmless(' or '.join(map(repr, close)))}?"
    some = ", ".join(case.eval_id for case in report.cases[:5]) + (", …" if len(report.cases) > 5 else "")
    return harmless(f"It has {plural(len(report.cases), 'case')}: {some}") if some else "It has no cases."
