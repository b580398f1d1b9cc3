"""What GitHub Actions reads of a run: outputs, summary, annotations, and a log in which no one else gives commands."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from adk_envs import adk_python
from gate_runs import Done, Repository
from runner_log import Command, commands_in, outputs_in

SECRET = "s3cr3t/of+the=job"
HOSTILE = "::error file=a.py::planted\n##[error]planted\n::set-output name=verdict::passed\n\x1b[2Jgone"


@pytest.fixture
def job(tmp_path: Path) -> dict[str, str]:
    """The variables of a job, and its files."""
    for name in ("output", "summary"):
        (tmp_path / name).touch()
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "octo/agents",
        "GITHUB_SHA": "0123456789abcdef0123456789abcdef01234567",
    }


def recorded(repository: Repository, answers: Mapping[str, str], job: Mapping[str, str], *arguments: str) -> Done:
    """A run on cases that expect `yes`, with a recording of what was answered."""
    repository.evals("evals/some.test.json", dict.fromkeys(answers, "yes"))
    repository.record("evals/some.test.json", answers)
    command = ("run", "evals", "--agent", "recorded:answers.json", *arguments)
    return repository.gate(*command, python=False, environment=job)


def outputs(job: Mapping[str, str]) -> dict[str, str]:
    """The outputs as the runner reads them."""
    return dict(outputs_in(Path(job["GITHUB_OUTPUT"]).read_text(encoding="utf-8")))


def commands(done: Done) -> list[Command]:
    """The workflow commands that the runner obeys in both streams."""
    assert "##[" not in done.out + done.err, "its pages read this form even where the runner does not"
    # As root below a directory that only root can enter, the agent is not isolated, and that is said.
    return [each for each in commands_in(done.out + done.err) if "agent-not-isolated" not in str(each)]


@pytest.mark.parametrize("command", ["run", "action"])
def test_outputs__summary_and_annotations(repository: Repository, job: dict[str, str], command: str) -> None:
    done = recorded(repository, {"good": "yes", "bad": "no"}, job, "--num-runs", "2")
    if command == "action":
        for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
            Path(job[name]).write_text("", encoding="utf-8")
        inputs = {
            "INPUT_PATHS": "evals",
            "INPUT_AGENT": "recorded:answers.json",
            "INPUT_NUM-RUNS": "2",
            "INPUT_FAIL-FAST": "",
        }
        done = repository.gate("action", environment={**job, **inputs})
    assert done.code == 1, done.out + done.err
    expected = {
        "verdict": "failed",
        "total": "2",
        "passed": "1",
        "failed": "1",
        "errored": "0",
        "pass-rate": "0.5",
        "results-file": "agent-eval-results/results.json",
        "recordings-file": "agent-eval-results/recordings.jsonl.gz",
        "cases-file": "agent-eval-results/cases.jsonl.gz",
        "report-file": "agent-eval-results/report.html",
        "junit-file": "agent-eval-results/junit.xml",
        "summary-file": "agent-eval-results/summary.md",
    }
    result = outputs(job)
    assert {name: result.get(name) for name in expected} == expected
    assert len(done.report.cases[0].runs) == 2
    assert [(pass_rate.k, pass_rate.any, pass_rate.all) for pass_rate in done.report.pass_rates] == [
        (1, 0.5, 0.5),
        (2, 0.5, 0.5),
    ]
    summary = Path(job["GITHUB_STEP_SUMMARY"]).read_text(encoding="utf-8")
    assert summary == (done.output / "summary.md").read_text(encoding="utf-8")
    assert f"https://github.com/octo/agents/blob/{job['GITHUB_SHA']}/evals/some.test.json" in summary
    assert "all pass with 50.0% (pass^2)" in summary
    (annotation,) = commands(done)
    line = next(case.line for case in done.report.cases if case.eval_id == "bad")
    assert (annotation.name, annotation.properties["file"]) == ("error", "evals/some.test.json")
    assert annotation.properties["line"] == str(line)
    assert annotation.properties["title"] == "bad failed"


def test_outputs__a_turn_below_the_threshold_of_a_passing_case_is_marked(repository: Repository) -> None:
    repository.write({"evals/test_config.json": {"criteria": {"response_match_score": 0.5}}})
    repository.evals("evals/some.test.json", {"paris": ["Paris", "Rome"], "right": ["Oslo", "Bern"]})
    repository.record("evals/some.test.json", {"paris": ["Paris", "The database exploded."]})

    done = repository.gate("run", "evals", "--agent", "recorded:answers.json", python=False)

    assert done.code == 0, done.out + done.err
    low = "turn 2 of 2: response_match_score 0.00, below 0.50"
    assert "1 case passes with a turn below a threshold: paris" in done.out
    summary = (done.output / "summary.md").read_text(encoding="utf-8")
    assert "These cases pass on average, with a turn below a threshold:" in summary
    assert summary.replace("\\", "").count(low) == 1
    shown = repository.gate("show", "paris").out
    assert shown.split("turn 2")[1].count("✗") == 1 and "✗" not in shown.split("turn 2")[0]
    assert "✗" not in repository.gate("show", "right").out


def test_outputs__hostile_text_gives_no_order(repository: Repository, job: dict[str, str]) -> None:
    done = recorded(repository, {"bad": HOSTILE, "::error::x": HOSTILE}, job)
    assert done.code == 1
    result = commands(done)
    assert [(each.name, each.properties["file"]) for each in result] == [("error", "evals/some.test.json")] * 2
    assert outputs(job)["verdict"] == "failed"
    assert "\x1b" not in done.out + done.err + Path(job["GITHUB_STEP_SUMMARY"]).read_text(encoding="utf-8")


def test_outputs__no_command_to_github_outside_of_its_jobs(repository: Repository, job: dict[str, str]) -> None:
    done = recorded(repository, {"bad": HOSTILE}, {**job, "GITHUB_ACTIONS": ""})
    assert done.code == 1
    assert "::error" not in re.sub(r"[│·].*", "", done.out)
    assert not any(line.lstrip().startswith("::") for line in (done.out + done.err).splitlines())
    assert Path(job["GITHUB_OUTPUT"]).read_text(encoding="utf-8") == ""


def test_outputs__wrong_inputs_have_outputs_and_annotations_too(repository: Repository, job: dict[str, str]) -> None:
    repository.write({"agent-eval.toml": "\nconcurency = 1\n"})
    done = repository.gate("action", environment={**job, "INPUT_NUM-RUNS": "many", "INPUT_OUTPUT-DIR": "out"})
    assert done.code == 2
    result = outputs(job)
    assert (result["verdict"], result["total"], result["pass-rate"]) == ("invalid", "0", "")
    assert result["results-file"] == "out/results.json"
    assert (repository.root / "out" / "results.json").exists()
    of_file, of_input = commands(done)
    if "num-runs" not in of_input.data:
        of_file, of_input = of_input, of_file
    assert (of_file.properties["file"], of_file.properties["line"]) == ("agent-eval.toml", "2")
    assert "num-runs" in of_input.data


def test_outputs__a_secret_of_the_agent_is_nowhere(repository: Repository, job: dict[str, str], tmp_path: Path) -> None:
    repository.agent("counted")
    repository.evals("counted/evals/some.test.json", {"tells": "secret", "raises": "secret-raise"})
    environment = {**job, "JOB_SECRET": SECRET, "RUNS_FILE": str(tmp_path / "runs")}
    inputs = {
        "INPUT_AGENT-PYTHON": str(adk_python()),
        "INPUT_AGENT-ENV": "+JOB_SECRET,RUNS_FILE,GATE_TEST_MARK",
    }
    done = repository.gate("action", environment={**environment, **inputs})
    assert done.statuses == {"tells": "failed", "raises": "failed"}, done.out + done.err
    assert "it is ***" in (done.output / "results.json").read_text(encoding="utf-8")
    files = [path for path in done.output.rglob("*") if path.is_file()]
    assert any(b"printed ***" in path.read_bytes() for path in files), "the log was kept"
    texts = {str(path): path.read_bytes() for path in files}
    texts |= {"recordings": "\n".join(recording.model_dump_json() for recording in done.recordings).encode()}
    texts |= {"out": done.out.encode(), "err": done.err.encode()}
    texts |= {name: Path(job[name]).read_bytes() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    assert [name for name, text in texts.items() if SECRET.encode() in text] == []
    assert [name for name, text in texts.items() if os.fsencode(SECRET[:12]) in text] == []


def test_outputs__what_an_agent_prints_is_in_its_log_alone(repository: Repository, job: dict[str, str]) -> None:
    repository.agent("faults")
    with (repository.root / "faults" / "agent.py").open("a", encoding="utf-8") as file:
        file.write("\nprint('::error::planted')\nprint('##[error]planted', file=sys.stderr)\n")
    repository.evals("faults/evals/some.test.json", {"good": "say hi"})
    done = repository.gate("run", environment=job)
    assert done.code == 0, done.out + done.err
    assert not [each for each in commands(done) if "planted" in str(each)]
    assert any(b"planted" in path.read_bytes() for path in (done.output / "logs").rglob("*.log"))
