"""Hashes of a case's content and of how a metric is computed: equal hashes make two scores comparable."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from agent_eval_scoring.core.content import Content
from agent_eval_scoring.core.files import MAX_TEXT, read_regular
from agent_eval_scoring.core.invocation import Invocation, Rubric, intermediate_responses, tool_calls, tool_responses
from agent_eval_scoring.evalset.models import DEFAULT_JUDGE, CriterionConfig, EvalCase

_LENGTH = 16
_UNSET: Sequence[tuple[str, Any]] = (("args", {}), ("depth", "outer"), ("args_credit", False))
"""Options of criteria, as if they were not there."""
_MOST_IMPORTS = 5
"""Maximum number of re-exporting modules to follow to a function's definition."""
_ANSWERED = {"text", "inline_data", "file_data", "executable_code", "code_execution_result"}
"""Fields of a part that an expected answer can have: what criteria, custom metrics among them, compare."""
_NOT_IN_CASE = {"eval_id", "creation_timestamp"}
_NOT_IN_TURN = {"invocation_id", "creation_timestamp", "duration", "model_duration", "tool_duration", "spans"}
"""Fields that did not count before all but the content did not (`earlier_fingerprint`)."""
DEFAULT_APP_NAME = "EvaluationGenerator"
DEFAULT_USER_ID = "test_user_id"
"""The names of a session for a case without `session_input` (google-adk 2.13.0, measured)."""


@dataclass(frozen=True, kw_only=True)
class MetricIdentity:
    """How a metric is measured. Scores with equal identities are comparable."""

    judge: str | None
    """The judge model; None for a metric without a judge."""
    fingerprint: str
    direction: Literal["higher", "lower", "none"] = "higher"
    """Which scores are better; none: it is only reported."""


def case_fingerprint(case: EvalCase, user_config: Mapping[str, Any] | None, *, compares_state: bool = False) -> str:
    """Hash of a case's content: what it asks and expects, so what a run or a criterion reads of it.

    A new field of an eval file counts only if it is listed here. Missing, null and empty are the same where the format
    says so. Ids, notes, measurements and unknown keys don't count.

    Args:
        case: The case.
        user_config: `user_simulator_config`, on which the simulated user of a scenario depends.
        compares_state: Whether a criterion reads the expected state, which counts only then.
    """
    simulated = None
    if (scenario := case.conversation_scenario) is not None:
        from agent_eval_scoring.simulation import simulator_options  # The eval files are read without it.

        simulated = [scenario, vars(simulator_options(user_config))]
    turns = [_turn_content(turn) for turn in case.conversation or ()]
    state = [case.expected_state] if compares_state and case.expected_state else []
    # 2: the second form. Results of the first one are known by `earlier_fingerprint`.
    return _hash([2, session_of(case), simulated, _rubrics(case.rubrics), turns, *state, *_of_dataset(case)])


def lasting_fingerprint(case: EvalCase) -> str:
    """`case_fingerprint` where no config changes it, else ""."""
    return "" if case.conversation_scenario is not None or case.expected_state else case_fingerprint(case, None)


def _of_dataset(case: EvalCase) -> list[Any]:
    """What metrics of agents-cli read of a case beside its messages."""
    if case.dataset_case is None:
        return []
    known = {"eval_case_id", "prompt", "agent_data", "reference", "reference_trajectory", "user_scenario"}
    more = case.dataset_case.model_dump(mode="json", exclude_none=True, exclude=known)
    return [more] if more else []


def session_of(case: EvalCase) -> list[Any]:
    """What a case's session begins with."""
    start = case.session_input
    if start is None:
        return [DEFAULT_APP_NAME, DEFAULT_USER_ID, None, {}]
    past = [[event.author, event.content.role, _parts(event.content)] for event in start.events]
    return [start.app_name, start.user_id, start.session_id, start.state, *([past] if past else [])]


def _turn_content(turn: Invocation) -> list[Any]:
    data = turn.intermediate_data
    return [
        [turn.user_content.role or "user", _parts(turn.user_content)],
        _parts(turn.final_response, _ANSWERED),
        [[call.name, call.args] for call in tool_calls(data)],
        [[response.name, response.response or {}] for response in tool_responses(data)],
        intermediate_responses(turn),
        _rubrics(turn.rubrics),
    ]


def _parts(content: Content | None, fields: set[str] | None = None) -> list[Any]:
    parts = () if content is None else content.iter_parts()
    dumped = [
        # Most parts are a text, and have 16 other fields.
        {"text": part.text}
        if part.text and part.model_fields_set == {"text"}
        else part.model_dump(mode="json", exclude_none=True, include=fields)
        for part in parts
    ]
    return [part for part in dumped if any(value != "" for value in part.values())]


def _rubrics(rubrics: Sequence[Rubric] | None) -> list[Any]:
    return [[rubric.rubric_id, rubric.rubric_content.text_property, rubric.type] for rubric in rubrics or ()]


def earlier_fingerprint(case: EvalCase, user_config: Mapping[str, Any] | None) -> str:
    """The hash that older results have: of the whole case, with its notes and unknown keys."""
    content = _without(case.model_dump(mode="json", exclude_none=True, exclude_defaults=True))
    simulated = dict(user_config or {}) if case.conversation_scenario is not None else None
    return _hash([content, simulated])


