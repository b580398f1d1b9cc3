"""What a pull request changes about the gate: a part of `results.json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agent_eval.core.wire import WireModel

RuleChangeKind = Literal["threshold", "removed", "options", "code"]
"""`threshold`: a lower one, or any other one of a custom metric. `removed`: the criterion is gone. `options`: other
options, another judge, other rubrics. `code`: the code of a custom metric is another one."""

Removal = Literal["reported", "blocked", "accepted"]
"""What becomes of removed cases: they are only reported, they fail the run, or they would and somebody accepted it."""


class RuleChange(WireModel):
    """One criterion of the base branch that the pull request changes, over the cases that both have."""

    kind: RuleChangeKind
    metric: str
    config: str | None = None
    """The file that says so here; None: ADK's defaults apply."""
    cases: int
    """How many cases it holds for."""
    base: str
    """The base branch's rule, e.g. `0.80`."""
    head: str
    """The rule of the pull request."""
    fails: int | None = None
    """Cases that fail by the base branch's rule and not by the pull request's; None: not measured."""


class RemovedCases(WireModel):
    """Cases of one eval file that the pull request removes."""

    file: str
    """Its path on the base branch."""
    base: int
    """Its cases there."""
    removed: int


class RuleChangesReport(WireModel):
    """What the pull request changes about the gate, and whose rules decided."""

    base_ref: str = ""
    """The base branch; "" where its name is not known."""
    decides: Literal["base", "head"] = "base"
    """`base`: the stricter of both rules decided. `head`: the pull request's, since that was accepted."""
    accepted: str = ""
    """Who or what accepted the pull request's rules, e.g. `octocat set the label ...`; "" if nothing did."""
    not_accepted: str = ""
    """Why the label that would accept them does not count, as a sentence; "" if it is not set."""
    changes: list[RuleChange] = Field(default_factory=list)
    only_here: list[str] = Field(default_factory=list)
    """Ids of the cases that pass, or would pass, only by the pull request's rules."""
    removed: list[RemovedCases] = Field(default_factory=list)
    """In path order."""
    removal: Removal = "reported"
    """What becomes of them; `accepted` says who accepted it."""
    base_cases: int = 0
    """Cases of the base branch, of those that this run selects."""
    unread: str = ""
    """Why the base branch's rules are not known, as a sentence; then nothing above is."""

    @property
    def removed_cases(self) -> int:
        """How many cases of the base branch are gone."""
        return sum(one.removed for one in self.removed)
