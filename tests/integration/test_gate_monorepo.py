"""A repository of many agents whose eval sets and cases have the same ids: a case is identified by its file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from gate_runs import Done, Repository, repository_in

AGENTS = [f"agent{number:02}" for number in range(20)]


def eval_set(answer: str) -> str:
    turn = {
        "user_content": {"role": "user", "parts": [{"text": "hello"}]},
        "final_response": {"role": "model", "parts": [{"text": answer}]},
    }
    return json.dumps({"eval_set_id": "default", "eval_cases": [{"eval_id": "greets", "conversation": [turn]}]})


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """Agent 7 is the one that says something else than expected."""
    with repository_in(tmp_path / "repo") as made:
        mapping = ["[agents]"]
        (made.root / "test_config.json").write_text('{"criteria": {"response_match_score": 1.0}}')
        for name in AGENTS:
            (made.root / name / "answers").mkdir(parents=True)
            (made.root / name / "default.test.json").write_text(eval_set(f"I am {name}"))
            (made.root / name / "answers" / "said.json").write_text(eval_set(f"I am {name.replace('07', 'seven')}"))
            mapping.append(f'"{name}/**" = "recorded:{name}/answers/said.json"')
        (made.root / "agent-eval.toml").write_text("\n".join(mapping))
        yield made


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

    (repository.root / "agent07" / "answers" / "said.json").write_text(eval_set("I am agent07"))
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
