"""The driver that answers from a recording: no process, no model, no waiting.

A recording is an eval set whose conversations hold what an agent did (matched by eval id and turn), or the
recordings.jsonl.gz of an earlier run of ours (matched by case id, run and turn; where the eval file has been moved
since, by eval set, eval id, run and turn).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from json.decoder import JSONDecodeError, JSONDecoder
from pathlib import Path
from typing import IO, TYPE_CHECKING

from agent_eval.agents.protocol import AgentFailure, Capabilities, FailureKind, Owner, Session, SessionRequest
from agent_eval.core.content import Content, text_of
from agent_eval.core.files import MAX_RESULTS, read_lines, read_regular
from agent_eval.core.problem import Problem, Severity
from agent_eval.core.text import first_line, shorten
from agent_eval.results import Recording, RunError

if TYPE_CHECKING:
    from agent_eval.core.invocation import Invocation
    from agent_eval.evalset.models import LoadedFile

RECORDINGS = "recordings.jsonl.gz"
"""Its name in an output directory."""
_WHITE = " \t\n\r"

_Key = tuple[str | None, str, int | None]
"""Eval set, eval id, run; an eval set is one recording for all sets and runs. A case id and a run have no eval set."""


class RecordedAgent:
    """Answers as the recording says (implements `protocol.Agent`)."""

    def __init__(self, source: Path) -> None:
        """Reads nothing yet.

        Args:
            source: An eval set, a recordings file (`.jsonl` or `.jsonl.gz`), or a directory that holds one.
        """
        self._source = source
        # What was read lies in a file without a name: 10,000 cases as models would take hundreds of megabytes.
        self._spool: IO[bytes] | None = None
        self._index: dict[_Key, tuple[int, int]] = {}
        self._eval_set = False

    @property
    def capabilities(self) -> Capabilities:
        """A recording has the details of the agent that made it; nothing reaches that agent any more."""
        return Capabilities(app_details=True)

    @property
    def provenance(self) -> Mapping[str, str]:
        """Names the driver and the recording."""
        return {"driver": "recorded", "recording": str(self._source)}

    async def start(self) -> None:
        """Reads the recording.

        Raises:
            AgentFailure: It is missing or unreadable.
        """
        if self._spool is not None:
            return
        path = _file(self._source)
        self._eval_set = not _holds_runs(path)
        self._spool = tempfile.TemporaryFile(prefix="agent-eval-")  # noqa: SIM115 - closed by close()
        try:
            for keys, data in _entries(path):
                self._index |= dict.fromkeys(keys, (self._spool.tell(), len(data)))
                self._spool.write(data)
        except UnusableRecording as error:
            await self.close()
            raise AgentFailure(
                f"The recording {path} can't be used: {error}", kind=FailureKind.IMPORT, hint=error.hint
            ) from error

    async def open(self, request: SessionRequest) -> Session:
        """Finds the recording of one run.

        Raises:
            AgentFailure: There is none.
        """
        wanted = f"case `{request.eval_id}`"
        keys: list[_Key] = [(None, request.eval_id, None)]
        if not self._eval_set:
            wanted += f" of eval set `{request.eval_set_id}`, run {request.run + 1}"
            keys = [(None, request.case_id, request.run), (request.eval_set_id, request.eval_id, request.run)]
        found = next((self._index[key] for key in keys if key in self._index), None)
        if found is None:
            raise AgentFailure(
                f"The recording {self._source} has no {wanted}",
                kind=FailureKind.NO_ANSWER,
                hint="Record it again, or leave the case out.",
            )
        assert self._spool is not None
        self._spool.seek(found[0])
        data = self._spool.read(found[1])
        try:
            if self._eval_set:
                return _RecordedSession(self._source, wanted, _turns(data), None)
            recording = Recording.model_validate_json(data)
        except ValueError as error:
            raise AgentFailure(
                f"The recording {self._source} has a broken {wanted}: {shorten(str(error), 500)}",
                kind=FailureKind.NO_ANSWER,
            ) from error
        return _RecordedSession(self._source, wanted, recording.invocations, recording.error)

    async def close(self) -> None:
        """Gives the file up."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None
        self._index.clear()


