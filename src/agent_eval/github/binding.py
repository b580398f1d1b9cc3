"""Which pull request a finished run belongs to, for the job that publishes what the run found.

The run's artifacts were made by the pull request's own code: nothing in them says where they belong. GitHub does: the
id of the run comes from the event, the run's commit, branch and repository from the API, the pull request from the API
as well, and it must have that very commit as its last one. What an artifact claims can only lead to a refusal, or pick
one of several pull requests that all fit.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent_eval.github.client import GitHub
from agent_eval.github.errors import GitHubError
from agent_eval.github.events import Event, PullRequest, at, same_repository
from agent_eval.github.runs import WorkflowRun, get_pull, get_run, open_pulls, pulls_of_head


@dataclass(frozen=True, kw_only=True)
class Bound:
    """The run belongs to this pull request, and tested its last commit."""

    run: WorkflowRun
    pull_request: PullRequest


@dataclass(frozen=True, kw_only=True)
class Unbound:
    """The run's results are not to be posted."""

    message: str
    """One plain sentence: why."""
    suspicious: bool = False
    """What the artifact claims contradicts GitHub. Otherwise life has gone on: pushed again, closed."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What the artifact says of itself; believed in nothing."""

    repository: str = ""
    run_id: int | None = None
    pull_request: int | None = None
    head_commit: str | None = None


def finished_run(event: Event) -> int | None:
    """The id of the run that a `workflow_run` event is about; None for other events."""
    found = at(event.payload, "workflow_run", "id") if event.name == "workflow_run" else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def bind(github: GitHub, run_id: int, claim: Claim | None = None) -> Bound | Unbound:
    """The pull request that a finished run belongs to.

    Args:
        github: The repository that the run ran in.
        run_id: From the event, see `finished_run`.
        claim: From the artifact, to be held against what GitHub says. Without one, of several pull requests that fit
            none is taken.

    Raises:
        GitHubError: As its kind says.
    """
    run = get_run(github, run_id)
    if run.event != "pull_request":
        return Unbound(message=f"Run {run_id} was started by {run.event}, not by a pull request.")
    if run.status != "completed":
        return Unbound(message=f"Run {run_id} has not ended yet: it was started again, and will publish when it ends.")
    claim = claim or Claim()
    contradiction = _contradiction(github, run, claim)
    if contradiction is not None:
        return Unbound(message=contradiction, suspicious=True)
    candidates = _candidates(github, run)
    fitting = [one for one in candidates if one.open and one.head_sha == run.head_sha]
    if not fitting:
        return Unbound(message=_nothing_fits(run, candidates))
    if claim.pull_request is not None:
        chosen = [one for one in fitting if one.number == claim.pull_request]
        if not chosen:
            numbers = ", ".join(str(one.number) for one in fitting)
            message = f"The results claim pull request {claim.pull_request}, but run {run_id} belongs to {numbers}."
            return Unbound(message=message, suspicious=True)
        return Bound(run=run, pull_request=chosen[0])
    if len(fitting) > 1:
        numbers = ", ".join(str(one.number) for one in fitting)
        return Unbound(
            message=f"Run {run_id} fits the pull requests {numbers}, and its results do not say to which it belongs."
        )
    return Bound(run=run, pull_request=fitting[0])


def _contradiction(github: GitHub, run: WorkflowRun, claim: Claim) -> str | None:
    if claim.repository and not same_repository(claim.repository, github.repository):
        return f"The results claim to be of {claim.repository}, but run {run.id} is one of {github.repository}."
    if claim.run_id is not None and claim.run_id != run.id:
        return f"The results claim run {claim.run_id}, but they were uploaded by run {run.id}."
    if claim.head_commit is not None and claim.head_commit != run.head_sha:
        return f"The results claim commit {claim.head_commit[:40]}, but run {run.id} tested {run.head_sha}."
    return None


def _candidates(github: GitHub, run: WorkflowRun) -> list[PullRequest]:
    """Pull requests whose head is where the run's commit came from."""
    if run.head_repository is None:
        # The fork is gone, and with it the name to ask by. The pull request is still there.
        gone = (one for one in open_pulls(github) if one.head_repository is None)
        return [one for one in gone if one.head_sha == run.head_sha]
    here = run.head_repository.full_name
    if same_repository(here, github.repository):
        # Listed by GitHub for branches of the repository itself; asked for anew, since they may have changed.
        numbers = [found for one in run.pull_requests or [] if isinstance(found := one.get("number"), int)]
        asked = [_pull_or_none(github, number) for number in numbers[:10]]
        listed = [one for one in asked if one is not None and same_repository(one.head_repository, here)]
        if listed:
            return listed
    if not run.head_branch:
        return []
    found_by_head = pulls_of_head(github, here.partition("/")[0], run.head_branch, state="all")
    return [one for one in found_by_head if same_repository(one.head_repository, here)]


def _pull_or_none(github: GitHub, number: int) -> PullRequest | None:
    try:
        return get_pull(github, number)
    except GitHubError as error:
        # GitHub also lists pull requests of other repositories that have the commit.
        if error.kind == "not-found":
            return None
        raise


def _nothing_fits(run: WorkflowRun, candidates: list[PullRequest]) -> str:
    moved = [one for one in candidates if one.open]
    if moved:
        numbers = ", ".join(str(one.number) for one in moved)
        return f"Pull request {numbers} has moved on from {run.head_sha}, which run {run.id} tested; a newer run tells."
    closed = [one for one in candidates if one.head_sha == run.head_sha]
    if closed:
        return f"Pull request {closed[0].number}, which run {run.id} belongs to, is closed."
    return f"No open pull request has commit {run.head_sha}, which run {run.id} tested."
