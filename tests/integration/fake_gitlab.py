"""A GitLab on loopback, held to what GitLab says of the operations that we use; and a repository with merge requests.

    with FakeGitLab() as fake:
        fake.note(7, "Looks good")                       # by a person
        fake.faults.append(Fault(method="POST", status=403))
        ...                                              # talk to fake.api_url with fake.token

Leaving the block fails the test if a request or an answer violated `OPERATIONS`.
"""

from __future__ import annotations

import functools
import io
import json
import re
import zipfile
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from base_repos import Repo
from fake_github import Fault
from gate_runs import Done, Repository
from recorded_evals import AGENT, write_evals
from upload_server import Received, Reply, upload_server

PAGED = {"page", "per_page"}
_NOTE: dict[str, type[Any]] = {
    "id": int,
    "body": str,
    "author": dict,
    "system": bool,
    "created_at": str,
    "noteable_iid": int,
}
_PIPELINE: dict[str, type[Any]] = {
    "id": int,
    "sha": str,
    "ref": str,
    "status": str,
    "source": str,
    "web_url": str,
    "created_at": str,
}
_COMMIT: dict[str, type[Any]] = {"id": str, "parent_ids": list}
_NOTES = "/projects/{id}/merge_requests/{iid}/notes"
OPERATIONS: dict[tuple[str, str], tuple[set[str], Mapping[str, type[Any]] | None]] = {
    ("GET", "/user"): (set(), {"id": int, "username": str}),
    ("GET", _NOTES): ({"order_by", "sort", "activity_filter", *PAGED}, _NOTE),
    ("POST", _NOTES): (set(), _NOTE),
    ("PUT", f"{_NOTES}/{{note_id}}"): (set(), _NOTE),
    ("GET", "/projects/{id}/merge_requests/{iid}/resource_label_events"): (
        PAGED,
        {"id": int, "user": dict, "created_at": str, "label": dict, "action": str},
    ),
    ("GET", "/projects/{id}/members/all"): (
        {"query", "user_ids[]", "state", *PAGED},
        {"id": int, "username": str, "access_level": int},
    ),
    ("GET", "/projects/{id}/pipelines"): ({"ref", "sha", "source", "status", "order_by", "sort", *PAGED}, _PIPELINE),
    ("GET", "/projects/{id}/pipelines/{pipeline_id}"): (set(), _PIPELINE),
    ("GET", "/projects/{id}/pipelines/{pipeline_id}/jobs"): (
        {"scope", "include_retried", *PAGED},
        {"id": int, "name": str, "status": str, "created_at": str},
    ),
    ("GET", "/projects/{id}/jobs/{job_id}/artifacts"): (set(), None),
    ("GET", "/projects/{id}/repository/commits"): (
        {"ref_name", "first_parent", "since", "until", "path", *PAGED},
        _COMMIT,
    ),
    ("GET", "/projects/{id}/repository/commits/{sha}"): ({"stats"}, _COMMIT),
    ("GET", "/projects/{id}/repository/merge_base"): ({"refs[]"}, _COMMIT),
    ("GET", "/projects/{id}/repository/files/{path}/raw"): ({"ref", "lfs"}, None),
}
"""Per operation the parameters of its query, and what an object of its answer has; None for a file.

Of notes and the merge base: GitLab's OpenAPI description (version 19.5, gitlabhq/gitlabhq at 045bf877,
doc/api/openapi/openapi_v3.yaml). Of the others: the pages "Users", "Resource label events", "Project members",
"Pipelines", "Jobs", "Job artifacts", "Commits" and "Repository files" of https://docs.gitlab.com/api/."""
_BODY = {"body", "internal", "created_at", "merge_request_diff_head_sha"}
"""Fields of a note that is written."""
LONGEST = 1_000_000
BOT = (3, "project_42_bot_0a1b2c")