class _RecordedSession:
    """One recorded conversation (implements `protocol.Session`)."""

    def __init__(self, source: Path, case: str, turns: list[Invocation], error: RunError | None) -> None:
        self._source = source
        self._case = case
        self._turns = turns
        self._error = error
        self._next = 0

    async def send(self, content: Content, *, timeout: float) -> Invocation:
        """Gives the next turn. Takes no time, so the timeout doesn't matter.

        Raises:
            AgentFailure: The recorded run failed here; or it has no such turn; or it answers another message, which
                means that the eval file was changed after the recording.
        """
        turn = self._next
        self._next += 1
        if turn >= len(self._turns):
            if self._error is not None:
                raise _failure(self._error)
            raise AgentFailure(
                f"The recording {self._source} has no turn {turn + 1} of {self._case}",
                kind=FailureKind.NO_ANSWER,
                hint="Record it again.",
            )
        recorded = self._turns[turn]
        said, was_said = text_of(content).strip(), text_of(recorded.user_content).strip()
        if said and was_said and said != was_said:
            raise AgentFailure(
                f"The recording {self._source} answers another message in turn {turn + 1} of {self._case}: "
                f"{first_line(was_said)!r} instead of {first_line(said)!r}",
                kind=FailureKind.NO_ANSWER,
                hint="The eval file was changed after the recording; record it again.",
            )
        return recorded

    async def close(self) -> None:
        """Lets go of the turns."""
        self._turns = []


def _failure(error: RunError) -> AgentFailure:
    """The recorded failure, as it was raised then."""
    kinds = {str(kind): kind for kind in FailureKind}
    return AgentFailure(
        error.message,
        kind=kinds.get(error.kind, FailureKind.NO_ANSWER),
        # What the gate itself broke off (a budget, a signal) says nothing about the agent, nor does the recording.
        owner=Owner.AGENT if error.owner == "agent" else Owner.PROVIDER,
        traceback=error.traceback,
        log_tail=error.log_tail,
        hint=error.hint,
    )


class UnusableRecording(Exception):
    """A file that is no recording, or can't be read; the message is a clause without a full stop."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        """`hint` says what the file is instead, or what to do."""
        super().__init__(message)
        self.hint = hint


_HINT = "`recorded:FILE` takes an eval set, or the output directory of an earlier run."


def _file(source: Path) -> Path:
    return source / RECORDINGS if source.is_dir() else source


def _holds_runs(path: Path) -> bool:
    """Whether a file is called like recordings of ours; others are eval sets."""
    return path.name.endswith((".jsonl", ".jsonl.gz"))


def _entries(path: Path) -> Iterator[tuple[list[_Key], bytes]]:
    """What a recording holds: runs, or the cases of an eval set.

    Raises:
        UnusableRecording: It holds nothing, something else, or can't be read.
    """
    empty = True
    try:
        for entry in _lines(path) if _holds_runs(path) else _cases(path):
            empty = False
            yield entry
    except OSError as error:
        raise UnusableRecording(first_line(error.strerror or str(error), 500).rstrip("."), _HINT) from error
    except ValueError as error:
        raise UnusableRecording(first_line(str(error), 500).rstrip("."), _HINT) from error
    if empty:
        raise UnusableRecording("it holds no run" if _holds_runs(path) else "it has no cases", "Record it again.")


def _lines(path: Path) -> Iterator[tuple[list[_Key], bytes]]:
    """The runs of a recordings file. A run that stands there twice was repeated: the later line counts."""
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            facts = json.loads(line)
            set_id, eval_id, run, case_id = facts["eval_set_id"], facts["eval_id"], facts["run"], facts.get("case_id")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            set_id = None
        if not (isinstance(set_id, str) and isinstance(eval_id, str) and isinstance(run, int)):
            raise ValueError(f"line {number} is no recording of a run")
        keys: list[_Key] = [(set_id, eval_id, run)]
        if isinstance(case_id, str):
            keys.append((None, case_id, run))
        yield keys, line


def _cases(path: Path) -> Iterator[tuple[list[_Key], bytes]]:
    """The cases of an eval set, each as the JSON that stands in the file."""
    data = read_regular(path, MAX_RESULTS)
    try:
        yield from _case_texts(data.decode("utf-8-sig", "surrogatepass"))
    except (ValueError, IndexError, KeyError, TypeError, RecursionError):
        yield from _converted(data, path.name)


def _case_texts(text: str) -> Iterator[tuple[list[_Key], bytes]]:
    """Walks through the JSON of an eval set without building more than one case at a time."""
    decoder = JSONDecoder()
    position = _expect(text, 0, "{")
    found = False
    while True:
        key, position = decoder.raw_decode(text, _skip(text, position))
        position = _skip(text, _expect(text, position, ":"))
        if key == "eval_cases":
            found = True
            position = _skip(text, _expect(text, position, "["))
            while text[position] != "]":
                case, end = decoder.raw_decode(text, position)
                eval_id = case["eval_id"]
                if not isinstance(eval_id, str):
                    raise TypeError("eval_id")
                yield [(None, eval_id, None)], text[position:end].encode("utf-8", "surrogatepass")
                position = _skip(text, end)
                if text[position] == ",":
                    position = _skip(text, position + 1)
            position += 1
        else:
            _, position = decoder.raw_decode(text, position)
        position = _skip(text, position)
        if text[position] == "}":
            break
        position = _expect(text, position, ",")
    if not found:
        raise KeyError("eval_cases")


def _skip(text: str, position: int) -> int:
    while text[position] in _WHITE:
        position += 1
    return position


def _expect(text: str, position: int, char: str) -> int:
    """The position behind a character, after white space."""
    position = _skip(text, position)
    if text[position] != char:
        raise JSONDecodeError(f"Expecting {char!r}", text, position)
    return position + 1


def _converted(data: bytes, name: str) -> Iterator[tuple[list[_Key], bytes]]:
    """The cases of a file in one of ADK's older forms; and the place to say precisely what is wrong with a file."""
    from agent_eval.evalset.json import parse_document
    from agent_eval.evalset.parse import read_eval_file

    document, problems = parse_document(data, name)
    file = None
    if document is not None:
        file, problems = read_eval_file(document, session=None)
    wrong = next((problem for problem in problems if problem.severity is Severity.ERROR), None)
    if wrong is not None:
        where = f" (line {wrong.line})" if wrong.line is not None else ""
        raise UnusableRecording(f"{wrong.message.rstrip('.')}{where}", wrong.hint)
    assert file is not None
    for case in file.cases.values():
        yield [(None, case.eval_id, None)], case.model_dump_json(exclude_unset=True).encode()


