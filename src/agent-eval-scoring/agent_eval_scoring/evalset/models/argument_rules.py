"""Rules for the args of expected tool calls: `args` of the trajectory criteria and of `[[tool]]` in agent-eval.toml."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.patterns import bounded
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.core.text import shorten

WORDS = ("exact", "ignore", "any", "ignore_case", "ignore_space", "ignore_case_and_space", "subset")
"""Rules without a value."""
_TOOL = r"^[^#]+(#[1-9][0-9]{0,3})?$"
_NAME = r"^[^\s#]+( > [^\s#]+)*$"
_WILD = frozenset("*?[")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def applies(tool: str, name: str | None, at: int) -> bool:
    """Whether the rules of a tool are about the expected call `at` (1-based) of a turn."""
    # `search#2` is the second expected call of a turn, whatever tools come before it: an agent's calls have no fixed
    # places.
    pattern, _, place = tool.partition("#")
    return fnmatchcase(name or "", pattern) and place in ("", str(at))


def specificity(tool: str, path: str) -> tuple[bool, bool, int, str, bool, int, str]:
    """The key that sorts rules, the most specific first: by place, name of the tool, path; globs after names.

    Args:
        tool: Whose rule it is, e.g. `search#2`.
        path: The argument's path.
    """
    name, _, place = tool.partition("#")
    # Longer names are more specific; the names themselves only make the order independent of the file's.
    return (not place, _is_glob(name), -len(name), name, _is_glob(path), -len(path), path)


def _is_glob(pattern: str) -> bool:
    return bool(_WILD.intersection(pattern))


def paths(args: Any, path: str = "") -> Iterator[str]:
    """The dotted paths of all that is in an object, or in the objects of a list."""
    if isinstance(args, dict):
        for key, value in args.items():
            inner = f"{path}.{key}" if path else str(key)
            yield inner
            yield from paths(value, inner)
    elif isinstance(args, list):
        # Without an index in the path: a rule for `items.price` is about each item.
        for item in args:
            yield from paths(item, path)


def with_defaults(rules: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The rules of a criterion and the defaults; of both for the same tool and argument, that of the criterion."""
    # Merged by argument, not by tool: a criterion that rules on one argument keeps agent-eval.toml's rules for the
    # others.
    return {tool: {**defaults.get(tool, {}), **rules.get(tool, {})} for tool in {**defaults, **rules}}


def relative(tolerance: Any) -> float | None:
    """The share of a tolerance such as `5%`; None for one in the argument's own unit."""
    return float(tolerance[:-1]) / 100 if isinstance(tolerance, str) and tolerance.endswith("%") else None


def period(value: str) -> timedelta:
    """The length of a period such as `2d`.

    Raises:
        ValueError: It is none.
    """
    # Six digits at most: timedelta raises OverflowError for more than 999,999,999 days.
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)\s?([smhdw])", value, re.ASCII)
    if match is None:
        raise ValueError(f"`date_within` must be a number with a unit, e.g. `30m`, `2h` or `1d`, not {value!r}")
    return timedelta(**{_UNITS[match[2]]: float(match[1])})


def _tolerance(value: Any) -> None:
    try:
        share = relative(value)
        number = share if share is not None else value
        # `true` is an int in Python, and would be a tolerance of 1.
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < math.inf:
            raise ValueError
    except ValueError:
        raise ValueError(f"`tolerance` must be a number of 0 or more, or a share such as `5%`, not {value!r}") from None


def _pattern(value: Any) -> None:
    try:
        # A value that is no text fails as "(" does, so that both are the one error "no regular expression".
        bounded(value if isinstance(value, str) else "(", whole=True)
    except ValueError as error:
        raise ValueError(f"`pattern` {value!r} {error}") from None


def _one_of(value: Any) -> None:
    if not isinstance(value, list) or not value:
        raise ValueError("`one_of` must be a list of values")


_KEYS: Mapping[str, Callable[[Any], object]] = {
    "tolerance": _tolerance,
    "pattern": _pattern,
    "one_of": _one_of,
    "date_within": lambda value: period(str(value)),
}


class RuleError(AgentEvalError, ValueError):
    """A wrong rule, and the keys that lead to it."""

    def __init__(self, message: str, *path: str) -> None:
        super().__init__(message)
        self.path = path


def check_rules(value: Any) -> dict[str, Any]:
    """The rules of one tool by the path of its argument, as they are written; `ignore` for all of them.

    Raises:
        ValueError: They are none. The message is a clause that names the argument.
    """
    # Short for all arguments of a tool; `*` is what `applies` and the explanations know.
    if value == "ignore":
        return {"*": "ignore"}
    if not isinstance(value, Mapping) or not value:
        raise ValueError('must be "ignore", or an object with a rule for each argument, e.g. {"city": "ignore_case"}')
    for path, rule in value.items():
        try:
            _check(rule)
        except ValueError as error:
            raise RuleError(f"has a wrong rule for `{path}`: {error}", str(path)) from None
    return dict(value)


def _check(rule: Any) -> None:
    if isinstance(rule, str) and rule in WORDS:
        return
    # One key: of `{"tolerance": 1, "pattern": "x"}` nobody could say which of them has to hold.
    if isinstance(rule, Mapping) and len(rule) == 1 and (key := next(iter(rule))) in _KEYS:
        _KEYS[key](rule[key])
        return
    given = rule if isinstance(rule, str) else ", ".join(rule) if isinstance(rule, Mapping) else repr(rule)
    near = nearby(given, (*WORDS, *_KEYS), count=1)
    known = ", ".join((*WORDS, *(f'{{"{key}": ...}}' for key in _KEYS)))
    raise ValueError(f"`{given}` is no rule; {f'the nearest is `{near[0]}`' if near else f'there are {known}'}")


