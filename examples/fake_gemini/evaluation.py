"""Vertex AI's evaluation service on loopback, with the token endpoint and the corner of Cloud Storage it needs."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

TOKEN = "fake-token"

DEFINITION = """\
name: coherence
prompt_template: |-
  Rate how the answer hangs together, from 1 to 5.
  Asked: {prompt}
  Answered: {response}
judge_model_system_instruction: You rate answers.
"""
"""Stands for Google's definition of coherence, whose text is its own; the keys are those of its SDK."""

_METHOD = re.compile(r"^/v1beta1/projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+?)/?:evaluateInstances$")
_OBJECT = "metrics/coherence/v1.yaml"
_SPECS = {"predefined_metric_spec": "metric_spec_name", "llm_based_metric_spec": "metric_prompt_template"}


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest:
    """A well-formed request."""

    project: str
    location: str
    metric: str
    """The specification's name, or `coherence`."""
    instance: Mapping[str, Any]
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    """Names in lower case."""


Answer = Mapping[str, Any] | int
"""An entry of `metricResults`, or an HTTP status."""


@dataclass(kw_only=True)
class FakeEvaluation:
    """The server; a context manager that runs it in a thread of its own."""

    script: Callable[[EvaluationRequest], Answer]
    received: list[EvaluationRequest] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Why requests were not well formed."""
    tokens: int = 0
    """How often a token was asked for."""
    fetched: int = 0
    """How often the definition was."""
    definition: str = DEFINITION

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.fake = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=10)

    @property
    def url(self) -> str:
        """What GOOGLE_VERTEX_BASE_URL and STORAGE_EMULATOR_HOST should be."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def account(self) -> dict[str, str]:
        """A service account whose tokens come from here, as its key file has it."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return {
            "type": "service_account",
            "project_id": "account-project",
            "private_key_id": "1",
            "private_key": key.decode(),
            "client_email": "judge@account-project.iam.gserviceaccount.com",
            "client_id": "1",
            "token_uri": f"{self.url}/token",
        }

    def environ(self, key_file: Path, *, location: str = "us-central1") -> dict[str, str]:
        """The variables that lead here, with an account in `key_file`, which is written."""
        key_file.write_text(json.dumps(self.account()), encoding="utf-8")
        return {
            "GOOGLE_APPLICATION_CREDENTIALS": str(key_file),
            "GOOGLE_CLOUD_PROJECT": "a-project",
            "GOOGLE_CLOUD_LOCATION": location,
            "GOOGLE_VERTEX_BASE_URL": self.url,
            "STORAGE_EMULATOR_HOST": self.url,
        }

    def answer(self, path: str, headers: Mapping[str, str], raw: bytes) -> tuple[int, Any]:
        """What a POST gets: a status and a JSON value."""
        if path == "/token":
            self.tokens += 1
            return 200, {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}
        match = _METHOD.match(path)
        wrong = None if match else f"{path} is not found"
        body: Any = json.loads(raw) if match else None
        wrong = wrong or _wrong(headers, body)
        if wrong is not None or match is None:
            self.refused.append(wrong or "")
            return 400, _error(400, wrong or "")
        [metric] = body["metrics"]
        spec = metric.get("predefined_metric_spec")
        request = EvaluationRequest(
            project=match["project"],
            location=match["location"],
            metric=spec["metric_spec_name"] if spec else "coherence",
            instance=body["instance"],
            body=body,
            headers=headers,
        )
        self.received.append(request)
        said = self.script(request)
        return (said, _error(said, "scripted")) if isinstance(said, int) else (200, {"metricResults": [said]})


def _wrong(headers: Mapping[str, str], body: Any) -> str | None:
    if headers.get("authorization") != f"Bearer {TOKEN}":
        return "Request is missing required authentication credential."
    if set(body) != {"metrics", "instance"} or len(body["metrics"]) != 1:
        return f"unknown fields, or not one metric: {sorted(body)}"
    [(kind, spec)] = body["metrics"][0].items()
    if kind not in _SPECS or not spec.get(_SPECS[kind]):
        return f"no metric: {body['metrics'][0]}"
    if not set(body["instance"]) <= {"prompt", "response", "reference", "agent_eval_data"}:
        return f"unknown fields of the instance: {sorted(body['instance'])}"
    return None if body["instance"].get("agent_eval_data", {}).get("turns") else "nothing to judge"


def _error(status: int, message: str) -> dict[str, Any]:
    return {"error": {"code": status, "message": message, "status": "UNKNOWN"}}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    fake: FakeEvaluation


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # Otherwise each body waits 40 ms for the client's delayed ACK of the head.
    server: _Server

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, value = self.server.fake.answer(self.path, headers, raw)
        self._send(status, json.dumps(value).encode())

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if path.startswith("/download/") and path.endswith(f"/o/{_OBJECT}"):
            self.server.fake.fetched += 1
            self._send(200, self.server.fake.definition.encode())
        elif path.endswith(f"/o/{_OBJECT}"):
            self._send(200, json.dumps({"name": _OBJECT}).encode())
        elif re.fullmatch(r"/storage/v1/b/[\w-]+", path):
            self._send(200, b'{"name": "bucket"}')
        else:
            self._send(404, b"{}")

    def _send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: tests read the log of the process."""
