"""A recorded or expected conversation as the page shows it: turns, steps, parts and the alignment of calls."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Any

from agent_eval_results import ConversationReport, StepReport, TurnReport
from agent_eval_results.report.html._packing import bounded_value, json_value, number, shown
from agent_eval_results.report.html._source import CaseDetail
from agent_eval_results.report.views.case import ERROR_EVENT, times
from agent_eval_scoring.core.content import Content, FunctionCall, FunctionResponse, Part, text_of
from agent_eval_scoring.core.invocation import (
    BELOW,
    AppDetails,
    Invocation,
    declared_tools,
    happened,
    hidden_calls,
    tool_calls,
)
from agent_eval_scoring.core.text import plural
from agent_eval_scoring.criteria import align

_NAME = 500
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Never SVG, which may contain scripts."""
_PICTURE = 200_000
"""Bytes of a picture that the page contains."""
_MOST_ALIGNED = 500
"""Calls of a side that are aligned."""


def turns_of(
    actual: Sequence[Invocation], expected: Sequence[Invocation] | None, detail: CaseDetail
) -> list[dict[str, Any]]:
    """The turns of a run.

    Args:
        actual: The recorded turns.
        expected: The eval case's turns, with which calls are aligned; None if there are none.
        detail: How much to keep.
    """
    references = list(expected or ())
    turns = [
        _turn(turn, references[at] if at < len(references) else None, detail)
        for at, turn in enumerate(actual[: detail.turns])
    ]
    if detail.events and detail.requests:
        before: list[dict[str, Any]] = []
        for turn, invocation in zip(turns, actual, strict=False):
            requests = _requests(invocation, detail)
            # Instructions rarely change between turns; repeated, they would be most of the page.
            turn["requests"] = [request for request in requests if request not in before]
            before = requests
    return turns


def expected_turns(expected: Sequence[Invocation], detail: CaseDetail) -> list[dict[str, Any]]:
    """The turns of an eval case."""
    return [_turn(turn, None, detail) for turn in expected[: detail.turns]]


def _turn(turn: Invocation, expected: Invocation | None, detail: CaseDetail) -> dict[str, Any]:
    steps = list(_steps(turn, detail))
    left = len(steps) - detail.turns
    if left > 0:
        note = {"text": f"… and {plural(left, 'more step')}, which the page leaves out"}
        steps = [*steps[: detail.turns], {"kind": "text", "agent": "", "branch": "", "parts": [note]}]
    return {
        "user": _parts(turn.user_content, detail),
        "steps": steps,
        "answer": None if turn.final_response is None else _parts(turn.final_response, detail),
        "seconds": number(turn.duration, 3),
        "spans": _spans(turn) if detail.events else [],
        "align": None if expected is None else alignment(expected, turn),
        **({"inside": inside} if (inside := _inside(turn)) else {}),
    }


def _inside(turn: Invocation) -> dict[str, str]:
    """The tools that were called inside of others, with these."""
    hidden = hidden_calls(turn)[:_MOST_ALIGNED]
    return {shown(span.name, _NAME): shown(path.rpartition(BELOW)[0], _NAME) for path, span in hidden}


def _steps(turn: Invocation, detail: CaseDetail) -> Iterator[dict[str, Any]]:
    """Calls, responses and texts before the answer, in order. The answer's own event is no step."""
    answer = text_of(turn.final_response)
    call: FunctionCall | None = None
    for event, parts, error in happened(turn):
        who = {"agent": shown(event.author, _NAME), "branch": shown(event.branch, _NAME)}
        if error is not None:
            text = shown(f"{ERROR_EVENT} {error}", detail.text)
            if call is None:
                yield {"kind": "text", **who, "parts": [{"text": text}]}
            else:  # Instead of its response.
                yield {"kind": "response", **who, **_named(call), "value": text}
            call = None
        texts: list[dict[str, Any]] = []
        for part in parts:
            if part.function_call is None and part.function_response is None:
                if detail.events or (part.text is not None and not part.thought):
                    texts += _part(part, detail)
                continue
            if texts:
                yield {"kind": "text", **who, "parts": texts}
                texts = []
            call = part.function_call
            if call is not None:
                yield {"kind": "call", **who, **_call(call, detail)}
            elif part.function_response is not None and detail.events:
                yield {"kind": "response", **who, **_response(part.function_response, detail)}
        # The page shows the answer below the steps.
        if texts and not (answer and "\n".join(part.text for part in parts if part.text) == answer):
            yield {"kind": "text", **who, "parts": texts}


