"""Whose failure an error is: the pull request's own, or the world's (docs/verdict.md).

The host tells what was raised and whether it came out of a model call; the decision is made here.
"""

from __future__ import annotations

import re

from pydantic import ValidationError

from agent_eval.agents.connection import RemoteError
from agent_eval.agents.custom_metrics import MetricFailure, MetricFailureKind
from agent_eval.agents.messages import ErrorData, Waiting
from agent_eval.agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval.core.text import first_line, plural

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
    data = _data(error)
    summary = f"{data.type or error.code}: {first_line(error.message, 500) or 'no message'}"
    if data.origin == "model" and (hint := _provider_hint(error.message, data)) is not None:
        return AgentFailure(
            f"The agent's model provider failed: {_with_status(summary, data)}",
            kind=FailureKind.PROVIDER,
            owner=Owner.PROVIDER,
            traceback=data.traceback,
            hint=hint,
        )
    if data.exit is not None:
        return AgentFailure(
            f"The agent called sys.exit({data.exit}) in the middle of a turn.",
            kind=FailureKind.CRASH,
            traceback=data.traceback,
            log_tail=log_tail,
            hint="An agent or a tool that can't go on should raise an exception or return an error.",
        )
    who = "The agent's model call" if data.origin == "model" else "The agent"
    return AgentFailure(f"{who} raised {summary}", kind=FailureKind.EXCEPTION, traceback=data.traceback)


def failed_metric(function: str, error: RemoteError, log_tail: str | None) -> MetricFailure:
    """The failure that a host's answer to `evaluate` means.

    Args:
        function: The custom metric's.
        error: The answer.
        log_tail: The last lines of the process.
    """
    data = _data(error)
    summary = f"{data.type or error.code}: {first_line(error.message, 500) or 'no message'}"
    hint: str | None = None
    if data.origin == "model" and (hint := _provider_hint(error.message, data)) is not None:
        return MetricFailure(
            f"A model that `{function}` asked failed: {_with_status(summary, data)}",
            kind=MetricFailureKind.PROVIDER,
            owner=Owner.PROVIDER,
            traceback=data.traceback,
            hint=hint,
        )
    kind, what = MetricFailureKind.EXCEPTION, f"`{function}` raised {summary}"
    if error.code == "metric-import":
        kind, what = MetricFailureKind.IMPORT, f"`{function}` can't be imported: {summary}"
        hint = (
            "`code_config.name` is `package.module.function`; the agent's parent directory and the repository's root "
            "are importable, and the agent's package also as `agent`."
        )
    elif error.code == "metric-arguments":
        what = (
            f"`{function}` can't be called: what it would be given is not valid for the installed google-adk: {summary}"
        )
    elif data.exit is not None:
        what = f"`{function}` called sys.exit({data.exit})"
    return MetricFailure(what, kind=kind, traceback=data.traceback, log_tail=log_tail, hint=hint)


def _data(error: RemoteError) -> ErrorData:
    try:
        return ErrorData.model_validate(error.data)
    except ValidationError:  # not written by our host; the message is all there is
        return ErrorData()


def _with_status(summary: str, data: ErrorData) -> str:
    return summary if data.status is None or str(data.status) in summary else f"{summary} (HTTP {data.status})"


def _provider_hint(message: str, data: ErrorData) -> str | None:
    """What to do about a failed model call, if it is the provider's or the credentials' failure; else None."""
    status = data.status
    classes = [name.rsplit(".", 1)[-1] for name in data.classes]
    if status in _NO_CREDENTIALS or _KEY_REFUSED.search(message):
        return _KEY_HINT
    if status is not None:
        if not is_temporary(status):
            return None
    elif any(name in _UNREACHABLE for name in classes):
        return "The provider could not be reached. See the network, the proxy and the base URL variables of the job."
    elif _KEY_MISSING.search(message) and ("ValueError" in classes or "DefaultCredentialsError" in classes):
        return _KEY_HINT
    else:
        return None
    return "The provider was unavailable even after retries. Run the job again later, or lower `--concurrency`."


def too_late(timeout: float, waiting: Waiting | None, *, stopped: bool) -> AgentFailure:
    """The failure of a turn whose time is up.

    Args:
        timeout: The seconds that it had.
        waiting: What it waited for, if the host still reacts.
        stopped: Whether it could be stopped; otherwise the process was killed.
    """
    attempts = [code for code in waiting.attempts if is_temporary(code)] if waiting else []
    if waiting and attempts:
        codes = ", ".join(str(code) for code in attempts[-5:])
        return AgentFailure(
            f"The agent's model provider ({waiting.name or 'model'}) failed {plural(len(attempts), 'time')} "
            f"(HTTP {codes}) in {waiting.seconds:.0f} s, until the turn's time was up.",
            kind=FailureKind.PROVIDER,
            owner=Owner.PROVIDER,
            traceback=waiting.where or None,
            hint="Run the job again later, lower `--concurrency`, or give turns more time (`--turn-timeout`).",
        )
    doing = f": it had been waiting for the {waiting.kind} {waiting.name}".rstrip() if waiting and waiting.kind else ""
    how_long = f" for {waiting.seconds:.1f} s" if waiting and doing else ""
    killed = "" if stopped else ", and could not be stopped; the agent's process was killed"
    return AgentFailure(
        f"The turn did not end within {timeout:g} s{doing}{how_long}{killed}.",
        kind=FailureKind.DEADLINE,
        traceback=(waiting.where or None) if waiting else None,
        hint="See where it waited. Slow but right? Give turns more time (`--turn-timeout`)."
        if waiting
        else "Something blocks the agent's event loop: an endless loop, or a synchronous call that takes too long.",
    )


def failed_load(error: RemoteError, log_tail: str | None) -> AgentFailure:
    """The failure that a host's answer to `load` means."""
    data = _data(error)
    if error.code == "agent-environment":
        return AgentFailure(
            first_line(error.message, 1_000),
            kind=FailureKind.ENVIRONMENT,
            traceback=data.traceback,
            log_tail=log_tail,
            hint="Name google-adk 1.18 or newer in the agent's requirements (`--agent-requirements`), or give the "
            "interpreter that has it (`--agent-python`).",
        )
    if data.exit is not None:
        message = f"The agent can't be imported: it calls sys.exit({data.exit}) while it is imported."
    else:
        message = f"The agent can't be imported: {data.type or 'error'}: {first_line(error.message, 500)}"
    return AgentFailure(
        message,
        kind=FailureKind.IMPORT,
        traceback=data.traceback,
        log_tail=log_tail,
        hint=_import_hint(data.type, error.message),
    )


def _import_hint(kind: str, message: str) -> str:
    if kind == "ModuleNotFoundError":
        missing = re.search(r"No module named '([^'.]+)", message)
        name = f"`{missing[1]}`" if missing else "the missing module"
        return (
            f"Add the package that gives {name} to the agent's requirements. If it is a module of the repository: the "
            "agent's parent directory and the repository's root are importable."
        )
    if kind == "LookupError" or "not an ADK agent" in message:
        return "Define `root_agent` or `app` in agent.py, or name another directory with `--agent`."
    if kind == "SyntaxError":
        return "Mend the file, or run the agent with the Python version that it is written for (`--agent-python`)."
    return "The agent must import without network and without secrets that the job doesn't have; see the traceback."
