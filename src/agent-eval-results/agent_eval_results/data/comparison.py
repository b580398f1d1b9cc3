"""The baseline and the comparison with it: the part of `results.json` about the base branch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, computed_field, model_validator

from agent_eval_results.data.origin import CaseStatus
from agent_eval_scoring.core.reason import Note, Reason
from agent_eval_scoring.core.wire import WireModel

RuleChangeKind = Literal["threshold", "removed", "options", "code"]
"""`threshold`: lowered, or changed for a custom metric. `removed`: the criterion was removed. `options`: options, judge
or rubrics changed. `code`: the code of a custom metric changed."""

Removal = Literal["reported", "blocked", "accepted"]
"""Effect of removed cases: they are only reported, they fail the run, or they would but were accepted."""


ABSENT = "absent"
"""Stands for the rule where there is no such criterion."""


class RuleChange(WireModel):
    """A change to one criterion of the base branch, over the cases of both sides."""

    kind: RuleChangeKind
    metric: str
    config: str | None = None
    """The pull request's config file; None: ADK's defaults apply."""
    cases: int
    """Number of affected cases."""
    base: str
    """The base branch's rule, e.g. `0.80`."""
    head: str
    """The pull request's rule."""
    fails: int | None = None
    """Cases that fail under the base branch's rule but not under the pull request's; None: not measured."""


class RemovedCases(WireModel):
    """Cases of one eval file that the pull request removes."""

    file: str
    """Its path on the base branch."""
    base: int
    """Its cases on the base branch."""
    removed: int


class RuleChangesReport(WireModel):
    """Changes of the pull request to the gate's rules, and which rules decided."""

    base_ref: str = ""
    """The base branch; "" if unknown."""
    decides: Literal["base", "head"] = "base"
    """`base`: the stricter of both rules decided. `head`: the pull request's rules decided, as they were accepted."""
    accepted: str = ""
    """Who or what accepted the pull request's rules, e.g. `octocat set the label ...`; "" if they were not accepted."""
    not_accepted: str = ""
    """Why the label that would accept them does not count, as a sentence; "" if it is not set."""
    changes: list[RuleChange] = Field(default_factory=list)
    only_here: list[str] = Field(default_factory=list)
    """Ids of the cases that pass, or would pass, only under the pull request's rules."""
    removed: list[RemovedCases] = Field(default_factory=list)
    """In path order."""
    removal: Removal = "reported"
    """Effect of the removed cases; `accepted` says who accepted it."""
    renamed: dict[str, str] = Field(default_factory=dict)
    """By its id, the base branch's id of each renamed case whose policy is looser under the new id."""
    replaced: int = 0
    """Cases of the base branch with another content here, if there are so many that this needs acceptance; else 0."""
    tapes: int = 0
    """Cases whose tape is not the base branch's, where tapes answer for models."""
    base_cases: int = 0
    """Cases of the base branch within this run's selection."""
    unread: str = ""
    """Why the base branch's rules could not be read, as a sentence; the other fields are then empty."""

    @property
    def removed_cases(self) -> int:
        """Number of removed cases."""
        return sum(file.removed for file in self.removed)


BaselineSource = Literal["artifact", "file", "rerun"]
BaselineStatus = Literal["found", "none-yet", "fetch-failed", "incompatible"]
"""`none-yet`: none has been recorded. `fetch-failed`: there may be one, but it could not be fetched. `incompatible`:
there is one, but nothing in it can be compared."""
Change = Literal["newly_failing", "fixed", "still_failing", "changed", "added", "removed", "unjudged", "renamed"]
"""How a case changed since the base branch. `changed`: the case itself was edited, so its scores say nothing about the
agent. `unjudged`: one side has no result to compare. `renamed`: the same case under another id, which still passes."""


class BaselineStep(WireModel):
    """One place where a baseline was looked for."""

    source: BaselineSource
    status: BaselineStatus
    message: str
    """One plain sentence: what was found, or why there is none."""
    reason: Reason | None = Field(default=None, exclude_if=lambda value: value is None)
    """Why there is none, without a message; None where the status says all that programs can use. Data of `no-access`:
    `subject`, the service; of `other-version` and `other-scoring`: the versions of agent-eval of this run (`wanted`)
    and of the baseline (`got`)."""


