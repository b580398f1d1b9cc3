"""GitHub as a `Forge`."""

from __future__ import annotations

from agent_eval.forge import Acceptance, Artifact, Bound, Claim, Comment, Posted, Unbound, WorkflowRun
from agent_eval.github import binding, comments, labels, runs
from agent_eval.github.client import GitHubClient


class GitHub(GitHubClient):
    """One repository on GitHub. The methods are those of `agent_eval.forge.Forge`."""

    def upsert_comment(self, comment: Comment) -> Posted:
        """See `comments.upsert_comment`."""
        return comments.upsert_comment(self, comment)

    def acceptance(self, number: int, *, run_id: int | None, started_by_label: bool) -> Acceptance:
        """See `labels.acceptance`."""
        return labels.acceptance(self, number, run_id=run_id, started_by_label=started_by_label)

    def bind(self, run_id: int, claim: Claim | None = None) -> Bound | Unbound:
        """See `binding.bind`."""
        return binding.bind(self, run_id, claim)

    def file_at(self, path: str, ref: str) -> bytes | None:
        """See `runs.file_at`."""
        return runs.file_at(self, path, ref)

    def changed_files(self, base: str, head: str) -> list[str] | None:
        """See `runs.changed_files`."""
        return runs.changed_files(self, base, head)

    def commit_parents(self, sha: str) -> tuple[str, ...]:
        """See `runs.commit_parents`."""
        return runs.commit_parents(self, sha)

    def first_parents(self, sha: str, *, limit: int) -> list[str]:
        """See `runs.first_parents`."""
        return runs.first_parents(self, sha, limit=limit)

    def merge_base(self, base: str, head: str) -> str:
        """See `runs.merge_base`."""
        return runs.merge_base(self, base, head)

    def list_runs(
        self,
        *,
        workflow: str,
        event: str | None = None,
        branch: str | None = None,
        head_sha: str | None = None,
        limit: int = 100,
    ) -> list[WorkflowRun]:
        """See `runs.list_runs`."""
        return runs.list_runs(self, workflow=workflow, event=event, branch=branch, head_sha=head_sha, limit=limit)

    def list_artifacts(self, run_id: int, name: str | None = None) -> list[Artifact]:
        """See `runs.list_artifacts`."""
        return runs.list_artifacts(self, run_id, name)

    def download_artifact(self, artifact_id: int, *, max_bytes: int) -> bytes:
        """See `runs.download_artifact`."""
        return runs.download_artifact(self, artifact_id, max_bytes=max_bytes)
