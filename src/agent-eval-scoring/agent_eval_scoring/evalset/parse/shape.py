"""Converts pydantic's validation errors to problems with plain messages, positions and hints."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_camel, to_snake
from pydantic_core import ErrorDetails

from agent_eval_scoring.core.problem import MAX_PROBLEMS, Problem, too_many
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.evalset.json import Document, JsonPath
from agent_eval_scoring.evalset.parse._hints import HINTS, TURN_HINT, argument_rule_hint, models_at, shape_hint

_EXPECTED = {
    "string_type": "a string",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}
_LEGACY_NAMES = {
    "tool_name": "name",
    "tool_input": "args",
    "query": "user_content",
    "reference": "final_response",
    "expected_tool_use": "intermediate_data",
}
"""Current names of keys of ADK's legacy format."""
_OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "final_response": ("expected_response", "expected_output", "expected", "answer", "response"),
    "user_content": ("user_message", "user_input", "content", "message", "question", "prompt", "input", "user"),
    "query": ("question", "prompt", "input", "user_input", "message"),
    "text": ("content",),
    "prompt": ("question",),
    "response": ("answer", "output", "result"),
    "max_allowed_invocations": ("max_turns", "max_invocations", "turn_limit"),
    "eval_cases": ("test_cases", "tests", "evals", "examples", "scenarios", "cases"),
    "eval_id": ("case_id", "test_id", "id", "name"),
    "name": ("tool", "function_name"),
    "args": ("arguments", "parameters", "params", "input"),
    "tool_name": ("name", "tool", "function"),
    "tool_input": ("args", "arguments", "parameters", "params", "input"),
    "threshold": ("min_score", "pass_threshold", "minimum", "value"),
    "starting_prompt": ("first_message", "opening"),
    "conversation_plan": ("goal", "task", "instructions"),
}
"""Names that other formats have for keys."""

_NOUNS = {
    "AgentData": "the agent data",
    "AgentDetails": "an agent's details",
    "Answer": "an answer",
    "AppDetails": "an app's details",
    "BaseCriterion": "a criterion",
    "Content": "a message",
    "EvalCase": "an eval case",
    "EvalSet": "an eval set",
    "Blob": "inline data",
    "FileData": "file data",
    "IntermediateData": "intermediate data",
    "Invocation": "an invocation",
    "InvocationEvent": "an invocation event",
    "InvocationEvents": "intermediate data",
    "JudgeModelOptions": "judge model options",
    "LegacyTurn": "a turn",
    "LegacyEval": "an eval",
    "LegacyToolUse": "a tool use",
}
"""Names of models in messages, if not derived from the class name."""

_OF_DATASETS = {
    "Dataset": "Remove it: agents-cli refuses it, too.",
    "DatasetEvent": 'An event has an `author`, and `content`, {"parts": [{"text": "..."}]}, or `state_delta`.',
}
"""Hints for any unknown key of a model."""
OWNERS = {"text": "parts", **dict.fromkeys(("tool_uses", "intermediate_responses"), "intermediate_data")}
OWNERS |= dict.fromkeys(("state", "app_name", "user_id"), "session_input")
OWNERS |= dict.fromkeys(("role", "parts"), "user_content")
OWNERS |= dict.fromkeys(("function_call", "function_response"), "content")
"""Keys that are often written beside the object into which they belong."""
_RECORDED = {"spans", "errors", "node_output", "lost_toolsets", "session_state", "app_details", "creation_timestamp"}
_RECORDED |= {"duration", "model_duration", "tool_duration"}
"""Keys of a turn that recordings have, and that nobody writes."""
_CONVERSATIONS = ("conversation", "conversation_scenario")
_ALIASES = {"two_conversations": "conversation-and-scenario", "no_conversation": "no-conversation"}


