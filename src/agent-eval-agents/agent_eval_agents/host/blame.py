"""Decides who owns a failure: the pull request, or an external provider (docs/verdict.md).

The host reports the exception and whether a model call raised it; the decision is made here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from agent_eval_agents.host.connection import RemoteError
from agent_eval_agents.host.import_hints import OF_LOADING, essence, import_hint, known_hint
from agent_eval_agents.messages import Attempt, ErrorData, ModelCallFacts, Stack, Waiting
from agent_eval_agents.protocol import AgentFailure, EnvironmentFailure, FailureKind
from agent_eval_agents.sandbox import missing_key_hint, missing_variable_hint
from agent_eval_scoring.core.recording import Waited
from agent_eval_scoring.core.text import first_line, plural
from agent_eval_scoring.evalset.metric_runner import MetricFailure, MetricFailureKind
from agent_eval_scoring.net.retry import NO_ACCESS, TEMPORARY

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
"""Names of exception classes, including base classes, that mean "the provider was not reached" in the HTTP clients and
SDKs that ADK uses (httpx, aiohttp, requests, openai, anthropic, litellm, google-auth)."""
_KEY_MISSING = re.compile(r"api.?key|credentials?\b|DefaultCredentialsError", re.IGNORECASE)
_KEY_REFUSED = re.compile(r"api.?key.{0,20}(not valid|invalid|expired)|API_KEY_INVALID", re.IGNORECASE | re.DOTALL)
_RETRIED = re.compile(r"\s*LiteLLM Retried: \d+ times")
"""What LiteLLM adds to errors, also where it has not repeated the call."""
_REFUSED = re.compile(r"[(]HTTP 40[13][)]")
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:KEY|TOKEN)\b")
_ADK_PREFACE = re.compile(r"\s*On how to mitigate this issue, please refer to:\s+\S+\s+")
"""What ADK's model classes print before the provider's error with status 429 (google_llm.py of google-adk 2.13.0)."""
_ANY_VARIABLE = "the variable of the model's key (for Gemini `GOOGLE_API_KEY`)"
KEY_HINT = (
    f"Set {_ANY_VARIABLE}, and check that it is passed to the agent (`--agent-env`). A pull or merge request from a "
    "fork gets no secrets."
)
"""The hint for a model call without a key, or with insufficient rights."""
_REFUSED_HINT = "The provider refuses the model's key: check it, or replace it."
_KEY_HINTS = (KEY_HINT, _REFUSED_HINT)
_LOGIN_HINT = (
    "The agent asks for Google credentials while it is imported, and gets none: log in before, e.g. with "
    "`google-github-actions/auth`, and pass them on (`agent-env: +GOOGLE_APPLICATION_CREDENTIALS`). A pull or merge "
    "request from a fork gets none."
)


def is_temporary(status: int) -> bool:
    """Whether this HTTP status of a model call is caused by the provider's state, not by the request."""
    return status in TEMPORARY or status >= 500


def failed_turn(error: RemoteError, log_tail: str | None, withheld: Collection[str] = ()) -> AgentFailure:
    """Converts a host's error response to `send`.

    Args:
        error: The response.
        log_tail: The last lines of the process's log.
        withheld: Names of variables that are set in the job but not passed to the agent.
    """
    if error.code == "server-unavailable":
        return _lost_server(first_line(error.message, 1_000))
    data = data_of(error)
    missing = _missing_variable(error, data, log_tail, withheld)
    summary = _summary(error, data)
    if data.origin == "model" and (hint := _provider_hint(error.message, data)) is not None:
        withheld_hint = missing or (missing_key_hint(withheld) if hint == KEY_HINT else None)
        is_key = hint in _KEY_HINTS  # Seconds and attempts would make one cause several.
        asked = f" ({_model_name(data.call)})" if data.call is not None and data.call.model else ""
        attempts = asked if is_key else _attempts_text(data.call)
        return AgentFailure(
            f"The agent's model provider failed: {_with_status(summary, data)}{attempts}",
            kind=FailureKind.PROVIDER,
            traceback=None if is_key else data.traceback,  # Frames of an SDK explain no key.
            hint=withheld_hint or (_with_variables(hint, error.message) if hint == KEY_HINT else hint),
            no_key=withheld_hint is None and is_key,
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
        hint=missing or _unknown_model_hint(data) or known_hint(data.type or "", error.message, data.traceback),
    )


