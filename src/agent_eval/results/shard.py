"""Which part of a suite a report is about, and which parts a merged report was made of."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from agent_eval.core.wire import WireModel

SHARD_MISSING = "shard-missing"
"""The kind of a run that belongs to a part without results, and the code of that reason for a verdict."""


class ShardReport(WireModel):
    """One part of a suite: `--shard INDEX/TOTAL`."""

    index: int = Field(ge=1)
    """From 1 to `total`."""
    total: int = Field(ge=1)
    plan: str
    """Hash of the split. Parts of one run have the same."""
    suite: dict[str, str] = Field(default_factory=dict)
    """Hashes of the cases, the criteria and the agents of all parts together. Parts of one run have the same."""
    cases: list[str] = Field(default_factory=list)
    """Ids of the part's cases."""
    suite_cases: int = 0
    """Number of cases of all parts together."""
    weights_from: Literal["turns", "recorded"] = "turns"
    """What the split is balanced by: turns of the cases, or the durations of earlier runs (`--shard-plan`)."""
    notices: list[str] = Field(default_factory=list)
    """What the report of all parts must say, too: which tools changed after their answers were recorded."""

    @model_validator(mode="after")
    def _is_one_of_all(self) -> ShardReport:
        if self.index > self.total:
            raise ValueError("there are not as many parts")
        return self

    @property
    def note(self) -> str:
        """A clause that readers of the results must know."""
        return f"part {self.index} of {self.total} of a run (`shard`), without a verdict: `agent-eval merge` decides"


class PartReport(WireModel):
    """The results of one part that were merged; a part that was repeated has several."""

    index: int
    attempt: int | None = None
    """Attempt of the workflow run; None outside of GitHub."""
    run_url: str | None = None
    started_at: float
    duration: float
    cases: int


class MergeReport(WireModel):
    """The parts of a merged report."""

    total: int
    """Number of parts of the run."""
    parts: list[PartReport] = Field(default_factory=list)
    """By index, then by attempt."""
    missing: list[int] = Field(default_factory=list)
    """Parts without results whose cases were not run in the merge either."""
