"""What a judge said of a run: read from the `details` of its score, which have no schema."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from agent_eval_scoring.core.wire import ReportModel


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
