"""Excerpt of one run of a case for `results.json`, and what a judge said of it; `recordings.jsonl.gz` has the full
recording. What a judge said is read from the `details` of its score, which have no schema.

Everything is text: calls are written as code, responses as JSON. All texts come from agents, tools and models and are
untrusted.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field, PositiveInt

from agent_eval_scoring.core.wire import ReportModel, WireModel


class StepReport(WireModel):
    """One step before the answer: a tool call with its responses, or an intermediate text."""

    agent: str = Field(default="", exclude_if=lambda value: not value)
    """The agent of this step; "" if only one agent took part in the turn."""
    call: str = Field(default="", exclude_if=lambda value: not value)
    """E.g. `find_devices(room="bedroom")`."""
    inside: str = Field(default="", exclude_if=lambda value: not value)
    """What `call` begins with if it was made inside others, e.g. `weather` of `weather > find()`: it may not count."""
    responses: list[str] = Field(default_factory=list, exclude_if=lambda value: not value)
    """Results of the tool as JSON: usually one, none if the turn ended before, several from a long-running tool."""
    text: str = Field(default="", exclude_if=lambda value: not value)
    """Text that the agent wrote before its answer."""
    error: str = Field(default="", exclude_if=lambda value: not value)
    """Code and message of an event that reported an error; of a call without a response, instead of it."""
    times: PositiveInt = Field(default=1, exclude_if=lambda value: value == 1)
    """How many equal steps there were, one after the other."""


class TurnReport(WireModel):
    """One turn: the user's message, the agent's steps and answer, and expectations that were not met."""

    turn: int
    """0-based."""
    user: str = ""
    steps: list[StepReport] = Field(default_factory=list)
    """In order."""
    steps_left_out: int = Field(default=0, exclude_if=lambda value: not value)
    """Number of further steps."""
    answer: str | None = None
    """None: the turn ended without an answer."""
    expected_calls: list[str] | None = Field(default=None, exclude_if=lambda value: value is None)
    """The eval file's expected calls, if other calls were made; None if they match, or none are given."""
    calls_as_expected: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether the eval file gives calls and exactly these were made."""
    expected_said: list[str] | None = Field(default=None, exclude_if=lambda value: value is None)
    """The eval file's intermediate responses, each as `agent: text`, if the agent did not give all of them in this
    order; None if it did, or none are given."""
    expected_answer: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """The eval file's expected answer, if the agent's differs; None if it is equal, or none is given."""

    @property
    def calls(self) -> list[StepReport]:
        """The steps with a call of the turn's own agents, each as often as it was made."""
        return [step.model_copy() for step in self.steps if step.call and not step.inside for _ in range(step.times)]


class ConversationReport(WireModel):
    """One run of a case, turn by turn."""

    run: int
    """0-based. A number of `num_runs` or more is an extra run for the statistical comparison."""
    turns: list[TurnReport] = Field(default_factory=list)
    """In order. If there are too many, turns that lowered a score are preferred."""
    turns_left_out: int = Field(default=0, exclude_if=lambda value: not value)


def dicts_of(value: object) -> list[object]:
    """The objects of a list; empty for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


_Int = Annotated[int | None, BeforeValidator(lambda value: value if isinstance(value, int) else None)]
_Float = Annotated[float | None, BeforeValidator(lambda value: value if isinstance(value, int | float) else None)]
_Text = Annotated[str | None, BeforeValidator(lambda value: value if value is None else str(value))]


class JudgeVote(ReportModel):
    """One vote of a judge. In a file, what has a wrong type is as good as missing: `details` have no schema."""

    model_config = ConfigDict(extra="ignore")
    sample: _Int = None
    """0-based."""
    verdict: _Text = ""
    rationale: _Text = ""


class JudgeVerdict(ReportModel):
    """What a judge's votes say of one thing."""

    model_config = ConfigDict(extra="ignore")
    turn: _Int = None
    """0-based; None for the whole conversation."""
    subject: _Text = ""
    verdict: _Text = ""
    """None: there was no vote."""
    score: _Float = None
    agreement: _Float = None
    """The share of the votes for the verdict, 0 to 1."""
    close: Annotated[bool, BeforeValidator(lambda value: value is True)] = False
    """Whether one vote more could change it."""
    votes: Annotated[list[JudgeVote], BeforeValidator(dicts_of)] = Field(default_factory=list)

    def agrees(self, vote: JudgeVote) -> bool:
        """Whether a vote is for the verdict."""
        return vote.verdict == self.verdict


class JudgeReport(ReportModel):
    """A judge, and what its votes cost."""

    model_config = ConfigDict(extra="ignore")
    model: _Text = None
    saved: _Int = None
    """Votes that were not asked for since those before them had decided."""
