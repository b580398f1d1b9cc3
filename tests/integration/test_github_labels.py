"""Whether a label accepts the rules of a pull request, asked of the stand-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_github import FakeGitHub, Fault
from github_clock import client

from agent_eval.forge import ACCEPT_RULES, Acceptance
from agent_eval.github._activity import activity
from agent_eval.github.events import GitHubEvent


@pytest.fixture
def fake() -> Iterator[FakeGitHub]:
    with FakeGitHub() as server:
        server.state.history(1)
        server.state.pull(7)
        yield server


def run_of(fake: FakeGitHub, **payload: object) -> GitHubEvent:
    run = fake.state.run(fake.state.pulls[7].head_sha, event="pull_request", branch="feature")
    return GitHubEvent(name="pull_request", run_id=run.id, payload=payload)


def asked(fake: FakeGitHub, event: GitHubEvent) -> Acceptance:
    return client(fake).acceptance(
        7, run_id=event.run_id, started_by_label=activity(event, mode="auto").started_by_label
    )


def test_a_label_that_a_person_set_after_the_push__accepts(fake: FakeGitHub) -> None:
    event = run_of(fake)
    for number in range(120):
        fake.state.label(7, f"area: {number}")
    fake.state.label(7, ACCEPT_RULES.upper(), login="mona")
    fake.state.label(7, "another")

    assert asked(fake, event) == Acceptance(by="mona")


def test_no_label_and_one_that_was_removed_again__accept_nothing(fake: FakeGitHub) -> None:
    event = run_of(fake)
    fake.state.label(7, f"not {ACCEPT_RULES}")
    fake.state.pull(8)
    fake.state.label(8, ACCEPT_RULES)
    assert asked(fake, event) == Acceptance()

    fake.state.label(7, ACCEPT_RULES)
    fake.state.label(7, ACCEPT_RULES, event="unlabeled")
    assert asked(fake, event) == Acceptance()


def test_a_label_from_before_the_push__is_reported_and_does_not_count(fake: FakeGitHub) -> None:
    fake.state.label(7, ACCEPT_RULES)

    result = asked(fake, run_of(fake))

    assert result.by == "" and "before this commit was pushed" in result.why_not


def test_a_run_that_the_label_started__is_accepted(fake: FakeGitHub) -> None:
    fake.state.label(7, ACCEPT_RULES, login="mona")

    assert asked(fake, run_of(fake, action="labeled", label={"name": ACCEPT_RULES})).by == "mona"
    assert asked(fake, run_of(fake, action="labeled", label={"name": "another"})).by == ""
    assert asked(fake, run_of(fake, action="unlabeled", label={"name": ACCEPT_RULES})).by == ""


def test_a_label_of_a_program_and_labels_that_can_not_be_read__accept_nothing(fake: FakeGitHub) -> None:
    event = run_of(fake)
    fake.state.label(7, ACCEPT_RULES, login="github-actions[bot]", kind="Bot")
    result = asked(fake, event)
    assert result.by == "" and "a program set it" in result.why_not

    fake.state.label(7, ACCEPT_RULES)
    fake.faults.append(Fault(status=403, times=1_000))
    result = asked(fake, event)
    assert result.by == "" and "could not be read" in result.why_not
