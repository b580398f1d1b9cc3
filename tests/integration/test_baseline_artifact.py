"""The artifact of the base branch's own run, or a plain sentence why there is none: never another run's results.

Every request and answer is held to GitHub's OpenAPI description by the stand-in.
"""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from base_repos import new_repo
from fake_github import FakeGitHub, Fault, Run, forbidden, secondary_limit

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from baseline_samples import WORKFLOW, artifact, case, results, wire, zipped

from agent_eval.baseline.archive import ArchiveLimits
from agent_eval.baseline.artifact import ArtifactSource
from agent_eval.baseline.git import Git, GitError
from agent_eval.baseline.lookup import Baseline, BaselineRequest, FetchFailed, Found, Incompatible, NoneYet
from agent_eval.github.client import Waiting
from agent_eval.github.forge import GitHub
from agent_eval.results.report import Origin, RunReport

NO_GIT = GitError("/work is not in a git checkout.")
RED = results(case("one"), case("two", "failed"))
PARTIAL = results(case("one"), case("two", "not_run"))


@dataclass
class Bench:
    """A repository with 30 commits on main, on GitHub; the last one is request."""

    fake: FakeGitHub
    commits: list[str] = field(default_factory=list)
    """Newest first."""
    slept: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fake.state.run(self.fake.state.commit(), event="pull_request", branch="feature")  # so that it is known
        self.commits = self.fake.state.history(30)[::-1]

    @property
    def request(self) -> BaselineRequest:
        return BaselineRequest(
            repository=self.fake.state.repository,
            base_ref="main",
            commit=self.commits[0],
            how="the first parent of the merge commit that was tested",
            is_pull_request=True,
            workflow=WORKFLOW,
        )

    def record(self, distance: int = 0, report: RunReport = RED, **facts: object) -> Run:
        """A run of the base branch that has uploaded results."""
        run = self.fake.state.run(self.commits[distance], **{"conclusion": "failure", **facts})  # type: ignore[arg-type]
        self.fake.state.artifact(run, artifact(report))
        return run

    def client(self, token: str | None = None) -> GitHub:
        return GitHub(
            api_url=self.fake.api_url,
            repository=self.fake.state.repository,
            token=self.fake.token if token is None else token,
            waiting=Waiting(sleep=self.slept.append, jitter=lambda: 0.0),
        )

    async def find(
        self,
        *,
        git: Git | GitError = NO_GIT,
        depth: int = 20,
        token: str | None = None,
        limits: ArchiveLimits | None = None,
        **changes: object,
    ) -> Baseline:
        request = dataclasses.replace(self.request, **changes)  # type: ignore[arg-type]
        source = ArtifactSource(forge=self.client(token), git=git, depth=depth, limits=limits or ArchiveLimits())
        return await source.find(request)

    def short(self, distance: int = 0) -> str:
        return self.commits[distance][:7]

    def asked(self, part: str) -> int:
        return sum(part in request.path for request in self.fake.requests)


@pytest.fixture
def bench() -> Iterator[Bench]:
    with FakeGitHub() as fake:
        yield Bench(fake)


async def test_artifact__the_results_of_the_wanted_commit(bench: Bench) -> None:
    run = bench.record()

    baseline = await bench.find()

    assert isinstance(baseline, Found)
    assert baseline.report == RED
    assert (baseline.provenance.commit, baseline.provenance.distance) == (bench.commits[0], 0)
    assert baseline.provenance.run_id == run.id
    assert baseline.provenance.run_url is not None
    assert baseline.message == f"The base branch's results come from main at {bench.short()}."
    assert len(bench.fake.requests) == 5


@pytest.mark.parametrize("distance", [0, 2])
@pytest.mark.parametrize("branch", ["main", "feature"])
async def test_runs_that_a_stranger_starts_on_the_base_s_commit__hide_nothing(
    bench: Bench, distance: int, branch: str
) -> None:
    own = bench.record(distance)
    for _ in range(310):
        bench.fake.state.run(
            bench.commits[distance], event="pull_request", branch=branch, head_repository="mallory/shop"
        )

    baseline = await bench.find()

    assert isinstance(baseline, Found)
    assert baseline.provenance.run_id == own.id


