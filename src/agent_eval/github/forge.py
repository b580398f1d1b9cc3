"""GitHub as a `Forge`."""

from __future__ import annotations

from agent_eval.github import binding, comments, labels, runs
from agent_eval.github.client import GitHubClient


class GitHub(GitHubClient):
    """One repository on GitHub. The methods are those of `agent_eval.forge.Forge`; each takes the client first."""

    upsert_comment = comments.upsert_comment
    acceptance = labels.acceptance
    bind = binding.bind
    file_at = runs.file_at
    changed_files = runs.changed_files
    commit_parents = runs.commit_parents
    first_parents = runs.first_parents
    merge_base = runs.merge_base
    list_runs = runs.list_runs
    list_artifacts = runs.list_artifacts
    download_artifact = runs.download_artifact
