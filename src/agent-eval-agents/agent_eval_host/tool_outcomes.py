"""Records what the body of a tool did as JSON, and replays it."""

from __future__ import annotations

import copy
import inspect
import sys
from typing import Any

from agent_eval_host.values import dump, plain

_REPEATED = ("escalate", "skip_summarization", "transfer_to_agent")
_KNOWN = {*_REPEATED, *("state_delta", "artifact_delta", "requested_auth_configs", "requested_tool_confirmations")}


def effects(context: Any) -> dict[str, Any]:
    """Changes of a tool besides its response."""
    actions = context.actions
    return {
        "state": copy.copy(actions.state_delta or {}),
        "shown": plain(actions.state_delta or {}),
        "artifacts": dict(getattr(actions, "artifact_delta", None) or {}),
        "credentials": len(getattr(actions, "requested_auth_configs", None) or {}),
        "confirmations": len(getattr(actions, "requested_tool_confirmations", None) or {}),
        "actions": {name: value for name in _REPEATED if (value := getattr(actions, name, None)) is not None},
        "others": {name: value for name, value in vars(actions).items() if name not in _KNOWN},
    }


def recorded(tool: Any, outcome: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The outcome of a body as JSON, or why it can't be replayed."""
    obstacles = {
        "it runs long": getattr(tool, "is_long_running", False),
        "it streams its response": inspect.isasyncgenfunction(getattr(tool, "func", None)),
        "it saves artifacts": before["artifacts"] != after["artifacts"],
        "it asks for credentials": before["credentials"] != after["credentials"],
        "it asks for a confirmation": before["confirmations"] != after["confirmations"],
        "it sets an action that a tape does not hold": before["others"] != after["others"],
    }
    reason = next((reason for reason, applies in obstacles.items() if applies), None)
    try:
        state = {
            str(key): _carried(value, f"the state `{key}`")
            for key, value in after["state"].items()
            if key not in before["shown"] or before["shown"][key] != after["shown"][key]
        }
        actions = {name: value for name, value in after["actions"].items() if before["actions"].get(name) != value}
        if "response" in outcome:
            response = outcome["response"]
            carried = _carried(response, "its response")
            # ADK wraps what is no dict, and a model would come back as a dict.
            outcome = {"response": {"result": carried} if hasattr(response, "model_dump") else carried}
        outcome |= {"state": state, "actions": actions}
    except (TypeError, RecursionError) as error:
        reason = reason or str(error)
    return outcome if reason is None else {"reason": reason}


def _carried(value: Any, what: str) -> Any:
    """A value as JSON. Raises TypeError if JSON can't carry it."""
    if isinstance(value, str):
        return str.__str__(value)
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and value - value == 0):
        return value
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {str.__str__(key): _carried(item, what) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_carried(item, what) for item in value]
    if hasattr(value, "model_dump") and not type(value).__module__.startswith("google.genai."):
        return _carried(dump(value), what)
    raise TypeError(f"{what} contains a value of type {type(value).__name__}, which JSON can't carry")


class _Message(str):
    """A recorded message. A KeyError shows the `repr` of its argument, and the message is that already."""

    __repr__ = str.__str__


def replay(decision: dict[str, Any], context: Any) -> Any:
    """Returns or raises the recorded outcome, with its changes of state and actions."""
    for key, value in (decision.get("state") or {}).items():
        context.state[key] = value
    for name, value in (decision.get("actions") or {}).items():
        setattr(context.actions, name, value)
    error = decision.get("error")
    if error is None:
        return decision.get("response")
    module, _, name = str(error.get("type")).rpartition(".")
    cls: Any = getattr(sys.modules.get(module or "builtins"), name, None)
    if not (isinstance(cls, type) and issubclass(cls, Exception)):
        cls = type(name or "ToolError", (Exception,), {"__module__": module or "builtins"})
    # Without __init__, whose arguments are unknown.
    raised = cls.__new__(cls, error.get("message"))
    raised.args = (_Message(error.get("message")),)
    raise raised