@pytest.mark.parametrize("event", ["push", "schedule", "workflow_dispatch"])
async def test_artifact__what_records(bench: Bench, event: str) -> None:
    bench.record(event=event)

    assert isinstance(await bench.find(), Found)


async def test_artifact__the_newest_run_of_the_commit(bench: Bench) -> None:
    bench.record(report=RED)
    bench.record(report=results(case("newest")))

    baseline = await bench.find()

    assert isinstance(baseline, Found)
    assert [item.eval_id for item in baseline.report.cases] == ["newest"]


async def test_artifact__the_newest_complete_artifact_of_several_attempts(bench: Bench) -> None:
    run = bench.record(report=results(case("first attempt")))
    bench.fake.state.artifact(run, artifact(PARTIAL))

    baseline = await bench.find()

    assert isinstance(baseline, Found)
    assert [item.eval_id for item in baseline.report.cases] == ["first attempt"]


async def test_artifact__never_ones_own_run(bench: Bench) -> None:
    own = bench.record()
    bench.record(1, results(case("before")))

    baseline = await bench.find(own_run=own.id)

    assert isinstance(baseline, Found)
    assert [item.eval_id for item in baseline.report.cases] == ["before"]


async def test_artifact__walking_back_along_first_parents_and_saying_so(bench: Bench) -> None:
    """Commits of merged branches lie between those of main; their runs are of other branches."""
    state = bench.fake.state
    side = state.commit(bench.commits[0])
    merged = state.commit(bench.commits[0], side, branch="main")
    bench.commits.insert(0, merged)
    state.artifact(state.run(side, branch="main"), artifact(results(case("side"))))
    bench.record(3)

    baseline = await bench.find()

    assert isinstance(baseline, Found)
    assert (baseline.provenance.commit, baseline.provenance.distance) == (bench.commits[3], 3)
    assert baseline.report == RED
    assert baseline.message == (
        f"The base branch's results come from main at {bench.short(3)}, "
        f"3 commits before the tested base {bench.short()}, which has no results."
    )
    assert bench.asked("/commits") == 1


async def test_artifact__twenty_commits_and_no_further(bench: Bench) -> None:
    bench.record(21)
    assert isinstance(await bench.find(), NoneYet)

    bench.record(20)
    baseline = await bench.find()
    assert isinstance(baseline, Found)
    assert baseline.provenance.distance == 20
    assert isinstance(await bench.find(depth=19), NoneYet)
    assert isinstance(await bench.find(depth=0), NoneYet)


async def test_artifact__a_full_clone_knows_first_parents_without_a_request(bench: Bench, tmp_path: Path) -> None:
    repo = new_repo(tmp_path / "repo")
    commits = [repo.commit({"a": str(number)}) for number in range(5)][::-1]
    bench.fake.state.take_git(repo.root)
    bench.commits = commits
    bench.record(4)

    baseline = await bench.find(git=repo.opened())

    assert isinstance(baseline, Found)
    assert baseline.provenance.distance == 4
    assert bench.asked("/commits") == 0


async def test_artifact__a_shallow_clone_asks_github_for_the_rest(bench: Bench, tmp_path: Path) -> None:
    repo = new_repo(tmp_path / "repo")
    commits = [repo.commit({"a": str(number)}) for number in range(5)][::-1]
    clone = repo.shallow_checkout(commits[0], tmp_path / "clone")
    bench.fake.state.take_git(repo.root)
    bench.commits = commits
    bench.record(4)

    baseline = await bench.find(git=clone.opened())

    assert isinstance(baseline, Found)
    assert baseline.provenance.distance == 4
    assert bench.asked("/commits") == 1


def _nothing(bench: Bench) -> None:
    pass


def _another_workflow(bench: Bench) -> None:
    bench.record(path=".github/workflows/other.yml")


def _another_workflow_s_file(bench: Bench) -> None:
    """Whatever GitHub lists for the file's name."""
    bench.record(path=".github/workflows/old/evals.yml")


def _another_artifact(bench: Bench) -> None:
    run = bench.fake.state.run(bench.commits[0])
    bench.fake.state.artifact(run, artifact(RED), name="coverage")


def _forks_main(bench: Bench) -> None:
    bench.record(event="pull_request", head_repository="mallory/shop")
    bench.record(1, event="push", head_repository="mallory/shop")


