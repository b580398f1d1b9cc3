"""What a killed run leaves behind, and how much of it can be trusted."""

from __future__ import annotations

import gzip
import json
from contextlib import closing
from pathlib import Path

import pytest
import recording_samples

from agent_eval.core.content import FunctionCall, model_message, user_message
from agent_eval.core.invocation import IntermediateData, Invocation
from agent_eval.results.recording import Recording, RunError
from agent_eval.runner.journal import Journal, write_lines

OUTAGE = RunError(kind="provider-unavailable", owner="provider", message="503")
CRASH = RunError(kind="agent-crash", owner="agent", message="It left")


def recording(name: str, *, answer: str = "hi", error: RunError | None = None) -> Recording:
    turn = Invocation(user_content=user_message("hello"), final_response=model_message(answer))
    return recording_samples.recording(name, turn, run_id=f"{name}#1", case_id=name, error=error)


def written(path: Path, *recordings: Recording) -> Path:
    journal = Journal(path, resume=False)
    for each in recordings:
        journal.add(each)
    journal.close()
    return path


def nested(depth: int) -> Recording:
    args: dict[str, object] = {}
    for _ in range(depth):
        args = {"a": args}
    call = IntermediateData(tool_uses=[FunctionCall(name="t", args=args)])
    turn = Invocation(user_content=user_message("hello"), final_response=model_message("hi"), intermediate_data=call)
    return recording_samples.recording("deep", turn, run_id="deep#1", case_id="deep")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out" / "journal.jsonl"


@pytest.mark.parametrize("depth", [200, 250, 400])
def test_journal__what_is_nested_too_deeply_is_neither_read_nor_resumed(path: Path, depth: int) -> None:
    journal = Journal(path, resume=False)
    journal.add(nested(depth))
    journal.add(recording("one"))
    assert Recording.model_validate_json(path.read_bytes().splitlines()[-1]) == recording("one"), "on disk at once"
    kept = journal.recording("deep#1")
    assert kept is None or kept.invocations == []
    assert journal.recording("one#1") == recording("one")
    journal.close()
    later = Journal(path, resume=True)
    assert later.reuse("deep#1", "f") is None
    assert later.reuse("one#1", "f") == recording("one")
    later.close()


def test_journal__a_line_that_was_cut_off_is_run_again_and_overwritten(path: Path) -> None:
    written(path, recording("one"), recording("two"))
    path.write_bytes(path.read_bytes()[:-10])
    journal = Journal(path, resume=True)
    assert journal.reuse("one#1", "f") == recording("one")
    assert journal.reuse("two#1", "f") is None
    assert journal.damaged_line is None  # Nothing but the end of a process that was killed.
    journal.add(recording("two", answer="again"))
    journal.close()
    assert [json.loads(line)["eval_id"] for line in path.read_bytes().splitlines()] == ["one", "two"]
    later = Journal(path, resume=True)
    assert later.reuse("two#1", "f") == recording("two", answer="again")
    later.close()


@pytest.mark.parametrize(
    "broken",
    [
        b"{not json\n",
        b"[1]\n",
        b'{"run_id": "x"}\n',
        b'{"run_id": "x", "fingerprint": "f", "error": "no"}\n',
        b"\xff\n",
        b"[" * 100_000 + b"\n",
        b"1" * 5_000 + b"\n",
    ],
    ids=["no JSON", "a list", "no fingerprint", "no error", "no UTF-8", "deep", "digits"],
)
def test_journal__nothing_behind_a_broken_line_is_trusted(path: Path, broken: bytes) -> None:
    written(path, recording("one"), recording("two"), recording("three"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + broken + lines[2])
    journal = Journal(path, resume=True)
    assert journal.reuse("one#1", "f") is not None
    assert journal.reuse("three#1", "f") is None
    assert journal.damaged_line == 2
    journal.close()
    assert path.read_bytes() == lines[0]


def test_journal__what_the_world_broke_is_tried_again(path: Path) -> None:
    later = (recording("three"), recording("three", error=OUTAGE))
    written(path, recording("one", error=OUTAGE), recording("two", error=CRASH), *later)
    with path.open("a", encoding="utf-8") as file:
        file.write('{"run_id": "four#1", "fingerprint": "f", "schema_version": "9"}\n')
    with closing(Journal(path, resume=True)) as journal:
        reused = [name for name in ("one", "two", "three", "four") if journal.reuse(f"{name}#1", "f")]
        assert reused == ["two"]
        assert [json.loads(line)["eval_id"] for line in journal.lines(["four#1", "two#1"])] == ["two"]


def test_journal__what_depends_on_other_things_is_neither_reused_nor_reported(path: Path) -> None:
    journal = Journal(
        written(path, recording("one"), recording("two"), recording("three"), recording("four")), resume=True
    )
    assert journal.reuse("one#1", "changed") is None
    assert all(journal.reuse(f"{name}#1", "f") for name in ("two", "three", "four"))
    lines = journal.lines(["two#1", "missing#1", "one#1", "four#1", "three#1"])
    assert [json.loads(line)["eval_id"] for line in lines] == ["two", "four", "three"], "in the order that is asked for"
    journal.close()
    journal = Journal(path, resume=False)
    assert journal.reuse("one#1", "f") is None
    assert path.read_bytes() == b"", "it starts over"
    journal.close(remove=True)
    assert not path.exists()
    Journal(path, resume=True).close()


def test_journal__recordings_have_no_time_stamp(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_lines(tmp_path / name, [b'{"one": 1}\n', b'{"two": 2}\n'])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert gzip.decompress((tmp_path / "a").read_bytes()) == b'{"one": 1}\n{"two": 2}\n'
