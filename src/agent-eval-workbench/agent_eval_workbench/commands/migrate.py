"""`agent-eval migrate OLD NEW`: makes an eval set of a legacy file, a dataset of agents-cli, a file of scenarios, or
conformance cases.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from dataclasses import replace
from pathlib import Path

from pydantic import Field, ValidationError

from agent_eval.commands import CliIO
from agent_eval.commands.start import print_problems
from agent_eval_agents.sandbox import secrets_in
from agent_eval_scoring.core.masking import Masker
from agent_eval_scoring.core.problem import Problem, Severity, capped, docs_page, has_error
from agent_eval_scoring.core.text import plural
from agent_eval_scoring.core.wire import WireModel
from agent_eval_scoring.evalset.discovery import SUFFIXES
from agent_eval_scoring.evalset.json import Document, eval_set_text, read_document, write_text
from agent_eval_scoring.evalset.models import ConversationScenario, EvalCase, EvalSet, SessionInput
from agent_eval_scoring.evalset.parse import EvalFile, read_eval_file, read_session, shape_problems
from agent_eval_workbench.recording.new_cases import personal_data
from agent_eval_workbench.recording.stored import masked, masks_in
from agent_eval_workbench.recording.target import new_set_id, stem
from agent_eval_workbench.sources.cases import eval_cases
from agent_eval_workbench.sources.reading import Source, read_conformance

_NOT_JSON = (
    "`migrate` reads JSON: ADK's legacy formats, scenarios, and datasets of agents-cli. Write an eval set: "
    '{"eval_set_id": "...", "eval_cases": [...]}.'
)


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code."""
    old, new = arguments.old, arguments.new
    if new is None:
        print_problems(_without_new(old))
        return 2
    if new.is_file() and not (old.exists() and new.samefile(old)):
        message, hint = "The file exists already.", "Name a new file, or delete this one first."
        print_problems([Problem(code="unwritable-file", message=message, hint=hint, file=new.as_posix())])
        return 2
    masker = Masker(secrets_in(io.environ))
    problems = migrate(old, new, initial_session=arguments.initial_session, root=Path.cwd(), masker=masker)
    print_problems(capped(problems))
    if has_error(problems):
        return 2
    found = new.name.endswith(SUFFIXES) or b'"eval_cases"' not in new.read_bytes()
    print(f"Wrote {new}" + ("" if found else ". Rename it to NAME.evalset.json, by which eval files are found"))
    return 0


def _read(old: Path) -> tuple[Document | None, list[Problem]]:
    if old.is_dir():
        message = "No conformance test (`spec.yaml`) is in this directory or below it, so there is nothing to migrate."
        hint = "Name a file, or the directory that `adk conformance record` has written."
        return None, [Problem(code="source-unreadable", message=message, hint=hint, file=old.as_posix())]
    document, problems = read_document(old, old.as_posix(), lenient=True)
    return document, [replace(item, hint=_NOT_JSON) if item.code == "not-json" else item for item in problems]


def _without_new(old: Path) -> list[Problem]:
    """The problem of a call without a file to write; of the old file, if that is nothing to migrate."""
    document, problems = _read(old)
    if document is None:
        return problems
    if isinstance(document.value, dict) and "criteria" in document.value:
        hint = "Only eval files are migrated. agent-eval reads ADK's configs as they are."
        return [document.error("not-legacy", "The file is a config, not an eval file.", hint=hint)]
    hint = f"Name it: `agent-eval migrate {old.as_posix()} {stem(old)}.evalset.json`."
    return [Problem(code="unwritable-file", message="The eval set to write is not named.", hint=hint)]


def migrate(
    old: Path, new: Path, *, initial_session: Path | None = None, root: Path | None = None, masker: Masker | None = None
) -> list[Problem]:
    """Converts an eval file from either of ADK's legacy formats, a file of scenarios (`{"scenarios": [...]}`, as for
    `adk eval_set add_eval_case`), or a directory of `adk conformance record`.

    Comments and trailing commas are removed, also from a file in the current format and from a config.

    The id of the eval set is the stem of the new file, because ADK finds an eval set by it. If another file has that
    id, the name of the directory is appended. A case converted from a list of turns gets the stem of the old file as
    its id, and one of a scenario the id that ADK gives it.

    Args:
        old: The file to read; a directory with specifications, or a YAML file beside one.
        new: The file to write. It may be the same file.
        initial_session: A JSON file with the initial session of a list of turns, or of all scenarios.
        root: The directory whose eval files must not have the same id. None skips this check.
        masker: Of what was recorded.

    Returns:
        The problems. The file was written if none of them is an error.
    """
    folder = old.parent if old.suffix == ".yaml" else old
    if folder.is_dir() and (source := read_conformance(folder, folder.as_posix())):
        unused = [] if initial_session is None else [_unused_session(initial_session)]
        return unused + _recorded(source, new, root, masker or Masker())
    document, problems = _read(old)
    if document is not None and isinstance(document.value, dict) and "scenarios" in document.value:
        return problems + _scenarios(document, new, initial_session, root)
    session, session_problems = (
        (None, []) if initial_session is None else read_session(initial_session, initial_session.as_posix())
    )
    problems = [*session_problems, *problems]
    if document is None or has_error(problems):
        return problems
    cleaned = None
    if any(problem.code == "json-cleaned" for problem in problems):
        cleaned = json.dumps(document.value, indent=2, ensure_ascii=False) + "\n"
    if cleaned is not None and isinstance(document.value, dict) and "criteria" in document.value:
        return problems + _write(cleaned, new)
    file, file_problems = read_eval_file(document, session=session)
    if file is None or file.eval_set is None:
        return [*problems, *file_problems]
    if file.converted is None and cleaned is not None:
        return [*problems, *file_problems, *([] if has_error(file_problems) else _write(cleaned, new))]
    if file.converted is None:
        hint = "There is nothing to migrate."
        return [*problems, document.error("not-legacy", "The file has the current format already.", hint=hint)]
    problems += [problem for problem in file_problems if problem.code != "legacy-format"]
    problems += _losses(file) if file.is_dataset else _mock_outputs(document)
    if initial_session is not None and not file.converted.single_case:
        problems.append(_unused_session(initial_session))
    cases = file.eval_set.eval_cases
    if file.converted.single_case:
        cases = [case.model_copy(update={"eval_id": stem(old)}) for case in cases]
    if file.is_dataset:
        cases = [_of_adk(case) for case in cases]
    set_id, renamed = new_set_id(new, root)
    return problems + renamed + _write(eval_set_text(EvalSet(eval_set_id=set_id, eval_cases=cases)), new)


