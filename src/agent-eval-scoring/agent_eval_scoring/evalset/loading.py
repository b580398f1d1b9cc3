"""Loads the eval suite of a repository: the cases to run, and all problems."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_eval_scoring.core.problem import Problem, Severity, capped, has_error
from agent_eval_scoring.core.process import collector_paused
from agent_eval_scoring.core.selectors import nearby, select
from agent_eval_scoring.core.text import listed, short_name
from agent_eval_scoring.evalset import parse
from agent_eval_scoring.evalset.checks import add_rubrics, check_against_config, check_cases, idle_rules, idle_weights
from agent_eval_scoring.evalset.discovery import Discovery, FoundFile, discover
from agent_eval_scoring.evalset.json import read_document
from agent_eval_scoring.evalset.models import CALL_METRICS, EvalCase, LoadedFile, Suite
from agent_eval_scoring.evalset.models.argument_rules import with_defaults
from agent_eval_scoring.evalset.models.packed import pack
from agent_eval_scoring.evalset.paths import absolute, name_of


def load_suite(
    root: Path,
    targets: Sequence[str] = (),
    *,
    exclude: Sequence[str] = (),
    config: Path | None = None,
    initial_session: Path | None = None,
    skip: Sequence[Path] = (),
    tool_args: Mapping[str, Mapping[str, Any]] | None = None,
    packed: Callable[[EvalCase], str] | None = None,
) -> Suite:
    """Finds, reads and checks eval files and their configs. Invalid files are reported, never raised.

    Args:
        root: The repository.
        targets: Files, directories and globs relative to the root, optionally with `:id1,id2`. Empty: the root.
        exclude: .gitignore patterns of files, configs and directories to skip.
        config: The config of all files, instead of the nearest one to each.
        initial_session: A JSON file with the initial session of legacy test files (lists of turns).
        skip: Directories not to search; files that are no eval files.
        tool_args: Rules for args by tool, which apply before those of the criteria.
        packed: Keep the turns of the cases as `PackedTurns`, with the hash that it returns.
    """
    with collector_paused():
        return _load_suite(
            absolute(root),
            discover(absolute(root), targets, exclude=exclude, skip=skip),
            config=config,
            initial_session=initial_session,
            tool_args=tool_args or {},
            packed=packed,
            complete=not targets or absolute(root) in [absolute(root / target) for target in targets],
        )


def _load_suite(
    root: Path,
    discovery: Discovery,
    *,
    config: Path | None,
    initial_session: Path | None,
    tool_args: Mapping[str, Mapping[str, Any]],
    packed: Callable[[EvalCase], str] | None,
    complete: bool,
) -> Suite:
    problems = list(discovery.problems)
    session = None
    if initial_session is not None:
        session_file = absolute(root / initial_session)
        session, session_problems = parse.read_session(session_file, name_of(session_file, root))
        problems += session_problems
    configs = parse.ConfigFinder(
        root=root, override=None if config is None else absolute(root / config), exclude=discovery.exclude
    )
    loaded: list[LoadedFile] = []
    ids: dict[str, list[str]] = {}
    unused_session = session is not None
    for file in discovery.files:
        eval_file, loaded_file, file_problems = _load(file, configs, session)
        problems += file_problems
        if eval_file is not None:
            ids[file.name] = [case.eval_id for case in eval_file.cases.values()]
            is_list_of_turns = eval_file.converted is not None and eval_file.converted.single_case
            unused_session = unused_session and not is_list_of_turns
        if loaded_file is not None:
            loaded.append(loaded_file)
            if packed is not None:
                pack(loaded_file.eval_set.eval_cases, packed)
    problems += configs.problems
    if discovery.files:  # Else it is no wonder, and the error for that is enough.
        problems += configs.unused(discovery.configs, [file.path for file in discovery.files])
    problems += _unmatched_ids(discovery, ids)
    if initial_session is not None and unused_session:
        problems.append(_unused_session(initial_session, root))
    clean = not has_error(problems)
    if clean and not any(file.cases for file in loaded):
        problems.append(
            Problem(
                code="no-eval-cases",
                message="The eval files contain no cases, so nothing would be gated.",
                hint="Add a case, or select other files.",
            )
        )
        if len(loaded) == 1:  # The warning about the only file has its place.
            places = [problem for problem in problems if problem.code == "empty-eval-set"]
            line, column = (places[0].line, places[0].column) if places else (1, 1)
            problems[-1] = dataclasses.replace(problems[-1], file=loaded[0].path, line=line, column=column)
            problems = [problem for problem in problems if problem not in places]
    if not clean:  # What is scored differently matters to a run that takes place.
        remarks = ("agents-cli-differs", Severity.NOTICE)
        problems = [problem for problem in problems if (problem.code, problem.severity) != remarks]
    if clean:
        problems += idle_weights(loaded, root)
        problems += idle_rules(loaded, root, tool_args, complete=complete)
    return Suite(
        files=tuple(_with_rules(file, tool_args) if tool_args else file for file in loaded),
        problems=tuple(sorted(capped(dict.fromkeys(problems)), key=_position)),
        file_count=len(discovery.files),
    )


def _with_rules(file: LoadedFile, tool_args: Mapping[str, Mapping[str, Any]]) -> LoadedFile:
    criteria = [
        dataclasses.replace(one, options={**one.options, "args": with_defaults(one.options["args"], tool_args)})
        if one.metric in CALL_METRICS
        else one
        for one in file.config.criteria
    ]
    return dataclasses.replace(file, config=dataclasses.replace(file.config, criteria=tuple(criteria)))


def _position(problem: Problem) -> tuple[str, int, int]:
    return problem.file or "", problem.line or 0, problem.column or 0


def _load(
    found_file: FoundFile, configs: parse.ConfigFinder, session: parse.LegacySession | None
) -> tuple[parse.EvalFile | None, LoadedFile | None, list[Problem]]:
    """Reads a file. Returns its content, its selected cases (None if it has an error), and the problems."""
    document, problems = read_document(found_file.path, found_file.name)
    of_dataset = document is not None and parse.is_dataset(document.value)
    config = (configs.for_dataset if of_dataset else configs.for_file)(found_file.path)
    if document is None:
        return None, None, problems
    file, file_problems = parse.read_eval_file(document, session=session)
    problems += file_problems
    if file is None:
        return None, None, problems
    if config is not None:
        problems += add_rubrics(file, config.criteria)
    problems += check_cases(file)
    problems = _without_consequences(problems)
    selected = None
    if found_file.ids:
        selected = select([case.eval_id for case in file.cases.values()], found_file.ids)
    indices = [index for index, case in file.cases.items() if selected is None or case.eval_id in selected]
    if config is not None:
        problems += check_against_config(file, indices, config)
    if config is None or file.eval_set is None or has_error(problems):
        return file, None, problems
    if selected is not None and not indices:
        return file, None, problems
    lines = file.case_lines()
    return (
        file,
        LoadedFile(
            path=found_file.name,
            eval_set=file.eval_set,
            config=config,
            cases=tuple(file.cases[index] for index in indices),
            lines={file.cases[index].eval_id: lines[index] for index in indices if index in lines},
            legacy=file.converted is not None and not file.is_dataset,
        ),
        problems,
    )


def _without_consequences(problems: list[Problem]) -> list[Problem]:
    """The problems without an error about the last of several values of a key: the others are the way out."""
    errors = {problem.path for problem in problems if problem.severity is Severity.ERROR}
    twice = {p.path: p for p in problems if p.code == "duplicate-key" and p.path is not None and p.path in errors}
    return [
        dataclasses.replace(twice[problem.path], severity=Severity.ERROR)
        if problem.code == "duplicate-key" and problem.path in twice
        else problem
        for problem in problems
        if problem.path not in twice or problem.code == "duplicate-key"
    ]


def _unmatched_ids(discovery: Discovery, ids: dict[str, list[str]]) -> list[Problem]:
    """Errors for ids and globs that match no case of their files."""
    problems = []
    for selector, names in discovery.groups:
        if any(name not in ids for name in names):
            continue  # An unreadable file is reported separately.
        eval_ids = [eval_id for name in names for eval_id in ids[name]]
        for pattern in selector.ids:
            if not select(eval_ids, [pattern]):
                close = [f"`{eval_id}`" for eval_id in nearby(pattern, eval_ids)]
                existing = listed([f"`{short_name(eval_id)}`" for eval_id in eval_ids], 10)
                existing = f"Its cases: {existing}." if eval_ids else "It has no cases."
                problems.append(
                    Problem(
                        code="unknown-eval-id",
                        message=f"No case of `{selector.path}` matches `{pattern}`.",
                        hint=f"Did you mean {' or '.join(close)}?" if close else existing,
                        file=names[0] if len(names) == 1 else None,
                    )
                )
    return problems


def _unused_session(path: Path, root: Path) -> Problem:
    return Problem(
        severity=Severity.WARNING,
        code="initial-session-unused",
        message="The initial session is not used: no file is a legacy test file (a list of turns).",
        hint="In the current format, set `session_input` of each case.",
        file=name_of(absolute(root / path), root),
    )
