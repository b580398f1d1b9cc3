"""Comments, labels, runs and pull requests of GitHub, against the stand-in."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
from fake_github import Comment, FakeGitHub, Fault, Pull, Run, forbidden, primary_limit, secondary_limit
from github_clock import Clock, client

from agent_eval.forge import ACCEPT_RULES, Acceptance, Bound, Claim, Posted, RunStamp, Unbound
from agent_eval.forge import Comment as NewComment
from agent_eval.github import runs
from agent_eval.github._activity import activity
from agent_eval.github.comments import ACTIONS_LOGIN, LONGEST, marked, read_marker, upsert_comment
from agent_eval.github.errors import GitHubError
from agent_eval.github.events import GitHubEvent
from agent_eval.github.forge import GitHub, bind

# One comment, whatever happens on the way: the mechanics of posting, against the stand-in for GitHub.


SHA, OTHER_SHA = "a" * 40, "b" * 40


@pytest.fixture
def fake(github: FakeGitHub) -> FakeGitHub:
    github.state.history(1)
    github.state.pull(7, head_sha=SHA)
    return github


def stamp(run_id: int = 100, attempt: int = 1, sha: str = SHA) -> RunStamp:
    return RunStamp(run_id=run_id, attempt=attempt, sha=sha)


def post(fake: FakeGitHub, body: str = "3 of 4 cases pass", *, clock: Clock | None = None, **more: Any) -> Posted:
    token = {"token": more.pop("token")} if "token" in more else {}
    settings: dict[str, Any] = {"number": 7, "key": "default", "run": stamp(), **more}
    return upsert_comment(client(fake, clock, **token), NewComment(body=body, **settings))


def ours(fake: FakeGitHub) -> list[Comment]:
    return [item for item in fake.state.comments_of(7) if read_marker(item.body)]


def test_comments__first_push_creates_second_push_updates(fake: FakeGitHub) -> None:
    first = post(fake, "red", run=stamp(100))
    second = post(fake, "green", run=stamp(101, sha=OTHER_SHA))

    [comment] = fake.state.comments_of(7)
    assert comment.login == ACTIONS_LOGIN
    assert (first.kind, second.kind) == ("created", "updated")
    assert first.url == second.url == f"{fake.server_url}/octo/shop/pull/7#issuecomment-{comment.id}"
    result = read_marker(comment.body)
    assert result is not None
    assert (result.text, result.run) == ("green", stamp(101, sha=OTHER_SHA))


def test_comments__250_other_comments_hide_nothing(fake: FakeGitHub) -> None:
    for number in range(250):
        fake.state.comment(7, f"Looks good to me {number}")
    fake.state.comment(7, marked("default", stamp(90), "old"), login=ACTIONS_LOGIN, kind="Bot")
    for number in range(120):
        fake.state.comment(7, f"Later {number}")

    assert post(fake).kind == "updated"
    assert post(fake, "again", run=stamp(101)).kind == "updated"

    assert len(ours(fake)) == 1
    assert len(fake.state.comments_of(7)) == 371


def test_comments__the_same_text_is_sent_again_for_another_commit_only(fake: FakeGitHub) -> None:
    post(fake, "all pass", run=stamp(100))
    repeated = post(fake, "all pass", run=stamp(100, attempt=2))
    assert repeated.kind == "unchanged" and repeated.is_posted
    assert len(fake.writes()) == 1

    post(fake, "all pass", run=stamp(102, sha=OTHER_SHA))
    assert post(fake, "1 fails", run=stamp(101, sha="c" * 40)).kind == "superseded", "the marker is of the newer run"
    assert "all pass" in ours(fake)[0].body


@pytest.mark.parametrize("late", [stamp(99), stamp(100, 1), stamp(100, 2)])
def test_comments__older_runs_and_attempts_do_not_overwrite_newer_ones(fake: FakeGitHub, late: RunStamp) -> None:
    post(fake, "new", run=stamp(100, 3))

    outcome = post(fake, "old", run=late)

    assert outcome.kind == "superseded"
    assert not outcome.is_posted
    assert "run (100, attempt 3)" in outcome.message
    assert "new" in ours(fake)[0].body
    assert len(fake.writes()) == 1


def test_comments__keys_have_comments_of_their_own(fake: FakeGitHub) -> None:
    for key in ("default", "default--> x", "größe \n 1"):
        assert post(fake, key=key).kind == "created"
        assert post(fake, "again", key=key, run=stamp(101)).kind == "updated"

    assert len(ours(fake)) == 3


# Who wrote it


def test_comments__jobs_of_one_run_that_share_a_key_are_reported(fake: FakeGitHub) -> None:
    first, second = post(fake, "of the small model"), post(fake, "of the large model")

    assert (first.kind, second.kind, len(ours(fake))) == ("created", "updated", 1)
    assert (first.overwrites, second.overwrites) == (False, True)
    assert "its own `name`" in second.message
    assert not post(fake, "again", run=stamp(attempt=2)).overwrites, "started again, it brings its own up to date"


def test_comments__a_lost_update_is_not_taken_for_another_jobs(fake: FakeGitHub) -> None:
    post(fake, "red", run=stamp(99))
    fake.faults.append(Fault(method="PATCH", drop="before"))

    assert not post(fake, "green").overwrites


def test_comments__a_marker_in_a_strangers_comment_is_not_ours(fake: FakeGitHub) -> None:
    forged = fake.state.comment(7, marked("default", stamp(10**17), "all is well"), login="mallory")

    assert post(fake).kind == "created"
    assert forged.edits == 0


def test_comments__a_personal_token_finds_its_own_comments_and_goes_on_with_those_of_the_workflow(
    fake: FakeGitHub,
) -> None:
    fake.tokens["ghp_personal"] = "Alice"

    assert post(fake, token="ghp_personal").kind == "created"
    assert post(fake, "again", run=stamp(101), token="ghp_personal").kind == "updated"
    assert [our.login for our in ours(fake)] == ["Alice"]
    post(fake, key="workflow")
    assert post(fake, "again", key="workflow", run=stamp(101), token="ghp_personal").kind == "updated"


def test_comments__github_is_not_asked_who_we_are_without_a_marker(fake: FakeGitHub) -> None:
    post(fake)

    assert [request.path for request in fake.requests] == ["/repos/octo/shop/issues/7/comments"] * 3, (
        "a look, the comment, a look"
    )


def test_comments__an_app_of_ones_own_is_named(fake: FakeGitHub) -> None:
    mine = fake.state.comment(7, marked("default", stamp(90), "old"), login="evals[bot]", kind="Bot")

    unnamed = post(fake)
    assert (unnamed.kind, "evals[bot]" in unnamed.message) == ("created", True)

    fake.state.comments = {mine.id: mine}
    assert post(fake, author="evals[bot]").kind == "updated"


def test_of_two_the_newest_is_kept_up_to_date__and_the_other_links_to_it(fake: FakeGitHub) -> None:
    first = fake.state.comment(7, marked("default", stamp(90), "Passed"), login=ACTIONS_LOGIN, kind="Bot")
    second = fake.state.comment(7, marked("default", stamp(90), "two"), login=ACTIONS_LOGIN, kind="Bot")

    outcome = post(fake)

    assert outcome.kind == "updated" and "the others link to it now" in outcome.message
    assert (first.edits, second.edits) == (1, 1)
    assert ours(fake) == [second]
    assert "Passed" not in first.body and f"#issuecomment-{second.id}" in first.body
    assert post(fake, "again", run=stamp(101)).message == "The comment was updated."
    assert (first.edits, second.edits) == (1, 2)


class _Beside(Fault):
    """Another run posts its first comment at the moment in which we post ours."""

    def __init__(self, fake: FakeGitHub, run: RunStamp) -> None:
        super().__init__(method="POST")
        self._fake, self._run = fake, run

    def matches(self, method: str, path: str) -> bool:
        if super().matches(method, path):
            self.times = 0
            body = marked("default", self._run, "Passed: theirs")
            self._fake.state.comment(7, body, login=ACTIONS_LOGIN, kind="Bot")
        return False


@pytest.mark.parametrize(("run_id", "kind"), [(99, "created"), (101, "superseded")], ids=["older", "newer"])
def test_two_first_comments_at_once__leave_one_verdict(fake: FakeGitHub, run_id: int, kind: str) -> None:
    fake.faults.append(_Beside(fake, stamp(run_id)))

    outcome = post(fake, "Failed: ours")

    theirs, mine = fake.state.comments_of(7)
    kept, left = (mine, theirs) if kind == "created" else (theirs, mine)
    assert outcome.kind == kind and outcome.url is not None and outcome.url.endswith(f"#issuecomment-{kept.id}")
    assert ours(fake) == [kept] and f"#issuecomment-{kept.id}" in left.body
    assert "Passed" not in left.body and "Failed" not in left.body


def test_a_second_comment_that_can_not_be_changed__is_reported(fake: FakeGitHub) -> None:
    fake.faults += [_Beside(fake, stamp(99)), Fault(method="PATCH", status=403, times=1_000)]

    outcome = post(fake)

    assert outcome.kind == "created" and "an older one could not be changed" in outcome.message


# When to comment


@pytest.mark.parametrize(
    ("mode", "failed", "changed", "fresh", "there"),
    [
        ("on-change", False, False, "skipped", "updated"),
        ("on-failure", True, False, "created", "updated"),
        ("never", True, True, "skipped", "skipped"),
    ],
)
def test_comments__modes(fake: FakeGitHub, mode: str, failed: bool, changed: bool, fresh: str, there: str) -> None:
    assert post(fake, mode=mode, failed=failed, changed=changed).kind == fresh
    post(fake, "red")
    assert post(fake, "green", mode=mode, failed=failed, changed=changed, run=stamp(101)).kind == there


# What goes wrong: exactly one comment at the end


NOW = Clock().now
FAULTS: dict[str, tuple[Fault, list[float] | None]] = {
    "lost answer": (Fault(method="POST", drop="after"), None),
    "answer that breaks off": (Fault(method="POST", drop="middle"), None),
    "lost request": (Fault(method="POST", drop="before"), None),
    "outage": (Fault(method="POST", status=502, times=2), [1.0, 2.0]),
    # The server's clock is an hour ahead of ours.
    "primary limit": (primary_limit(method="POST", reset=NOW + 3600 + 40, now=NOW + 3600), [41.0]),
    "secondary limit": (secondary_limit(method="POST", retry_after=17), [17.0]),
    "without Retry-After": (secondary_limit(method="POST", times=2), [60.0, 120.0]),
    "429": (secondary_limit(method="POST", times=2, status=429), [60.0, 120.0]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_comments__a_fault_is_waited_for_and_leaves_one_comment(fake: FakeGitHub, name: str) -> None:
    fault, waits = FAULTS[name]
    fake.faults.append(dataclasses.replace(fault))
    clock = Clock()

    outcome = post(fake, clock=clock)

    assert outcome.kind == "created" and outcome.url is not None
    assert len(ours(fake)) == 1
    assert waits is None or clock.slept == waits


def test_comments__what_was_spent_before_does_not_cost_the_comment(fake: FakeGitHub) -> None:
    fake.faults.append(secondary_limit(method="POST", times=2))
    github = client(fake, budget=0.0)

    assert upsert_comment(github, NewComment(number=7, key="default", body="text", run=stamp())).kind == "created"


class _Overtaken(Fault):
    """While the request waits, a newer run comments."""

    def __init__(self, fake: FakeGitHub, **more: Any) -> None:
        super().__init__(**more)
        self._fake = fake

    def matches(self, method: str, path: str) -> bool:
        result = super().matches(method, path)
        if result:
            body = marked("default", stamp(200), "newer")
            [item, *_] = ours(self._fake) or [self._fake.state.comment(7, "", login=ACTIONS_LOGIN, kind="Bot")]
            item.body = body
        return result


@pytest.mark.parametrize("exists", [False, True])
def test_comments__a_run_that_had_to_wait_does_not_overwrite_a_newer_one(fake: FakeGitHub, exists: bool) -> None:
    if exists:
        post(fake, "red", run=stamp(99))
    limit = secondary_limit()
    fake.faults.append(_Overtaken(fake, method="PATCH" if exists else "POST", status=403, body=limit.body))

    assert post(fake, "old").kind == "superseded"
    [comment] = ours(fake)
    assert comment.body.endswith("newer")


def test_comments__a_comment_that_is_deleted_meanwhile_is_created_again(fake: FakeGitHub) -> None:
    post(fake)
    fake.faults.append(Fault(method="PATCH", status=404, body=b'{"message": "Not Found"}'))

    class Gone(Fault):
        def matches(self, method: str, path: str) -> bool:
            if method == "PATCH":
                fake.state.comments.clear()
            return False

    fake.faults.insert(0, Gone())

    assert post(fake, "again", run=stamp(101)).kind == "created"
    assert len(ours(fake)) == 1


def _read_only(fake: FakeGitHub) -> None:
    fake.read_only = True


def _missing_permission(fake: FakeGitHub) -> None:
    fault = forbidden(method="POST")
    fault.headers = {"X-Accepted-GitHub-Permissions": "issues=write; pull_requests=write"}
    fake.faults.append(fault)


@pytest.mark.parametrize(
    ("situation", "options", "kind", "words"),
    [
        (_read_only, {}, "forbidden", "as it does on pull requests from forks"),
        (_missing_permission, {}, "forbidden", "It requires issues=write or pull_requests=write."),
        (lambda fake: fake.state.locked.add(7), {}, "forbidden", "is locked: only people"),
        (lambda _: None, {"token": "ghp_expiredTokenOfAlice"}, "forbidden", "github-token"),
        (lambda _: None, {"number": 99}, "failed", "404"),
    ],
    ids=["read only", "missing permission", "locked", "bad token", "unknown"],
)
def test_comments__what_is_refused_is_reported_and_not_retried(
    fake: FakeGitHub, situation: Callable[[FakeGitHub], object], options: dict[str, Any], kind: str, words: str
) -> None:
    situation(fake)

    outcome = post(fake, **options)

    assert (outcome.kind, words in outcome.message) == (kind, True)
    assert "ghp_" not in outcome.message
    assert len(fake.writes()) <= 1


def test_comments__a_text_that_is_too_long_is_not_sent(fake: FakeGitHub) -> None:
    outcome = post(fake, "x" * LONGEST)

    assert (outcome.kind, fake.requests) == ("failed", [])
    assert "65,536" in outcome.message


def test_comments__what_github_declines_is_reported_in_its_words(fake: FakeGitHub) -> None:
    assert post(fake, "").kind == "created", "a body with a marker is not blank"
    body = b'{"message": "Validation Failed", "errors": [{"message": "Nope"}]}'
    fake.faults.append(Fault(method="PATCH", status=422, body=body))
    declined = post(fake, "again", run=stamp(101))
    assert declined.kind == "failed"
    assert "Validation Failed" in declined.message and "Nope" in declined.message


def test_comments__at_most_one_write_a_second(fake: FakeGitHub) -> None:
    clock = Clock()
    github = client(fake, clock)
    for key in ("one", "two", "three"):
        upsert_comment(github, NewComment(number=7, key=key, body="text", run=stamp()))

    assert clock.slept == [1.0, 1.0]


def test_own_only__changes_the_comment_of_this_run_and_attempt_and_no_other(fake: FakeGitHub) -> None:
    assert post(fake, "linked", own_only=True).kind == "skipped"
    assert fake.state.comments_of(7) == []

    post(fake, "plain", run=stamp(100))
    assert post(fake, "linked", run=stamp(100), own_only=True).kind == "updated"
    again = post(fake, "linked", run=stamp(100), own_only=True)
    assert (again.kind, again.overwrites) == ("unchanged", False)
    for other in (stamp(99), stamp(101), stamp(100, attempt=2)):
        posted = post(fake, "other", run=other, own_only=True)
        assert posted.kind == "superseded"
        assert "(100, attempt 1)" in posted.message

    [comment] = ours(fake)
    result = read_marker(comment.body)
    assert result is not None
    assert (result.text, result.run) == ("linked", stamp(100))


# Whether a label accepts the rules of a pull request, asked of the stand-in.


def event_of(fake: FakeGitHub, **payload: object) -> GitHubEvent:
    run = fake.state.run(fake.state.pulls[7].head_sha, event="pull_request", branch="feature")
    return GitHubEvent(name="pull_request", run_id=run.id, payload=payload)


def asked(fake: FakeGitHub, event: GitHubEvent) -> Acceptance:
    return client(fake).acceptance(
        7, run_id=event.run_id, started_by_label=activity(event, mode="auto").started_by_label
    )


def test_a_label_that_a_person_set_after_the_push__accepts(fake: FakeGitHub) -> None:
    event = event_of(fake)
    for number in range(120):
        fake.state.label(7, f"area: {number}")
    fake.state.label(7, ACCEPT_RULES.upper(), login="mona")
    fake.state.label(7, "another")

    assert asked(fake, event) == Acceptance(by="mona")


def test_no_label_and_one_that_was_removed_again__accept_nothing(fake: FakeGitHub) -> None:
    event = event_of(fake)
    fake.state.label(7, f"not {ACCEPT_RULES}")
    fake.state.pull(8)
    fake.state.label(8, ACCEPT_RULES)
    assert asked(fake, event) == Acceptance()

    fake.state.label(7, ACCEPT_RULES)
    fake.state.label(7, ACCEPT_RULES, event="unlabeled")
    assert asked(fake, event) == Acceptance()


def test_a_label_from_before_the_push__is_reported_and_does_not_count(fake: FakeGitHub) -> None:
    fake.state.label(7, ACCEPT_RULES)

    result = asked(fake, event_of(fake))

    assert result.by == "" and "before this commit was pushed" in result.why_not


def test_a_run_that_the_label_started__is_accepted(fake: FakeGitHub) -> None:
    fake.state.label(7, ACCEPT_RULES, login="mona")

    assert asked(fake, event_of(fake, action="labeled", label={"name": ACCEPT_RULES})).by == "mona"
    assert asked(fake, event_of(fake, action="labeled", label={"name": "another"})).by == ""
    assert asked(fake, event_of(fake, action="unlabeled", label={"name": ACCEPT_RULES})).by == ""


def test_a_label_of_a_program_and_labels_that_can_not_be_read__accept_nothing(fake: FakeGitHub) -> None:
    event = event_of(fake)
    fake.state.label(7, ACCEPT_RULES, login="github-actions[bot]", kind="Bot")
    result = asked(fake, event)
    assert result.by == "" and "a program set it" in result.why_not

    fake.state.label(7, ACCEPT_RULES)
    fake.faults.append(Fault(status=403, times=1_000))
    result = asked(fake, event)
    assert result.by == "" and "could not be read" in result.why_not


# Questions about runs, artifacts, commits, files and pull requests, asked of the stand-in.


WORKFLOW = ".github/workflows/evals.yml"


@pytest.fixture
def hub(github: FakeGitHub) -> FakeGitHub:
    github.state.history(3)
    return github


def test_runs__are_found_by_what_they_are(hub: FakeGitHub) -> None:
    state = hub.state
    base = state.branches["main"]
    ids = [state.run(base).id for _ in range(130)]
    state.run(base, event="schedule")
    state.run(state.commit(base))
    state.run(base, path=".github/workflows/other.yml")
    state.run(base, branch="other")

    result = runs.list_runs(client(hub), workflow=WORKFLOW, event="push", branch="main", head_sha=base, limit=120)

    assert [item.id for item in result] == ids[::-1][:120]


def test_runs__artifacts_of_a_run(hub: FakeGitHub) -> None:
    state = hub.state
    run, other = state.run(state.branches["main"]), state.run(state.branches["main"])
    second = state.artifact(run, b"second!", expired=True)
    state.artifact(run, b"logs", name="agent-eval-results-logs")
    first = state.artifact(run, b"first")
    first.created_at, second.created_at = "2026-09-14T08:38:28Z", "2026-09-14T08:49:55Z"
    state.artifact(other, b"other")

    result = runs.list_artifacts(client(hub), run.id, "agent-eval-results")

    assert [(item.id, item.size_in_bytes, item.expired) for item in result] == [
        (second.id, 7, True),
        (first.id, 5, False),
    ], "the newest first, whatever their ids"
    assert len(runs.list_artifacts(client(hub), run.id)) == 3


def test_runs__a_name_that_github_pays_no_heed_to(hub: FakeGitHub) -> None:
    run = hub.state.run(hub.state.branches["main"])
    hub.state.artifact(run, b"x", name="other")
    listed = client(hub).get(f"/repos/octo/shop/actions/runs/{run.id}/artifacts")
    hub.faults.append(Fault(status=200, body=json.dumps(listed).encode()))

    assert runs.list_artifacts(client(hub), run.id, "agent-eval-results") == []


def test_runs__artifacts_are_downloaded_up_to_a_size(hub: FakeGitHub) -> None:
    artifact = hub.state.artifact(hub.state.run(hub.state.branches["main"]), b"PK zip")

    assert runs.download_artifact(client(hub), artifact.id, max_bytes=6) == b"PK zip"
    with pytest.raises(GitHubError, match="larger than 5 bytes"):
        runs.download_artifact(client(hub), artifact.id, max_bytes=5)


@pytest.mark.parametrize(
    ("files", "result"),
    [
        ([], []),
        ([{"filename": "a"}, {"filename": "b", "previous_filename": "c"}], ["a", "b", "c"]),
        ([{"filename": str(number)} for number in range(300)], None),  # There may be more than GitHub lists.
        (None, None),
    ],
)
def test_runs__changed_files(hub: FakeGitHub, files: list[dict[str, str]] | None, result: list[str] | None) -> None:
    hub.faults.append(Fault(path="/compare/", status=200, body=json.dumps({"files": files}).encode()))

    assert runs.changed_files(client(hub), "main", "main") == result


def test_runs__walking_back_further_than_the_list(hub: FakeGitHub) -> None:
    state = hub.state
    before = state.branches["main"]
    side = before
    for _ in range(120):
        side = state.commit(side)
    merge = state.commit(before, side, branch="main")

    result = runs.first_parents(client(hub), merge, limit=3)
    assert result[:2] == [merge, before]
    assert len(result) == 3


def test_runs__files(hub: FakeGitHub) -> None:
    hub.state.files[("main", "evals/ä b/agent-eval.toml")] = "größe = 1\n".encode() * 50
    hub.state.files[("main", "large")] = b"x" * 1_000_001
    github = client(hub)

    assert runs.file_at(github, "evals/ä b/agent-eval.toml", "main") == "größe = 1\n".encode() * 50
    assert runs.file_at(github, "none.toml", "main") is None
    with pytest.raises(GitHubError, match="up to 1 MB"):
        runs.file_at(github, "large", "main")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([], "is a directory"),
        ({"type": "submodule", "size": 0}, "is a submodule"),
        ({"type": "file", "size": 3, "encoding": "base64", "content": "!!!"}, "invalid base64"),
        ({"type": "file"}, "missing or invalid fields: size"),
    ],
)
def test_runs__what_is_no_file(hub: FakeGitHub, answer: Any, words: str) -> None:
    hub.faults.append(Fault(status=200, body=json.dumps(answer).encode()))

    with pytest.raises(GitHubError, match=words):
        runs.file_at(client(hub), "evals", "main")


def test_runs__pull_requests(hub: FakeGitHub) -> None:
    state = hub.state
    state.pull(7)
    state.pull(8, head_repository="fork/shop", head_ref="main")
    state.pull(9, head_repository="fork/shop", head_ref="main", state="closed")
    state.pull(10, head_repository=None)
    github = client(hub)

    assert [runs.get_pull(github, number).is_fork for number in (7, 8, 10)] == [False, True, True]
    assert [pull.number for pull in runs.pulls_of_head(github, "fork", "main")] == [9, 8]
    assert [open_pull.number for open_pull in runs.open_pulls(github)] == [10, 8, 7]


def test_runs__a_head_that_github_drops_does_not_fit_every_pull_request(hub: FakeGitHub) -> None:
    hub.state.pull(7)
    answer = json.dumps(client(hub).get("/repos/octo/shop/pulls")).encode()
    hub.faults.append(Fault(status=200, body=answer))

    assert runs.pulls_of_head(client(hub), "fork", "main") == []


QUESTIONS: list[Callable[[GitHub], object]] = [
    lambda github: runs.get_run(github, 1),
    lambda github: runs.merge_base(github, "a", "b"),
    lambda github: runs.commit_parents(github, "a" * 40),
    lambda github: runs.get_pull(github, 7),
    lambda github: runs.list_runs(github, workflow=WORKFLOW),
    lambda github: runs.list_artifacts(github, 1),
    lambda github: runs.first_parents(github, "a" * 40, limit=2),
    lambda github: list(runs.open_pulls(github)),
]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "answer", [{}, [{}], {"id": "x", "parents": 7, "workflow_runs": [{}], "artifacts": [{}]}, 7, None]
)
def test_runs__answers_that_lack_something_are_malformed(
    hub: FakeGitHub, question: Callable[[GitHub], object], answer: object
) -> None:
    hub.faults.append(Fault(status=200, body=json.dumps(answer).encode(), times=9))

    with pytest.raises(GitHubError) as caught:
        question(client(hub))
    assert caught.value.kind == "malformed"


# Which pull request a finished run belongs to; what its artifact claims is not believed.


def fork(hub: FakeGitHub, number: int = 7, **more: str) -> Pull:
    return hub.state.pull(number, head_repository="fork/shop", head_ref="main", author="mallory", **more)


def run_of(hub: FakeGitHub, pull: Pull, **more: Any) -> Run:
    listed = (pull.number,) if pull.head_repository == hub.state.repository else ()
    settings: dict[str, Any] = {"event": "pull_request", "branch": pull.head_ref, "pulls": listed, **more}
    return hub.state.run(pull.head_sha, head_repository=pull.head_repository, **settings)


def bound(hub: FakeGitHub, run: Run, claim: Claim | None = None) -> Bound:
    result = bind(client(hub), run.id, claim)
    assert isinstance(result, Bound), result
    return result


def unbound(hub: FakeGitHub, run: Run, claim: Claim | None = None) -> Unbound:
    result = bind(client(hub), run.id, claim)
    assert isinstance(result, Unbound), result
    return result


def test_binding__a_fork_is_found_by_owner_and_branch(hub: FakeGitHub) -> None:
    hub.state.pull(6, head_repository="other/shop", head_ref="main")
    pull = fork(hub)

    result = bound(hub, run_of(hub, pull))

    assert result.pull_request.number == 7
    assert result.run.head_sha == pull.head_sha


@pytest.mark.parametrize("listed", [{}, {"pulls": ()}], ids=["listed", "not listed"])
def test_binding__a_branch_of_the_repository_is_found(hub: FakeGitHub, listed: dict[str, Any]) -> None:
    assert bound(hub, run_of(hub, hub.state.pull(7), **listed)).pull_request.number == 7


def test_binding__a_forks_pull_request_of_the_same_commit_is_not_that_of_the_branch(hub: FakeGitHub) -> None:
    """Whatever GitHub lists for a run: somebody may open a pull request from a copy of our branch."""
    copy = fork(hub)
    run = hub.state.run(copy.head_sha, event="pull_request", branch="feature", pulls=(copy.number,))

    assert "No open pull request" in unbound(hub, run).message


def test_binding__a_fork_that_is_gone_is_found_by_its_commit(hub: FakeGitHub) -> None:
    hub.state.pull(6, head_repository=None)
    pull = hub.state.pull(7, head_repository=None)
    hub.state.pull(8, head_sha=pull.head_sha)

    assert bound(hub, run_of(hub, pull)).pull_request.number == 7


def test_binding__a_branch_of_another_fork_of_the_same_owner_does_not_count(hub: FakeGitHub) -> None:
    pull = fork(hub)
    run = run_of(hub, pull)
    pull.head_repository = "fork/another-shop"

    assert "No open pull request" in unbound(hub, run).message


def test_binding__a_pull_request_that_has_moved_on_is_left_to_its_newer_run(hub: FakeGitHub) -> None:
    pull = fork(hub)
    run = run_of(hub, pull)
    pull.head_sha = hub.state.commit(pull.head_sha)

    result = unbound(hub, run)

    assert "Pull request 7 has newer commits" in result.message
    assert not result.is_contradiction


@pytest.mark.parametrize(
    ("pull", "run", "words"),
    [
        ({"state": "closed"}, {}, "is closed"),
        ({}, {"event": "push"}, "push"),
        ({}, {"event": "pull_request_target"}, "pull_request_target"),
        ({}, {"status": "in_progress"}, "not ended"),
    ],
)
def test_binding__what_gets_no_comment(hub: FakeGitHub, pull: Any, run: Any, words: str) -> None:
    assert words in unbound(hub, run_of(hub, fork(hub, **pull), **run)).message


# Two pull requests from one branch: both fit, and only the results know which it was


def test_binding__of_several_that_fit_the_claim_picks_one(hub: FakeGitHub) -> None:
    pull = fork(hub)
    fork(hub, 8, head_sha=pull.head_sha, base_ref="release")
    run = run_of(hub, pull)

    assert bound(hub, run, Claim(pull_request=8)).pull_request.number == 8
    assert "pull requests 8, 7" in unbound(hub, run).message


# Forged artifacts


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (Claim(pull_request=6), "claim pull request 6, but run"),
        (Claim(pull_request=10**9), "claim pull request 1000000000"),
        (Claim(head_commit="f" * 40), "claim commit ffff"),
        (Claim(repository="octo/other"), "claim the repository octo/other"),
        (Claim(run_id=1), "claim run 1,"),
    ],
)
def test_binding__what_contradicts_github_is_refused(hub: FakeGitHub, claim: Claim, words: str) -> None:
    hub.state.pull(6)
    result = unbound(hub, run_of(hub, fork(hub)), claim)

    assert result.is_contradiction
    assert words in result.message


def test_binding__a_claim_for_another_pull_request_with_the_same_commit_from_elsewhere_is_refused(
    hub: FakeGitHub,
) -> None:
    """A stranger opens a pull request from a copy of a branch of ours, to write into ours."""
    own = hub.state.pull(6)
    pull = fork(hub, head_sha=own.head_sha)
    run = run_of(hub, pull)

    assert unbound(hub, run, Claim(pull_request=6)).is_contradiction
    assert bound(hub, run, Claim(pull_request=7)).pull_request.number == 7


def test_binding__what_is_true_is_bound(hub: FakeGitHub) -> None:
    pull = fork(hub)
    run = run_of(hub, pull)
    claim = Claim(repository="Octo/Shop", run_id=run.id, pull_request=7, head_commit=pull.head_sha)

    assert bound(hub, run, claim).pull_request.number == 7


@pytest.mark.parametrize(
    ("name", "run_id", "expected"), [("workflow_run", 9, 9), ("push", 9, None), ("workflow_run", True, None)]
)
def test_binding__the_run_is_that_of_the_event(name: str, run_id: object, expected: int | None) -> None:
    event = GitHubEvent(name=name, payload={"workflow_run": {"id": run_id}})

    assert activity(event, mode="auto").finished_run == expected
