"""GitLab as a `Forge`. A run is a pipeline; its artifact is that of the job that has this job's name.

A label accepts the rules of a merge request as on GitHub: it counts only for the commit on which it was set, so it must
be newer than the pipeline. The author of a merge request can label it without rights in the project, so the role of
the person counts as well.
"""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

from agent_eval.forge import Acceptance, ApiModel, Artifact, Bound, Claim, Repository, Unbound, WorkflowRun, comments
from agent_eval.forge.rest import RestError
from agent_eval.gitlab.client import GitLabClient, is_bot
from agent_eval.gitlab.events import SOURCES
from agent_eval_results import ACCEPT_RULES
from agent_eval_scoring.core.text import harmless

_DEVELOPER = 30
"""GitLab's access level: may label merge requests (docs.gitlab.com, "Members API")."""
_RUNNING = frozenset({"created", "waiting_for_resource", "preparing", "pending", "running", "canceling"})
_CONCLUSIONS = {"failed": "failure", "canceled": "cancelled"}
_LARGEST_FILE = 1_000_000
"""Bytes, as on GitHub."""
_MOST_JOBS = 2_000
"""Jobs of a pipeline that are read, with those that were retried."""


class _User(ApiModel):
    id: int
    username: str


class _Label(ApiModel):
    name: str


class _LabelEvent(ApiModel):
    action: str
    """`add` or `remove`."""
    created_at: datetime
    user: _User | None = None
    label: _Label | None = None
    """None if the label was deleted."""


class _Member(ApiModel):
    id: int
    access_level: int


class _Pipeline(ApiModel):
    id: int
    sha: str
    ref: str | None = None
    status: str
    source: str | None = None
    web_url: str
    created_at: datetime


class _File(ApiModel):
    size: int


class _Job(ApiModel):
    id: int
    name: str
    created_at: datetime
    artifacts_file: _File | None = None
    artifacts_expire_at: datetime | None = None


class _Commit(ApiModel):
    id: str
    parent_ids: tuple[str, ...] = ()