def _call(call: FunctionCall, detail: CaseDetail) -> dict[str, Any]:
    args = None if call.args is None else json_value(call.args, detail.text)
    return {**_named(call), "args": args}


def _response(response: FunctionResponse, detail: CaseDetail) -> dict[str, Any]:
    value = bounded_value(response.response if response.response is not None else {}, detail.response)
    return {**_named(response), "value": value}


def _named(part: FunctionCall | FunctionResponse) -> dict[str, Any]:
    return {"id": shown(part.id, _NAME), "name": shown(part.name, _NAME)}


def _parts(content: Content | None, detail: CaseDetail) -> list[dict[str, Any]]:
    if content is None:
        return []
    return [item for part in content.iter_parts() for item in _part(part, detail)]


def _part(part: Part, detail: CaseDetail) -> list[dict[str, Any]]:
    """A part; nothing for one that is empty, e.g. only a signature."""
    if part.text:
        return [{"thought" if part.thought else "text": shown(part.text, detail.text)}]
    if part.inline_data is not None:
        return [{"inline": _inline(part.inline_data.mime_type, part.inline_data.data, keep=detail.events)}]
    if part.file_data is not None:
        uri, mime = part.file_data.file_uri, part.file_data.mime_type
        return [{"file": {"uri": shown(uri, 2_000), "mime": shown(mime, _NAME)}}]
    if part.function_call is not None:
        return [{"other": {"function_call": _call(part.function_call, detail)}}]
    rest = part.model_dump(exclude_none=True, exclude={"text", "thought", "thought_signature"})
    return [{"other": bounded_value(rest, detail.response)}] if rest else []


def _inline(mime: str | None, data: str | None, *, keep: bool) -> dict[str, Any]:
    """Type and size of inline data; the data itself only of small pictures, in the standard base64 alphabet."""
    kind = (mime or "").strip().lower()
    size = len((data or "").rstrip("=")) * 3 // 4
    picture = None
    if keep and data and kind in _PICTURES and size <= _PICTURE:
        # google-genai writes bytes in the URL-safe alphabet, which no data URL may have.
        standard = data.replace("-", "+").replace("_", "/")
        try:
            raw = base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
            picture = base64.b64encode(raw).decode("ascii")
        except binascii.Error:
            picture = None
    return {"mime": shown(mime, _NAME), "bytes": size, "data": picture}


def alignment(expected: Invocation, actual: Invocation) -> list[list[int | None]] | None:
    """Pairs of call positions as the criteria align them: expected and actual; None where one side has no call.

    None as a whole if there are too many calls, or they are nested too deeply to compare.
    """
    ours, theirs = tool_calls(expected.intermediate_data), tool_calls(actual.intermediate_data)
    # The time of an alignment grows with the product of both sides.
    if max(len(ours), len(theirs)) > _MOST_ALIGNED:
        return None
    names = [call.name for call in ours]
    if names == [call.name for call in theirs] and len(set(names)) == len(names):
        return [[at, at] for at in range(len(names))]  # As below, in a tenth of the time.
    try:
        partner = _by_name(ours, theirs)
        if partner is None and [(call.name, call.args) for call in ours] == [(call.name, call.args) for call in theirs]:
            partner = {at: at for at in range(len(ours))}
        if partner is None:
            aligned = align(ours, theirs)
            partner = dict([*aligned.matched, *aligned.moved, *aligned.changed])
    except RecursionError:
        return None
    extra = sorted(set(range(len(theirs))) - set(partner.values()))
    pairs: list[list[int | None]] = []
    for at in range(len(ours)):
        match = partner.get(at)
        while match is not None and extra and extra[0] < match:
            pairs.append([None, extra.pop(0)])
        pairs.append([at, match])
    return [*pairs, *([None, at] for at in extra)]