@dataclass(kw_only=True)
class FakeGitLab:
    """The server. Add to its lists what is there."""

    url: str = ""
    project: int = 42
    path: str = "group/sub/shop"
    token: str = "glpat-of-the-stand-in"
    users: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By token."""
    faults: list[Fault] = field(default_factory=list)
    notes: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    labels: list[dict[str, Any]] = field(default_factory=list)
    members: dict[int, int] = field(default_factory=dict)
    pipelines: list[dict[str, Any]] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    zips: dict[int, bytes] = field(default_factory=dict)
    git: Repo | None = None
    requests: list[Received] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    _ids: Iterator[int] = field(default_factory=lambda: iter(range(1000, 10**6)))

    @property
    def api_url(self) -> str:
        return f"{self.url}/api/v4"

    def note(
        self, number: int, body: str, user: tuple[int, str] = (9, "ada"), *, system: bool = False
    ) -> dict[str, Any]:
        made = {
            "id": next(self._ids),
            "body": body,
            "author": {"id": user[0], "username": user[1]},
            "system": system,
            "created_at": "2026-11-01T10:00:00.000Z",
            "noteable_iid": number,
            "edits": 0,
        }
        self.notes.setdefault(number, []).append(made)
        return made

    def label(self, name: str, when: str, user: tuple[int, str] | None = (9, "ada"), action: str = "add") -> None:
        who = None if user is None else {"id": user[0], "username": user[1]}
        event = {"id": next(self._ids), "user": who, "created_at": when, "label": {"name": name}, "action": action}
        self.labels.append(event)

    def pipeline(self, sha: str, ref: str, source: str, status: str = "success", **more: Any) -> dict[str, Any]:
        number = next(self._ids)
        page = f"{self.url}/{self.path}/-/pipelines/{number}"
        made = {"id": number, "sha": sha, "ref": ref, "source": source, "status": status, "web_url": page}
        self.pipelines.append({**made, "created_at": f"2026-11-02T10:00:{len(self.pipelines):02}.000Z", **more})
        return self.pipelines[-1]

    def job(self, pipeline: Mapping[str, Any], name: str = "evals", **more: Any) -> dict[str, Any]:
        made = {"id": next(self._ids), "name": name, "status": "running", "created_at": "2026-11-02T10:01:00.000Z"}
        self.jobs.append({**made, "pipeline": pipeline["id"], **more})
        return self.jobs[-1]

    def upload(self, job: dict[str, Any], directory: Path) -> None:
        """What GitLab makes of `artifacts: paths`: a zip with paths from the project's directory."""
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(directory.rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(directory.parent).as_posix())
        self.zips[job["id"]] = data.getvalue()
        job["artifacts_file"] = {"filename": "artifacts.zip", "size": len(data.getvalue())}

    def answer(self, request: Received) -> Reply | None:
        """What GitLab answers; None closes the connection."""
        self.requests.append(request)
        url = urlsplit(request.path)
        if self.git is not None and url.path.startswith(f"/{self.path}.git/"):
            name, _, secret = b64decode(request.headers.get("authorization", "")[6:]).decode().partition(":")
            if name and secret != self.token:  # Wrong credentials are refused for public projects, too.
                return Reply(401, headers={"WWW-Authenticate": 'Basic realm="GitLab"'})
            file = self.git.root / url.path.removeprefix(f"/{self.path}.git/")
            return Reply(200, file.read_bytes(), {"Content-Type": "text/plain"}) if file.is_file() else Reply(404)
        path = url.path.removeprefix("/api/v4")
        fault = next((item for item in self.faults if item.matches(request.method, path)), None)
        if fault is not None:
            fault.times -= 1
            if fault.drop is not None:
                if fault.drop == "after":
                    self._checked(request, path, url.query)
                return None
            assert fault.status is not None
            return Reply(fault.status, fault.body, fault.headers)
        return self._checked(request, path, url.query)

    def _checked(self, request: Received, path: str, query: str) -> Reply:
        for (method, template), (known, shape) in OPERATIONS.items():
            pattern = re.sub(r"\{\w+\}", "([^/]+)", template)
            if method != request.method or (match := re.fullmatch(pattern, path)) is None:
                continue
            sent = parse_qsl(query, keep_blank_values=True)
            self.violations += [f"{method} {path} has no parameter {name}" for name, _ in sent if name not in known]
            if request.method != "GET" and not {"body"} <= set(request.json) <= _BODY:
                self.violations.append(f"{method} {path}: {sorted(request.json)}")
            reply = self._answer(method, template, match.groups(), sent, request)
            items: list[Any] = reply.body if isinstance(reply.body, list) else [reply.body]
            if shape is not None and reply.status < 300:
                self.violations += [
                    f"{method} {path} -> {name} is {item.get(name)!r}"
                    for item in items
                    for name, kind in shape.items()
                    if not isinstance(item.get(name), kind) and not (name == "user" and item[name] is None)
                ]
            return reply
        self.violations.append(f"{request.method} {path} is no operation that we know")
        return Reply(404, {"error": "404 Not Found"})

    def _answer(
        self, method: str, template: str, parts: tuple[str, ...], sent: list[tuple[str, str]], request: Received
    ) -> Reply:
        user = self.users.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        if user is None:
            return Reply(401, {"message": "401 Unauthorized"})
        if parts and parts[0] != str(self.project):
            return Reply(404, {"message": "404 Project Not Found"})
        query, last = dict(sent), unquote(parts[-1]) if parts else ""
        listed: list[dict[str, Any]]
        match template.rpartition("/projects/{id}")[2]:
            case "/user":
                return Reply(200, {"id": user[0], "username": user[1]})
            case "/merge_requests/{iid}/notes" if method == "POST":
                if len(request.json["body"]) > LONGEST:
                    return Reply(400, {"message": {"note": [f"is too long (maximum is {LONGEST} characters)"]}})
                return Reply(201, self.note(int(last), request.json["body"], user))
            case "/merge_requests/{iid}/notes":
                listed = self.notes.get(int(last), [])[::-1]
                if query.get("activity_filter") == "only_comments":
                    listed = [note for note in listed if not note["system"]]
            case "/merge_requests/{iid}/notes/{note_id}":
                [*found] = (note for note in self.notes.get(int(parts[1]), []) if note["id"] == int(last))
                if not found:
                    return Reply(404, {"message": "404 Note Not Found"})
                if found[0]["author"]["id"] != user[0]:
                    return Reply(403, {"message": "403 Forbidden"})
                found[0] |= {"body": request.json["body"], "edits": found[0]["edits"] + 1}
                return Reply(200, found[0])
            case "/merge_requests/{iid}/resource_label_events":
                listed = self.labels
            case "/members/all":
                members = [
                    (number, level) for number, level in self.members.items() if f"{number}" == query["user_ids[]"]
                ]
                listed = [{"id": number, "username": "ada", "access_level": level} for number, level in members]
            case "/pipelines":
                wanted = {name: value for name, value in query.items() if name in {"ref", "sha", "source"}}
                listed = [one for one in self.pipelines[::-1] if all(one[key] == wanted[key] for key in wanted)]
            case "/pipelines/{pipeline_id}":
                found = [one for one in self.pipelines if one["id"] == int(last)]
                return Reply(200, found[0]) if found else Reply(404, {"message": "404 Not found"})
            case "/pipelines/{pipeline_id}/jobs":
                listed = [one for one in self.jobs[::-1] if one["pipeline"] == int(last)]
            case "/jobs/{job_id}/artifacts":
                data = self.zips.get(int(parts[1]))
                return Reply(404, {"message": "404 Not Found"}) if data is None else Reply(200, data)
            case "/repository/commits":
                shas = self._git(
                    "rev-list", *["--first-parent"][: query.get("first_parent") == "true"], query["ref_name"]
                ).split()
                listed = [self._commit(sha) for sha in shas]
            case "/repository/commits/{sha}":
                return Reply(200, self._commit(last))
            case "/repository/merge_base":
                return Reply(200, self._commit(self._git("merge-base", *(value for _, value in sent))))
            case _:
                return Reply(200, self._git("show", f"{query['ref']}:{last}").encode())
        return self._page(request, listed, query)

    def _page(self, request: Received, listed: list[dict[str, Any]], query: Mapping[str, str]) -> Reply:
        size, page = int(query.get("per_page", 20)), int(query.get("page", 1))
        headers = {"x-next-page": ""}
        if page * size < len(listed):
            path = re.sub(r"[?&]page=\d+", "", request.path)
            joint = "&" if "?" in path else "?"
            following = f"{self.url}{path}{joint}page={page + 1}"
            headers = {
                "x-next-page": str(page + 1),
                "Link": f'<{following}>; rel="next", <{self.url}{path}>; rel="first"',
            }
        return Reply(200, listed[(page - 1) * size : page * size], headers)

    def _git(self, *arguments: str) -> str:
        assert self.git is not None
        return self.git.git(*arguments)

    def _commit(self, sha: str) -> dict[str, Any]:
        [own, *parents] = self._git("rev-list", "--parents", "-n1", sha).split()
        return {"id": own, "parent_ids": parents}


