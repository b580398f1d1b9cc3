"""What the gate asks of a forge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, Self

from agent_eval_scoring.core.errors import AgentEvalError

if TYPE_CHECKING:
    from agent_eval.forge.models import Artifact, WorkflowRun

ErrorKind = Literal[
    "not-found", "forbidden", "unauthorized", "rate-limited", "unavailable", "rejected", "malformed", "too-large"
]
"""`not-found` includes deleted objects (410) and objects that the token can't see. `unavailable`: no response, or 5xx;
a write may have succeeded. `rejected`: the forge declines a valid request (409, 422 and the like). `malformed`: the
response differs from the forge's documentation. `too-large`: the response exceeds the caller's limit."""


class ForgeError(AgentEvalError):
    """A failed request to the forge. Neither it nor its cause contains a token or a signed URL."""

    def __init__(self, kind: ErrorKind, message: str, *, hint: str = "") -> None:
        """Creates the error.

        Args:
            kind: The kind of error.
            message: What happened, with method and path of the request.
            hint: What to do next; "" if the user can do nothing.
        """
        super().__init__(f"{message} {hint}".strip())
        self.kind: ErrorKind = kind
        self.message = message
        self.hint = hint


@dataclass(frozen=True, kw_only=True)
class PullRequest:
    """A pull request, from an event's payload or the API."""

    number: int
    head_sha: str
    """The head commit, not the merge commit that GitHub tests."""
    head_ref: str
    """The branch, without `refs/heads/`. Chosen by the author: untrusted text."""
    head_repository: str | None
    """`owner/name`; None if the fork has been deleted."""
    base_ref: str
    """The branch, without `refs/heads/`."""
    base_sha: str
    """Tip of the base branch at the time of the event. Neither the merge base nor necessarily the tested base."""
    is_fork: bool
    """The head is in another repository than the base. (GitHub's own `fork` only says that the head's repository is a
    fork, which is also true for pull requests inside a fork.)"""
    open: bool = True


@dataclass(frozen=True, kw_only=True)
class RunStamp:
    """The run that a comment belongs to."""

    run_id: int
    """Id of the run that gated, even if another run publishes."""
    attempt: int
    """Greater for a later one."""
    sha: str
    """Head commit of the pull request, in lower-case hex."""

    @property
    def order(self) -> tuple[int, int]:
        """Greater for newer runs: run ids grow."""
        return self.run_id, self.attempt


DEFAULT_KEY = "default"
"""The key of the comment of a gate without a name."""
TO_LINK = 30.0
"""Seconds for adding a link to a comment, which can be missing."""
CommentMode = Literal["always", "on-change", "on-failure", "never"]
PostKind = Literal["created", "updated", "unchanged", "superseded", "skipped", "forbidden", "failed"]


@dataclass(frozen=True, kw_only=True)
class Posted:
    """The outcome of posting a comment."""

    kind: PostKind
    """`superseded`: a newer run has already commented. `skipped`: the mode requires no comment. `forbidden`: the token
    lacks the permission, as on pull requests from forks. `failed`: another error of the forge."""
    url: str | None = None
    """URL of the comment, if there is one."""
    message: str
    """One or two sentences for the log."""
    overwrites: bool = False
    """The replaced text was written by another job of the same run and attempt."""

    @property
    def is_posted(self) -> bool:
        """Whether the pull request shows this run's text."""
        return self.kind in ("created", "updated", "unchanged")


@dataclass(frozen=True, kw_only=True)
class Comment:
    """A comment to post."""

    number: int
    """Number of the pull request."""
    key: str
    """Distinguishes the comments of several gates on one pull request."""
    body: str
    """Markdown, up to 65,000 characters; the marker is added."""
    run: RunStamp
    """The run that writes it. A comment by a newer run or attempt is not changed."""
    mode: CommentMode = "always"
    """The input `comment`."""
    failed: bool = False
    """The verdict is not `passed`."""
    changed: bool = False
    """The results differ from the base branch's."""
    own_only: bool = False
    """Update only a comment that this run and attempt has written, and create none."""
    memory: str = ""
    """What the next attempt at the same commit is to know, in base64; "" leaves nothing."""
    author: str | None = None
    """Login that the token comments as, e.g. `my-app[bot]` for an own App. None: detected; a token without permission
    to read its login is assumed to be `github-actions[bot]`."""

    @property
    def creates(self) -> bool:
        """Whether it is created if none exists. An existing one is updated in any mode but `never`, so that it doesn't
        stay red.
        """
        match self.mode:
            case "always":
                return True
            case "on-change":
                return self.changed or self.failed
            case "on-failure":
                return self.failed
            case "never":
                return False


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """The state of the label."""

    by: str = ""
    """Login of the person who set it; "" if it does not count."""
    why_not: str = ""
    """Why it does not count although it is set, or why that is unknown: a sentence; "" if it is not set."""


