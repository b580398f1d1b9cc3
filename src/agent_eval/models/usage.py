"""Usage accounting: calls, tokens and cost by case, criterion and model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agent_eval.models.protocol import ModelRequest, ModelUsage


def add_usage(left: ModelUsage, right: ModelUsage) -> ModelUsage:
    """Returns the sum; a count that neither side reports stays None."""

    def plus(a: int | None, b: int | None) -> int | None:
        return b if a is None else a if b is None else a + b

    return ModelUsage(
        input_tokens=plus(left.input_tokens, right.input_tokens),
        output_tokens=plus(left.output_tokens, right.output_tokens),
        cached_tokens=plus(left.cached_tokens, right.cached_tokens),
        thought_tokens=plus(left.thought_tokens, right.thought_tokens),
    )


def billed_tokens(usage: ModelUsage) -> int | None:
    """Returns the sum of input, output and thoughts; None if the provider reported nothing."""
    counts = (usage.input_tokens, usage.output_tokens, usage.thought_tokens)
    return None if all(count is None for count in counts) else sum(count or 0 for count in counts)


@dataclass(frozen=True, kw_only=True)
class UsageEntry:
    """Usage of one criterion (or simulated user) on one case with one model, or a sum of such entries."""

    case_id: str = ""
    purpose: str = ""
    model: str = ""
    calls: int = 0
    """Sent attempts."""
    replies: int = 0
    """Requests answered by the provider."""
    cached_replies: int = 0
    """Requests answered from our cache, at no cost."""
    failures: int = 0
    """Requests without a usable reply."""
    usage: ModelUsage = field(default_factory=ModelUsage)
    cost: float | None = None
    """US dollars; None: the model has no price, or nothing was sent."""
    versions: tuple[str, ...] = ()
    """Model versions as reported by the provider, sorted."""
    unpriced_calls: int = 0
    """Attempts at models without a price, which `cost` doesn't include."""


def total(entries: Iterable[UsageEntry], *, model: str = "", purpose: str = "", case_id: str = "") -> UsageEntry:
    """Returns the sum of entries, with the given labels."""
    result = UsageEntry(model=model, purpose=purpose, case_id=case_id)
    for entry in entries:
        result = _plus(result, entry)
    return result


def _plus(left: UsageEntry, right: UsageEntry) -> UsageEntry:
    costs = [cost for cost in (left.cost, right.cost) if cost is not None]
    return UsageEntry(
        case_id=left.case_id,
        purpose=left.purpose,
        model=left.model,
        calls=left.calls + right.calls,
        replies=left.replies + right.replies,
        cached_replies=left.cached_replies + right.cached_replies,
        failures=left.failures + right.failures,
        usage=add_usage(left.usage, right.usage),
        cost=sum(costs) if costs else None,
        versions=tuple(sorted({*left.versions, *right.versions})),
        unpriced_calls=left.unpriced_calls + right.unpriced_calls,
    )


class Ledger:
    """Collects usage."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str, str], UsageEntry] = {}

    def add(self, request: ModelRequest, entry: UsageEntry) -> None:
        """Adds the usage of a request; the labels are taken from the request."""
        key = (request.case_id, request.purpose, request.model)
        start = UsageEntry(case_id=request.case_id, purpose=request.purpose, model=request.model)
        self._entries[key] = _plus(self._entries.get(key, start), entry)

    def entries(self) -> list[UsageEntry]:
        """Returns the entries sorted by case, purpose and model."""
        return [self._entries[key] for key in sorted(self._entries)]

    def by_model(self) -> list[UsageEntry]:
        """Returns the sum for each model, sorted by name."""
        models = sorted({entry.model for entry in self._entries.values()})
        return [total((entry for entry in self.entries() if entry.model == model), model=model) for model in models]