def _with_variables(hint: str, message: str) -> str:
    """The hint about a key with the variables that the provider's library names."""
    names = list(dict.fromkeys(_VARIABLE.findall(message)))[:2]
    return hint.replace(_ANY_VARIABLE, " or ".join(f"`{name}`" for name in names)) if names else hint


def _lost_server(message: str) -> AgentFailure:
    """The failure of a turn that lacked the tools of an MCP server, which google-adk leaves out without an error."""
    hint = "Check the server, its credentials and its address, and run the job again."
    if _REFUSED.search(message):
        hint = "Check the credentials that the agent sends: is their variable set, and passed on (`agent-env: +NAME`)?"
    return AgentFailure(message, kind=FailureKind.SERVER, hint=hint)


def failed_metric(
    function: str, error: RemoteError, log_tail: str | None, withheld: Collection[str] = ()
) -> MetricFailure:
    """Converts a host's error response to `evaluate`.

    Args:
        function: The name of the custom metric's function.
        error: The response.
        log_tail: The last lines of the process's log.
        withheld: Names of variables that are set in the job but not passed to the process.
    """
    data = data_of(error)
    summary = _summary(error, data)
    hint: str | None = None
    missing = _missing_variable(error, data, log_tail, withheld)
    if data.origin == "model" and (hint := _provider_hint(error.message, data)) is not None:
        return MetricFailure(
            f"A model that `{function}` called failed: {_with_status(summary, data)}",
            kind=MetricFailureKind.PROVIDER,
            traceback=data.traceback,
            hint=missing or hint,
        )
    kind, what = MetricFailureKind.EXCEPTION, f"`{function}` raised {summary}"
    if error.code == "metric-import":
        kind, what = MetricFailureKind.IMPORT, f"`{function}` can't be imported: {summary}"
        absent = _NO_MODULE.search(error.message)
        hint = f"Did you mean `{data.nearest}`?" if data.nearest is not None else "Correct `code_config.name`."
        if data.nearest is None and absent is not None and function.startswith(f"{absent[1]}."):
            hint = f"Add the module {absent[1].replace('.', '/')}.py, or correct `code_config.name`."
        hint += (
            " It is `package.module.function`; the agent's parent directory and the repository's root are importable, "
            "and the agent's package also as `agent`."
        )
    elif error.code == "metric-arguments":
        what = f"`{function}` can't be called: its arguments are not valid in the installed google-adk: {summary}"
    elif data.type == "TypeError" and re.search(r"\(\) takes .*positional arg|\(\) missing ", error.message):
        hint = "It is called with eval_metric, actual_invocations, expected_invocations and conversation_scenario."
    elif data.exit is not None:
        what = f"`{function}` called sys.exit({data.exit})"
    else:
        hint = "Correct the function. Where it has no score, it may return the status NOT_EVALUATED."
    return MetricFailure(what, kind=kind, traceback=data.traceback, log_tail=log_tail, hint=missing or hint)


_NO_MODULE = re.compile(r"No module named '([\w.]+)'")
_NO_TEXT = re.compile(r"'(?:dict|list)' object has no attribute|expected string or bytes-like object, got 'dict'")


def hint_for_code(kind: MetricFailureKind, message: str) -> str | None:
    """The hint for a function that a config of agents-cli gives as source; None for the usual one."""
    # Google runs such code beside its own packages, so it may import what the agent does not need.
    if (module := _NO_MODULE.search(message)) is not None:
        name = f"`{module[1].partition('.')[0]}`"
        return f"It runs in the agent's environment, not in agents-cli's: add the package with {name} to it."
    if re.search(r"raised KeyError: '\w+'$", message):
        return "`instance` has `prompt`, `response`, `reference`, `agent_data`, and the other keys of the case."
    if _NO_TEXT.search(message):
        text = '`"".join(part.get("text", "") for part in instance["response"]["parts"])`'
        return f"`response` is a message with `parts`, not a text: use {text}."
    if "SyntaxError: " in message or "IndentationError: " in message:
        return "Correct the function at this line; its first line is 1."
    return "See the config of the metrics." if kind is MetricFailureKind.IMPORT else None