class _Scenarios(WireModel):
    """google-adk 2.13.0, evaluation/conversation_scenarios.py."""

    scenarios: list[ConversationScenario] = Field(min_length=1)


def _scenarios(document: Document, new: Path, initial_session: Path | None, root: Path | None) -> list[Problem]:
    """Writes a case for each scenario; the same one twice is one case."""
    session = None
    try:
        scenarios = _Scenarios.model_validate(document.value).scenarios
    except ValidationError as error:
        return shape_problems(document, error, _Scenarios, ())
    if initial_session is not None:
        initial, problems = read_document(initial_session, initial_session.as_posix())
        if initial is None:
            return problems
        try:
            session = SessionInput.model_validate(initial.value)
        except ValidationError as error:
            return shape_problems(initial, error, SessionInput, ())
    cases = {
        eval_id: EvalCase(eval_id=eval_id, conversation_scenario=scenario, session_input=session)
        for scenario in scenarios
        for eval_id in [_scenario_id(scenario)]
    }
    set_id, renamed = new_set_id(new, root)
    return renamed + _write(eval_set_text(EvalSet(eval_set_id=set_id, eval_cases=list(cases.values()))), new)


def _scenario_id(scenario: ConversationScenario) -> str:
    """ADK's id (google-adk 2.13.0). Of a named persona ADK hashes its own text, so there the id differs."""
    text = json.dumps(scenario.model_dump(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _losses(file: EvalFile) -> list[Problem]:
    """What the cases of a dataset of agents-cli have and an eval set of ADK can't hold."""
    problems = []
    for index, case in file.cases.items():
        source = case.dataset_case
        assert source is not None
        lost = [f"`{key}`" for key in (*(source.model_extra or {}), "rubric_groups") if getattr(source, key, None)]
        lost += ["its history, of which ADK would run each message,"] if case.past else []
        if lost:
            message = f"Of `{case.eval_id}`, {' and '.join(lost)} can't be in an eval set: left out."
            hint = "`agent-eval run` reads the dataset itself, with all of it."
            problems.append(file.warning("migration-loses", message, ("eval_cases", index), hint))
    return problems


def _of_adk(case: EvalCase) -> EvalCase:
    session = case.session_input
    kept = session.model_copy(update={"events": []}) if session is not None and session.state else None
    return case.model_copy(update={"dataset_case": None, "session_input": kept})


def _mock_outputs(document: Document) -> list[Problem]:
    """A notice if the file says what tools should answer."""
    turns = [turn for item in document.value for turn in item.get("data", [item])]
    uses = [use for turn in turns for use in turn.get("expected_tool_use") or ()]
    count = sum(use.get("mock_tool_output") not in (None, "") for use in uses)
    message = f"`mock_tool_output` of {plural(count, 'expected call')} is in `tool_responses` now."
    hint = f'`answers = "case"` in a [[tool]] lets it answer the calls ({docs_page("tools")}).'
    notice = document.problem(Severity.NOTICE, "mock-output-kept", message, path=(), hint=hint)
    return [notice] if count else []


def _recorded(source: Source, new: Path, root: Path | None, masker: Masker) -> list[Problem]:
    cases, problems = eval_cases([masked(conversation, masker) for conversation in source.conversations])
    problems = [*source.problems, *problems]
    if has_error(problems) or not cases:
        return problems
    set_id, renamed = new_set_id(new, root)
    problems += masks_in(cases, new.as_posix()) + personal_data(cases, new.as_posix()) + renamed
    return problems + _write(eval_set_text(EvalSet(eval_set_id=set_id, eval_cases=cases)), new)


def _write(text: str, new: Path) -> list[Problem]:
    try:
        write_text(new, text)
    except OSError as error:
        message, hint = f"The file can't be written: {error.strerror}.", "Check the directory's permissions."
        if blocking := [folder.as_posix() for folder in new.parents if folder.exists() and not folder.is_dir()]:
            message = f"The file can't be written: `{blocking[0]}` is a file, not a directory."
            hint = f"Name a path in a directory, e.g. `evals/{new.name}`."
        return [Problem(code="unwritable-file", message=message, hint=hint, file=new.as_posix())]
    return []


def _unused_session(session: Path) -> Problem:
    return Problem(
        severity=Severity.WARNING,
        code="initial-session-unused",
        message="The initial session is not used: the file contains the sessions of its cases.",
        hint="Only legacy test files (lists of turns) and scenarios need a separate file for it.",
        file=session.as_posix(),
    )
