"""The command line: exit codes, commands, and what it may touch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gate_runs import Done, Repository, repository_in

LONG = "a b c d e f g h"


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """Its agent is a recording, good or bad: nothing has to start."""
    with repository_in(tmp_path / "repo") as made:
        made.evals("evals/home.test.json", {"good": "turned on", "long": LONG})
        made.record("evals/home.test.json", to="recordings/good.json")
        made.record("evals/home.test.json", {"long": "nothing"}, to="recordings/bad.json")
        yield made


def run(repository: Repository, *arguments: str, recording: str = "good", **options: Any) -> Done:
    """Runs the gate on a recording."""
    recorded = f"recorded:recordings/{recording}.json"
    return repository.gate("run", "evals", "--agent", recorded, *arguments, python=False, **options)


def test_run__exit_codes(repository: Repository) -> None:
    passed, failed = run(repository), run(repository, "--on-inconclusive", "pass", recording="bad")
    assert (passed.code, failed.code, failed.report.verdict) == (0, 1, "failed")
    failed.check_files()
    # With the agent of the run: discovery might find another one, or none.
    summary = (failed.output / "summary.md").read_text("utf-8")
    assert "agent-eval run --agent recorded:recordings/bad.json evals/home.test.json:" in summary


def test_run__invalid_files_and_settings_are_in_every_output(repository: Repository) -> None:
    repository.write({"evals/broken.test.json": "{,"})
    for arguments, code in ((("--num-runs", "0"), "setting-invalid"), ((), "not-json")):
        done = run(repository, *arguments, output=repository.root / "out")
        assert (done.code, done.report.verdict, done.report.cases) == (2, "invalid", [])
        assert done.results["reasons"] == [
            {"code": "invalid", "message": "1 error in the eval files or the configuration", "data": {"count": 1}}
        ]
        assert {problem.code for problem in done.report.problems} == {code}
        done.check_files()
        assert code in done.out and code in (done.output / "summary.md").read_text(encoding="utf-8")
        assert not (repository.root / "agent-eval-results").exists(), "the files are where they were asked for"


def test_run__writes_only_the_output_directory(repository: Repository, tmp_path: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        files = {}
        for path in sorted(repository.root.rglob("*")):
            if "agent-eval-results" not in path.parts:
                facts = path.lstat()
                files[str(path)] = (facts.st_mtime_ns if path.is_file() else 0, facts.st_mode)
        return files

    before = state()
    done = run(repository, output=tmp_path / "elsewhere" / "deep")
    assert (done.code, done.report.problems) == (0, []), "a recording needs no isolation"
    done.check_files()
    assert str(tmp_path / "elsewhere" / "deep" / "report.html") in done.out
    assert not (repository.root / "agent-eval-results").exists()
    assert run(repository).code == 0
    assert state() == before


def test_output_dir__the_repository(repository: Repository) -> None:
    repository.write({"logs/app/app-1.log": "theirs"})
    done = run(repository, output=repository.root)
    assert done.code == 0, done.out + done.err
    assert len(done.report.cases) == 2
    assert (repository.root / "logs" / "app" / "app-1.log").exists()


WRITTEN = ["cases.jsonl.gz", "junit.xml", "recordings.jsonl.gz", "report.html", "results.json", "summary.md"]


def test_output_dir__a_run_replaces_the_one_before_and_an_invalid_one_leaves_it(repository: Repository) -> None:
    def files(done: Done) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in done.output.rglob("*") if path.is_file()}

    first = run(repository, recording="bad")
    log = {"agent-eval-results/logs/agent/agent-1.log": "of the first run"}
    repository.write(log)
    kept = files(first)
    for arguments, code in (
        (("--num-runs", "0", "-v"), "setting-invalid"),
        (("evalz",), "path-not-found"),
        (("--agent-setup", "exit 1", "--agent", "agents/nowhere"), "agent-not-found"),
    ):
        invalid = run(repository, *arguments, environment={"CI": ""})
        assert invalid.code == 2, invalid.out + invalid.err
        assert code in invalid.out
        assert "agent-eval-results keeps the results of the run before" in invalid.err
        assert "turn 1" not in invalid.out, "no case of the run before is shown as one of this run"
        assert files(first) == kept
    assert "long" in repository.gate("show").out

    second = run(repository)
    assert (second.code, sorted(files(second))) == (0, [".gitignore", *WRITTEN])
    assert files(second)[".gitignore"] == b"*\n"
    assert sorted(files(run(repository, output=repository.root / "baseline"))) == WRITTEN, "git ignores no other name"

    # A later step of a job reads the files, and must not take the earlier run for this one.
    repository.write(log)
    third = run(repository, "--num-runs", "none", environment={"CI": "true"})
    assert (third.code, third.report.verdict, third.report.cases) == (2, "invalid", [])
    assert len(third.recordings) == 2, "an invalid run destroys nothing that was paid for"
    assert "agent-1.log" not in files(third)


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_validate__formats(repository: Repository, form: str) -> None:
    for file, text, code, line in (
        ("evals/broken.test.json", '{"eval_set_id": "b"}', "missing-field", ",line=1"),
        ("agent-eval.toml", "\nnun-runs = 1\n", "setting-unknown", ",line=2"),
    ):
        repository.write({file: text})
        done = repository.gate("validate", "--format", form)
        assert done.code == 2
        if form == "json":
            assert [(problem["code"], problem["file"]) for problem in json.loads(done.out)] == [(code, file)]
        else:
            assert done.out.startswith(file if form == "text" else f"::error file={file}{line}")
    assert not (repository.root / "agent-eval-results").exists()


def test_agents__without_and_with_an_agent(repository: Repository) -> None:
    without = repository.gate("validate", "--plan")
    assert without.code == 2
    assert "agent-not-found" in without.err
    repository.agent("counted")
    done = repository.gate("validate", "--plan")
    assert done.code == 0, done.out
    assert "evals/home.test.json" in done.out
    assert "counted" in done.out


def test_migrate__writes_and_refuses(repository: Repository) -> None:
    repository.write({"old.test.json": '[{"query": "hi", "expected_tool_use": [], "reference": "hello"}]'})
    done = repository.gate("migrate", "old.test.json", "new.test.json")
    assert done.code == 0, done.out + done.err
    assert "Wrote new.test.json" in done.out
    assert json.loads((repository.root / "new.test.json").read_text(encoding="utf-8"))["eval_cases"]
    assert repository.gate("migrate", "new.test.json", "newer.test.json").code == 2
    assert repository.gate("migrate", "gone.test.json", "x.test.json").code == 2


def test_run__paths_before_and_after_flags(repository: Repository) -> None:
    for arguments in (
        ["--num-runs", "2", "evals/home.test.json:good", "evals/home.test.json:long"],
        ["evals/home.test.json:good", "--num-runs", "2", "evals/home.test.json:long"],
    ):
        done = repository.gate("run", *arguments, "--agent", "recorded:recordings/good.json", python=False)
        assert (done.code, len(done.report.cases), len(done.report.cases[0].runs)) == (0, 2, 2), done.out + done.err


def test_verbose__shows_passed_cases_in_full(repository: Repository) -> None:
    assert LONG not in run(repository).out
    for flag in ("-v", "--print_detailed_results"):
        done = run(repository, flag)
        assert done.code == 0, done.out + done.err
        assert done.out.count(LONG) >= 2  # said, and answered
        assert done.out.rstrip().splitlines()[-1].startswith("Passed")


def test_very_verbose__says_what_is_decided_and_no_secret(repository: Repository) -> None:
    environment = {"AGENT_EVAL_JUDGE_API_KEY": "sk-secret-of-the-judge"}

    done = run(repository, "--baseline", "file:none.json", "-vv", environment=environment)

    assert "commands.run: setting agent: from --agent\n" in done.err
    assert "commands.run: setting judge-api-key: from AGENT_EVAL_JUDGE_API_KEY\n" in done.err
    assert "pipeline.pipeline: evals/home.test.json: agent recorded:recordings/good.json, --agent\n" in done.err
    assert "sk-secret" not in done.out + done.err
    assert "setting agent:" not in run(repository, "-v", environment=environment).err


def test_threshold__is_for_a_trial_on_a_desk(repository: Repository) -> None:
    def tried(threshold: str, ci: str = "") -> Done:
        return run(repository, "--threshold", threshold, environment={"CI": ci})

    stricter, ci = tried("response_match_score=1.01"), tried("response_match_score=0.1", "true")
    unknown, wrong = tried("respnse=1"), tried("response_match_score=high")

    assert (ci.code, wrong.code, unknown.code) == (2, 2, 2), unknown.out + unknown.err
    assert "No case has a metric `respnse`" in unknown.out and "agent-eval.toml" not in unknown.out
    assert "on your machine" in ci.err and "must be NAME=VALUE" in wrong.err
    assert stricter.code == 2 and "response_match_score" in stricter.out, "no score reaches it"
    loosened = tried("response_match_score=0.99")
    metrics = [metric for case in loosened.report.cases for metric in case.metrics]
    assert {metric.threshold for metric in metrics if metric.name == "response_match_score"} == {0.99}


@pytest.mark.parametrize(
    ("command", "stream", "code"),
    [
        ("run", "stdout", 0),
        pytest.param("run", "stderr", 0, marks=pytest.mark.slow),
        pytest.param("validate", "stdout", 141, marks=pytest.mark.slow),
    ],
)
def test_closed_pipe__changes_no_verdict_and_is_no_traceback(
    repository: Repository, command: str, stream: str, code: int
) -> None:
    if command == "validate":
        repository.write({"evals/broken.test.json": "{"})
    read, write = os.pipe()
    os.close(read)
    arguments = ("run", "evals", "--agent", "recorded:recordings/good.json") if command == "run" else (command,)
    streams: dict[str, Any] = {stream: write}
    process = repository.start(*arguments, python=False, **streams)
    os.close(write)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert stream == "stdout" or "Passed" in out
    # A slow machine reports its progress.
    assert not [line for line in (err or "").splitlines() if " runs" not in line], err
    assert (repository.root / "agent-eval-results" / "results.json").exists() == (command == "run")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_output_dir__not_writable(repository: Repository, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    done = run(repository, output=locked / "out")
    assert done.code == 2
    assert "locked" in done.err


@pytest.mark.slow
def test_run__in_a_c_locale(repository: Repository) -> None:
    repository.evals("evals/cjk.test.json", {"关灯": "关灯 💡"})
    done = run(repository, "evals/cjk.test.json", environment={"LC_ALL": "C", "PYTHONUTF8": "0"})
    assert "关灯" in done.out
    assert done.code == 1, "the recording has no such case"