def shape_problems(document: Document, error: ValidationError, model: type[BaseModel], base: JsonPath) -> list[Problem]:
    """A problem for each validation error; beyond MAX_PROBLEMS they are only counted.

    Args:
        document: The document that contains the value.
        error: The validation errors.
        model: The model of the value.
        base: The path of the value in the document.
    """
    details = _without_members(error.errors(include_url=False, include_context=True, include_input=False))
    problems = [_problem(document, detail, model, base) for detail in details[:MAX_PROBLEMS]]
    problems = without_renamed(problems)
    foreign = {
        problem.path.rpartition(".")[0] for problem in problems if problem.path and _OPENAI in (problem.hint or "")
    }
    problems = [
        problem
        for problem in problems
        if problem.path is None
        or not problem.path.endswith(".type")
        or problem.path.removesuffix(".type") not in foreign
    ]
    # Without the input: of a file of megabytes each error would carry its part of it.
    # A list of OpenAI's messages has two unknown keys for each missing `user_content`: what is wrong is one thing.
    messages = {problem.path for problem in problems if "a message, not a turn" in (problem.hint or "")}
    problems = [
        problem
        for problem in problems
        if problem.code != "unknown-key" or (problem.path or "").rpartition(".")[0] not in messages
    ]
    if len(details) > MAX_PROBLEMS:
        problems.append(too_many(problems, MAX_PROBLEMS, len(details) - MAX_PROBLEMS))
    return problems


