"""What was tested."""

from __future__ import annotations

from agent_eval.results._report_model import ReportModel


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
