"""Which calls are the same: arguments in canonical form, and what is masked in them. Pure."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agent_eval.agents.tape_rules import ToolPolicy
from agent_eval.core.masking import MASK

SECRET_NAMES = frozenset(
    {
        "authorization",
        "apikey",
        "token",
        "accesstoken",
        "refreshtoken",
        "idtoken",
        "password",
        "cookie",
        "setcookie",
        "secret",
        "clientsecret",
    }
)
"""Names whose values are masked in arguments, responses and state. Case, dashes and underscores don't count:
`accessToken` and `Access-Token` are names, too."""
_DEEPEST = 200


class TooDeep(ValueError):
    """A value is nested more deeply than a tape can hold."""


def masked(value: Any, policy: ToolPolicy) -> Any:
    """A value of a call with everything masked that must not be stored: secret names, and the paths of `mask`."""
    value = _without_secrets(value, 0)
    return _changed(value, policy.mask, lambda _: MASK)


def masked_names(value: Any, path: str = "") -> Iterable[str]:
    """The dotted paths of the values that their names make secret."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            at = f"{path}.{key}" if path else str(key)
            if _is_secret(key) and item not in (None, "", MASK):
                yield at
            else:
                yield from masked_names(item, at)
    elif isinstance(value, list):
        for item in value:
            yield from masked_names(item, path)


def canonical(args: Mapping[str, Any], policy: ToolPolicy) -> str:
    """The text by which a call is looked up: two calls of a tool with the same text are the same.

    Texts are compared in NFC, numbers by value, objects without regard to the order of their keys.
    """
    value = masked(args, policy)
    if policy.match is not None:
        value = _selected(value, [path.split(".") for path in policy.match])
    for path in policy.ignore:
        value = _without(value, path.split("."))
    return json.dumps(_normal(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def equal(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON."""
    return json.dumps(_normal(left), sort_keys=True) == json.dumps(_normal(right), sort_keys=True)


def _normal(value: Any) -> Any:
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {unicodedata.normalize("NFC", str(key)): _normal(item) for key, item in value.items()}
    return [_normal(item) for item in value] if isinstance(value, list | tuple) else value


def _is_secret(key: object) -> bool:
    return isinstance(key, str) and key.lower().replace("-", "").replace("_", "") in SECRET_NAMES


def _without_secrets(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise TooDeep(f"It is nested more than {_DEEPEST} levels deep")
    if isinstance(value, Mapping):
        return {
            key: MASK if _is_secret(key) and item not in (None, "") else _without_secrets(item, depth + 1)
            for key, item in value.items()
        }
    return [_without_secrets(item, depth + 1) for item in value] if isinstance(value, list | tuple) else value


def _changed(value: Any, paths: Iterable[str], change: Callable[[Any], Any]) -> Any:
    for path in paths:
        value = _at(value, path.split("."), change)
    return value


def _at(value: Any, steps: Sequence[str], change: Callable[[Any], Any]) -> Any:
    """The value with a change at a path; lists are passed through."""
    if not steps:
        return change(value)
    if isinstance(value, list):
        return [_at(item, steps, change) for item in value]
    if isinstance(value, Mapping) and steps[0] in value:
        return {**value, steps[0]: _at(value[steps[0]], steps[1:], change)}
    return value


def _without(value: Any, steps: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_without(item, steps) for item in value]
    if not isinstance(value, Mapping) or steps[0] not in value:
        return value
    rest = {key: item for key, item in value.items() if key != steps[0]}
    return rest if len(steps) == 1 else {**value, steps[0]: _without(value[steps[0]], steps[1:])}


def _selected(value: Any, paths: Sequence[Sequence[str]]) -> Any:
    if any(not path for path in paths):
        return value
    if isinstance(value, list):
        return [_selected(item, paths) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: _selected(item, [path[1:] for path in paths if path[0] == key])
        for key, item in value.items()
        if any(path[0] == key for path in paths)
    }
