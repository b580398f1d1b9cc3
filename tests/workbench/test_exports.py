"""The results as rows and as OTLP, and the command."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from export_samples import LIGHTS, STARTED, bytes_as_base64, stored
from golden_files import check
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from report_samples import SAMPLES

from agent_eval.cli import main
from agent_eval_results import ToolUse, Usage
from agent_eval_results.report.renderers.results_json import results_json
from agent_eval_scoring.core.invocation import Span
from agent_eval_workbench.exports.otlp import Batch, ScoreSignal, otlp_batches, otlp_lines
from agent_eval_workbench.exports.runs import COLUMNS, StoredRun, _cell, csv_lines, json_lines, rows

# Exports as rows: what is in which cell, and what a spreadsheet must not execute.


def accepted(batch: Batch) -> None:
    """OpenTelemetry's own parser takes the messages; it refuses unknown fields."""
    ParseDict(bytes_as_base64(batch.traces), ExportTraceServiceRequest())
    ParseDict(bytes_as_base64(batch.logs or {}), ExportLogsServiceRequest())


def spans_of(run: StoredRun, **options: Any) -> list[Any]:
    [batch] = otlp_batches(run, **options)
    spans: list[Any] = batch.traces["resourceSpans"][0]["scopeSpans"][0]["spans"]
    return spans


def own_times() -> StoredRun:
    """A run whose tool call has its own times."""
    run = stored()
    recording = run.recording_of(f"{LIGHTS}#1")
    assert recording is not None
    recording.invocations[0].spans = [Span(kind="tool", call_id="c-1", start=0.25, end=0.75)]
    return run


def replayed() -> StoredRun:
    """A run that used no tokens."""
    run = stored()
    run.report.cases[0].runs[0].tools = ToolUse(mode="all", model_calls=2)
    run.report.cases[0].runs[0].usage = Usage()
    return run


def test_exports__in_every_format() -> None:
    """UPDATE_GOLDEN=1 writes them: a row per run, turn and metric, and a trace per run with turns, tools and scores.

    The recording of the head has the same run id as the base's run: it is not what the base branch's agent answered.
    """
    [batch] = otlp_batches(stored())
    accepted(batch)
    assert batch.logs is not None
    [traces], [logs] = batch.traces["resourceSpans"], batch.logs["resourceLogs"]
    parts: Mapping[str, list[Any]] = {
        "resource": [traces["resource"], traces["scopeSpans"][0]["scope"], logs["resource"]],
        "spans": spans_of(stored()),
        "scores": logs["scopeLogs"][0]["logRecords"],
        "a tool call with its own times": spans_of(own_times())[:3],
        "replayed": spans_of(replayed())[:2],
        "without content, scores as events": spans_of(stored(), content=False, scores="events"),
        "no scores": spans_of(stored(), scores="none")[:1],
        "rows": list(map(json.loads, json_lines(stored()))),
        "tokens of a replayed run": [row["tokens"] for row in rows(replayed())],
    }
    lines = [f"{name}:\n" + "".join(f"  {json.dumps(part)}\n" for part in each) for name, each in parts.items()]
    check("golden_exports.txt", "".join(lines) + "csv:\n" + "".join(csv_lines(stored())).replace("\r\n", "\n"))


def test_csv_lines__have_no_formulas() -> None:
    """Spreadsheets skip a line feed, and some convert full-width characters."""
    assert tuple(next(csv.reader(csv_lines(stored())))) == COLUMNS
    for first in ("=1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1+1", "＝1+1", "＋1", "－1", "＠SUM(A1)"):
        assert _cell(first) == f"'{first}"


def test_otlp_batches__no_content_leaves_out_every_text() -> None:
    for scores in get_args(ScoreSignal):
        batches = list(otlp_batches(stored(), content=False, scores=scores))
        assert [batch.logs is None for batch in batches] == [scores != "logs"]
        text = "".join(otlp_lines(iter(batches)))
        for written in ("Lamp on", "cmd|", "lamp", "missing", "did not answer", "SIGKILL", '"ok'):
            assert written not in text
        assert "agent-crash" in text


def test_otlp_batches__ids_are_the_same_again_and_differ_for_another_run_of_the_job() -> None:
    again = stored()
    assert [*otlp_lines(otlp_batches(stored()))] == [*otlp_lines(otlp_batches(again))]

    again.report.cases[0].runs[0].started_at = STARTED + 60
    first, second = (spans_of(run) for run in (stored(), again))
    assert [one["traceId"] == other["traceId"] for one, other in zip(first, second, strict=True)] == [
        *[False] * 4,
        *[True] * 3,
    ]


