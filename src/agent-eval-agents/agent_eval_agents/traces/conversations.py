"""The conversations of traces: turns with a common session id, or those of one trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from agent_eval_agents.traces.messages import Message, inputs, last_user
from agent_eval_agents.traces.place import Place, UnusableConversation
from agent_eval_agents.traces.spans import Span, above
from agent_eval_agents.traces.turns import (
    SpanTurn,
    answer_of,
    asked,
    error_of,
    is_model,
    is_of_agent,
    is_tool,
    opens_turn,
    read_turn,
)
from agent_eval_scoring.core.invocation import Invocation

SESSION = (
    "gen_ai.conversation.id", "gcp.vertex.agent.session_id", "gen_ai.session.id", "session.id",
    "traceloop.association.properties.session_id",
)  # fmt: skip
APP = ("gen_ai.app.name",)
USER = ("gen_ai.user.id", "user.id")
CASE = ("agent_eval.case.id", "agentevals.eval.case.id", "test.case.name")
"""Attributes that name the case of a trace: ours, agentevals-cli's, and OpenTelemetry's for tests."""


@dataclass(frozen=True, kw_only=True)
class TracedConversation:
    """The turns of one conversation as spans."""

    session_id: str
    """Of its session; the id of its trace if it has none."""
    trace_ids: tuple[str, ...]
    turns: Sequence[SpanTurn]
    """In the order in which they began; at least one."""

    @property
    def place(self) -> Place:
        """Where it begins."""
        return self.turns[0].root.place

    @property
    def case(self) -> str | None:
        """What names its case; None if no span does."""
        return self.attribute(CASE)

    @property
    def started_at(self) -> float:
        """Unix time in seconds."""
        return self.turns[0].root.start / 1e9

    def attribute(self, keys: Sequence[str]) -> str | None:
        """The first of these attributes, of the first turn's root or else of a span below it."""
        return _attribute(self.turns[0], keys)

    def read(self) -> tuple[list[Invocation], tuple[str, str] | None]:
        """Its turns, and the name and message of the exception that ended the last one of them.

        A turn that failed is part of the list if it has an answer; what comes after it is not.

        Raises:
            UnusableConversation: A turn has no recorded contents, or contents that can't be read.
        """
        turns: list[Invocation] = []
        for turn in self.turns:
            if (error := error_of(turn)) is not None:
                return turns, error
            turns.append(read_turn(turn))
        return turns, None


def conversations_of(spans: Iterable[Span]) -> list[TracedConversation]:
    """The conversations of all traces by the start of their first turn.

    Spans of other software, e.g. of a web server, are not a turn. A trace without a session id is a conversation, or
    goes on with an earlier one whose messages and last answer its first model call is given.

    Raises:
        UnusableConversation: The messages of a span can't be read.
    """
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    turns = [turn for trace in traces.values() for turn in _turns(trace)]
    # Exporters write a span when it ends, so the file has inner and short ones first.
    turns.sort(key=lambda turn: turn.root.start)
    sessions: dict[str, list[SpanTurn]] = {}
    nameless = _Nameless()
    for turn in turns:
        # A session's id is sure; how texts go on is a guess, for frameworks that write none.
        sessions.setdefault(_attribute(turn, SESSION) or nameless.session_of(turn), []).append(turn)
    return [
        TracedConversation(
            session_id=session_id,
            trace_ids=tuple(dict.fromkeys(turn.root.trace_id for turn in its_turns)),
            turns=its_turns,
        )
        for session_id, its_turns in sessions.items()
    ]


class _Nameless:
    """Conversations without a session's id, by their first trace."""

    def __init__(self) -> None:
        """Begins without any."""
        self._of_trace: dict[str, str] = {}
        self._last: dict[str, tuple[tuple[str, ...], SpanTurn]] = {}
        """Of each conversation, its texts so far, as the next turn is given them, and its last turn."""
        self._by_texts: dict[tuple[str, ...], list[str]] = {}

    def session_of(self, turn: SpanTurn) -> str:
        """The conversation of a turn, which is later than those before: that of its trace, or that it goes on with."""
        before, (text, answer), trace = _history(turn), _texts(turn), turn.root.trace_id
        found = self._of_trace.setdefault(trace, self._continued(before) or trace)
        texts = (*before[:-1], text.strip(), answer.strip()) if text and answer else ()
        self._last[found] = texts, turn
        self._by_texts.setdefault(texts, []).append(found)
        return found

    def _continued(self, before: tuple[str, ...]) -> str | None:
        """The conversation with these texts; of several the last one. None if two of them ran at once: which one
        goes on is unknown then, and their calls would be mixed.
        """
        same = [each for each in self._by_texts.get(before, ()) if before and self._last[each][0] == before]
        if len(same) > 1 and self._last[same[-2]][1].root.end > self._last[same[-1]][1].root.start:
            return None
        return same[-1] if same else None


