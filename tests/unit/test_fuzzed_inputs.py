"""Mutated inputs of every kind, through the commands: one of the four exit codes, and never a traceback."""

from __future__ import annotations

import functools
import gzip
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from baseline_samples import zipped
from evalset_samples import TURN, case, eval_set, places, write
from recording_samples import facts, recording
from report_samples import failed

from agent_eval import cli
from agent_eval.baseline.archive import UnsafeArchive, read_results
from agent_eval.baseline.lookup import FetchFailed, Incompatible
from agent_eval.baseline.reader import read_report
from agent_eval.gate.history import extend
from agent_eval.runner.journal import Journal
from agent_eval_results.data.report import RunReport
from agent_eval_results.report.renderers.results_json import results_json
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.recording import Recording, RunError
from agent_eval_scoring.evalset.json import JsonPath

INPUTS = int(os.environ.get("FUZZ_INPUTS", "300" if os.environ.get("CI") else "100"))
RUNS = int(os.environ.get("FUZZ_RUNS", "18"))
"""Inputs that go through `run`, the dearest command."""
SEED = int(os.environ.get("FUZZ_SEED", "9"))
EVAL_SET = eval_set(case(eval_id="a", session_input=None))
CONFIG = json.dumps({"criteria": {"response_match_score": {"threshold": 0.5}}})
TOML = 'num-runs = 2\n[prices]\n"m" = {input = 1, output = 2}\n[[policy]]\nmetric = "pass"\nmax-drop = 0.1\n'
VALID = {"a.test.json": json.dumps(EVAL_SET), "test_config.json": CONFIG, "agent-eval.toml": TOML}
SCRAPS = (
    *("[" * 3_000, "9" * 5_000, "null", '"\\ud83d"', "1e999", "NaN", "{}"),
    *("[]", "-1", '""', "true", ",", "\x00", "//"),
)
ODD: tuple[object, ...] = (None, "", "\x1b[31m\ud83d", -1, 0, 10**30, 1e-300, True, [], {}, [None], {"": 0}, "1")
"""In the place of any value: JSON stays JSON, and only its form is wrong."""


def reshaped(text: str, chance: random.Random) -> str | None:
    """A line of JSON with one value at a random place replaced, removed or doubled; None if the text is no JSON."""
    lines = text.splitlines(keepends=True) if text.startswith("{") and text.count("}\n{") else [text]
    at = chance.randrange(len(lines))
    try:
        whole = json.loads(lines[at])
    except ValueError:
        return None
    holders: list[tuple[Any, Any]] = [(_at(whole, path[:-1]), path[-1]) for path in places(whole)[1:]]
    holder, key = chance.choice(holders) if holders else ([whole], 0)
    match chance.randrange(4):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.append(holder[key])
        case 2:
            other, place = chance.choice(holders) if holders else ([0], 0)
            holder[key] = json.loads(json.dumps(other[place] if other is not holder else None))
        case _:
            holder[key] = chance.choice(ODD)
    return "".join([*lines[:at], json.dumps(whole) + "\n", *lines[at + 1 :]])


def _at(value: Any, path: JsonPath) -> Any:
    return functools.reduce(lambda holder, step: holder[step], path, value)


