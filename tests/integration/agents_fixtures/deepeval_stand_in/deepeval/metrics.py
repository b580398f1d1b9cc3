from __future__ import annotations

import json
import os
from typing import Any

from deepeval.models import DeepEvalBaseLLM
from deepeval.test_case import ConversationalTestCase, LLMTestCase, SingleTurnParams

ENVIRONMENT = {name: value for name, value in os.environ.items() if name.startswith(("DEEPEVAL_", "CONFIDENT_"))}
"""As it is when deepeval is imported."""


class BaseMetric:
    score: float | None = None
    success: bool | None = None
    reason: str | None = None
    error: str | None = None

    def measure(self, case: Any) -> None:
        raise AssertionError("in async mode, measure() of some metrics returns before there is a score")


class BaseConversationalMetric(BaseMetric):
    pass


class Shows(BaseMetric):
    """Passes if the answer is the expected one. The reason is everything that it was given."""

    def __init__(
        self,
        name: str,
        evaluation_params: list[SingleTurnParams] | None = None,
        model: str | DeepEvalBaseLLM | None = None,
        threshold: float | None = 0.5,
    ) -> None:
        if model is None:
            raise ValueError("OPENAI_API_KEY is not set")
        self.given = {
            "name": name,
            "params": [str(param) for param in evaluation_params or ()],
            "model": getattr(model, "shown", type(model).__name__),
            "environment": {**ENVIRONMENT, "DEEPEVAL_JUDGE_API_KEY": "-"},
        }
        self.threshold = threshold
        self.used = False

    async def a_measure(self, case: LLMTestCase, _show_indicator: bool = True) -> None:
        assert not _show_indicator and not self.used
        self.used = True
        self.score = 1.0 if case.actual_output == case.expected_output else 0.25
        self.success = self.score >= self.threshold
        self.reason = json.dumps({**self.given, "case": case.model_dump(exclude_none=True)})


class Flips(Shows):
    """Lower is better."""

    async def a_measure(self, case: LLMTestCase, _show_indicator: bool = True) -> None:
        await super().a_measure(case, _show_indicator)
        self.success = self.score <= self.threshold
        self.reason = None


class Unavailable(Shows):
    async def a_measure(self, case: LLMTestCase, _show_indicator: bool = True) -> None:
        if case.context:  # the second turn
            raise RuntimeError("RetryError[<Future>]") from ConnectionError("the judge is down")
        await super().a_measure(case, _show_indicator)


class NoScore(Shows):
    async def a_measure(self, case: LLMTestCase, _show_indicator: bool = True) -> None:
        pass


class Fails(Shows):
    async def a_measure(self, case: LLMTestCase, _show_indicator: bool = True) -> None:
        await super().a_measure(case, _show_indicator)
        self.error = "a verdict is missing"


class Calls(Shows):
    """The share of the expected calls that were made, as ToolCorrectnessMetric counts them."""

    def __init__(self, model: str | DeepEvalBaseLLM | None = None, threshold: float | None = 0.5) -> None:
        super().__init__(name="calls", model=model, threshold=threshold)

    async def a_measure(self, case: LLMTestCase, _show_indicator: bool = True) -> None:
        await super().a_measure(case, _show_indicator)
        made = [(call.name, call.input_parameters) for call in case.tools_called or ()]
        expected = [(call.name, call.input_parameters) for call in case.expected_tools or ()]
        self.score = sum(call in made for call in expected) / len(expected) if expected else 1.0


class Talks(BaseConversationalMetric):
    def __init__(self, model: str | DeepEvalBaseLLM | None = None, threshold: float | None = 0.5) -> None:
        self.threshold = threshold

    async def a_measure(self, case: ConversationalTestCase, _show_indicator: bool = True) -> None:
        self.score, self.success = 0.75, True
        self.reason = json.dumps(case.model_dump(exclude_none=True))
