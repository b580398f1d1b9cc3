"""The command line: exit codes, commands, and what it may touch."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gate_runs import Done, Repository, repository_in


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """Its agent is a recording: nothing has to start."""
    with repository_in(tmp_path / "repo") as made:
        made.evals("evals/home.test.json", {"good": "turned on", "long": "a b c d e f g h"})
        record(made, "good.json", {"good": "turned on", "long": "a b c d e f g h"})
        yield made


def record(repository: Repository, name: str, answers: dict[str, str]) -> None:
    """Writes what an agent answered, as an eval set."""
    said = {"good": "turned on", "long": "a b c d e f g h"}
    cases = [
        {
            "eval_id": eval_id,
            "conversation": [
                {
                    "user_content": {"role": "user", "parts": [{"text": said[eval_id]}]},
                    "final_response": {"role": "model", "parts": [{"text": answer}]},
                }
            ],
        }
        for eval_id, answer in answers.items()
    ]
    path = repository.root / "recordings" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"eval_set_id": "actual", "eval_cases": cases}), encoding="utf-8")


def run(repository: Repository, *arguments: str, recording: str = "good.json", **options: Any) -> Done:
    """Runs the gate on a recording."""
    return repository.gate(
        "run", "evals", "--agent", f"recorded:recordings/{recording}", *arguments, python=False, **options
    )


def interrupt_recording(repository: Repository) -> None:
    """A recorded run that a provider's outage ended."""
    lines = [
        {
            "run_id": f"evals/home.test.json:{eval_id}#1",
            "case_id": f"evals/home.test.json:{eval_id}",
            "file": "evals/home.test.json",
            "eval_set_id": "home",
            "eval_id": eval_id,
            "run": 0,
            "fingerprint": "f",
            "error": {"kind": "provider-unavailable", "owner": "provider", "message": "503 from the model"},
            "started_at": 1.0,
            "duration": 1.0,
        }
        for eval_id in ("good", "long")
    ]
    path = repository.root / "recordings" / "outage.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode(), mtime=0))


def test_run__a_failure_shows_how_to_repeat_it(repository: Repository) -> None:
    """With the agent of the run: discovery might find another one, or none."""
    record(repository, "bad.json", {"good": "turned on", "long": "nothing"})
    done = run(repository, recording="bad.json")
    summary = (done.output / "summary.md").read_text("utf-8")
    assert "agent-eval run --agent recorded:recordings/bad.json evals/home.test.json:" in summary


def test_run__exit_codes(repository: Repository) -> None:
    record(repository, "bad.json", {"good": "turned on", "long": "nothing"})
    interrupt_recording(repository)
    outcomes = {}
    for name, recording, arguments in (
        ("passed", "good.json", ()),
        ("failed", "bad.json", ("--on-inconclusive", "pass")),
        ("outage", "outage.jsonl.gz", ()),
        ("tolerated", "outage.jsonl.gz", ("--on-inconclusive", "pass")),
    ):
        done = run(repository, *arguments, recording=recording)
        done.check_files()
        outcomes[name] = (done.code, done.results["verdict"], done.results["totals"]["errored"])
    assert outcomes == {
        "passed": (0, "passed", 0),
        "failed": (1, "failed", 0),
        "outage": (3, "inconclusive", 2),
        "tolerated": (0, "inconclusive", 2),
    }


def test_run__invalid_files_and_settings_are_in_every_output(repository: Repository) -> None:
    (repository.root / "evals" / "broken.test.json").write_text("{,", encoding="utf-8")
    for arguments, code in ((("--num-runs", "0"), "setting-invalid"), ((), "not-json")):
        done = run(repository, *arguments, output=repository.root / "out")
        assert done.code == 2
        assert done.results["verdict"] == "invalid"
        assert done.results["cases"] == []
        assert done.results["reasons"] == [
            {"code": "invalid", "message": "1 error in the eval files or the configuration", "data": {"count": 1}}
        ]
        assert {problem["code"] for problem in done.results["problems"]} == {code}
        done.check_files()
        for text in (done.out, (done.output / "summary.md").read_text(encoding="utf-8")):
            assert code in text
        assert not (repository.root / "agent-eval-results").exists(), "the files are where they were asked for"


def test_run__writes_only_the_output_directory(repository: Repository) -> None:
    def state() -> dict[str, tuple[int, int]]:
        files = {}
        for path in sorted(repository.root.rglob("*")):
            if "agent-eval-results" not in path.parts:
                facts = path.lstat()
                files[str(path)] = (facts.st_mtime_ns if path.is_file() else 0, facts.st_mode)
        return files

    before = state()
    assert run(repository).code == 0
    assert state() == before


def test_output_dir__outside_of_the_repository(repository: Repository, tmp_path: Path) -> None:
    done = run(repository, output=tmp_path / "elsewhere" / "deep")
    assert done.code == 0
    done.check_files()
    assert str(tmp_path / "elsewhere" / "deep" / "report.html") in done.out
    assert sorted(path.name for path in repository.root.iterdir()) == ["evals", "recordings"]


def test_run__a_recording_needs_no_isolation(repository: Repository) -> None:
    assert run(repository).results["problems"] == []


