"""`agent-eval export`: where the documents go, and what the exit code says."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from export_samples import LIGHTS, stored

from agent_eval.cli import main
from agent_eval.report.renderers.results_json import results_json


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


def test_export__csv_and_json_lines_to_stdout_or_a_file(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "jsonl"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (first["case_id"], first["actual_response"], first["expected_response"]) == (
        LIGHTS,
        "=cmd|'/C calc'!A0",
        None,  # There is no eval file beside these results.
    )

    Path("rows.csv").write_text("of yesterday", "utf-8")
    assert main(["export", "csv", str(results / "results.json"), "--output", "rows.csv"]) == 0
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", "Wrote rows.csv\n")
    assert Path("rows.csv").read_text("utf-8").startswith("eval_set_id,eval_id,metric_name,")


def test_export__without_recordings_the_report_is_exported_with_a_note(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (results / "recordings.jsonl.gz").unlink()

    assert main(["export", "jsonl"]) == 0

    output = capsys.readouterr()
    assert [json.loads(line)["actual_response"] for line in output.out.splitlines()] == [None] * 8
    assert "there is no recordings.jsonl.gz beside the results" in output.err


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


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("results", "results.json is not used: it is not JSON"),
        ("recordings", "recordings.jsonl.gz can't be read (line 1)"),
        ("recording", "recordings.jsonl.gz can't be read (line 2): it is not a recording of a run"),
        (
            "absent",
            "Run `agent-eval run` first, or name the output directory of a run.",
        ),
        ("output", "out is not a regular file. Name another --output."),
    ],
)
def test_export__bad_input_ends_with_2(
    damage: str, message: str, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if damage == "results":
        (results / "results.json").write_text("{", "utf-8")
    elif damage == "recordings":
        (results / "recordings.jsonl.gz").write_bytes(b"no gzip")
    elif damage == "recording":
        with gzip.open(results / "recordings.jsonl.gz", "at", encoding="utf-8") as file:
            file.write("[]\n")
    elif damage == "absent":
        (results / "results.json").unlink()
    Path("out").mkdir()

    assert main(["export", "csv", "--output", "out" if damage == "output" else "rows.csv"]) == 2

    output = capsys.readouterr()
    assert message in output.err
    assert (output.out, Path("rows.csv").exists()) == ("", False)


@pytest.mark.parametrize("name", ["results.json", "recordings.jsonl.gz"])
@pytest.mark.parametrize("format_", ["csv", "jsonl", "otlp"])
def test_export__never_replaces_the_files_of_the_run(
    name: str, format_: str, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (results / name).read_bytes()
    Path("link").symlink_to(results / name)
    for output in (results / name, Path("link")):
        assert main(["export", format_, "--output", str(output)]) == 2
        assert capsys.readouterr().err.endswith("is a file of the run itself. Name another --output.\n")
    assert (results / name).read_bytes() == before


def test_export_otlp__a_url_with_a_password_is_refused_and_not_shown(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for url in ("http://u:sekret@127.0.0.1:1", "http://:sekret@127.0.0.1:1", "http://sekret@127.0.0.1:1"):
        assert main(["export", "otlp", "--endpoint", url]) == 2
        assert "sekret" not in capsys.readouterr().err
