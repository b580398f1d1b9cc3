"""The two dialects of A2A: 0.3 and 1.0 renamed everything but mean the same. And the agent card, which says where the
agent answers, and in which of them. And the errors of JSON-RPC, and what they say about the agent.

Requests are written in the dialect of the agent card. Answers are recognised by their shape, in either dialect.
Specifications: https://a2a-protocol.org/latest/specification/ and https://a2a-protocol.org/v0.3.0/specification/.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent_eval_agents.driver import READY_PATHS
from agent_eval_agents.http import RemoteUrl, Reply, failures, parse_url
from agent_eval_agents.http.failures import ServerProcess
from agent_eval_agents.protocol import AgentFailure, FailureKind
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.text import first_line, shorten

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
    """1.0: a part has no `kind`, and the role is an enum's name. Data's numbers are doubles (protobuf's JSON)."""

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
)
V03 = Dialect(
    version="0.3",
    headers={"X-A2A-Extensions": ADK_EXTENSION},
    send="message/send",
    stream="message/stream",
    get_task="tasks/get",
    cancel_task="tasks/cancel",
    flat=False,
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


CARD_PATHS = READY_PATHS["a2a"]
"""The second one is that of servers before 0.3, and of adk-rust."""
_JSON_RPC = "JSONRPC"
_ANY_HOST = frozenset({"0.0.0.0", "::"})  # noqa: S104 - not bound, only recognised


class BadCard(AgentEvalError, ValueError):
    """A card that can't be used. The message is a clause without a full stop."""


@dataclass(frozen=True, kw_only=True)
class AgentCard:
    """What we need of a card."""

    name: str
    version: str
    """Of the agent; empty if the card has none."""
    url: str
    """Where requests are sent."""
    dialect: Dialect
    streaming: bool
    shows_calls: bool
    """The card lists ADK's extension."""


def read_card(raw: Any, source: RemoteUrl) -> AgentCard:
    """Reads a card.

    Args:
        raw: The card's JSON.
        source: The address that the user named.

    Raises:
        BadCard: It is no card, or offers no interface that we speak.
    """
    if not isinstance(raw, Mapping) or not isinstance(raw.get("name"), str):
        raise BadCard("its agent card is not a JSON object with a `name`, so it may be no A2A server")
    interfaces = list(_interfaces(raw))
    usable = [(url, version) for url, binding, version in interfaces if binding == _JSON_RPC and _dialect(version)]
    if not usable:
        offered = ", ".join(f"{binding or 'nothing'} {version}".strip() for _, binding, version in interfaces[:5])
        raise BadCard(
            "its agent card offers no JSON-RPC interface of A2A 0.3 or 1.0 "
            f"(it offers {first_line(offered, 200) or 'none'})"
        )
    # The newest dialect first; of equal ones, the card's first.
    url, version = max(usable, key=lambda interface: _dialect(interface[1]) is V1)
    dialect = _dialect(version)
    assert dialect is not None
    capabilities = raw.get("capabilities")
    capabilities = capabilities if isinstance(capabilities, Mapping) else {}
    extensions = capabilities.get("extensions")
    extensions = extensions if isinstance(extensions, list) else []
    return AgentCard(
        name=first_line(raw["name"], 200),
        version=first_line(str(raw.get("version") or ""), 100),
        url=_reachable(url, source),
        dialect=dialect,
        streaming=capabilities.get("streaming") is True,
        shows_calls=any(isinstance(each, Mapping) and each.get("uri") == ADK_EXTENSION for each in extensions),
    )


def _interfaces(card: Json) -> Iterator[tuple[str, str, str]]:
    """URL, binding and protocol version of each interface."""
    listed = card.get("supportedInterfaces")
    for each in listed if isinstance(listed, list) else ():  # 1.0
        if isinstance(each, Mapping) and isinstance(each.get("url"), str):
            yield each["url"], str(each.get("protocolBinding", "")), str(each.get("protocolVersion", "1.0"))
    version = str(card.get("protocolVersion") or "0.3")
    if isinstance(card.get("url"), str):  # 0.3
        yield card["url"], str(card.get("preferredTransport") or _JSON_RPC), version
    listed = card.get("additionalInterfaces")
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, Mapping) and isinstance(each.get("url"), str):
            yield each["url"], str(each.get("transport", "")), version


