"""What a run costs: the agent's own model calls, beside those of judges and simulated users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_eval_results import Recording, RunError
from agent_eval_results.data.usage import usage_by_model
from agent_eval_scoring.models import Ledger, Meter, ModelUsage, Price, UsageEntry, price_of_agent


@dataclass(kw_only=True)
class Bill:
    """Counts what agents spend."""

    prices: Mapping[str, Price]
    meter: Meter
    """Has the budget, which judges and simulated users share."""
    ledger: Ledger = field(default_factory=Ledger)
    saved: float = 0.0
    """What the replayed model calls cost when they were recorded, in US dollars, as far as prices are known."""
    replayed: dict[str, set[str]] = field(default_factory=dict)
    """The cases that were replayed, by the models that answered when they were recorded."""
    unknown: set[str] = field(default_factory=set)
    """The models that their provider does not know."""

    @property
    def is_limited(self) -> bool:
        """Whether `max-cost` is set."""
        return self.meter.has_max_cost

    def add(self, recording: Recording, purpose: str) -> None:
        """Adds a run that has just been made.

        Args:
            recording: The run.
            purpose: Why it was made, e.g. `agent`.
        """
        cost, replayed = 0.0, recording.is_replayed
        for span in (span for turn in recording.all_turns for span in turn.spans or () if span.kind == "model"):
            if span.replayed and recording.error is None:
                self.replayed.setdefault(span.name, set()).add(recording.case_id)
            elif 404 in span.attempts:
                self.unknown.add(span.name)
        for model, usage in usage_by_model(recording.all_turns).items():
            price = price_of_agent(model, self.prices)
            tokens = ModelUsage(
                input_tokens=usage.input_tokens,
                output_tokens=None
                if usage.output_tokens is None
                else usage.output_tokens - (usage.thought_tokens or 0),
                cached_tokens=usage.cached_tokens,
                thought_tokens=usage.thought_tokens,
            )
            known = price is not None and tokens.input_tokens is not None
            entry = UsageEntry(
                case_id=recording.case_id,
                purpose=purpose,
                model=model,
                calls=usage.model_calls,
                replies=usage.model_calls,
                usage=tokens,
                cost=price.of(tokens) if price is not None and known else None,
                unpriced_calls=0 if known else usage.model_calls,
            )
            if not replayed:
                self.ledger.book(entry)
            cost += entry.cost or 0.0
        if replayed:
            if recording.error is None:  # Otherwise the case may run live, and pay.
                self.saved += cost
        else:
            self.meter.pay(cost)

    @property
    def used_up(self) -> RunError | None:
        """Why no further run may begin; None if one may."""
        spent = self.meter.used_up
        if spent is None:
            return None
        return RunError(kind=spent.kind, owner="gate", message=spent.message, hint=spent.hint)
