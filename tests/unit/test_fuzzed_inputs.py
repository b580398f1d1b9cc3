"""300 mutated inputs of every kind, through the commands: one of the four exit codes, and never a traceback."""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path

import pytest
from report_samples import failed

from agent_eval.baseline.archive import UnsafeArchive, read_results
from agent_eval.cli import main
from agent_eval.report.renderers.results_json import results_json

INPUTS = int(os.environ.get("FUZZ_INPUTS", "300"))
SEED = int(os.environ.get("FUZZ_SEED", "9"))
TURN = {"user_content": {"parts": [{"text": "hi"}]}, "final_response": {"parts": [{"text": "hello"}]}}
EVAL_SET = {"eval_set_id": "s", "eval_cases": [{"eval_id": "a", "conversation": [TURN], "session_input": None}]}
RUN = {"eval_set_id": "s", "eval_id": "a", "run": 0, "run_id": "a#1", "case_id": "a.test.json:a", "file": "a.test.json"}
TOML = 'num-runs = 2\n[prices]\n"m" = {input = 1, output = 2}\n[[policy]]\nmetric = "pass"\nmax-drop = 0.1\n'
SCRAPS = (
    "[" * 3_000,
    "9" * 5_000,
    "null",
    '"\\ud83d"',
    "1e999",
    "NaN",
    "{}",
    "[]",
    "-1",
    '""',
    "true",
    ",",
    "\x00",
    "//",
)


def mutated(text: str, chance: random.Random) -> bytes:
    """The text with something cut, doubled, replaced or inserted."""
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(text) + 1)
        to = min(len(text), at + chance.choice((1, 3, 20, 200)))
        piece = chance.choice((*SCRAPS, text[at:to] * 2, ""))
        text = text[:at] + piece + text[to:]
    data = text.encode("utf-8", "surrogatepass")
    return data if chance.random() < 0.9 else data[: len(data) // 2] + b"\xff\xfe" + data[len(data) // 2 :]


def test_main__mutated_inputs_end_in_an_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    monkeypatch.chdir(tmp_path)
    results = results_json(failed())
    recordings = json.dumps(RUN) + "\n"
    whole = {
        "a.test.json": json.dumps(EVAL_SET),
        "test_config.json": json.dumps({"criteria": {"response_match_score": {"threshold": 0.5}}}),
        "agent-eval.toml": TOML,
        "out/recordings.jsonl": recordings,
        "old.json": json.dumps([{"query": "hi", "expected_tool_use": [], "reference": "x"}]),
        "results.json": results,
        "other.json": results,
        "labels.jsonl": '{"prompt": "a", "response": "b", "label": "pass"}\n' * 2,
    }
    criterion = ["--criterion", "response_match_score=0.5"]
    commands = {
        "a.test.json": [
            ["validate"],
            ["agents", "--agent", "recorded:a.test.json"],
            ["migrate", "a.test.json", "n.json"],
        ],
        "test_config.json": [["validate"], ["plan", "--agent", "recorded:a.test.json"]],
        "agent-eval.toml": [["validate"], ["plan", "--agent", "recorded:a.test.json"]],
        "out/recordings.jsonl": [["agents", "--agent", "recorded:out/recordings.jsonl"]],
        "old.json": [["migrate", "old.json", "new.json"], ["validate", "old.json"]],
        "results.json": [
            ["compare", "results.json", "other.json"],
            ["flaky", "results.json"],
            ["show", "results.json"],
            ["calibrate", "--suggest-thresholds", "results.json"],
        ],
        "labels.jsonl": [["calibrate", "labels.jsonl", *criterion]],
    }
    (tmp_path / "out").mkdir()
    for number in range(INPUTS):
        for name, text in whole.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        name = chance.choice(list(commands))
        (tmp_path / name).write_bytes(mutated(whole[name], chance))
        command = chance.choice(commands[name])
        code = main(command)
        said = capsys.readouterr()
        assert code in {0, 1, 2, 3}, f"seed {SEED}, input {number}, {command}: {said.err[-2_000:]}"
        assert "Traceback" not in said.err  # `show` prints that of an agent, on stdout.


def test_read_results__mutated_archives_are_refused_or_read() -> None:
    chance = random.Random(SEED)
    for _ in range(30):
        data = bytearray(gzip.compress(b"x" * 500, mtime=0) + b"PK\x01\x02" * chance.randint(0, 3))
        data[chance.randrange(len(data))] = chance.randrange(256)
        with pytest.raises(UnsafeArchive):
            read_results(bytes(data))


def test_main__adks_own_name_of_the_config_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.test.json").write_text(json.dumps(EVAL_SET), encoding="utf-8")
    (tmp_path / "mine.json").write_text('{"criteria": {"response_match_score": 0.5}}', encoding="utf-8")
    assert main(["validate", "--config_file_path", "mine.json"]) == 0
    assert main(["validate", "--config_file_path", "none.json"]) == 2