def check_recording(recording: str, source: Path, files: Sequence[LoadedFile]) -> list[Problem]:
    """Reads a recording before anything runs, and finds the cases that it can't be matched with.

    Args:
        recording: The agent, as the user named it.
        source: An eval set, a recordings file, or a directory that holds one.
        files: The eval files that it answers for.

    Returns:
        An error if it can't be used; else one for each case that isn't in the recordings file by its own id, and that
        by its eval set and eval id could be several cases.
    """
    path = _file(source)
    recorded: dict[tuple[str, str], set[str]] = {}
    try:
        for [(set_id, eval_id, _), *own], _ in _entries(path):
            recorded.setdefault((str(set_id), eval_id), set()).update(case_id for _, case_id, _ in own)
    except UnusableRecording as error:
        message = f"The recording {recording} can't be used: {error}."
        return [Problem(severity=Severity.ERROR, code="recording-unusable", message=message, hint=error.hint)]
    if not _holds_runs(path):
        return []  # An eval set answers every case of the same eval id.
    wanted: dict[tuple[str, str], dict[str, LoadedFile]] = {}
    for file in files:
        for selected in file.cases:
            key = (file.eval_set.eval_set_id, selected.case.eval_id)
            wanted.setdefault(key, {})[f"{file.path}:{selected.case.eval_id}"] = file
    problems = []
    for key, cases in wanted.items():
        there = recorded.get(key)
        # One case here and one there: the file was moved.
        if there is not None and not (len(cases) == 1 and len(there) <= 1):
            claims = sorted(there | cases.keys())
            problems += [
                _ambiguous(recording, file, key, claims) for case_id, file in cases.items() if case_id not in there
            ]
    return problems


def _ambiguous(recording: str, file: LoadedFile, key: tuple[str, str], claims: Sequence[str]) -> Problem:
    set_id, eval_id = key
    return Problem(
        severity=Severity.ERROR,
        code="recording-ambiguous",
        message=f"The recording {recording} can't be matched with the case `{eval_id}` of eval set `{set_id}`: it "
        f"could belong to {' or '.join(claims[:5])}.",
        hint="Record it again, or give each eval set an id of its own.",
        file=file.path,
    )


def _turns(data: bytes) -> list[Invocation]:
    from agent_eval.evalset.models import EvalCase

    case = EvalCase.model_validate_json(data)
    if case.conversation is None:
        raise ValueError("it is a scenario, which holds nothing that an agent did")
    return case.conversation