class BaselineReport(WireModel):
    """Where the base branch's results come from, or why there are none."""

    status: BaselineStatus
    branch: str = Field(default="", exclude_if=lambda value: not value)
    """The base branch's name, e.g. `main`; "" if unknown."""
    source: BaselineSource | None = None
    """Only if found; also the next ones."""
    commit: str | None = None
    wanted_commit: str | None = None
    """The base commit of the head; `commit` may be an ancestor of it."""
    distance: int | None = None
    """Number of commits from `commit` to `wanted_commit`; 0 if they are the same."""
    run_url: str | None = None
    recorded_at: float | None = None
    """Unix time in seconds."""
    message: str
    """One plain sentence for people."""
    reason: Reason | None = Field(default=None, exclude_if=lambda value: value is None)
    """As that of a step; None also in results of older versions."""
    steps: list[BaselineStep] = Field(default_factory=list)
    """All places that were searched, in order."""
    recordings_note: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Why the conversations of the baseline are not in the output directory, or not all of them."""

    @property
    def found(self) -> bool:
        """Whether there is something to compare with."""
        return self.status == "found"


class Delta(WireModel):
    """A number on both sides."""

    head: float | None = None
    base: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_computed(cls, value: Any) -> Any:
        return {key: item for key, item in value.items() if key != "delta"} if isinstance(value, dict) else value

    @computed_field  # type: ignore[prop-decorator]
    @property
    def delta(self) -> float | None:
        """Head minus base; None if one of them is missing."""
        return None if self.head is None or self.base is None else self.head - self.base


class MetricComparison(WireModel):
    """A metric over the cases that have a comparable score on both sides."""

    name: str
    cases: int
    """Number of those cases."""
    score: Delta
    """Means over those cases."""
    threshold: float | None = None
    """The head's threshold; None for an informational metric, and if the cases differ."""
    base_threshold: float | None = None
    """The base branch's threshold; None under the same conditions."""
    not_compared: int = 0
    """Cases with the same content whose scores of this metric can't be compared."""
    note: Note | None = None
    """Why some or all cases can't be compared, e.g. because the judge changed."""


class CaseMetricComparison(WireModel):
    """A metric of one case."""

    name: str
    score: Delta
    note: Note | None = None
    """Why the scores can't be compared (then there is no base score), or that the threshold changed."""


class CaseComparison(WireModel):
    """A case that differs from the base branch."""

    case_id: str
    file: str
    eval_id: str
    change: Change
    head: CaseStatus | None = None
    """None if the case was removed."""
    base: CaseStatus | None = None
    """None if the case is new."""
    renamed_from: str | None = None
    """The case's id on the base branch, if it was renamed."""
    metrics: list[CaseMetricComparison] = Field(default_factory=list)
    """Gating metrics whose score or status changed."""
    note: Note | None = None
    """Why the case is unjudged."""

    @property
    def is_new(self) -> bool:
        """Whether the base branch does not have it."""
        return self.change == "added"

    @property
    def is_gone(self) -> bool:
        """Whether only the base branch has it."""
        return self.change == "removed"

    @property
    def fails_only_here(self) -> bool:
        """Whether it passed on the base branch and fails here."""
        return self.change == "newly_failing"

    @property
    def is_other(self) -> bool:
        """Whether it is not the same case on both sides."""
        return self.change in {"added", "removed", "changed"}

    @property
    def lacks_comparison(self) -> bool:
        """Whether it ran here and could not be compared. What has no result here, every text lists with a reason."""
        return self.change == "unjudged" and self.head not in {"errored", "not_run", "quarantined"}


class Move(WireModel):
    """A changed score of a case that passes on both sides."""

    case_id: str
    file: str
    eval_id: str
    name: str
    """Of the metric."""
    score: Delta


class ChangedValue(WireModel):
    """Something that an agent says or does otherwise than on the base branch. Its texts are untrusted."""

    kind: Literal["answer", "response", "call", "state"]
    """In an answer, in the response of a tool, in the arguments of a call, or in the session's final state."""
    turn: int
    """0-based."""
    tool: str = ""
    """The tool that is called; "" for an answer and the state."""
    path: str = ""
    """The name of the argument, or of the value in the response or state; keys are joined by dots. "" for a call."""
    fact: str = ""
    """What it is, e.g. `number`, `date`, `name`; "" if that is not known."""
    before: str | None = None
    """As the base branch says it, at most 200 characters; None: only this side has something there."""
    after: str | None = None
    """As it is now."""


class ChangedAnswer(WireModel):
    """A case that answers or acts otherwise than on the base branch, in all of its runs."""

    case_id: str
    file: str
    eval_id: str
    passes: bool
    """Whether it passes here."""
    runs: int
    """Runs that were compared."""
    base_runs: int
    values: list[ChangedValue]
    """In order, answers first in each turn; at most 20."""
    more: int = 0
    """Values that are left out."""


class ComparisonReport(WireModel):
    """Head compared with base. A delta is not necessarily significant: see the gate's decision."""

    cases: list[CaseComparison] = Field(default_factory=list)
    """Cases that differ, in the head's order; removed cases last."""
    compared: int
    """Cases with the same content on both sides."""
    unchanged: int
    """Compared cases that passed on both sides."""
    metrics: list[MetricComparison] = Field(default_factory=list)
    pass_rate: Delta = Field(default_factory=Delta)
    """Over the compared cases."""
    duration: Delta = Field(default_factory=Delta)
    """Mean seconds per run of the compared cases."""
    tokens: Delta = Field(default_factory=Delta)
    """Mean tokens of the agent's model calls per run of the compared cases."""
    cost: Delta = Field(default_factory=Delta)
    """Total US dollars for judges and simulated users."""
    base_records: int = Field(default=1, ge=0, exclude_if=lambda value: value == 1)
    """Number of gate runs on the base branch over which its scores and pass rate are averaged."""
    drops: list[Move] = Field(default_factory=list)
    """The largest drops of scores that still pass; at most ten."""
    changed_answers: list[ChangedAnswer] = Field(default_factory=list, exclude_if=lambda value: not value)
    """Cases that answer or act otherwise than on the base branch, whatever their scores are."""
    notes: list[Note] = Field(default_factory=list)
    """Remarks on the numbers, e.g. that the criteria of a file changed."""
