"""What a report is about, words that the gate and its reports share, and what a status says."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from agent_eval_scoring.core.recording import RunError
from agent_eval_scoring.core.wire import ReportModel

MetricStatus = Literal["passed", "failed", "not_evaluated", "informational"]
CaseStatus = Literal["passed", "failed", "errored", "not_run", "quarantined"]
VerdictValue = Literal["passed", "failed", "inconclusive", "invalid"]
GateMode = Literal["thresholds", "regressions", "both", "advisory"]
"""The rule that decides. `auto` becomes one of the first two, depending on whether there is a baseline."""
CaseWord = Literal["broken", "worse", "suspicious", "flaky as before", "fixed", "better", "unchanged"]
"""broken: significantly worse, and no confirmation run passed; or every run failed, and the base has too few runs for a
comparison. worse: significantly worse. suspicious: a suspected regression, not significant. flaky as before: failed,
but not more often than on the base branch. fixed: no run of the base passed, every run of the head passes, and the
difference is significant. better: significantly better. unchanged: none of these. See docs/statistics.md."""
NO_FACTS = "no-facts"
"""The code of a criterion that has nothing to compare in a case, which its other criteria decide."""
PASS = "pass"  # noqa: S105 - the name of a series
"""The name of the series of passed (1.0) and failed (0.0) runs. All other series are scores of metrics."""
CASES_REMOVED = "cases-removed"
CASES_REPLACED = "cases-replaced"
NOTHING_SCORED = "nothing-scored"
"""The code of a run in which no case that gates has a score: it is never `passed`."""
NO_SECRETS = "no-secrets"
"""The code of the reason."""
NO_ACCESS, UNREACHABLE, SHORT_HISTORY = "no-access", "unreachable", "short-history"
OTHER_VERSION, OTHER_SCORING = "other-version", "other-scoring"
"""Codes of the reasons why there is no baseline that somebody can do something about: the token may not read it, the
service that has it did not answer, the clone lacks commits, another version of agent-eval wrote or scored it."""
ACCEPT_RULES = "agent-eval: accept rules"
"""The label's name."""


class Evaluated:
    """What can pass, fail, or end without a result."""

    if TYPE_CHECKING:
        status: str

    @property
    def passed(self) -> bool:
        """Whether it passed."""
        return self.status == "passed"

    @property
    def failed(self) -> bool:
        """Whether it failed, by a score or by the agent's error."""
        return self.status == "failed"

    @property
    def errored(self) -> bool:
        """Whether it ran and could not be evaluated."""
        return self.status == "errored"

    @property
    def did_not_run(self) -> bool:
        """Whether it did not even begin."""
        return self.status == "not_run"

    @property
    def only_measures(self) -> bool:
        """Whether it is a number that nothing is held to."""
        return self.status == "informational"

    @property
    def went_wrong(self) -> bool:
        """Whether it failed, or ran and could not be evaluated; not, what a quarantine covers."""
        return self.failed or self.errored

    @property
    def is_judged(self) -> bool:
        """Whether it passed or failed; not, if it could not be evaluated, did not run or is quarantined."""
        return self.passed or self.failed

    @property
    def lacks_result(self) -> bool:
        """Whether it could not be evaluated, or did not run."""
        return self.status in {"errored", "not_evaluated", "not_run"}


class OfARun(Evaluated):
    """What a run can end with."""

    if TYPE_CHECKING:
        error: RunError | None

    @property
    def broke(self) -> bool:
        """Whether it ended with an error that the agent's author has to fix."""
        return self.error is not None and self.error.by_agent

    def ended_by(self, kinds: Collection[str]) -> bool:
        """Whether it ended with an error of one of these kinds."""
        return self.error is not None and self.error.kind in kinds


class OfSeveralRuns(Evaluated):
    """What is made of several runs."""

    if TYPE_CHECKING:
        runs: Sequence[OfARun]

    @property
    def error_kinds(self) -> list[str]:
        """The kinds of the errors of agents and custom metrics, one for each run that ended with one."""
        return [run.error.kind for run in self.runs if run.error is not None and run.error.by_agent]


PULL_REQUEST = "pull request"
"""What a proposed change is called, unless it is on GitLab."""


class Origin(ReportModel):
    """The repository and commit that were tested, and the workflow run that tested them."""

    repository: str = ""
    """`owner/name`; "" outside of a forge."""
    commit: str = ""
    ref: str = ""
    """E.g. `refs/heads/main`."""
    event: str = ""
    """The GitHub event that started the run; "" elsewhere."""
    base_commit: str | None = None
    """The tip of the base branch with which a pull request was merged for the test."""
    pull_request: int | None = None
    head_commit: str | None = None
    """The pull request's last commit; `commit` is GitHub's merge of it with the base branch."""
    workflow: str = ""
    """Path of the workflow file, e.g. `.github/workflows/evals.yml`."""
    run_id: int | None = None
    run_attempt: int | None = None
    run_url: str | None = None
    uncommitted: list[str] = Field(default_factory=list)
    """Files that were not as in the commit, at most 100, relative to the root, or with `/` to the repository's top; in
    CI without new ones, which other steps of the job leave."""

    @property
    def change(self) -> str:
        """What the forge calls a proposed change of a branch. Only GitLab's addresses have `/-/`."""
        return "merge request" if "/-/" in (self.run_url or "") else PULL_REQUEST


class OfTheGate:
    """What a whole run of the gate is."""

    if TYPE_CHECKING:
        verdict: VerdictValue
        origin: Origin | None

    @property
    def passed(self) -> bool:
        """Whether the verdict is `passed`."""
        return self.verdict == "passed"

    @property
    def failed(self) -> bool:
        """Whether the verdict is `failed`."""
        return self.verdict == "failed"

    @property
    def is_invalid(self) -> bool:
        """Whether nothing could be run, by a mistake in files or settings."""
        return self.verdict == "invalid"

    @property
    def is_inconclusive(self) -> bool:
        """Whether too little is known for a verdict."""
        return self.verdict == "inconclusive"

    @property
    def change(self) -> str:
        """What the forge calls a proposed change of a branch: `pull request`, on GitLab `merge request`."""
        return PULL_REQUEST if self.origin is None else self.origin.change


class FileReport(ReportModel):
    """An eval file with its config and its agent."""

    file: str
    eval_set_id: str
    config: str | None = None
    """None: ADK's defaults apply."""
    criteria: dict[str, float | None] = Field(default_factory=dict)
    """Thresholds by metric."""
    agent: str
    agent_reason: str = ""
    legacy: bool = False


class TargetReport(ReportModel):
    """A file, a directory or a glob that a run was limited to."""

    path: str
    """Relative to the root, with forward slashes."""
    ids: list[str] = Field(default_factory=list)
    """Eval ids or globs; empty for all cases."""


class SelectionReport(ReportModel):
    """The selection that a run was limited to. Cases outside of the selection are not missing."""

    targets: list[TargetReport] = Field(default_factory=list)
    """Empty: the whole repository."""
    exclude: list[str] = Field(default_factory=list)
    """Patterns as in a .gitignore."""
