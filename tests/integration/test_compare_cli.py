"""`agent-eval compare` as people start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from agent_eval.cli import main
from agent_eval.report.renderers.results_json import results_json
from agent_eval.results.comparison import ComparisonReport
from agent_eval.results.report import CaseReport, MetricReport, Origin, RunReport, RunScore

SUMMARY = "3 cases compared: 1 newly failing, 1 newly passing, 1 passing as before; 1 removed"


def results(path: Path, *scores: tuple[str, float]) -> Path:
    """Results of cases that need a score of 0.8."""
    cases = []
    for number, (name, score) in enumerate(scores, start=3):
        status: Literal["passed", "failed"] = "passed" if score >= 0.8 else "failed"
        runs = [RunScore(run=0, score=score, status=status)]
        metric = MetricReport(
            name="response_match_score", score=score, threshold=0.8, status=status, fingerprint="one", runs=runs
        )
        file = "evals/home.test.json"
        case = CaseReport(
            case_id=f"{file}:{name}",
            file=file,
            line=number,
            eval_set_id="home",
            eval_id=name,
            status=status,
            fingerprint=f"asks {name}",
            metrics=[metric],
        )
        cases.append(case)
    report = RunReport(
        tool_version="1.0.0",
        verdict="passed",
        started_at=1_790_000_000.0,
        duration=2.0,
        num_runs=1,
        min_pass_rate=1.0,
        origin=Origin(commit="b" * 40),
        cases=cases,
    )
    path.write_text(results_json(report), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    head = results(tmp_path / "head.json", ("lamp", 0.25), ("fan", 0.9), ("door", 1.0))
    base = results(tmp_path / "base.json", ("lamp", 0.9), ("fan", 0.6), ("door", 1.0), ("gone", 1.0))
    return str(head), str(base)


def test_compare__as_a_process_anywhere(files: tuple[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "agent_eval", "compare", *files],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "INPUT_"))},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        "✗ lamp  evals/home.test.json:3\n     response_match_score 0.25, needs 0.80, on the base branch 0.90\n"
        in done.stdout
    )
    assert done.stdout.endswith(f"\n {SUMMARY}\n ✓ newly passing: fan\n")
    assert "Failed" not in done.stdout, "a verdict beside exit code 0"


def test_compare__markdown_is_that_of_the_comment(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    source = "https://gitlab.example/group/project/-/blob/main"
    assert main(["compare", *files, "--format", "markdown", "--source-url", source]) == 0
    message = capsys.readouterr().out
    assert message.startswith(f"## ℹ️ {SUMMARY}\n")
    assert f"[`lamp`]({source}/evals/home.test.json#L3)" in message
    assert "`response_match_score` 0.83 → **0.72** (needs 0.80)." in message


def test_compare__the_newer_run_is_that_of_the_output_directory(
    files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compare", files[1]]) == 2
    assert "agent-eval-results does not exist. Run `agent-eval run` first" in capsys.readouterr().err
    for file, folder in zip(files, ("agent-eval-results", "base"), strict=True):
        (tmp_path / folder).mkdir()
        Path(file).rename(tmp_path / folder / "results.json")
    assert main(["compare", "base"]) == 0
    assert SUMMARY in capsys.readouterr().out
    assert main(["compare", *files, files[1]]) == 2
    assert "compare takes two results" in capsys.readouterr().err


def test_compare__json_is_the_comparison(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *files, "--format", "json"]) == 0
    loaded = json.loads(capsys.readouterr().out)
    assert [(case["eval_id"], case["change"]) for case in loaded["cases"]] == [
        ("lamp", "newly_failing"),
        ("fan", "fixed"),
        ("gone", "removed"),
    ]
    assert ComparisonReport.model_validate(loaded).compared == 3


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "can't be read: No such file or directory. Name the results.json of a run"),
        (b"{", "it is not JSON"),
    ],
)
def test_compare__what_is_no_results_file_is_exit_2(
    files: tuple[str, str], tmp_path: Path, content: bytes | None, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.json"
    if content is not None:
        bad.write_bytes(content)
    for pair in ((files[0], str(bad)), (str(bad), files[1])):
        assert main(["compare", *pair]) == 2
        result = capsys.readouterr()
        assert (result.out, sentence in result.err, "bad.json" in result.err) == ("", True, True)


def test_compare__a_source_url_is_a_web_address(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", *files, "--source-url", "javascript:alert(1)"])
    assert ended.value.code == 2
    assert "is not a web address" in capsys.readouterr().err
