"""Whose failure an error is: the pull request's own, or the world's (docs/verdict.md).

The host tells what was raised and whether it came out of a model call; the decision is made here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping

from pydantic import ValidationError

from agent_eval.agents.host.connection import RemoteError
from agent_eval.agents.messages import Attempt, ErrorData, ModelCallFacts, Waiting
from agent_eval.agents.protocol import AgentFailure, FailureKind, MetricFailure, MetricFailureKind, Owner
from agent_eval.agents.sandbox import missing_key_hint, missing_variable_hint
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
KEY_HINT = (
    "Give the job the model's credentials (for Gemini `GOOGLE_API_KEY`), and see that the variable is among those "
    "that the agent gets (`--agent-env`). A pull request from a fork has no secrets."
)
"""What to do about a model call without a key, or with one that is refused."""


def is_temporary(status: int) -> bool:
    """Whether a model call with this HTTP status failed because of the provider's state, not of what was asked."""
    return status in _TEMPORARY or status >= 500


def failed_turn(error: RemoteError, log_tail: str | None, withheld: Collection[str] = ()) -> AgentFailure:
    """The failure that a host's answer to `send` means.

    Args:
        error: The answer.
        log_tail: The last lines of the process.
        withheld: Names of variables that the job has and the agent does not.
    """
    data = _data(error)
    missing = _missing_variable(error, data, log_tail, withheld)
    summary = f"{data.type or error.code}: {first_line(error.message, 500) or 'no message'}"
    if data.origin == "model" and (hint := _provider_hint(error.message, data)) is not None:
        return AgentFailure(
            f"The agent's model provider failed: {_with_status(summary, data)}{_attempts_told(data.call)}",
            kind=FailureKind.PROVIDER,
            owner=Owner.PROVIDER,
            traceback=data.traceback,
            hint=missing or (missing_key_hint(withheld) if hint == KEY_HINT else None) or hint,
        )
    if data.exit is not None:
        return AgentFailure(
            f"The agent called sys.exit({data.exit}) in the middle of a turn.",
            kind=FailureKind.CRASH,
            traceback=data.traceback,
            log_tail=log_tail,
            hint=missing or "An agent or a tool that can't go on should raise an exception or return an error.",
        )
    who = "The agent's model call" if data.origin == "model" else "The agent"
    return AgentFailure(
        f"{who} raised {summary}",
        kind=FailureKind.EXCEPTION,
        traceback=data.traceback,
        hint=missing or _unknown_model_hint(data),
    )


