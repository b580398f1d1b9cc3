"""SQLite databases of ADK: sessions in two schemas, and spans. Read-only, bounded, and nothing is ever unpickled."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from agent_eval_agents.traces import Place, UnusableConversation
from agent_eval_agents.traces.spans import Span
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.files import MAX_RESULTS, open_regular
from agent_eval_scoring.core.problem import Problem, Severity
from agent_eval_scoring.evalset.json import parse_value
from agent_eval_workbench.sources.conversation import StoredEvent, stored_event
from agent_eval_workbench.sources.sessions import StoredSession

MAGIC = b"SQLite format 3\0"
"""The first bytes of a database (https://www.sqlite.org/fileformat.html)."""
_LOCKED = 2.0
"""Seconds to wait for a writer."""
_LONGEST = 120.0
"""Seconds for all queries."""
_LARGEST_VALUE = 100_000_000


class UnreadableDatabase(AgentEvalError):
    """A file other than a database of ADK, or a damaged or locked one. The message is a sentence."""


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Opens an untrusted database for reading.

    Raises:
        UnreadableDatabase: It can't be read.
    """
    with open_regular(path) as file:
        if file.seek(0, 2) > MAX_RESULTS:
            raise UnreadableDatabase(f"The database is larger than {MAX_RESULTS // 1_000_000:,} MB.")
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_LOCKED)
        with closing(connection):
            deadline = time.monotonic() + _LONGEST
            connection.set_progress_handler(lambda: time.monotonic() > deadline, 100_000)
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE)
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA query_only = ON")
            connection.row_factory = sqlite3.Row
            yield connection
    except (sqlite3.Error, UnicodeDecodeError) as error:
        reason = {
            "database is locked": "Another process is writing to it; try again when it has ended",
            "interrupted": f"Reading it takes longer than {_LONGEST:.0f} seconds",
        }.get(str(error), str(error))
        raise UnreadableDatabase(f"The database can't be read: {reason}.") from error


def columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a table; empty if there is none of that name. A view is not a table."""
    sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    if connection.execute(sql, (table,)).fetchone() is None:
        return set()
    return {row["name"] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def sessions(connection: sqlite3.Connection, file: str) -> Iterator[StoredSession | Problem]:
    """The sessions of a database in the order of their creation, or a problem for each that is malformed.

    Raises:
        UnreadableDatabase: It does not have ADK's tables.
        sqlite3.Error: It can't be read.
    """
    events = columns(connection, "events")
    needed = {"app_name", "user_id", "id", "state", "create_time"}
    keys = {"app_name", "user_id", "session_id", "invocation_id", "timestamp", "id"}
    if "event_data" not in events and {"actions", "content", "author"} <= events:
        raise UnreadableDatabase(
            "The database is in ADK's old schema, with pickles: `adk migrate session` converts it."
        )
    if not needed <= columns(connection, "sessions") or not keys | {"event_data"} <= events:
        raise UnreadableDatabase("The database has neither ADK's tables of sessions nor its table of spans.")
    scoped = _scoped_states(connection)
    sql = "SELECT rowid, app_name, user_id, id, state FROM sessions ORDER BY create_time, rowid"
    for row in connection.execute(sql).fetchall():
        try:
            yield _session(connection, file, row, scoped)
        except UnusableConversation as error:
            yield error.place.problem(Severity.WARNING, "source-session-skipped", str(error), error.hint)


def _session(
    connection: sqlite3.Connection, file: str, row: sqlite3.Row, scoped: Mapping[tuple[str, ...], dict[str, Any]]
) -> StoredSession:
    place = Place(file=file, row=f"row {row['rowid']} of the table `sessions`")
    app_name, user_id, session_id = (_text(row, key, place) for key in ("app_name", "user_id", "id"))
    state = {**scoped.get((app_name,), {}), **scoped.get((app_name, user_id), {}), **_object(row, "state", place)}
    sql = (
        "SELECT rowid, id, invocation_id, timestamp, event_data FROM events "
        "WHERE app_name = ? AND user_id = ? AND session_id = ? ORDER BY timestamp, rowid"
    )
    events = [
        _event(event, Place(file=file, row=f"row {event['rowid']} of the table `events`"))
        for event in connection.execute(sql, (app_name, user_id, session_id))
    ]
    return StoredSession(
        session_id=session_id, events=events, place=place, app_name=app_name, user_id=user_id, state=state
    )


def _event(row: sqlite3.Row, place: Place) -> StoredEvent:
    raw = _object(row, "event_data", place)
    return stored_event({"invocation_id": row["invocation_id"], "timestamp": row["timestamp"], **raw}, place)


_STATES = (("app_states", ("app_name",), "app:"), ("user_states", ("app_name", "user_id"), "user:"))


def _scoped_states(connection: sqlite3.Connection) -> dict[tuple[str, ...], dict[str, Any]]:
    """The state of apps and users with the prefixes that sessions have, by (app,) and (app, user)."""
    states: dict[tuple[str, ...], dict[str, Any]] = {}
    for table, keys, prefix in _STATES:
        if not {*keys, "state"} <= columns(connection, table):
            continue
        for row in connection.execute(f"SELECT {', '.join(keys)}, state FROM {table}"):  # noqa: S608 - our own names
            try:
                state = parse_value(row["state"])
            except (ValueError, TypeError):
                continue  # It is of use only with --state-scopes, and says nothing about the sessions.
            if isinstance(state, dict):
                states[tuple(str(row[key]) for key in keys)] = {f"{prefix}{key}": state[key] for key in state}
    return states


def _text(row: sqlite3.Row, key: str, place: Place) -> str:
    value = row[key]
    if not isinstance(value, str):
        raise UnusableConversation(place, f"`{key}` is not a text.")
    return value


def _object(row: sqlite3.Row, key: str, place: Place) -> dict[str, Any]:
    value = _json(row[key], key, place)
    if not isinstance(value, dict):
        raise UnusableConversation(place, f"`{key}` is not a JSON object.")
    return value


def _json(value: object, key: str, place: Place) -> Any:
    if isinstance(value, str | bytes):
        try:
            return parse_value(value)
        except ValueError as error:
            raise UnusableConversation(place, f"`{key}` is not JSON: {error}.") from error
    raise UnusableConversation(place, f"`{key}` is not JSON.")


def spans(connection: sqlite3.Connection, file: str) -> Iterator[Span]:
    """The spans of ADK's span database.

    Raises:
        UnusableConversation: A row is malformed.
        sqlite3.Error: It can't be read.
    """
    for row in connection.execute("SELECT rowid, * FROM spans ORDER BY start_time_unix_nano, rowid"):
        place = Place(file=file, row=f"row {row['rowid']} of the table `spans`")
        attributes = _object(row, "attributes_json", place)
        if isinstance(row["session_id"], str):
            attributes.setdefault("gen_ai.conversation.id", row["session_id"])
        name, start = row["name"], row["start_time_unix_nano"]
        if not isinstance(name, str) or not isinstance(start, int):
            raise UnusableConversation(place, "The span has no name or no start time.")
        parent, end = row["parent_span_id"], row["end_time_unix_nano"] if "end_time_unix_nano" in row.keys() else None  # noqa: SIM118
        yield Span(
            name=name,
            span_id=str(row["span_id"]),
            trace_id=str(row["trace_id"]),
            parent_id=None if parent is None else str(parent),
            start=start,
            end=end if isinstance(end, int) else start,
            attributes=attributes,
            place=place,
        )


SPAN_COLUMNS = {
    "span_id", "trace_id", "parent_span_id", "name", "start_time_unix_nano", "session_id", "attributes_json",
}  # fmt: skip
"""Columns of the table `spans`."""
