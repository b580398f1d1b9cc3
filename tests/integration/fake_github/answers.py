"""What the API answers, as GitHub documents it: filters, pages, permissions, limits."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode

from fake_github.shapes import Shapes
from fake_github.state import Pull, Run, State

_BOT = "github-actions[bot]"
LONGEST_BODY = 65_536
"""Characters of a comment."""


@dataclass(kw_only=True)
class Answer:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


def error(status: int, message: str, **more: Any) -> Answer:
    """As GitHub words errors."""
    return _json(status, {"message": message, "documentation_url": "https://docs.github.com/rest", **more})


def _json(status: int, value: Any, **headers: str) -> Answer:
    limits = {"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "900", "X-RateLimit-Reset": "2000000000"}
    return Answer(status=status, body=json.dumps(value).encode(), headers={**limits, **headers})


def _one(record: Any, shape: Callable[[Any], Any]) -> Answer:
    return error(404, "Not Found") if record is None else _json(200, shape(record))


def _refusal(body: str) -> Answer | None:
    """Why GitHub takes no such comment."""
    if len(body) > LONGEST_BODY:
        message = f"Body is too long (maximum is {LONGEST_BODY} characters)"
    elif not body.strip():
        message = "Body can't be blank"
    else:
        return None
    details = [{"resource": "IssueComment", "code": "unprocessable", "field": "data", "message": message}]
    return error(422, "Validation Failed", errors=details)


class Answers:
    """Answers requests about one repository."""

    def __init__(self, state: State, api_url: str, server_url: str, store_url: str) -> None:
        self._state = state
        self._shapes = Shapes(state, api_url, server_url)
        self._api = api_url
        self._store = store_url

    def answer(self, method: str, path: str, query: str, body: bytes, login: str | None) -> Answer:
        """The answer to a request of somebody; `login` is None for an installation's token."""
        asked = {name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}
        if path == "/user":
            return _json(200, self._shapes.viewer(login or "nobody"))
        prefix = f"/repos/{self._state.repository}"
        if not unquote(path).casefold().startswith(prefix.casefold() + "/"):
            return error(404, "Not Found")
        below = path[len(prefix) :]
        for pattern, answer in self._routes(method).items():
            result = re.fullmatch(pattern, below)
            if result:
                parts = [unquote(part) for part in result.groups()]
                return answer(*parts, asked) if method == "GET" else answer(*parts, json.loads(body or "{}"), login)
        return error(404, "Not Found")

    def _routes(self, method: str) -> dict[str, Callable[..., Answer]]:
        if method == "POST":
            return {
                r"/issues/(\d+)/comments": self._create_comment,
                r"/actions/runs/(\d+)/rerun": self._rerun,
                r"/actions/workflows/([^/]+)/dispatches": self._dispatch,
                r"/statuses/([^/]+)": self._status,
            }
        if method == "PATCH":
            return {r"/issues/comments/(\d+)": self._update_comment}
        return {
            r"/issues/(\d+)/comments": self._comments,
            r"/issues/(\d+)/events": self._events,
            r"/pulls": self._pulls,
            r"/pulls/(\d+)": self._pull,
            r"/actions/runs/(\d+)": self._run,
            r"/actions/workflows/([^/]+)/runs": self._runs,
            r"/actions/workflows/([^/]+)": self._workflow,
            r"/collaborators/([^/]+)/permission": self._role,
            r"/actions/runs/(\d+)/artifacts": self._artifacts,
            r"/actions/artifacts/(\d+)/([^/]+)": self._download,
            r"/compare/([^/]+)": self._compare,
            r"/commits": self._commits,
            r"/git/commits/([^/]+)": self._git_commit,
            r"/contents/(.+)": self._content,
        }

    def _page(self, path: str, items: list[Any], asked: dict[str, str], key: str | None = None) -> Answer:
        """A page, and where the others are."""
        size, page = min(int(asked.get("per_page", 30)), 100), int(asked.get("page", 1))
        last = max(1, -(-len(items) // size))

        def link(number: int, name: str) -> str:
            parameters = urlencode({**asked, "page": number})
            return f'<{self._api}/repos/{self._state.repository}{path}?{parameters}>; rel="{name}"'

        links = [link(page + 1, "next"), link(last, "last")] if page < last else []
        links += [link(page - 1, "prev"), link(1, "first")] if page > 1 else []
        shown = items[(page - 1) * size : page * size]
        value = {"total_count": len(items), key: shown} if key else shown
        return _json(200, value, **({"Link": ", ".join(links)} if links else {}))

    def _comments(self, number: str, asked: dict[str, str]) -> Answer:
        return self._of_pull(number, "comments", map(self._shapes.comment, self._state.comments_of(int(number))), asked)

    def _events(self, number: str, asked: dict[str, str]) -> Answer:
        labels = (self._shapes.label_event(label) for label in self._state.labels if label.number == int(number))
        return self._of_pull(number, "events", labels, asked)

    def _of_pull(self, number: str, what: str, items: Iterable[Any], asked: dict[str, str]) -> Answer:
        if int(number) not in self._state.pulls:
            return error(404, "Not Found")
        return self._page(f"/issues/{number}/{what}", list(items), asked)

    def _create_comment(self, number: str, body: dict[str, Any], login: str | None) -> Answer:
        if int(number) not in self._state.pulls:
            return error(404, "Not Found")
        if int(number) in self._state.locked:
            return error(403, "Unable to create comment because issue is locked.")
        if (refusal := _refusal(body["body"])) is not None:
            return refusal
        kind = "User" if login is not None else "Bot"
        made = self._state.comment(int(number), body["body"], login=login or _BOT, kind=kind)
        return _json(201, self._shapes.comment(made))

    def _update_comment(self, comment_id: str, body: dict[str, Any], login: str | None) -> Answer:
        result = self._state.comments.get(int(comment_id))
        if result is not None and (refusal := _refusal(body["body"])) is not None:
            return refusal
        if result is not None:
            result.body = body["body"]
            result.edits += 1
        return _one(result, self._shapes.comment)

    def _pulls(self, asked: dict[str, str]) -> Answer:
        state, head, base = asked.get("state", "open"), asked.get("head"), asked.get("base")

        def fits(pull: Pull) -> bool:
            label = f"{(pull.head_repository or 'ghost/gone').partition('/')[0]}:{pull.head_ref}"
            # GitHub drops a `head` without an owner.
            return (
                state in ("all", pull.state)
                and (head is None or ":" not in head or head == label)
                and base in (None, pull.base_ref)
            )

        result = sorted((item for item in self._state.pulls.values() if fits(item)), key=lambda item: -item.number)
        return self._page("/pulls", [self._shapes.pull(item) for item in result], asked)

    def _pull(self, number: str, asked: dict[str, str]) -> Answer:
        return _one(self._state.pulls.get(int(number)), functools.partial(self._shapes.pull, whole=True))

    def _run(self, run_id: str, asked: dict[str, str]) -> Answer:
        return _one(self._state.runs.get(int(run_id)), self._shapes.run)

    def _runs(self, workflow: str, asked: dict[str, str]) -> Answer:
        matches = {item.path.rpartition("/")[2] for item in self._state.runs.values()}
        if workflow not in matches:
            return error(404, "Not Found")

        def fits(run: Run) -> bool:
            return (
                run.path.rpartition("/")[2] == workflow
                and asked.get("event") in (None, run.event)
                and asked.get("branch") in (None, run.branch)
                and asked.get("head_sha") in (None, run.sha)
            )

        result = sorted((item for item in self._state.runs.values() if fits(item)), key=lambda item: -item.id)
        path = f"/actions/workflows/{workflow}/runs"
        return self._page(path, [self._shapes.run(item) for item in result], asked, "workflow_runs")

    def _workflow(self, workflow: str, asked: dict[str, str]) -> Answer:
        known = [self._shapes.workflow(path) for path in {item.path for item in self._state.runs.values()}]
        [*found] = (one for one in known if workflow in {str(one["id"]), one["path"].rpartition("/")[2]})
        return _json(200, found[0]) if found else error(404, "Not Found")

    def _role(self, login: str, asked: dict[str, str]) -> Answer:
        role = self._state.roles.get(login, "read")
        return error(404, f"{login} is not a user") if role is None else _json(200, self._shapes.role(login, role))

    def _rerun(self, run_id: str, body: dict[str, Any], login: str | None) -> Answer:
        run = self._state.runs.get(int(run_id))
        if run is None or run.status != "completed":
            return error(404, "Not Found") if run is None else error(403, "This workflow is already running")
        self._state.asked.append(f"rerun {run_id}")
        return _json(201, {})

    def _dispatch(self, workflow: str, body: dict[str, Any], login: str | None) -> Answer:
        self._state.asked.append(f"dispatch {workflow} {body['ref']}")
        return Answer(status=204)

    def _status(self, sha: str, body: dict[str, Any], login: str | None) -> Answer:
        if self._state.resolve(sha) is None:
            return error(422, f"No commit found for SHA: {sha}")
        self._state.asked.append(f"{body['state']} {body['context']}")
        return _json(201, self._shapes.status(**body))

    def _artifacts(self, run_id: str, asked: dict[str, str]) -> Answer:
        if int(run_id) not in self._state.runs:
            return error(404, "Not Found")
        matches = [
            artifact
            for artifact in self._state.artifacts.values()
            if artifact.run_id == int(run_id) and asked.get("name") in (None, artifact.name)
        ]
        shown = [self._shapes.artifact(artifact) for artifact in sorted(matches, key=lambda artifact: -artifact.id)]
        return self._page(f"/actions/runs/{run_id}/artifacts", shown, asked, "artifacts")

    def _download(self, artifact_id: str, form: str, asked: dict[str, str]) -> Answer:
        result = self._state.artifacts.get(int(artifact_id))
        if result is None or form != "zip":
            return error(404, "Not Found")
        if result.expired:
            return error(410, "Artifact has expired")
        return Answer(status=302, headers={"Location": f"{self._store}/store/{result.id}?sig=signature"})

    def _compare(self, basehead: str, asked: dict[str, str]) -> Answer:
        base, _, head = basehead.partition("...")
        shas = [self._state.resolve(ref) for ref in (base, head)]
        if shas[0] is None or shas[1] is None:
            return error(404, "Not Found")
        result = self._shapes.comparison(shas[0], shas[1])
        if result is None:
            return error(404, f"No common ancestor between {base} and {head}.")
        return _json(200, result)

    def _commits(self, asked: dict[str, str]) -> Answer:
        sha = self._state.resolve(asked.get("sha", self._state.default_branch))
        if sha is None:
            return error(404, "Not Found")
        return self._page("/commits", [self._shapes.commit(ancestor) for ancestor in self._state.ancestors(sha)], asked)

    def _git_commit(self, sha: str, asked: dict[str, str]) -> Answer:
        return _one(sha if sha in self._state.commits else None, self._shapes.git_commit)

    def _content(self, path: str, asked: dict[str, str]) -> Answer:
        data = self._state.content(asked.get("ref", self._state.default_branch), path)
        return _one(data, functools.partial(self._shapes.content, path))
