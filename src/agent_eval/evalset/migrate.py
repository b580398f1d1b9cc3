"""`agent-eval migrate OLD NEW`: an older file, written in the present form."""

from __future__ import annotations

from pathlib import Path

from agent_eval.core.problem import Problem, Severity
from agent_eval.evalset.discovery import SUFFIXES
from agent_eval.evalset.eval_files import read_eval_file
from agent_eval.evalset.legacy import read_session
from agent_eval.evalset.reading import read_document
from agent_eval.evalset.schema import EvalSet
from agent_eval.evalset.writing import write_eval_set


def migrate(old: Path, new: Path, *, initial_session: Path | None = None) -> list[Problem]:
    """Converts an eval file from either of ADK's older forms.

    The set's id is the new file's name, because ADK finds a set by it; the case that a list of turns becomes is called
    as the old file. Nothing is written when there is an error.

    Args:
        old: The file to read.
        new: The file to write; it may be the same.
        initial_session: A JSON file with the session that a list of turns starts in.

    Returns:
        What is wrong; no errors among it: the file was written.
    """
    session, problems = (
        (None, []) if initial_session is None else read_session(initial_session, initial_session.as_posix())
    )
    document, wrong = read_document(old, old.as_posix())
    problems += wrong
    if document is None or any(problem.severity is Severity.ERROR for problem in problems):
        return problems
    file, wrong = read_eval_file(document, session=session)
    if file is None or file.eval_set is None:
        return [*problems, *wrong]
    if file.converted is None:
        found = document.error(
            "not-legacy", "The file has the present format already.", hint="There is nothing to migrate."
        )
        return [*problems, found]
    problems += [problem for problem in wrong if problem.code != "legacy-format"]
    if initial_session is not None and not file.converted.single_case:
        problems.append(_unused(initial_session))
    try:
        write_eval_set(_named(file.eval_set, file.converted.single_case, old, new), new)
    except OSError as error:
        problems.append(
            Problem(
                severity=Severity.ERROR,
                code="unwritable-file",
                message=f"The file can't be written: {error.strerror}.",
                hint="Check the directory's permissions.",
                file=new.as_posix(),
            )
        )
    return problems


def _named(eval_set: EvalSet, single_case: bool, old: Path, new: Path) -> EvalSet:
    cases = eval_set.eval_cases
    if single_case:
        cases = [case.model_copy(update={"eval_id": stem(old)}) for case in cases]
    return EvalSet(eval_set_id=stem(new), eval_cases=cases)


def stem(path: Path) -> str:
    """A file's name without the suffix that makes it an eval file."""
    for suffix in (*SUFFIXES, ".json"):
        if path.name.endswith(suffix) and path.name != suffix:
            return path.name.removesuffix(suffix)
    return path.name


def _unused(session: Path) -> Problem:
    return Problem(
        severity=Severity.WARNING,
        code="initial-session-unused",
        message="The initial session is not used: a list of evals says it itself, in `initial_session`.",
        hint="Only older test files (lists of turns) take it from a file of its own.",
        file=session.as_posix(),
    )
