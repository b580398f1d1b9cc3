"""Whose failure an error is: the pull request's own, or the world's (docs/verdict.md).

The host tells what was raised and whether it came out of a model call; the decision is made here.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import Any

from agent_eval.agents.connection import RemoteError
from agent_eval.agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval.core.text import first_line, shorten

_TEMPORARY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_NO_CREDENTIALS = frozenset({401, 403})
_UNREACHABLE = (
    "ConnectionError",
    "TimeoutError",
    "Timeout",
    "TimeoutException",
    "TransportError",
    "ClientConnectionError",
    "ClientPayloadError",
    "APIConnectionError",
    "APITimeoutError",
    "ServiceUnavailableError",
    "RateLimitError",
    "InternalServerError",
    "RefreshError",
    "gaierror",
)
"""Class names, at any place of the class's ancestry, that mean "the provider was not reached" in the HTTP clients and
SDKs that ADK uses (httpx, aiohttp, requests, openai, anthropic, litellm, google-auth)."""
_KEY_MISSING = re.compile(r"api.?key|credentials?\b|DefaultCredentialsError", re.IGNORECASE)
_KEY_REFUSED = re.compile(r"api.?key.{0,20}(not valid|invalid|expired)|API_KEY_INVALID", re.IGNORECASE | re.DOTALL)
_KEY_HINT = (
    "Give the job the model's credentials (for Gemini `GOOGLE_API_KEY`), and see that the variable is among those "
    "that the agent gets (`--agent-env`). A pull request from a fork has no secrets."
)


def is_temporary(status: int) -> bool:
    """Whether a model call with this HTTP status failed because of the provider's state, not of what was asked."""
    return status in _TEMPORARY or status >= 500


def failed_turn(error: RemoteError, log_tail: str | None) -> AgentFailure:
    """The failure that a host's answer to `send` means."""
    data = error.data
    summary = f"{data.get('type') or error.code}: {first_line(error.message, 500) or 'no message'}"
    traceback = data.get("traceback") or None
    if data.get("origin") == "model" and (hint := _provider_hint(error.message, data)) is not None:
        return AgentFailure(
            f"The agent's model provider failed: {_with_status(summary, data)}",
            kind=FailureKind.PROVIDER,
            owner=Owner.PROVIDER,
            traceback=traceback,
            hint=hint,
        )
    if data.get("exit") is not None:
        return AgentFailure(
            f"The agent called sys.exit({data['exit']}) in the middle of a turn.",
            kind=FailureKind.CRASH,
            traceback=traceback,
            log_tail=log_tail,
            hint="An agent or a tool that can't go on should raise an exception or return an error.",
        )
    where = "the agent's model call" if data.get("origin") == "model" else "the agent"
    return AgentFailure(
        f"{where[0].upper()}{where[1:]} raised {summary}", kind=FailureKind.EXCEPTION, traceback=traceback
    )


def _with_status(summary: str, data: Mapping[str, Any]) -> str:
    status = data.get("status")
    return summary if status is None or str(status) in summary else f"{summary} (HTTP {status})"


def _provider_hint(message: str, data: Mapping[str, Any]) -> str | None:
    """What to do about a failed model call, if it is the provider's or the credentials' failure; else None."""
    status = data.get("status")
    classes = [str(name).rsplit(".", 1)[-1] for name in data.get("classes") or ()]
    if status in _NO_CREDENTIALS or _KEY_REFUSED.search(message):
        return _KEY_HINT
    if isinstance(status, int):
        if not is_temporary(status):
            return None
    elif any(name in _UNREACHABLE for name in classes):
        return "The provider could not be reached. See the network, the proxy and the base URL variables of the job."
    elif _KEY_MISSING.search(message) and ("ValueError" in classes or "DefaultCredentialsError" in classes):
        return _KEY_HINT
    else:
        return None
    return "The provider was unavailable even after retries. Run the job again later, or lower `--concurrency`."


def provider_never_answered(model: str, attempts: list[int], seconds: float) -> AgentFailure:
    """The turn's time was used up by retries of a model call."""
    codes = ", ".join(str(code) for code in attempts[-5:])
    return AgentFailure(
        f"The agent's model provider ({model or 'model'}) failed {len(attempts)} times (HTTP {codes}) in "
        f"{seconds:.0f} s, until the turn's time was up.",
        kind=FailureKind.PROVIDER,
        owner=Owner.PROVIDER,
        hint="Run the job again later, lower `--concurrency`, or give turns more time (`--turn-timeout`).",
    )


def failed_load(error: RemoteError, log_tail: str | None) -> AgentFailure:
    """The failure that a host's answer to `load` means."""
    data = error.data
    traceback = data.get("traceback") or None
    if error.code == "agent-environment":
        return AgentFailure(
            first_line(error.message, 1_000),
            kind=FailureKind.ENVIRONMENT,
            traceback=traceback,
            log_tail=log_tail,
            hint="Name google-adk 1.18 or newer in the agent's requirements (`--agent-requirements`), or give the "
            "interpreter that has it (`--agent-python`).",
        )
    if data.get("exit") is not None:
        message = f"The agent can't be imported: it calls sys.exit({data['exit']}) while it is imported."
    else:
        message = f"The agent can't be imported: {data.get('type') or 'error'}: {first_line(error.message, 500)}"
    return AgentFailure(
        message, kind=FailureKind.IMPORT, traceback=traceback, log_tail=log_tail, hint=_import_hint(data, error.message)
    )


def _import_hint(data: Mapping[str, Any], message: str) -> str:
    kind = data.get("type")
    if kind == "ModuleNotFoundError":
        missing = re.search(r"No module named '([^'.]+)", message)
        name = f"`{missing[1]}`" if missing else "the missing module"
        return (
            f"Add the package that gives {name} to the agent's requirements. If it is a module of the repository: the "
            "agent's parent directory and the repository's root are importable."
        )
    if kind == "LookupError":
        return "Define `root_agent` or `app` in agent.py, or name another directory with `--agent`."
    if kind == "SyntaxError":
        return "Mend the file, or run the agent with the Python version that it is written for (`--agent-python`)."
    return "The agent must import without network and without secrets that the job doesn't have; see the traceback."


def ended_words(returncode: int | None) -> str:
    """How a process ended: `exited with code 3`, `was killed by SIGKILL (signal 9)`."""
    if returncode is None:
        return "closed its connection"
    if returncode >= 0:
        return f"exited with code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        return f"was killed by signal {-returncode}"
    return f"was killed by {name} (signal {-returncode})"


def ended_hint(returncode: int | None) -> str | None:
    """What to look for when a process ended that way."""
    if returncode == -signal.SIGKILL:
        return "Nobody in the gate killed it; the machine may have run out of memory. Try a lower `--concurrency`."
    if returncode is not None and returncode >= 0:
        return "Look for os._exit() or a library that ends the process."
    if returncode is not None:
        return "A native library crashed; the log shows the Python stack of that moment."
    return None


def shortened(text: str) -> str:
    """A text from the other side, cut for a message."""
    return shorten(text, 600)