def is_content(case: EvalCase, user_config: Mapping[str, Any] | None, fingerprint: str | None) -> bool:
    """Whether a stored fingerprint is that of a case's content."""
    with_state = case_fingerprint(case, user_config, compares_state=True)
    return fingerprint in (case_fingerprint(case, user_config), with_state, earlier_fingerprint(case, user_config))


def with_tape(content: str, tape: str) -> str:
    """The fingerprint of a case whose tools are answered by a tape: head and base see the same answers."""
    return _hash([content, tape]) if tape else content


def metric_identity(
    config: CriterionConfig, default_model: str = DEFAULT_JUDGE, source: str | None = None
) -> MetricIdentity:
    """The identity of a configured criterion.

    Args:
        config: A validated criterion. Its threshold does not count, because it does not change the score.
        default_model: The judge of criteria that name none.
        source: A hash of the code of a custom metric.
    """
    from agent_eval_scoring.criteria import judge_of

    # A custom metric asks its judge by itself, which only its code says.
    judge = judge_of(config, default_model) if source is None else None
    # Without rules for args, and without depth, scores are those of results that did not know them yet.
    options = {name: value for name, value in config.options.items() if name != "judge_model_options"}
    options = {name: value for name, value in options.items() if (name, value) not in _UNSET}
    questions = None
    if judge is not None:
        from agent_eval_scoring.criteria.judged import QUESTIONS_VERSION

        questions = [QUESTIONS_VERSION, judge.model, judge.samples, dict(judge.config)]
    return MetricIdentity(
        judge=judge.model if judge is not None else None,
        fingerprint=_hash([config.metric, options, questions if source is None else source]),
        direction=config.direction,
    )


def versioned(fingerprint: str, version: str) -> str:
    """The fingerprint of a custom metric whose function reports a version (known after the first call)."""
    return _hash([fingerprint, version])


def function_source(function: str, root: Path, package: Path | None) -> str:
    """Hash of the code of a custom metric: of its module's file, and of the files from which the function is imported.
    Other imports do not count, because they may be the agent itself.

    Args:
        function: `package.module.function`.
        root: The repository's root.
        package: The agent's directory, which can be imported as `agent`; None for a module.

    Returns:
        "" if the file can't be found without importing anything.
    """
    from agent_eval_agents.host import ADAPTERS

    *module, name = function.split(".")
    digest = hashlib.sha256()
    files = dict(_defining_files(tuple(module), name, root, package))
    files = files or {path: path.read_bytes() for path in ADAPTERS if module == [path.stem]}
    for data in files.values():
        digest.update(data)
    return digest.hexdigest()[:_LENGTH] if files else ""


def _defining_files(
    module: tuple[str, ...], name: str, root: Path, package: Path | None, depth: int = _MOST_IMPORTS
) -> Iterator[tuple[Path, bytes]]:
    """The files that define or re-export a name, with their content."""
    module_file = _module_file(module, root, package)
    if module_file is None:
        return
    path, data = module_file
    yield path, data
    parent = module if path.name == "__init__.py" else module[:-1]
    for source, imported in _imports_of(data, name, parent) if depth else ():
        yield from _defining_files(source, imported, root, package, depth - 1)


def _module_file(module: tuple[str, ...], root: Path, package: Path | None) -> tuple[Path, bytes] | None:
    candidates = [Path(root, *module)]
    if package is not None:
        candidates.insert(0, Path(package.parent, *module))
        if module[:1] == ("agent",):
            # The host imports the agent's package as `agent` as well.
            candidates.insert(0, Path(package, *module[1:]))
    for path in candidates:
        for file in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
            with contextlib.suppress(OSError):
                return file, read_regular(file, MAX_TEXT)
    return None


def _imports_of(data: bytes, name: str, parent: tuple[str, ...]) -> list[tuple[tuple[str, ...], str]]:
    """The modules from which a module imports a name, each with the name's original."""
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # It can't be imported, or is written for another Python.
    return [
        (source, name if alias.name == "*" else alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for source in [_absolute(node, parent)]
        for alias in node.names
        if alias.name == "*" or (alias.asname or alias.name) == name
    ]


def _absolute(node: ast.ImportFrom, parent: tuple[str, ...]) -> tuple[str, ...]:
    named = tuple(node.module.split(".")) if node.module else ()
    return (*parent[: max(len(parent) - node.level + 1, 0)], *named) if node.level else named


def _without(case: dict[str, Any]) -> dict[str, Any]:
    content = {key: value for key, value in case.items() if key not in _NOT_IN_CASE}
    if "conversation" in content:
        content["conversation"] = [_turn_without(turn) for turn in content["conversation"]]
    return content


def _turn_without(turn: dict[str, Any]) -> dict[str, Any]:
    for event in (turn.get("intermediate_data") or {}).get("invocation_events", ()):
        event.pop("branch", None)
    return {key: value for key, value in turn.items() if key not in _NOT_IN_TURN}


def _hash(value: Any) -> str:
    text = _encoder().encode(value)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]


@functools.cache
def _encoder() -> json.JSONEncoder:
    """One for all values: `json.dumps` makes one for each."""
    return json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"an option of type {type(value).__name__} has no fingerprint")
