"""The one entry to this room: a repository in, everything that will run and everything that is wrong out."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agent_eval.core.problem import Problem, Severity, capped
from agent_eval.core.selectors import nearby, select
from agent_eval.evalset.checks import check_against_config, check_cases, idle_weights
from agent_eval.evalset.discovery import Discovery, FoundFile, discover
from agent_eval.evalset.json import read_document
from agent_eval.evalset.models import LoadedFile, SelectedCase, Suite
from agent_eval.evalset.parse import ConfigFinder, EvalFile, LegacySession, read_eval_file, read_session
from agent_eval.evalset.paths import absolute, name_of


def load_suite(
    root: Path,
    targets: Sequence[str] = (),
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    config: Path | None = None,
    initial_session: Path | None = None,
    skip: Sequence[Path] = (),
) -> Suite:
    """Finds, reads and checks eval files and their configs. Nothing in a file makes it raise.

    Args:
        root: The repository.
        targets: Files, directories and globs, each perhaps with `:id1,id2`; relative to the root. None: all of it.
        include: Patterns as in a .gitignore that files in directories must match.
        exclude: Patterns of files and directories to leave out.
        config: The config of all files, instead of the one nearest to each.
        initial_session: A JSON file with the session that older test files (lists of turns) start in.
        skip: Directories not to search.
    """
    with _collector_paused():
        return _load_suite(
            absolute(root),
            discover(absolute(root), targets, include=include, exclude=exclude, skip=skip),
            config=config,
            initial_session=initial_session,
        )


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keeps the garbage collector from looking at every eval case again and again while they pile up.

    They hold no cycles. For 1,000 files of 10 cases it is 0.7 s instead of 2.6 s (measured, Python 3.11).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _load_suite(root: Path, found: Discovery, *, config: Path | None, initial_session: Path | None) -> Suite:
    problems = list(found.problems)
    session = None
    if initial_session is not None:
        session_file = absolute(root / initial_session)
        session, wrong = read_session(session_file, name_of(session_file, root))
        problems += wrong
    configs = ConfigFinder(root=root, override=None if config is None else absolute(root / config))
    loaded: list[LoadedFile] = []
    ids: dict[str, list[str]] = {}
    unused_session = session is not None
    for file in found.files:
        read, made, wrong = _load(file, configs, session)
        problems += wrong
        if read is not None:
            ids[file.name] = [case.eval_id for case in read.cases.values()]
            unused_session = unused_session and not (read.converted is not None and read.converted.single_case)
        if made is not None:
            loaded.append(made)
    problems += configs.problems
    problems += _unmatched_ids(found, ids)
    if initial_session is not None and unused_session:
        problems.append(_unused_session(initial_session, root))
    clean = not any(problem.severity is Severity.ERROR for problem in problems)
    if clean and not any(file.cases for file in loaded):
        problems.append(
            Problem(
                severity=Severity.ERROR,
                code="no-eval-cases",
                message="The eval files hold no case, so nothing would be gated.",
                hint="Add a case, or name other files.",
            )
        )
    if clean:
        problems += idle_weights(loaded, root)
    return Suite(
        files=tuple(loaded),
        problems=tuple(sorted(capped(dict.fromkeys(problems)), key=_place)),
        found=len(found.files),
    )


def _place(problem: Problem) -> tuple[str, int, int]:
    return problem.file or "", problem.line or 0, problem.column or 0


def _load(
    found: FoundFile, configs: ConfigFinder, session: LegacySession | None
) -> tuple[EvalFile | None, LoadedFile | None, list[Problem]]:
    """Reads a file; what it holds, what will run of it (None when it has an error), what is wrong."""
    config = configs.for_file(found.path)
    document, problems = read_document(found.path, found.name)
    if document is None:
        return None, None, problems
    file, wrong = read_eval_file(document, session=session)
    problems += wrong
    if file is None:
        return None, None, problems
    problems += check_cases(file)
    chosen = select([case.eval_id for case in file.cases.values()], found.ids) if found.ids else None
    indices = [index for index, case in file.cases.items() if chosen is None or case.eval_id in chosen]
    if config is not None:
        problems += check_against_config(file, indices, config)
    if config is None or file.eval_set is None or any(one.severity is Severity.ERROR for one in problems):
        return file, None, problems
    if chosen is not None and not indices:
        return file, None, problems
    lines = file.case_lines()
    return (
        file,
        LoadedFile(
            path=found.name,
            eval_set=file.eval_set,
            config=config,
            cases=tuple(SelectedCase(case=file.cases[index], line=lines.get(index)) for index in indices),
            legacy=file.converted is not None,
        ),
        problems,
    )


def _unmatched_ids(found: Discovery, ids: dict[str, list[str]]) -> list[Problem]:
    """Findings for ids and globs that name no case of any file they were given for."""
    problems = []
    for selector, names in found.groups:
        if any(name not in ids for name in names):
            continue  # A file that can't be read has its own finding.
        known = [eval_id for name in names for eval_id in ids[name]]
        for pattern in selector.ids:
            if not select(known, [pattern]):
                close = [f"`{eval_id}`" for eval_id in nearby(pattern, known)]
                listed = ", ".join(f"`{eval_id}`" for eval_id in known[:10])
                more = f" and {len(known) - 10} more" if len(known) > 10 else ""
                there = f"It has: {listed}{more}." if known else "It has no cases."
                problems.append(
                    Problem(
                        severity=Severity.ERROR,
                        code="unknown-eval-id",
                        message=f"No case of `{selector.path}` is called `{pattern}`.",
                        hint=f"Did you mean {' or '.join(close)}?" if close else there,
                        file=names[0] if len(names) == 1 else None,
                    )
                )
    return problems


def _unused_session(path: Path, root: Path) -> Problem:
    return Problem(
        severity=Severity.WARNING,
        code="initial-session-unused",
        message="The initial session applies to no file: none is an older test file (a list of turns).",
        hint="In the present format a case says it itself, in `session_input`.",
        file=name_of(absolute(root / path), root),
    )
