"""`agent-eval export otlp` and a collector on loopback."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from upload_server import Received, Reply, upload_server

from agent_eval.cli import main
from agent_eval.net.retry import Retry
from agent_eval.report.renderers.results_json import results_json

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from export_samples import stored

SECRET = "token-0123456789"


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The output directory of a run, and an environment without OpenTelemetry's and GitHub's variables."""
    import os

    for name in os.environ:
        if name.startswith(("OTEL_", "GITHUB_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr("agent_eval_workbench.exports.client._RETRY", Retry(attempts=3, first=0.01))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "agent-eval-results"
    folder.mkdir()
    (folder / "results.json").write_text(results_json(stored().report), "utf-8")
    return folder


def test_export_otlp__sends_traces_and_logs_with_headers_and_writes_the_same_bodies(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"Authorization=Bearer%20{SECRET}, x-team = evals")
    with upload_server() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"{server.url}/otlp/")
        assert main(["export", "otlp"]) == 0

    traces, logs = server.received
    assert (traces.path, logs.path) == ("/otlp/v1/traces", "/otlp/v1/logs")
    assert traces.headers["content-type"] == "application/json"
    assert (traces.headers["authorization"], traces.headers["x-team"]) == (f"Bearer {SECRET}", "evals")
    assert traces.json["resourceSpans"]
    assert logs.json["resourceLogs"]
    output = capsys.readouterr()
    assert output.out == f"Sent 6 spans and 7 scores to {server.url}/otlp/v1/traces\n"
    assert SECRET not in output.err

    assert main(["export", "otlp", "--output", "run.jsonl"]) == 0
    lines = [json.loads(line) for line in Path("run.jsonl").read_text("utf-8").splitlines()]
    assert lines == [traces.json, logs.json]


def test_export_otlp__services_for_traces_only(capsys: pytest.CaptureFixture[str]) -> None:
    def respond(request: Received) -> Reply:
        return Reply() if request.path.endswith("/traces") else Reply(404, b"no such signal")

    with upload_server(respond) as server:
        assert main(["export", "otlp", "--endpoint", server.url]) == 1
        assert "HTTP 404: no such signal. If the service takes traces only, use --scores events." in (
            capsys.readouterr().err
        )
        assert main(["export", "otlp", "--endpoint", server.url, "--scores", "events"]) == 0


@pytest.mark.parametrize(
    ("reply", "message", "requests"),
    [
        (Reply(401, f"bad token {SECRET}".encode()), "HTTP 401: bad token ***.", 1),
        (Reply(503), "HTTP 503: {}.", 3),
        (None, "the connection failed", 3),
        (Reply(302, headers={"Location": "http://evil.example/x"}), "redirects to evil.example", 1),
        (Reply(200, b"<html>"), "but not with a JSON object", 1),
        (
            Reply(200, {"partialSuccess": {"rejectedSpans": "4", "errorMessage": "too old"}}),
            "rejected 4 items: too old.",
            1,
        ),
        (Reply(400, b"::error::1\x1b[2J"), "HTTP 400: :\u200b:error::1\ufffd[2J.", 1),
    ],
)
def test_export_otlp__what_is_not_accepted_is_an_error(
    reply: Reply | None,
    message: str,
    requests: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization={SECRET}")
    with upload_server(lambda request: reply) as server:
        assert main(["export", "otlp", "--endpoint", server.url]) == 1

    output = capsys.readouterr()
    assert message in output.err
    assert SECRET not in output.err
    assert "Sent before: 0 spans and 0 scores. The verdict is not affected." in output.err
    assert len(server.received) == requests


def test_export_otlp__an_outage_that_passes_is_not_an_error() -> None:
    replies = iter([Reply(429, headers={"Retry-After": "0"}), None, Reply()])
    with upload_server(lambda request: next(replies, Reply())) as server:
        assert main(["export", "otlp", "--endpoint", server.url, "--scores", "none"]) == 0
    assert len({request.body for request in server.received}) == 1


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "There is no endpoint. Set --endpoint or OTEL_EXPORTER_OTLP_ENDPOINT"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT is not the URL of a service"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://u:{SECRET}@h"}, "OTEL_EXPORTER_OTLP_ENDPOINT is not the URL"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_EXPORTER_OTLP_HEADERS": SECRET}, "must be `name=value"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_EXPORTER_OTLP_HEADERS": f"a={SECRET}%0A"}, "can't be sent"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_EXPORTER_OTLP_TIMEOUT": "1s"}, "must be a number of milli"),
    ],
)
def test_export_otlp__invalid_settings_end_with_2(
    variables: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert main(["export", "otlp"]) == 2

    output = capsys.readouterr()
    assert message in output.err
    assert SECRET not in output.err
