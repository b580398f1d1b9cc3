"""Mutated sources: an error with a place or a valid eval set, never an exception."""

from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path

import pytest
from source_samples import adk_result, otel_turn, otlp, session, session_database, turn, veadk_trace
from test_fuzzed_inputs import INPUTS, SEED, mutated

from agent_eval.agents.recorded import check_recording
from agent_eval.core.problem import has_error
from agent_eval.evalset.json import eval_set_text, write_text
from agent_eval.evalset.loading import load_suite
from agent_eval.evalset.models import EvalSet
from agent_eval_workbench.sources.cases import eval_cases
from agent_eval_workbench.sources.reading import read_source

SOURCES = {
    "session.json": json.dumps(session([*turn("e-1"), *turn("e-2")])),
    "sessions.jsonl": "\n".join(json.dumps(session(id=name)) for name in ("a", "b")) + "\n",
    "otlp.json": json.dumps(otlp(*otel_turn(), *otel_turn("t2", start=900))),
    "veadk.json": json.dumps(veadk_trace({"s-1": [("In Rome", "Warm."), ("In Oslo", "Cold.")]})),
    "x.evalset_result.json": json.dumps(adk_result(session_details=session())),
}


@pytest.mark.parametrize("name", SOURCES)
def test_sources__mutated_files(name: str, tmp_path: Path) -> None:
    chance = random.Random(f"{SEED} {name}")
    old, new = tmp_path / name, tmp_path / "new" / "n.evalset.json"
    for number in range(INPUTS // 2):
        old.write_bytes(mutated(SOURCES[name], chance))
        check(old, new, f"seed {SEED}, input {number}")
        if name.endswith("result.json"):
            check_recording("recorded:x", old, [])


def check(old: Path, new: Path, which: str) -> None:
    source = read_source(old, old.as_posix())
    if source is None:
        return
    cases, problems = eval_cases(source.conversations)
    problems = [*source.problems, *problems]
    if cases and not has_error(problems):
        write_text(new, eval_set_text(EvalSet(eval_set_id="n", eval_cases=cases)))
        codes = {problem.code for problem in load_suite(new.parent).errors}
        assert codes <= {"needs-reference"}, which  # An answer without text, scored by ADK's default criteria.
        new.unlink()
    for problem in problems:
        assert problem.file, which


def test_sources__mutated_databases(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    path = session_database(tmp_path / "s.db", [session(), session(id="s-2")])
    data = path.read_bytes()
    old, new = tmp_path / "old.db", tmp_path / "new" / "n.evalset.json"
    for number in range(INPUTS // 4):
        changed = bytearray(data)
        for _ in range(chance.choice((1, 4, 60))):
            changed[chance.randrange(16, len(changed))] = chance.randrange(256)
        old.write_bytes(changed)
        check(old, new, f"seed {SEED}, input {number}")
    for number in range(INPUTS // 4):
        old.write_bytes(data)
        with sqlite3.connect(old) as connection:
            column, table = chance.choice((("event_data", "events"), ("state", "sessions"), ("id", "sessions")))
            [(text,)] = connection.execute(f"SELECT {column} FROM {table} LIMIT 1 OFFSET {chance.randrange(2)}")
            value = mutated(str(text), chance)
            stored = value.decode("utf-8", "replace") if chance.random() < 0.7 else value
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (stored, text))
        connection.close()
        check(old, new, f"seed {SEED}, row {number}")
