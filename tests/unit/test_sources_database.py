"""Session databases of ADK, which may be old, locked, damaged or made to do harm."""

from __future__ import annotations

import pickle
import sqlite3
from pathlib import Path

import pytest
from source_samples import ANSWERED, ASKED, session, session_database, turn
from test_sources_sessions import texts

from agent_eval_workbench.sources.cases import eval_cases
from agent_eval_workbench.sources.reading import Source, read_source

EXPECTED = [(ASKED, ANSWERED, ["set_lamp"])]


def read(path: Path, state_scopes: tuple[str, ...] = ()) -> Source:
    source = read_source(path, path.name, state_scopes)
    assert source is not None
    return source


def test_database__has_a_case_for_each_session(tmp_path: Path) -> None:
    agent = tmp_path / "home"
    (agent / ".adk").mkdir(parents=True)
    second = session(turn("e-9", asked="And now?"), id="s-2")
    path = session_database(agent / ".adk" / "session.db", [session(), second])
    before = path.read_bytes()
    source = read(agent)
    cases, _ = eval_cases(source.conversations)
    assert [texts(case) for case in cases] == [EXPECTED, [("And now?", ANSWERED, ["set_lamp"])]]
    assert [case.session_input.state for case in cases if case.session_input] == [{"room": "attic"}] * 2
    assert source.problems[0].file == "home/.adk/session.db"
    with_user = read(agent, ("user",))
    assert with_user.conversations[1].state == {"room": "attic", "user:tier": "gold"}
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["session.db"]


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)


def test_database__old_schema_is_refused_without_unpickling(tmp_path: Path) -> None:
    path, burnt = tmp_path / "old.db", tmp_path / "burnt"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "CREATE TABLE sessions (app_name, user_id, id, state, create_time, update_time);"
            "CREATE TABLE events (id, app_name, user_id, session_id, invocation_id, author, actions BLOB, "
            "timestamp DATETIME, content TEXT);"
            "INSERT INTO sessions VALUES ('home', 'u', 's-1', '{}', '2025-01-01', '2025-01-01');"
        )
        for content, author in (
            (f'{{"role": "user", "parts": [{{"text": "{ASKED}"}}]}}', "user"),
            ('{"role": "model", "parts": [{"function_call": {"name": "set_lamp", "args": {}}}]}', "home"),
            (f'{{"role": "model", "parts": [{{"text": "{ANSWERED}"}}]}}', "home"),
        ):
            row = ("home", "u", "s-1", "e-1", author, pickle.dumps(Bomb(burnt)), "2025-01-01 10:00:00.5", content)
            connection.execute("INSERT INTO events VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.close()
    [problem] = read(path).problems
    assert (problem.severity, problem.code) == ("error", "source-unreadable")
    assert "`adk migrate session` converts it" in problem.message
    assert not burnt.exists()


@pytest.mark.parametrize("value", ["{broken", "[]", None, b"\xff", "[" * 5_000])
def test_database__a_malformed_row_is_named(value: str | bytes | None, tmp_path: Path) -> None:
    path = session_database(tmp_path / "s.db", [session(), session(id="s-2")])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE events SET event_data = ? WHERE id = '0-2'", (value,))
    connection.close()
    source = read(path)
    skipped = [problem for problem in source.problems if problem.code == "source-session-skipped"]
    assert len(source.conversations) == 1
    assert skipped[0].message.startswith("Row 3 of the table `events`: `event_data` is not")


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE other (x)",
        "CREATE VIEW sessions AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n",
        "CREATE TABLE sessions (app_name, user_id, id, state, create_time); CREATE TABLE events (id)",
    ],
    ids=["other tables", "endless view", "other columns"],
)
def test_database__without_adks_tables_is_an_error(script: str, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(script)
    connection.close()
    source = read(path)
    assert [(problem.severity, problem.code) for problem in source.problems] == [("error", "source-unreadable")]


def test_database__damaged_or_locked_is_an_error(tmp_path: Path) -> None:
    path = session_database(tmp_path / "s.db", [session()])
    writer = sqlite3.connect(path)
    writer.execute("BEGIN EXCLUSIVE")
    assert "Another process is writing to it" in read(path).problems[0].message
    writer.close()
    data = path.read_bytes()
    for size in (20, 120, len(data) // 2):
        path.write_bytes(data[:size])
        assert [problem.severity for problem in read(path).problems] == ["error"]