def _deleted_fork(bench: Bench) -> None:
    bench.record(head_repository=None)


def _another_branch(bench: Bench) -> None:
    bench.record(branch="feature")


def _pull_request_of_main(bench: Bench) -> None:
    bench.record(event="pull_request")


def _merge_queue(bench: Bench) -> None:
    bench.record(event="merge_group")


def _cancelled(bench: Bench) -> None:
    bench.record(conclusion="cancelled", report=PARTIAL)


def _going_on(bench: Bench) -> None:
    bench.record(status="in_progress", conclusion=None)


def _crashed(bench: Bench) -> None:
    run = bench.fake.state.run(bench.commits[0], conclusion="failure")
    bench.fake.state.artifact(run, zipped({"logs/bot/worker-1.log": b"Killed"}))


def _invalid(bench: Bench) -> None:
    bench.record(report=results(verdict="invalid", cases=[]))


@pytest.mark.parametrize(
    ("situation", "message"),
    [
        (_nothing, "It exists once the workflow has run on a push to main."),
        (_another_workflow, "It exists once the workflow has run on a push to main."),
        (
            _another_workflow_s_file,
            "Ignored: 1 run of another workflow (.github/workflows/old/evals.yml).",
        ),
        (_another_artifact, "The green run of {short} ({url}) has no artifact agent-eval-results."),
        (_forks_main, "Ignored: 2 runs of a fork's branch of the same name (main)."),
        (_deleted_fork, "Ignored: 1 run of a fork's branch of the same name (main)."),
        (_another_branch, "Ignored: 1 run of another branch (feature)."),
        (_pull_request_of_main, "Ignored: 1 run on the event pull_request, which records no baseline."),
        (_merge_queue, "Ignored: 1 run on the event merge_group, which records no baseline."),
        (
            _cancelled,
            "The cancelled run of {short} ({url}) is not usable: 1 of its 2 cases did not finish, so "
            "the run was interrupted.",
        ),
        (_going_on, "The run of {short} ({url}) has not ended yet."),
        (_crashed, "The artifact of the red run of {short} ({url}) has no results.json."),
        (
            _invalid,
            "The red run of {short} ({url}) is not usable: its eval files or settings were invalid, so nothing was "
            "run.",
        ),
    ],
)
async def test_artifact__none_yet_and_why(bench: Bench, situation: Callable[[Bench], None], message: str) -> None:
    situation(bench)

    baseline = await bench.find()

    assert isinstance(baseline, NoneYet)
    begin = f"No run of {WORKFLOW} on main has results for {bench.short()} or the 20 commits before it."
    run = max(bench.fake.state.runs)
    url = f"{bench.fake.server_url}/{bench.fake.state.repository}/actions/runs/{run}"
    said = " ".join(part for part in (baseline.message, baseline.hint) if part)
    assert said.startswith(f"{begin} {message.format(short=bench.short(), url=url)}")


@pytest.mark.parametrize(
    "situation", [_another_artifact, _forks_main, _another_branch, _cancelled, _going_on, _crashed, _invalid]
)
async def test_artifact__an_earlier_commit_serves_then_and_the_reason_is_reported(
    bench: Bench, situation: Callable[[Bench], None]
) -> None:
    situation(bench)
    bench.record(2, results(case("earlier")))

    baseline = await bench.find()

    assert isinstance(baseline, Found)
    assert [item.eval_id for item in baseline.report.cases] == ["earlier"]
    assert baseline.provenance.distance == 2
    assert f"2 commits before the tested base {bench.short()}" in baseline.message


async def test_artifact__a_red_run_and_a_cancelled_one_with_complete_results_serve(bench: Bench) -> None:
    bench.record(conclusion="cancelled", report=RED)

    baseline = await bench.find()

    assert isinstance(baseline, Found)
    assert baseline.report.verdict == "failed"


def _expired(bench: Bench) -> None:
    run = bench.fake.state.run(bench.commits[0])
    bench.fake.state.artifact(run, artifact(RED), expired=True)


def _gone_meanwhile(bench: Bench) -> None:
    bench.record()
    bench.fake.faults.append(Fault(path="/zip", status=410, times=9))