def _is_rule(rule: Any) -> bool:
    try:
        _check(rule)
    except ValueError:
        return False
    return True


def _by_tool(value: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(value, Mapping):
        raise ValueError('must be an object of tools, e.g. {"search": {"city": "ignore_case"}}')
    rules = {}
    for tool, of_tool in value.items():
        if not re.fullmatch(_TOOL, tool):
            hint = "write a tool, or e.g. `search#2` for expected call 2 of a turn"
            raise RuleError(f"has a wrong name `{tool}`: {hint}", tool)
        try:
            rules[tool] = check_rules(of_tool)
        except ValueError as error:
            # The tool was left out: `{"city": "ignore_case"}` is what `[[tool]]` of agent-eval.toml has below its name.
            if _is_rule(of_tool):
                written = json.dumps({tool: of_tool})
                around = f'maps tools to the rules of their arguments: write {{"TOOL": {shorten(written, 80)}}}'
                raise RuleError(f"{around}, with the tool that has `{tool}`", tool) from None
            # The path leads the finding to the line of the argument and not only of the criterion.
            raise RuleError(f"`{tool}` {error}", tool, *getattr(error, "path", ())) from None
    return rules


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(_NAME, value) is not None


def _check_tool_rule(rule: Any) -> dict[str, Any]:
    kind: Any = ""
    value: Any = None
    if isinstance(rule, Mapping) and len(rule) == 1:
        [(kind, value)] = rule.items()
    names = isinstance(value, list) and all(_is_name(name) for name in value)
    if kind in ("before", "success_before"):
        # A tool before itself could never hold.
        fits = names and len(value) == 2 and value[0] != value[1]
    elif kind == "at_most":
        limits = list(value.values()) if isinstance(value, Mapping) else []
        # Not isinstance: `{"at_most": {"a": true}}` is no number. 0 is `never`.
        fits = len(limits) == 1 and type(limits[0]) is int and limits[0] >= 1 and _is_name(next(iter(value)))
    else:
        fits = (kind == "some_of" and names and bool(value)) or (kind in ("never", "succeeds") and _is_name(value))
    # Conditions in one object look like "and"; as separate rules each has its own line in the report when it breaks.
    if isinstance(rule, Mapping) and len(rule) > 1 and all(key in _TOOL_RULES for key in rule):
        parts = shorten(", ".join(json.dumps({key: part}) for key, part in rule.items()), 200)
        raise ValueError(f"has {len(rule)} conditions, and a rule has one: write {parts}")
    if not fits and kind in _RULE_FORMS:
        raise ValueError(f"has a wrong value for `{kind}`: write {{{json.dumps(kind)}: {_RULE_FORMS[kind]}}}")
    if not fits:
        what = f"has the unknown condition {json.dumps(kind)}" if kind and isinstance(kind, str) else "is no rule"
        forms = [f'{{"{name}": {form}}}' for name, form in _RULE_FORMS.items()]
        raise ValueError(f"{what}: write {', '.join(forms[:-1])} or {forms[-1]}")
    return dict(rule)


_RULE_FORMS = {
    "before": '["FIRST_TOOL", "SECOND_TOOL"]',
    "success_before": '["FIRST_TOOL", "SECOND_TOOL"]',
    "never": '"TOOL"',
    "at_most": '{"TOOL": 2}',
    "some_of": '["TOOL", "OTHER_TOOL"]',
    "succeeds": '"TOOL"',
}
"""How the value of each condition is written."""


_TOOL_NAME = {"type": "string", "pattern": _NAME}
_PAIR = {"type": "array", "items": _TOOL_NAME, "minItems": 2, "maxItems": 2}
_TOOL_RULES: dict[str, Any] = {
    "before": _PAIR,
    "success_before": _PAIR,
    "never": _TOOL_NAME,
    "at_most": {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "propertyNames": {"pattern": _NAME},
        "additionalProperties": {"type": "integer", "minimum": 1},
    },
    "some_of": {"type": "array", "items": _TOOL_NAME, "minItems": 1},
    "succeeds": _TOOL_NAME,
}
ToolRule = Annotated[
    dict[str, Any],
    BeforeValidator(_check_tool_rule),
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
            "properties": _TOOL_RULES,
        }
    ),
]
"""A rule of order or absence of calls."""
_OBJECT: dict[str, Any] = {"type": "object", "minProperties": 1}
_WITH_VALUE: dict[str, Any] = {
    "tolerance": {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": "%$"}]},
    "pattern": {"type": "string"},
    "one_of": {"type": "array", "minItems": 1},
    "date_within": {"type": "string"},
}
_RULE = {
    "anyOf": [
        {"enum": list(WORDS)},
        {**_OBJECT, "maxProperties": 1, "additionalProperties": False, "properties": _WITH_VALUE},
    ]
}
_OF_TOOL = {"anyOf": [{"const": "ignore"}, {**_OBJECT, "additionalProperties": _RULE}]}
ArgumentRules = Annotated[
    dict[str, Any],
    BeforeValidator(_by_tool),
    WithJsonSchema({"type": "object", "propertyNames": {"pattern": _TOOL}, "additionalProperties": _OF_TOOL}),
]
"""By tool, a glob of names or e.g. `search#2`, and by argument: how its value is compared. Not in ADK."""
KeyRules = Annotated[
    dict[str, Any], BeforeValidator(check_rules), WithJsonSchema({"type": "object", "additionalProperties": _RULE})
]
"""By key, or the path of a value in it."""
