"""GitLab: the life of a merge request, from end to end, against a stand-in that is held to GitLab's documentation."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from baseline_samples import artifact, results
from fake_github import Fault
from fake_gitlab import BOT, FakeGitLab, GitLabLab, fake_gitlab, json_of
from gate_runs import Done, told
from github_clock import Clock
from golden_files import check

from agent_eval.baseline import BaselineRequest
from agent_eval.forge import Activity, Comment, EventError, Posted, PullRequest, RunStamp
from agent_eval.forge.comments import Memory, marked
from agent_eval.forge.rest import RestError, Waiting
from agent_eval.gitlab.events import GitLabEvent, activity, read_event
from agent_eval.gitlab.forge import GitLab
from agent_eval.pipeline._attempts import Earlier, _about, find_earlier
from agent_eval.pipeline.ci_context import LOCAL
from agent_eval_results import ACCEPT_RULES, CaseDecisionReport, DecisionReport, Origin

FORK = {
    "CI_PROJECT_ID": "77",
    "CI_PROJECT_PATH": "mallory/shop",
    "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "77",
    "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH": "mallory/shop",
}


@pytest.fixture
def fake() -> Iterator[FakeGitLab]:
    with fake_gitlab() as made:
        yield made


@pytest.fixture
def gitlab(tmp_path: Path, fake: FakeGitLab) -> Iterator[GitLabLab]:
    made = GitLabLab.make(tmp_path, fake)
    yield made
    made.repository.end()


def said(lab: GitLabLab, title: str, done: Done) -> str:
    """What a run came to, what it logs about GitLab, and the lines of the note that a reader begins with."""
    log = [
        line for line in done.err.splitlines() if re.search("erge (request|train)|comment|baseline for|host of", line)
    ]
    notes = [
        line for body in lab.ours() for line in body.splitlines() if line.startswith(("## ", "**Next", "⚠️", "<sub>"))
    ]
    text = told(title, done, *log, *notes)
    return re.sub(
        r"(jobs|pipelines)/\d+|(?<=#note_)\d+|(?<=run )\d+|(?<=run \()\d+|(?<=attempt )\d+",
        lambda m: m[1] or "ID",
        text,
    )


def test_merge_request__from_its_first_pipeline_to_its_last(gitlab: GitLabLab) -> None:
    lab, fake = gitlab, gitlab.fake
    for number in range(120):
        fake.note(7, f"a remark, number {number}", system=number % 3 == 0)
    stranger = fake.note(7, marked("evals", RunStamp(run_id=10**9, attempt=1, sha="a" * 40), "## by somebody else"))
    other_job = fake.note(7, marked("lint", RunStamp(run_id=10**9, attempt=1, sha="a" * 40), "of another job"), BOT)
    story = [said(lab, "main", lab.main(code=0))]
    lab.repo.branch("feature", lab.base)
    lab.commit(door=["fan"], window=["lamp"])
    story.append(said(lab, "opened, with a regression", lab.merge_request(code=1)))
    [*_, note] = fake.notes[7]
    [body] = [text for text in lab.ours() if text != "of another job"]
    job = fake.jobs[-1]["id"]
    report = f"{fake.url}/group/sub/shop/-/jobs/{job}/artifacts/file/agent-eval-results/report.html"
    assert f"{report}#case=" in body and f"[report]({report})" in body
    assert f"{fake.url}/group/sub/shop/-/commit/{lab.base}" in body
    first = dict(fake.pipelines[-1])
    lab.commit(door=["lamp"], window=["lamp"])
    story.append(said(lab, "pushed to, and repaired", lab.merge_request(code=0)))
    again = {"pipeline": str(first["id"]), "CI_COMMIT_SHA": first["sha"]}
    head = lab.repo.head
    lab.repo.git("checkout", "-q", "--detach", first["sha"])
    story.append(said(lab, "the first pipeline's job is retried", lab.merge_request(facts=again, code=1)))
    lab.repo.git("checkout", "-q", "feature")
    story.append(said(lab, "as a merged result", _merged(lab, "merged_result")))
    story.append(said(lab, "in a merge train", _merged(lab, "merge_train")))
    assert lab.repo.git("rev-parse", "HEAD^2") == head
    assert fake.notes[7][-1] is note and note["edits"] == 2, "one note, written again in its place"
    assert (stranger["edits"], other_job["edits"]) == (0, 0)
    check("golden_gate/merge_requests.txt", "".join(story).replace(f"{job}", "ID"))


def _merged(lab: GitLabLab, kind: str) -> Done:
    lab.repo.merge("feature", lab.base)
    return lab.merge_request(kind=kind, code=0)


def test_merge_request__what_keeps_the_note_from_being_written_is_said_and_changes_no_verdict(
    gitlab: GitLabLab,
) -> None:
    lab, fake = gitlab, gitlab.fake
    lab.repo.branch("feature", lab.base)
    lab.commit(door=["fan"], window=["lamp"], fan=["lamp"])
    ways: dict[str, dict[str, str]] = {
        "no token": {"GITLAB_TOKEN": ""},
        "a fork's own pipeline": {**FORK, "GITLAB_TOKEN": ""},
        "a fork, in the project's pipeline": {name: FORK[name] for name in FORK if "SOURCE" in name},
        "a token that is wrong": {"GITLAB_TOKEN": "glpat-expired"},
        "variables that can't be": {"CI_MERGE_REQUEST_IID": "x"},
        "a server that is no GitLab": {"CI_API_V4_URL": "ftp://gitlab.example"},
    }
    story = []
    for name, facts in ways.items():
        fake.notes.clear()
        done = lab.merge_request(facts=facts, code=2 if name.startswith("variables") else 1)
        story.append(said(lab, name, done))
        assert "glpat-" not in done.err + done.out
        assert not any("report.html" in body for body in lab.ours()), "a fork's page is its author's to write"
    check("golden_gate/merge_requests_without_a_note.txt", "".join(story))


def test_merge_request__its_rules_are_the_target_branch_s_even_where_its_tip_is_not_in_the_clone(
    gitlab: GitLabLab,
) -> None:
    lab = gitlab
    lab.repo.git("checkout", "-q", "-B", "feature", lab.base)
    lab.repo.git("checkout", "-q", "main")
    lab.repo.commit({"agent-eval.toml": "num-runs = 2\n"})
    lab.push("main")
    lab.repo.git("checkout", "-q", "feature")
    lab.repo.git("branch", "-q", "-D", "main")
    lab.repo.git("update-ref", "-d", "refs/remotes/origin/main")
    lab.repo.git("gc", "-q", "--prune=now")
    lab.repo.commit({"agent-eval.toml": "num-runs = 1\n"})
    done = lab.merge_request(code=0)
    assert {len(case.runs) for case in done.report.cases} == {2}
    assert "the rules of the base branch were applied" in "".join(lab.ours())
    # In a fork's own pipeline the checkout's remote is the fork, whose main branch is its author's.
    lab.repo.git("remote", "set-url", "origin", "/nowhere")
    done = lab.merge_request(facts=FORK | {"GITLAB_TOKEN": ""}, code=0)
    assert {len(case.runs) for case in done.report.cases} == {2}


def test_merge_request__is_compared_in_a_clone_without_history_and_without_a_token(gitlab: GitLabLab) -> None:
    lab = gitlab
    lab.repo.branch("feature", lab.base)
    head = lab.commit(door=["lamp"], window=["lamp"])
    (lab.repo.root / ".git" / "shallow").write_text(f"{head}\n", "utf-8")
    base = lab.merge_request(facts={"GITLAB_TOKEN": ""}, code=0).report.baseline
    assert base is not None and (base.wanted_commit, base.status) == (lab.base, "fetch-failed")
    assert "Add the CI/CD variable `GITLAB_TOKEN`" in base.message


# What a pipeline is.

PIPELINE = {
    "GITLAB_CI": "true",
    "CI_PIPELINE_SOURCE": "push",
    "CI_PIPELINE_ID": "5",
    "CI_JOB_ID": "6",
    "CI_PROJECT_ID": "42",
    "CI_PROJECT_PATH": "g/shop",
    "CI_COMMIT_SHA": "c" * 40,
    "CI_COMMIT_BRANCH": "main",
    "CI_DEFAULT_BRANCH": "main",
}
PIPELINES: dict[str, dict[str, str]] = {
    "push to main": {},
    "push to another branch": {"CI_COMMIT_BRANCH": "feature"},
    "push to a base branch": {"CI_COMMIT_BRANCH": "release/1"},
    "tag": {"CI_COMMIT_BRANCH": "", "CI_COMMIT_TAG": "v1"},
    "schedule": {"CI_PIPELINE_SOURCE": "schedule"},
    "started by a person": {"CI_PIPELINE_SOURCE": "web"},
    "child pipeline": {"CI_PIPELINE_SOURCE": "parent_pipeline"},
    "mode: gate": {"mode": "gate"},
    "mode: publish": {"mode": "publish"},
    "no GitLab": {"GITLAB_CI": ""},
    "docker run with GITLAB_CI alone": {"CI_PIPELINE_SOURCE": ""},
    "a project that is none": {"CI_PROJECT_PATH": "shop"},
    "a pipeline without an id": {"CI_PIPELINE_ID": ""},
}


def test_events__what_a_pipeline_does() -> None:
    lines = []
    for name, changes in PIPELINES.items():
        mode: Any = changes.get("mode", "auto")
        try:
            event = read_event(PIPELINE | changes)
        except EventError as error:
            lines.append(f"{name}: {error}")
            continue
        does = activity(event, mode=mode, base_branches=["release/*"])
        lines.append(f"{name}: {event.name or 'no event'} {event.ref}: {does.kind} {does.base_ref}: {does.explanation}")
    check("golden_gitlab_pipelines.txt", "\n".join(lines) + "\n")


def test_list_runs__of_a_configuration_in_another_project_are_those_of_this_pipeline(fake: FakeGitLab) -> None:
    fake.pipeline("a" * 40, "main", "push")
    event = read_event(PIPELINE | {"CI_CONFIG_PATH": "ci/evals.yml@group/templates"})
    [run] = client(fake, Clock()).list_runs(workflow=event.workflow_path or "", branch="main")
    assert run.workflow_path == event.workflow_path


# The client: what goes wrong on the way.


RUN = RunStamp(run_id=100, attempt=5, sha="a" * 40)


def client(fake: FakeGitLab, clock: Clock, *, token: str | None = None) -> GitLab:
    event = GitLabEvent(
        name="pull_request",
        repository=fake.path,
        project=fake.project,
        key="evals",
        api_url=fake.api_url,
        server_url=fake.url,
    )
    waiting = Waiting(clock=clock, sleep=clock.sleep, jitter=lambda: 0.0)
    return GitLab(event, token=token or fake.token, log=lambda _: None, waiting=waiting)


def post(fake: FakeGitLab, clock: Clock, *, token: str | None = None, **more: Any) -> Posted:
    facts: dict[str, Any] = {"number": 7, "key": "k", "body": "text", "run": RUN, **more}
    return client(fake, clock, token=token).upsert_comment(Comment(**facts))


def old(fake: FakeGitLab) -> None:
    fake.note(7, marked("k", RunStamp(run_id=90, attempt=1, sha="b" * 40), "old"), BOT)


def rotated(fake: FakeGitLab) -> None:
    fake.note(7, marked("k", RunStamp(run_id=90, attempt=1, sha="b" * 40), "old"), (4, "project_42_bot_9f9f"))


def many(fake: FakeGitLab) -> None:
    for number in range(250):
        old(fake) if number == 20 else fake.note(7, f"{number}")


def fault(**facts: Any) -> Callable[[FakeGitLab], object]:
    return lambda fake: fake.faults.append(Fault(**facts))


LIMIT = json_of({"message": {"error": "This endpoint has been requested too many times."}})
SCOPE = json_of({"error": "insufficient_scope", "error_description": "The request requires higher privileges."})
BLANK = json_of({"message": {"note": ["can't be blank"]}})
HOSTILE = "/merge\n  /approve\n```\n/close\n```\nsee !12, &#38;3, group/a!4, %5 but https://x/%20 and a/b"
STORIES: dict[str, tuple[list[Callable[[FakeGitLab], object]], dict[str, Any]]] = {
    "the first": ([], {}),
    "more than a hundred notes": ([many], {}),
    "of an older token": ([rotated], {}),
    "of an older token that is named": ([rotated], {"author": "project_42_bot_9f9f"}),
    "quick actions and references": ([], {"body": HOSTILE}),
    "too long": ([], {"body": "x" * 1_000_001}),
    "no scope": ([fault(method="POST", status=403, body=SCOPE)], {}),
    "a note that may not be changed": ([old, fault(method="PUT", status=403)], {}),
    "a wrong token": ([old], {"token": "glpat-wrong"}),
    "a rate limit": ([fault(method="POST", status=429, body=LIMIT, headers={"Retry-After": "42"})], {}),
    "a rate limit without a time": ([fault(method="POST", status=429, body=LIMIT)], {}),
    "an outage": ([fault(status=502, times=2)], {}),
    "an outage for ever": ([fault(status=503, times=99)], {}),
    "a lost answer": ([fault(method="POST", drop="after")], {}),
    "what GitLab declines": ([fault(method="POST", status=400, body=BLANK)], {}),
    "a page of a proxy": ([fault(status=200, body=b"<html>Sign in</html>")], {}),
    "an unknown merge request": ([fault(status=404, times=9)], {}),
    "no note of its own": ([old], {"own_only": True}),
}
"""What happens, and the comment. What comes of it is in tests/data/golden_gitlab_notes.txt."""


def test_notes__one_note_whatever_happens_on_the_way() -> None:
    lines = []
    for name, (happens, comment) in STORIES.items():
        with fake_gitlab() as fake:
            for each in happens:
                each(fake)
            clock = Clock()
            posted = post(fake, clock, **comment)
            waits = f" after {clock.slept}" if clock.slept else ""
            lines.append(f"{name}: {posted.kind}{waits}: {posted.message} {posted.url or ''}".rstrip())
            bots = [note for note in fake.notes.get(7, []) if "bot" in note["author"]["username"]]
            lines += [f"    {note['author']['username']}, {note['edits']} edits: {note['body']!r}" for note in bots]
            assert "glpat" not in f"{posted}"
            lines[:] = [line.replace(fake.url, "https://gitlab.example") for line in lines]
    check("golden_gitlab_notes.txt", "\n".join(lines) + "\n")


def test_labels__who_accepts_the_rules_of_a_merge_request(fake: FakeGitLab) -> None:
    pipeline = fake.pipeline("a" * 40, "refs/merge-requests/7/head", "merge_request_event")
    before, after, later = "2026-11-02T09:59:00.000Z", "2026-11-02T11:00:00.000+00:00", "2026-11-02T12:00:00.000Z"
    lines = []

    def asked(situation: str) -> None:
        accepted = client(fake, Clock()).acceptance(7, run_id=pipeline["id"], started_by_label=False)
        lines.append(f"{situation}: {accepted.by or 'nobody'} {accepted.why_not}".rstrip() + "\n")

    asked("no label")
    fake.label(ACCEPT_RULES, after)
    asked("by somebody who is no member")
    fake.members[9] = 20
    asked("by a reporter, e.g. the author of the merge request")
    fake.members[9] = 30
    asked("by a developer after the push")
    fake.label(ACCEPT_RULES, later, action="remove")
    asked("removed again")
    fake.labels.clear()
    for number in range(120):
        fake.label(f"area {number}", after)
    fake.label(ACCEPT_RULES.upper(), before)
    asked("from before the push")
    fake.label(ACCEPT_RULES, after, BOT)
    asked("by a program")
    fake.label(ACCEPT_RULES, later, None)
    asked("by somebody whose account is gone")
    fake.faults.append(Fault(status=403, times=9, body=SCOPE))
    asked("labels that can't be read")
    check("golden_gitlab_labels.txt", "".join(lines))


def test_find_earlier__a_job_of_another_name_or_a_first_one_is_no_retry(fake: FakeGitLab) -> None:
    suspect = CaseDecisionReport(case_id="evals/a.test.json:one", metric="pass", word="suspicious")
    decision = DecisionReport(outcome="passed", reasons=[], cases=[suspect], suites=[], alpha=0.05)
    pushed = Origin(repository=fake.path, commit="c" * 40, event="pull_request", pull_request=7)
    zipped = artifact(results(decision=decision, origin=pushed))
    before = fake.job(
        fake.pipeline("c" * 40, "refs/merge-requests/7/head", "merge_request_event"),
        artifacts_file={"filename": "artifacts.zip", "size": len(zipped)},
    )
    fake.zips[before["id"]] = zipped
    deleted = fake.pipeline("e" * 40, "refs/merge-requests/7/head", "merge_request_event")
    fake.job(deleted, artifacts_file={"filename": "artifacts.zip", "size": 9})
    pipeline = fake.pipeline("a" * 40, "refs/merge-requests/7/head", "merge_request_event")
    request = BaselineRequest(repository=fake.path, base_ref="main", commit="b" * 40, how="", is_pull_request=True)
    merge_request = PullRequest(
        number=7,
        head_sha="a" * 40,
        head_ref="feature",
        head_repository=fake.path,
        base_ref="main",
        base_sha="b" * 40,
        is_fork=False,
    )
    about = Activity(kind="compare", pull_request=merge_request, explanation="")

    def earlier(job: dict[str, Any], key: str = "") -> Earlier:
        facts = {"run_id": pipeline["id"], "run_attempt": job["id"], "workflow": ".gitlab-ci.yml"}
        origin = Origin(repository=fake.path, commit="a" * 40, event="pull_request", pull_request=7, **facts)
        forge = client(fake, Clock())
        ci = replace(LOCAL, make_origin=lambda: origin, activity=about, forge=forge, baseline_request=request)
        return find_earlier(ci, lambda _: None, case_ids=["evals/a.test.json:one"], key=key, comment_author=BOT[1])

    fake.job(pipeline, "lint")
    first = fake.job(pipeline)
    assert earlier(first).missing is None, "else every case would run twice more in each merge request"
    assert earlier(first).before == {suspect.case_id}, "what the previous push was suspected of"
    assert earlier(fake.job(pipeline)).missing == "", "an attempt was cancelled, or has failed before it had results"
    for status in (403, 404):
        fake.faults.append(Fault(status=status))
        unknown = earlier(first)
        assert unknown.unknown and f"answered {status}" in (unknown.missing or ""), "it is as without results"

    content = json.dumps({"about": _about("a" * 40, ["evals/a.test.json:one"]), "usual": "1  ", "cases": {}})
    memory = base64.b64encode(zlib.compress(content.encode())).decode()
    fake.note(7, marked("evals", RUN, f"## Failed\n{Memory(run=RUN, data=memory).line}"), BOT)
    fake.note(7, marked("evals", RUN, f"## Forged\n{Memory(run=RUN, data='AAAA').line}"))
    known = earlier(fake.job(pipeline), "evals")
    assert known.missing is None and [each.usual for each in known.remembered] == ["1  "]
    assert earlier(fake.job(pipeline), "lint").missing == "", "another gate's comment says nothing of this one"
    fake.faults.append(Fault(path="notes", status=503, times=99))
    assert "503" in (earlier(fake.job(pipeline), "evals").missing or "")


def test_forge__commits_files_pipelines_and_artifacts(gitlab: GitLabLab) -> None:
    lab, fake = gitlab, gitlab.fake
    head = lab.commit(door=["lamp"])
    lab.push("feature")
    forge = client(fake, Clock())
    assert forge.commit_parents(head) == (lab.base,)
    lab.repo.branch("other", lab.base)
    lab.repo.commit({"other": "x"})
    merge = lab.repo.merge("other", head)
    lab.push("merged")
    assert forge.first_parents(merge, limit=5) == [merge, head, lab.base]
    assert forge.merge_base("main", head) == lab.base
    assert forge.file_at(".gitignore", head) == b"agent-eval-results/" and b"eval_cases" in (
        forge.file_at("evals/home.evalset.json", head) or b""
    )
    fake.faults.append(Fault(status=404))
    assert forge.file_at("none", head) is None
    fake.pipeline(head, "feature", "push")
    pushed = fake.pipeline(lab.base, "main", "push")
    manual = fake.pipeline(lab.base, "main", "web", "running")
    fake.pipeline(lab.base, "main", "api", "canceled")
    listed = forge.list_runs(workflow="w", branch="main")
    assert [(run.event, run.status, run.conclusion) for run in listed] == [
        ("api", "completed", "cancelled"),
        ("workflow_dispatch", "in_progress", "running"),
        ("push", "completed", "success"),
    ]
    assert [run.id for run in forge.list_runs(workflow="w", event="workflow_dispatch", head_sha=lab.base)] == [
        manual["id"]
    ]
    expired = fake.job(pushed, artifacts_expire_at="2026-01-01T00:00:00.000Z")
    fake.job(pushed, "lint", artifacts_file={"size": 3})
    kept = fake.job(pushed, artifacts_file={"size": 5}, artifacts_expire_at="2026-01-01T00:00:00.000Z")
    fake.job(pushed, status="running")
    found = [(item.id, item.size_in_bytes, item.expired) for item in forge.list_artifacts(pushed["id"], "x")]
    assert found == [(kept["id"], 5, False), (expired["id"], 0, True)]
    fake.zips[kept["id"]] = b"zip"
    assert forge.download_artifact(kept["id"], max_bytes=3) == b"zip"
    with pytest.raises(RestError, match="404"):
        forge.download_artifact(expired["id"], max_bytes=3)
