"""Who owns the failure of a remote agent (docs/remote-agents.md). One set of rules for every protocol."""

from __future__ import annotations

import functools
import re
from typing import Protocol
from urllib.parse import urlsplit

from agent_eval_agents.http._address import is_loopback
from agent_eval_agents.http.client import HttpFailure, Reply
from agent_eval_agents.protocol import AgentFailure, AgentRefused, FailureKind
from agent_eval_scoring.core.invocation import EventError, Invocation
from agent_eval_scoring.core.problem import Problem, docs_page
from agent_eval_scoring.core.text import first_line
from agent_eval_scoring.net.retry import NO_ACCESS, OF_A_PROXY

_PROXY = "Check the proxy, and HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY of the job."
_PROVIDER_CODES = re.compile(
    r"429|5\d\d|RESOURCE_EXHAUSTED|UNAVAILABLE|DEADLINE_EXCEEDED|INTERNAL"
    r"|_?ResourceExhausted(Error)?|(RateLimit|Overloaded|ServiceUnavailable|InternalServer|APIConnection|APITimeout)Error"
    r"|rate_limit_e\w+|insufficient_quota|overloaded_error|server_error"
)
"""Statuses of HTTP and of Google's APIs, and what OpenAI, Anthropic, LiteLLM and ADK call the same."""
_NO_CODES = re.compile(r"(?i:unknown(_?error)?|none|null)|ERROR|error|FAILED|failed")
"""Codes that say nothing: ADK writes `UNKNOWN_ERROR` if an exception has no code."""
_UNDECIDED = re.compile(r"(Client|Server|API|Apis?)Error")
"""Types of google-genai for any status, with which their text begins."""
_ERROR_CODES = re.compile(
    r"-?\d+|CANCELLED|INVALID_ARGUMENT|NOT_FOUND|ALREADY_EXISTS|PERMISSION_DENIED|UNAUTHENTICATED|FAILED_PRECONDITION"
    r"|ABORTED|OUT_OF_RANGE|UNIMPLEMENTED|DATA_LOSS|E(CONN|HOST|NET|AI_|NO|PIPE|PROTO|TIMEDOUT|ACCES|PERM)\w*|ERR_\w+"
    r"|(?!JSON_PARSE)(?i:.*(error|exception|timeout))"
)
"""Any other status, Node's codes, names of exceptions; but not what ADK writes if a model's arguments are no JSON."""
_OVERLOADED_WORDS = re.compile(r"\bdatabase( table)? is locked\b|\bQueuePool limit\b")
"""What SQLite says, in which `adk api_server` keeps its sessions, and SQLAlchemy's pool of connections."""
_PROVIDER_WORDS = re.compile(
    r"\b429\b|\b(?i:quota)\b|RESOURCE_EXHAUSTED|\bUNAVAILABLE\b|DEADLINE_EXCEEDED|^5\d\d [A-Z_]{4,}\b"
    r"|^Unknown error\.$"
)
"""The last one is ADK's text for an answer of a model that has neither candidates nor feedback on the prompt."""

_of_the_server = functools.partial(AgentFailure, kind=FailureKind.SERVER)
"""A failure of the agent's server, or of what is in front of it."""


class ServerProcess(Protocol):
    """The server of a remote agent, if the gate started it."""

    def log_tail(self) -> str | None:
        """The last lines of its log."""
        ...

    def ended(self) -> str | None:
        """How it ended, as a predicate: `exited with code 3`; None while it runs."""
        ...

    async def settle(self) -> None:
        """Waits briefly for the end of a process whose connection broke. Call it before `lost`."""
        ...


def refused(message: str, hint: str | None = None) -> AgentRefused:
    """A mistake in the configuration, which ends the run with exit 2."""
    problem = Problem(code="remote-agent-refused", message=message, hint=hint)
    return AgentRefused(problem)


def not_reached(error: HttpFailure, url: str, server: ServerProcess | None = None) -> AgentFailure | AgentRefused:
    """Nothing answers before the first case.

    Args:
        error: The failure of the first request.
        url: The agent's URL.
        server: Its process, if the gate started it.
    """
    match error.reason:
        case "dns":
            hint = "Check the host name, and that the runner can resolve it."
        case "tls" if "WRONG_VERSION_NUMBER" in error.message:
            hint = "The server does not speak TLS there: write `http:` instead of `https:` in the address."
        case "tls":
            hint = "For a certificate of your own authority, set SSL_CERT_FILE. Verification can't be switched off."
        case "address":
            hint = "Such addresses hand out the machine's credentials. Use another address of the agent."
        case "proxy":
            hint = _PROXY
        case "proxy-down":
            return _of_the_server(f"The agent's server at {url} can't be reached: {error.message}.", hint=_PROXY)
        case "broken" if server is None:
            return lost(error.message)  # Something listens, as in a turn.
        case _ if server is None and not is_loopback(urlsplit(url).hostname or ""):
            return _of_the_server(
                f"The agent's server at {url} can't be reached: {error.message}.",
                hint="See whether the server runs, and run the job again.",
            )
        case _:  # An earlier step of the job should have started it.
            return AgentFailure(
                f"The agent's server at {url} can't be reached: {error.message}.",
                kind=FailureKind.SERVER_DOWN,
                log_tail=server.log_tail() if server is not None else None,
                hint="Start the server in an earlier step of the job, or let the gate start it: [servers.NAME] in "
                f"agent-eval.toml ({docs_page('remote-agents')}).",
            )
    return refused(f"The agent at {url} can't be used: {error.message}.", hint)


