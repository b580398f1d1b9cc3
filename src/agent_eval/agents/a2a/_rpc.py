"""Errors of JSON-RPC, and what they say about the agent."""

from __future__ import annotations

from typing import Any

from agent_eval.agents.a2a._dialect import Json
from agent_eval.agents.http import Reply, failures
from agent_eval.agents.http.failures import ServerProcess
from agent_eval.agents.protocol import AgentFailure, FailureKind
from agent_eval.core.text import first_line, shorten

NO_SUCH_METHOD = frozenset({-32601, -32004})
"""Method not found (JSON-RPC), operation not supported (A2A)."""
_TASK_NOT_FOUND = -32001
_REQUEST_REFUSED = frozenset({-32700, -32600, -32601, -32602, *range(-32009, -32001)})
"""Errors about the request: the two sides understand the protocol differently."""


class RpcError(Exception):
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
    answer = reply.json()
    if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
        return result_in(answer)
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
    return failures.agent_error(f"{error.message} (JSON-RPC error {error.code})", by_words=True)


def unreadable(why: str) -> AgentFailure:
    """The failure of a turn whose answer is not in A2A's format; `why` is a clause."""
    return AgentFailure(
        f"The agent's server sent an answer that can't be read: {shorten(why, 600)}.",
        kind=FailureKind.PROTOCOL,
        hint="The server does not speak A2A as its agent card says.",
    )