@pytest.mark.parametrize("situation", [_expired, _gone_meanwhile])
async def test_artifact__what_has_expired_is_not_the_same_as_none_yet(
    bench: Bench, situation: Callable[[Bench], None]
) -> None:
    situation(bench)

    baseline = await bench.find()

    assert isinstance(baseline, FetchFailed)
    assert f"run of {bench.short()}" in baseline.message
    assert "has expired or was deleted." in baseline.message
    assert baseline.hint == "Re-run the workflow on the base branch to record a baseline."


async def test_artifact__what_has_expired_gives_way_to_an_earlier_commit(bench: Bench) -> None:
    _expired(bench)
    bench.record(1)

    baseline = await bench.find()

    assert bench.asked("/zip") == 1

    assert isinstance(baseline, Found)
    assert baseline.provenance.distance == 1
    assert "has expired or was deleted." in baseline.message


def _zip(data: bytes) -> Callable[[Bench], None]:
    def upload(bench: Bench) -> None:
        bench.fake.state.artifact(bench.fake.state.run(bench.commits[0]), data)

    return upload


def _origin(**facts: object) -> Callable[[Bench], None]:
    def upload(bench: Bench) -> None:
        origin = Origin.model_validate({"repository": "octo/shop", "commit": bench.commits[0], **facts})
        bench.record(report=results(origin=origin))

    return upload


def _other_digest(bench: Bench) -> None:
    """The store gives something else than what was uploaded."""
    bench.record()
    bench.fake.faults.append(Fault(path="/store/", status=200, body=artifact(results(case("forged")))))


LIMITS = ArchiveLimits(archive_bytes=50_000, results_bytes=20_000, ratio=100)


@pytest.mark.parametrize(
    ("situation", "message"),
    [
        (_zip(b"no zip"), "is not used: it is damaged or not a zip archive"),
        (
            _zip(zipped({"results.json": b" " * 19_000})),
            "is not used: its results.json is compressed more than 100-fold",
        ),
        (
            _zip(zipped({"results.json": wire(RED), "../../evil": b""})),
            "is not used: an entry is outside the archive: ../../evil",
        ),
        (_zip(zipped({"results.json": b"\x00" * 20_001})), "is not used: its results.json is larger than"),
        (_zip(bytes(50_001)), "is not used: it is too large (50,001 bytes)"),
        (_zip(zipped({"results.json": b'{"tests": 3}'})), "is not used: it is not a results.json of agent-eval"),
        (_zip(zipped({"results.json": b"{"})), "is not used: it is not JSON"),
        (
            _zip(artifact(results(case("one"), case("one")))),
            "is not used: it has the case evals/a.test.json:one 2 times",
        ),
        (_other_digest, "is not used: its digest differs from the uploaded file's"),
        (_origin(commit="f" * 40), "is not used: its results are those of another commit (fffffff)"),
        (_origin(run_id=7), "is not used: its results are those of another run (7)"),
        (_origin(pull_request=3), "is not used: its results are those of pull request 3"),
        (
            _origin(event="merge_group", ref="refs/heads/main"),
            "is not used: its results are not those of the base branch (Only a push, a schedule or a dispatch",
        ),
        (
            _origin(event="push", ref="refs/heads/feature"),
            "is not used: its results are not those of the base branch (Baselines are recorded on main only",
        ),
        (_origin(repository="octo/other"), "is not used: its results are those of the repository octo/other"),
    ],
)
async def test_artifact__what_must_not_be_used_ends_the_search(
    bench: Bench, situation: Callable[[Bench], None], message: str
) -> None:
    situation(bench)
    bench.record(1)

    baseline = await bench.find(limits=LIMITS)

    assert isinstance(baseline, FetchFailed)
    assert message in baseline.message
    assert bench.short() in baseline.message


async def test_artifact__results_that_say_the_right_things_of_themselves(bench: Bench) -> None:
    state = bench.fake.state
    run = state.run(bench.commits[0])
    origin = Origin(repository="Octo/Shop", commit=bench.commits[0], run_id=run.id, event="push", ref="refs/heads/main")
    state.artifact(run, artifact(results(origin=origin)))

    assert isinstance(await bench.find(), Found)