def _unknown_model_hint(data: ErrorData) -> str | None:
    """The hint for a model call with status 404; None for any other error."""
    if data.origin != "model" or data.status != 404:
        return None
    model = f"the model `{data.call.model}`" if data.call and data.call.model else "this model"
    address = f" at {data.call.address}" if data.call and data.call.address else ""
    return (
        f"The provider{address} does not know {model}. Check the name that the agent "
        "gives, and the base URL if the job sets one."
    )


def data_of(error: RemoteError) -> ErrorData:
    """The data of an error response; empty if it is not our host's."""
    try:
        return ErrorData.model_validate(error.data)
    except ValidationError:  # not written by our host
        return ErrorData()


def _missing_variable(
    error: RemoteError, data: ErrorData, log_tail: str | None, withheld: Collection[str]
) -> str | None:
    """The hint for a variable of the job that is missing in the agent's environment. For an agent that exits, the log
    is searched too.
    """
    text = error.message if data.exit is None else f"{error.message}\n{log_tail or ''}"
    return missing_variable_hint(withheld, text, data.traceback)


def _summary(error: RemoteError, data: ErrorData) -> str:
    message = essence(_RETRIED.sub("", _ADK_PREFACE.sub("", error.message, count=1)))
    return f"{data.type or error.code}: {message or 'no message'}"


def _with_status(summary: str, data: ErrorData) -> str:
    return summary if data.status is None or str(data.status) in summary else f"{summary} (HTTP {data.status})"


def _provider_hint(message: str, data: ErrorData) -> str | None:
    """The hint for a failed model call, if the provider or the credentials are the cause; else None."""
    status = data.status
    classes = [name.rsplit(".", 1)[-1] for name in data.classes]
    # First: Gemini answers an invalid key with status 400, which is no temporary one.
    if _KEY_REFUSED.search(message):
        return _REFUSED_HINT
    if status in NO_ACCESS:
        return KEY_HINT
    if status is not None:
        if not is_temporary(status):
            return None
    # Without a status no answer came, so that the class of the exception is all that is known.
    elif any(name in _UNREACHABLE for name in classes):
        return "The provider could not be reached. Check the network, the proxy and the base URL variables of the job."
    elif _KEY_MISSING.search(message) and ("ValueError" in classes or "DefaultCredentialsError" in classes):
        return KEY_HINT
    else:
        return None
    return "The provider was unavailable even after retries. Run the job again later, or lower `--concurrency`."


def counted(causes: Mapping[str, int]) -> str:
    """For example `connection refused (3 times), HTTP 503`: the most frequent first, at most five."""
    return ", ".join(
        cause if number == 1 else f"{cause} ({plural(number, 'time')})"
        for cause, number in Counter(causes).most_common(5)
    )


def _model_name(call: ModelCallFacts) -> str:
    return f"{call.model or 'model'}" + (f" at {call.address}" if call.address else "")


def _provider_failures(attempts: list[Attempt]) -> list[Attempt]:
    return [attempt for attempt in attempts if attempt.status is None or is_temporary(attempt.status)]


def _causes(attempts: list[Attempt]) -> str:
    return counted(Counter(attempt.cause or f"HTTP {attempt.status}" for attempt in attempts))


def _attempts_text(call: ModelCallFacts | None) -> str:
    """The attempts of a model call in brackets: model, address, number and causes of failures."""
    if call is None or not call.attempts:
        return ""
    times = plural(len(call.attempts), "time")
    return f" ({_model_name(call)} failed {times} in {call.seconds:.0f} s: {_causes(call.attempts)})"