def mutated(text: str, chance: random.Random) -> bytes:
    """The text with something cut, doubled, replaced or inserted; every other JSON with a value of another form."""
    if chance.random() < 0.5 and (form := reshaped(text, chance)) is not None:
        return form.encode()
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(text) + 1)
        to = min(len(text), at + chance.choice((1, 3, 20, 200)))
        piece = chance.choice((*SCRAPS, text[at:to] * 2, ""))
        text = text[:at] + piece + text[to:]
    data = text.encode("utf-8", "surrogatepass")
    return data if chance.random() < 0.9 else data[: len(data) // 2] + b"\xff\xfe" + data[len(data) // 2 :]


def with_history() -> RunReport:
    """A base branch's results."""
    report = failed()
    report.history = extend(None, report)
    return report


def recorded(run: int) -> Recording:
    error = RunError(kind="agent-crash", owner="agent", message="killed") if run == 2 else None
    return recording("a", Invocation.model_validate(TURN), run_id=f"a#{run}", run=run, error=error)


@contextmanager
def broken(files: Mapping[str, str], name: str, chance: random.Random) -> Iterator[None]:
    """One of some valid files mutated, and whole again afterwards."""
    Path(name).write_bytes(mutated(files[name], chance))
    yield
    write(Path(name), files[name])


@pytest.fixture
def quick_main(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], int]:
    """The command in an empty directory; its parser, which takes longer than most commands, is made only once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_parser", functools.cache(cli._parser))
    return cli.main


def test_main__mutated_inputs_end_in_an_exit_code(
    quick_main: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    results = results_json(failed())
    files = {
        **VALID,
        "out/recordings.jsonl": json.dumps(facts("a")) + "\n",
        "old.json": json.dumps([{"query": "hi", "expected_tool_use": [], "reference": "x"}]),
        "results.json": results,
        "base.json": results_json(with_history()),
        "other.json": results,
        "labels.jsonl": '{"prompt": "a", "response": "b", "label": "pass"}\n' * 2,
    }
    for file, text in files.items():
        write(Path(file), text)
    criterion = ["--criterion", "response_match_score=0.5"]
    validate = [["validate"], ["validate", "--plan", "--agent", "recorded:a.test.json"]]
    read = [[name, "results.json"] for name in ("flaky", "show")]
    commands = {
        **dict.fromkeys(VALID, validate),
        "a.test.json": [*validate, ["migrate", "a.test.json", "n.json"]],
        "out/recordings.jsonl": [["validate", "--plan", "--agent", "recorded:out/recordings.jsonl"]],
        "old.json": [["migrate", "old.json", "new.json"], ["validate", "old.json"]],
        "results.json": [["compare", "results.json", "other.json"], *read],
        "base.json": [["compare", "base.json", "other.json"], ["flaky", "base.json"]],
        "labels.jsonl": [["calibrate", "labels.jsonl", *criterion]],
    }
    for number in range(INPUTS):
        name = chance.choice(list(commands))
        command = chance.choice(commands[name])
        with broken(files, name, chance):
            code = quick_main(command)
        said = capsys.readouterr()
        assert code in {0, 1, 2, 3}, f"seed {SEED}, input {number}, {command}: {said.err[-2_000:]}"
        assert "Traceback" not in said.err  # `show` prints that of an agent, on stdout.


def test_run__mutated_inputs_end_in_an_exit_code(
    quick_main: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    run = ["run", "--agent", "recorded:a.test.json", "--num-runs", "2"]
    for file, value in (("a.test.json", EVAL_SET), ("test_config.json", CONFIG)):
        write(Path(file), value)
    assert quick_main(run) == 0
    journal = gzip.decompress(Path("agent-eval-results/recordings.jsonl.gz").read_bytes()).decode()
    report = RunReport.model_validate_json(Path("agent-eval-results/results.json").read_bytes())
    report.history = extend(None, report)
    journals = dict.fromkeys(("out/recordings.jsonl", "agent-eval-results/journal.jsonl"), journal)
    files = {**VALID, **journals, "base.json": results_json(report)}
    for file, text in files.items():
        write(Path(file), text)
    commands = {
        **dict.fromkeys(VALID, run),
        "out/recordings.jsonl": ["run", "--agent", "recorded:out/recordings.jsonl"],
        "agent-eval-results/journal.jsonl": [*run, "--resume"],
        "base.json": [*run, "--baseline", "file:base.json", "--gate", "both"],
    }
    for name, command in commands.items():
        assert quick_main(command) in {0, 3}, f"{name}: {capsys.readouterr()}"
    for number in range(RUNS):
        name = list(commands)[number % len(commands)]
        with broken(files, name, chance):
            code = quick_main(commands[name])
        said = capsys.readouterr()
        assert code in {0, 1, 2, 3}, f"seed {SEED}, input {number}, {name}: {said.err[-2_000:]}"
        assert "Traceback" not in said.err


def test_journal__mutated_lines_are_left_out(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    lines = "".join(f"{recorded(number).model_dump_json(exclude_none=True)}\n" for number in range(4))
    path = tmp_path / "journal.jsonl"
    for number in range(60):
        path.write_bytes(mutated(lines, chance))
        with closing(Journal(path, resume=True)) as journal:
            run_ids = [f"a#{run}" for run in range(4)]
            reused = [run_id for run_id in run_ids if journal.reuse(run_id, "f")]
            journal.add(recorded(7))
            assert len(list(journal.lines([*run_ids, "a#7"]))) == len(reused) + 1, f"seed {SEED}, input {number}"
            assert journal.recording("a#7") == recorded(7)


def test_read_results__mutated_archives_are_refused_or_read() -> None:
    """Of the zip some bytes are changed, or its results.json is mutated before it is packed."""
    chance = random.Random(SEED)
    text = results_json(with_history())
    whole = zipped({"junit.xml": b"<testsuites/>", "results.json": text.encode(), "logs/worker-1.log": b"x" * 500})
    read = 0
    for number in range(120):
        data = bytearray(whole)
        if number % 3 == 0:
            data = bytearray(zipped({"results.json": mutated(text, chance)}))
        for _ in range(chance.randint(1, 3) if number % 3 else 0):
            at = chance.choice((chance.randrange(len(data)), len(data) - 1 - chance.randrange(200)))
            data[at : at + chance.choice((0, 1, 1, 1, 40))] = bytes([chance.randrange(256)])
        try:
            result = read_results(bytes(data))
        except UnsafeArchive:
            continue
        read += 1
        where = f"seed {SEED}, input {number}"
        assert isinstance(read_report(result, where), RunReport | FetchFailed | Incompatible), where
    assert 40 <= read < 120
    for _ in range(30):
        data = bytearray(gzip.compress(b"x" * 500, mtime=0) + b"PK\x01\x02" * chance.randint(0, 3))
        data[chance.randrange(len(data))] = chance.randrange(256)
        with pytest.raises(UnsafeArchive):
            read_results(bytes(data))
