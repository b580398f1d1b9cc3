"""`agent-eval migrate OLD NEW`: an older file, or a file of scenarios, written as an eval set."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from agent_eval.core.problem import Problem, Severity, has_error
from agent_eval.evalset.checks import check_cases
from agent_eval.evalset.discovery import SUFFIXES, discover
from agent_eval.evalset.json import Document, JsonPath, eval_set_text, read_document, write_text
from agent_eval.evalset.models import EvalCase, EvalSet, SessionInput
from agent_eval.evalset.parse import (
    ConversationScenarios,
    Converted,
    EvalFile,
    eval_id_of,
    read_eval_file,
    read_session,
    shape_problems,
)
from agent_eval.evalset.paths import absolute


def migrate(old: Path, new: Path, *, initial_session: Path | None = None, root: Path | None = None) -> list[Problem]:
    """Converts an eval file from either of ADK's older forms, or a file of scenarios (`{"scenarios": [...]}`).

    Comments and trailing commas are dropped; a file in the present form, or a config, that has any is written without.

    The set's id is the new file's name, because ADK finds a set by it. If another file has that id already, the name of
    the directory follows. The case that a list of turns becomes is called as the old file, that of a scenario as ADK
    would call it. Nothing is written when there is an error.

    Args:
        old: The file to read.
        new: The file to write; it may be the same.
        initial_session: A JSON file with the session that a list of turns, or each of the scenarios, starts in.
        root: The directory whose eval files must not have the same id; None: no one is asked.

    Returns:
        What is wrong; no errors among it: the file was written.
    """
    document, problems = read_document(old, old.as_posix(), lenient=True)
    if document is not None and isinstance(document.value, dict) and "scenarios" in document.value:
        return _migrate_scenarios(document, problems, new, initial_session, root)
    session, wrong = (
        (None, []) if initial_session is None else read_session(initial_session, initial_session.as_posix())
    )
    problems = [*wrong, *problems]
    if document is None or has_error(problems):
        return problems
    cleaned = None
    if any(problem.code == "json-cleaned" for problem in problems):
        cleaned = json.dumps(document.value, indent=2, ensure_ascii=False) + "\n"
    if cleaned is not None and isinstance(document.value, dict) and "criteria" in document.value:
        return problems + _write(cleaned, new)
    file, wrong = read_eval_file(document, session=session)
    if file is None or file.eval_set is None:
        return [*problems, *wrong]
    if file.converted is None and cleaned is not None:
        return [*problems, *wrong, *([] if has_error(wrong) else _write(cleaned, new))]
    if file.converted is None:
        found = document.error(
            "not-legacy", "The file has the present format already.", hint="There is nothing to migrate."
        )
        return [*problems, found]
    problems += [problem for problem in wrong if problem.code != "legacy-format"]
    if initial_session is not None and not file.converted.single_case:
        problems.append(_unused(initial_session))
    cases = file.eval_set.eval_cases
    if file.converted.single_case:
        cases = [case.model_copy(update={"eval_id": stem(old)}) for case in cases]
    set_id, renamed = _set_id(new, root)
    return problems + renamed + _write(eval_set_text(EvalSet(eval_set_id=set_id, eval_cases=cases)), new)


def _write(text: str, new: Path) -> list[Problem]:
    try:
        write_text(new, text)
    except OSError as error:
        return [
            Problem(
                severity=Severity.ERROR,
                code="unwritable-file",
                message=f"The file can't be written: {error.strerror}.",
                hint="Check the directory's permissions.",
                file=new.as_posix(),
            )
        ]
    return []


@dataclass(frozen=True, kw_only=True)
class _Scenarios(Converted):
    """A file of scenarios as an eval set."""

    places: tuple[int, ...]
    """Where in the file the scenario of each case stands."""

    def source_path(self, path: JsonPath) -> JsonPath:
        match path:
            case ("eval_cases", int(index), "conversation_scenario", *rest):
                return ("scenarios", self.places[index], *rest)
            case ("eval_cases", int(index), *_):
                return ("scenarios", self.places[index])
        return ()


def _migrate_scenarios(
    document: Document, problems: list[Problem], new: Path, initial_session: Path | None, root: Path | None
) -> list[Problem]:
    session, wrong = (None, []) if initial_session is None else _session_input(initial_session)
    problems = [*wrong, *problems]
    try:
        scenarios = ConversationScenarios.model_validate(document.value).scenarios
    except ValidationError as error:
        return [*problems, *shape_problems(document, error, ConversationScenarios, ())]
    cases: dict[str, EvalCase] = {}
    places: list[int] = []
    for number, scenario in enumerate(scenarios):
        eval_id = eval_id_of(scenario)
        if eval_id in cases:
            problems.append(
                document.warning(
                    "duplicate-scenario",
                    "The scenario stands in the file before; one case is made of both.",
                    path=("scenarios", number),
                    hint="Remove it.",
                )
            )
            continue
        given = {} if session is None else {"session_input": session}
        cases[eval_id] = EvalCase(eval_id=eval_id, conversation_scenario=scenario, **given)
        places.append(number)
    set_id, renamed = _set_id(new, root)
    problems += renamed
    eval_set = EvalSet(eval_set_id=set_id, eval_cases=list(cases.values()))
    file = EvalFile(
        document=document,
        eval_set=eval_set,
        eval_set_id=eval_set.eval_set_id,
        cases=dict(enumerate(eval_set.eval_cases)),
        converted=_Scenarios(eval_set=eval_set, single_case=False, places=tuple(places)),
    )
    problems += check_cases(file)
    return problems if has_error(problems) else problems + _write(eval_set_text(eval_set), new)


def _session_input(path: Path) -> tuple[SessionInput | None, list[Problem]]:
    document, problems = read_document(path, path.as_posix())
    if document is None:
        return None, problems
    try:
        return SessionInput.model_validate(document.value), problems
    except ValidationError as error:
        return None, [*problems, *shape_problems(document, error, SessionInput, ())]


def _set_id(new: Path, root: Path | None) -> tuple[str, list[Problem]]:
    """The id of the new set, and a notice if it isn't the file's name."""
    name = stem(new)
    taken = _set_ids(root, new) if root is not None else {}
    if name not in taken:
        return name, []
    longer = f"{name}_{absolute(new).parent.name}"
    return longer, [
        Problem(
            severity=Severity.NOTICE,
            code="eval-set-id-taken",
            message=f"The eval set is called `{longer}`: `{taken[name]}` has the id `{name}`.",
            hint="`adk web` finds an eval set by the name of its file.",
            file=new.as_posix(),
        )
    ]


def _set_ids(root: Path, but: Path) -> dict[str, str]:
    """The ids of the eval sets below a directory, each with the name of a file; one file is left out."""
    found: dict[str, str] = {}
    for file in discover(root).files:
        document = None if file.path == absolute(but) else read_document(file.path, file.name)[0]
        set_id = document.value.get("eval_set_id") if document and isinstance(document.value, dict) else None
        if isinstance(set_id, str):
            found.setdefault(set_id, file.name)
    return found


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