def test_otlp_batches__are_bounded_and_keep_a_run_together() -> None:
    run = stored()
    run.report.cases = [run.report.cases[0]] * 300
    batches = list(otlp_batches(run))

    assert [batch.spans for batch in batches] == [500, 500, 202]
    assert sum(batch.log_records for batch in batches) == 300 * 6 + 1


def test_exports__any_report_is_exported() -> None:
    for name, sample in SAMPLES.items():
        run = StoredRun(report=sample())
        report, batches = run.report, list(otlp_batches(run))
        assert {row["case_id"] for row in rows(run)} == {case.case_id for case in report.cases if case.runs}, name
        assert "".join(csv_lines(run)).encode()
        assert all(json.loads(line) for line in json_lines(run))
        runs = [run for case in [*report.cases, *report.confirmations, *report.base_runs] for run in case.runs]
        assert bool(batches) is bool(runs), name
        for batch in batches:
            accepted(batch)
            json.dumps(batch.traces, allow_nan=False, ensure_ascii=False).encode()


# `agent-eval export`: where the documents go, and what the exit code says.


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The output directory of a run, below the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    run = stored()
    folder = tmp_path / "agent-eval-results"
    folder.mkdir()
    (folder / "results.json").write_text(results_json(run.report), "utf-8")
    recording = run.recording_of(f"{LIGHTS}#1")
    assert recording is not None
    with gzip.open(folder / "recordings.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(recording.model_dump_json(exclude_none=True) + "\n")
    return folder


def test_export__text_of_an_agent_is_no_command_of_a_runner(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = results / "results.json"
    file.write_text(file.read_text("utf-8").replace("missing: lamp", r"x\n::error::pwned\n##[error]pwned"), "utf-8")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")

    assert main(["export", "csv"]) == 0

    text = capsys.readouterr().out
    assert "pwned" in text
    assert "::error" not in text
    assert "##[" not in text


def test_export__what_is_printed(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """UPDATE_GOLDEN=1 writes it. Bad input ends with 2; no file of the run is ever replaced, no password shown."""
    printed = []

    def export(words: str, where: str = "") -> None:
        code = main(["export", *words.split()])
        out, err = capsys.readouterr()
        assert "sekret" not in err
        answers = [json.loads(line)["actual_response"] for line in out.splitlines() if line.startswith("{")]
        printed.append(f"$ agent-eval export {words}{where}\n{answers or out or 'nothing'}\n{err}exit {code}\n\n")

    export("jsonl")
    for path in (Path("rows.csv"), Path("out/rows.csv")):
        path.parent.mkdir(exist_ok=True)
        path.write_text("of yesterday", "utf-8")
    export("csv agent-eval-results/results.json --output rows.csv")
    assert Path("rows.csv").read_text("utf-8").startswith("eval_set_id,eval_id,metric_name,")
    export("csv --output out", " # a directory")
    before = {name: (results / name).read_bytes() for name in ("results.json", "recordings.jsonl.gz")}
    for name, format_ in itertools.product(before, ("csv", "jsonl", "otlp")):
        Path(f"{format_}-{name}").symlink_to(results / name)
        for output in (f"agent-eval-results/{name}", f"{format_}-{name}"):
            export(f"{format_} --output {output}")
    for user in ("u:sekret", ":sekret", "sekret"):
        export(f"otlp --endpoint http://{user}@127.0.0.1:1")
    stored_recordings = before["recordings.jsonl.gz"]
    for name, content in (
        ("results.json", b"{"),
        ("recordings.jsonl.gz", stored_recordings + b"no gzip"),
        ("recordings.jsonl.gz", stored_recordings + gzip.compress(b"[]\n")),
    ):
        assert {each: (results / each).read_bytes() for each in before} == before
        (results / name).write_bytes(content)
        export("csv --output out/new.csv", f" # with damaged {name}")
        (results / name).write_bytes(before[name])
    for name in reversed(before):
        (results / name).unlink()
        export("jsonl", f" # without {name}")
    assert sorted(path.name for path in Path("out").iterdir()) == ["rows.csv"]
    check("golden_export.txt", "".join(printed).replace(f"{results.parent}/", ""))