def too_late(
    timeout: float, waiting: Waiting | None, *, stopped: bool, at: str = "", turn_limit: float | None = None
) -> AgentFailure:
    """The failure of a turn that timed out.

    Args:
        timeout: The turn's time limit in seconds.
        waiting: What the turn was waiting for, if the host responds.
        stopped: Whether the turn could be stopped; otherwise the process was killed.
        at: The current line of the agent's code, if the host does not respond.
        turn_limit: The limit of a turn without the limit of its case; None: the same.
    """
    if waiting and waiting.kind == "model" and (why := _provider_was_late(turn_limit or timeout, waiting)):
        return AgentFailure(
            f"The agent's model provider ({_model_name(waiting)}) {why}, until the turn timed out.",
            kind=FailureKind.PROVIDER,
            traceback=waiting.where or None,
            hint="Run the job again later, lower `--concurrency`, or give turns more time (`--turn-timeout`).",
        )
    if waiting and waiting.server:
        return _lost_server(f"The agent's {waiting.server} did not answer until the turn timed out.")
    killed = "" if stopped else ", and could not be stopped; the agent's process was killed"
    return AgentFailure(
        f"The turn did not end within {timeout:g} s{_waited_for(waiting)}{killed}.{_at(waiting.at if waiting else at)}",
        kind=FailureKind.DEADLINE,
        traceback=(waiting.where or None) if waiting else None,
        hint="See where it waited. If the agent is slow but correct, give turns more time (`--turn-timeout`)."
        if waiting
        else "Something blocks the agent's event loop: an endless loop, or a synchronous call that takes too long. End "
        "the loop, await an asynchronous call instead, or give turns more time (`--turn-timeout`).",
    )


def waited_for(waiting: Waiting | None, stack: Stack) -> Waited:
    """What a turn was waiting for, as data; from the stack if its process did not respond."""
    place = stack.place if waiting is None else waiting.place
    found = Waited() if place is None else Waited(file=place.file, line=place.line, symbol=place.symbol)
    if waiting is None or waiting.kind not in {"model", "tool"}:
        return found
    kind: Literal["model", "tool"] = "model" if waiting.kind == "model" else "tool"
    return found.model_copy(update={"kind": kind, "name": waiting.name, "seconds": waiting.seconds})


def _provider_was_late(turn_limit: float, waiting: Waiting) -> str:
    """What the provider did, if it caused the timeout; else empty.

    A model that is the agent's own code does not count: its silence is the agent's failure.
    """
    # Attempts that were refused for the request's sake say nothing about the provider.
    failed = _provider_failures(waiting.attempts)
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
    return f" It was at {line}" if line else ""


_ONLY_FROZEN = re.compile(r'(?:Traceback [^\n]*\n)?(?:\s*File "<frozen [^\n]*\n)+[^\n]*\n?')
"""A traceback of Python's own import alone."""


def failed_load(
    error: RemoteError, log_tail: str | None, withheld: Collection[str], agent: Path, root: Path
) -> AgentFailure:
    """Converts a host's error response to `load`.

    Args:
        error: The response.
        log_tail: The last lines of the process's log.
        withheld: Names of variables that are set in the job but not passed to the agent.
        agent: The agent's directory or file, or its dotted module.
        root: The repository.
    """
    data = data_of(error)
    if error.code == "agent-environment":
        return EnvironmentFailure(
            first_line(error.message, 1_000),
            traceback=data.traceback,
            log_tail=log_tail,
            hint="Add google-adk 1.18 or newer to the agent's requirements (`--agent-requirements`), or set an "
            "interpreter that has it (`--agent-python`).",
        )
    if data.exit is not None:
        code = str(data.exit) if error.message in {"", "None", str(data.exit)} else f'"{first_line(error.message)}"'
        message = f"The agent can't be imported: it calls sys.exit({code}) while it is imported."
    elif any(words in error.message for words in OF_LOADING):
        message = f"The agent can't be loaded: {essence(error.message).replace(f'{root}/', '')}"
    else:
        message = f"The agent can't be imported: {data.type or 'error'}: {essence(error.message)}"
    withheld_hint = missing_key_hint(withheld)
    lacks_key = data.lacks_key and withheld_hint is None  # Otherwise the job has keys, for agents that load with them.
    if data.no_login or lacks_key:  # Agents of agents-cli call `google.auth.default()` there, others `genai.Client()`.
        hint = withheld_hint or (_with_variables(KEY_HINT, error.message) if lacks_key else _LOGIN_HINT)
        return AgentFailure(message, kind=FailureKind.PROVIDER, hint=hint, no_key=withheld_hint is None)
    return AgentFailure(
        message,
        kind=FailureKind.IMPORT,
        traceback=None if _ONLY_FROZEN.fullmatch(data.traceback or "") else data.traceback,
        log_tail=log_tail,
        hint=(withheld_hint if data.lacks_key else None)
        or _missing_variable(error, data, log_tail, withheld)
        or import_hint(data.type or "", error.message, data.traceback, agent, root, data.nearest),
    )
