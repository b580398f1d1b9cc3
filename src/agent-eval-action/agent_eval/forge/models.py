"""Runs and artifacts, with the field names of GitHub's API."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict


class ApiModel(BaseModel):
    """A part of a response of the forge's API; other fields are ignored."""

    # Validators are built at the first response: most runs, those on a desk, ask no forge.
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class Repository(ApiModel):
    """A reference to a repository."""

    full_name: str
    """`owner/name`."""


class HeadCommit(ApiModel):
    """The commit that a run is about."""

    tree_id: str
    """Hash of its files."""


class WorkflowRun(ApiModel):
    """The current state of a workflow run."""

    id: int
    run_attempt: int = 1
    event: str
    """The event that started it, e.g. `push`."""
    status: str | None
    """`completed`, or its progress, e.g. `in_progress`."""
    conclusion: str | None
    """`success`, `failure`, `cancelled`, `timed_out`, `action_required` ...; None while it runs."""
    head_branch: str | None
    head_sha: str
    head_commit: HeadCommit | None = None
    """None where the forge does not say it."""
    head_repository: Repository | None = None
    """Repository of the commit: the fork for a fork's pull request. None if the fork was deleted."""
    path: str
    """Path of the workflow file, e.g. `.github/workflows/evals.yml`; GitHub may append `@REF`."""
    html_url: str
    created_at: datetime
    """Start of the first attempt."""
    pull_requests: list[Mapping[str, Any]] | None = None
    """Empty for forks."""

    @property
    def workflow_path(self) -> str:
        """Path of the workflow file, without a ref."""
        return self.path.partition("@")[0]


class Artifact(ApiModel):
    """An uploaded artifact."""

    id: int
    name: str
    size_in_bytes: int
    """Size of the zip."""
    expired: bool
    created_at: datetime | None = None
    """Ids of artifacts do not grow with time: that of a second attempt can be smaller than that of the first."""
    digest: str | None = None
    """`sha256:...` of the zip; None for older artifacts and GHES."""

    def is_intact(self, data: bytes) -> bool:
        """Whether a downloaded zip is the uploaded one, unchanged by a cache or a proxy; True if that is unknown."""
        # Another algorithm that GitHub may choose one day is unknown, and no contradiction.
        algorithm, _, digest = (self.digest or "").partition(":")
        return algorithm != "sha256" or hashlib.sha256(data).hexdigest() == digest.lower()
