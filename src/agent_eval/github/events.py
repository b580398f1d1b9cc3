"""What a run on GitHub is about: the event that started it, read into facts. No network, no decision."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LARGEST = 25_000_000
"""Bytes. GitHub caps a payload at 25 MB (webhooks: "payload cap")."""
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_WORKFLOW = re.compile(r"[^/]+/[^/]+/(?P<path>.+?)(?:@.*)?")
HEADS = "refs/heads/"


class EventError(Exception):
    """The event can't be read. The message says which variable or file, and why."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """What started this run."""

    name: str = ""
    """GitHub's name, e.g. `pull_request`; "" outside of GitHub Actions."""
    payload: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The webhook's JSON; empty if there is none."""
    sha: str | None = None
    """The commit that GitHub checks out by default. For `pull_request` a merge of the head with the base's tip."""
    ref: str | None = None
    """Full, e.g. `refs/heads/main` or `refs/pull/7/merge`."""
    repository: str | None = None
    """`owner/name` of the repository that the workflow runs in."""
    run_id: int | None = None
    run_attempt: int | None = None
    """1 for the first."""
    server_url: str = "https://github.com"
    api_url: str = "https://api.github.com"
    workflow_ref: str | None = None
    """E.g. `octo/repo/.github/workflows/evals.yml@refs/heads/main`."""
    actor: str | None = None
    """Who caused the first attempt of the run."""

    @property
    def workflow_path(self) -> str | None:
        """Path of the workflow's file in the repository, e.g. `.github/workflows/evals.yml`."""
        found = _WORKFLOW.fullmatch(self.workflow_ref or "")
        return found["path"] if found else None

    @property
    def run_url(self) -> str | None:
        """The page of this attempt."""
        if self.repository is None or self.run_id is None:
            return None
        return f"{self.server_url}/{self.repository}/actions/runs/{self.run_id}/attempts/{self.run_attempt or 1}"

    @property
    def default_branch(self) -> str | None:
        """Of the repository, as the payload says; None if it doesn't."""
        return text_at(self.payload, "repository", "default_branch")


@dataclass(frozen=True, kw_only=True)
class PullRequest:
    """A pull request, as an event's payload or the API tells."""

    number: int
    head_sha: str
    """The last commit of the pull request itself, not the merge that GitHub tests."""
    head_ref: str
    """The branch, without `refs/heads/`. Chosen by the author: hostile text."""
    head_repository: str | None
    """`owner/name`; None if the fork has been deleted."""
    base_ref: str
    """The branch, without `refs/heads/`."""
    base_sha: str
    """Tip of the base branch when the event was made; neither the merge base nor, for sure, what was tested upon."""
    is_fork: bool
    """The head lies in another repository than the base. (GitHub's own `fork` says that the head's repository is a fork
    of something, which holds for each pull request inside of a fork too.)"""
    author: str
    """Login; "" if the account is gone."""
    open: bool = True
    draft: bool = False


def read_event(environ: Mapping[str, str]) -> Event:
    """The event of this run, from the variables that GitHub sets and the file that `GITHUB_EVENT_PATH` names.

    Outside of GitHub Actions (no `GITHUB_EVENT_NAME`) that is an event without a name.

    Raises:
        EventError: If the payload can't be read, is no JSON object or is above 25 MB, or a variable has a value that
            GitHub would not give it.
    """
    name = environ.get("GITHUB_EVENT_NAME", "")
    if not name:
        return Event()
    repository = environ.get("GITHUB_REPOSITORY") or None
    if repository is not None and not _REPOSITORY.fullmatch(repository):
        raise EventError(f"GITHUB_REPOSITORY is {repository!r}, but should be owner/name.")
    return Event(
        name=name,
        payload=_payload(environ.get("GITHUB_EVENT_PATH", "")),
        sha=environ.get("GITHUB_SHA") or None,
        ref=environ.get("GITHUB_REF") or None,
        repository=repository,
        run_id=_number(environ, "GITHUB_RUN_ID"),
        run_attempt=_number(environ, "GITHUB_RUN_ATTEMPT"),
        server_url=(environ.get("GITHUB_SERVER_URL") or Event.server_url).rstrip("/"),
        api_url=(environ.get("GITHUB_API_URL") or Event.api_url).rstrip("/"),
        workflow_ref=environ.get("GITHUB_WORKFLOW_REF") or None,
        actor=environ.get("GITHUB_ACTOR") or None,
    )


