"""One comment, whatever happens on the way: the mechanics of posting, against the stand-in for GitHub."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_github import Comment, FakeGitHub, Fault, forbidden, primary_limit, secondary_limit
from github_clock import Clock, client

from agent_eval.forge import Comment as NewComment
from agent_eval.forge import Posted, RunStamp
from agent_eval.github.comments import ACTIONS_LOGIN, LONGEST, marked, read_marker, upsert_comment

SHA, OTHER_SHA = "a" * 40, "b" * 40


@pytest.fixture
def fake() -> Iterator[FakeGitHub]:
    with FakeGitHub() as server:
        server.state.pull(7, head_sha=SHA)
        yield server


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
