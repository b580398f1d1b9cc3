"""Conversations from the spans of traces: one per session, one turn per invocation of the agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent_eval.core.problem import Problem, Severity
from agent_eval.core.text import plural
from agent_eval_workbench.sources._spans import Span
from agent_eval_workbench.sources._vocabularies import APP, SESSION, USER, SpanTurn, is_tool, opens_turn, read_turn
from agent_eval_workbench.sources.conversation import Conversation, UnusableConversation

_DEEPEST = 500
"""Levels of spans that are looked at: traces of agents have about ten, and a damaged one can have a loop."""


@dataclass(frozen=True, kw_only=True)
class TracedSession:
    """The turns of one session as spans."""

    session_id: str
    turns: Sequence[SpanTurn]
    """In the order in which they began."""


def sessions_of(spans: Iterable[Span]) -> tuple[list[TracedSession], list[Problem]]:
    """The sessions of all traces by the start of their first turn, and a warning about turns without a session id.

    Spans of other software, e.g. of a web server, are not a turn.
    """
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    turns = [turn for trace in traces.values() for turn in _turns(trace)]
    turns.sort(key=lambda turn: turn.root.start)
    sessions: dict[str, list[SpanTurn]] = {}
    without: list[SpanTurn] = []
    for turn in turns:
        session_id = _attribute(turn, SESSION)
        if session_id is None:
            without.append(turn)
        else:
            sessions.setdefault(session_id, []).append(turn)
    problems = []
    if without:
        message = f"{plural(len(without), 'turn')} without a session id can't be assigned to a conversation."
        hint = "A trace of an agent has `gen_ai.conversation.id` on its spans."
        problems.append(without[0].root.place.problem(Severity.WARNING, "source-turn-skipped", message, hint))
    listed = [TracedSession(session_id=session_id, turns=turns) for session_id, turns in sessions.items()]
    return listed, problems


def conversation_of_trace(session: TracedSession) -> tuple[Conversation, list[Problem]]:
    """The conversation of a session.

    Raises:
        UnusableConversation: A turn has no recorded contents, or no answer although it is not the last.
    """
    place = session.turns[0].root.place
    turns = [read_turn(turn) for turn in session.turns]
    problems = []
    if turns[-1].final_response is None:
        turns.pop()
        message = f"The last turn of session `{session.session_id}` has no answer; it is left out."
        problems.append(place.problem(Severity.NOTICE, "source-turn-skipped", message))
    silent = next((number for number, turn in enumerate(turns, 1) if turn.final_response is None), None)
    if silent is not None:
        raise UnusableConversation(place, f"Turn {silent} of session `{session.session_id}` has no answer.")
    if not turns:
        raise UnusableConversation(place, f"Session `{session.session_id}` has no turn with an answer.")
    return (
        Conversation(
            session_id=session.session_id,
            turns=turns,
            started_at=turns[0].creation_timestamp,
            place=place,
            app_name=_attribute(session.turns[0], APP),
            user_id=_attribute(session.turns[0], USER),
        ),
        problems,
    )


def _attribute(turn: SpanTurn, keys: Sequence[str]) -> str | None:
    """The first of these attributes, of the root or else of a span below it."""
    texts = (span.text(*keys) for span in (turn.root, *turn.spans))
    return next((text for text in texts if text is not None), None)


def _turns(trace: Sequence[Span]) -> list[SpanTurn]:
    """The turns of a trace, which may begin above them (a web server), or contain several."""
    by_id = {span.span_id: span for span in trace}
    outside = [span for span in trace if not _inside_tool(span, by_id)]
    homes = {span.span_id: _home(span, by_id) for span in outside}
    roots = [span for span in outside if homes[span.span_id] == span.span_id]
    if not roots:
        has_agent = any(span.text(*SESSION) is not None for span in outside)
        return [_turn(min(outside, key=lambda span: span.start), outside)] if has_agent else []
    members: dict[str, list[Span]] = {root.span_id: [] for root in roots}
    for span in outside:
        home = homes[span.span_id]
        if home is None and len(roots) == 1 and span.parent_id is not None and span.parent_id not in by_id:
            home = roots[0].span_id  # Its parent was not exported.
        if home is not None:
            members[home].append(span)
    return [_turn(root, members[root.span_id]) for root in roots]


def _turn(root: Span, spans: Sequence[Span]) -> SpanTurn:
    return SpanTurn(root=root, spans=sorted(spans, key=lambda span: span.start))


def _home(span: Span, by_id: Mapping[str, Span]) -> str | None:
    """The outermost span that opens a turn, of a span and those above it; None if there is none."""
    home = None
    for ancestor in (span, *_above(span, by_id)):
        home = ancestor.span_id if opens_turn(ancestor) else home
    return home


def _inside_tool(span: Span, by_id: Mapping[str, Span]) -> bool:
    """Whether it happened inside of a tool, e.g. in an agent used as one: ADK's events don't contain that either."""
    return any(is_tool(ancestor) for ancestor in _above(span, by_id))


def _above(span: Span, by_id: Mapping[str, Span]) -> list[Span]:
    above: list[Span] = []
    while span.parent_id is not None and span.parent_id in by_id and len(above) < _DEEPEST:
        span = by_id[span.parent_id]
        above.append(span)
    return above
