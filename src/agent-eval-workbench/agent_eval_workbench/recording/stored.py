"""Messages to the agent (`--say`, `--messages`), and the conversations of `--from`."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from agent_eval.baseline.archive import ArchiveLimits, UnsafeArchive, unpack
from agent_eval_agents.fingerprints import DEFAULT_APP_NAME
from agent_eval_agents.traces.files import bounded
from agent_eval_results import FILES
from agent_eval_scoring.core.content import Content, text_of, user_message
from agent_eval_scoring.core.files import MAX_RESULTS, MAX_SETTINGS, open_regular, read_lines, read_regular
from agent_eval_scoring.core.masking import MASK, Masker
from agent_eval_scoring.core.problem import Problem, Severity, docs_page, errors_of, has_error
from agent_eval_scoring.core.selectors import matches
from agent_eval_scoring.core.text import first_line, plural, shorten
from agent_eval_scoring.criteria import visible
from agent_eval_scoring.evalset.json import Document, parse_value, read_document
from agent_eval_scoring.evalset.models import EvalCase
from agent_eval_scoring.evalset.parse import is_dataset
from agent_eval_workbench.recording.target import USER_ID, Refused, error
from agent_eval_workbench.sources.conversation import Conversation
from agent_eval_workbench.sources.reading import Source, has_events_only, read_source, read_value

_CODE = "record-source"
_CHOOSE = "Choose with --session ID, --session latest, or --session all."
_ZIP = b"PK"
_SHOWN = 50
_RUN = re.compile(r"(?P<case>.+)#(?P<run>\d+)\Z", re.DOTALL)
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class StoredRequest:
    """Which conversations of a source are meant."""

    session: str | None = None
    """An id, `latest`, or `all`; None to ask, or to take the only one."""
    case: str | None = None
    """An eval id, a case id, or a glob of eval ids; for recordings and results."""
    run: int | None = None
    """1-based; for recordings."""
    state_scopes: tuple[str, ...] = ()


def read_stored(path: Path, name: str, request: StoredRequest) -> tuple[Source, list[Conversation]]:
    """Reads a source.

    Returns:
        The source, and its conversations that the request may mean, by the start of their first turn.

    Raises:
        Refused: It can't be read, or has no such conversation.
    """
    if not path.exists():
        raise error(_CODE, f"`{name}` does not exist.", "Name a session, a database, an agent, a trace, or results.")
    with contextlib.ExitStack() as stack:
        # An artifact as it is downloaded: a zip with results.json and the recordings.
        if (archive := _archive(path)) is not None:
            path = _unpacked(archive, name, stack)
        source = read_source(path, name, request.state_scopes)
        # A recording does not have the state with which its case began; the case beside it has.
        sessions = _stored_sessions(path)
    if source is None:
        hint = (
            "Sources are sessions of ADK (JSON or SQLite, or an agent's directory with .adk/session.db), results of "
            f"ADK, conformance tests, traces, and the output directory of a run ({docs_page('authoring')})."
        )
        if path.is_dir() and any((path / file).is_file() for file in ("agent.py", "__init__.py", "root_agent.yaml")):
            hint = (
                "If it is an agent, it has kept no conversation. Talk to it first (`adk run` or `adk web`), or record "
                "one now: `agent-eval record EVAL_FILE --say 'MESSAGE'`, without `--from`."
            )
        elif has_events_only(path):
            hint = (
                "These events, e.g. of `adk run --jsonl`, lack the user's messages. The session has them: `adk run` "
                "and `adk web` keep it in the agent's directory (--from AGENT_DIRECTORY), unless they run in memory."
            )
        document, broken = read_document(path, name) if path.is_file() else (None, [])
        if document is not None and is_dataset(document.value):
            hint = (
                f"It is a dataset of agents-cli: `agent-eval migrate {shlex.quote(name)} NEW` makes eval cases of it."
            )
        if document is not None and isinstance(document.value, dict) and "eval_cases" in document.value:
            hint = f"It has eval cases already, and no run of an agent. {hint}"
        message = f"`{name}` has no conversations that can be read."
        # Of other names nobody expects JSON: what its parser says of them would mislead.
        reasons = broken if document is None and path.suffix == ".json" else []
        raise Refused([Problem(code=_CODE, message=message, hint=hint), *reasons])
    if has_error(source.problems):
        raise Refused(errors_of(source.problems))
    conversations = [_with_session(conversation, sessions) for conversation in source.conversations]
    chosen = [conversation for conversation in conversations if _is_of(conversation, request)]
    if not chosen:
        what = f"case `{request.case}`" if request.case else "conversation"
        what += f" in run {request.run}" if request.run else ""
        raise error(_CODE, f"`{name}` is {source.kind}, and has no {what}.", "--list shows what there is.")
    return source, chosen


def read_session_value(value: Any) -> list[Conversation]:
    """The conversation of a session's JSON.

    Raises:
        Refused: It is none, or has no turn with an answer.
    """
    source = read_value(Document(file="the session", text=json.dumps(value), value=value))
    if source is None:
        raise error(_CODE, "The value is not a session of ADK.", "A session has `id`, `app_name` and `events`.")
    if has_error(source.problems):
        raise Refused(errors_of(source.problems))
    return list(source.conversations)


def with_state(conversation: Conversation, state: Mapping[str, Any]) -> Conversation:
    """The conversation with another state at its beginning."""
    return replace(
        conversation,
        state=dict(state),
        app_name=conversation.app_name or DEFAULT_APP_NAME,
        user_id=conversation.user_id or USER_ID,
    )


def _archive(path: Path) -> bytes | None:
    """The content of an artifact's zip; None for any other source."""
    if not path.is_file():
        return None
    with contextlib.suppress(OSError):
        with open_regular(path) as file:
            # By its content: a downloaded artifact may have any name.
            if file.read(len(_ZIP)) != _ZIP:
                return None
        return read_regular(path, ArchiveLimits().archive_bytes)
    return None


