"""The bill: calls, tokens and cost by case, criterion and model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agent_eval.models.protocol import ModelRequest, ModelUsage


def add_usage(one: ModelUsage, other: ModelUsage) -> ModelUsage:
    """The sum; a number that nobody told stays None."""

    def plus(left: int | None, right: int | None) -> int | None:
        return right if left is None else left if right is None else left + right

    return ModelUsage(
        input_tokens=plus(one.input_tokens, other.input_tokens),
        output_tokens=plus(one.output_tokens, other.output_tokens),
        cached_tokens=plus(one.cached_tokens, other.cached_tokens),
        thought_tokens=plus(one.thought_tokens, other.thought_tokens),
    )


def billed_tokens(usage: ModelUsage) -> int | None:
    """Input, output and thoughts together; None if the provider told nothing."""
    counts = (usage.input_tokens, usage.output_tokens, usage.thought_tokens)
    return None if all(count is None for count in counts) else sum(count or 0 for count in counts)


@dataclass(frozen=True, kw_only=True)
class UsageEntry:
    """What one criterion (or the simulated user) spent on one case with one model, or a sum of such."""

    case_id: str = ""
    purpose: str = ""
    model: str = ""
    calls: int = 0
    """Attempts that were sent."""
    replies: int = 0
    """Questions that were answered by the provider."""
    cached_replies: int = 0
    """Questions that were answered from our cache; they cost nothing."""
    failures: int = 0
    """Questions without a usable reply."""
    usage: ModelUsage = field(default_factory=ModelUsage)
    cost: float | None = None
    """US dollars; None: there is no price for the model, or nothing was sent."""
    versions: tuple[str, ...] = ()
    """What answered, as the provider names it; sorted."""
    unpriced_calls: int = 0
    """Attempts to models without a price: `cost` says nothing about them."""


def total(entries: Iterable[UsageEntry], *, model: str = "", purpose: str = "", case_id: str = "") -> UsageEntry:
    """The sum of entries, labelled as told."""
    result = UsageEntry(model=model, purpose=purpose, case_id=case_id)
    for entry in entries:
        result = _plus(result, entry)
    return result


def _plus(one: UsageEntry, other: UsageEntry) -> UsageEntry:
    costs = [cost for cost in (one.cost, other.cost) if cost is not None]
    return UsageEntry(
        case_id=one.case_id,
        purpose=one.purpose,
        model=one.model,
        calls=one.calls + other.calls,
        replies=one.replies + other.replies,
        cached_replies=one.cached_replies + other.cached_replies,
        failures=one.failures + other.failures,
        usage=add_usage(one.usage, other.usage),
        cost=sum(costs) if costs else None,
        versions=tuple(sorted({*one.versions, *other.versions})),
        unpriced_calls=one.unpriced_calls + other.unpriced_calls,
    )


class Ledger:
    """Collects what was spent."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str, str], UsageEntry] = {}

    def add(self, request: ModelRequest, entry: UsageEntry) -> None:
        """Books what one question spent; the entry's labels are taken from the request."""
        key = (request.case_id, request.purpose, request.model)
        before = self._entries.get(key)
        if before is None:
            before = UsageEntry(case_id=request.case_id, purpose=request.purpose, model=request.model)
        self._entries[key] = _plus(before, entry)

    def entries(self) -> list[UsageEntry]:
        """Sorted by case, purpose and model."""
        return [self._entries[key] for key in sorted(self._entries)]

    def by_model(self) -> list[UsageEntry]:
        """A sum for each model, sorted by name."""
        models = sorted({entry.model for entry in self._entries.values()})
        return [total((entry for entry in self.entries() if entry.model == model), model=model) for model in models]
