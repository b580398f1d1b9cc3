"""Reads what started a GitLab pipeline from its job's variables, and decides what the run does. Uses no network.

The variables are those of docs.gitlab.com, "Predefined CI/CD variables reference". An event has GitHub's name where
both forges have it, since results keep it: `pull_request`, `merge_group` (a merge train), `workflow_dispatch` (a
pipeline that a person has started).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import ClassVar, Literal

from agent_eval.forge import Activity, Event, EventError, Mode, PullRequest
from agent_eval_scoring.core.problem import docs_page

SOURCES = {"push": "push", "schedule": "schedule", "workflow_dispatch": "web"}
"""Values of CI_PIPELINE_SOURCE by our names of events."""
_NAMES = {source: name for name, source in SOURCES.items()}
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+")
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
HEADS = "refs/heads/"


@dataclass(frozen=True, kw_only=True)
class GitLabEvent(Event):
    """The pipeline of a job of GitLab CI."""

    server_url: str = "https://gitlab.com"
    api_url: str = "https://gitlab.com/api/v4"
    project: int = 0
    """The project of the merge request, else that of the pipeline."""
    workflow_path: str | None = ".gitlab-ci.yml"
    run_url: str | None = None
    default_branch: str | None = None
    key: str = ""
    """The job's name: the same on the target branch, where its artifacts are the baseline."""
    root: str = ""
    """The checkout's directory, below which paths of artifacts are; "" where the server does not show their pages."""
    merge_request: PullRequest | None = None
    exact_base: str | None = None
    """The commit to compare with, where the variables name it."""

    pages: ClassVar[Literal["github", "gitlab"]] = "gitlab"
    change: ClassVar[str] = "merge request"

    @property
    def clone_url(self) -> str | None:
        """The target's repository, where the checkout's own remote is a fork."""
        return f"{self.server_url}/{self.repository}.git" if self.in_fork else None

    def source_url(self, commit: str) -> str | None:
        """URL below which the files of a commit can be browsed."""
        return f"{self.server_url}/{self.repository}/-/blob/{commit}" if self.name else None

    def artifact_url(self, path: str) -> str | None:
        """URL of a file, by its absolute path, of the artifacts that the job uploads."""
        inside = path.removeprefix(f"{self.root.rstrip('/')}/")
        return f"{self.run_url}/artifacts/file/{inside}" if self.root and self.run_url and inside != path else None


def read_event(environ: Mapping[str, str]) -> GitLabEvent:
    """Reads the event from GitLab's variables. Outside of GitLab CI it has no name.

    Raises:
        EventError: A variable has an invalid value.
    """
    source = environ.get("CI_PIPELINE_SOURCE", "")
    if environ.get("GITLAB_CI") != "true" or not source:
        return GitLabEvent()
    branch, tag = environ.get("CI_COMMIT_BRANCH"), environ.get("CI_COMMIT_TAG")
    own = _number(environ, "CI_PROJECT_ID")
    event = GitLabEvent(
        name=_NAMES.get(source, source),
        sha=environ.get("CI_COMMIT_SHA") or None,
        ref=f"{HEADS}{branch}" if branch else f"refs/tags/{tag}" if tag else None,
        repository=_project(environ, "CI_PROJECT_PATH"),
        run_id=_number(environ, "CI_PIPELINE_ID"),
        # A job that is run again has a greater id in the same pipeline.
        run_attempt=_number(environ, "CI_JOB_ID"),
        server_url=environ.get("CI_SERVER_URL", GitLabEvent.server_url).rstrip("/"),
        api_url=environ.get("CI_API_V4_URL", GitLabEvent.api_url).rstrip("/"),
        project=own,
        key=environ.get("CI_JOB_NAME", ""),
        # `PATH@PROJECT` where another project has the configuration; `WorkflowRun.workflow_path` has the path alone.
        workflow_path=environ.get("CI_CONFIG_PATH", "").partition("@")[0] or GitLabEvent.workflow_path,
        run_url=environ.get("CI_JOB_URL") or None,
        root=environ.get("CI_PROJECT_DIR", "") if environ.get("CI_PAGES_DOMAIN") else "",
        default_branch=environ.get("CI_DEFAULT_BRANCH") or None,
    )
    return _with_merge_request(event, own, environ) if environ.get("CI_MERGE_REQUEST_IID") else event


