"""What the agent did in one run of a case, cut to size for `results.json`; the whole is in `recordings.jsonl.gz`.

Only texts: a call is written as code, a response as JSON. Everything in them comes from agents, tools and models.
"""

from __future__ import annotations

from pydantic import Field

from agent_eval.core.wire import WireModel


class StepReport(WireModel):
    """One thing that happened before the answer: a tool call with its responses, or words on the way."""

    agent: str = Field(default="", exclude_if=lambda value: not value)
    """Who did it; "" where only one agent took part in the turn."""
    call: str = Field(default="", exclude_if=lambda value: not value)
    """E.g. `find_devices(room="bedroom")`."""
    responses: list[str] = Field(default_factory=list, exclude_if=lambda value: not value)
    """What the tool returned, as JSON: one as a rule, none if the turn ended before, more from a long-running tool."""
    text: str = Field(default="", exclude_if=lambda value: not value)
    """What the agent said on the way."""


class TurnReport(WireModel):
    """One turn: what the user said, what the agent did and answered, what was expected where that is something else."""

    turn: int
    """0-based."""
    user: str = ""
    steps: list[StepReport] = Field(default_factory=list)
    """In order."""
    steps_left_out: int = Field(default=0, exclude_if=lambda value: not value)
    """How many steps there were behind those."""
    answer: str | None = None
    """None: the turn ended without one."""
    expected_calls: list[str] | None = Field(default=None, exclude_if=lambda value: value is None)
    """What the eval file expects, where other calls were made; None where these were made, or none are named."""
    expected_answer: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """The eval file's answer, where the agent's is another; None where it is the same, or there is none."""


class ConversationReport(WireModel):
    """One run of a case, turn by turn."""

    run: int
    """0-based. A number beyond `num_runs` is a run that was added to tell a change from noise."""
    turns: list[TurnReport] = Field(default_factory=list)
    """In order; where there is no room for all, those that lowered a score come before the others."""
    turns_left_out: int = Field(default=0, exclude_if=lambda value: not value)
