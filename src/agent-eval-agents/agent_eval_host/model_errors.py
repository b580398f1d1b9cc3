"""Why a model call failed, and whether the network or the provider was the cause."""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl

from agent_eval_host.errors import causes, http_status
from agent_eval_host.values import cut, text_of

_TRANSPORT = (
    "ConnectionError",
    "TimeoutError",
    "gaierror",
    "SSLError",
    "TransportError",
    "ClientConnectionError",
    "ClientPayloadError",
    "ChunkedEncodingError",
    "APIConnectionError",
    "APITimeoutError",
    "Timeout",
)
"""Names of exception classes, including base classes, that mean "no response": of Python, httpx, aiohttp, requests,
google-auth, LiteLLM, and the SDKs of OpenAI and Anthropic."""
_ERRNO = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset",
    errno.EPIPE: "connection reset",
    errno.ETIMEDOUT: "connection timed out",
    errno.ENETUNREACH: "no route to the host",
    errno.EHOSTUNREACH: "no route to the host",
}


class UnreadableAnswer(ConnectionError):
    """The response to a model call is not JSON (truncated, or the page of a proxy), or has nothing of a model in it."""


class SilentAttempt(TimeoutError):
    """An attempt got no data for so long that a new attempt is more promising."""


def is_transport(error: BaseException) -> bool:
    return any(cls.__name__ in _TRANSPORT for cls in type(error).__mro__)


def cause_of(error: BaseException) -> str:
    """Why an attempt failed, as a short, constant description."""
    status = http_status(error)
    if status is not None:
        return f"HTTP {status}"
    if isinstance(error, UnreadableAnswer):
        return str(error)
    for cause in causes(error):
        if isinstance(cause, socket.gaierror):
            return "the host name can't be resolved"
        if isinstance(cause, ssl.SSLError):
            return f"TLS: {getattr(cause, 'verify_message', '') or cause.reason or type(cause).__name__}"
        if isinstance(cause, OSError) and cause.errno in _ERRNO:
            return _ERRNO[cause.errno]
    name, text = type(error).__name__, text_of(error)
    if name == "ClientPayloadError" or "complete message body" in text:
        return "the answer was cut off"
    if name in ("ServerDisconnectedError", "RemoteProtocolError", "ReadError", "ClientOSError"):
        return "connection closed without an answer"
    return f"{name}: {cut(text, 120)}" if text else name


def retry_after(error: BaseException) -> float:
    """Seconds that the provider asks to wait, in a header or in Gemini's error details; otherwise 0."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    body = getattr(error, "details", None)
    inner = body.get("error", body) if isinstance(body, dict) else {}
    details = inner.get("details") if isinstance(inner, dict) else None
    asked = [headers.get("Retry-After") or headers.get("retry-after")]
    asked += [detail.get("retryDelay") for detail in details or () if isinstance(detail, dict)]
    for value in asked:
        with contextlib.suppress(ValueError, TypeError):
            return max(0.0, float(str(value).rstrip("s")))
    return 0.0
