"""Reads the conversations of a file or directory that something other than agent-eval has recorded.

What a source is, its content says and not its name.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from agent_eval_agents.traces import Place, UnusableConversation
from agent_eval_agents.traces.conversations import APP, USER, TracedConversation, conversations_of
from agent_eval_agents.traces.files import bounded, items, json_lines
from agent_eval_agents.traces.spans import Span, is_otlp, is_span, spans_of
from agent_eval_results import FILES
from agent_eval_scoring.core.files import MAX_RESULTS, MAX_TEXT, open_regular
from agent_eval_scoring.core.problem import Problem, Severity, has_error
from agent_eval_scoring.core.text import first_line
from agent_eval_scoring.evalset.adk_results import adk_result_value
from agent_eval_scoring.evalset.json import Document, read_document
from agent_eval_workbench.sources import database, sessions
from agent_eval_workbench.sources.conformance import conversation_of_spec, specs_below
from agent_eval_workbench.sources.conversation import Conversation, until_last_answer

_GZIP = b"\x1f\x8b"
SESSION_DATABASE = Path(".adk", "session.db")
"""Where `adk web` and `adk run` keep the sessions of an agent, below its directory (google-adk 2.13.0)."""
_BEGINNING = 1_000_000
"""Bytes."""
STATE_SCOPES = ("app", "user")
"""Scopes of state that belong to more than one session."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """The conversations of a source."""

    kind: str
    """What it is, with its article: `a trace`."""
    conversations: tuple[Conversation, ...]
    """By the start of their first turn; at least one if no problem is an error."""
    problems: tuple[Problem, ...]


def read_source(path: Path, name: str, state_scopes: Sequence[str] = ()) -> Source | None:
    """Reads a source.

    Args:
        path: A file, an agent's directory that contains `.adk/session.db`, the output directory of a run, or a
            directory that `adk conformance record` was told.
        name: The name of the file in problems.
        state_scopes: Of STATE_SCOPES, those whose state becomes part of the initial state.

    Returns:
        The conversations and the problems; None if the content is none that this package reads.
    """
    # An agent's directory: that is what users know of where `adk web` keeps its sessions.
    if path.is_dir() and (path / SESSION_DATABASE).is_file():
        path, name = path / SESSION_DATABASE, f"{name}/{SESSION_DATABASE.as_posix()}"
    elif path.is_dir():
        # Only without recordings: the search for specifications walks the whole directory.
        if not (path / FILES["recordings-file"]).exists() and (source := read_conformance(path, name)):
            return source
        path, name = path / FILES["recordings-file"], f"{name}/{FILES['recordings-file']}"
    with suppress(OSError):
        with open_regular(path) as file:
            beginning = file.read(len(database.MAGIC))
        if beginning.startswith(_GZIP):
            with open_regular(path) as raw:
                return read_recordings(raw, name, state_scopes)
        return (
            _read_database(path, name, state_scopes)
            if beginning == database.MAGIC
            else _read_text(path, name, state_scopes)
        )
    return None


def read_conformance(folder: Path, name: str) -> Source | None:
    """Reads what `adk conformance record` left in a directory or below; None if there is no specification."""
    kind = "a directory of `adk conformance record`"
    result: _Read = [], []
    specs = specs_below(folder)
    try:
        for spec in specs:
            file = f"{name}/{spec.relative_to(folder).as_posix()}"
            _add(result, lambda spec=spec, file=file: conversation_of_spec(spec, file))
    except ImportError:
        message, hint = "YAML needs the package ruamel.yaml.", 'Install `"agent-eval-action[yaml]"`.'
        problem = Problem(code="source-unreadable", message=message, hint=hint, file=name)
        return Source(kind=kind, conversations=(), problems=(problem,))
    return _source(kind, result, name) if specs else None


def read_recordings(compressed: BinaryIO, name: str, state_scopes: Sequence[str] = ()) -> Source | None:
    """Reads the recordings of a run.

    Args:
        compressed: The content of recordings.jsonl.gz.
        name: The name of the file in problems.
        state_scopes: Of STATE_SCOPES, those whose state becomes part of the initial state.

    Returns:
        The conversations and the problems; None if the lines are none that this package reads.
    """
    try:
        with gzip.open(compressed) as file:
            values = list(json_lines(bounded(file, MAX_RESULTS), name))
    except (OSError, EOFError, zlib.error, ValueError) as error:
        message = f"It is damaged: {first_line(str(error))}."
        problem = Problem(code="source-unreadable", message=message, file=name)
        return Source(kind="the recordings of a run", conversations=(), problems=(problem,))
    return _of_values(values, name, state_scopes)


def read_value(document: Document, state_scopes: Sequence[str] = ()) -> Source | None:
    """Reads a source that is one JSON document; None for other content."""
    return _of_values([(document.value, Place(file=document.file, document=document))], document.file, state_scopes)


def _read_text(path: Path, name: str, state_scopes: Sequence[str]) -> Source | None:
    # One document first: JSON that is written over several lines is no JSON Lines.
    document, problems = read_document(path, name)
    if document is not None:
        source = read_value(document, state_scopes)
        return source and replace(source, problems=(*problems, *source.problems))
    values = _lines(path, name)
    return None if values is None else _of_values(values, name, state_scopes)


def has_events_only(path: Path) -> bool:
    """Whether a file that is no source has events of ADK, as `adk run --jsonl` and a server's `/run` print them."""
    with suppress(OSError), open_regular(path) as file:
        beginning = file.read(_BEGINNING)
        return b'"author"' in beginning and (b'"invocationId"' in beginning or b'"invocation_id"' in beginning)
    return False