async def test_artifact__another_version_of_the_schema(bench: Bench) -> None:
    _zip(zipped({"results.json": wire(RED).replace(b'"schema_version":"1"', b'"schema_version":"2"')}))(bench)
    bench.record(1)

    baseline = await bench.find()

    assert isinstance(baseline, Incompatible)
    assert "in version 2 of the results' schema" in baseline.message


def _status(status: int) -> Fault:
    return Fault(status=status, body=b'{"message": "Nope", "documentation_url": "x"}', times=10**6)


@pytest.mark.parametrize(
    ("fault", "begin", "hint"),
    [
        (
            forbidden(),
            f"The token may not read the runs of {WORKFLOW}: GET /repos/octo/shop/actions/workflows/evals.yml/runs: "
            "GitHub answered 403",
            "Add `actions: read` to the job's `permissions`.",
        ),
        (
            _status(404),
            f"GitHub knows no runs of {WORKFLOW}: ",
            "Either it has not run yet, or the token lacks `actions: read`.",
        ),
        (_status(401), "The base branch's results could not be fetched: ", "The token is wrong or has expired"),
        (_status(500), "The base branch's results could not be fetched: ", "https://www.githubstatus.com"),
        (_status(503), "The base branch's results could not be fetched: ", "https://www.githubstatus.com"),
        (secondary_limit(times=10**6), "The base branch's results could not be fetched: ", "Re-run the job later"),
        (Fault(status=200, body=b'{"workflow_runs": 7}'), "The base branch's results could not be fetched: ", None),
        (Fault(status=200, body=b"<html>"), "The base branch's results could not be fetched: ", None),
        (Fault(drop="before", times=10**6), "The base branch's results could not be fetched: ", None),
    ],
)
@pytest.mark.parametrize("at", ["workflows/evals.yml/runs", "artifacts$", "zip$", "store"])
async def test_artifact__an_answer_that_does_not_come_is_no_answer(
    bench: Bench, fault: Fault, begin: str, hint: str | None, at: str
) -> None:
    """Also when an older commit has results: the nearer ones might be usable."""
    bench.record()
    bench.record(1)
    bench.fake.faults.append(dataclasses.replace(fault, path=at))
    baseline = await bench.find()

    assert isinstance(baseline, FetchFailed)
    if at == "workflows/evals.yml/runs":
        assert baseline.message.startswith(begin)
        assert (hint or "") in (baseline.hint or "")
    assert bench.fake.token not in f"{baseline}"


async def test_artifact__without_a_token_or_outside_of_github(bench: Bench) -> None:
    bench.record()

    anonymous = await bench.find(token="")
    nowhere = await bench.find(workflow="")
    no_client = await ArtifactSource(forge=None, git=NO_GIT).find(bench.request)

    assert isinstance(anonymous, FetchFailed)
    assert anonymous == no_client
    assert anonymous.message == "Artifacts can't be read without a token."
    assert nowhere == FetchFailed(
        message="Artifacts of earlier runs exist on GitHub Actions only.", hint="Elsewhere, use `baseline: rerun`."
    )
    assert bench.fake.requests == []


async def test_artifact__a_base_branch_that_was_rewritten(bench: Bench) -> None:
    bench.record(1)
    gone = hashlib.sha1(b"gone").hexdigest()

    baseline = await bench.find(commit=gone)

    assert isinstance(baseline, FetchFailed)
    assert baseline.message == (
        f"GitHub does not know the commit {gone[:7]}, the tested base or one of its ancestors: main was rewritten."
    )


async def test_artifact__hundreds_of_runs_by_pages(bench: Bench) -> None:
    bench.record(5)
    for _ in range(230):
        bench.fake.state.run(bench.commits[0], event="schedule", conclusion="cancelled", branch="other")
        bench.fake.state.run(bench.fake.state.commit(), branch="main")

    baseline = await bench.find()

    assert isinstance(baseline, Found)
    assert baseline.provenance.distance == 5


async def test_artifact__an_artifact_by_another_name(bench: Bench) -> None:
    run = bench.fake.state.run(bench.commits[0])
    bench.fake.state.artifact(run, artifact(results(case("mine"))), name="home-results")
    bench.fake.state.artifact(run, artifact(RED))

    baseline = await bench.find(artifact="home-results")

    assert isinstance(baseline, Found)
    assert [item.eval_id for item in baseline.report.cases] == ["mine"]