_HEADERS = (
    "`Authorization: Bearer TOKEN` in the input `agent-headers`, on the command line in the variable "
    "AGENT_EVAL_AGENT_HEADERS"
)


def not_admitted(reply: Reply, url: str, *, has_headers: bool, secrets_withheld: bool) -> Exception | None:
    """Status 401 or 403 before the first case; None for any other answer.

    Args:
        reply: The answer.
        url: The agent's URL.
        has_headers: Whether the workflow gives headers.
        secrets_withheld: Whether GitHub withholds the job's secrets, as for a fork: then the cases are errored.
    """
    if reply.status not in NO_ACCESS:
        return None
    message = f"The agent's server at {url} refuses access (HTTP {reply.status}{_said(reply)})."
    # What a fork lacks is no mistake of its author: the run is inconclusive, not invalid.
    if secrets_withheld and not has_headers:
        return _of_the_server(
            message, hint="A pull or merge request from a fork has no secrets, so there are no `agent-headers`."
        )
    hint = "Check the credentials in `agent-headers`." if has_headers else f"Give it credentials: {_HEADERS}."
    return refused(message, hint)


def redirected(reply: Reply, url: str) -> AgentRefused | None:
    """A redirect before the first case, e.g. to https or to a login page; None for any other answer."""
    if not 300 <= reply.status < 400 or not (location := reply.headers.get("location")):
        return None
    return refused(
        f"The server at {url} redirects to {first_line(location, 200)} (HTTP {reply.status}), which is not followed.",
        "Name the agent's final URL. If that is a login page, give credentials: " + _HEADERS + ".",
    )


def lost(what: str, server: ServerProcess | None = None) -> AgentFailure:
    """The connection broke in the middle of a turn.

    Args:
        what: A clause: `the stream ended in the middle of an event`.
        server: Its process, if the gate started it. The run is repeated once with a process of its own.
    """
    if server is None:
        return _of_the_server(
            f"The agent's server broke off: {what}.",
            hint="See the server's log, and the log of any proxy or load balancer in front of it.",
        )
    # The gate started it with the pull request's code, so that its end is the agent's.
    end = server.ended()
    return AgentFailure(
        f"The agent's server {end}: {what}." if end else f"The agent's server broke off: {what}.",
        kind=FailureKind.CRASH,
        log_tail=server.log_tail(),
        hint="See the end of its log.",
        collateral=True,
    )


def overloaded(reply: Reply, seconds: float, attempts: int) -> AgentFailure:
    """The server still has no capacity when the time is up.

    Args:
        reply: The last answer.
        seconds: Since the first attempt.
        attempts: Requests sent.
    """
    return _of_the_server(
        f"The agent's server was unavailable: HTTP {reply.status}{_said(reply)}, {attempts} times in {seconds:.0f} s.",
        hint="Run the job again later, or lower `--concurrency`.",
    )


def no_session(why: str, server: ServerProcess | None) -> AgentFailure | None:
    """No session was created, before the agent's code ran; None if that is the pull request's: the gate started it.

    Args:
        why: A sentence without a full stop, about "it".
        server: Its process, if the gate started it.
    """
    if server is not None:
        return None
    return _of_the_server(
        f"The agent's server created no session: {why}.", hint="The agent was not asked. See the server's log."
    )