def _unpacked(archive: bytes, name: str, stack: contextlib.ExitStack) -> Path:
    """A temporary directory with the results and recordings of an artifact."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agent-eval-record-")))
    try:
        unpack(archive, folder)
    except UnsafeArchive as problem:
        hint = "Download the artifact again, or name the output directory of a run."
        raise error(_CODE, f"`{name}` can't be used: {problem}.", hint) from problem
    return folder


def _stored_sessions(path: Path) -> dict[str, Mapping[str, Any]]:
    """The `session_input` of the cases of a run, by case id; empty without cases.jsonl.gz."""
    file = (path if path.is_dir() else path.parent) / FILES["cases-file"]
    # Beside another kind of source, such a file is of another run.
    if not file.is_file() or not (path.is_dir() or path.name == FILES["recordings-file"]):
        return {}
    try:
        stored = map(json.loads, bounded(read_lines(file), MAX_RESULTS))
        return {str(line["case_id"]): dict(line["case"].get("session_input") or {}) for line in stored}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
        hint = "Run the cases again, or remove this file: the cases then begin without a state."
        raise error(_CODE, f"`{file}` can't be read: {first_line(str(problem))}.", hint) from problem


def _with_session(conversation: Conversation, sessions: Mapping[str, Mapping[str, Any]]) -> Conversation:
    """The recording of a run with the session with which its case began."""
    match = _RUN.match(conversation.session_id)
    session = sessions.get(match["case"]) if match else None
    # What the source itself says has precedence.
    if not session or conversation.user_id is not None:
        return conversation
    app_name, user_id, state = (session.get(key) for key in ("app_name", "user_id", "state"))
    return replace(conversation, app_name=app_name, user_id=user_id, state=state or None)


def _is_of(conversation: Conversation, request: StoredRequest) -> bool:
    match = _RUN.match(conversation.session_id)
    case_id, run = (match["case"], int(match["run"])) if match else ("", None)
    of_case = request.case is None or request.case == case_id or matches(request.case, conversation.eval_id)
    return of_case and request.run in {None, run}


def choose_stored(
    conversations: Sequence[Conversation], name: str, request: StoredRequest, ask: Callable[[str], str] | None
) -> list[Conversation]:
    """The conversations to make cases of.

    Args:
        conversations: Those of the source.
        name: The source.
        request: What is asked for.
        ask: Shows a text and returns the user's answer; None without a terminal.

    Raises:
        Refused: There is no such session, or there are several and no one can be asked.
    """
    if request.session == "all":
        return list(conversations)
    if request.session == "latest":
        # They are sorted by the start of their first turn.
        return [conversations[-1]]
    if request.session is not None:
        chosen = [item for item in conversations if item.session_id == request.session]
        if not chosen:
            raise error(_CODE, f"`{name}` has no session `{request.session}`.", "--list shows the sessions.")
        return chosen[:1]
    if len(conversations) == 1:
        return [conversations[0]]
    table = conversation_table(conversations)
    # Without a terminal nothing is chosen silently: which conversation it was could not be seen in the case.
    if ask is None:
        raise error(_CODE, f"`{name}` has {len(conversations):,} conversations.", f"{_CHOOSE}\n{table}")
    answer = ask(f"{table}\nWhich conversation (1 to {len(conversations):,})? ").strip()
    if not answer.isdecimal() or not 1 <= int(answer) <= len(conversations):
        raise error(_CODE, "No conversation was chosen.", _CHOOSE)
    return [conversations[int(answer) - 1]]


def conversation_table(conversations: Sequence[Conversation]) -> str:
    """The conversations as lines: number, session, user, start, turns, first message."""
    rows = [
        (
            str(number),
            visible(shorten(item.session_id, 60)),
            visible(shorten(item.user_id or "-", 60)),
            _time(item.started_at),
            plural(len(item.turns), "turn"),
            visible(first_line(text_of(item.turns[0].user_content), 60)),
        )
        # The latest: of a database of months the conversation of today is meant.
        for number, item in enumerate(conversations[-_SHOWN:], max(len(conversations) - _SHOWN, 0) + 1)
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, (*widths, 0), strict=True)) for row in rows]
    left = len(conversations) - len(rows)
    return "\n".join([f"({left:,} older ones are not shown)"] * (left > 0) + [line.rstrip() for line in lines])


def _time(seconds: float) -> str:
    # Later than the year 5138: milliseconds, or damaged.
    if not 0 < seconds < 1e11:
        return "-"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def without_known(
    conversations: Sequence[Conversation], cases: Sequence[EvalCase]
) -> tuple[list[Conversation], list[Problem]]:
    """The conversations with messages that no case has yet, each once, and a notice about the others."""
    # By the user's messages alone: `--session all` is run again and again on a growing database.
    present = {_messages(case.conversation) for case in cases if case.conversation}
    new: list[Conversation] = []
    for conversation in conversations:
        messages = _messages(conversation.turns)
        if messages not in present:
            present.add(messages)
            new.append(conversation)
    skipped = len(conversations) - len(new)
    if not skipped:
        return new, []
    message = f"{plural(skipped, 'conversation')} skipped: a case has the same messages of the user."
    return new, [Problem(severity=Severity.NOTICE, code="record-known", message=message)]


def _messages(turns: Any) -> tuple[str, ...]:
    # Files leave the role out that sessions have.
    return tuple(turn.user_content.model_dump_json(exclude_none=True, exclude={"role"}) for turn in turns)


def masked(conversation: Conversation, masker: Masker) -> Conversation:
    """The conversation without the secrets of the environment."""
    # In an object with its key: below `state`, keys are masked, too.
    state = None if conversation.state is None else masker.values({"state": dict(conversation.state)})["state"]
    return replace(conversation, turns=[masker.values(turn) for turn in conversation.turns], state=state)


def masks_in(cases: Sequence[EvalCase], name: str) -> list[Problem]:
    """A warning for each case with a masked secret: the agent will say something else."""
    return [
        Problem(
            severity=Severity.WARNING,
            code="record-masked",
            message=f"The case `{case.eval_id}` has `{MASK}`, which may stand for a secret.",
            hint="Answers have it, too, where the agent's variable of that name has the secret. If it has none in CI, "
            "change the expectation, or remove the case.",
            file=name,
        )
        for case in cases
        if MASK in case.model_dump_json()
    ]


_MESSAGES_CODE = "record-input"


def said(texts: Sequence[str]) -> list[Content]:
    """The messages of `--say`.

    Raises:
        Refused: One is empty.
    """
    # `validate` would warn of such a message (odd-message).
    if any(not text.strip() for text in texts):
        raise error(_MESSAGES_CODE, "--say has an empty text.", "Write what the user says.")
    return [user_message(text) for text in texts]


def read_messages(name: str, stdin: Callable[[], bytes]) -> list[Content]:
    """The messages of `--messages`: a line each, or a JSON list of texts or contents of ADK.

    Args:
        name: A file, or `-` for the standard input.
        stdin: Reads the standard input.

    Raises:
        Refused: The file can't be read, or has no messages.
    """
    try:
        data = stdin() if name == "-" else read_regular(Path(name), MAX_SETTINGS)
        # Windows' editors begin UTF-8 with a mark, which would be part of the first message.
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        hint = "Name a text file with a message on each line, or with a JSON list of messages."
        raise error(_MESSAGES_CODE, f"The messages in `{name}` can't be read: {reason}.", hint) from problem
    where = "the standard input" if name == "-" else f"`{name}`"
    if text.lstrip().startswith("["):
        messages = _json_messages(text, where)
    else:
        # Not splitlines(): U+2028 and the like, as word processors write them, are inside of a message.
        messages = [user_message(line.removesuffix("\n")) for line in io.StringIO(text, newline=None) if line.strip()]
    if not messages:
        raise error(_MESSAGES_CODE, f"There are no messages in {where}.", "Write a line for each message of the user.")
    return messages


def _json_messages(text: str, where: str) -> list[Content]:
    try:
        items = parse_value(text)
    except ValueError as problem:
        raise error(_MESSAGES_CODE, f"The messages in {where} are not JSON: {problem}.") from problem
    messages = []
    for number, item in enumerate(items, 1):
        try:
            message = user_message(item) if isinstance(item, str) else Content.model_validate(item)
        except ValidationError as problem:
            reason = problem.errors(include_url=False)[0]["msg"]
            raise error(
                _MESSAGES_CODE, f"Message {number} in {where} is neither a text nor a content of ADK: {reason}."
            ) from problem
        if not message.parts or all(part.text is not None and not part.text.strip() for part in message.parts):
            raise error(_MESSAGES_CODE, f"Message {number} in {where} is empty.")
        messages.append(message if message.role else message.model_copy(update={"role": "user"}))
    return messages


_STATE = """E.g. --state '{"user_name": "Mina"}', or `@FILE`."""


def _no_state(text: str) -> Refused:
    what = f"the file `{text[1:]}`" if text.startswith("@") else f"`{shorten(text, 60)}`"
    pair = re.fullmatch(r"([\w:]+)=([^'\"]*)", text)
    hint = f"Write --state '{json.dumps({pair[1]: pair[2]})}'." if pair is not None else _STATE
    return error(_MESSAGES_CODE, f"--state takes a JSON object, not {what}.", hint)


def read_state(text: str) -> dict[str, Any]:
    """The state of `--state`: JSON, or `@FILE`.

    Raises:
        Refused: It is no JSON object.
    """
    try:
        source = read_regular(Path(text[1:]), MAX_SETTINGS).decode("utf-8") if text.startswith("@") else text
        state = parse_value(source)
    except (OSError, ValueError) as problem:
        if not isinstance(problem, OSError):
            raise _no_state(text) from problem
        message = f"--state: `{text[1:]}` can't be read: {problem.strerror}."
        raise error(_MESSAGES_CODE, message, _STATE) from problem
    if not isinstance(state, dict):
        raise _no_state(text)
    return state