@contextmanager
def fake_gitlab(**facts: Any) -> Iterator[FakeGitLab]:
    """Serves until the block ends."""
    fake = FakeGitLab(**facts)
    fake.users.setdefault(fake.token, BOT)
    with upload_server(fake.answer) as server:
        fake.url = server.url
        yield fake
    assert not fake.violations, "\n".join(fake.violations)


@dataclass(kw_only=True)
class GitLabLab:
    """A project with recorded answers, and a clone as a runner has it, in which the gate runs."""

    repository: Repository
    fake: FakeGitLab
    repo: Repo
    base: str = ""

    @classmethod
    def make(cls, folder: Path, fake: FakeGitLab) -> GitLabLab:
        origin, root = folder / "origin", folder / "builds"
        origin.mkdir()
        Repo(origin).git("init", "-q", "--bare", "-b", "main")
        root.mkdir()
        repo = Repo(root)
        repo.git("init", "-q", "-b", "main")
        repo.git("remote", "add", "origin", f"file://{origin}")
        fake.git = Repo(origin)
        lab = cls(repository=Repository(root=root), fake=fake, repo=repo)
        lab.base = lab.commit(door=["lamp"], window=["lamp"])
        lab.push("main")
        return lab

    def commit(self, **answers: list[str]) -> str:
        for name in ("answers.json", "evals/home.evalset.json"):
            (self.repo.root / name).unlink(missing_ok=True)
        write_evals(self.repo.root, "evals/home.evalset.json", answers)
        return self.repo.commit({".gitignore": "agent-eval-results/\n"})

    def push(self, branch: str) -> None:
        self.repo.git("push", "-q", "--force", "origin", f"HEAD:refs/heads/{branch}")
        assert self.fake.git is not None
        self.fake.git.git("update-server-info")

    def run(
        self,
        source: str,
        facts: Mapping[str, str],
        *arguments: str,
        job: str = "evals",
        gate: Callable[[Mapping[str, str]], Done] | None = None,
        **options: Any,
    ) -> Done:
        """A job of a pipeline on the checkout as it is; it uploads its results. `gate` runs something else in it."""
        sha, ref = self.repo.head, facts.get("CI_MERGE_REQUEST_REF_PATH") or facts["CI_COMMIT_BRANCH"]
        before = facts.get("pipeline")
        pipeline = self.fake.pipeline(sha, ref, source, "running") if before is None else self.pipeline(int(before))
        made = self.fake.job(pipeline, job)
        url = self.fake.url
        environment = {
            "CI": "true",
            "GITLAB_CI": "true",
            "GITLAB_TOKEN": self.fake.token,
            "CI_API_V4_URL": self.fake.api_url,
            "CI_SERVER_URL": url,
            "CI_PIPELINE_SOURCE": source,
            "CI_PIPELINE_ID": str(pipeline["id"]),
            "CI_PROJECT_ID": "42",
            "CI_PROJECT_PATH": self.fake.path,
            "CI_PROJECT_DIR": str(self.repo.root),
            "CI_COMMIT_SHA": sha,
            "CI_DEFAULT_BRANCH": "main",
            "CI_PAGES_DOMAIN": "pages.example",
            "CI_JOB_ID": str(made["id"]),
            "CI_JOB_NAME": job,
            "CI_JOB_URL": f"{url}/{self.fake.path}/-/jobs/{made['id']}",
            **{name: value for name, value in facts.items() if name.isupper()},
        }
        environment = {name: value for name, value in environment.items() if value}
        started = functools.partial(self.repository.gate, "run", "--agent", AGENT, *arguments, **options)
        done = started(environment=environment) if gate is None else gate(environment)
        made["status"] = pipeline["status"] = "success" if done.code == 0 else "failed"
        self.fake.upload(made, done.output)
        return done

    def pipeline(self, number: int) -> dict[str, Any]:
        return next(one for one in self.fake.pipelines if one["id"] == number)

    def main(self, *arguments: str, **options: Any) -> Done:
        """A pipeline of a push to main."""
        self.repo.git("checkout", "-q", "--detach", self.base)
        return self.run("push", {"CI_COMMIT_BRANCH": "main"}, *arguments, **options)

    def facts(self, kind: str = "detached", **more: str) -> dict[str, str]:
        """The variables of a merge request's pipeline, for the head that is checked out, or its merge."""
        head = self.repo.head if kind == "detached" else self.repo.git("rev-parse", "HEAD^2")
        return {
            "CI_MERGE_REQUEST_IID": "7",
            "CI_MERGE_REQUEST_EVENT_TYPE": kind,
            "CI_MERGE_REQUEST_PROJECT_ID": "42",
            "CI_MERGE_REQUEST_PROJECT_PATH": self.fake.path,
            "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "42",
            "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH": self.fake.path,
            "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "feature",
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
            "CI_MERGE_REQUEST_REF_PATH": f"refs/merge-requests/7/{'head' if kind == 'detached' else 'merge'}",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": self.base,
            "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": "" if kind == "detached" else head,
            "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": "" if kind == "detached" else self.base,
            **more,
        }

    def merge_request(
        self, *arguments: str, kind: str = "detached", facts: Mapping[str, str] | None = None, **options: Any
    ) -> Done:
        """A pipeline of merge request 7."""
        return self.run("merge_request_event", {**self.facts(kind), **(facts or {})}, *arguments, **options)

    def ours(self) -> list[str]:
        """Our notes, as people read them."""
        bodies = [note["body"] for note in self.fake.notes.get(7, []) if note["author"]["id"] == BOT[0]]
        return [body.partition("\n")[2].replace("\\", "").replace("&#8203;", "") for body in bodies]


def json_of(value: object) -> bytes:
    return json.dumps(value).encode()