def unexpected_status(reply: Reply, server: ServerProcess | None = None, before: str = "") -> AgentFailure:
    """An answer that is an error of the agent (500, 404, 422 ...), of its server, or of a proxy in front of it.

    Args:
        reply: The answer.
        server: Its process, if the gate started it.
        before: What was requested before the agent's code ran: `when a session was created`. Then the server has
            failed, and it is not the pull request's unless the gate started it.
    """
    what = f"HTTP {reply.status}{f' {before}' if before else ''}{_said(reply)}"
    message = f"The agent's server answered {what}."
    # Before all other rules: `adk api_server` answers 500 for that, as for an exception of the agent.
    if reply.status >= 500 and _OVERLOADED_WORDS.search(reply.text):
        return _without_capacity(what)
    # No agent answers these itself, so that its server, or what is in front of it, has failed.
    if reply.status in OF_A_PROXY:
        hint = "See the log of the proxy or load balancer in front of the server, and run the job again."
        return _of_the_server(message, hint=hint)
    if reply.status in NO_ACCESS and server is None:
        hint = "It admitted the gate before: check whether the credentials in `agent-headers` have expired."
        return _of_the_server(message, hint=hint)
    if before and server is None:
        hint = "The agent was not asked. See the server's log."
        return _of_the_server(message, hint=hint, collateral=reply.status >= 500)
    return AgentFailure(
        message,
        kind=FailureKind.EXCEPTION,
        log_tail=server.log_tail() if server is not None else None,
        hint="The exception is in the server's log." if reply.status >= 500 else None,
    )


def _without_capacity(what: str) -> AgentFailure:
    """The server says that it can't do so much at once. The run is repeated once, with fewer runs at once."""
    return _of_the_server(
        f"The agent's server was overloaded: {what}.",
        hint="Lower `--concurrency`, or give the server a session service that allows more at once: `adk api_server` "
        "keeps its sessions in SQLite unless it is started with `--session_service_uri memory://`.",
        collateral=True,
    )


def agent_error(
    message: str,
    *,
    names: tuple[str, ...] = (),
    traceback: str | None = None,
    server: ServerProcess | None = None,
    who: str = "The agent's server",
    asked: bool = True,
) -> AgentFailure:
    """An error in the answer: the agent's own exception, that of its model's provider, or an overloaded server.

    Args:
        message: The error's text.
        names: Its type and code, if the server says them.
        traceback: The agent's own traceback.
        server: Its process, if the gate started it.
        who: What reports it, if no name says what was raised.
        asked: Whether a provider may have been asked. If not, no name and no word is one's.
    """
    names = tuple(name for name in names if name and not _NO_CODES.fullmatch(name))
    provider = any(map(_PROVIDER_CODES.fullmatch, names))
    if all(map(_UNDECIDED.fullmatch, names)):  # Or without a name: then the text decides.
        provider = provider or _PROVIDER_WORDS.search(message) is not None
    text = first_line("" if _NO_CODES.fullmatch(message) else message, 500).rstrip(".")
    hint = None if text else "See the log: the exception may be there."
    text = text or "no message"
    # Some servers begin the text with the name, others don't have it there.
    text = next((f"{name}: {text}" for name in names if name not in text), text)
    if _OVERLOADED_WORDS.search(message):
        return _without_capacity(text)
    if provider and asked:
        return AgentFailure(
            f"The agent's model provider failed: {text}.",
            kind=FailureKind.PROVIDER,
            traceback=traceback,
            hint="Run the job again later, or lower `--concurrency`.",
        )
    return AgentFailure(
        f"The agent raised {text}." if names else f"{who} reported an error: {text}.",
        kind=FailureKind.EXCEPTION,
        traceback=traceback,
        log_tail=server.log_tail() if server is not None else None,
        hint=hint,
    )


def reported(
    invocation: Invocation,
    error: EventError | None,
    *,
    server: ServerProcess | None = None,
    who: str,
    asked: bool = True,
) -> AgentFailure | None:
    """The failure of a turn that ended with an event that reports an error; None if that is how the model answered.

    A model's own codes (`SAFETY`, `MAX_TOKENS`, `MALFORMED_FUNCTION_CALL` ...) and those that the agent's callbacks
    make up are no failures: the turn is scored, as in ADK.

    Args:
        invocation: The turn.
        error: What its last event reports.
        server: The agent's process, if the gate started it.
        who: What reports it.
        asked: Whether a provider may have been asked.
    """
    patterns = (_NO_CODES, _PROVIDER_CODES, _ERROR_CODES)
    if error is None or (error.code and not any(pattern.fullmatch(error.code) for pattern in patterns)):
        return None
    failure = agent_error(error.message, names=(error.code,), server=server, who=who, asked=asked)
    failure.unfinished = invocation
    return failure


def too_late(timeout: float, after: str = "") -> AgentFailure:
    """The turn's time is up.

    Args:
        timeout: Seconds that the turn had.
        after: What had happened before, if the server had stopped answering: a sentence.
    """
    slow = "If the agent is slow but correct, give turns more time (`--turn-timeout`)."
    return AgentFailure(
        f"The turn did not end within {timeout:g} s.{f' {after}' if after else ''}",
        kind=FailureKind.DEADLINE,
        hint="Probably the agent raised an exception: see the server's log." if after else slow,
    )


def _said(reply: Reply) -> str:
    """The beginning of a short body, for a message."""
    text = first_line(reply.text, 300)
    return f": {text}" if text and not text.startswith("<") else ""
