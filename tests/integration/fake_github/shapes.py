"""GitHub's JSON for the stand-in's records: the facts of each, and what else its description requires, filled in."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from fake_github.contract import schema_of
from fake_github.state import Artifact, Comment, LabelEvent, Pull, Run, State

Json = dict[str, Any]
_WHEN = "2026-01-02T03:04:05Z"
_FORMATS = {"uri": "https://example.test/x", "date-time": _WHEN, "email": "mona@example.test"}


def when(made_id: int) -> str:
    """When something was made: what has the greater id is younger, a second for each."""
    return (datetime(2026, 1, 2, tzinfo=UTC) + timedelta(seconds=made_id % 10_000_000)).strftime("%Y-%m-%dT%H:%M:%SZ")


def filled(schema: str, /, **facts: Any) -> Json:
    """An object of a schema of the description: these facts, and values that say nothing for what else it requires."""
    return {**_required(schema), **facts}


@functools.cache
def _required(name: str) -> Json:
    result: Json = _blank(schema_of(name))
    return result


def _blank(schema: Mapping[str, Any]) -> Any:
    """The least that fits a schema."""
    if "$ref" in schema:
        return _blank(schema_of(schema["$ref"].rpartition("/")[2]))
    if "oneOf" in schema:
        return _blank(schema["oneOf"][0])
    if schema.get("nullable"):
        return None
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {name: _blank(schema["properties"][name]) for name in schema.get("required", ())}
    text = _FORMATS.get(schema.get("format", ""), "x")
    return {"string": text, "integer": 0, "number": 0, "boolean": False, "array": []}[schema["type"]]


def _number(text: str) -> int:
    return int(hashlib.sha1(text.encode()).hexdigest()[:6], 16)


class Shapes:
    """Makes JSON of the records of one repository."""

    def __init__(self, state: State, api_url: str, server_url: str) -> None:
        self._state = state
        self._api = f"{api_url}/repos/{state.repository}"
        self._pages = f"{server_url}/{state.repository}"

    def user(self, login: str, kind: str = "User") -> Json:
        return filled("simple-user", login=login, id=_number(login), type=kind)

    def viewer(self, login: str) -> Json:
        return filled("public-user", **self.user(login), user_view_type="public")

    def repository(self, full_name: str, *, whole: bool = False) -> Json:
        owner, _, name = full_name.partition("/")
        facts = {"id": _number(full_name), "name": name, "full_name": full_name, "owner": self.user(owner)}
        facts |= {"fork": full_name != self._state.repository, "default_branch": self._state.default_branch}
        return filled("repository" if whole else "minimal-repository", **facts)

    def comment(self, comment: Comment) -> Json:
        return filled(
            "issue-comment",
            id=comment.id,
            html_url=f"{self._pages}/pull/{comment.number}#issuecomment-{comment.id}",
            body=comment.body,
            user=self.user(comment.login, comment.kind),
        )

    def label_event(self, one: LabelEvent) -> Json:
        return filled(
            "labeled-issue-event",
            id=one.id,
            actor=self.user(one.login, one.kind),
            event=one.event,
            created_at=when(one.id),
            label={"name": one.name, "color": "ededed"},
        )

    def pull(self, pull: Pull, *, whole: bool = False) -> Json:
        def side(ref: str, sha: str, full_name: str | None) -> Json:
            owner = (full_name or "ghost/gone").partition("/")[0]
            repo = None if full_name is None else self.repository(full_name, whole=True)
            return {"label": f"{owner}:{ref}", "ref": ref, "sha": sha, "repo": repo, "user": self.user(owner)}

        return filled(
            "pull-request" if whole else "pull-request-simple",
            id=pull.number,
            number=pull.number,
            html_url=f"{self._pages}/pull/{pull.number}",
            state=pull.state,
            locked=pull.number in self._state.locked,
            user=self.user(pull.author, pull.author_kind),
            head=side(pull.head_ref, pull.head_sha, pull.head_repository),
            base=side(pull.base_ref, pull.base_sha, self._state.repository),
        )

    def run(self, run: Run) -> Json:
        head = None if run.head_repository is None else self.repository(run.head_repository)
        return filled(
            "workflow-run",
            id=run.id,
            run_attempt=run.attempt,
            event=run.event,
            status=run.status,
            conclusion=run.conclusion if run.status == "completed" else None,
            head_branch=run.branch,
            head_sha=run.sha,
            head_commit={
                "id": run.sha,
                "tree_id": self._state.tree(run.sha),
                "message": "",
                "timestamp": when(run.id),
                "author": None,
                "committer": None,
            },
            path=run.path,
            workflow_id=_number(run.path),
            html_url=f"{self._pages}/actions/runs/{run.id}",
            created_at=when(run.id),
            repository=self.repository(self._state.repository),
            head_repository=head,
            pull_requests=[self._short(self._state.pulls[number]) for number in run.pulls],
        )

    def workflow(self, path: str) -> Json:
        return filled("workflow", id=_number(path), path=path, name=path, state="active")

    def role(self, login: str, role: str) -> Json:
        user = {**self.user(login), "role_name": role}
        return filled("repository-collaborator-permission", permission=role, role_name=role, user=user)

    def status(self, **facts: Any) -> Json:
        return filled("status", **facts)

    def _short(self, pull: Pull) -> Json:
        def side(ref: str, sha: str, full_name: str) -> Json:
            return {"ref": ref, "sha": sha, "repo": {"id": 1, "url": self._api, "name": full_name.partition("/")[2]}}

        return {
            "id": pull.number,
            "number": pull.number,
            "url": f"{self._api}/pulls/{pull.number}",
            "head": side(pull.head_ref, pull.head_sha, pull.head_repository or "ghost/gone"),
            "base": side(pull.base_ref, pull.base_sha, self._state.repository),
        }

    def artifact(self, artifact: Artifact) -> Json:
        return filled(
            "artifact",
            id=artifact.id,
            name=artifact.name,
            size_in_bytes=len(artifact.data),
            archive_download_url=f"{self._api}/actions/artifacts/{artifact.id}/zip",
            expired=artifact.expired,
            created_at=artifact.created_at or when(artifact.id),
            digest=f"sha256:{hashlib.sha256(artifact.data).hexdigest()}",
        )

    def commit(self, sha: str) -> Json:
        return filled("commit", sha=sha, parents=self._parents(sha))

    def git_commit(self, sha: str) -> Json:
        return filled("git-commit", sha=sha, parents=self._parents(sha))

    def _parents(self, sha: str) -> list[Json]:
        page = f"{self._pages}/commit/{sha}"
        return [{"sha": parent, "url": page, "html_url": page} for parent in self._state.commits[sha]]

    def comparison(self, base: str, head: str) -> Json | None:
        """None when the two have nothing in common."""
        state = self._state
        of_base, of_head = state.ancestors(base), state.ancestors(head)
        common = [sha for sha in of_head if sha in set(of_base)]
        if not common:
            return None
        ahead = [sha for sha in of_head if sha not in set(of_base)]
        behind = [sha for sha in of_base if sha not in set(of_head)]
        status = {(0, 0): "identical", (1, 0): "ahead", (0, 1): "behind"}.get((bool(ahead), bool(behind)), "diverged")
        changed = state.changes(common[0], head)[:300]
        return filled(
            "commit-comparison",
            base_commit=self.commit(base),
            merge_base_commit=self.commit(common[0]),
            status=status,
            ahead_by=len(ahead),
            behind_by=len(behind),
            total_commits=len(ahead),
            commits=[self.commit(sha) for sha in ahead[::-1][:1]],
            files=[filled("diff-entry", sha=None, filename=path, status=status) for status, path in changed],
        )

    def content(self, path: str, data: bytes) -> Json:
        large = len(data) > 1_000_000
        return filled(
            "content-file",
            encoding="none" if large else "base64",
            size=len(data),
            name=path.rpartition("/")[2],
            path=path,
            content="" if large else base64.encodebytes(data).decode(),
        )
