"""The two dialects of A2A: 0.3 and 1.0 renamed everything but mean the same.

Requests are written in the dialect of the agent card. Answers are recognised by their shape, in either dialect.
Specifications: https://a2a-protocol.org/latest/specification/ and https://a2a-protocol.org/v0.3.0/specification/.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Json = Mapping[str, Any]
Kind = Literal["task", "message", "status", "artifact"]

ADK_EXTENSION = "https://google.github.io/adk-docs/a2a/a2a-extension/"
"""If it is requested, ADK's server sends an artifact for each event, with the event's metadata."""
_WRAPPERS: Mapping[str, Kind] = {
    "task": "task",
    "message": "message",
    "msg": "message",
    "statusUpdate": "status",
    "artifactUpdate": "artifact",
}
"""1.0: the only key of a result."""
_KINDS: Mapping[str, Kind] = {
    "task": "task",
    "message": "message",
    "status-update": "status",
    "artifact-update": "artifact",
}
"""0.3: the `kind` of a result."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How requests are written."""

    version: str
    headers: Mapping[str, str]
    send: str
    """The name of the method; also the next three."""
    stream: str
    get_task: str
    cancel_task: str
    flat: bool
    """1.0: a part has no `kind`, and the role is an enum's name."""
    numbers_are_floats: bool
    """1.0 is protobuf's JSON: every number of a data part is a double."""

    def request(self, method: str, params: Json) -> dict[str, Any]:
        """A JSON-RPC request."""
        return {"jsonrpc": "2.0", "id": "1", "method": method, "params": dict(params)}

    def message(
        self, parts: Sequence[Json], *, message_id: str, context_id: str | None, task_id: str | None
    ) -> dict[str, Any]:
        """The params of a user's message.

        Args:
            parts: In this dialect.
            message_id: Unique.
            context_id: The conversation; None for a new one.
            task_id: A task that waits for this message; None for a new one.
        """
        message: dict[str, Any] = {"messageId": message_id, "role": "ROLE_USER" if self.flat else "user"}
        message |= {} if self.flat else {"kind": "message"}
        message |= {} if context_id is None else {"contextId": context_id}
        message |= {} if task_id is None else {"taskId": task_id}
        message["parts"] = list(parts)
        # In 1.0 a request blocks unless it says otherwise.
        return {"message": message} if self.flat else {"message": message, "configuration": {"blocking": True}}


V1 = Dialect(
    version="1.0",
    headers={"A2A-Version": "1.0", "A2A-Extensions": ADK_EXTENSION},
    send="SendMessage",
    stream="SendStreamingMessage",
    get_task="GetTask",
    cancel_task="CancelTask",
    flat=True,
    numbers_are_floats=True,
)
V03 = Dialect(
    version="0.3",
    headers={"X-A2A-Extensions": ADK_EXTENSION},
    send="message/send",
    stream="message/stream",
    get_task="tasks/get",
    cancel_task="tasks/cancel",
    flat=False,
    numbers_are_floats=False,
)

FINISHED = frozenset({"completed", "failed", "canceled", "rejected"})
INTERRUPTED = frozenset({"input-required", "auth-required"})
"""The task waits for the user's next message."""


def state_of(task_or_update: Json) -> str:
    """The state of a task or a status update as 0.3 spells it, e.g. `input-required`; empty if there is none."""
    status = task_or_update.get("status")
    state = status.get("state") if isinstance(status, Mapping) else None
    if not isinstance(state, str):
        return ""
    name = state.removeprefix("TASK_STATE_").lower().replace("_", "-")
    return "canceled" if name == "cancelled" else name


def is_agent(message: Json) -> bool:
    """Whether a message is the agent's. A message without a role is, too: only ours are known to be the user's."""
    return str(message.get("role", "")).removeprefix("ROLE_").lower() != "user"


def payload(result: Any) -> tuple[Kind, Json] | None:
    """What a result holds; None if it is none of the protocol's objects."""
    if not isinstance(result, Mapping):
        return None
    for key, kind in _WRAPPERS.items():
        if isinstance(value := result.get(key), Mapping):
            return kind, value
    kind_name = result.get("kind")
    if isinstance(kind_name, str) and kind_name in _KINDS:
        return _KINDS[kind_name], result
    # A task that was asked for has no wrapper in 1.0.
    if "status" in result:
        return ("task" if "id" in result else "status"), result
    if "artifact" in result:
        return "artifact", result
    return ("message", result) if "parts" in result else None