def _lines(path: Path, name: str) -> list[tuple[Any, Place]] | None:
    """The values of JSON Lines; None unless the first line is a JSON object and others follow.

    None for a file that is larger than MAX_TEXT, too.
    """
    with open_regular(path) as file:
        if file.seek(0, 2) > MAX_TEXT:
            return None
        file.seek(0)
        # A single line is a document with an error, and that error is the news.
        if not _is_object(file.readline()) or not (rest := file.read(1)):
            return None
        file.seek(0)
        values = list(json_lines(file, name))
    return values if rest else None


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _of_values(values: Iterable[tuple[Any, Place]], file: str, state_scopes: Sequence[str]) -> Source | None:
    """The source of one JSON document, or of the values of JSON Lines."""
    items = [item for value, place in values for item in _items(value, place)]
    bad = [
        replace(value, line=place.line, column=None, path=None) for value, place in items if isinstance(value, Problem)
    ]
    items = [(value, place) for value, place in items if not isinstance(value, Problem)]
    for kind, is_kind, read in _KINDS:
        # Any, so that a stray value among spans is reported and not the whole file refused as unknown.
        if any(is_kind(value) for value, _ in items):
            others = [place for value, place in items if not is_kind(value)]
            problems = bad + [
                place.problem(Severity.ERROR, "source-malformed", f"This is not {kind}, although others here are.")
                for place in others[:10]
            ]
            if problems:
                return Source(kind=kind, conversations=(), problems=tuple(problems[:20]))
            return _source(kind, read(items, state_scopes), file)
    return None


def _items(value: Any, place: Place) -> Iterator[tuple[Any, Place]]:
    """The items of a list, or the value itself."""
    # ADK once wrote its results as a JSON string.
    if isinstance(value, str) and (inside := adk_result_value(value)) is not None:
        yield inside, Place(file=place.file)
    else:
        yield from items(value, place)


_Values = list[tuple[Any, Place]]
_Read = tuple[list[Conversation], list[Problem]]


def _from_sessions(values: _Values, scopes: Sequence[str]) -> _Read:
    result: _Read = [], []
    for value, place in values:
        _add(
            result, lambda value=value, place=place: sessions.conversation_of(sessions.session_of(value, place), scopes)
        )
    return result


def _from_stored(stored: Iterable[sessions.StoredSession | Problem], scopes: Sequence[str]) -> _Read:
    result: _Read = [], []
    for session in stored:
        if isinstance(session, Problem):
            result[1].append(session)
        else:
            _add(result, lambda session=session: sessions.conversation_of(session, scopes))
    return result


def _from_traces(values: _Values, _: Sequence[str]) -> _Read:
    return _from_spans(lambda: spans_of(values))


