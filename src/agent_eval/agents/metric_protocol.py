"""What a criterion needs of whoever runs the functions of `custom_metrics`: code that comes with the agent."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent_eval.agents.messages import Evaluated
from agent_eval.agents.protocol import Owner
from agent_eval.core.invocation import Invocation
from agent_eval.evalset.models import ConversationScenario


@dataclass(frozen=True, kw_only=True)
class MetricCall:
    """One call of a custom metric: what ADK passes to it, before it is made of ADK's objects."""

    metric: str
    """The name in `criteria`."""
    function: str
    """`code_config.name`: `package.module.function`."""
    criterion: Mapping[str, Any]
    """`threshold`, and what else the criterion's object says, as JSON."""
    actual: Sequence[Invocation]
    expected: Sequence[Invocation] | None
    """None for a scenario."""
    scenario: ConversationScenario | None


class MetricFailureKind(enum.StrEnum):
    """What happened to a custom metric (docs/verdict.md)."""

    ENVIRONMENT = "custom-metric-environment"
    """There is no interpreter for it, or one whose google-adk has no custom metrics."""
    IMPORT = "custom-metric-import"
    """The function can't be imported."""
    EXCEPTION = "custom-metric-exception"
    """It raised."""
    RESULT = "custom-metric-invalid-result"
    """It returned something that is no result, or no score."""
    DEADLINE = "custom-metric-deadline"
    """It did not return in time."""
    CRASH = "custom-metric-crash"
    """Its process ended."""
    PROVIDER = "custom-metric-provider"
    """A model that it asked was not available."""


class MetricFailure(Exception):
    """A custom metric gave no result."""

    def __init__(
        self,
        message: str,
        *,
        kind: MetricFailureKind,
        owner: Owner = Owner.AGENT,
        traceback: str | None = None,
        log_tail: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Describes the failure.

        Args:
            message: One sentence without a full stop.
            kind: What happened.
            owner: Whose failure it is; the function is code of the pull request.
            traceback: Of the function, or where it hangs.
            log_tail: The last lines that its process wrote.
            hint: What to do next.
        """
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.owner = owner
        self.traceback = traceback
        self.log_tail = log_tail
        self.hint = hint

    def again(self) -> MetricFailure:
        """The same failure for another caller: raising one exception in many tasks would mix their tracebacks."""
        return MetricFailure(
            self.message,
            kind=self.kind,
            owner=self.owner,
            traceback=self.traceback,
            log_tail=self.log_tail,
            hint=self.hint,
        )


class MetricRunner(Protocol):
    """Runs custom metrics in a process of the agent's user and interpreter."""

    async def prepare(self, function: str) -> None:
        """Makes sure that a function can be called. Cheap when it is asked for again.

        Raises:
            MetricFailure: It can't be.
        """
        ...

    async def evaluate(self, call: MetricCall) -> Evaluated:
        """Calls a function.

        Returns:
            What it returned, unchecked.

        Raises:
            MetricFailure: It returned nothing.
        """
        ...
