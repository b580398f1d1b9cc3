"""GitHub as a `Forge`; and the acceptance of a pull request's changes to the gate, by a label.

Only people with triage permission can set labels. A label remains when commits are pushed, but the person who set it
has not seen them. So it counts only for the commit on which it was set. GitHub's clock decides this, since a commit's
dates are chosen by its author: the label must be newer than this commit's run, or have started it.

And the match of a finished run to its pull request, for the job that publishes the run's results. The pull request's
own code made the artifacts, so their content is not trusted. GitHub decides: the run's id comes from the event; its
commit, branch and repository, and the pull request, come from the API; and the pull request's head must be the run's
commit. Claims of an artifact can only lead to a refusal, or select one of several matching pull requests.
"""

from __future__ import annotations

from agent_eval.forge import Acceptance, Bound, Claim, PullRequest, Unbound, WorkflowRun, comments, same_repository
from agent_eval.forge.rest import RestError
from agent_eval.github import runs
from agent_eval.github.client import GitHubClient
from agent_eval.github.runs import get_pull, get_run, open_pulls, pulls_of_head
from agent_eval_results import ACCEPT_RULES
from agent_eval_scoring.core.text import harmless


def acceptance(github: GitHubClient, number: int, *, run_id: int | None, started_by_label: bool) -> Acceptance:
    """Reads the label of a pull request.

    Args:
        github: The repository.
        number: Number of the pull request.
        run_id: This run; None if it has no id.
        started_by_label: Setting the label started this run.
    """
    try:
        label = _last_label(github, number)
        if label is None:
            return Acceptance()
        if label.actor is None or label.actor.type == "Bot":
            return Acceptance(why_not=f"The label `{ACCEPT_RULES}` does not count: a program set it, not a person.")
        if not started_by_label:
            if run_id is None:
                return Acceptance(why_not=f"The label `{ACCEPT_RULES}` does not count: this run has no id.")
            if label.created_at <= get_run(github, run_id).created_at:
                return Acceptance(
                    why_not=f"The label `{ACCEPT_RULES}` does not count: it was set before this commit was pushed. "
                    "Remove it, set it again and re-run this job."
                )
    except RestError as error:
        return Acceptance(why_not=f"Whether the label `{ACCEPT_RULES}` is set could not be read: {error}")
    return Acceptance(by=harmless(label.actor.login))


def _last_label(github: GitHubClient, number: int) -> runs.LabelEvent | None:
    """Returns the last setting of the label; None if it is not set."""
    last = None
    for event in runs.label_events(github, number):
        if event.label.name.casefold() == ACCEPT_RULES.casefold():
            last = event
    return last if last is not None and last.event == "labeled" else None


def bind(github: GitHubClient, run_id: int, claim: Claim | None = None) -> Bound | Unbound:
    """Finds the pull request of a finished run.

    Args:
        github: The repository of the run.
        run_id: The id of the run.
        claim: The artifact's claims, to compare with GitHub's data. Without them several matching pull requests are
            ambiguous.

    Raises:
        RestError: See its kind.
    """
    run = get_run(github, run_id)
    if run.event != "pull_request":
        return Unbound(message=f"Run {run_id} was started by {run.event}, not by a pull request.")
    if run.status != "completed":
        return Unbound(message=f"Run {run_id} has not ended yet: it was re-run, and will publish when it ends.")
    claim = claim or Claim()
    contradiction = _contradiction(github, run, claim)
    if contradiction is not None:
        return Unbound(message=contradiction, is_contradiction=True)
    candidates = _candidates(github, run)
    fitting = [pull for pull in candidates if pull.open and pull.head_sha == run.head_sha]
    if not fitting:
        return Unbound(message=_nothing_fits(run, candidates))
    if claim.pull_request is not None:
        claimed = [pull for pull in fitting if pull.number == claim.pull_request]
        if not claimed:
            numbers = ", ".join(str(pull.number) for pull in fitting)
            message = f"The results claim pull request {claim.pull_request}, but run {run_id} belongs to {numbers}."
            return Unbound(message=message, is_contradiction=True)
        return Bound(run=run, pull_request=claimed[0])
    if len(fitting) > 1:
        numbers = ", ".join(str(pull.number) for pull in fitting)
        return Unbound(message=f"Run {run_id} matches the pull requests {numbers}, and its results do not name one.")
    return Bound(run=run, pull_request=fitting[0])


def _contradiction(github: GitHubClient, run: WorkflowRun, claim: Claim) -> str | None:
    if claim.repository and not same_repository(claim.repository, github.repository):
        return f"The results claim the repository {claim.repository}, but run {run.id} belongs to {github.repository}."
    if claim.run_id is not None and claim.run_id != run.id:
        return f"The results claim run {claim.run_id}, but they were uploaded by run {run.id}."
    if claim.head_commit is not None and claim.head_commit != run.head_sha:
        return f"The results claim commit {claim.head_commit[:40]}, but run {run.id} tested {run.head_sha}."
    return None


def _candidates(github: GitHubClient, run: WorkflowRun) -> list[PullRequest]:
    """Returns the pull requests from the repository and branch of the run's commit."""
    if run.head_repository is None:
        # The fork was deleted, so its name is unknown. The pull request still exists.
        pulls = open_pulls(github)
        return [pull for pull in pulls if pull.head_repository is None and pull.head_sha == run.head_sha]
    here = run.head_repository.full_name
    if same_repository(here, github.repository):
        # GitHub lists them for branches of the repository itself. They are fetched, since they may have changed.
        numbers = [number for pull in run.pull_requests or [] if isinstance(number := pull.get("number"), int)]
        fetched = [_pull_or_none(github, number) for number in numbers[:10]]
        own = [pull for pull in fetched if pull is not None and same_repository(pull.head_repository, here)]
        if own:
            return own
    if not run.head_branch:
        return []
    of_head = pulls_of_head(github, here.partition("/")[0], run.head_branch)
    return [pull for pull in of_head if same_repository(pull.head_repository, here)]


def _pull_or_none(github: GitHubClient, number: int) -> PullRequest | None:
    try:
        return get_pull(github, number)
    except RestError as error:
        # GitHub also lists pull requests of other repositories with that commit.
        if error.kind == "not-found":
            return None
        raise


def _nothing_fits(run: WorkflowRun, candidates: list[PullRequest]) -> str:
    moved = [pull for pull in candidates if pull.open]
    if moved:
        numbers = ", ".join(str(pull.number) for pull in moved)
        return f"Pull request {numbers} has newer commits than {run.head_sha}, which run {run.id} tested."
    closed = [pull for pull in candidates if pull.head_sha == run.head_sha]
    if closed:
        return f"Pull request {closed[0].number}, to which run {run.id} belongs, is closed."
    return f"No open pull request has commit {run.head_sha}, which run {run.id} tested."


class GitHub(GitHubClient):
    """One repository on GitHub. The methods are those of `agent_eval.forge.Forge`; each takes the client first."""

    upsert_comment = comments.upsert_comment
    memories = comments.memories
    acceptance = acceptance
    bind = bind
    file_at = runs.file_at
    changed_files = runs.changed_files
    commit_parents = runs.commit_parents
    first_parents = runs.first_parents
    merge_base = runs.merge_base
    list_runs = runs.list_runs
    list_artifacts = runs.list_artifacts
    download_artifact = runs.download_artifact

    def is_retry(self, run_id: int, attempt: int) -> bool:
        """Whether this attempt of a run has one before it: GitHub counts them from 1."""
        return attempt > 1
