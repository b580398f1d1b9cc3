"""What GitHub knows about runs, artifacts, commits, files and pull requests: one function per question.

Answers are checked field by field; one that lacks what GitHub documents is a GitHubError of kind `malformed`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, ValidationError

from agent_eval.github.client import GitHub
from agent_eval.github.errors import GitHubError
from agent_eval.github.events import PullRequest, pull_request_at


class _Answer(BaseModel):
    """A part of an answer of GitHub's; what else it has is left out."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class Repository(_Answer):
    """A repository, as other things refer to it."""

    full_name: str
    """`owner/name`."""


class WorkflowRun(_Answer):
    """A run of a workflow, as it is now."""

    id: int
    run_attempt: int = 1
    event: str
    """What started it, e.g. `push`."""
    status: str | None
    """`completed`, or where it is."""
    conclusion: str | None
    """`success`, `failure`, `cancelled`, `timed_out`, `action_required` ...; None while it runs."""
    head_branch: str | None
    head_sha: str
    head_repository: Repository | None = None
    """Where the commit lies: a fork for a fork's pull request. None if the fork was deleted."""
    path: str
    """Of the workflow's file, e.g. `.github/workflows/evals.yml`; GitHub may add `@REF`."""
    html_url: str
    created_at: datetime
    """When it was first started: of another attempt too."""
    pull_requests: list[Mapping[str, Any]] | None = None
    """Empty for forks."""

    @property
    def workflow_path(self) -> str:
        """Of the workflow's file, without a ref."""
        return self.path.partition("@")[0]


class _Actor(_Answer):
    login: str
    type: str
    """`User`, `Bot` or `Organization`."""


class _Label(_Answer):
    name: str


class LabelEvent(_Answer):
    """A label was set or removed."""

    event: str
    """`labeled` or `unlabeled`."""
    created_at: datetime
    actor: _Actor | None = None
    """None if the account is gone."""
    label: _Label


class Artifact(_Answer):
    """An uploaded artifact."""

    id: int
    name: str
    size_in_bytes: int
    """Of the zip."""
    expired: bool
    digest: str | None = None
    """`sha256:...` of the zip; older artifacts and GHES have none."""


class Commit(_Answer):
    """A commit, by its hash."""

    sha: str


class LinkedCommit(Commit):
    """A commit and what it follows on."""

    parents: list[Commit]


class _Comparison(_Answer):
    merge_base_commit: Commit


class _ChangedFile(_Answer):
    filename: str
    previous_filename: str | None = None


class _Changes(_Answer):
    files: list[_ChangedFile] | None = None


class _Content(_Answer):
    type: str
    size: int
    encoding: str | None = None
    content: str | None = None


_Model = TypeVar("_Model", bound=_Answer)


def get_run(github: GitHub, run_id: int) -> WorkflowRun:
    """The run, in its latest attempt.

    Raises:
        GitHubError: As its kind says.
    """
    path = github.repo("actions", "runs", run_id)
    return _parsed(WorkflowRun, github.get(path), path)


def list_runs(
    github: GitHub,
    *,
    workflow: str,
    event: str | None = None,
    branch: str | None = None,
    head_sha: str | None = None,
    status: str | None = None,
    limit: int = 100,
) -> list[WorkflowRun]:
    """Runs of one workflow, newest first.

    A branch's name says nothing of its repository: a fork's `main` is listed too; look at `head_repository`.

    Args:
        github: The repository.
        workflow: Path or file name of the workflow's file; GitHub goes by the file name.
        event: Only runs that this started.
        branch: Only runs of a branch of this name.
        head_sha: Only runs of this commit.
        status: Only runs with this status or conclusion, e.g. `completed`.
        limit: The most that are given.

    Raises:
        GitHubError: As its kind says; `not-found` if there is no such workflow, or the token lacks `actions: read`.
    """
    filters = {"event": event, "branch": branch, "head_sha": head_sha, "status": status}
    params: dict[str, str | int] = {name: value for name, value in filters.items() if value is not None}
    path = github.repo("actions", "workflows", workflow.rpartition("/")[2], "runs")
    found = github.paginate(path, params, key="workflow_runs", limit=limit)
    return [_parsed(WorkflowRun, item, path) for item in found]


