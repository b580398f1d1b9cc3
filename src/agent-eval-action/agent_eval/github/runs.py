"""Queries of runs, artifacts, commits, files and pull requests; one function per query.

Responses are validated; one without a documented field raises a RestError of kind `malformed`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import quote

from agent_eval.forge import ApiModel, Artifact, PullRequest, WorkflowRun
from agent_eval.forge.rest import RestError
from agent_eval.github.client import GitHubClient
from agent_eval.github.events import pull_request_at


class _Actor(ApiModel):
    login: str
    type: str
    """`User`, `Bot` or `Organization`."""


class _Label(ApiModel):
    name: str


class LabelEvent(ApiModel):
    """The setting or removal of a label."""

    event: str
    """`labeled` or `unlabeled`."""
    created_at: datetime
    actor: _Actor | None = None
    """None if the account is gone."""
    label: _Label


class Commit(ApiModel):
    """A commit, by its hash."""

    sha: str


class LinkedCommit(Commit):
    """A commit with its parents."""

    parents: list[Commit]


class _Comparison(ApiModel):
    merge_base_commit: Commit


class _ChangedFile(ApiModel):
    filename: str
    previous_filename: str | None = None


class _Changes(ApiModel):
    files: list[_ChangedFile] | None = None


class _Content(ApiModel):
    type: str
    size: int
    encoding: str | None = None
    content: str | None = None


def get_run(github: GitHubClient, run_id: int) -> WorkflowRun:
    """Fetches a run with its latest attempt.

    Raises:
        RestError: See its kind.
    """
    path = github.repo("actions", "runs", run_id)
    return github.parsed(WorkflowRun, github.get(path), path)


def list_runs(
    github: GitHubClient,
    *,
    workflow: str,
    event: str | None = None,
    branch: str | None = None,
    head_sha: str | None = None,
    limit: int = 100,
) -> list[WorkflowRun]:
    """Runs of one workflow, newest first.

    The branch filter matches forks too: check `head_repository`.

    Args:
        github: The repository.
        workflow: Path or name of the workflow file; GitHub uses the file name.
        event: Only runs of this event.
        branch: Only runs of a branch of this name.
        head_sha: Only runs of this commit.
        limit: Maximum number of runs.

    Raises:
        RestError: See its kind; `not-found` if there is no such workflow, or the token lacks `actions: read`.
    """
    filters = {"event": event, "branch": branch, "head_sha": head_sha}
    params: dict[str, str | int] = {name: value for name, value in filters.items() if value is not None}
    path = github.repo("actions", "workflows", workflow.rpartition("/")[2], "runs")
    items = github.paginate(path, params, key="workflow_runs", limit=limit)
    return [github.parsed(WorkflowRun, item, path) for item in items]


def list_artifacts(github: GitHubClient, run_id: int, name: str | None = None, *, limit: int = 500) -> list[Artifact]:
    """Lists a run's artifacts, of all its attempts, newest first.

    Args:
        github: The repository.
        run_id: The run's id.
        name: Only artifacts with exactly this name.
        limit: Maximum number to read. GitHub allows 500 per job.

    Raises:
        RestError: See its kind.
    """
    path = github.repo("actions", "runs", run_id, "artifacts")
    items = github.paginate(path, {"name": name} if name else {}, key="artifacts", limit=limit)
    artifacts = [github.parsed(Artifact, item, path) for item in items]
    # Older GHES ignore `name`.
    return sorted((item for item in artifacts if name in (None, item.name)), key=_age, reverse=True)


def _age(artifact: Artifact) -> tuple[float, int]:
    """Sorts older artifacts first."""
    return (artifact.created_at.timestamp() if artifact.created_at is not None else 0.0, artifact.id)


def download_artifact(github: GitHubClient, artifact_id: int, *, max_bytes: int) -> bytes:
    """Downloads the zip of an artifact. Its content is untrusted.

    Raises:
        RestError: See its kind; `not-found` with status 410 if it has expired, `too-large` above `max_bytes`.
    """
    return github.download(github.repo("actions", "artifacts", artifact_id, "zip"), max_bytes=max_bytes)


MAX_CHANGED_FILES = 300
"""Maximum number of files in GitHub's comparison of commits (docs.github.com, "Compare two commits")."""


def changed_files(github: GitHubClient, base: str, head: str) -> list[str] | None:
    """Lists the paths that differ between the merge base of two commits and the second one; of renamed files both
    names.

    Returns:
        None if there are more than GitHub lists.

    Raises:
        RestError: As for `merge_base`.
    """
    path = github.repo("compare", f"{base}...{head}")
    # `per_page` bounds the commits, which are not used; the files are on the first page whatever it is.
    files = github.parsed(_Changes, github.get(path, {"per_page": 1}), path).files
    if files is None or len(files) >= MAX_CHANGED_FILES:
        return None
    return [name for file in files for name in (file.filename, file.previous_filename) if name is not None]


