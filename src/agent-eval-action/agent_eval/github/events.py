"""Reads the event that started a GitHub Actions run. Uses no network and makes no decisions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.forge import Event, EventError, PullRequest, same_repository

_LARGEST = 25_000_000
"""Bytes. GitHub caps a payload at 25 MB (webhooks: "payload cap")."""
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_WORKFLOW = re.compile(r"[^/]+/[^/]+/(?P<path>.+?)(?:@.*)?")
HEADS = "refs/heads/"


@dataclass(frozen=True, kw_only=True)
class GitHubEvent(Event):
    """An event of GitHub Actions."""

    payload: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The webhook's JSON; empty if there is none."""
    server_url: str = "https://github.com"
    api_url: str = "https://api.github.com"
    workflow_ref: str | None = None
    """E.g. `octo/repo/.github/workflows/evals.yml@refs/heads/main`."""
    actor: str | None = None
    """Login of the account that triggered the first attempt."""

    @property
    def workflow_path(self) -> str | None:
        """Path of the workflow file in the repository, e.g. `.github/workflows/evals.yml`."""
        match = _WORKFLOW.fullmatch(self.workflow_ref or "")
        return match["path"] if match else None

    @property
    def run_url(self) -> str | None:
        """URL of this attempt's page."""
        if self.repository is None or self.run_id is None:
            return None
        return f"{self.server_url}/{self.repository}/actions/runs/{self.run_id}/attempts/{self.run_attempt or 1}"

    @property
    def default_branch(self) -> str | None:
        """Default branch of the repository; None if the payload doesn't name it."""
        return text_at(self.payload, "repository", "default_branch")

    def source_url(self, commit: str) -> str | None:
        """URL below which the files of a commit can be browsed."""
        return f"{self.server_url}/{self.repository}/blob/{commit}" if self.name and self.repository else None


def read_event(environ: Mapping[str, str]) -> GitHubEvent:
    """Reads the event from GitHub's variables and the file `GITHUB_EVENT_PATH`.

    Outside GitHub Actions (no `GITHUB_EVENT_NAME`) the event has no name.

    Raises:
        EventError: The payload can't be read, is not a JSON object or is larger than 25 MB, or a variable has an
            invalid value.
    """
    name = environ.get("GITHUB_EVENT_NAME", "")
    if not name:
        return GitHubEvent()
    repository = environ.get("GITHUB_REPOSITORY") or None
    if repository is not None and not _REPOSITORY.fullmatch(repository):
        raise EventError(f"GITHUB_REPOSITORY is {repository!r}, not owner/name.")
    return GitHubEvent(
        name=name,
        payload=_payload(environ.get("GITHUB_EVENT_PATH", "")),
        sha=environ.get("GITHUB_SHA") or None,
        ref=environ.get("GITHUB_REF") or None,
        repository=repository,
        run_id=_number(environ, "GITHUB_RUN_ID"),
        run_attempt=_number(environ, "GITHUB_RUN_ATTEMPT"),
        server_url=(environ.get("GITHUB_SERVER_URL") or GitHubEvent.server_url).rstrip("/"),
        api_url=(environ.get("GITHUB_API_URL") or GitHubEvent.api_url).rstrip("/"),
        workflow_ref=environ.get("GITHUB_WORKFLOW_REF") or None,
        actor=environ.get("GITHUB_ACTOR") or None,
    )


def pull_request_at(payload: Mapping[str, Any], *keys: str) -> PullRequest | None:
    """Returns the pull request in a JSON object, e.g. `pull_request_at(event.payload, "pull_request")`.

    Returns:
        None if there is none, or it lacks its number, head commit or base branch.
    """
    item = at(payload, *keys)
    if not isinstance(item, Mapping):
        return None
    number, head_sha, base_sha = item.get("number"), text_at(item, "head", "sha"), text_at(item, "base", "sha")
    head_ref, base_ref = text_at(item, "head", "ref"), text_at(item, "base", "ref")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1 or head_ref is None or base_ref is None:
        return None
    if not all(sha is not None and _SHA.fullmatch(sha) for sha in (head_sha, base_sha)):
        return None
    head_repository, base_repository = (text_at(item, side, "repo", "full_name") for side in ("head", "base"))
    return PullRequest(
        number=number,
        head_sha=head_sha or "",
        head_ref=head_ref,
        head_repository=head_repository,
        base_ref=base_ref,
        base_sha=base_sha or "",
        # A deleted repository is a fork too.
        is_fork=head_repository is None or not same_repository(head_repository, base_repository),
        open=item.get("state", "open") == "open",
    )


def branch_of(ref: str | None) -> str | None:
    """Returns the branch of a full ref; None for other refs."""
    return ref.removeprefix(HEADS) if ref and ref.startswith(HEADS) else None


def at(payload: object, *keys: str) -> object:
    """Returns the value at a path of keys; None if it doesn't exist."""
    for key in keys:
        if not isinstance(payload, Mapping):
            return None
        payload = payload.get(key)
    return payload


def text_at(payload: object, *keys: str) -> str | None:
    """Returns the text at a path of keys; None if it is missing, empty or no text."""
    value = at(payload, *keys)
    return value if isinstance(value, str) and value else None


def sha_at(payload: object, *keys: str) -> str | None:
    """Returns the commit at a path of keys; None if it is missing or all zeros (GitHub's "no commit")."""
    sha = text_at(payload, *keys)
    return sha if sha and _SHA.fullmatch(sha) and set(sha) != {"0"} else None


def _payload(path: str) -> Mapping[str, Any]:
    if not path:
        return {}
    try:
        with Path(path).open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise EventError(f"The event in {path} (GITHUB_EVENT_PATH) can't be read: {error.strerror}.") from error
    if len(data) > _LARGEST:
        raise EventError(f"The event in {path} (GITHUB_EVENT_PATH) is larger than 25 MB, GitHub's own limit.")
    try:
        payload = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EventError(f"The event in {path} (GITHUB_EVENT_PATH) is not valid JSON: {error}.") from error
    if not isinstance(payload, dict):
        raise EventError(f"The event in {path} (GITHUB_EVENT_PATH) is not a JSON object.")
    return payload


def _number(environ: Mapping[str, str], name: str) -> int | None:
    value = environ.get(name, "")
    if not value:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", value):
        raise EventError(f"{name} is {value!r}, not a number.")
    return int(value)