def list_artifacts(github: GitHub, run_id: int, name: str | None = None, *, limit: int = 500) -> list[Artifact]:
    """What a run has uploaded, of all its attempts; newest first.

    Args:
        github: The repository.
        run_id: Of the run.
        name: Only artifacts with exactly this name.
        limit: The most that are looked at. GitHub allows 500 for a job.

    Raises:
        GitHubError: As its kind says.
    """
    path = github.repo("actions", "runs", run_id, "artifacts")
    found = github.paginate(path, {"name": name} if name else {}, key="artifacts", limit=limit)
    artifacts = [_parsed(Artifact, item, path) for item in found]
    # An older GHES pays no heed to `name`.
    return sorted((one for one in artifacts if name in (None, one.name)), key=lambda one: one.id, reverse=True)


def download_artifact(github: GitHub, artifact_id: int, *, max_bytes: int) -> bytes:
    """The zip of an artifact, not yet opened: it may come from anyone.

    Raises:
        GitHubError: As its kind says; `not-found` with status 410 if it has expired, `too-large` above `max_bytes`.
    """
    return github.download(github.repo("actions", "artifacts", artifact_id, "zip"), max_bytes=max_bytes)


MOST_CHANGED = 300
"""The most files that GitHub lists of a comparison (docs.github.com, "Compare two commits")."""


def changed_files(github: GitHub, base: str, head: str) -> list[str] | None:
    """Paths that differ between two commits' merge base and the second; of a renamed file both.

    Returns:
        None if there are more than GitHub lists.

    Raises:
        GitHubError: As for `compare`.
    """
    path = github.repo("compare", f"{base}...{head}")
    files = _parsed(_Changes, github.get(path, {"per_page": 1}), path).files
    if files is None or len(files) >= MOST_CHANGED:
        return None
    return [name for one in files for name in (one.filename, one.previous_filename) if name is not None]


def merge_base(github: GitHub, base: str, head: str) -> str:
    """The commit that two commits or branches have forked from.

    Raises:
        GitHubError: As its kind says; `not-found` if one is not there or they have no common ancestor.
    """
    path = github.repo("compare", f"{base}...{head}")
    return _parsed(_Comparison, github.get(path, {"per_page": 1}), path).merge_base_commit.sha


def commit_parents(github: GitHub, sha: str) -> tuple[str, ...]:
    """The commits that one follows on; two for a merge, the first of them being what was merged into.

    Raises:
        GitHubError: As its kind says.
    """
    path = github.repo("git", "commits", sha)
    return tuple(parent.sha for parent in _parsed(LinkedCommit, github.get(path), path).parents)


def first_parents(github: GitHub, sha: str, *, limit: int) -> list[str]:
    """The commit and what came before it on its own branch, newest first; one request as a rule.

    Args:
        github: The repository.
        sha: Where to begin; the first of the answer.
        limit: The most that are given.

    Raises:
        GitHubError: As its kind says; `not-found` if there is no such commit.
    """
    path = github.repo("commits")
    # More than are wanted, since those of merged branches lie between them.
    listed = github.paginate(path, {"sha": sha, "per_page": 100}, limit=max(100, limit))
    known = {one.sha: one for one in (_parsed(LinkedCommit, item, path) for item in listed)}
    chain: list[str] = []
    following: str | None = sha
    while following is not None and len(chain) < limit:
        chain.append(following)
        found = known.get(following)
        parents = [one.sha for one in found.parents] if found else commit_parents(github, following)
        following = parents[0] if parents else None
    return chain


