"""Sends JSON, and OTLP in JSON or protobuf: with credentials, bounded time and size, no secret in a message."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from agent_eval.commands import CliIO
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.masking import Masker, first_line
from agent_eval_scoring.core.text import harmless, plural
from agent_eval_scoring.net.retry import UNPROCESSED, Retry, seconds_asked
from agent_eval_scoring.net.transfer import LARGEST_ERROR, Answer, NoAnswer, NoAuth, Request, new_session, receive
from agent_eval_workbench.exports.otlp import Batch

_SERVICES = {"traces": ("trace", "ExportTraceService"), "logs": ("logs", "ExportLogsService")}
_IDS = ("traceId", "spanId", "parentSpanId")
_RETRY = Retry(attempts=4, longest_asked=30.0, jitter=0.0)
_LARGEST_ANSWER = 10_000_000
_CONNECT = 10.0
_UNSUPPORTED = 415
"""HTTP's status for a content type that the service does not take."""


class UploadError(AgentEvalError):
    """The service did not accept a request. The message is safe to log."""


class InvalidTarget(AgentEvalError):
    """The address or the credentials can't be used. The message is safe to log."""


def checked_url(url: str, name: str, *, encrypted: bool = False) -> str:
    """The URL of a service without a trailing slash.

    Args:
        url: The URL.
        name: The flag or variable that contains it, for the message.
        encrypted: Whether only https is allowed, except for this machine.

    Raises:
        InvalidTarget: It is not an http(s) URL, or contains a password.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in {"http", "https"} or not host or "@" in parts.netloc or parts.query or parts.fragment:
        # The URL is not shown: it may contain a password.
        raise InvalidTarget(f"{name} is not the URL of a service. Write https://HOST[:PORT][/PATH].")
    if encrypted and parts.scheme == "http" and host not in {"localhost", "127.0.0.1", "::1"}:
        raise InvalidTarget(f"{name} would send the key without encryption. Write https://.")
    return url.rstrip("/")


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


class Client:
    """Sends requests to one service."""

    def __init__(
        self,
        headers: Mapping[str, str],
        *,
        timeout: float = 30.0,
        signal: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Opens no connection yet.

        Args:
            headers: Sent with every request. Their values are secrets and are masked in messages.
            timeout: Seconds for a response.
            signal: Of protobuf: `traces` or `logs`; None for JSON.
            sleep: Waits for a number of seconds.

        Raises:
            InvalidTarget: A header can't be sent, or protobuf is not installed.
        """
        for name, value in headers.items():
            # Neither name nor value is shown: a user may have swapped them.
            if not (name.isascii() and name.replace("-", "").replace("_", "").isalnum()):
                raise InvalidTarget("The name of a header has characters that can't be sent.")
            if not (value.isascii() and value.isprintable()):
                raise InvalidTarget(f"The value of the header {name} has characters that can't be sent.")
        self._encode: Callable[[Mapping[str, Any]], bytes] = _json
        self._decode: Callable[[bytes], Any] = json.loads
        if signal is not None:
            try:
                self._encode, self._decode = _codec(signal)
            except ImportError as error:
                raise InvalidTarget("Protobuf needs opentelemetry-proto: `agent-eval-action[otel]`.") from error
        self._headers = {**headers, "Content-Type": f"application/{'json' if signal is None else 'x-protobuf'}"}
        # A value is `Bearer TOKEN` or the token itself.
        self._masker = Masker(part for value in headers.values() for part in (value, value.rpartition(" ")[2]))
        self._timeout = timeout
        self._sleep = sleep
        self._session = new_session()

    def close(self) -> None:
        """Closes the connections."""
        self._session.close()

    def post(self, url: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Sends JSON or protobuf, up to four times, and returns the answer as JSON; {} for an empty answer.

        Raises:
            UploadError: The answer is not a success, or there is none.
        """
        data = self._encode(body)
        for attempt in itertools.count(1):
            answer = self._send(url, data)
            # OTLP's list of what was not processed, and no connection: a batch that is sent twice would be counted
            # twice.
            is_temporary = answer.status in UNPROCESSED if isinstance(answer, Answer) else answer.kind == "unavailable"
            if not (is_temporary and attempt < _RETRY.attempts):
                return self._answer(url, answer)
            self._sleep(_RETRY.pause(attempt, seconds_asked(answer.headers) if isinstance(answer, Answer) else None))
        raise AssertionError("unreachable")

    def _send(self, url: str, data: bytes) -> Answer | NoAnswer:
        deadline = time.monotonic() + self._timeout
        request = Request(method="POST", url=url, params=None, data=data, headers=self._headers, auth=NoAuth())
        return receive(
            self._session,
            request,
            timeouts=(min(_CONNECT, self._timeout), self._timeout),
            max_bytes=_LARGEST_ANSWER,
            # Of the whole answer: a server that sends a byte a second would never exceed the timeout of a read.
            expired=lambda: time.monotonic() > deadline,
        )

    def _answer(self, url: str, answer: Answer | NoAnswer) -> dict[str, Any]:
        where = self.safe(url)
        if isinstance(answer, NoAnswer):
            raise UploadError(f"{where}: {answer.message}. Check the address, and that the service runs.")
        if answer.location is not None:
            target = self.safe(urlsplit(answer.location).netloc or "another address")
            raise UploadError(f"{where} redirects to {target}. Credentials are not sent there; use the final address.")
        if answer.status == _UNSUPPORTED and self._encode is _json:
            raise UploadError(f"{where} takes no JSON: set {_PREFIX}PROTOCOL=http/protobuf.")
        if not 200 <= answer.status < 300:
            raise UploadError(f"{where} answers with HTTP {answer.status}{self._reason(answer.body)}.")
        if not answer.body.strip():
            return {}
        try:
            is_json = "json" in answer.headers.get("content-type", "")  # Also of some that take protobuf.
            content = json.loads(answer.body) if is_json else self._decode(answer.body)
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise UploadError(f"{where} answers with HTTP {answer.status}, and the answer can't be read.")
        return content

    def _reason(self, body: bytes) -> str:
        # A body that was cut may end with the first half of a secret.
        whole = self._masker.beginning(body) if len(body) >= LARGEST_ERROR else body
        reason = self.safe(whole.decode("utf-8", "replace"))
        return f": {reason.rstrip('.')}" if reason else ""

    def safe(self, text: str) -> str:
        """The text for a message: secrets masked, on one line, of bounded length."""
        return " ".join(harmless(first_line(self._masker.text(text), 500)).split())


_PREFIX = "OTEL_EXPORTER_OTLP_"
_REJECTED = {"traces": "rejectedSpans", "logs": "rejectedLogRecords"}
_DEFAULT_TIMEOUT = 10.0
_JSON, _PROTOBUF = "http/json", "http/protobuf"


@dataclass(frozen=True, kw_only=True)
class OtlpTarget:
    """Where to send a signal."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    timeout: float
    """Seconds."""
    protobuf: bool


def otlp_target(signal: Literal["traces", "logs"], environ: Mapping[str, str], endpoint: str | None) -> OtlpTarget:
    """The target of a signal.

    Args:
        signal: The signal.
        environ: OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS, _TIMEOUT (milliseconds) and _PROTOCOL, and the same for one
            signal, e.g. OTEL_EXPORTER_OTLP_TRACES_ENDPOINT.
        endpoint: `--endpoint`, which replaces the variable; the signal's path is appended.

    Raises:
        InvalidTarget: There is no endpoint, or a value is invalid.
    """
    own = f"{_PREFIX}{signal.upper()}_"
    if endpoint:
        url = f"{checked_url(endpoint, '--endpoint')}/v1/{signal}"
    elif value := environ.get(f"{own}ENDPOINT"):
        url = checked_url(value, f"{own}ENDPOINT")
    elif value := environ.get(f"{_PREFIX}ENDPOINT"):
        url = f"{checked_url(value, f'{_PREFIX}ENDPOINT')}/v1/{signal}"
    else:
        raise InvalidTarget(f"There is no endpoint. Set --endpoint or {_PREFIX}ENDPOINT, or write to --output.")
    name = f"{own}HEADERS" if environ.get(f"{own}HEADERS") else f"{_PREFIX}HEADERS"
    timeout = environ.get(f"{own}TIMEOUT") or environ.get(f"{_PREFIX}TIMEOUT") or ""
    if timeout and not (timeout.isdecimal() and 0 < int(timeout) <= 3_600_000):
        raise InvalidTarget(f"{_PREFIX}TIMEOUT must be a number of milliseconds from 1 to 3600000.")
    protocol = environ.get(f"{own}PROTOCOL") or environ.get(f"{_PREFIX}PROTOCOL") or _JSON
    if protocol not in (_JSON, _PROTOBUF):
        raise InvalidTarget(f"{_PREFIX}PROTOCOL must be {_JSON} or {_PROTOBUF}.")
    return OtlpTarget(
        url=url,
        headers=_headers(environ.get(name, ""), name),
        timeout=int(timeout) / 1000 if timeout else _DEFAULT_TIMEOUT,
        protobuf=protocol == _PROTOBUF,
    )


def _headers(text: str, name: str) -> dict[str, str]:
    """`key=value,key=value` with percent-encoded values (W3C Baggage without properties)."""
    headers = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise InvalidTarget(f"{name} must be `name=value,name=value`.")
        headers[key.strip()] = unquote(value.strip())
    return headers


def send_otlp(client: Client, target: OtlpTarget, signal: Literal["traces", "logs"], body: Mapping[str, Any]) -> None:
    """Sends one batch.

    Raises:
        UploadError: It was not accepted, or only in part.
    """
    answer = client.post(target.url, body)
    partial = answer.get("partialSuccess") or answer.get("partial_success")
    # HTTP 200 with rejected items: the specification forbids to send these again.
    if isinstance(partial, dict):
        count = str(partial.get(_REJECTED[signal]) or "0")
        reason = client.safe(str(partial.get("errorMessage") or ""))
        if count != "0":
            because = f": {reason.rstrip('.')}" if reason else ""
            raise UploadError(f"{client.safe(target.url)} rejected {client.safe(count)} items{because}.")


def send_batches(batches: Iterator[Batch], to: OtlpTarget, to_logs: OtlpTarget | None, io: CliIO) -> int:
    """Sends everything; after a failure the rest is not sent. Returns the exit code.

    Args:
        batches: What to send.
        to: Where traces go.
        to_logs: Where log records go; None: none are sent.
        io: Prints what was sent.
    """
    spans = records = 0
    with contextlib.ExitStack() as clients:
        traces = clients.enter_context(_client(to, "traces"))
        logs = to_logs and clients.enter_context(_client(to_logs, "logs"))
        try:
            for batch in batches:
                send_otlp(traces, to, "traces", batch.traces)
                spans += batch.spans
                if batch.logs is not None and logs and to_logs:
                    send_otlp(logs, to_logs, "logs", batch.logs)
                    records += batch.log_records
        except UploadError as error:
            hint = ""
            if spans and not records and to_logs:
                hint = " If the service takes traces only, use --scores events."
            io.log(f"agent-eval: {error}{hint} Sent before: {_sent(spans, records)}. The verdict is not affected.")
            return 1
        io.print_result(f"Sent {_sent(spans, records)} to {traces.safe(to.url)}")
    return 0


def _client(to: OtlpTarget, signal: str) -> contextlib.closing[Client]:
    return contextlib.closing(Client(to.headers, timeout=to.timeout, signal=signal if to.protobuf else None))


def _sent(spans: int, records: int) -> str:
    return f"{plural(spans, 'span')} and {plural(records, 'score')}"


def _codec(signal: str) -> tuple[Callable[[Mapping[str, Any]], bytes], Callable[[bytes], dict[str, Any]]]:
    """What makes a request in protobuf of JSON, and JSON of the answer, which raises ValueError if it is none.

    Raises:
        ImportError: opentelemetry-proto is not installed.
    """
    package, service = _SERVICES[signal]
    messages = import_module(f"opentelemetry.proto.collector.{package}.v1.{package}_service_pb2")
    json_format, message = import_module("google.protobuf.json_format"), import_module("google.protobuf.message")

    def encode(body: Mapping[str, Any]) -> bytes:
        request = getattr(messages, f"{service}Request")()
        data: bytes = json_format.ParseDict(_with_base64(body), request).SerializeToString()
        return data

    def decode(data: bytes) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = json_format.MessageToDict(getattr(messages, f"{service}Response").FromString(data))
        except message.DecodeError as error:
            raise ValueError(str(error)) from error
        return answer

    return encode, decode


def _with_base64(value: Any) -> Any:
    """OTLP's JSON has hex ids, where protobuf's JSON has base64."""
    if isinstance(value, dict):
        return {
            key: b64encode(bytes.fromhex(item)).decode() if key in _IDS else _with_base64(item)
            for key, item in value.items()
        }
    return [_with_base64(item) for item in value] if isinstance(value, list) else value
