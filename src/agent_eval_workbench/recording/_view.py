"""A turn as lines for a terminal. All text of the agent is escaped."""

from __future__ import annotations

from collections.abc import Iterator

from agent_eval.core.content import Content, Part
from agent_eval.core.invocation import IntermediateData, Invocation, InvocationEvents
from agent_eval.core.text import shorten
from agent_eval.criteria import literal, render_call, token_usage, visible

_ANSWER = 20_000
_LEAST = 60


def turn_lines(turn: Invocation, *, width: int) -> Iterator[str]:
    """Calls with their responses, what sub-agents said, the answer, seconds and tokens."""
    limit = max(3 * width, _LEAST)
    yield from _steps(turn, limit)
    yield from message_lines("agent> ", turn.final_response)
    usage = token_usage(turn)
    facts = [f"{turn.duration:.1f} s"] if turn.duration is not None else []
    facts += [f"{int(usage['total_tokens']):,} tokens"] if usage.get("total_tokens") else []
    if facts:
        yield f"       ({', '.join(facts)})"


def message_lines(prompt: str, content: Content | None) -> Iterator[str]:
    """A message as escaped lines behind a prompt."""
    texts = [part.text or _placeholder(part) for part in content.iter_parts() if not part.thought] if content else []
    lines = shorten("\n".join(text for text in texts if text), _ANSWER).splitlines() or ["(no text)"]
    for number, line in enumerate(lines):
        yield (prompt if number == 0 else " " * len(prompt)) + visible(line)


def _placeholder(part: Part) -> str:
    if part.inline_data is not None:
        return f"[{part.inline_data.mime_type or 'data'}]"
    return f"[{part.file_data.file_uri}]" if part.file_data is not None else ""


def call_lines(turn: Invocation) -> list[str]:
    """The calls of a turn, numbered from 1."""
    calls = [part.function_call for _, part in _parts(turn) if part.function_call is not None]
    return [f"  {number}  {render_call(call)}" for number, call in enumerate(calls, 1)]


def _steps(turn: Invocation, limit: int) -> Iterator[str]:
    answer = [part.text for part in turn.final_response.iter_parts()] if turn.final_response else []
    authors = {author for author, _ in _parts(turn)}
    for author, part in _parts(turn):
        name = f"{visible(shorten(author, 60))}: " if len(authors) > 1 else ""
        if part.function_call is not None:
            yield f"  {name}→ {render_call(part.function_call, limit=limit)}"
        elif part.function_response is not None:
            response = part.function_response.response
            yield f"  {name}← {shorten(literal({} if response is None else response, limit), limit)}"
        elif part.text and not part.thought and part.text not in answer:
            yield f"  {name}{visible(shorten(part.text, limit))}"


def _parts(turn: Invocation) -> Iterator[tuple[str, Part]]:
    data = turn.intermediate_data
    if isinstance(data, InvocationEvents):
        for event in data.invocation_events:
            for part in event.content.iter_parts() if event.content is not None else ():
                yield event.author, part
    elif isinstance(data, IntermediateData):
        yield from (("agent", Part(function_call=call)) for call in data.tool_uses)
        yield from (("agent", Part(function_response=response)) for response in data.tool_responses)
        yield from ((author, part) for author, parts in data.intermediate_responses for part in parts)