@dataclass(frozen=True, kw_only=True)
class Bound:
    """The run belongs to this pull request and tested its head commit."""

    run: WorkflowRun
    pull_request: PullRequest


@dataclass(frozen=True, kw_only=True)
class Unbound:
    """The run's results must not be posted."""

    message: str
    """A sentence that says why."""
    is_contradiction: bool = False
    """The artifact's claims contradict GitHub. Otherwise the pull request has changed: new commits, closed."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The artifact's claims about itself; untrusted."""

    repository: str = ""
    run_id: int | None = None
    pull_request: int | None = None
    head_commit: str | None = None


class Forge(Protocol):
    """One repository on its forge, for the duration of one job. Every method but `upsert_comment` and `acceptance`
    raises ForgeError.
    """

    service: ClassVar[str]
    """The forge's name."""
    has_token: bool
    """False: only public data can be read, and nothing can be written."""
    no_token: str
    """What to do where there is none: a sentence."""
    reads_runs: ClassVar[str]
    """What to do where the token may not read runs and artifacts: a sentence."""
    queue_branches: ClassVar[str]
    """How the names of its merge queue's branches begin, before the branch that they are merged into; empty if what its
    queue tests is not the commit that it pushes."""

    def is_retry(self, run_id: int, attempt: int) -> bool:
        """Whether this attempt of a run has one before it; False without a token that would know.

        Raises:
            ForgeError: It can't be read.
        """
        ...

    def limited(self, seconds: float) -> Self:
        """The same repository with a budget of time of its own, at most what is left of this one's."""
        ...

    def upsert_comment(self, comment: Comment) -> Posted:
        """Creates the comment of this key on the pull request, or updates it. Errors are returned."""
        ...

    def memories(self, number: int, key: str, *, sha: str, author: str | None) -> list[str]:
        """What earlier attempts at a head commit have left in the comment of this key (`Comment.memory`), oldest first.
        The gate's own account has written them, but who may edit comments can change them.
        """
        ...

    def acceptance(self, number: int, *, run_id: int | None, started_by_label: bool) -> Acceptance:
        """Whether a person has accepted the rule changes of a pull request for the tested commit. Errors are returned.

        Args:
            number: The pull request.
            run_id: This run; None if it has no id.
            started_by_label: Setting the label started this run.
        """
        ...

    def bind(self, run_id: int, claim: Claim | None = None) -> Bound | Unbound:
        """The pull request of a finished run; `claim` are the unverified statements of the run's artifact."""
        ...

    def file_at(self, path: str, ref: str) -> bytes | None:
        """The content of a file at a commit or branch; None if there is no file."""
        ...

    def changed_files(self, base: str, head: str) -> list[str] | None:
        """Paths that differ between the merge base of two commits and the second; None if there are too many."""
        ...

    def commit_parents(self, sha: str) -> tuple[str, ...]:
        """The parents of a commit, first the one that was merged into."""
        ...

    def first_parents(self, sha: str, *, limit: int) -> list[str]:
        """A commit and at most `limit` - 1 ancestors along first parents, newest first."""
        ...

    def merge_base(self, base: str, head: str) -> str:
        """The merge base of two commits or branches."""
        ...

    def list_runs(
        self,
        *,
        workflow: str,
        event: str | None = None,
        branch: str | None = None,
        head_sha: str | None = None,
        limit: int = 100,
    ) -> list[WorkflowRun]:
        """The latest runs of a workflow, newest first; each filter is optional. Includes runs of forks."""
        ...

    def list_artifacts(self, run_id: int, name: str | None = None) -> list[Artifact]:
        """The artifacts of a run with this name, of all its attempts, newest first."""
        ...

    def download_artifact(self, artifact_id: int, *, max_bytes: int) -> bytes:
        """The zip of an artifact, which is untrusted. A larger one is an error of kind `too-large`."""
        ...