def _with_merge_request(event: GitLabEvent, own: int, environ: Mapping[str, str]) -> GitLabEvent:
    """The event of a merge request's pipeline.

    `detached` tests the head, `merged_result` its merge with the target branch, `merge_train` its merge with what the
    train has before it.
    """
    kind = environ.get("CI_MERGE_REQUEST_EVENT_TYPE", "detached")
    target, source = (_number(environ, f"CI_MERGE_REQUEST_{name}PROJECT_ID") for name in ("", "SOURCE_"))
    tip = _sha(environ, "CI_MERGE_REQUEST_TARGET_BRANCH_SHA")
    head = _sha(environ, "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or event.sha or ""
    merge_request = PullRequest(
        number=_number(environ, "CI_MERGE_REQUEST_IID"),
        head_sha=head,
        head_ref=environ.get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", ""),
        head_repository=environ.get("CI_MERGE_REQUEST_SOURCE_PROJECT_PATH") or None,
        base_ref=environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", ""),
        base_sha=tip or "",
        is_fork=source != target,
    )
    return replace(
        event,
        name="merge_group" if kind == "merge_train" else "pull_request",
        ref=environ.get("CI_MERGE_REQUEST_REF_PATH") or None,
        repository=_project(environ, "CI_MERGE_REQUEST_PROJECT_PATH"),
        project=target,
        in_fork=own != target,
        merge_request=merge_request,
        exact_base=_sha(environ, "CI_MERGE_REQUEST_DIFF_BASE_SHA") if kind == "detached" else tip,
    )


def _number(environ: Mapping[str, str], name: str) -> int:
    value = environ.get(name, "")
    if not re.fullmatch(r"[0-9]{1,18}", value):
        raise EventError(f"{name} is {value!r}, not a number.")
    return int(value)


def _project(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not _PATH.fullmatch(value):
        raise EventError(f"{name} is {value!r}, not the path of a project.")
    return value


def _sha(environ: Mapping[str, str], name: str) -> str | None:
    value = environ.get(name, "")
    return value if _SHA.fullmatch(value) and set(value) != {"0"} else None


def activity(
    event: Event, *, mode: Mode, allow_unsafe_pull_request_target: bool = False, base_branches: Sequence[str] = ()
) -> Activity:
    """Decides what to do for a pipeline, by the rules of `github._activity`.

    Args:
        event: The event that started the run.
        mode: The setting of the same name.
        allow_unsafe_pull_request_target: Of GitHub only.
        base_branches: Names or globs (`release/*`) of further branches that record baselines.
    """
    assert isinstance(event, GitLabEvent)
    if mode == "publish":
        explanation = f"mode: publish is for GitHub; on GitLab the job itself comments. See {docs_page('recipes')}."
        return Activity(kind="refuse", explanation=explanation)
    merge_request = event.merge_request
    if mode == "gate":
        explanation = "With mode: gate nothing is compared, recorded or posted."
        return Activity(kind="gate", pull_request=merge_request, commit=event.sha, explanation=explanation)
    if merge_request is not None:
        return _compare(event, merge_request)
    branch = event.ref.removeprefix(HEADS) if event.ref and event.ref.startswith(HEADS) else None
    bases = {event.default_branch, *base_branches}
    if event.name in SOURCES and branch is not None and any(fnmatchcase(branch, base) for base in bases if base):
        explanation = f"A pipeline on {branch} ({event.name}): records the baseline for merge requests into it."
        return Activity(kind="record", base_ref=branch, commit=event.sha, explanation=explanation)
    where = branch or event.ref or "no branch"
    explanation = f"A pipeline on {where} ({event.name}) is no merge request's and records no baseline: gated only."
    return Activity(kind="gate", commit=event.sha, explanation=explanation)


def _compare(event: GitLabEvent, merge_request: PullRequest) -> Activity:
    train = event.name == "merge_group"
    number, base = merge_request.number, merge_request.base_ref
    what = f"Merge train of merge request {number}" if train else f"Merge request {number}"
    origin = " from a fork" if merge_request.is_fork else ""
    note = "; its pipeline has none of this project's variables" if event.in_fork else ""
    return Activity(
        kind="compare",
        pull_request=None if train else merge_request,
        base_ref=base,
        commit=event.sha,
        base_commit=merge_request.base_sha or None,
        exact_base=event.exact_base,
        secrets_withheld=event.in_fork,
        explanation=f"{what}{origin} is compared with {base}{note}.",
    )
