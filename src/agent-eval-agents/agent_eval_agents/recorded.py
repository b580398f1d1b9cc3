"""The driver that answers from a recording, without a process or a model.

A recording is one of these:

- an eval set whose conversations hold an agent's answers, matched by eval id and turn;
- a result of ADK (`.evalset_result.json`), matched by eval id, run and turn;
- the recordings.jsonl.gz of an earlier run, matched by case id, run and turn. If the eval file has been moved since,
  the eval set and the eval id identify the case;
- traces of any framework (docs/traces.md), matched by an attribute, the session's id, or the messages of the user.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from agent_eval_agents.driver import Driver
from agent_eval_agents.protocol import AgentFailure, FailureKind, Owner, Session, SessionRequest
from agent_eval_agents.traces import Place, UnusableConversation
from agent_eval_scoring.core.content import Content, text_of
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.files import MAX_RESULTS, RECORDINGS, read_lines, read_regular
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.masking import Masker
from agent_eval_scoring.core.problem import Problem, docs_page, errors_of
from agent_eval_scoring.core.recording import Recording, RunError
from agent_eval_scoring.core.selectors import nearby_file
from agent_eval_scoring.core.text import first_line, listed, plural, shorten
from agent_eval_scoring.evalset.models import EvalCase, LoadedFile

if TYPE_CHECKING:
    from agent_eval_agents.traces.matching import TracedRuns
    from agent_eval_scoring.evalset.adk_results import AdkCaseResult, AdkSetResult
    from agent_eval_scoring.evalset.json import Document

_AGAIN = "To record again: `agent-eval run --agent DIRECTORY --output-dir out`, then `recorded:out`."
RECORDED = "recorded:"
"""Begins the name of a recorded agent: `recorded:FILE`."""


class RecordedAgent:
    """Answers as the recording says (implements `protocol.Agent`)."""

    metrics: None = None
    """A recording has no code."""

    def __init__(self, source: Path, masker: Masker | None = None, name: str | None = None) -> None:
        """Reads nothing yet.

        Args:
            source: An eval set, a recordings file (`.jsonl` or `.jsonl.gz`), or traces; or a directory that holds
                recordings or traces.
            masker: Of what is recorded.
            name: What messages call it: its path, as it was written.
        """
        self._path = source
        self._source = name or str(source)
        self._masker = masker or Masker()
        # Recordings are kept in a temporary file: 10,000 cases as models would take hundreds of megabytes.
        self._spool: IO[bytes] | None = None
        self._index: dict[Key, tuple[int, int]] = {}
        self._eval_set = False
        self._traces: TracedRuns | None = None

    @property
    def provenance(self) -> Mapping[str, str]:
        """Names the driver and the recording."""
        return {"driver": "recorded", "recording": str(self._path)}

    async def start(self) -> None:
        """Reads the recording.

        Raises:
            AgentFailure: The recording is missing or unreadable.
        """
        if self._spool is not None or self._traces is not None:
            return
        path = recording_file(self._path)
        try:
            self._traces = traces_of(path, self._source)
            if self._traces is not None:
                return
            self._eval_set = not holds_runs(path)
            self._spool = tempfile.TemporaryFile(prefix="agent-eval-")  # noqa: SIM115 - closed by close()
            for keys, data, _ in entries(path):
                self._index |= dict.fromkeys(keys, (self._spool.tell(), len(data)))
                self._spool.write(data)
        except UnusableRecording as error:
            await self.close()
            raise AgentFailure(
                f"The recording {self._source} can't be used: {error.where}{error}",
                kind=FailureKind.IMPORT,
                hint=error.hint,
            ) from error

    async def open(self, request: SessionRequest) -> Session:
        """Finds the recording of one run.

        Raises:
            AgentFailure: The recording does not have that run.
        """
        case = f"case `{request.eval_id}`"
        if self._traces is not None:
            return self._traced(self._traces, request, case)
        keys: list[Key] = [(None, request.eval_id, request.run), (None, request.eval_id, None)]
        if not self._eval_set:
            case += f" of eval set `{request.eval_set_id}`, run {request.run + 1}"
            # The case id first: it is unique. The other key is for an eval file that was moved since.
            keys = [(None, request.case_id, request.run), (request.eval_set_id, request.eval_id, request.run)]
        position = next((self._index[key] for key in keys if key in self._index), None)
        if position is None:
            # Without the case, which reports name beside it: then those without an answer have one cause.
            what = "case with this id" if self._eval_set else f"run {request.run + 1} of this case"
            ids = dict.fromkeys(f"`{name}`" for of, name, _ in self._index if of is not None or self._eval_set)
            hint = f"It has {listed([*ids], 5)}: select one of these, or correct the id. {_AGAIN}" if ids else _AGAIN
            raise AgentFailure(f"The recording {self._source} has no {what}", kind=FailureKind.NO_ANSWER, hint=hint)
        assert self._spool is not None
        offset, length = position
        self._spool.seek(offset)
        # A recording of another job may have this job's secrets, e.g. in what a tool returned.
        data = self._masker.json(self._spool.read(length))
        try:
            if self._eval_set:
                turns = _turns(data)
                return _RecordedSession(self._source, case, turns, None, shows_tool_calls=True, masker=self._masker)
            recording = Recording.model_validate_json(data)
        except ValueError as error:
            raise AgentFailure(
                f"The recording {self._source} has an invalid {case}: {shorten(str(error), 500)}",
                kind=FailureKind.NO_ANSWER,
            ) from error
        return _RecordedSession(
            self._source,
            case,
            recording.invocations,
            recording.error,
            shows_tool_calls=recording.calls_visible,
            unfinished=recording.unfinished,
            masker=self._masker,
        )

    def _traced(self, traces: TracedRuns, request: SessionRequest, case: str) -> Session:
        messages = () if request.case is None else request.case.user_texts
        runs, _ = traces.of(request.case_id, request.eval_id, messages)
        message, hint = "", None
        if not runs:
            message, hint = traces.nothing(messages)
            message = f"The traces {traces.name} have {message}"
        elif request.run >= len(runs):
            message = f"The traces {traces.name} have {plural(len(runs), 'conversation')} of {case}"
            message += f", none for run {request.run + 1}"
            hint = f"Trace the agent more often, or set `num-runs` to {len(runs)}."
        elif not runs[request.run].content:
            message, hint = runs[request.run].unusable
            message = f"The traces {traces.name} have a conversation of {case} that can't be read: {message}"
        if message:
            raise AgentFailure(message, kind=FailureKind.NO_ANSWER, hint=hint)
        run = runs[request.run]
        content = json.loads(self._masker.json(run.content))
        return _RecordedSession(
            self._source,
            case,
            [Invocation.model_validate(turn) for turn in content["turns"]],
            content["error"] and RunError.model_validate(content["error"]),
            shows_tool_calls=run.shows_calls,
            masker=self._masker,
        )

    async def close(self) -> None:
        """Deletes the temporary file."""
        self._traces = None
        if self._spool is not None:
            self._spool.close()
            self._spool = None
        self._index.clear()


class _RecordedSession:
    """One recorded conversation (implements `protocol.Session`)."""

    def __init__(
        self,
        source: str,
        case: str,
        turns: list[Invocation],
        error: RunError | None,
        *,
        shows_tool_calls: bool,
        unfinished: Invocation | None = None,
        masker: Masker,
    ) -> None:
        self._source = source
        self._masker = masker
        self._case = case
        self._turns = turns
        self._error = error
        self._unfinished = unfinished
        self._next = 0
        self.shows_tool_calls = shows_tool_calls
        """As the recorded session did; an eval set holds all calls."""

    async def send(self, content: Content, *, timeout: float) -> Invocation:
        """Returns the next turn at once; the timeout is ignored.

        Raises:
            AgentFailure: The recorded run failed at this turn; or it has no such turn; or its turn answers another
                message, because the eval file was changed after the recording.
        """
        turn = self._next
        self._next += 1
        if turn >= len(self._turns):
            if self._error is not None:
                raise _failure(self._error, self._unfinished)
            raise AgentFailure(
                f"The recording {self._source} has no turn {turn + 1} of {self._case}",
                kind=FailureKind.NO_ANSWER,
                hint=_AGAIN,
            )
        recorded = self._turns[turn]
        message, recorded_message = self._masker.text(text_of(content).strip()), text_of(recorded.user_content).strip()
        # Media alone have no text to compare.
        if message and recorded_message and message != recorded_message:
            raise AgentFailure(
                f"The recording {self._source} answers another message in turn {turn + 1} of {self._case}: "
                f"{first_line(recorded_message)!r} instead of {first_line(message)!r}",
                kind=FailureKind.NO_ANSWER,
                hint=f"One of both was changed: write the same text in both. {_AGAIN}",
            )
        return recorded

    async def close(self) -> None:
        """Releases the turns."""
        self._turns = []


def _failure(error: RunError, unfinished: Invocation | None) -> AgentFailure:
    """The recorded failure as it was raised."""
    kinds = {str(kind): kind for kind in FailureKind}
    failure = AgentFailure(
        error.message,
        kind=kinds.get(error.kind, FailureKind.NO_ANSWER),
        # A run that the gate stopped (a budget, a signal) says nothing about the agent.
        owner=Owner.AGENT if error.by_agent else Owner.PROVIDER,
        traceback=error.traceback,
        log_tail=error.log_tail,
        hint=error.hint,
    )
    failure.raised, failure.waited, failure.unfinished = error.raised, error.waited, unfinished
    return failure


def check_recording(
    recording: str, source: Path, files: Sequence[LoadedFile], runs: int | None = None
) -> list[Problem]:
    """Reads a recording before anything runs, and finds the cases that can't be matched with it.

    Args:
        recording: The recording's name for messages.
        source: An eval set, a recordings file, traces, or a directory that holds one of them.
        files: The eval files that it answers.
        runs: How many runs of each case there will be; None if that is unknown.

    Returns:
        One error if the recording can't be used. Otherwise one error for each case whose id is not in the recordings
        file and whose eval set and eval id match several cases.
    """
    from agent_eval_agents.recorded_checks import check_traces, silent_turns, without_answers

    path = recording_file(source)
    recorded: dict[tuple[str, str], set[str]] = {}
    silent: list[tuple[int, str, int]] = []
    try:
        if (traces := traces_of(path, recording)) is not None:
            return [problem for file in files for problem in check_traces(recording, traces, file, files, runs)]
        expected = {} if holds_runs(path) else {case.eval_id: case for file in files for case in file.cases}
        for index, ([(set_id, eval_id, _), *own], _, case) in enumerate(entries(path)):
            recorded.setdefault((str(set_id), eval_id), set()).update(case_id for _, case_id, _ in own)
            silent += [(index, eval_id, number) for number in silent_turns(case, expected.get(eval_id))]
    except UnusableRecording as error:
        message = f"The recording {recording} can't be used: {error}."
        at, line = (None, None) if error.place is None else (error.place.file, error.place.line)
        return [Problem(code="recording-unusable", message=message, hint=error.hint, file=at, line=line)]
    if not holds_runs(path):
        return list(without_answers(recording, path, silent, _AGAIN))  # It answers every case of the same eval id.
    requested: dict[tuple[str, str], dict[str, LoadedFile]] = {}
    for file in files:
        for case in file.cases:
            key = (file.eval_set.eval_set_id, case.eval_id)
            requested.setdefault(key, {})[f"{file.path}:{case.eval_id}"] = file
    problems = []
    for key, cases in requested.items():
        recorded_ids = recorded.get(key)
        # One case here and one in the recording: the file was moved.
        if recorded_ids is not None and not (len(cases) == 1 and len(recorded_ids) <= 1):
            candidates = sorted(recorded_ids | cases.keys())
            problems += [
                _ambiguous(recording, file, key, candidates)
                for case_id, file in cases.items()
                if case_id not in recorded_ids
            ]
    return problems


def _ambiguous(recording: str, file: LoadedFile, key: tuple[str, str], candidates: Sequence[str]) -> Problem:
    set_id, eval_id = key
    return Problem(
        code="recording-ambiguous",
        message=f"The recording {recording} can't be matched with the case `{eval_id}` of eval set `{set_id}`: it "
        f"could belong to {' or '.join(candidates[:5])}.",
        hint="Record it again, or give each eval set its own id.",
        file=file.path,
    )


def _turns(data: bytes) -> list[Invocation]:
    case = EvalCase.model_validate_json(data)
    if case.conversation is None:
        raise ValueError("it is a scenario, which has no answers of an agent")
    if case.final_session_state and case.conversation:
        case.conversation[-1].session_state = case.final_session_state
    return case.conversation


def _refuse(source: str, root: Path, origin: str) -> Problem | None:
    """See `Driver.refuse`."""
    from agent_eval_agents.traces.files import trace_files

    path = root / source
    if source and (path.is_file() or (path / RECORDINGS).is_file() or (path.is_dir() and trace_files(path))):
        return None
    wrong = "is not a regular file" if source and path.exists() else "does not exist"
    name = f"`{source}`" if source != source.strip() else source
    wrong = f"holds no {RECORDINGS} and no traces" if source and path.is_dir() else wrong
    stripped = source.strip()
    near = nearby_file(root / stripped, 0.75) if stripped and not (root / stripped).exists() else None
    meant = stripped if (root / stripped).is_file() else near and Path(stripped).with_name(near).as_posix()
    hint = f"Did you mean `recorded:{meant}`?" if meant else _HINT
    if path.is_dir():
        hint += " Without one, run the agent first: `agent-eval run --agent DIRECTORY`."
    message = f"{origin} names the recording {name}, which {wrong}"
    if not source:
        message = f"{origin} is `{RECORDED}` without a file"
    return Problem(code="recording-not-found", message=message, hint=hint)


DRIVER = Driver(
    prefix=RECORDED,
    runs_here=False,
    reads_file=True,
    repeatable=False,
    create=lambda spec: RecordedAgent(spec.context.root / spec.source, spec.context.masker, spec.source),
    refuse=_refuse,
    check=lambda source, root, files, runs: check_recording(source, root / source, files, runs),
)


Key = tuple[str | None, str, int | None]
"""Eval set id, eval id, run. The recordings of an eval set answer every set and every run: both are None. A case id is
written as an eval id without an eval set. The results of ADK have an eval id and a run."""


class UnusableRecording(AgentEvalError):
    """A file that is not a recording, or can't be read. The message is a clause without a full stop."""

    def __init__(self, message: str, hint: str | None = None, place: Place | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.place = place

    @property
    def where(self) -> str:
        """File and line for a message; "" if they are unknown."""
        return f"{self.place.file}:{self.place.line}: " if self.place is not None and self.place.line else ""


_HINT = "`recorded:FILE` takes an eval set, a result of ADK, traces, or the output directory of an earlier run."


def recording_file(source: Path) -> Path:
    """The file of a recording that may be named by its directory, or the directory of traces."""
    return source / RECORDINGS if source.is_dir() and (source / RECORDINGS).exists() else source


def traces_of(path: Path, name: str) -> TracedRuns | None:
    """The conversations of traces; None for any other recording.

    Raises:
        UnusableRecording: They can't be read.
    """
    from agent_eval_agents.traces.matching import read_traces

    try:
        traces = read_traces(path, name)
    except UnusableConversation as error:
        raise UnusableRecording(first_line(str(error), 500).rstrip("."), error.hint, error.place) from error
    except OSError as error:
        raise UnusableRecording(first_line(error.strerror or str(error), 500).rstrip("."), _HINT) from error
    except ValueError as error:
        raise UnusableRecording(first_line(str(error), 500).rstrip("."), "Name a part of the traces.") from error
    if traces is not None and not traces.runs:
        raise UnusableRecording(
            "its spans have no turn of an agent", f"{docs_page('traces')} names the spans that are read."
        )
    return traces


def holds_runs(path: Path) -> bool:
    """Whether the file's name is that of a recordings file. Any other file is an eval set."""
    return path.name.endswith((".jsonl", ".jsonl.gz"))


_Entry = tuple[list[Key], bytes, Any]
"""Its keys, its JSON text, and the case of an eval set in ADK's current format as it is there; None for any other."""


def entries(path: Path) -> Iterator[_Entry]:
    """The entries of a recording: runs, or the cases of an eval set.

    Raises:
        UnusableRecording: The file is empty, has another format, or can't be read.
    """
    empty = True
    try:
        for entry in _lines(path) if holds_runs(path) else _cases(path):
            empty = False
            yield entry
    except OSError as error:
        raise UnusableRecording(first_line(error.strerror or str(error), 500).rstrip("."), _HINT) from error
    except ValueError as error:
        raise UnusableRecording(first_line(str(error), 500).rstrip("."), _HINT) from error
    if empty:
        what = "runs" if holds_runs(path) else "cases"
        raise UnusableRecording(f"it has no {what}" if path.stat().st_size else "it is empty", "Record it again.")


def _lines(path: Path) -> Iterator[_Entry]:
    """The runs of a recordings file. If a run appears twice it was repeated, and the later line counts."""
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            facts = json.loads(line)
            # Only the keys: a line becomes a model when its case runs.
            set_id, eval_id, run, case_id = facts["eval_set_id"], facts["eval_id"], facts["run"], facts.get("case_id")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            set_id = None
        if not (isinstance(set_id, str) and isinstance(eval_id, str) and isinstance(run, int)):
            raise ValueError(f"line {number} is not the recording of a run")
        keys: list[Key] = [(set_id, eval_id, run)]
        if isinstance(case_id, str):
            keys.append((None, case_id, run))
        yield keys, line, None


_LIST = re.compile(r'"eval_cases"\s*:\s*\[\s*')
_NEXT = re.compile(r"\s*(?:,\s*(?=\{)|(?=\]))")


def _cases(path: Path) -> Iterator[_Entry]:
    """The cases of an eval set, each as its JSON text."""
    try:
        text = read_regular(path, MAX_RESULTS).decode("utf-8-sig", "surrogatepass")
        for case, own in _items(text):
            if not isinstance(case["eval_id"], str):
                raise TypeError("eval_id")
            # Without escapes the text is searched for secrets as it is.
            yield [(None, case["eval_id"], None)], (json.dumps(case) if "\\" in own else own).encode(), case
    except (ValueError, LookupError, TypeError, RecursionError):
        # It has all cases, also those that were returned before the defect.
        yield from _converted(read_regular(path, MAX_RESULTS), path.name)


def _items(text: str) -> Iterator[tuple[Any, str]]:
    """The items of `eval_cases` with their texts, one after another: all at once would take 100 MB for 10,000 cases.

    Raises:
        ValueError, LookupError, RecursionError: It is not JSON, or the list isn't there once.
    """
    beginning = _LIST.search(text)
    if beginning is None or json.loads(f"{text[: beginning.end()]}]}}").get("eval_cases") != []:
        raise ValueError("no eval set")
    decode, at = json.JSONDecoder().raw_decode, beginning.end()
    while text[at] != "]":
        item, end = decode(text, at)
        yield item, text[at:end]
        if (following := _NEXT.match(text, end)) is None:
            raise ValueError("no list")
        at = following.end()
    if "eval_cases" in json.loads(f'{{"": [{text[at:]}'):
        raise ValueError("two lists")


def _converted(data: bytes, name: str) -> Iterator[_Entry]:
    """The cases of an eval set in one of ADK's older formats. Reports precisely what is wrong with any other file."""
    from agent_eval_scoring.evalset.adk_results import adk_result_value, adk_set_result
    from agent_eval_scoring.evalset.json import parse_document
    from agent_eval_scoring.evalset.parse import is_dataset, read_eval_file

    document, problems = parse_document(data, name)
    if document is not None and is_dataset(document.value):
        yield from _traces(document)
        return
    result = None if document is None else adk_result_value(document.value)
    if result is not None:
        yield from _results(adk_set_result(result))
        return
    file = None
    if document is not None:
        file, problems = read_eval_file(document, session=None)
    error = next(iter(errors_of(problems)), None)
    if error is not None and error.code == "not-an-eval-set":
        raise UnusableRecording("it is not a recording", f"{_HINT} {error.hint or ''}")
    if error is not None:
        line = f" (line {error.line})" if error.line is not None else ""
        hint = _HINT if error.code == "not-json" else error.hint
        raise UnusableRecording(f"{error.message.rstrip('.')}{line}", hint)
    assert file is not None
    for case in file.cases.values():
        yield [(None, case.eval_id, None)], case.model_dump_json(exclude_unset=True).encode(), None


def _traces(document: Document) -> Iterator[_Entry]:
    """The conversations of what `agents-cli eval generate` writes."""
    from agent_eval_agents.adk.events import to_invocation
    from agent_eval_agents.messages import TurnFacts
    from agent_eval_scoring.evalset.parse.dataset import answered_cases

    seen: set[str] = set()
    for eval_id, message, events in answered_cases(document):
        # Of two answers nobody knows which one is meant.
        if eval_id in seen:
            raise UnusableRecording(f"it has several cases `{eval_id}`", "Name a single file of traces.")
        seen.add(eval_id)
        said = [event.model_dump(mode="json", exclude_none=True, include={"author", "content"}) for event in events]
        case = EvalCase(eval_id=eval_id, conversation=[to_invocation(said, message, TurnFacts())])
        yield [(None, eval_id, None)], case.model_dump_json(exclude_none=True).encode(), None


def _results(result: AdkSetResult) -> Iterator[_Entry]:
    """The conversations of ADK's results as cases. The results of one case are its runs, in order."""
    runs: dict[str, list[AdkCaseResult]] = {}
    for case in result.eval_case_results:
        runs.setdefault(case.eval_id, []).append(case)
    for eval_id, cases in runs.items():
        for run, case in enumerate(cases):
            turns = [turn.actual_invocation for turn in case.eval_metric_result_per_invocation]
            data = EvalCase(eval_id=eval_id, conversation=turns).model_dump_json(exclude_none=True).encode()
            # One result answers every run; of several each answers its own, so that a run too many is an error.
            every: list[Key] = [(None, eval_id, None)] if len(cases) == 1 else []
            yield [(None, eval_id, run), *every], data, None
