"""What custom metrics need from the process that runs them: the call, its result and its failures."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import Field

from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.recording import Failure
from agent_eval_scoring.core.wire import HostMessage
from agent_eval_scoring.evalset.models import ConversationScenario


class RubricResult(HostMessage):
    """Result of a custom metric for one rubric."""

    rubric_id: str = ""
    score: Any = None
    rationale: str = ""


class ScoreResult(HostMessage):
    """Result of a custom metric for one turn."""

    score: Any = None
    """The returned value, which may be anything."""
    status: str = ""
    """Name of ADK's EvalStatus."""
    rubrics: list[RubricResult] = Field(default_factory=list)


class Evaluated(ScoreResult):
    """Result of `evaluate`: the return value of a custom metric."""

    type: str = ""
    """Name of the result's class. The other fields are only set for ADK's EvaluationResult, except `shown`."""
    shown: str = ""
    """The beginning of any other result, as text."""
    place: str = ""
    """Where the function is (`FILE:LINE`), if it returned something else and is in the repository."""
    version: str = ""
    """The function's attribute `version`: scores of different versions are not comparable."""
    explanation: str = ""
    """Of the score of agents-cli's functions, whose `type` is `score`."""
    turns: list[ScoreResult] = Field(default_factory=list)


class MetricFailureKind(enum.StrEnum):
    """What happened to a custom metric (docs/problems.md)."""

    ENVIRONMENT = "custom-metric-environment"
    """There is no interpreter for it, or its google-adk does not support custom metrics."""
    IMPORT = "custom-metric-import"
    """The function can't be imported."""
    EXCEPTION = "custom-metric-exception"
    """The function raised an exception."""
    RESULT = "custom-metric-invalid-result"
    """The function returned something that is not a result, or has no score."""
    DEADLINE = "custom-metric-deadline"
    """The function did not return in time."""
    CRASH = "custom-metric-crash"
    """Its process ended."""
    PROVIDER = "custom-metric-provider"
    """A model that it called was unavailable."""


class MetricFailure(Failure[MetricFailureKind]):
    """A custom metric, which is code of the pull request, returned no result."""


@dataclass(frozen=True, kw_only=True)
class MetricCall:
    """One call of a custom metric: the arguments that ADK passes, not yet converted to ADK's types; or an instance."""

    metric: str
    """The name in `criteria`."""
    function: str
    """`code_config.name`: `package.module.function`; or where `code` is."""
    criterion: Mapping[str, Any] = field(default_factory=dict)
    """The criterion's JSON object: `threshold` and any other fields."""
    actual: Sequence[Invocation] = ()
    expected: Sequence[Invocation] | None = None
    """None for a scenario."""
    scenario: ConversationScenario | None = None
    code: str | None = None
    """Source with `evaluate(instance)`, agents-cli's signature; None for a function of ADK's."""
    instance: Mapping[str, Any] = field(default_factory=dict)
    """Its argument."""

    @property
    def session_states(self) -> list[dict[str, Any] | None] | None:
        """The session's state after each turn; None if it is not known of any."""
        states = [turn.session_state for turn in self.actual]
        return None if all(state is None for state in states) else states


class MetricRunner(Protocol):
    """Runs custom metrics in a process with the agent's user and interpreter."""

    async def prepare(self, function: str, code: str | None = None) -> None:
        """Checks that a function can be called. Repeating the check is cheap.

        Args:
            function: Its name.
            code: As in MetricCall.

        Raises:
            MetricFailure: The function can't be called.
        """
        ...

    async def evaluate(self, call: MetricCall) -> Evaluated:
        """Calls a function.

        Returns:
            The function's result, unchecked.

        Raises:
            MetricFailure: The function returned no result.
        """
        ...