def test_output_dir__the_repository(repository: Repository) -> None:
    (repository.root / "logs" / "app").mkdir(parents=True)
    (repository.root / "logs" / "app" / "app-1.log").write_text("theirs", encoding="utf-8")
    done = run(repository, output=repository.root)
    assert done.code == 0, done.out + done.err
    assert len(done.report.cases) == 2
    assert (repository.root / "logs" / "app" / "app-1.log").exists()


def test_output_dir__a_second_run_replaces_the_first(repository: Repository) -> None:
    record(repository, "bad.json", {"good": "no", "long": "no"})
    first = run(repository, recording="bad.json")
    logs = first.output / "logs" / "agent"
    logs.mkdir(parents=True)
    (logs / "agent-1.log").write_text("of the first run", encoding="utf-8")
    second = run(repository)
    assert second.code == 0
    assert sorted(path.name for path in second.output.rglob("*") if path.is_file()) == [
        ".gitignore",
        "cases.jsonl.gz",
        "junit.xml",
        "recordings.jsonl.gz",
        "report.html",
        "results.json",
        "summary.md",
    ]
    third = run(repository, "--num-runs", "none", environment={"CI": "true"})
    assert third.code == 2
    assert third.results["cases"] == []
    assert len(third.recordings) == 2, "an invalid run destroys nothing that was paid for"


def test_output_dir__an_invalid_run_leaves_the_results_of_the_run_before(repository: Repository) -> None:
    def files(done: Done) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in done.output.rglob("*") if path.is_file()}

    record(repository, "bad.json", {"good": "no", "long": "no"})
    first = run(repository, recording="bad.json")
    log = first.output / "logs" / "agent" / "agent-1.log"
    log.parent.mkdir(parents=True)
    log.write_text("of the first run", encoding="utf-8")
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
    assert "good" in repository.gate("show").out

    # A later step of a job reads the files, and must not take the earlier run for this one.
    assert run(repository, "--num-runs", "0", environment={"CI": "true"}).results["verdict"] == "invalid"
    assert not log.exists()


def test_run__a_recorded_run_has_the_same_scores(repository: Repository, tmp_path: Path) -> None:
    record(repository, "bad.json", {"good": "turned off", "long": "a b c"})
    first = run(repository, recording="bad.json", output=tmp_path / "first")
    again = repository.gate(
        "run", "evals", "--agent", f"recorded:{tmp_path / 'first'}", python=False, output=tmp_path / "second"
    )

    def scores(done: Done) -> list[Any]:
        return [
            (case.case_id, case.status, [metric.model_dump() for metric in case.metrics]) for case in done.report.cases
        ]

    assert scores(first) == scores(again)
    assert (first.code, again.code) == (1, 1)
    same = repository.gate(
        "run", "evals", "--agent", f"recorded:{tmp_path / 'second'}", python=False, output=tmp_path / "second"
    )
    assert scores(same) == scores(first), "also onto itself"


@pytest.mark.parametrize(("form", "first"), [("text", "evals/broken.test.json"), ("json", "["), ("github", "::error")])
def test_validate__formats(repository: Repository, form: str, first: str) -> None:
    (repository.root / "evals" / "broken.test.json").write_text('{"eval_set_id": "b"}', encoding="utf-8")
    done = repository.gate("validate", "--format", form)
    assert done.code == 2
    assert done.out.startswith(first)
    if form == "json":
        assert [problem["code"] for problem in json.loads(done.out)] == ["missing-field"]
    (repository.root / "evals" / "broken.test.json").unlink()
    fine = repository.gate("validate", "--format", form, "evals")
    assert fine.code == 0
    assert not (repository.root / "agent-eval-results").exists()


def test_validate__reports_invalid_settings_in_the_same_format(repository: Repository) -> None:
    (repository.root / "agent-eval.toml").write_text("nun-runs = 1\n", encoding="utf-8")
    done = repository.gate("validate", "--format", "json")
    assert done.code == 2
    assert [(load["code"], load["file"], load["line"]) for load in json.loads(done.out)] == [
        ("setting-unknown", "agent-eval.toml", 1)
    ]


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
    old = repository.root / "old.test.json"
    old.write_text('[{"query": "hi", "expected_tool_use": [], "reference": "hello"}]', encoding="utf-8")
    done = repository.gate("migrate", "old.test.json", "new.test.json")
    assert done.code == 0, done.out + done.err
    assert "Wrote new.test.json" in done.out
    assert json.loads((repository.root / "new.test.json").read_text(encoding="utf-8"))["eval_cases"]
    assert repository.gate("migrate", "new.test.json", "newer.test.json").code == 2
    assert repository.gate("migrate", "gone.test.json", "x.test.json").code == 2


@pytest.mark.parametrize(
    "arguments", [["run", "--num-run", "3"], ["run", "--unknown"], ["nonsense"], [], ["validate", "--format", "xml"]]
)
def test_main__unknown_commands_and_flags(repository: Repository, arguments: list[str]) -> None:
    done = repository.gate(*(arguments or ["--nothing"]), python=False)
    assert done.code == 2
    assert "usage:" in done.err


