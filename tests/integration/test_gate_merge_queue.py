"""A push that the merge queue has tested takes its results over: real git, real agents, a stand-in for GitHub."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from baseline_samples import artifact, case, results, zipped
from fake_github import FakeGitHub, Fault, forbidden
from github_clock import client
from pull_requests import WORKFLOW, Lab

from agent_eval.baseline.lookup import BaselineRequest
from agent_eval.forge import Forge, ForgeError
from agent_eval.pipeline.queued import Queued, queued_results
from agent_eval_results.data.report import Origin, RunReport

CASES = ("lamp_on", "lamp_off", "heater", "door")
HALF = dict.fromkeys(CASES, 0.5)


def runs(report: RunReport) -> list[tuple[str, float | None, str]]:
    return [(run.run_id, run.started_at, run.status) for case in report.cases for run in case.runs]


@pytest.mark.parametrize("squash", [False, True])
def test_push__of_what_the_queue_has_tested__runs_nothing_again(lab: Lab, squash: bool) -> None:
    lab.base_run()
    file = "evals/bot.evalset.json"
    text = (lab.repository.root / file).read_text("utf-8")
    renamed = {file: text.replace('"lamp_on"', '"lamp_lit"')}  # The same case to the push, which compares nothing.
    lab.pull_request(7, HALF, "--num-runs", "2", files=renamed if squash else {})
    queued = lab.queue(7, "--num-runs", "2", squash=squash).report

    pushed = lab.base_run("--num-runs", "2")

    report = pushed.report
    assert runs(report) == runs(queued), "the same runs"
    assert report.started_at > queued.started_at
    assert report.taken_from == f"{lab.github.server_url}/{lab.github.state.repository}/actions/runs/{lab.runs[-2].id}"
    assert any("The merge queue has tested these files" in notice for notice in report.notices)
    assert report.comparison is None and not report.confirmations
    assert report.history is not None and [record.commit for record in report.history.records][-1] == lab.repo.head
    assert len(report.history.records) == 2, "it continues the branch's history"
    assert report.agents == queued.agents and report.provenance["adk"] == queued.provenance["adk"]
    assert [usage for usage in report.case_usage if "again" in usage.purpose or "base" in usage.purpose] == []
    assert (pushed.output / "recordings.jsonl.gz").read_bytes()
    # The next pull request is compared with it.
    later = lab.pull_request(8, HALF, "--num-runs", "2").report
    assert later.baseline is not None and (later.baseline.status, later.baseline.distance) == ("found", 0)
    # Who starts the job again wants new runs.
    again = lab.base_run("--num-runs", "2", upload=False, attempt=2).report
    assert again.taken_from is None and runs(again) != runs(queued)


POLICY = """
[[policy]]
metric = "response_match_score"
threshold = 0.9
[[tool]]
name = "refund"
answers = "case"
"""
"""Answers by hand are tapes, which have remarks of their own."""


def test_push__after_a_queue_s_run_that_does_not_fit__runs_everything_and_says_why(lab: Lab) -> None:
    lab.repo.git("checkout", "-q", "main")
    lab.commit({}, **{"agent-eval.toml": POLICY})
    lab.base_run()
    lab.pull_request(7, HALF)
    queued = lab.queue(7, environment={"GOOGLE_CLOUD_PROJECT": "one"}).report
    same = {"GOOGLE_CLOUD_PROJECT": "one"}

    def pushed(*arguments: str, **environment: str) -> str:
        report = lab.base_run(*arguments, upload=False, environment=environment).report
        if report.taken_from is not None:
            assert runs(report) == runs(queued)
            return "taken"
        assert not set(runs(report)) & set(runs(queued))
        said = [notice for notice in report.notices if "merge queue" in notice]
        return said[0].rpartition("does not fit: ")[2] if said else "silent"

    assert pushed(**same) == "taken"
    assert pushed("--num-runs", "2", **same) == "it has run other cases, or has run them more or less often"
    assert "variables" in pushed(GOOGLE_CLOUD_PROJECT="two"), "the agent reads it"
    assert "settings differ" in pushed("--turn-timeout", "7", **same)
    assert "files, variables or packages" in pushed("--agent-cwd", "root", **same), "agent-eval.toml may set it"
    assert "its criteria differ" in pushed("--config", _stricter(lab), **same)
    lab.github.faults.append(forbidden(path="/runs"))  # The token may not read runs: neither this nor a baseline.
    assert pushed(**same).startswith("Whether the merge queue has tested these files could not be read")


def _stricter(lab: Lab) -> str:
    """A config that git ignores, with one more criterion than the cases have."""
    path = lab.repository.root / "__pycache__" / "strict.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"criteria": {"response_match_score": 0.95, "tool_trajectory_avg_score": 1.0}}', "utf-8")
    return "__pycache__/strict.json"


REPOSITORY, BRANCH = "octo/shop", "gh-readonly-queue/main/pr-7-abc"


def _old(fake: FakeGitHub) -> str:
    """A revert brings a tree back that the queue tested two days ago."""
    return _upload(fake, report=results(started_at=time.time() - 48 * 3600))


def _upload(
    fake: FakeGitHub, *, report: RunReport | None = None, origin: dict[str, object] | None = None, **facts: Any
) -> str:
    """The queue's run of main's newest commit, with its results; both may say other things of themselves."""
    fake.state.run("f" * 40, path=WORKFLOW)  # So that the workflow is known.
    sha = fake.state.history(1)[0]
    run = fake.state.run(sha, **{"event": "merge_group", "branch": BRANCH, **facts})
    said = {"repository": REPOSITORY, "commit": sha, "event": "merge_group", "run_id": run.id, "workflow": WORKFLOW}
    made = (report or results(started_at=time.time())).model_copy(
        update={"origin": Origin.model_validate({**said, **(origin or {})})}
    )
    fake.state.artifact(run, artifact(made))
    return sha


def _forged_on_its_way(fake: FakeGitHub) -> str:
    sha = _upload(fake)
    fake.faults.append(Fault(path="/store/", status=200, body=artifact(results(case("forged")))))
    return sha


def test_limited__an_outage_of_the_forge_costs_the_rest_of_the_run_no_time(github: FakeGitHub) -> None:
    sha = _upload(github)
    github.faults.append(Fault(path="/runs", status=429, headers={"Retry-After": "100"}, times=2))
    whole = client(github)

    with pytest.raises(ForgeError):
        _asked(github, sha, whole.limited(20))

    assert isinstance(_asked(github, sha, whole), Queued), "it has its 300 s: it can wait for 100"


def _without_results(fake: FakeGitHub) -> str:
    sha = fake.state.history(1)[0]
    fake.state.artifact(fake.state.run(sha, event="merge_group", branch=BRANCH), zipped({"logs/worker.log": b"Killed"}))
    return sha


FOREIGN: dict[str, Callable[[FakeGitHub], str]] = {
    "a pull request's": lambda fake: _upload(fake, event="pull_request", branch="feature"),
    "a pull request's, on a branch of such a name": lambda fake: _upload(fake, event="pull_request"),
    "a push to a branch of such a name": lambda fake: _upload(fake, event="push"),
    "a fork's": lambda fake: _upload(fake, head_repository="mallory/shop"),
    "a deleted fork's": lambda fake: _upload(fake, head_repository=None),
    "the queue of another branch": lambda fake: _upload(fake, branch="gh-readonly-queue/release/pr-7-abc"),
    "another workflow's": lambda fake: _upload(fake, path=".github/workflows/other.yml"),
}
UNFIT: dict[str, tuple[Callable[[FakeGitHub], str], str]] = {
    "another commit's": (lambda fake: _upload(fake, origin={"commit": "f" * 40}), "another run"),
    "another run's": (lambda fake: _upload(fake, origin={"run_id": 7}), "another run"),
    "a pull request's": (lambda fake: _upload(fake, origin={"event": "pull_request"}), "another run"),
    "another repository's": (lambda fake: _upload(fake, origin={"repository": "octo/other"}), "octo/other"),
    "changed on their way": (_forged_on_its_way, "digest"),
    "of another day": (_old, "older than 24 hours"),
    "none": (_without_results, "no results.json"),
    "of an interrupted run": (
        lambda fake: _upload(fake, report=results(case("one"), case("two", "not_run"), started_at=time.time())),
        "did not finish",
    ),
}


def _asked(fake: FakeGitHub, sha: str, forge: Forge | None = None) -> Queued | str | None:
    origin = Origin(repository=REPOSITORY, commit="a" * 40, event="push", ref="refs/heads/main", workflow=WORKFLOW)
    request = BaselineRequest(repository=REPOSITORY, base_ref="main", commit=sha, how="", is_pull_request=False)
    return queued_results(forge or client(fake), origin, sha, request)


@pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN)
def test_queued_results__only_the_queue_s_own_run_counts(github: FakeGitHub, make: Callable[[FakeGitHub], str]) -> None:
    assert _asked(github, make(github)) is None


@pytest.mark.parametrize(("make", "why"), UNFIT.values(), ids=UNFIT)
def test_queued_results__what_is_not_used_has_a_reason(
    github: FakeGitHub, make: Callable[[FakeGitHub], str], why: str
) -> None:
    found = _asked(github, make(github))

    assert isinstance(found, str) and why in found


def test_queued_results__are_those_of_the_newest_run(github: FakeGitHub) -> None:
    sha = _upload(github)

    found = _asked(github, sha)

    assert isinstance(found, Queued) and len(found.report.cases) == 2
    assert _asked(github, github.state.history(1)[0]) is None, "another commit was not tested"