class GitLab(GitLabClient):
    """One project on GitLab, for the duration of one job. See `Forge`."""

    upsert_comment = comments.upsert_comment
    memories = comments.memories

    def acceptance(self, number: int, *, run_id: int | None, started_by_label: bool) -> Acceptance:
        """Whether a person has accepted the rule changes of a merge request for the tested commit."""
        label = f"The label `{ACCEPT_RULES}` does not count"
        try:
            last = self._last_label(number)
            if last is None:
                return Acceptance()
            user = last.user
            if user is None or is_bot(user.username):
                return Acceptance(why_not=f"{label}: a program set it, not a person.")
            path = self.api("members", "all")
            members = [self.parsed(_Member, one, path) for one in self.paginate(path, {"user_ids[]": [str(user.id)]})]
            if not any(member.id == user.id and member.access_level >= _DEVELOPER for member in members):
                return Acceptance(why_not=f"{label}: the person who set it has not the role Developer.")
            path = self.api("pipelines", run_id or 0)
            if last.created_at <= self.parsed(_Pipeline, self.get(path), path).created_at:
                return Acceptance(
                    why_not=f"{label}: it was set before this pipeline was created. Remove it, set it again and retry "
                    "this job."
                )
        except RestError as error:
            return Acceptance(why_not=f"Whether the label `{ACCEPT_RULES}` is set could not be read: {error}")
        return Acceptance(by=harmless(user.username))

    def _last_label(self, number: int) -> _LabelEvent | None:
        """Returns the last setting of the label; None if it is not set."""
        path = self.api("merge_requests", number, "resource_label_events")
        events = [self.parsed(_LabelEvent, item, path) for item in self.paginate(path)]
        ours = [event for event in events if event.label and event.label.name.casefold() == ACCEPT_RULES.casefold()]
        last = max(ours, key=lambda event: event.created_at, default=None)
        return last if last is not None and last.action == "add" else None

    def bind(self, run_id: int, claim: Claim | None = None) -> Bound | Unbound:
        """No run publishes another's results on GitLab."""
        return Unbound(message="GitLab has no job that publishes the results of another one.", is_contradiction=True)

    def changed_files(self, base: str, head: str) -> list[str] | None:
        """None: unknown. It is asked where a run publishes another's results."""
        return None

    def file_at(self, path: str, ref: str) -> bytes | None:
        """The content of a file at a commit or branch; None if there is no file."""
        try:
            # In the path, since the client's downloads have no parameters.
            address = self.api("repository", "files", quote(path, safe=""), f"raw?ref={quote(ref, safe='')}")
            return self.download(address, max_bytes=_LARGEST_FILE)
        except RestError as error:
            if error.kind == "not-found":
                return None
            raise

    def commit_parents(self, sha: str) -> tuple[str, ...]:
        """The parents of a commit, first the one that was merged into."""
        path = self.api("repository", "commits", quote(sha, safe=""))
        return self.parsed(_Commit, self.get(path), path).parent_ids

    def first_parents(self, sha: str, *, limit: int) -> list[str]:
        """A commit and at most `limit` - 1 ancestors along first parents, newest first."""
        path = self.api("repository", "commits")
        listed = self.paginate(path, {"ref_name": sha, "first_parent": "true"}, limit=limit)
        return [self.parsed(_Commit, item, path).id for item in listed]

    def merge_base(self, base: str, head: str) -> str:
        """The merge base of two commits or branches."""
        path = self.api("repository", "merge_base")
        return self.parsed(_Commit, self.get(path, {"refs[]": [base, head]}), path).id

    def list_runs(
        self,
        *,
        workflow: str,
        event: str | None = None,
        branch: str | None = None,
        head_sha: str | None = None,
        limit: int = 100,
    ) -> list[WorkflowRun]:
        """The latest pipelines, newest first; each filter is optional. Those of merge requests have no branch."""
        path = self.api("pipelines")
        of_merge_request = event == "pull_request"
        source = "merge_request_event" if of_merge_request else SOURCES.get(event or "", event)
        filters = {"source": source, "ref": self._event.ref if of_merge_request else branch, "sha": head_sha}
        params = {name: value for name, value in filters.items() if value is not None}
        pipelines = [self.parsed(_Pipeline, item, path) for item in self.paginate(path, params, limit=limit)]
        names = {source: name for name, source in SOURCES.items()} | {"merge_request_event": "pull_request"}
        return [
            WorkflowRun(
                id=pipeline.id,
                event=names.get(pipeline.source or "", pipeline.source or ""),
                status="in_progress" if pipeline.status in _RUNNING else "completed",
                conclusion=_CONCLUSIONS.get(pipeline.status, pipeline.status),
                head_branch=pipeline.ref,
                head_sha=pipeline.sha,
                head_repository=Repository(full_name=self.repository),
                path=workflow,
                html_url=pipeline.web_url,
                created_at=pipeline.created_at,
            )
            for pipeline in pipelines
        ]

    def is_retry(self, run_id: int, attempt: int) -> bool:
        """Whether the pipeline has an older job of this name. Without a token nobody knows."""
        return self.has_token and any(job.id < attempt for job in self._attempts(run_id))

    def _attempts(self, run_id: int) -> list[_Job]:
        path = self.api("pipelines", run_id, "jobs")
        listed = self.paginate(path, {"include_retried": "true"}, limit=_MOST_JOBS)
        return [job for job in (self.parsed(_Job, item, path) for item in listed) if job.name == self._event.key]

    def list_artifacts(self, run_id: int, name: str | None = None) -> list[Artifact]:
        """The artifacts of this job in a pipeline, of all its attempts, newest first. A job has one, without a name."""
        now = datetime.now(UTC)
        return [
            Artifact(
                id=job.id,
                name=name or "",
                size_in_bytes=job.artifacts_file.size if job.artifacts_file is not None else 0,
                expired=job.artifacts_file is None,
                created_at=job.created_at,
            )
            for job in sorted(self._attempts(run_id), key=lambda job: job.id, reverse=True)
            if job.artifacts_file is not None or (job.artifacts_expire_at or now) < now
        ]

    def download_artifact(self, artifact_id: int, *, max_bytes: int) -> bytes:
        """The zip of an artifact, which is untrusted."""
        return self.download(self.api("jobs", artifact_id, "artifacts"), max_bytes=max_bytes)