def test_run__paths_before_and_after_flags(repository: Repository) -> None:
    for arguments in (
        ["evals", "--num-runs", "2"],
        ["--num-runs", "2", "evals/home.test.json:good", "evals"],
        ["evals/home.test.json:good", "--num-runs", "2", "evals/home.test.json:long"],
    ):
        done = repository.gate("run", *arguments, "--agent", "recorded:recordings/good.json", python=False)
        assert done.code == 0, done.out + done.err
        assert len(done.report.cases[0].runs) == 2


def test_verbose__shows_passed_cases_in_full(repository: Repository) -> None:
    run = ("run", "evals", "--agent", "recorded:recordings/good.json")
    assert "a b c d e f g h" not in repository.gate(*run).out
    for flags in (("-v",), ("--print_detailed_results",)):
        done = repository.gate(*run, *flags)
        assert done.code == 0, done.out + done.err
        assert done.out.count("a b c d e f g h") >= 2  # said, and answered
        assert done.out.rstrip().splitlines()[-1].startswith("Passed")
    former = repository.gate(*run, "--details", "all")
    assert former.code == 2 and "Use the flag `-v`" in former.err


def test_very_verbose__says_what_is_decided_and_no_secret(repository: Repository) -> None:
    run = ("run", "evals", "--agent", "recorded:recordings/good.json", "--baseline", "file:none.json")
    environment = {"AGENT_EVAL_JUDGE_API_KEY": "sk-secret-of-the-judge"}

    done = repository.gate(*run, "-vv", environment=environment)

    assert "commands.run: setting agent: from --agent\n" in done.err
    assert "commands.run: setting judge-api-key: from AGENT_EVAL_JUDGE_API_KEY\n" in done.err
    assert "pipeline.pipeline: evals/home.test.json: agent recorded:recordings/good.json, --agent\n" in done.err
    assert "sk-secret" not in done.out + done.err
    assert "setting agent:" not in repository.gate(*run, "-v", environment=environment).err


def test_threshold__is_for_a_trial_on_a_desk(repository: Repository) -> None:
    run = ("run", "evals", "--agent", "recorded:recordings/good.json")
    desk: dict[str, Any] = {"environment": {"CI": ""}}
    assert repository.gate(*run, **desk).code == 0

    stricter = repository.gate(*run, "--threshold", "response_match_score=1.01", **desk)
    ci = repository.gate(*run, "--threshold", "response_match_score=0.1", environment={"CI": "true"})
    unknown = repository.gate(*run, "--threshold", "respnse=1", **desk)
    wrong = repository.gate(*run, "--threshold", "response_match_score=high", **desk)

    assert (ci.code, wrong.code, unknown.code) == (2, 2, 2), unknown.out + unknown.err
    assert "on your machine" in ci.err and "must be NAME=VALUE" in wrong.err
    assert stricter.code == 2 and "response_match_score" in stricter.out, "no score reaches it"
    loosened = repository.gate(*run, "--threshold", "response_match_score=0.99", **desk)
    metrics = [metric for case in loosened.report.cases for metric in case.metrics]
    assert {metric.threshold for metric in metrics if metric.name == "response_match_score"} == {0.99}


def test_run__standard_output_is_a_closed_pipe(repository: Repository) -> None:
    read, write = os.pipe()
    os.close(read)
    process = repository.start(
        "run", "evals", "--agent", "recorded:recordings/good.json", python=False, stdout=write, stderr=subprocess.PIPE
    )
    os.close(write)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, "the verdict stands"
    assert err == ""
    assert (repository.root / "agent-eval-results" / "results.json").exists()


@pytest.mark.slow
def test_run__standard_error_is_a_closed_pipe(repository: Repository) -> None:
    read, write = os.pipe()
    os.close(read)
    process = repository.start("run", "evals", "--agent", "recorded:recordings/good.json", python=False, stderr=write)
    os.close(write)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Passed" in out


@pytest.mark.slow
def test_validate__standard_output_is_a_closed_pipe(repository: Repository) -> None:
    (repository.root / "evals" / "broken.test.json").write_text("{", encoding="utf-8")
    read, write = os.pipe()
    os.close(read)
    process = repository.start("validate", stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 141
    assert err == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_output_dir__not_writable(repository: Repository, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    done = run(repository, output=locked / "out")
    assert done.code == 2
    assert "locked" in done.err


def test_output_dir__is_a_file(repository: Repository) -> None:
    (repository.root / "taken").write_text("a file", encoding="utf-8")
    done = run(repository, output=repository.root / "taken")
    assert done.code == 2
    assert "taken is a file: no results can be written there." in done.out
    assert "Traceback" not in done.err


@pytest.mark.slow
def test_run__in_a_c_locale(repository: Repository) -> None:
    repository.evals("evals/cjk.test.json", {"关灯": "关灯 💡"})
    record(repository, "good.json", {"good": "turned on", "long": "a b c d e f g h"})
    done = run(repository, "evals/cjk.test.json", environment={"LC_ALL": "C", "PYTHONUTF8": "0"})
    assert "关灯" in done.out
    assert done.code == 1, "the recording has no such case"
