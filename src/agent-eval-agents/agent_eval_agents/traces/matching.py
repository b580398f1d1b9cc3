"""Which conversations of traces answer which case."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval_agents.http.failures import agent_error
from agent_eval_agents.traces.conversations import TracedConversation, conversations_of
from agent_eval_agents.traces.files import LARGEST, trace_files, trace_values
from agent_eval_agents.traces.place import UnusableConversation
from agent_eval_agents.traces.spans import spans_of
from agent_eval_agents.traces.turns import asked
from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.problem import docs_page
from agent_eval_scoring.core.recording import RunError
from agent_eval_scoring.core.text import first_line, listed, plural

HINT = f"Set `agent_eval.case.id` on a span, or make the eval id the session's id ({docs_page('traces')})."
_RUN = re.compile(r"#\d{1,6}\Z")


@dataclass(frozen=True, kw_only=True)
class TracedRun:
    """A conversation, read."""

    names: frozenset[str]
    """What its case or its session may be called."""
    by_case: bool
    """Whether a span names the case."""
    trace_ids: Sequence[str]
    said: Sequence[str]
    """What the user said in each turn but one that failed."""
    turns: int
    """The failed one, too."""
    content: bytes
    """Its turns and its error as JSON; empty if it can't be read."""
    shows_calls: bool = True
    unusable: tuple[str, str] = ("", "")
    """Why it can't be read, and what to do."""


@dataclass(kw_only=True)
class TracedRuns:
    """All conversations of traces, in the order in which they began."""

    name: str
    runs: list[TracedRun] = field(default_factory=list)

    def of(self, case_id: str, eval_id: str, messages: Sequence[str]) -> tuple[list[TracedRun], bool]:
        """The conversations of a case, and whether they are known by an id: of the case, or else of the session.

        Otherwise they are those whose messages of the user are the case's, or else of which the first one is. A
        conversation with the id of some case is of no other.
        """
        ids = {case_id, eval_id} - {""}
        for by_case in (True, False):
            if named := [run for run in self.runs if run.by_case is by_case and run.names & ids]:
                return named, True
        others = [run for run in self.runs if not run.by_case and run.said and messages]
        exact = [
            run for run in others if run.turns == len(messages) and list(run.said) == list(messages)[: len(run.said)]
        ]
        return exact or [run for run in others if run.said[0] == messages[0]], False

    def nothing(self, messages: Sequence[str]) -> tuple[str, str]:
        """Why no conversation is one of a case, and what to do."""
        what = f"no conversation of the case: of {plural(len(self.runs), 'conversation')}"
        unusable = [run for run in self.runs if not run.content]
        if unusable:
            reason, hint = unusable[0].unusable
            return f"{what}, {len(unusable):,} can't be read: {reason}", hint
        began = f" or begins with {first_line(messages[0], 80)!r}" if messages else ""
        return f"{what}, none has its id{began}", HINT


def read_traces(source: Path, name: str) -> TracedRuns | None:
    """Reads the conversations of a file or directory; None if it has no traces.

    Raises:
        OSError: It can't be read.
        ValueError: It is too large.
        UnusableConversation: It is malformed.
    """
    files = trace_files(source)
    if not files:
        return None
    if sum(path.stat().st_size for path in files) > LARGEST:
        raise ValueError(f"it has more than {LARGEST // 1_000_000:,} MB")
    values = (
        value for path in files for value in trace_values(path, name if path == source else f"{name}/{path.name}")
    )
    return TracedRuns(name=name, runs=[_run(one) for one in conversations_of(spans_of(values))])


def _run(conversation: TracedConversation) -> TracedRun:
    case = conversation.case
    names = {case} if case is not None else {conversation.session_id}
    facts: dict[str, Any] = {
        "names": frozenset(name for one in names for name in (one, _RUN.sub("", one))),
        "by_case": case is not None,
        "trace_ids": conversation.trace_ids,
        "turns": len(conversation.turns),
    }
    try:
        turns, raised = conversation.read()
        said = [text_of(turn.user_content).strip() for turn in turns]
        said += [asked(conversation.turns[len(turns)]).strip()] if raised is not None else []
    except UnusableConversation as error:
        where = f"{error.place.file}:{error.place.line}: " if error.place.line else ""
        return TracedRun(**facts, said=(), content=b"", unusable=(f"{where}{error}".rstrip("."), error.hint or ""))
    failed = None
    if raised is not None:
        failure = agent_error(raised[1], names=(raised[0],), who="The traced agent")
        failed = RunError(kind=failure.kind, owner=str(failure.owner), message=str(failure), hint=failure.hint)
    content = {
        "turns": [turn.model_dump(mode="json", exclude_none=True) for turn in turns],
        "error": None if failed is None else failed.model_dump(mode="json", exclude_none=True),
    }
    shows_calls = all(turn.shows_calls for turn in conversation.turns)
    return TracedRun(**facts, said=said, content=json.dumps(content).encode(), shows_calls=shows_calls)


def ambiguities(runs: TracedRuns, cases: Mapping[str, tuple[str, Sequence[str]]]) -> Iterator[tuple[str, str]]:
    """The cases that share a conversation which no id assigns, each with a sentence about it.

    Args:
        runs: The conversations.
        cases: Eval id and messages of the cases, by case id.
    """
    claims: dict[int, list[str]] = {}
    found = {case_id: runs.of(case_id, eval_id, messages) for case_id, (eval_id, messages) in cases.items()}
    for case_id, (matched, _) in found.items():
        for run in matched:
            claims.setdefault(id(run), []).append(case_id)
    for case_id, (matched, _) in found.items():
        shared = [run for run in matched if len(claims[id(run)]) > 1]
        others = sorted({other for run in shared for other in claims[id(run)]} - {case_id})
        if shared:
            ids = listed([trace_id for run in shared for trace_id in run.trace_ids], 5)
            yield case_id, f"the conversation of {ids} could also belong to {listed(others, 5)}"


def trace_ids(runs: Iterable[TracedRun]) -> str:
    """The ids of their traces, for a message."""
    return listed([trace_id for run in runs for trace_id in run.trace_ids], 5)
