"""Parses eval files in ADK's current format and its two legacy formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_snake

from agent_eval_scoring.core.problem import MAX_PROBLEMS, Problem, Severity
from agent_eval_scoring.evalset.json import Document, JsonPath
from agent_eval_scoring.evalset.models import EvalCase, EvalSet, SessionInput
from agent_eval_scoring.evalset.parse.dataset import convert_dataset, is_dataset
from agent_eval_scoring.evalset.parse.legacy import (
    Converted,
    LegacySession,
    convert,
    is_list_of_evals,
    is_list_of_turns,
)
from agent_eval_scoring.evalset.parse.shape import (
    OWNERS,
    ignored_key,
    keys_of,
    near_miss,
    shape_problems,
    two_spellings,
)


@dataclass(frozen=True, kw_only=True)
class EvalFile:
    """A parsed eval file. It contains the valid cases even if other cases are invalid."""

    document: Document
    eval_set: EvalSet | None
    """None if the file has an error."""
    eval_set_id: str | None
    cases: dict[int, EvalCase] = field(default_factory=dict)
    """The valid cases by their index in the file."""
    converted: Converted | None = None
    """The conversion of a legacy file or a dataset; None for the current format."""

    @property
    def is_dataset(self) -> bool:
        """Whether it is a dataset of agents-cli."""
        return self.converted is not None and self.converted.form == "dataset"

    def error(self, code: str, message: str, path: JsonPath, hint: str) -> Problem:
        """A problem that prevents the run; the path is that in the current format."""
        return self.document.error(code, message, path=self._source(path), hint=hint)

    def warning(self, code: str, message: str, path: JsonPath, hint: str) -> Problem:
        """A problem that is only reported; the path is that in the current format."""
        return self.document.warning(code, message, path=self._source(path), hint=hint)

    def notice(self, code: str, message: str, path: JsonPath, hint: str) -> Problem:
        """A remark that needs no action; the path is that in the current format."""
        return self.document.problem(Severity.NOTICE, code, message, path=self._source(path), hint=hint)

    def value_at(self, path: JsonPath) -> Any:
        """What the file has at a path of the current format, in either spelling; None if it has nothing there."""
        value: Any = self.document.value
        for step in self.document.spelled(self._source(path)):
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def case_lines(self) -> dict[int, int]:
        """The first line of each case, by its index in the file."""
        positions = self.document.positions
        if self.converted is None:
            return dict(enumerate(positions.lines_of_items(("eval_cases",))))
        if self.converted.single_case:
            return {0: positions.of(()).line}
        return dict(enumerate(positions.lines_of_items((self.converted.key,) if self.converted.key else ())))

    def _source(self, path: JsonPath) -> JsonPath:
        return path if self.converted is None else self.converted.source_path(path)


def read_eval_file(document: Document, *, session: LegacySession | None) -> tuple[EvalFile | None, list[Problem]]:
    """Parses an eval set in the current format or in one of the two legacy formats, or a dataset of agents-cli.

    Args:
        document: The file.
        session: The initial session of a legacy test file.

    Returns:
        The parsed file (None if it is not an eval set), and its problems.
    """
    value = document.value
    from_dataset = is_dataset(value)
    # The order matters: a dataset of agents-cli has `eval_cases`, too, and ADK could read none of its cases.
    if isinstance(value, dict) and not from_dataset:
        return _read_current(document, value)
    if from_dataset or is_list_of_turns(value) or is_list_of_evals(value):
        if from_dataset:
            converted, problems = convert_dataset(document)
        else:
            converted, problems = convert(document, eval_set_id=document.file, eval_id=document.file, session=session)
        if converted is None:
            return None, problems
        eval_set = converted.eval_set
        file = EvalFile(
            document=document,
            eval_set=eval_set,
            eval_set_id=eval_set.eval_set_id,
            cases=dict(enumerate(eval_set.eval_cases)),
            converted=converted,
        )
        return file, problems
    return None, [_not_an_eval_set(document, value)]


def _read_current(document: Document, value: dict[str, Any]) -> tuple[EvalFile | None, list[Problem]]:
    # Results have `eval_set_id`, so they would be an eval set without its cases.
    if "eval_case_results" in value and "eval_cases" not in value:
        return None, [_not_an_eval_set(document, value)]
    if "eval_set_id" not in value and "eval_cases" not in value:
        camel_case = "evalSetId" in value or "evalCases" in value
        # With a misspelt required key it is meant as an eval set: the finding about that key says more than "no eval
        # set".
        if not camel_case and (_what_is(value) or not any(near_miss(key, list(_REQUIRED)) for key in value)):
            return None, [_not_an_eval_set(document, value)]
    problems = list(_camel_case(document, value))
    renamed = {problem.path for problem in problems}
    problems += _elsewhere(document, value, ())
    # No aliases: ADK's model of the set itself has none, in contrast to those inside of it.
    problems += islice(_misspelt(document, value, (), keys_of(EvalSet), aliases=False), MAX_PROBLEMS)
    eval_set: EvalSet | None = None
    cases: dict[int, EvalCase] = {}
    try:
        eval_set = EvalSet.model_validate(value)
        cases = dict(enumerate(eval_set.eval_cases))
    except ValidationError as error:
        set_problems = shape_problems(document, error, EvalSet, ())
        if renamed:
            # "Rename it" is more helpful than "missing".
            set_problems = [
                problem
                for problem in set_problems
                if problem.code != "missing-field" or problem.path not in {None, *renamed}
            ]
        problems += set_problems
        # So that mistakes in the content of valid cases are reported in the same run as the shape of others.
        cases = _valid_cases(value.get("eval_cases"))
    misspelt = (_ignored(document, case, ("eval_cases", index)) for index, case in cases.items())
    # Limited, because each of these warnings takes a search for similar names.
    problems += islice(chain.from_iterable(misspelt), MAX_PROBLEMS)
    set_id = value.get("eval_set_id")
    return EvalFile(
        document=document, eval_set=eval_set, eval_set_id=set_id if isinstance(set_id, str) else None, cases=cases
    ), problems


def _valid_cases(items: Any) -> dict[int, EvalCase]:
    """The cases with a valid structure; their content is checked, too."""
    cases: dict[int, EvalCase] = {}
    for index, item in enumerate(items if isinstance(items, list) else ()):
        try:
            cases[index] = EvalCase.model_validate(item)
        except ValidationError:
            continue  # Reported already for the whole set.
    return cases


def _camel_case(document: Document, value: dict[str, Any]) -> Iterator[Problem]:
    for camel, snake in (("evalSetId", "eval_set_id"), ("evalCases", "eval_cases")):
        # With both, the one in snake_case is read, as in ADK, and the other one is an additional key.
        if camel in value and snake not in value:
            yield document.error(
                "camel-case-eval-set",
                f"`{camel}` is not read: ADK accepts the top-level keys of an eval set in snake_case only.",
                path=(camel,),
                key=True,
                hint=f"Rename it to `{snake}`. Inside cases both spellings work.",
            )


_CONFIG = (
    "Criteria and thresholds stand in the `test_config.json` beside the file; those of one case in a `[[policy]]` of "
    "agent-eval.toml."
)
_QUARANTINE = "`[[quarantine]]` in agent-eval.toml lets a case fail, and `exclude` leaves files out."
_ELSEWHERE = dict.fromkeys(("criteria", "metrics", "threshold", "thresholds", "num_runs", "eval_metrics"), _CONFIG)
_ELSEWHERE |= dict.fromkeys(("skip", "skipped", "disabled", "enabled", "only"), _QUARANTINE)
_ELSEWHERE |= dict.fromkeys(
    ("user_content", "final_response", "intermediate_data"), "It belongs into a turn of `conversation`."
)
"""Keys that other formats have in an eval set or a case, and that their authors rely on: where this is said here."""
_STATES = ("initial_state", "initialState", "session_state", "sessionState")


def _elsewhere(document: Document, value: Mapping[str, Any], path: JsonPath) -> Iterator[Problem]:
    """Warnings for ignored keys of other formats that would decide something."""
    owner = "an eval case" if path else "an eval set"
    for key in value:
        # A warning: ADK ignores additional keys of sets and cases, and people keep notes in them.
        if hint := _ELSEWHERE.get(to_snake(key)):
            yield ignored_key(document, (*path, key), owner, hint)


def _ignored(document: Document, case: EvalCase, path: JsonPath) -> Iterator[Problem]:
    """Warnings for ignored keys of a case and of its session."""
    if case.model_extra:
        yield from _elsewhere(document, case.model_extra, path)
        yield from _misspelt(document, case.model_extra, path, keys_of(EvalCase), aliases=True)
    session = case.session_input
    for key in (session.model_extra or ()) if session is not None else ():
        in_case, close = to_snake(key) == "final_session_state", near_miss(key, keys_of(SessionInput))
        # Those are names in other tools for the same thing, which are not similar enough to be found as misspelt.
        name = "state" if key in _STATES else close
        if in_case or name is not None:
            hint = "It belongs into the case, beside `session_input`." if in_case else f"Did you mean `{name}`?"
            yield ignored_key(document, (*path, "session_input", key), "`session_input`", hint)


def _misspelt(
    document: Document, value: dict[str, Any], path: JsonPath, keys: list[str], *, aliases: bool
) -> Iterator[Problem]:
    """Warnings for ignored keys that are similar to known keys."""
    owner = "an eval case" if aliases else "an eval set"
    for key in value:
        if key in keys:
            if aliases:
                yield two_spellings(document, (*path, key))
            continue
        if aliases and key in OWNERS:
            yield ignored_key(document, (*path, key), owner, f"It belongs into `{OWNERS[key]}`.")
            continue
        close = near_miss(key, keys)
        # A missing required key is reported as such, with the same advice to rename this one.
        if close is not None and (close in value or close not in _REQUIRED):
            yield ignored_key(document, (*path, key), owner, f"Rename it to `{close}`.")


_REQUIRED = ("eval_set_id", "eval_cases")


def _not_an_eval_set(document: Document, value: Any) -> Problem:
    hint = _what_is(value) or 'An eval set is an object: {"eval_set_id": "...", "eval_cases": [...]}.'
    if value == []:
        hint = f"It is an empty list. {hint}"
    return document.error("not-an-eval-set", "The file is not an eval set.", hint=hint)


def _what_is(value: Any) -> str | None:
    """Describes a document and names the tool that reads it; None if it is not recognized.

    Args:
        value: A JSON value that is not an eval set.
    """
    items = value if isinstance(value, list) else [value]
    # A bound: what follows the first hundred is of the same kind, and recordings are long.
    objects = [item for item in items[:100] if isinstance(item, dict)]
    for is_kind, text in _KINDS:
        if any(is_kind(item) for item in objects):
            return text
    return None


def _has(*keys: str) -> Callable[[dict[str, Any]], bool]:
    return lambda item: any(key in item for key in keys)


_KINDS: tuple[tuple[Callable[[dict[str, Any]], bool], str], ...] = (
    (
        _has("eval_case_results", "evalCaseResults"),
        "It is an eval set result of ADK (.adk/eval_history), which contains scores; `adk web` shows it. "
        "`agent-eval record NEW --from FILE` makes eval cases of it.",
    ),
    (
        _has("tool_version", "scoring_version"),
        "It is a results.json of agent-eval, which contains scores; the recordings are next to it, in "
        "recordings.jsonl.gz. `agent-eval show` and `agent-eval compare` read it.",
    ),
    (
        _has("resourceSpans", "resource_spans", "resourceLogs", "traceId", "trace_id", "span_id", "spanId"),
        "It is a trace (OpenTelemetry). `--agent recorded:FILE` scores it with eval files, and `agent-eval record NEW "
        "--from FILE` makes eval cases of its conversations.",
    ),
    (
        _has("expected_tool_use", "expected_intermediate_agent_responses", "reference"),
        "It looks like ADK's older format, a list of turns, but no turn has a `query`, what the user says: "
        '[{"query": "...", "expected_tool_use": [], "reference": "..."}].',
    ),
    (
        lambda item: any(
            isinstance(case, dict) and "query" in case
            for value in item.values()
            if isinstance(value, list)
            for case in value
        ),
        "It is a format of its own, which ADK does not read either. Write its cases as an eval set: "
        '{"eval_set_id": "...", "eval_cases": [{"eval_id": "...", "conversation": [{"user_content": {"parts": '
        '[{"text": "..."}]}}]}]}.',
    ),
    (_has("criteria"), "It looks like a config file; use it with --config, or put it next to the eval files."),
    (
        _has("events"),
        "It is a recorded session of ADK, e.g. of `adk test`, for `adk web` and `adk run --resume`. "
        "`agent-eval record NEW --from FILE` makes an eval case of it.",
    ),
    (_has("scenarios"), "It looks like a file of scenarios; `agent-eval migrate OLD NEW` makes an eval set of it."),
    (
        lambda item: any("eval_cases" in value for value in item.values() if isinstance(value, dict)),
        "Write the eval set itself, without the object around it.",
    ),
    (
        _has("eval_id", "evalId"),
        'It looks like a single case, or a list of cases; write {"eval_set_id": "...", "eval_cases": [...]} around it.',
    ),
)
"""Recognizers and descriptions, the most specific first."""
