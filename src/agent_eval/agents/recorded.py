"""The driver that answers from a recording: no process, no model, no waiting.

A recording is an eval set whose conversations hold what an agent did (matched by eval id and turn), or the
recordings.jsonl.gz of an earlier run of ours (matched by eval set, eval id, run and turn).
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator, Mapping
from json.decoder import JSONDecodeError, JSONDecoder
from pathlib import Path
from typing import IO, TYPE_CHECKING

from agent_eval.agents.protocol import AgentFailure, Capabilities, FailureKind, Owner, Session, SessionRequest
from agent_eval.core.content import Content, text_of
from agent_eval.core.text import first_line, shorten
from agent_eval.results.recording import Recording, RunError

if TYPE_CHECKING:
    from agent_eval.core.invocation import Invocation

RECORDINGS = "recordings.jsonl.gz"
"""Its name in an output directory."""
_WHITE = " \t\n\r"

_Key = tuple[str | None, str, int | None]
"""Eval set, eval id, run; an eval set is one recording for all sets and runs."""


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
        path = self._source / RECORDINGS if self._source.is_dir() else self._source
        self._eval_set = not path.name.endswith((".jsonl", ".jsonl.gz"))
        self._spool = tempfile.TemporaryFile(prefix="agent-eval-")  # noqa: SIM115 - closed by close()
        try:
            for key, data in _cases(path) if self._eval_set else _lines(path):
                self._index[key] = (self._spool.tell(), len(data))
                self._spool.write(data)
        except FileNotFoundError as error:
            raise AgentFailure(
                f"The recording {path} does not exist",
                kind=FailureKind.IMPORT,
                hint="`recorded:FILE` takes an eval set, or the output directory of an earlier run.",
            ) from error
        except (OSError, EOFError, ValueError) as error:
            raise AgentFailure(
                f"The recording {path} can't be read: {first_line(str(error), 500)}", kind=FailureKind.IMPORT
            ) from error

    async def open(self, request: SessionRequest) -> Session:
        """Finds the recording of one run.

        Raises:
            AgentFailure: There is none.
        """
        wanted = f"case `{request.eval_id}`"
        key: _Key = (None, request.eval_id, None)
        if not self._eval_set:
            wanted += f" of eval set `{request.eval_set_id}`, run {request.run + 1}"
            key = (request.eval_set_id, request.eval_id, request.run)
        found = self._index.get(key)
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


def _lines(path: Path) -> Iterator[tuple[_Key, bytes]]:
    """The runs of a recordings file. A run that stands there twice was repeated: the later line counts."""
    with gzip.open(path) if path.name.endswith(".gz") else path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            facts = json.loads(line)
            try:
                yield (facts["eval_set_id"], facts["eval_id"], facts["run"]), line
            except (KeyError, TypeError) as error:
                raise ValueError(f"line {number} is no recording of a run") from error


def _cases(path: Path) -> Iterator[tuple[_Key, bytes]]:
    """The cases of an eval set, each as the JSON that stands in the file."""
    text = path.read_bytes().decode("utf-8-sig", "surrogatepass")
    try:
        yield from _case_texts(text)
    except (JSONDecodeError, IndexError, KeyError, TypeError):
        yield from _converted(path)


def _case_texts(text: str) -> Iterator[tuple[_Key, bytes]]:
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
                yield (None, case["eval_id"], None), text[position:end].encode("utf-8", "surrogatepass")
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


def _converted(path: Path) -> Iterator[tuple[_Key, bytes]]:
    """The cases of a file in one of ADK's older forms; and the place to say precisely what is wrong with a file."""
    from agent_eval.evalset.loading import load_suite

    suite = load_suite(path.parent, [path.name])
    if suite.errors:
        raise ValueError(str(suite.errors[0]))
    for file in suite.files:
        for selected in file.cases:
            yield (None, selected.case.eval_id, None), selected.case.model_dump_json(exclude_unset=True).encode()


def _turns(data: bytes) -> list[Invocation]:
    from agent_eval.evalset.schema import EvalCase

    case = EvalCase.model_validate_json(data)
    if case.conversation is None:
        raise ValueError("it is a scenario, which holds nothing that an agent did")
    return case.conversation
