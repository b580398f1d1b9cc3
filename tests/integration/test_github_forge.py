"""Comments, labels, runs and pull requests of GitHub, against the stand-in."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from fake_github import Comment, FakeGitHub, Fault, Pull, Run, State, forbidden, primary_limit, secondary_limit
from github_clock import Clock, client
from golden_files import check

from agent_eval.forge import Bound, Claim, Posted, RunStamp
from agent_eval.forge import Comment as NewComment
from agent_eval.forge.comments import marked, read_marker, upsert_comment
from agent_eval.forge.rest import RestError
from agent_eval.github import runs
from agent_eval.github._activity import activity
from agent_eval.github.client import ACTIONS_LOGIN
from agent_eval.github.events import GitHubEvent
from agent_eval.github.forge import GitHub, bind
from agent_eval_results import ACCEPT_RULES

# One comment, whatever happens on the way: the mechanics of posting, against the stand-in for GitHub.


SHA, OTHER_SHA = "a" * 40, "b" * 40


@pytest.fixture
def fake(github: FakeGitHub) -> FakeGitHub:
    github.state.history(1)
    github.state.pull(7, head_sha=SHA)
    return github


def stamp(run_id: int = 100, attempt: int = 1, sha: str = SHA) -> RunStamp:
    return RunStamp(run_id=run_id, attempt=attempt, sha=sha)


RUN = stamp()


@dataclass(frozen=True)
class Try:
    """A job that wants to comment."""

    body: str
    run: RunStamp = RUN
    token: str | None = None
    more: dict[str, Any] = field(default_factory=dict)
    """Of the comment."""

    def post(self, fake: FakeGitHub, clock: Clock) -> Posted:
        comment = {"number": 7, "key": "default", "body": self.body, "run": self.run, **self.more}
        return upsert_comment(client(fake, clock, token=self.token or fake.token), NewComment(**comment))


def there(fake: FakeGitHub, text: str = "old", *, run_id: int = 90, login: str = ACTIONS_LOGIN) -> Comment:
    """A comment of a gate."""
    kind = "Bot" if login.endswith("[bot]") else "User"
    return fake.state.comment(7, marked("default", stamp(run_id), text), login=login, kind=kind)


def many(fake: FakeGitHub) -> None:
    """So many comments that ours is neither on the first page nor on the last one."""
    for number in range(370):
        if number == 250:
            there(fake)
        fake.state.comment(7, f"Looks good to me {number}")


class _Meanwhile(Fault):
    """Something happens at the moment of a request."""

    def __init__(self, method: str, happens: Callable[[], object], **more: Any) -> None:
        super().__init__(method=method, **more)
        self._happens = happens

    def matches(self, method: str, path: str) -> bool:
        if super().matches(method, path):
            self._happens()
            if self.status is not None:
                return True
            self.times = 0
        return False


def overtaken(method: str) -> Callable[[FakeGitHub], object]:
    """While the request waits, a newer run comments."""

    def happens(fake: FakeGitHub) -> None:
        [item, *_] = fake.state.comments_of(7) or [there(fake)]
        item.body = marked("default", stamp(200), "newer")

    limit = secondary_limit()
    return lambda fake: fake.faults.append(_Meanwhile(method, lambda: happens(fake), status=403, body=limit.body))


def beside(run_id: int) -> Callable[[FakeGitHub], object]:
    """Another run posts its first comment at the moment in which we post ours."""
    return lambda fake: fake.faults.append(_Meanwhile("POST", lambda: there(fake, "Passed: theirs", run_id=run_id)))


def fault(given: Fault) -> Callable[[FakeGitHub], object]:
    return lambda fake: fake.faults.append(dataclasses.replace(given))


def read_only(fake: FakeGitHub) -> None:
    fake.read_only = True


def alice(fake: FakeGitHub) -> None:
    fake.tokens["ghp_personal"] = "Alice"
    Try("of the workflow", stamp(90), more={"key": "workflow"}).post(fake, Clock())


def gone(fake: FakeGitHub) -> None:
    """The comment is deleted between the look and the update."""
    comments = fake.state.comments
    there(fake)
    fake.faults.append(_Meanwhile("PATCH", comments.clear, status=404, body=b'{"message": "Not Found"}'))


def modes(mode: str, failed: bool, changed: bool) -> list[Try]:
    """Without a comment, and with one."""
    more = {"mode": mode, "failed": failed, "changed": changed}
    return [Try("first", more=more), Try("red"), Try("green", stamp(101), more=more)]


def own(body: str, run: RunStamp = RUN) -> Try:
    return Try(body, run, more={"own_only": True})


NOW = Clock().now
NEEDED = {"X-Accepted-GitHub-Permissions": "issues=write; pull_requests=write"}
NOPE = b'{"message": "Validation Failed", "errors": [{"message": "Nope"}]}'
ONE = [Try("text")]
PERSONAL = Try("x", token="ghp_personal")
STORIES: dict[str, tuple[Sequence[Callable[[FakeGitHub], object]], list[Try]]] = {
    "two pushes": ((), [Try("red"), Try("green", stamp(101, sha=OTHER_SHA))]),
    "many other comments": ([many], [Try("first"), Try("again", stamp(101))]),
    "the same text again, for another commit, and an older one": (
        (),
        [
            Try("ok"),
            Try("ok", stamp(100, 2)),
            Try("ok", stamp(102, sha=OTHER_SHA)),
            Try("bad", stamp(101, sha="c" * 40)),
        ],
    ),
    "older runs and attempts": (
        [lambda fake: fake.state.comment(7, marked("default", stamp(100, 3), "new"), login=ACTIONS_LOGIN, kind="Bot")],
        [Try("a", stamp(99)), Try("b"), Try("c", stamp(100, 2))],
    ),
    "attempts that leave a memory, and a link between them": (
        (),
        [
            Try("red", more={"memory": "Zmlyc3Q="}),
            own("red, linked"),
            Try("red, linked", stamp(100, 2), more={"memory": "c2Vjb25k"}),
            Try("red, linked", stamp(100, 2), more={"memory": "c2Vjb25k"}),
            Try("green, of a program that leaves none", stamp(100, 3)),
        ],
    ),
    "a memory of the commit before": (
        (),
        [
            Try("red", more={"memory": "Zmlyc3Q="}),
            Try("pushed", stamp(101, sha=OTHER_SHA), more={"memory": "bmV3"}),
            Try("again", stamp(101, 2, sha=OTHER_SHA), more={"memory": "YWdhaW4="}),
        ],
    ),
    "jobs of a run that share a key leave no memory that the other could take for its own": (
        (),
        [
            Try("of one", more={"memory": "b25l"}),
            Try("of two", more={"memory": "dHdv"}),
            Try("of one again", stamp(100, 2), more={"memory": "YWdhaW4="}),
        ],
    ),
    "a memory that does not fit beside the newest": (
        (),
        [Try("x" * (GitHub.longest - 500), stamp(100, each), more={"memory": "A" * 200}) for each in (1, 2, 3)],
    ),
    "a memory that does not fit": ((), [Try("x" * (GitHub.longest - 200), more={"memory": "A" * 300})]),
    "other keys": (
        (),
        [
            Try(f"text of {run}", stamp(run), more={"key": key})
            for key in ("default", "default--> x", "größe \n 1")
            for run in (100, 101)
        ],
    ),
    "jobs of a run that share a key, and a second attempt": (
        (),
        [Try("of one"), Try("of two"), Try("again", stamp(100, 2))],
    ),
    "a lost update is not another job's": ([there, fault(Fault(method="PATCH", drop="before"))], ONE),
    "a marker in a stranger's comment": ([lambda fake: there(fake, run_id=10**17, login="mallory")], ONE),
    "a personal token": (
        [alice],
        [PERSONAL, dataclasses.replace(PERSONAL, body="y"), dataclasses.replace(PERSONAL, more={"key": "workflow"})],
    ),
    "an app that is not named": ([lambda fake: there(fake, login="evals[bot]")], ONE),
    "an app that is named": (
        [lambda fake: there(fake, login="evals[bot]")],
        [Try("text", more={"author": "evals[bot]"})],
    ),
    "two comments are there": (
        [lambda fake: there(fake, "Passed"), lambda fake: there(fake, "two")],
        [Try("text"), Try("again", stamp(101))],
    ),
    "another first comment at once, of an older run": ([beside(99)], [Try("Failed: ours")]),
    "another first comment at once, of a newer run": ([beside(101)], [Try("Failed: ours")]),
    "another one that can't be changed": ([beside(99), fault(Fault(method="PATCH", status=403, times=1_000))], ONE),
    "on-change": ((), modes("on-change", failed=False, changed=False)),
    "on-failure": ((), modes("on-failure", failed=True, changed=False)),
    "never": ((), modes("never", failed=True, changed=True)),
    "lost answer": ([fault(Fault(method="POST", drop="after"))], ONE),
    "answer that breaks off": ([fault(Fault(method="POST", drop="middle"))], ONE),
    "lost request": ([fault(Fault(method="POST", drop="before"))], ONE),
    "outage": ([fault(Fault(method="POST", status=502, times=2))], ONE),
    # The server's clock is an hour ahead of ours.
    "primary limit": ([fault(primary_limit(method="POST", reset=NOW + 3600 + 40, now=NOW + 3600))], ONE),
    "secondary limit": ([fault(secondary_limit(method="POST", retry_after=17))], ONE),
    "secondary limit without a time": ([fault(secondary_limit(method="POST", times=2))], ONE),
    "secondary limit as 429": ([fault(secondary_limit(method="POST", times=2, status=429))], ONE),
    "a newer run while the first comment waits": ([overtaken("POST")], ONE),
    "a newer run while the update waits": ((there, overtaken("PATCH")), ONE),
    "a comment that is deleted meanwhile": ([gone], ONE),
    "a token that may only read": ([read_only], ONE),
    "a missing permission": ([fault(dataclasses.replace(forbidden(method="POST"), headers=NEEDED))], ONE),
    "a locked conversation": ([lambda fake: fake.state.locked.add(7)], ONE),
    "a bad token": ((), [Try("text", token="ghp_expiredTokenOfAlice")]),
    "an unknown pull request": ((), [Try("text", more={"number": 99})]),
    "an empty text": ((), [Try("")]),
    "a text that is too long": ((), [Try("x" * GitHub.longest)]),
    "what GitHub declines": ([there, fault(Fault(method="PATCH", status=422, body=NOPE))], ONE),
    "its own comment only, and there is none": ((), [own("linked")]),
    "its own comment only": (
        [lambda fake: there(fake, "plain", run_id=100)],
        [own("linked"), own("linked"), own("a", stamp(99)), own("b", stamp(101)), own("c", stamp(100, attempt=2))],
    ),
}
"""What happens, and who then wants to comment. What comes of it is in tests/data/golden_comments.txt."""


def shown(comment: Comment) -> str:
    found = read_marker(comment.body)
    text = (
        comment.body if found is None else f"{found.text} (of {found.key}, run {found.run.run_id}.{found.run.attempt})"
    )
    memory = "".join(f" [{each.run.attempt}: {each.data}]" for each in found.memories) if found is not None else ""
    return f"{comment.login}, {comment.edits} edits: {' '.join(text.split())[:200]}{memory}"


def test_comments__one_comment_whatever_happens_on_the_way() -> None:
    said = []
    for name, (happens, tries) in STORIES.items():
        with FakeGitHub() as fake:
            fake.state.history(1)
            fake.state.pull(7, head_sha=SHA)
            for happening in happens:
                happening(fake)
            lines = [name]
            for each in tries:
                clock, before = Clock(), len(fake.writes())
                posted = each.post(fake, clock)
                waits = f" after {clock.slept}" if clock.slept else ""
                overwrites = " It overwrites." if posted.overwrites else ""
                lines.append(
                    f"{posted.kind}{waits}, {len(fake.writes()) - before} writes: {posted.message}{overwrites}"
                )
                if posted.url is not None:
                    lines[-1] += f" {posted.url}"
            comments = fake.state.comments_of(7)
            lines += [f"- {shown(item)}" for item in comments if item.login != "hubot"]
            said.append("\n    ".join(lines).replace(fake.server_url, "https://github.example") + "\n")
    check("golden_comments.txt", "".join(said))


def test_comments__github_is_not_asked_who_we_are_without_a_marker(fake: FakeGitHub) -> None:
    Try("text").post(fake, Clock())

    assert [request.path for request in fake.requests] == ["/repos/octo/shop/issues/7/comments"] * 3, (
        "a look, the comment, a look"
    )


def test_comments__wait_whatever_was_spent_before_and_at_most_one_is_written_a_second(fake: FakeGitHub) -> None:
    fake.faults.append(secondary_limit(method="POST"))
    clock = Clock()
    github = client(fake, clock, budget=0.0)
    for key in ("one", "two", "three"):
        assert upsert_comment(github, NewComment(number=7, key=key, body="text", run=stamp())).kind == "created"

    assert clock.slept == [60.0, 1.0, 1.0]


def test_comments__a_job_that_has_its_verdict_waits_90_seconds_at_most(fake: FakeGitHub) -> None:
    for fault in (secondary_limit(times=99), secondary_limit(times=99, retry_after=40)):
        fake.faults[:] = [fault]
        clock = Clock()
        posted = upsert_comment(
            client(fake, clock, budget=300.0), NewComment(number=7, key="k", body="text", run=stamp())
        )
        assert (posted.kind, sum(clock.slept) <= 90.0) == ("failed", True), clock.slept


# Whether a label accepts the rules of a pull request, asked of the stand-in.


def event_of(fake: FakeGitHub, **payload: object) -> GitHubEvent:
    run = fake.state.run(fake.state.pulls[7].head_sha, event="pull_request", branch="feature")
    return GitHubEvent(name="pull_request", run_id=run.id, payload=payload)


def test_labels__who_accepts_the_rules_of_a_pull_request(fake: FakeGitHub) -> None:
    said = []

    def asked(situation: str, event: GitHubEvent) -> None:
        by_label = activity(event, mode="auto").started_by_label
        accepted = client(fake).acceptance(7, run_id=event.run_id, started_by_label=by_label)
        said.append(f"{situation}: {accepted.by or 'nobody'} {accepted.why_not}".rstrip() + "\n")

    fake.state.label(7, ACCEPT_RULES, login="mona")
    event = event_of(fake)
    asked("from before the push", event)
    started = {name: {"label": {"name": name}} for name in (ACCEPT_RULES, "another")}
    asked("a run that the label started", event_of(fake, action="labeled", **started[ACCEPT_RULES]))
    asked("a run that another label started", event_of(fake, action="labeled", **started["another"]))
    asked("a run that its removal started", event_of(fake, action="unlabeled", **started[ACCEPT_RULES]))
    fake.state.labels.clear()
    fake.state.label(7, f"not {ACCEPT_RULES}")
    fake.state.pull(8)
    fake.state.label(8, ACCEPT_RULES)
    asked("another label, and another pull request", event)
    fake.state.label(7, ACCEPT_RULES)
    fake.state.label(7, ACCEPT_RULES, event="unlabeled")
    asked("removed again", event)
    for number in range(120):
        fake.state.label(7, f"area: {number}")
    fake.state.label(7, ACCEPT_RULES.upper(), login="mona")
    fake.state.label(7, "another")
    asked("set by a person after the push", event)
    fake.state.label(7, ACCEPT_RULES, login="github-actions[bot]", kind="Bot")
    asked("set by a program", event)
    fake.state.label(7, ACCEPT_RULES)
    fake.faults.append(Fault(status=403, times=1_000))
    asked("labels that can't be read", event)
    check("golden_labels.txt", "".join(said))


# Questions about runs, artifacts, commits, files and pull requests, asked of the stand-in.


WORKFLOW = ".github/workflows/evals.yml"


@pytest.fixture
def hub(github: FakeGitHub) -> FakeGitHub:
    github.state.history(3)
    return github


def test_runs__of_the_base_branch(hub: FakeGitHub) -> None:
    state = hub.state
    base = state.branches["main"]
    ids = [state.run(base).id for _ in range(130)]
    state.run(base, event="schedule")
    state.run(state.commit(base))
    state.run(base, path=".github/workflows/other.yml")
    state.run(base, branch="other")

    result = runs.list_runs(client(hub), workflow=WORKFLOW, event="push", branch="main", head_sha=base, limit=120)

    assert [item.id for item in result] == ids[::-1][:120]
    side = base
    for _ in range(120):
        side = state.commit(side)
    merge = state.commit(base, side, branch="main")
    parents = runs.first_parents(client(hub), merge, limit=3)
    assert (parents[:2], len(parents)) == ([merge, base], 3), "further back than the list"


def changes(names: Sequence[object] | None) -> Fault:
    return Fault(path="/compare/", status=200, body=json.dumps({"files": names}).encode())


def content(answer: object) -> Fault:
    return Fault(path="/contents/", status=200, body=json.dumps(answer).encode(), times=9)


def test_runs__artifacts_files_and_pull_requests(hub: FakeGitHub) -> None:
    said = []
    github, state = client(hub), hub.state

    def told(question: str, ask: Callable[[], object], *faults: Fault) -> None:
        hub.faults[:] = faults
        try:
            answer = ask()
        except RestError as error:
            answer = f"{error.kind}: {error}"
        said.append(f"{question}: {answer}\n")

    run, other = state.run(state.branches["main"]), state.run(state.branches["main"])
    second = state.artifact(run, b"second!", expired=True)
    state.artifact(run, b"logs", name="agent-eval-results-logs")
    first = state.artifact(run, b"first")
    first.created_at, second.created_at = "2026-09-14T08:38:28Z", "2026-09-14T08:49:55Z"
    artifact = state.artifact(other, b"PK zip", name="other")

    def listed(of: Run, *name: str) -> list[tuple[int, int, bool]]:
        return [(item.id, item.size_in_bytes, item.expired) for item in runs.list_artifacts(github, of.id, *name)]

    told("artifacts, the newest first, whatever their ids", lambda: listed(run, "agent-eval-results"))
    told("artifacts of any name", lambda: len(listed(run)))
    every = github.get(f"/repos/octo/shop/actions/runs/{other.id}/artifacts")
    unheeded = Fault(status=200, body=json.dumps(every).encode())
    told("artifacts, where GitHub pays no heed to the name", lambda: listed(other, "agent-eval-results"), unheeded)
    for size in (6, 5):
        told(f"{size} bytes", functools.partial(runs.download_artifact, github, artifact.id, max_bytes=size))
    renamed = {"filename": "b", "previous_filename": "c"}
    for names in ([], [{"filename": "a"}, renamed], [{"filename": "a"}] * 300, None):
        question = f"{'no list' if names is None else len(names)} of changed files"
        told(question, lambda: runs.changed_files(github, "main", "main"), changes(names))

    state.files[("main", "evals/ä b/agent-eval.toml")] = "größe = 1\n".encode()
    state.files[("main", "large")] = b"x" * 1_000_001
    for path in ("evals/ä b/agent-eval.toml", "none.toml", "large"):
        told(path, functools.partial(runs.file_at, github, path, "main"))
    answers: list[Any] = [
        [],
        {"type": "submodule", "size": 0},
        {"type": "file", "size": 3, "encoding": "base64", "content": "!!!"},
        {"type": "file"},
    ]
    for answer in answers:
        told(f"{answer}", lambda: runs.file_at(github, "evals", "main"), content(answer))

    state.pull(7)
    state.pull(8, head_repository="fork/shop", head_ref="main")
    state.pull(9, head_repository="fork/shop", head_ref="main", state="closed")
    state.pull(10, head_repository=None)
    told("forks", lambda: [number for number in (7, 8, 10) if runs.get_pull(github, number).is_fork])
    told("of a fork's branch", lambda: [pull.number for pull in runs.pulls_of_head(github, "fork", "main")])
    told("open", lambda: [pull.number for pull in runs.open_pulls(github)])
    every = github.get("/repos/octo/shop/pulls")[-1:]
    unheeded = Fault(status=200, body=json.dumps(every).encode())
    told("of a branch, where GitHub drops the head", lambda: runs.pulls_of_head(github, "fork", "main"), unheeded)
    answers = [{}, [{}], {"id": "x", "parents": 7, "workflow_runs": [{}], "artifacts": [{}]}, 7, None]
    for name, asked in QUESTIONS.items():
        for answer in answers:
            fault = Fault(status=200, body=json.dumps(answer).encode(), times=9)
            told(f"{name} is {json.dumps(answer)}", functools.partial(asked, github), fault)
    check("golden_github_runs.txt", "".join(said))


QUESTIONS: dict[str, Callable[[GitHub], object]] = {
    "a run": lambda github: runs.get_run(github, 1),
    "a comparison": lambda github: runs.merge_base(github, "a", "b"),
    "a commit": lambda github: runs.commit_parents(github, "a" * 40),
    "a pull request": lambda github: runs.get_pull(github, 7),
    "a list of runs": lambda github: runs.list_runs(github, workflow=WORKFLOW),
    "a list of artifacts": lambda github: runs.list_artifacts(github, 1),
    "a list of commits": lambda github: runs.first_parents(github, "a" * 40, limit=2),
    "a list of pull requests": lambda github: list(runs.open_pulls(github)),
}


# Which pull request a finished run belongs to; what its artifact claims is not believed.


def fork(hub: FakeGitHub, number: int = 7, **more: Any) -> Pull:
    return hub.state.pull(number, **{"head_repository": "fork/shop", "head_ref": "main", "author": "mallory", **more})


def run_of(hub: FakeGitHub, pull: Pull, **more: Any) -> Run:
    listed = (pull.number,) if pull.head_repository == hub.state.repository else ()
    settings: dict[str, Any] = {"event": "pull_request", "branch": pull.head_ref, "pulls": listed, **more}
    return hub.state.run(pull.head_sha, head_repository=pull.head_repository, **settings)


def test_binding__a_run_belongs_to_the_pull_request_that_github_says(hub: FakeGitHub) -> None:
    said = []

    def new() -> FakeGitHub:
        hub.state = State()
        hub.state.history(3)
        return hub

    def bound(situation: str, run: Run, claim: Claim | None = None) -> None:
        result = bind(client(hub), run.id, claim)
        if isinstance(result, Bound):
            assert result.run.head_sha == run.sha
            text = f"pull request {result.pull_request.number}"
        else:
            text = f"{'A contradiction: ' if result.is_contradiction else ''}{result.message}"
        for sha in hub.state.commits:
            text = text.replace(sha, "SHA").replace(sha[:7], "SHA")
        said.append(f"{situation}: {text.replace(str(run.id), 'ID')}\n")

    new().state.pull(6, head_repository="other/shop", head_ref="main")
    pull = fork(hub)
    run = run_of(hub, pull)
    bound("a fork", run)
    true = Claim(repository="Octo/Shop", run_id=run.id, pull_request=7, head_commit=pull.head_sha)
    bound("a fork, and claims that are true", run, true)
    bound("claims another pull request", run, Claim(pull_request=6))
    bound("claims one that is not there", run, Claim(pull_request=10**9))
    bound("claims another commit", run, Claim(head_commit="f" * 40))
    bound("claims another repository", run, Claim(repository="octo/other"))
    bound("claims another run", run, Claim(run_id=1))
    bound("a run that goes on", run_of(hub, pull, status="in_progress"))
    bound("a push", run_of(hub, pull, event="push"))
    bound("pull_request_target", run_of(hub, pull, event="pull_request_target"))
    fork(hub, 8, head_sha=pull.head_sha, base_ref="release")
    bound("two pull requests from one branch", run)
    bound("two pull requests from one branch, and the results know", run, Claim(pull_request=8))
    hub.state.pulls.pop(8)
    pull.head_repository = "fork/another-shop"
    bound("the branch of another fork of the same owner", run)
    pull.head_repository, pull.head_sha = "fork/shop", hub.state.commit(pull.head_sha)
    bound("a pull request that has moved on", run)
    bound("a closed one", run_of(new(), fork(hub, state="closed")))

    bound("a branch of the repository", run_of(new(), hub.state.pull(7)))
    bound("a branch of the repository that GitHub does not list", run_of(new(), hub.state.pull(7), pulls=()))
    # Whatever GitHub lists for a run: somebody may open a pull request from a copy of our branch.
    copy = fork(new())
    run = hub.state.run(copy.head_sha, event="pull_request", branch="feature", pulls=(copy.number,))
    bound("a fork's pull request of the same commit", run)
    # A stranger opens a pull request from a copy of a branch of ours, to write into ours.
    copy = fork(hub, head_sha=new().state.pull(6).head_sha)
    bound("a copy that claims ours", run_of(hub, copy), Claim(pull_request=6))
    bound("a copy that claims its own", run_of(hub, copy), Claim(pull_request=7))
    new().state.pull(6, head_repository=None)
    pull = hub.state.pull(7, head_repository=None)
    hub.state.pull(8, head_sha=pull.head_sha)
    bound("a fork that is gone", run_of(hub, pull))
    check("golden_bindings.txt", "".join(said))
