"""Why a run was started, and what it does because of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from agent_eval.forge.protocol import Forge, PullRequest
from agent_eval_scoring.core.errors import AgentEvalError

Kind = Literal["compare", "record", "publish", "gate", "refuse"]
Mode = Literal["auto", "gate", "publish"]


class EventError(AgentEvalError):
    """The event can't be read. The message names the variable or file, and the reason."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """The event that started the run. A forge derives its own class."""

    name: str = ""
    """GitHub's name for it, e.g. `pull_request`; "" outside of CI."""
    sha: str | None = None
    """The commit that the forge checks out by default. For GitHub's `pull_request` a merge of the head with the tip of
    the base branch."""
    ref: str | None = None
    """Full, e.g. `refs/heads/main` or `refs/pull/7/merge`."""
    repository: str | None = None
    """Full name of the workflow's repository, e.g. `owner/name`."""
    run_id: int | None = None
    run_attempt: int | None = None
    """Greater for a later one of the same run; 1 for the first on GitHub."""
    server_url: str = ""
    in_fork: bool = False
    """The run belongs to a fork: so does the checkout's remote, and none of the repository's secrets are there."""

    pages: ClassVar[Literal["github", "gitlab"]] = "github"
    """Where the forge has the pages of a repository (`Links.pages`)."""
    change: ClassVar[str] = "pull request"
    """What the forge calls a proposed change of a branch."""

    @property
    def workflow_path(self) -> str | None:
        """Path of the workflow file in the repository."""
        return None

    @property
    def run_url(self) -> str | None:
        """URL of this attempt's page."""
        return None

    @property
    def default_branch(self) -> str | None:
        """Default branch of the repository; None if the event doesn't name it."""
        return None

    @property
    def key(self) -> str:
        """Distinguishes the comments of several jobs that have no `name`; "" where they share one."""
        return ""

    @property
    def clone_url(self) -> str | None:
        """Where to fetch commits that the checkout lacks; None for its own remote, which needs no token of ours."""
        return f"{self.server_url}/{self.repository}" if self.repository else None

    def source_url(self, commit: str) -> str | None:
        """URL below which the files of a commit can be browsed."""
        return None

    def artifact_url(self, path: str) -> str | None:
        """URL of a file, by its absolute path, of what the job uploads when it has ended; None if that is unknown."""
        return None


@dataclass(frozen=True, kw_only=True)
class Activity:
    """What the run does."""

    kind: Kind
    """`compare`: gate, and compare with the base branch. `record`: gate, and record the results as a baseline.
    `publish`: post the results of another run. `gate`: gate only. `refuse`: exit with code 2."""
    pull_request: PullRequest | None = None
    """As in the event, not verified; None for `publish`."""
    base_ref: str | None = None
    """The branch to compare with, without `refs/heads/`; for `record`, the branch of the results."""
    commit: str | None = None
    """The commit of the event. For GitHub's `pull_request` its merge with the base branch; the workflow may have
    checked out the head instead, which only git knows. None if the event has no commit."""
    base_commit: str | None = None
    """The base of the commit: exact for `merge_group`. For pull requests the tip of the base branch at the time of the
    event; the first parent of the tested merge is more accurate."""
    exact_base: str | None = None
    """The commit to compare `commit` with, where the forge names it; else git knows."""
    secrets_withheld: bool = False
    """The forge gives this run no secrets and a token that only reads (a fork's pull request, Dependabot). Private
    repositories can be configured to pass them: an existing key is used."""
    finished_run: int | None = None
    """For `publish`, the run whose results are posted."""
    started_by_label: bool = False
    """Setting the label `ACCEPT_RULES` started this run; the event then contains the labelled commit."""
    explanation: str
    """A sentence for the log: what the run does, and why."""


class _Decide(Protocol):
    def __call__(
        self,
        event: Event,
        *,
        mode: Mode,
        allow_unsafe_pull_request_target: bool = False,
        base_branches: Sequence[str] = (),
    ) -> Activity: ...


@dataclass(frozen=True, kw_only=True)
class Host:
    """A forge whose CI can run the gate."""

    read_event: Callable[[Mapping[str, str]], Event]
    """The event in a job's environment; without a name outside of this forge's jobs. Raises EventError."""
    activity: _Decide
    """What a run does because of an event of this forge."""
    connect: Callable[[Event, str, Callable[[str], None]], Forge]
    """The repository of an event, for a token ("" for none) and a log of long waits. Raises ForgeError."""
    token_variable: str = ""
    """The variable with the token; "": it is the setting `github-token`."""


def same_repository(left: str | None, right: str | None) -> bool:
    """Whether two full names mean the same repository. Forges ignore case."""
    return left is not None and right is not None and left.casefold() == right.casefold()