def failed_metric(
    function: str, error: RemoteError, log_tail: str | None, withheld: Collection[str] = ()
) -> MetricFailure:
    """The failure that a host's answer to `evaluate` means.

    Args:
        function: The custom metric's.
        error: The answer.
        log_tail: The last lines of the process.
        withheld: Names of variables that the job has and the process does not.
    """
    data = _data(error)
    summary = f"{data.type or error.code}: {first_line(error.message, 500) or 'no message'}"
    hint: str | None = None
    missing = _missing_variable(error, data, log_tail, withheld)
    if data.origin == "model" and (hint := _provider_hint(error.message, data)) is not None:
        return MetricFailure(
            f"A model that `{function}` asked failed: {_with_status(summary, data)}",
            kind=MetricFailureKind.PROVIDER,
            owner=Owner.PROVIDER,
            traceback=data.traceback,
            hint=missing or hint,
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
    return MetricFailure(what, kind=kind, traceback=data.traceback, log_tail=log_tail, hint=missing or hint)


def _unknown_model_hint(data: ErrorData) -> str | None:
    """What to do about a model call that was answered with 404; None for any other error."""
    if data.origin != "model" or data.status != 404:
        return None
    model = f"the model `{data.call.model}`" if data.call and data.call.model else "this model"
    address = f" at {data.call.address}" if data.call and data.call.address else ""
    return (
        f"The provider{address} does not know {model}. Check the name that the agent "
        "gives, and the base URL if the job sets one."
    )


def _data(error: RemoteError) -> ErrorData:
    try:
        return ErrorData.model_validate(error.data)
    except ValidationError:  # not written by our host; the message is all there is
        return ErrorData()


def _missing_variable(
    error: RemoteError, data: ErrorData, log_tail: str | None, withheld: Collection[str]
) -> str | None:
    """What to do if a variable that the job has is missing in the agent's environment. What an agent that exits has to
    say is in its log.
    """
    said = error.message if data.exit is None else f"{error.message}\n{log_tail or ''}"
    return missing_variable_hint(withheld, said, data.traceback)


def _with_status(summary: str, data: ErrorData) -> str:
    return summary if data.status is None or str(data.status) in summary else f"{summary} (HTTP {data.status})"


def _provider_hint(message: str, data: ErrorData) -> str | None:
    """What to do about a failed model call, if it is the provider's or the credentials' failure; else None."""
    status = data.status
    classes = [name.rsplit(".", 1)[-1] for name in data.classes]
    if status in _NO_CREDENTIALS or _KEY_REFUSED.search(message):
        return KEY_HINT
    if status is not None:
        if not is_temporary(status):
            return None
    elif any(name in _UNREACHABLE for name in classes):
        return "The provider could not be reached. See the network, the proxy and the base URL variables of the job."
    elif _KEY_MISSING.search(message) and ("ValueError" in classes or "DefaultCredentialsError" in classes):
        return KEY_HINT
    else:
        return None
    return "The provider was unavailable even after retries. Run the job again later, or lower `--concurrency`."


def counted(causes: Mapping[str, int]) -> str:
    """`connection refused (3 times), HTTP 503`: the most frequent first, five at most."""
    return ", ".join(
        cause if number == 1 else f"{cause} ({plural(number, 'time')})"
        for cause, number in Counter(causes).most_common(5)
    )


def _model_name(call: ModelCallFacts) -> str:
    return f"{call.model or 'model'}" + (f" at {call.address}" if call.address else "")


def _are_the_providers(attempts: list[Attempt]) -> list[Attempt]:
    return [attempt for attempt in attempts if attempt.status is None or is_temporary(attempt.status)]


def _causes(attempts: list[Attempt]) -> str:
    return counted(Counter(attempt.cause or f"HTTP {attempt.status}" for attempt in attempts))


def _attempts_told(call: ModelCallFacts | None) -> str:
    """What a sentence says last of the attempts: which model, where, how often it failed and why."""
    if call is None or not call.attempts:
        return ""
    times = plural(len(call.attempts), "time")
    return f" ({_model_name(call)} failed {times} in {call.seconds:.0f} s: {_causes(call.attempts)})"


def too_late(
    timeout: float, waiting: Waiting | None, *, stopped: bool, at: str = "", turn_limit: float | None = None
) -> AgentFailure:
    """The failure of a turn whose time is up.

    Args:
        timeout: The seconds that it had.
        waiting: What it waited for, if the host still reacts.
        stopped: Whether it could be stopped; otherwise the process was killed.
        at: The agent's own line at which a host that does not react stands.
        turn_limit: The seconds that a turn has if its case has not used them up before; None: the same.
    """
    if waiting and waiting.kind == "model" and (why := _provider_was_late(turn_limit or timeout, waiting)):
        return AgentFailure(
            f"The agent's model provider ({_model_name(waiting)}) {why}, until the turn's time was up.",
            kind=FailureKind.PROVIDER,
            owner=Owner.PROVIDER,
            traceback=waiting.where or None,
            hint="Run the job again later, lower `--concurrency`, or give turns more time (`--turn-timeout`).",
        )
    killed = "" if stopped else ", and could not be stopped; the agent's process was killed"
    return AgentFailure(
        f"The turn did not end within {timeout:g} s{_waited_for(waiting)}{killed}.{_at(waiting.at if waiting else at)}",
        kind=FailureKind.DEADLINE,
        traceback=(waiting.where or None) if waiting else None,
        hint="See where it waited. Slow but right? Give turns more time (`--turn-timeout`)."
        if waiting
        else "Something blocks the agent's event loop: an endless loop, or a synchronous call that takes too long.",
    )


def _provider_was_late(turn_limit: float, waiting: Waiting) -> str:
    """What the provider did with a turn's time, if that is what the time went into; else empty.

    A model that is code of the agent's own is not waited for: its silence is the agent's.
    """
    failed = _are_the_providers(waiting.attempts)
    if failed:
        return f"failed {plural(len(failed), 'time')} in {waiting.seconds:.0f} s ({_causes(failed)})"
    if waiting.remote and waiting.silent >= (turn_limit - waiting.stalled) / 2:
        return f"sent nothing for {waiting.silent:.0f} s"
    return ""


def _waited_for(waiting: Waiting | None) -> str:
    if waiting is None:
        return ""
    doing = f": it had been waiting for the {waiting.kind} {waiting.name}".rstrip() if waiting.kind else ""
    how_long = f" for {waiting.seconds:.1f} s" if doing else ""
    calls = f", after {plural(waiting.calls, 'model call')}" if waiting.calls else ""
    return f"{doing}{how_long}{calls}"


def _at(line: str) -> str:
    return f" It stood at {line}" if line else ""


def failed_load(error: RemoteError, log_tail: str | None, withheld: Collection[str] = ()) -> AgentFailure:
    """The failure that a host's answer to `load` means.

    Args:
        error: The answer.
        log_tail: The last lines of the process.
        withheld: Names of variables that the job has and the agent does not.
    """
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
        hint=_missing_variable(error, data, log_tail, withheld) or _import_hint(data.type, error.message),
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
    if kind == "PermissionError":
        return "Run as root, the gate starts the agent as another user (docs/security.md): let others read the file."
    if kind == "SyntaxError":
        return "Mend the file, or run the agent with the Python version that it is written for (`--agent-python`)."
    return (
        "The agent must import without network and without secrets that the job doesn't have; see the traceback. Of "
        "the job's variables it gets only those on a list, and those that `agent-env` adds (docs/agents.md)."
    )