def merge_base(github: GitHubClient, base: str, head: str) -> str:
    """Returns the merge base of two commits or branches.

    Raises:
        RestError: See its kind; `not-found` if one doesn't exist or they have no common ancestor.
    """
    path = github.repo("compare", f"{base}...{head}")
    return github.parsed(_Comparison, github.get(path, {"per_page": 1}), path).merge_base_commit.sha


def commit_parents(github: GitHubClient, sha: str) -> tuple[str, ...]:
    """Returns the parents of a commit; two for a merge, first the one that was merged into.

    Raises:
        RestError: See its kind.
    """
    path = github.repo("git", "commits", sha)
    return tuple(parent.sha for parent in github.parsed(LinkedCommit, github.get(path), path).parents)


def first_parents(github: GitHubClient, sha: str, *, limit: int) -> list[str]:
    """Returns a commit and its ancestors along first parents, newest first; usually in one request.

    Args:
        github: The repository.
        sha: The first commit of the result.
        limit: Maximum number of commits.

    Raises:
        RestError: See its kind; `not-found` if there is no such commit.
    """
    path = github.repo("commits")
    # More than `limit`, since commits of merged branches are in between.
    listed = github.paginate(path, {"sha": sha, "per_page": 100}, limit=max(100, limit))
    commits = {commit.sha: commit for commit in (github.parsed(LinkedCommit, item, path) for item in listed)}
    chain: list[str] = []
    following: str | None = sha
    while following is not None and len(chain) < limit:
        chain.append(following)
        commit = commits.get(following)
        parents = [parent.sha for parent in commit.parents] if commit else commit_parents(github, following)
        following = parents[0] if parents else None
    return chain


def file_at(github: GitHubClient, path: str, ref: str) -> bytes | None:
    """Returns a file's content at a commit or branch; None if there is no file.

    Raises:
        RestError: See its kind; `rejected` if the path is not a file, `too-large` above 1 MB
            (GitHub's own limit for this request).
    """
    address = github.repo("contents") + "/" + "/".join(quote(part, safe="") for part in path.split("/"))
    try:
        answer = github.get(address, {"ref": ref})
    except RestError as error:
        if error.kind == "not-found":
            return None
        raise
    if isinstance(answer, list):
        raise RestError("rejected", f"{path} at {ref} is a directory, not a file.")
    file = github.parsed(_Content, answer, address)
    if file.type != "file":
        raise RestError("rejected", f"{path} at {ref} is a {file.type}, not a file.")
    if file.encoding != "base64" or file.content is None:
        raise RestError("too-large", f"{path} at {ref} has {file.size:,} bytes; GitHub returns files up to 1 MB.")
    try:
        # GitHub breaks it into lines, which `validate` takes for mistakes.
        return base64.b64decode("".join(file.content.split()), validate=True)
    except binascii.Error:
        pass
    raise RestError("malformed", f"GET {address}: GitHub's response has invalid base64.")


_MAX_EVENTS = 3_000
"""Maximum number of a pull request's events to read."""


def label_events(github: GitHubClient, number: int) -> list[LabelEvent]:
    """Lists when labels of a pull request were set and removed, oldest first.

    Raises:
        RestError: See its kind; `forbidden` if the token lacks `pull-requests: read`, `too-large` if there are more
            events than the limit, since the newest would be missing.
    """
    path = github.repo("issues", number, "events")
    # One more than the limit shows that there are more.
    events = list(github.paginate(path, limit=_MAX_EVENTS + 1))
    if len(events) > _MAX_EVENTS:
        raise RestError("too-large", f"The pull request has more than {_MAX_EVENTS:,} events.")
    return [github.parsed(LabelEvent, item, path) for item in events if item.get("event") in {"labeled", "unlabeled"}]


def get_pull(github: GitHubClient, number: int) -> PullRequest:
    """Fetches a pull request.

    Raises:
        RestError: See its kind.
    """
    path = github.repo("pulls", number)
    return _pull(github.get(path), path)


def pulls_of_head(github: GitHubClient, owner: str, branch: str) -> list[PullRequest]:
    """Lists pull requests from a branch of an owner's repositories, including forks, open or not.

    Args:
        github: The target repository.
        owner: Owner of the head repository.
        branch: Without `refs/heads/`.

    Raises:
        RestError: See its kind.
    """
    path = github.repo("pulls")
    items = github.paginate(path, {"head": f"{owner}:{branch}", "state": "all"}, limit=100)
    pulls = [_pull(item, path) for item in items]
    # GitHub silently ignores an invalid `head` and returns all pull requests.
    return [pull for pull in pulls if pull.head_ref == branch]


def open_pulls(github: GitHubClient) -> Iterator[PullRequest]:
    """Yields open pull requests, last updated first, at most 300.

    Raises:
        RestError: See its kind.
    """
    path = github.repo("pulls")
    params = {"state": "open", "sort": "updated", "direction": "desc"}
    for item in github.paginate(path, params, limit=300):
        yield _pull(item, path)


def _pull(item: Any, path: str) -> PullRequest:
    pull = pull_request_at({"item": item}, "item")
    if pull is None:
        raise RestError("malformed", f"GET {path}: a pull request in GitHub's response lacks required fields.")
    return pull
