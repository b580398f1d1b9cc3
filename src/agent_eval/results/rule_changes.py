"""Changes of a pull request to the gate's rules: a part of `results.json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agent_eval.core.wire import WireModel

RuleChangeKind = Literal["threshold", "removed", "options", "code"]
"""`threshold`: lowered, or changed for a custom metric. `removed`: the criterion was removed. `options`: options, judge
or rubrics changed. `code`: the code of a custom metric changed."""

Removal = Literal["reported", "blocked", "accepted"]
"""Effect of removed cases: they are only reported, they fail the run, or they would but were accepted."""


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
    base_cases: int = 0
    """Cases of the base branch within this run's selection."""
    unread: str = ""
    """Why the base branch's rules could not be read, as a sentence; the other fields are then empty."""

    @property
    def removed_cases(self) -> int:
        """Number of removed cases."""
        return sum(file.removed for file in self.removed)
