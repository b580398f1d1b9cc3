"""What the agent's model calls used, as far as its events say it."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence

from agent_eval_results import Usage
from agent_eval_scoring.core.invocation import Invocation, InvocationEvent, InvocationEvents
from agent_eval_scoring.criteria import inference_call_count, token_usage


def usage_of(turns: Iterable[Invocation]) -> Usage:
    """Model calls and tokens of some turns, counted as by token_usage_v1 (docs/criteria.md)."""
    calls, tokens = 0, Counter[str]()
    for turn in turns:
        calls += int(inference_call_count(turn) or 0)
        tokens.update({name: int(count) for name, count in token_usage(turn).items()})
    names = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
    return _usage(calls, *map(tokens.get, names))


@functools.lru_cache(maxsize=1024)
def _usage(calls: int, *tokens: int | None) -> Usage:
    """One object for equal ones, as those of recorded answers, which have none, are. They are never changed."""
    names = ("input_tokens", "output_tokens", "cached_tokens", "thought_tokens")
    return Usage(model_calls=calls, **dict(zip(names, tokens, strict=True)))


def usage_by_model(turns: Iterable[Invocation]) -> dict[str, Usage]:
    """The usage of some turns by model; "" for a model without a name.

    Where the agent's process has measured its calls, those inside of an AgentTool count too, which have no event. Then
    cached tokens are known only if a turn has one model, and thoughts are part of the output.
    """
    parts: dict[str, list[Usage]] = {}
    for turn in turns:
        spans = [span for span in turn.spans or () if span.kind == "model"]
        if any(span.input_tokens is not None for span in spans):
            models = {span.name for span in spans}
            cached = usage_of([turn]).cached_tokens if len(models) == 1 else None
            for model in models:
                own = [span for span in spans if span.name == model]
                usage = Usage(
                    model_calls=len(own),
                    input_tokens=sum(span.input_tokens or 0 for span in own),
                    output_tokens=sum(span.output_tokens or 0 for span in own),
                    cached_tokens=cached,
                )
                parts.setdefault(model, []).append(usage)
            continue
        data = turn.intermediate_data
        events: dict[str, list[InvocationEvent]] = {}
        for event in data.invocation_events if isinstance(data, InvocationEvents) else ():
            if event.usage_metadata is not None or event.model_version is not None:
                events.setdefault(event.model_version or "", []).append(event)
        for model, its_own in events.items():
            data = InvocationEvents(invocation_events=its_own)
            parts.setdefault(model, []).append(usage_of([turn.model_copy(update={"intermediate_data": data})]))
    return {model: _sum(usages) for model, usages in parts.items()}


def _sum(usages: Sequence[Usage]) -> Usage:
    """The sum; a count that no turn reports stays None."""

    def total(counts: Iterable[int | None]) -> int | None:
        reported = [count for count in counts if count is not None]
        return sum(reported) if reported else None

    return Usage(
        model_calls=sum(usage.model_calls for usage in usages),
        input_tokens=total(usage.input_tokens for usage in usages),
        output_tokens=total(usage.output_tokens for usage in usages),
        cached_tokens=total(usage.cached_tokens for usage in usages),
        thought_tokens=total(usage.thought_tokens for usage in usages),
    )