def _by_name(ours: Sequence[FunctionCall], theirs: Sequence[FunctionCall]) -> dict[int, int] | None:
    """The alignment if no side calls a tool twice, which needs no comparison of args; else None."""
    names = {call.name: at for at, call in enumerate(theirs)}
    if len(names) < len(theirs) or len({call.name for call in ours}) < len(ours):
        return None
    return {at: names[call.name] for at, call in enumerate(ours) if call.name in names}


def _spans(turn: Invocation) -> list[dict[str, Any]]:
    if not turn.spans:
        return []
    paths = {span.call_id: path for path, span in hidden_calls(turn)}
    return [
        {
            "kind": span.kind,
            "agent": shown(span.agent, _NAME),
            "name": shown(paths.get(span.call_id, span.name) if span.call_id else span.name, _NAME),
            "call_id": shown(span.call_id, _NAME),
            "start": number(span.start, 4),
            "end": number(span.end, 4),
            "attempts": list(span.attempts),
            "input_tokens": span.input_tokens,
            "output_tokens": span.output_tokens,
            "contents": span.contents,
            "replayed": span.replayed,
        }
        for span in turn.spans
    ]


def _requests(turn: Invocation, detail: CaseDetail) -> list[dict[str, Any]]:
    """What each agent gave its model besides the conversation."""
    agents = turn.app_details.agent_details.values() if turn.app_details is not None else ()
    return [
        {
            "agent": shown(agent.name, _NAME),
            "instructions": shown(agent.instructions, detail.text),
            "tools": [shown(name, _NAME) for name in declared_tools(AppDetails(agent_details={"": agent}))],
        }
        for agent in agents
    ]


def excerpt_turns(conversation: ConversationReport) -> list[dict[str, Any]]:
    """The turns of the bounded excerpt in results.json, in which calls and responses are text."""
    return [
        _excerpt_turn(turn.user, [item for step in turn.steps for item in _excerpt_step(step)], turn.answer)
        for turn in conversation.turns
    ]


def excerpt_expected(conversation: ConversationReport) -> list[dict[str, Any]]:
    """What the excerpt says of the expectation: only what was not met."""
    return [_excerpt_expected(turn) for turn in conversation.turns]


def _excerpt_expected(turn: TurnReport) -> dict[str, Any]:
    calls = [{"code": shown(call, 20_000)} for call in turn.expected_calls or ()]
    said = [{"text": shown(text, 20_000)} for text in turn.expected_said or ()]
    return _excerpt_turn(turn.user, [_excerpt_text("", [item]) for item in [*said, *calls]], turn.expected_answer)


def _excerpt_turn(user: str, steps: list[dict[str, Any]], answer: str | None) -> dict[str, Any]:
    return {
        "user": _plain(user),
        "steps": steps,
        "answer": None if answer is None else _plain(answer),
        "seconds": None,
        "spans": [],
        "align": None,
    }


def _excerpt_step(step: StepReport) -> Iterator[dict[str, Any]]:
    if step.text:
        yield _excerpt_text(step.agent, _plain(step.text + times(step)))
    if step.call:
        yield _excerpt_text(step.agent, [{"code": shown(step.call + times(step), 20_000)}])
    if step.error:
        yield _excerpt_text(step.agent, _plain(f"{ERROR_EVENT} {step.error}"))
    for response in step.responses:
        who = {"agent": shown(step.agent, _NAME), "branch": ""}
        yield {"kind": "response", **who, "id": "", "name": "", "value": shown(response, 20_000)}


def _excerpt_text(agent: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": "text", "agent": shown(agent, _NAME), "branch": "", "parts": parts}


def _plain(text: str) -> list[dict[str, Any]]:
    return [{"text": shown(text, 20_000)}] if text else []
