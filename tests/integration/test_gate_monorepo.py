"""A repository of many agents whose eval sets and cases have the same ids: a case is identified by its file."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from gate_runs import Done, Repository, eval_set

CONFIG = {"criteria": {"response_match_score": 1.0}}
AGENTS = [f"agent{number:02}" for number in range(20)]


def greets(answer: str) -> dict[str, Any]:
    return eval_set("default", {"greets": [("hello", answer)]})


@pytest.fixture(autouse=True)
def agents(repository: Repository) -> None:
    """Agent 7 is the one that says something else than expected."""
    mapping = (f'"{name}/**" = "recorded:{name}/answers/said.json"\n' for name in AGENTS)
    repository.write({"agent-eval.toml": f"[agents]\n{''.join(mapping)}", "test_config.json": CONFIG})
    for name in AGENTS:
        repository.write({f"{name}/default.test.json": greets(f"I am {name}")})
        repository.write({f"{name}/answers/said.json": greets(f"I am {name.replace('07', 'seven')}")})


def failed(done: Done) -> list[str]:
    assert (len(done.report.cases), done.report.problems) == (len(AGENTS), []), done.err
    return [case.case_id for case in done.report.cases if case.status == "failed"]


def test_monorepo__validates_runs_compares_and_resumes(repository: Repository, tmp_path: Path) -> None:
    validated = repository.gate("validate")
    assert (validated.code, validated.err) == (0, ""), validated.out
    first = repository.gate("run", python=False, output=tmp_path / "first")
    assert (first.code, failed(first)) == (1, ["agent07/default.test.json:greets"])

    # Its own recordings answer each file with what was said there, though all have the same set and eval id.
    again = repository.gate("run", "--agent", f"recorded:{tmp_path / 'first'}", python=False, output=tmp_path / "again")
    assert again.code == 1
    assert [case.case_id for case in again.report.cases if case.status == "failed"] == failed(first)
    warned = {(problem.severity, problem.code) for problem in again.report.problems}
    assert warned == {("warning", "duplicate-eval-set-id")}, "here they have one agent"

    repository.write({"agent07/answers/said.json": greets("I am agent07")})
    fixed = repository.gate("run", python=False, output=tmp_path / "fixed")
    assert (fixed.code, failed(fixed)) == (0, [])
    compared = repository.gate("compare", str(fixed.output), str(first.output))
    assert "20 cases compared: 1 newly passing, 19 passing as before" in compared.out

    # What a killed run leaves: the journal with most of the runs.
    lines = gzip.decompress((fixed.output / "recordings.jsonl.gz").read_bytes()).splitlines(keepends=True)
    (fixed.output / "journal.jsonl").write_bytes(b"".join(lines[:15]))
    resumed = repository.gate("run", "--resume", python=False, output=fixed.output)
    assert (resumed.code, failed(resumed)) == (0, [])
    assert "15 runs taken from the journal" in resumed.out


def test_monorepo__selection_does_not_report_the_others_as_gone(repository: Repository, tmp_path: Path) -> None:
    everything = repository.gate("run", python=False, output=tmp_path / "all")
    some = repository.gate("run", "agent03", "agent04/*.test.json", python=False, output=tmp_path / "some")
    assert (some.code, some.err.count("agent-mapping-unused")) == (0, 0)
    assert [problem.code for problem in some.report.problems] == []
    compared = repository.gate("compare", str(some.output), str(everything.output))
    assert "2 cases compared: 2 passing as before" in compared.out
    assert "removed" not in compared.out
    assert "18 cases of the base branch not compared" in compared.out


def test_monorepo__recording_that_could_belong_to_two_files(repository: Repository, tmp_path: Path) -> None:
    repository.gate("run", "agent01", "agent02", python=False, output=tmp_path / "old")
    for name in ("agent01", "agent02"):
        (repository.root / name / "default.test.json").rename(repository.root / name / "moved.test.json")
    done = repository.gate(
        "run", "agent01", "agent02", "--agent", f"recorded:{tmp_path / 'old'}", python=False, output=tmp_path / "new"
    )
    assert done.code == 2
    errors = [problem for problem in done.report.problems if problem.severity == "error"]
    assert [(problem.code, problem.file) for problem in errors] == [
        ("recording-ambiguous", "agent01/moved.test.json"),
        ("recording-ambiguous", "agent02/moved.test.json"),
    ]
    assert "agent01/default.test.json:greets or agent01/moved.test.json:greets or agent02/default" in errors[0].message