def _history(turn: SpanTurn) -> tuple[str, ...]:
    """What the user said before this turn and the last answer to it, as its first model call is given them."""
    said = next((messages for span in turn.spans if is_model(span) and (messages := _said(span))), [])
    users = [index for index, message in enumerate(said) if message.role == "user" and message.text.strip()]
    # A first turn goes on with nothing.
    if len(users) < 2:
        return ()
    answers = [message.text for message in said[: users[-1]] if message.role == "assistant" and message.text.strip()]
    return *(said[index].text.strip() for index in users[:-1]), *(answer.strip() for answer in answers[-1:])


def _attribute(turn: SpanTurn, keys: Sequence[str]) -> str | None:
    texts = (span.text(*keys) for span in (turn.root, *turn.spans))
    return next((text for text in texts if text is not None), None)


def _turns(trace: Sequence[Span]) -> list[SpanTurn]:
    """The turns of a trace, which may begin above them (a web server), or contain several."""
    by_id = {span.span_id: span for span in trace}
    outside = [span for span in trace if not _inside_tool(span, by_id)]
    homes = {span.span_id: _home(span, by_id) for span in outside}
    # A span around several turns, e.g. of a session, is no turn itself.
    within = {one.span_id for span in outside if opens_turn(span) for one in above(span, by_id)}
    roots = [
        span
        for span in outside
        if homes[span.span_id] == span.span_id and (opens_turn(span) or span.span_id not in within)
    ]
    members: dict[str, list[Span]] = {root.span_id: [] for root in roots}
    for span in outside:
        if (home := homes[span.span_id]) in members:
            members[home].append(span)
    turns = [_turn(root, members[root.span_id]) for root in roots]
    return _joined(turns, by_id)


def _joined(turns: Sequence[SpanTurn], by_id: Mapping[str, Span]) -> list[SpanTurn]:
    """The turns of a trace whose single calls have a place.

    Calls without an agent's span around them, as of a model's plain client, are turns themselves. Beside the span of an
    agent, those whose parents were not exported are part of the only turn.
    """
    single = [turn for turn in turns if is_model(turn.root) or is_tool(turn.root)]
    whole = [turn for turn in turns if turn not in single]
    if not whole:
        spans = [span for turn in single for span in turn.spans]
        if not any(is_model(span) for span in spans):
            return []
        root = replace(min(spans, key=lambda span: span.start), span_id="", attributes={}, events=(), error=None)
        return _split(_turn(replace(root, end=max(span.end for span in spans)), spans))
    if len(whole) == 1:
        # A sampler or a full queue drops single spans; their children are the agent's nevertheless.
        lost = [turn for turn in single if turn.root.parent_id is not None and turn.root.parent_id not in by_id]
        whole = [_turn(whole[0].root, [span for turn in (*whole, *lost) for span in turn.spans])]
    holders = [turn for turn in whole if not (opens_turn(turn.root) or "input.value" in turn.root.attributes)]
    return [part for turn in whole for part in (_split(turn) if turn in holders and not _said(turn.root) else [turn])]


def _split(turn: SpanTurn) -> list[SpanTurn]:
    """The turns of spans that nothing but a common span or trace holds together, e.g. a `trace()` around several runs.

    A later turn's first model call has what the user said before, the answer, and more.
    """
    starts = [turn.root.start]
    before: list[str] = []
    for span in turn.spans:
        if is_model(span) and (messages := _said(span)):
            said = [message.text for message in messages if message.role == "user" and message.text]
            answered = messages[-1].role == "user" and last_user(messages[:-1])[1]
            if before and len(said) > len(before) and said[: len(before)] == before and answered:
                starts.append(span.start)
            before = said or before
    if len(starts) == 1:
        return [turn]
    parts = []
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        root = replace(turn.root, start=start, end=end or turn.root.end, error=None if end else turn.root.error)
        inside = (span for span in turn.spans if start <= span.start and (end is None or span.start < end))
        parts.append(_turn(root, [span for span in inside if span.span_id != root.span_id]))
    return parts


def _texts(turn: SpanTurn) -> tuple[str, str]:
    """What the user said and the answer; "" if they can't be read, which its turn says."""
    with suppress(UnusableConversation):
        return asked(turn), answer_of(turn)
    return "", ""


def _said(span: Span) -> list[Message]:
    """Its input; nothing if that can't be read, which its turn says."""
    with suppress(UnusableConversation):
        return inputs(span)
    return []


def _turn(root: Span, spans: Sequence[Span]) -> SpanTurn:
    return SpanTurn(root=root, spans=sorted(spans, key=lambda span: span.start))


def _home(span: Span, by_id: Mapping[str, Span]) -> str | None:
    """The outermost span that opens a turn, or else is of an agent, among a span and its ancestors; None without."""
    line = [span, *above(span, by_id)]
    opening = [one for one in line if opens_turn(one)] or [one for one in line if is_of_agent(one)]
    return opening[-1].span_id if opening else None


def _inside_tool(span: Span, by_id: Mapping[str, Span]) -> bool:
    """Whether it happened inside of a tool, e.g. in an agent used as one: ADK's events don't contain that either."""
    return any(is_tool(ancestor) for ancestor in above(span, by_id))