def file_at(github: GitHub, path: str, ref: str) -> bytes | None:
    """A file's content at a commit or branch; None if there is none at that path.

    Raises:
        GitHubError: As its kind says; `rejected` if the path is a directory or the like, `too-large` above 1 MB
            (GitHub's own limit for this request).
    """
    address = github.repo("contents") + "/" + "/".join(quote(part, safe="") for part in path.split("/"))
    try:
        answer = github.get(address, {"ref": ref})
    except GitHubError as error:
        if error.kind == "not-found":
            return None
        raise
    if isinstance(answer, list):
        raise GitHubError("rejected", f"{path} at {ref} is a directory, not a file.")
    found = _parsed(_Content, answer, address)
    if found.type != "file":
        raise GitHubError("rejected", f"{path} at {ref} is a {found.type}, not a file.")
    if found.encoding != "base64" or found.content is None:
        raise GitHubError("too-large", f"{path} at {ref} has {found.size:,} bytes; GitHub gives files up to 1 MB.")
    try:
        return base64.b64decode("".join(found.content.split()), validate=True)
    except binascii.Error:
        pass
    raise GitHubError("malformed", f"GET {address}: GitHub's base64 is none.")


_MOST_EVENTS = 3_000
"""Events of a pull request that are looked through."""


def label_events(github: GitHub, number: int) -> list[LabelEvent]:
    """When labels of a pull request were set and removed, oldest first.

    Raises:
        GitHubError: As its kind says; `forbidden` if the token lacks `pull-requests: read`, `too-large` if there are
            more events than are looked through: the last one would be missing.
    """
    path = github.repo("issues", number, "events")
    found = list(github.paginate(path, limit=_MOST_EVENTS + 1))
    if len(found) > _MOST_EVENTS:
        raise GitHubError("too-large", f"The pull request has more than {_MOST_EVENTS:,} events.")
    named = (item for item in found if item.get("event") in {"labeled", "unlabeled"})
    return [_parsed(LabelEvent, item, path) for item in named]


def get_pull(github: GitHub, number: int) -> PullRequest:
    """The pull request, as it is now.

    Raises:
        GitHubError: As its kind says.
    """
    path = github.repo("pulls", number)
    return _pull(github.get(path), path)


def pulls_of_head(github: GitHub, owner: str, branch: str, *, state: str = "open") -> list[PullRequest]:
    """Pull requests from a branch of an owner's repositories, this one or forks.

    Args:
        github: The repository that they go into.
        owner: User or organization of the head's repository.
        branch: Without `refs/heads/`.
        state: `open`, `closed` or `all`.

    Raises:
        GitHubError: As its kind says.
    """
    path = github.repo("pulls")
    found = github.paginate(path, {"head": f"{owner}:{branch}", "state": state}, limit=100)
    pulls = [_pull(item, path) for item in found]
    # A `head` that GitHub can't make sense of is dropped by it without a word, and all pull requests come back.
    return [one for one in pulls if one.head_ref == branch]


def open_pulls(github: GitHub, *, limit: int = 300) -> Iterator[PullRequest]:
    """Open pull requests, those that changed last first.

    Raises:
        GitHubError: As its kind says.
    """
    path = github.repo("pulls")
    params = {"state": "open", "sort": "updated", "direction": "desc"}
    for item in github.paginate(path, params, limit=limit):
        yield _pull(item, path)


def _pull(item: Any, path: str) -> PullRequest:
    found = pull_request_at({"it": item}, "it")
    if found is None:
        raise GitHubError("malformed", f"GET {path}: a pull request in GitHub's answer lacks what it should have.")
    return found


def _parsed(model: type[_Model], value: object, path: str) -> _Model:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        wrong = ", ".join(
            sorted({".".join(str(key) for key in one["loc"]) or "all of it" for one in error.errors()})[:5]
        )
    raise GitHubError("malformed", f"GET {path}: GitHub's answer lacks or misspells {wrong}.")