def _without_members(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """One error for a value that is no member of a union of words and other types: pydantic has one for each member."""
    words = {detail["loc"][:-1]: detail for detail in details if detail["type"] == "literal_error"}
    kept = []
    for detail in details:
        first = words.get(detail["loc"][:-1])
        if first is None or detail is first or detail["type"] not in _EXPECTED:
            kept.append(detail)
        elif str(detail["loc"][-1]).startswith(("list[", "dict[", "literal[", "int", "float", "bool", "str")):
            first["msg"] += f", or {_EXPECTED[detail['type']]}"
        else:
            kept.append(detail)
    return kept


def without_renamed(problems: list[Problem]) -> list[Problem]:
    """The problems without those of unknown keys that another one says to rename: the mistake is one."""
    # Pydantic reports a misspelt required key twice: as missing, and as unknown.
    renamed = {problem.path for problem in problems if (problem.hint or "").startswith("Rename `")}
    return [problem for problem in problems if "unknown" not in problem.code or problem.path not in renamed]


def _is_message(value: Any) -> bool:
    """Whether an object is a message, as other tools' conversations list them, and no turn."""
    return isinstance(value, dict) and "role" in value and ("content" in value or "parts" in value)


def did_you_mean(value: str, names: list[str]) -> str:
    """A hint with the names similar to a value, or with all names."""
    # Known names before similar ones: `query` and `user_content` have no letters in common that would tell.
    renamed = _LEGACY_NAMES.get(value)
    if renamed in names:
        return f"This is the name in ADK's legacy format; write `{renamed}`."
    if other := next((name for name in names if value in _OTHER_NAMES.get(name, ())), None):
        return f"Write `{other}`."
    # The words of a name first: by letters `plan` and `conversation_plan` are not similar enough.
    close = [name for name in names if _is_word_of(value, name)] or nearby(value, names)
    close = close or nearby(to_snake(value), names)
    if close:
        return f"Did you mean {' or '.join(f'`{name}`' for name in close)}?"
    return f"Known: {', '.join(f'`{name}`' for name in names)}."


def _is_word_of(key: str, name: str) -> bool:
    """Whether a key is the first or last word of a name, e.g. `plan` of `conversation_plan`."""
    # `name` would be a word of `tool_name`, `app_name` and `user_name` alike.
    return key != "name" and (name.startswith(f"{key}_") or name.endswith(f"_{key}"))


def near_miss(key: str, names: list[str]) -> str | None:
    """The name that an unknown key most likely misspells, or None."""
    # 0.75 for what is ignored otherwise: people have keys of their own, and a warning about each would be noise.
    close = nearby(to_snake(key), names, count=1, cutoff=0.75)
    return close[0] if close else None


def noun(model: type[BaseModel]) -> str:
    """The name of an instance of a model in messages, e.g. `an eval case`."""
    return _NOUNS.get(model.__name__) or "a " + re.sub(r"(?<=[a-z])(?=[A-Z])", " ", model.__name__).lower()


def keys_of(model: type[BaseModel]) -> list[str]:
    """The keys of a model, in snake_case."""
    return list(model.model_fields)


def spellings(names: list[str]) -> set[str]:
    """The names in snake_case and in camelCase."""
    return {*names, *(to_camel(name) for name in names)}


def ignored_key(document: Document, path: JsonPath, owner: str, hint: str) -> Problem:
    """A warning for a key that means something elsewhere, or with another spelling, and is ignored here."""
    message = f"`{path[-1]}` is not a key of {owner} and is ignored."
    return document.warning("misspelt-key", message, path=path, key=True, hint=hint)


def two_spellings(document: Document, path: JsonPath) -> Problem:
    """A warning for a key in snake_case beside the one in camelCase, which pydantic, and so ADK, reads."""
    message = f"`{path[-1]}` occurs in snake_case and in camelCase; only the latter is read."
    return document.warning("duplicate-key", message, path=path, key=True, hint="Remove one of them.")


def _problem(document: Document, detail: ErrorDetails, model: type[BaseModel], base: JsonPath) -> Problem:
    path, missing = _real_path(document.value, base, detail["loc"], detail["type"] == "missing")
    kind = detail["type"]
    # An item of a pair is missing, which only `intermediate_responses` has: its entries are tuples in ADK.
    if isinstance(missing, int):
        message = f"Item {missing + 1} of `{_last_key(path)}` is missing."
        return document.error("missing-field", message, path=path, hint=HINTS["intermediate_responses"])
    if missing is not None:
        owner = models_at(model, path[len(base) :])[0]
        message = f"The required field `{missing}` of {noun(owner)} is missing."
        hint, key = _missing_hint(document, path, missing, owner)
        at = path if key is None else (*path, key)
        return document.error("missing-field", message, path=at, key=key is not None, hint=hint)
    if kind == "extra_forbidden":
        owners = models_at(model, path[len(base) : -1])
        # Both forms of `intermediate_data` may own the key; which one was meant is not known.
        keys = list(dict.fromkeys(key for owner in owners for key in keys_of(owner)))
        key = str(path[-1])
        if key in keys:
            return _conflicting_key(document, path, key)
        # They are keys of the model, since recordings have them, and would be a bad advice in an eval file.
        keys = [known for known in keys if known not in _RECORDED]
        message = f"`{key}` is not a key of {noun(owners[0])}."
        belongs = OWNERS.get(key) in keys
        hint = f"It belongs into `{OWNERS[key]}`." if belongs else _renaming(document, path, keys)
        hint = _OF_DATASETS.get(owners[0].__name__, hint)
        return document.error("unknown-key", message, path=path, key=True, hint=hint)
    if kind in _ALIASES:
        return _conversation_problem(document, detail, path)
    label = f"`{_last_key(path)}`" if path else "The document"
    if kind in _EXPECTED:
        actual = _describe(_value_at(document.value, path))
        known = to_snake(_last_key(path)).split("[")[0]
        # The key of a mapping, e.g. a metric's name, has the hint of what contains it.
        known = known if known in HINTS or len(path) < 2 else f"{to_snake(str(path[-2]))}."
        hint = HINTS.get(known) or shape_hint(_EXPECTED[kind], model, path[len(base) :])
        if path and isinstance(path[-1], int):  # An item of the list.
            # The hint is for the whole list, and one item of it is wrong.
            hint = re.sub(r"Write [^\[{]*\[(\{.+)\]\.", r"Write \1.", hint)
        return document.error("wrong-type", f"{label} must be {_EXPECTED[kind]}, not {actual}.", path=path, hint=hint)
    # Validators of rules say which key inside of their value is wrong (RuleError).
    inner = getattr(detail.get("ctx", {}).get("error"), "path", ())
    value = _value_at(document.value, path)
    but = f", not {json.dumps(value)[:40]}" if kind in _SCALARS and not isinstance(value, list | dict) else ""
    expectation, _, todo = _expectation(detail).partition(": write ")
    message = f"{label} {expectation}{but}."
    advice = HINTS["prompt_template"] if _last_key(path) == "prompt_template" else _value_hint(detail, value)
    owners = models_at(model, path[len(base) : -1]) if path else []
    fields = [each.model_fields[to_snake(str(path[-1]))] for each in owners if to_snake(str(path[-1])) in keys_of(each)]
    if todo:
        advice = f"Write {todo}."
    elif advice is None and (rule := argument_rule_hint(expectation)):
        advice = rule
    elif advice is None and (inner or not any(not field.is_required() for field in fields)):
        advice = "Correct the value."
    elif advice is None:
        advice = "Correct the value, or remove the key to use its default."
    return document.error("invalid-value", message, path=(*path, *inner), hint=advice)


_PARTS = {
    "function_call": '{"name": "get_weather", "args": {"city": "Berlin"}}',
    "function_response": '{"name": "get_weather", "response": {"degrees": 21}}',
}
"""Keys of an event's parts, whose content is an entry of `tool_uses` or `tool_responses`."""
_OPENAI = "This is the form of OpenAI's API."


def _renaming(document: Document, path: JsonPath, keys: list[str]) -> str:
    """The hint for an unknown key, with the form of the right one if its value has another form."""
    key, value = str(path[-1]), _value_at(document.value, path)
    if key == "function" and "name" in keys and isinstance(value, dict):
        return f'{_OPENAI} Write {{"name": "get_weather", "args": {{"city": "Berlin"}}}}.'
    if (part := to_snake(key)) in _PARTS and "name" in keys and isinstance(value, dict):
        return f"Remove the key `{key}`, and write what is in it directly: {_PARTS[part]}."
    if key == "weight" and "rubric_id" in keys:
        return 'Weights are in the criterion, beside `rubrics`: "rubric_weights": {"RUBRIC_ID": 2}.'
    hint = did_you_mean(key, keys)
    named = re.fullmatch(r"(?:.*write|Write|Did you mean) `(\w+)`[.?]", hint)
    form = HINTS.get(named[1], "") if named is not None else ""
    if named is not None and isinstance(value, str) and (example := re.fullmatch(r"Write ([{\[].+)\.", form)):
        return f'This is called `{named[1]}`. Write "{named[1]}": {example[1]}.'
    return hint


def _expectation(detail: ErrorDetails) -> str:
    """What a value must be, as the predicate of a sentence."""
    context = detail.get("ctx", {})
    match detail["type"]:
        case "too_long":
            return f"must have {context['max_length']} items, not {context['actual_length']}"
        case "union_tag_invalid" | "union_tag_not_found":
            return f"must have a `type` of {context.get('expected_tags', 'a known kind')}"
    text = detail["msg"].removeprefix("Value error, ").removeprefix("Input ").rstrip(".")
    return f"{text[:1].lower()}{text[1:]}"


_SCALARS = {"literal_error", "enum", *(f"{how}_than{equal}" for how in ("greater", "less") for equal in ("", "_equal"))}
"""Kinds of errors that don't repeat the value."""


def _value_hint(detail: ErrorDetails, value: Any) -> str | None:
    words = re.findall(r"'([^']+)'", str(detail.get("ctx", {}).get("expected", "")))
    if close := nearby(str(value), words, 1):
        return f"Did you mean `{close[0]}`?"
    if "base64" in detail["msg"]:
        return "Encode the bytes as base64."
    if detail["type"] == "too_long":
        return HINTS["intermediate_responses"]
    return None


def _conflicting_key(document: Document, path: JsonPath, key: str) -> Problem:
    """The problem of a valid key that conflicts with another key."""
    siblings = _value_at(document.value, path[:-1])
    # Pydantic forbids the snake_case key when the camelCase one has filled the field.
    if key != to_camel(key) in siblings:
        message = f"`{key}` occurs in snake_case and in camelCase."
        return document.error("unknown-key", message, path=path, key=True, hint="Remove one of them.")
    return document.error(
        "unknown-key",
        f"`{key}` can't be combined with `invocation_events`, which is another form of the same data.",
        path=path,
        key=True,
        hint="Keep one of them.",
    )


def _conversation_problem(document: Document, detail: ErrorDetails, path: JsonPath) -> Problem:
    hint = "Give exactly one of `conversation` and `conversation_scenario`."
    if detail["type"] == "no_conversation":
        case = _value_at(document.value, path)
        keys = [key for key in case if key not in spellings(list(_CONVERSATIONS))]
        keys = [key for key in keys if near_miss(key, list(_CONVERSATIONS))]
        example = 'E.g. "conversation": [{"user_content": {"parts": [{"text": "..."}]}}].'
        hint = f"{hint} {example}"
        if other := [f"`{key}`" for key in ("query", "messages", "turns", "prompt", "input") if key in case]:
            hint = f"{other[0]} is not read. Write what the user says and what you expect as turns. {example}"
        if keys:
            hint, path = f"Rename `{keys[0]}` to `{near_miss(keys[0], list(_CONVERSATIONS))}`.", (*path, keys[0])
    return document.error(_ALIASES[detail["type"]], detail["msg"], path=path, key=True, hint=hint)


def _missing_hint(document: Document, path: JsonPath, missing: str, owner: type[BaseModel]) -> tuple[str, str | None]:
    """A hint, and the key that looks like the missing one; None if the field is to be added."""
    known = {*keys_of(owner)} - {missing}
    # Keys that mean something already can't be the missing one in disguise.
    keys = [key for key in _value_at(document.value, path) if to_snake(key) not in known]
    if missing == "user_content" and _is_message(_value_at(document.value, path)):
        return f"This is a message, not a turn. {TURN_HINT}", None
    if (legacy := _LEGACY_NAMES.get(missing)) in keys:
        return f"Rename `{legacy}` to `{missing}`, its name in the legacy format, in which the file begins.", legacy
    close = near_miss_of(missing, keys)
    if close is not None:
        return f"Rename `{close}` to `{missing}`.", close
    example = re.fullmatch(r"Write [^\[{\"\d]*(.+)\.", HINTS.get(missing, ""))
    return f'Add "{missing}": {example[1] if example else "..."} to the object that starts here.', None


def near_miss_of(name: str, keys: Iterable[str]) -> str | None:
    """The key that most likely means a name: misspelt, a word of it, or its name in another format; or None."""
    tests: tuple[Callable[[str], Any], ...] = (
        lambda key: near_miss(key, [name]),
        lambda key: name == _LEGACY_NAMES.get(key) or key in _OTHER_NAMES.get(name, ()),
        lambda key: _is_word_of(key, name),
    )
    return next((key for test in tests for key in keys if test(key)), None)


def _last_key(path: JsonPath) -> str:
    """The innermost key, followed by the index if the value is an item of a list."""
    text = ""
    for step in reversed(path):
        if isinstance(step, str):
            return step + text
        text = f"[{step}]{text}"
    return text


def _describe(value: Any) -> str:
    match value:
        case None:
            return "null"
        # Before int, of which bool is a subclass.
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return "a string" if len(value) > 30 else f'the string "{value}"'
        case list():
            return "a list"
        case _:
            return "an object"


def _value_at(value: Any, path: JsonPath) -> Any:
    for step in path:
        value = value[step]
    return value


def _real_path(
    value: Any, base: JsonPath, loc: tuple[int | str, ...], is_missing: bool
) -> tuple[JsonPath, str | int | None]:
    """Converts pydantic's location of an error to a path in the document.

    Pydantic's location contains names of union members, and names missing fields by their alias.

    Returns:
        The path, and the name of a missing field, if any. Then the path is that of its container.
    """
    path = list(base)
    value = _value_at(value, base)
    for number, step in enumerate(loc, start=1):
        if is_missing and number == len(loc):
            return tuple(path), to_snake(step) if isinstance(step, str) else step
        if isinstance(value, dict) and isinstance(step, str):
            # A step that no spelling of a key has is the tag of a union, e.g. `data` of `intermediate_data`.
            spelling = next((name for name in (step, to_snake(step), to_camel(step)) if name in value), None)
            if spelling is not None:
                path.append(spelling)
                value = value[spelling]
        elif isinstance(value, list) and isinstance(step, int):
            path.append(step)
            value = value[step]
    return tuple(path), None