def pull_request_at(payload: Mapping[str, Any], *keys: str) -> PullRequest | None:
    """The pull request in a JSON object of GitHub's, e.g. `pull_request_at(event.payload, "pull_request")`.

    Returns:
        None if there is none there, or it lacks its number, its head's commit or its base.
    """
    found = at(payload, *keys)
    if not isinstance(found, Mapping):
        return None
    number, head_sha, base_sha = found.get("number"), text_at(found, "head", "sha"), text_at(found, "base", "sha")
    head_ref, base_ref = text_at(found, "head", "ref"), text_at(found, "base", "ref")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1 or head_ref is None or base_ref is None:
        return None
    if not all(sha is not None and _SHA.fullmatch(sha) for sha in (head_sha, base_sha)):
        return None
    head_repository, base_repository = (text_at(found, side, "repo", "full_name") for side in ("head", "base"))
    return PullRequest(
        number=number,
        head_sha=head_sha or "",
        head_ref=head_ref,
        head_repository=head_repository,
        base_ref=base_ref,
        base_sha=base_sha or "",
        # A fork that is gone is still none of ours.
        is_fork=head_repository is None or not same_repository(head_repository, base_repository),
        author=text_at(found, "user", "login") or "",
        open=found.get("state", "open") == "open",
        draft=found.get("draft") is True,
    )


def same_repository(one: str | None, other: str | None) -> bool:
    """Whether two full names are those of one repository; GitHub doesn't mind the case."""
    return one is not None and other is not None and one.casefold() == other.casefold()


def branch_of(ref: str | None) -> str | None:
    """The branch of a full ref; None for a tag, a pull request's ref or nothing."""
    return ref.removeprefix(HEADS) if ref and ref.startswith(HEADS) else None


def at(payload: object, *keys: str) -> object:
    """The value below these keys; None when one of them is missing or no object."""
    for key in keys:
        if not isinstance(payload, Mapping):
            return None
        payload = payload.get(key)
    return payload


def text_at(payload: object, *keys: str) -> str | None:
    """The text below these keys; None when there is none or it is empty."""
    found = at(payload, *keys)
    return found if isinstance(found, str) and found else None


def sha_at(payload: object, *keys: str) -> str | None:
    """The commit below these keys; None when there is none, or the 40 zeros that stand for no commit."""
    found = text_at(payload, *keys)
    return found if found and _SHA.fullmatch(found) and set(found) != {"0"} else None


def _payload(path: str) -> Mapping[str, Any]:
    if not path:
        return {}
    try:
        with Path(path).open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise EventError(f"The event in {path} (GITHUB_EVENT_PATH) can't be read: {error.strerror}.") from error
    if len(data) > _LARGEST:
        raise EventError(f"The event in {path} (GITHUB_EVENT_PATH) is larger than the 25 MB that GitHub sends.")
    try:
        payload = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EventError(f"The event in {path} (GITHUB_EVENT_PATH) is no JSON: {error}.") from error
    if not isinstance(payload, dict):
        raise EventError(f"The event in {path} (GITHUB_EVENT_PATH) is no JSON object.")
    return payload


def _number(environ: Mapping[str, str], name: str) -> int | None:
    value = environ.get(name, "")
    if not value:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", value):
        raise EventError(f"{name} is {value!r}, but should be a number.")
    return int(value)
