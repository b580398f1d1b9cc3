"""What GitHub Actions reads of a run: outputs, summary, annotations, and a log in which no one else gives commands."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from adk_envs import adk_python
from gate_runs import Done, Repository, repository_in

SECRET = "s3cr3t/of+the=job"
HOSTILE = "::error file=a.py::planted\n##[error]planted\n::set-output name=verdict::passed\n\x1b[2Jgone"


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path / "repo") as made:
        yield made


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


def recorded(repository: Repository, answers: Mapping[str, str]) -> None:
    """An eval file whose cases expect `yes`, and a recording of what was answered."""
    repository.evals("evals/some.test.json", dict.fromkeys(answers, "yes"))
    cases = json.loads((repository.root / "evals" / "some.test.json").read_text(encoding="utf-8"))["eval_cases"]
    for case in cases:
        case["conversation"][0]["final_response"]["parts"] = [{"text": answers[case["eval_id"]]}]
    path = repository.root / "answers.json"
    path.write_text(json.dumps({"eval_set_id": "answers", "eval_cases": cases}), encoding="utf-8")


def outputs(job: Mapping[str, str]) -> dict[str, str]:
    """The outputs as the runner reads them."""
    by_id = {}
    lines = iter(Path(job["GITHUB_OUTPUT"]).read_text(encoding="utf-8").splitlines())
    for line in lines:
        name, _, delimiter = line.partition("<<")
        value = []
        while (line := next(lines)) != delimiter:
            value.append(line)
        by_id[name] = "\n".join(value)
    return by_id


def commands(done: Done) -> list[str]:
    """The workflow commands that the runner obeys in both streams."""
    result, token = [], None
    for line in (done.out + done.err).splitlines():
        if token is not None:
            token = None if line.strip() == f"::{token}::" else token
        elif match := re.match(r"\s*::stop-commands::(\S+)", line):
            token = match[1]
        elif line.lstrip().startswith("::"):
            result.append(line)
    # The older form counts anywhere in a line, and is not stopped by anything.
    result += [line for line in (done.out + done.err).splitlines() if "##[" in line]
    assert token is None, "the reading of commands is never resumed"
    # As root below a directory that only root can enter, the agent is not isolated, and that is said.
    return [line for line in result if "agent-not-isolated" not in line]


@pytest.mark.parametrize("command", ["run", "action"])
def test_outputs__summary_and_annotations(repository: Repository, job: dict[str, str], command: str) -> None:
    recorded(repository, {"good": "yes", "bad": "no"})
    if command == "run":
        arguments = ["run", "evals", "--agent", "recorded:answers.json", "--num-runs", "2"]
        done = repository.gate(*arguments, python=False, environment=job)
    else:
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
    assert annotation.startswith(f"::error file=evals/some.test.json,line={line},")
    assert "bad failed" in annotation


def test_outputs__a_turn_below_the_threshold_of_a_passing_case_is_marked(repository: Repository) -> None:
    (repository.root / "evals").mkdir()
    config = {"criteria": {"response_match_score": 0.5}}
    (repository.root / "evals" / "test_config.json").write_text(json.dumps(config), encoding="utf-8")
    repository.evals("evals/some.test.json", {"paris": ["Paris", "Rome"], "right": ["Oslo", "Bern"]})
    cases = json.loads((repository.root / "evals" / "some.test.json").read_text(encoding="utf-8"))["eval_cases"]
    cases[0]["conversation"][1]["final_response"]["parts"] = [{"text": "The database exploded."}]
    answers = json.dumps({"eval_set_id": "answers", "eval_cases": cases})
    (repository.root / "answers.json").write_text(answers, encoding="utf-8")

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
    recorded(repository, {"bad": HOSTILE, "::error::x": HOSTILE})
    done = repository.gate("run", "evals", "--agent", "recorded:answers.json", python=False, environment=job)
    assert done.code == 1
    result = commands(done)
    assert len(result) == 2
    assert all(line.startswith("::error file=evals/some.test.json,line=") for line in result)
    assert outputs(job)["verdict"] == "failed"
    assert "\x1b" not in done.out + done.err + Path(job["GITHUB_STEP_SUMMARY"]).read_text(encoding="utf-8")


def test_outputs__no_command_to_github_outside_of_its_jobs(repository: Repository, job: dict[str, str]) -> None:
    recorded(repository, {"bad": HOSTILE})
    done = repository.gate(
        "run", "evals", "--agent", "recorded:answers.json", python=False, environment={**job, "GITHUB_ACTIONS": ""}
    )
    assert done.code == 1
    assert "::error" not in re.sub(r"[│·].*", "", done.out)
    assert not any(line.lstrip().startswith("::") for line in (done.out + done.err).splitlines())
    assert Path(job["GITHUB_OUTPUT"]).read_text(encoding="utf-8") == ""


def test_outputs__wrong_inputs_have_outputs_and_annotations_too(repository: Repository, job: dict[str, str]) -> None:
    recorded(repository, {"good": "yes"})
    (repository.root / "agent-eval.toml").write_text("\nconcurency = 1\n", encoding="utf-8")
    done = repository.gate("action", environment={**job, "INPUT_NUM-RUNS": "many", "INPUT_OUTPUT-DIR": "out"})
    assert done.code == 2
    result = outputs(job)
    assert (result["verdict"], result["total"], result["pass-rate"]) == ("invalid", "0", "")
    assert result["results-file"] == "out/results.json"
    assert (repository.root / "out" / "results.json").exists()
    texts = commands(done)
    assert any(text.startswith("::error file=agent-eval.toml,line=2,") for text in texts)
    assert any("num-runs" in text for text in texts)
    assert len(texts) == 2


def test_outputs__that_cannot_be_written_do_not_change_the_verdict(repository: Repository, job: dict[str, str]) -> None:
    recorded(repository, {"good": "yes"})
    gone = {**job, "GITHUB_OUTPUT": "/nowhere/output", "GITHUB_STEP_SUMMARY": "/nowhere/summary"}
    done = repository.gate("run", "evals", "--agent", "recorded:answers.json", python=False, environment=gone)
    assert done.code == 0
    assert "GITHUB_OUTPUT could not be written" in done.err
    assert "GITHUB_STEP_SUMMARY could not be written" in done.err


def test_outputs__a_hundred_failures_annotate_ten_lines(repository: Repository, job: dict[str, str]) -> None:
    recorded(repository, {f"bad {number:03}": "no" for number in range(100)})
    done = repository.gate("run", "evals", "--agent", "recorded:answers.json", python=False, environment=job)
    result = commands(done)
    assert len(result) == 10
    assert "91 more errors" in result[-1]
    assert len(done.out.splitlines()) < 400


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
    agent = repository.root / "faults" / "agent.py"
    agent.write_text(
        agent.read_text(encoding="utf-8") + "\nprint('::error::planted')\nprint('##[error]planted', file=sys.stderr)\n",
        encoding="utf-8",
    )
    repository.evals("faults/evals/some.test.json", {"good": "say hi"})
    done = repository.gate("run", environment=job)
    assert done.code == 0, done.out + done.err
    assert not [line for line in commands(done) if "planted" in line]
    assert any(b"planted" in path.read_bytes() for path in (done.output / "logs").rglob("*.log"))