def _dialect(version: str) -> Dialect | None:
    major, _, rest = version.partition(".")
    if major == "1":
        return V1
    return V03 if major == "0" and rest.partition(".")[0] in {"2", "3"} else None


def _reachable(url: str, source: RemoteUrl) -> str:
    """The interface's URL as it can be reached from here.

    A server doesn't know its outside address: ADK's card says `localhost:8000` unless the code names another host and
    port. So a loopback address in a card, and a path alone, mean the server that sent the card.

    Raises:
        BadCard: The URL is invalid.
    """
    try:
        target = parse_url(urllib.parse.urljoin(f"{source.base}/", url))
    except ValueError as error:
        raise BadCard(f"its agent card names an invalid URL: {error}") from None
    # The path as written: servers answer /a2a and /a2a/ differently, and redirects are not followed.
    path = urllib.parse.urlsplit(urllib.parse.urljoin(f"{source.base}/", url)).path
    if target.is_loopback or urllib.parse.urlsplit(target.base).hostname in _ANY_HOST:
        return source.origin + path if path not in {"", "/"} else source.join("/")
    return target.origin + (path or "/")


NO_SUCH_METHOD = frozenset({-32601, -32004})
"""Method not found (JSON-RPC), operation not supported (A2A)."""
_TASK_NOT_FOUND = -32001
_REQUEST_REFUSED = frozenset({-32700, -32600, -32601, -32602, *range(-32009, -32001)})
"""Errors about the request: the two sides understand the protocol differently."""


class RpcError(AgentEvalError):
    """An error that the server answers instead of a result."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def result_of(reply: Reply, server: ServerProcess | None) -> Any:
    """The result in an answer.

    Raises:
        RpcError: It is an error of JSON-RPC, with any HTTP status.
        AgentFailure: It is no answer of JSON-RPC.
    """
    answer = reply.json
    if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
        return result_in(answer)
    # Checked after the error: servers send it with 200, with 400 or with 500.
    if reply.status != 200:
        raise failures.unexpected_status(reply, server)
    return result_in(answer)


def result_in(answer: Any) -> Any:
    """The result in an answer, as JSON.

    Raises:
        RpcError: It is an error.
        AgentFailure: It is no answer of JSON-RPC.
    """
    if isinstance(answer, dict) and isinstance(error := answer.get("error"), dict):
        code = error.get("code")
        raise RpcError(code if isinstance(code, int) else 0, _text(error))
    if not isinstance(answer, dict) or "result" not in answer:
        raise AgentFailure(
            "The agent's server sent something else than a JSON-RPC answer.",
            kind=FailureKind.PROTOCOL,
            hint="Check that the URL in the agent card is that of the A2A interface.",
        )
    return answer["result"]


def _text(error: Json) -> str:
    """The message, and the details of SDKs that put the reason there."""
    message = first_line(str(error.get("message") or ""), 500).rstrip(".")
    data = error.get("data")
    # JSON-RPC's messages are fixed texts such as `Internal error`.
    if isinstance(data, str) and data and data not in message:
        return f"{message}: {first_line(data, 500)}" if message else first_line(data, 500)
    return message or "no message"


def failure(error: RpcError) -> AgentFailure:
    """The failure of a turn whose request was answered with an error."""
    if error.code == _TASK_NOT_FOUND:
        return AgentFailure(
            f"The agent's server lost the task: {error.message}.",
            kind=FailureKind.CRASH,
            hint="Was it started again, or does it have several instances without a shared task store?",
        )
    if error.code in _REQUEST_REFUSED:
        return AgentFailure(
            f"The agent's server refuses the request: {error.message} (JSON-RPC error {error.code}).",
            kind=FailureKind.PROTOCOL,
            hint="Does the agent card belong to this server, and to its version of A2A?",
        )
    return failures.agent_error(f"{error.message} (JSON-RPC error {error.code})")


def unreadable(why: str) -> AgentFailure:
    """The failure of a turn whose answer is not in A2A's format; `why` is a clause."""
    return AgentFailure(
        f"The agent's server sent an answer that can't be read: {shorten(why, 600)}.",
        kind=FailureKind.PROTOCOL,
        hint="The server does not speak A2A as its agent card says.",
    )
