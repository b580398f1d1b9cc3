"""GitHub's JSON for the stand-in's records, with all that its description requires."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from fake_github.state import Artifact, Comment, LabelEvent, Pull, Run, State

Json = dict[str, Any]
_WHEN = "2026-01-02T03:04:05Z"


def when(made_id: int) -> str:
    """When something was made: what has the greater id is younger, a second for each."""
    return (datetime(2026, 1, 2, tzinfo=UTC) + timedelta(seconds=made_id % 10_000_000)).strftime("%Y-%m-%dT%H:%M:%SZ")


_USER_URLS = [
    f"{name}_url"
    for name in [
        "followers",
        "following",
        "gists",
        "starred",
        "subscriptions",
        "organizations",
        "repos",
        "events",
        "received_events",
    ]
]
_REPOSITORY_URLS = [
    f"{name}_url"
    for name in [
        "archive",
        "assignees",
        "blobs",
        "branches",
        "collaborators",
        "comments",
        "commits",
        "compare",
        "contents",
        "contributors",
        "deployments",
        "downloads",
        "events",
        "forks",
        "git_commits",
        "git_refs",
        "git_tags",
        "hooks",
        "issue_comment",
        "issue_events",
        "issues",
        "keys",
        "labels",
        "languages",
        "merges",
        "milestones",
        "notifications",
        "pulls",
        "releases",
        "stargazers",
        "statuses",
        "subscribers",
        "subscription",
        "tags",
        "teams",
        "trees",
    ]
]


class Shapes:
    """Makes JSON of the records of one repository."""

    def __init__(self, state: State, api_url: str, server_url: str) -> None:
        self._state = state
        self._api = api_url
        self._server = server_url

    def user(self, login: str, kind: str = "User") -> Json:
        url = f"{self._api}/users/{login.replace('[', '%5B').replace(']', '%5D')}"
        return {
            "login": login,
            "id": int(hashlib.sha1(login.encode()).hexdigest()[:6], 16),
            "node_id": "U_1",
            "avatar_url": f"{self._server}/avatars/1",
            "gravatar_id": "",
            "url": url,
            "html_url": f"{self._server}/apps/{login}" if kind == "Bot" else f"{self._server}/{login}",
            **dict.fromkeys(_USER_URLS, url),
            "type": kind,
            "site_admin": False,
        }

    def viewer(self, login: str) -> Json:
        empty = dict.fromkeys(("bio", "blog", "company", "email", "hireable", "location", "name"))
        counts = dict.fromkeys(("followers", "following", "public_gists", "public_repos"), 0)
        return {
            **self.user(login),
            "user_view_type": "public",
            **empty,
            **counts,
            "created_at": _WHEN,
            "updated_at": _WHEN,
        }

    def repository(self, full_name: str, *, whole: bool = False) -> Json:
        owner, _, name = full_name.partition("/")
        url = f"{self._api}/repos/{full_name}"
        result: Json = {
            "id": int(hashlib.sha1(full_name.encode()).hexdigest()[:6], 16),
            "node_id": "R_1",
            "name": name,
            "full_name": full_name,
            "owner": self.user(owner),
            "private": False,
            "html_url": f"{self._server}/{full_name}",
            "description": None,
            "fork": full_name != self._state.repository,
            "url": url,
            **{key: f"{url}/{key.removesuffix('_url')}" for key in _REPOSITORY_URLS},
        }
        if not whole:
            return result
        counts = ("forks", "forks_count", "open_issues", "open_issues_count", "size", "stargazers_count", "watchers")
        return {
            **result,
            **dict.fromkeys((*counts, "watchers_count"), 0),
            **dict.fromkeys(("has_downloads", "has_issues", "has_pages", "has_projects", "has_wiki"), True),
            **dict.fromkeys(("homepage", "language", "mirror_url", "license"), None),
            **dict.fromkeys(("archived", "disabled", "has_discussions"), False),
            **dict.fromkeys(("clone_url", "svn_url"), f"{self._server}/{full_name}"),
            "git_url": f"git://example.test/{full_name}.git",
            "ssh_url": f"git@example.test:{full_name}.git",
            "default_branch": self._state.default_branch,
            "created_at": _WHEN,
            "updated_at": _WHEN,
            "pushed_at": _WHEN,
        }

    def comment(self, comment: Comment) -> Json:
        url = f"{self._api}/repos/{self._state.repository}/issues"
        page = f"{self._server}/{self._state.repository}/pull/{comment.number}#issuecomment-{comment.id}"
        return {
            "id": comment.id,
            "node_id": f"IC_{comment.id}",
            "url": f"{url}/comments/{comment.id}",
            "html_url": page,
            "issue_url": f"{url}/{comment.number}",
            "body": comment.body,
            "user": self.user(comment.login, comment.kind),
            "created_at": _WHEN,
            "updated_at": _WHEN,
            "author_association": "NONE",
            "performed_via_github_app": None,
        }

    def label_event(self, one: LabelEvent) -> Json:
        return {
            "id": one.id,
            "node_id": "LE_1",
            "url": f"{self._api}/repos/{self._state.repository}/issues/events/{one.id}",
            "actor": self.user(one.login, one.kind),
            "event": one.event,
            "commit_id": None,
            "commit_url": None,
            "created_at": when(one.id),
            "label": {"name": one.name, "color": "ededed"},
            "performed_via_github_app": None,
        }

    def pull(self, pull: Pull, *, whole: bool = False) -> Json:
        repository = self._state.repository
        url = f"{self._api}/repos/{repository}/pulls/{pull.number}"
        page = f"{self._server}/{repository}/pull/{pull.number}"
        links = ("self", "html", "issue", "comments", "review_comments", "review_comment", "commits", "statuses")
        head_owner = (pull.head_repository or "ghost/gone").partition("/")[0]
        head_repo = None if pull.head_repository is None else self.repository(pull.head_repository, whole=True)
        result: Json = {
            "id": pull.number,
            "node_id": "PR_1",
            "number": pull.number,
            "url": url,
            "html_url": page,
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            "issue_url": f"{self._api}/repos/{repository}/issues/{pull.number}",
            **{f"{key}_url": f"{url}/{key}" for key in ("commits", "review_comments", "comments", "statuses")},
            "review_comment_url": f"{url}/comments{{/number}}",
            "state": pull.state,
            "locked": pull.number in self._state.locked,
            "title": "A change",
            "user": self.user(pull.author),
            "body": None,
            "labels": [],
            "milestone": None,
            "created_at": _WHEN,
            "updated_at": _WHEN,
            "closed_at": None if pull.state == "open" else _WHEN,
            "merged_at": None,
            "merge_commit_sha": None,
            "assignee": None,
            "draft": pull.draft,
            "head": {
                "label": f"{head_owner}:{pull.head_ref}",
                "ref": pull.head_ref,
                "sha": pull.head_sha,
                "repo": head_repo,
                "user": self.user(head_owner),
            },
            "base": {
                "label": f"{repository.partition('/')[0]}:{pull.base_ref}",
                "ref": pull.base_ref,
                "sha": pull.base_sha,
                "repo": self.repository(repository, whole=True),
                "user": self.user(repository.partition("/")[0]),
            },
            "_links": {key: {"href": url} for key in links},
            "author_association": "NONE",
            "auto_merge": None,
        }
        if whole:
            counts = ("additions", "changed_files", "comments", "commits", "deletions", "review_comments")
            result |= dict.fromkeys(counts, 1)
            result |= {"merged": False, "mergeable": None, "mergeable_state": "unknown", "merged_by": None}
            result["maintainer_can_modify"] = False
        return result

    def run(self, run: Run) -> Json:
        repository = self._state.repository
        url = f"{self._api}/repos/{repository}/actions/runs/{run.id}"
        links = ("jobs", "logs", "check_suite", "artifacts", "cancel", "rerun", "workflow")
        head = None if run.head_repository is None else self.repository(run.head_repository)
        return {
            "id": run.id,
            "node_id": f"WFR_{run.id}",
            "name": "Evals",
            "display_title": "A change",
            "run_number": 1,
            "run_attempt": run.attempt,
            "event": run.event,
            "status": run.status,
            "conclusion": run.conclusion if run.status == "completed" else None,
            "head_branch": run.branch,
            "head_sha": run.sha,
            "path": run.path,
            "workflow_id": 1,
            "url": url,
            "html_url": f"{self._server}/{repository}/actions/runs/{run.id}",
            **{f"{key}_url": f"{url}/{key}" for key in links},
            "created_at": when(run.id),
            "updated_at": _WHEN,
            "head_commit": None,
            "repository": self.repository(repository),
            "head_repository": head,
            "pull_requests": [self._short(self._state.pulls[number]) for number in run.pulls],
        }

    def _short(self, pull: Pull) -> Json:
        def side(ref: str, sha: str, full_name: str) -> Json:
            url = f"{self._api}/repos/{full_name}"
            return {"ref": ref, "sha": sha, "repo": {"id": 1, "url": url, "name": full_name.partition("/")[2]}}

        return {
            "id": pull.number,
            "number": pull.number,
            "url": f"{self._api}/repos/{self._state.repository}/pulls/{pull.number}",
            "head": side(pull.head_ref, pull.head_sha, pull.head_repository or "ghost/gone"),
            "base": side(pull.base_ref, pull.base_sha, self._state.repository),
        }

    def artifact(self, artifact: Artifact) -> Json:
        url = f"{self._api}/repos/{self._state.repository}/actions/artifacts/{artifact.id}"
        return {
            "id": artifact.id,
            "node_id": f"A_{artifact.id}",
            "name": artifact.name,
            "size_in_bytes": len(artifact.data),
            "url": url,
            "archive_download_url": f"{url}/zip",
            "expired": artifact.expired,
            "created_at": artifact.created_at or when(artifact.id),
            "updated_at": _WHEN,
            "expires_at": _WHEN,
            "digest": f"sha256:{hashlib.sha256(artifact.data).hexdigest()}",
        }

    def commit(self, sha: str) -> Json:
        commit = self._state.commits[sha]
        who = {"name": "Mona", "email": "mona@example.test", "date": _WHEN}
        url = f"{self._api}/repos/{self._state.repository}/commits/{sha}"
        page = f"{self._server}/{self._state.repository}/commit/{sha}"
        return {
            "sha": sha,
            "node_id": "C_1",
            "url": url,
            "html_url": page,
            "comments_url": f"{url}/comments",
            "commit": {
                "url": url,
                "author": who,
                "committer": who,
                "message": commit.message,
                "comment_count": 0,
                "tree": {"sha": sha, "url": url},
            },
            "author": self.user("mona"),
            "committer": self.user("mona"),
            "parents": [{"sha": parent, "url": url, "html_url": page} for parent in commit.parents],
        }

    def git_commit(self, sha: str) -> Json:
        whole = self.commit(sha)
        inner = whole["commit"]
        kept = {key: whole[key] for key in ("sha", "node_id", "url", "html_url", "parents")}
        kept |= {key: inner[key] for key in ("author", "committer", "message", "tree")}
        nothing = dict.fromkeys(("signature", "payload", "verified_at"))
        return {**kept, "verification": {"verified": False, "reason": "unsigned", **nothing}}

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
        url = f"{self._api}/repos/{state.repository}/compare/{base}...{head}"
        page = f"{self._server}/{state.repository}/compare/{base}...{head}"
        return {
            "url": url,
            "html_url": page,
            "permalink_url": page,
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            "base_commit": self.commit(base),
            "merge_base_commit": self.commit(common[0]),
            "status": status,
            "ahead_by": len(ahead),
            "behind_by": len(behind),
            "total_commits": len(ahead),
            "commits": [self.commit(sha) for sha in ahead[::-1][:1]],
            "files": [self._changed(status, path) for status, path in state.changes(common[0], head)][:300],
        }

    def _changed(self, status: str, path: str) -> Json:
        url = f"{self._server}/{self._state.repository}/raw/{path}"
        numbers = dict.fromkeys(("additions", "deletions", "changes"), 1)
        urls = dict.fromkeys(("blob_url", "raw_url", "contents_url"), url)
        return {"sha": None, "filename": path, "status": status, **numbers, **urls}

    def content(self, path: str, data: bytes) -> Json:
        url = f"{self._api}/repos/{self._state.repository}/contents/{path}"
        large = len(data) > 1_000_000
        encoded = base64.encodebytes(data).decode()
        return {
            "type": "file",
            "encoding": "none" if large else "base64",
            "size": len(data),
            "name": path.rpartition("/")[2],
            "path": path,
            "content": "" if large else encoded,
            "sha": hashlib.sha1(data).hexdigest(),
            "url": url,
            "git_url": None,
            "html_url": None,
            "download_url": None,
            "_links": {"self": url, "git": None, "html": None},
        }
