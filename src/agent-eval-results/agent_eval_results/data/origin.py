"""The tool and model that made a report, and words that the gate and its reports share."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

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
PASS = "pass"  # noqa: S105 - the name of a series
"""The name of the series of passed (1.0) and failed (0.0) runs. All other series are scores of metrics."""
CASES_REMOVED = "cases-removed"
CASES_REPLACED = "cases-replaced"
NOTHING_SCORED = "nothing-scored"
"""The code of a run in which no case that gates has a score: it is never `passed`."""
NO_SECRETS = "no-secrets"
"""The code of the reason."""
ACCEPT_RULES = "agent-eval: accept rules"
"""The label's name."""


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