def _from_spans(read: Callable[[], Iterable[Span]]) -> _Read:
    try:
        traced = conversations_of(read())
    except UnusableConversation as error:
        return [], [error.place.problem(Severity.ERROR, "source-malformed", str(error), error.hint)]
    result: _Read = [], []
    for conversation in traced:
        _add(result, lambda conversation=conversation: _conversation_of_trace(conversation))
    return result


def _conversation_of_trace(traced: TracedConversation) -> tuple[Conversation, list[Problem]]:
    """The conversation without last turns that failed or have no answer.

    Raises:
        UnusableConversation: A turn has no recorded contents, or no answer although it is not the last.
    """
    name = f"Session `{traced.session_id}`"
    read, raised = traced.read()
    turns, problems = until_last_answer(read, name, traced.place)
    if raised is not None:
        message = f"The last turn of {name[0].lower()}{name[1:]} failed; it is left out."
        problems.append(traced.place.problem(Severity.NOTICE, "source-turn-skipped", message))
    return (
        Conversation(
            session_id=traced.session_id,
            turns=turns,
            started_at=turns[0].creation_timestamp,
            place=traced.place,
            app_name=traced.attribute(APP),
            user_id=traced.attribute(USER),
        ),
        problems,
    )


def _from_results(values: _Values, scopes: Sequence[str]) -> _Read:
    result: _Read = [], []
    for value, place in values:
        cases = sessions.field(value, "eval_case_results")
        for number, case in enumerate(cases if isinstance(cases, list) else ()):
            at = replace(place, path=(*place.path, "eval_case_results", number))
            _add(result, lambda case=case, at=at: sessions.conversation_of_result(case, at, scopes))
    return result


def _from_recordings(values: _Values, _: Sequence[str]) -> _Read:
    result: _Read = [], []
    for value, place in values:
        _add(result, lambda value=value, place=place: sessions.conversation_of_recording(value, place))
    return result


_KINDS = (
    ("the recording of a run", sessions.is_recording, _from_recordings),
    ("an eval set result of ADK", lambda value: adk_result_value(value) is not None, _from_results),
    ("a trace", lambda value: is_otlp(value) or is_span(value), _from_traces),
    ("a session of ADK", sessions.is_session, _from_sessions),
)


def _read_database(path: Path, name: str, scopes: Sequence[str]) -> Source:
    kind = "a session database of ADK"
    try:
        with database.opened(path) as connection:
            # ADK's exporter of spans has a database of its own, without sessions.
            if database.columns(connection, "spans") >= database.SPAN_COLUMNS:
                return _source("a span database of ADK", _from_spans(lambda: database.spans(connection, name)), name)
            return _source(kind, _from_stored(database.sessions(connection, name), scopes), name)
    except database.UnreadableDatabase as error:
        problem = Problem(code="source-unreadable", message=str(error), file=name)
        return Source(kind=kind, conversations=(), problems=(problem,))


def _add(result: _Read, read: Any) -> None:
    """Adds a conversation and its problems, or the reason why it is unusable."""
    conversations, problems = result
    try:
        conversation, notices = read()
    except UnusableConversation as error:
        problems.append(_skipped(error))
        return
    conversations.append(conversation)
    problems.extend(notices)


def _skipped(error: UnusableConversation) -> Problem:
    return error.place.problem(Severity.WARNING, "source-session-skipped", str(error), error.hint)


def _source(kind: str, read: _Read, file: str) -> Source:
    """The source; with an error if it has no conversation."""
    conversations, problems = read
    if not conversations:
        problems = [
            replace(problem, severity=Severity.ERROR) if problem.code == "source-session-skipped" else problem
            for problem in problems
        ]
        if not has_error(problems):
            hint = "Check that the agent was asked anything."
            message = f"It is {kind}, and has no conversation."
            problems.append(Problem(code="source-empty", message=message, hint=hint, file=file))
    # By time, since sources list sessions by id, and `latest` has to mean something.
    ordered = sorted(conversations, key=lambda conversation: conversation.started_at)
    return Source(kind=kind, conversations=tuple(ordered), problems=tuple(problems))
