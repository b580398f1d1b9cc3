"""How the value of each key of an eval file or a config is written, for the hints of problems."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.alias_generators import to_snake

from agent_eval_scoring.evalset.json import JsonPath

_CONTENT_HINT = 'Write {"parts": [{"text": "..."}]}.'
TURN_HINT = 'Write {"user_content": {"parts": [{"text": "..."}]}, "final_response": {"parts": [{"text": "..."}]}}.'
HINTS: dict[str, str] = {
    "user_content": _CONTENT_HINT,
    "final_response": _CONTENT_HINT,
    "parts": 'Write [{"text": "..."}].',
    "args": 'Write the object itself: {"city": "Berlin"}.',
    "eval_id": 'Write a name in quotes: "berlin".',
    "conversation": 'Write a list of turns: [{"user_content": {"parts": [{"text": "..."}]}}].',
    "intermediate_data": 'Write {"tool_uses": [{"name": "...", "args": {...}}]}.',
    "tool_uses": 'Write [{"name": "get_weather", "args": {"city": "Berlin"}}].',
    "state": 'Write an object, e.g. {"user_name": "Mina"}, or {} if there is none.',
    "final_session_state": 'Write {"order": "open"}.',
    "rubrics": 'Write [{"rubric_id": "polite", "rubric_content": {"text_property": "The answer is polite."}}].',
    "judge_model_options": 'Write {"judge_model": "gemini-2.5-flash"}.',
    "scale": "Write [1, 5].",
    "prompt_template": "Placeholders are {prompt}, {response}, {reference} and {agent_data}.",
    "rules": 'Write [{"never": "delete_*"}].',
    "tool_name": 'Write "get_weather".',
    "custom_metrics.": 'Write {"code_config": {"name": "package.module.function"}}.',
    "eval_cases": 'Write a list of cases: [{"eval_id": "...", "conversation": [...]}].',
    "intermediate_responses": 'Write ["author", [{"text": "..."}]].',
    "rubric_content": 'Write {"text_property": "..."}.',
    "eval_set_id": 'Write a name in quotes: "weather".',
    "invocation_id": 'Write a text in quotes, e.g. "1", or remove the key.',
    "creation_timestamp": "Write the seconds since 1970, e.g. 1790000000, or remove the key.",
    "session_input": 'Write {"app_name": "weather", "user_id": "user", "state": {}}.',
    "initial_session": 'Write {"app_name": "weather", "user_id": "user", "state": {}}.',
    "app_name": 'Write the name of the agent\'s directory: "weather".',
    "user_id": 'Write "user".',
    "starting_prompt": 'Write what the user says first: "Hello".',
    "conversation_plan": 'Write what the user wants: "Book a table for two.".',
    "expected_tool_use": 'Write [{"tool_name": "get_weather", "tool_input": {"city": "Berlin"}}].',
    "expected_intermediate_agent_responses": 'Write [{"author": "sub_agent", "text": "..."}].',
    "rubric_id": 'Write a name in quotes: "polite".',
    "threshold": "Write a number without quotes: 0.8.",
    "code_config": 'Write {"name": "package.module.function"}.',
    "criteria": 'Write metrics with their thresholds: {"response_match_score": 0.8}.',
}
_EXAMPLES = {
    "a string": 'Write "...".',
    "a list": "Write [...].",
    "an object": "Write {...}.",
    "a number": "Write it without quotes, e.g. 0.5.",
    "a whole number": "Write it without quotes, e.g. 5.",
    "true or false": "Write true or false.",
}


_RULES = {
    "tolerance": '{"tolerance": "5%"}',
    "date_within": '{"date_within": "1d"}',
    "one_of": '{"one_of": ["Berlin", "Bern"]}',
    "pattern": '{"pattern": "[A-Z].*"}',
    "regex": '{"pattern": "[A-Z].*"}',
}


def argument_rule_hint(expectation: str) -> str | None:
    """An example of the rule of an argument that a message is about; None if it is about something else."""
    if (found := re.search(r"a wrong rule for `[^`]*`: `([^`]*)`", expectation)) is None:
        return None
    nearest = re.search(r"the nearest is `(\w+)`", expectation)
    name = nearest[1] if nearest else found[1]
    return f"Write e.g. {_RULES[name]}." if name in _RULES else f'Write "{nearest[1] if nearest else "ignore_case"}".'


def shape_hint(expected: str, model: type[BaseModel], path: JsonPath) -> str:
    """The hint for a value of a wrong type: for an object of known keys, these keys."""
    inner = models_at(model, path)
    if expected in ("an object", "a list") and inner and (not path or inner != models_at(model, path[:-1])):
        is_item = bool(path) and isinstance(path[-1], int)
        example = _example_of(inner[-1])
        owners = models_at(model, path[:-1]) if path else []
        fields = [owner.model_fields.get(to_snake(str(path[-1]))) for owner in owners]
        if any(field is not None and "dict[str, " in str(field.annotation) for field in fields):
            return f'Write {{"NAME": {example}}}.'
        return f"Write [{example}]." if expected == "a list" and not is_item else f"Write {example}."
    if expected == "an object" and path and path[-1] == "response":  # As google-adk wraps what a tool returns.
        return 'Write {"result": "..."}.'
    return _EXAMPLES[expected]


def _example_of(model: type[BaseModel]) -> str:
    """An object with the fields of a model that it needs, else with the first two."""
    fields = [name for name, field in model.model_fields.items() if field.is_required()]
    known = [name for name in model.model_fields if name in HINTS]
    fields = fields or known[:2] or [name for name in model.model_fields if name != "id"][:4]
    pairs = []
    for name in fields:
        example = re.fullmatch(r"Write [^\[{\"\d]*(.+?)\.?", HINTS.get(name, ""))
        inner = list(_models_in(model.model_fields[name].annotation))
        is_list = "list" in str(model.model_fields[name].annotation)
        value = example[1] if example else _example_of(inner[0]) if inner and inner[0] is not model else '"..."'
        pairs.append(f'"{name}": {f"[{value}]" if is_list and not value.startswith("[") else value}')
    return f"{{{', '.join(pairs)}}}"


def models_at(model: type[BaseModel], path: JsonPath) -> list[type[BaseModel]]:
    """The models that may describe the value at a path inside a model."""
    models = [model]
    for step in path:
        if isinstance(step, str):
            inner = [
                field_model
                for candidate in models
                for name, field in candidate.model_fields.items()
                if step in (name, field.alias)
                for field_model in _models_in(field.annotation)
            ]
            # A key that is not a field is a key of a mapping, and `models` has the models of its values.
            models = inner or models
    return list(dict.fromkeys(models))


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
