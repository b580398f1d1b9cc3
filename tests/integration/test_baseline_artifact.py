"""The base branch's results from an artifact of its own run or from a file, or a plain sentence why there are none."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from base_repos import Repo, new_repo
from baseline_samples import WORKFLOW, artifact, case, results, wire, zipped
from fake_github import FakeGitHub, Fault, Run, forbidden, secondary_limit
from gate_runs import Repository
from github_clock import client
from golden_files import check
from recorded_evals import AGENT, write_evals

from agent_eval import __version__
from agent_eval.baseline.archive import ArchiveLimits, recorded_lines
from agent_eval.baseline.artifact import ArtifactSource
from agent_eval.baseline.file import FileSource
from agent_eval.baseline.git import Git, GitError, Remote
from agent_eval.baseline.lookup import Baseline, BaselineRequest, FetchFailed, Found, NoneYet
from agent_eval.results.report import Origin, RunReport

# The artifact of the base branch's own run, or a plain sentence why there is none: never another run's results.
#
# Every request and answer is held to GitHub's OpenAPI description by the stand-in.


NO_GIT = GitError("/work is not in a git checkout.")
RED = results(case("one"), case("two", "failed"))
PARTIAL = results(case("one"), case("two", "not_run"))


@dataclass
class Bench:
    """A repository with 30 commits on main, on GitHub; the last one is request."""

    fake: FakeGitHub
    commits: list[str] = field(default_factory=list)
    """Newest first."""

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

    def record(self, distance: int = 0, report: RunReport | bytes = RED, **facts: Any) -> Run:
        """A run of the base branch that has uploaded results, or another zip."""
        run = self.fake.state.run(self.commits[distance], **{"conclusion": "failure", **facts})
        self.fake.state.artifact(run, report if isinstance(report, bytes) else artifact(report))
        return run

    async def find(
        self,
        *,
        git: Git | GitError = NO_GIT,
        depth: int = 20,
        token: str | None = None,
        limits: ArchiveLimits | None = None,
        **changes: Any,
    ) -> Baseline:
        forge = client(self.fake) if token is None else client(self.fake, token=token)
        source = ArtifactSource(forge=forge, git=git, depth=depth, limits=limits or ArchiveLimits())
        return await source.find(dataclasses.replace(self.request, **changes))

    async def found(self, **options: Any) -> Found:
        baseline = await self.find(**options)
        assert isinstance(baseline, Found), baseline
        return baseline

    async def cases(self, **options: Any) -> list[str]:
        return [item.eval_id for item in (await self.found(**options)).report.cases]

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

    baseline = await bench.found()

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

    assert (await bench.found()).provenance.run_id == own.id


async def test_artifact__the_newest_complete_one_of_a_run_that_records(bench: Bench) -> None:
    for event in ("push", "schedule", "workflow_dispatch"):
        newest = bench.record(report=results(case(event)), event=event)
        assert await bench.cases() == [event]
    bench.fake.state.artifact(newest, artifact(PARTIAL))
    assert await bench.cases() == ["workflow_dispatch"], "of several attempts"
    assert await bench.cases(own_run=newest.id) == ["schedule"], "never of one's own run"
    bench.record(report=results(case("cancelled")), conclusion="cancelled")
    assert await bench.cases() == ["cancelled"], "it is complete"
    bench.fake.state.artifact(newest, artifact(results(case("mine"))), name="home-results")
    assert await bench.cases(artifact="home-results") == ["mine"]


async def test_artifact__walking_back_along_first_parents_and_saying_so(bench: Bench) -> None:
    """Commits of merged branches lie between those of main; their runs are of other branches."""
    state = bench.fake.state
    side = state.commit(bench.commits[0])
    merged = state.commit(bench.commits[0], side, branch="main")
    bench.commits.insert(0, merged)
    state.artifact(state.run(side, branch="main"), artifact(results(case("side"))))
    bench.record(3)

    baseline = await bench.found()

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
    assert (await bench.found()).provenance.distance == 20
    assert isinstance(await bench.find(depth=19), NoneYet)
    assert isinstance(await bench.find(depth=0), NoneYet)


@pytest.mark.parametrize("shallow", [False, True])
async def test_artifact__github_is_asked_for_the_first_parents_that_a_clone_lacks(
    bench: Bench, tmp_path: Path, shallow: bool
) -> None:
    repo = new_repo(tmp_path / "repo")
    bench.commits = [repo.commit({"a": str(number)}) for number in range(5)][::-1]
    bench.fake.state.take_git(repo.root)
    bench.record(4)
    clone = repo.shallow_checkout(bench.commits[0], tmp_path / "clone") if shallow else repo

    assert (await bench.found(git=clone.opened())).provenance.distance == 4
    assert bench.asked("/commits") == shallow


@pytest.mark.parametrize("meanwhile", [False, True])
async def test_artifact__what_has_expired_is_not_the_same_as_none_yet(bench: Bench, meanwhile: bool) -> None:
    run = bench.fake.state.run(bench.commits[0])
    bench.fake.state.artifact(run, artifact(RED), expired=not meanwhile)
    if meanwhile:
        bench.fake.faults.append(Fault(path="/zip", status=410))

    baseline = await bench.find()

    assert isinstance(baseline, FetchFailed)
    assert f"run of {bench.short()}" in baseline.message
    assert "has expired or was deleted." in baseline.message
    assert baseline.hint == "Re-run the workflow on the base branch to record a baseline."
    if not meanwhile:
        bench.record(1)
        earlier = await bench.found()
        assert bench.asked("/zip") == 1
        assert earlier.provenance.distance == 1
        assert "has expired or was deleted." in earlier.message


def _origin(**facts: object) -> Callable[[Bench], None]:
    def upload(bench: Bench) -> None:
        origin = Origin.model_validate({"repository": "octo/shop", "commit": bench.commits[0], **facts})
        bench.record(report=results(origin=origin))

    return upload


def _other_digest(bench: Bench) -> None:
    """The store gives something else than what was uploaded."""
    bench.record()
    bench.fake.faults.append(Fault(path="/store/", status=200, body=artifact(results(case("forged")))))


NEWER = zipped({"results.json": wire(RED).replace(b'"schema_version":"1"', b'"schema_version":"2"')})


IGNORED: dict[str, Callable[[Bench], object]] = {
    "nothing": lambda _: None,
    "another workflow": lambda bench: bench.record(path=".github/workflows/other.yml"),
    "another workflow of the file's name": lambda bench: bench.record(path=".github/workflows/old/evals.yml"),
    "another artifact": lambda bench: bench.fake.state.artifact(
        bench.fake.state.run(bench.commits[0]), artifact(RED), name="coverage"
    ),
    "main of a fork": lambda bench: [
        bench.record(event="pull_request", head_repository="mallory/shop"),
        bench.record(1, event="push", head_repository="mallory/shop"),
    ],
    "a deleted fork": lambda bench: bench.record(head_repository=None),
    "another branch": lambda bench: bench.record(branch="feature"),
    "a pull request of main": lambda bench: bench.record(event="pull_request"),
    "a merge queue": lambda bench: bench.record(event="merge_group"),
    "cancelled": lambda bench: bench.record(conclusion="cancelled", report=PARTIAL),
    "going on": lambda bench: bench.record(status="in_progress", conclusion=None),
    "crashed": lambda bench: bench.record(report=zipped({"logs/bot/worker-1.log": b"Killed"})),
    "invalid": lambda bench: bench.record(report=results(verdict="invalid", cases=[])),
}
"""No results yet: an earlier commit serves."""
REFUSED: dict[str, Callable[[Bench], object]] = {
    "an entry outside": lambda bench: bench.record(report=zipped({"results.json": wire(RED), "../../evil": b""})),
    "too large": lambda bench: bench.record(report=bytes(50_001)),
    "no JSON": lambda bench: bench.record(report=zipped({"results.json": b"{"})),
    "a newer schema": lambda bench: bench.record(report=NEWER),
    "another digest": _other_digest,
    "another commit": _origin(commit="f" * 40),
    "another run": _origin(run_id=7),
    "a pull request": _origin(pull_request=3),
    "another branch's": _origin(event="push", ref="refs/heads/feature"),
    "another repository": _origin(repository="octo/other"),
}
"""They must not be used, and end the search."""


def plain(baseline: Baseline) -> str:
    """What is said, without what depends on versions of Python, of libraries and of ours."""
    text = f"{type(baseline).__name__}: {baseline.message} {baseline.hint or ''}".rstrip()
    text = re.sub(r"(?<=not JSON) \(.*?\)|(?<=could not be read): Symlink.*|(?<=could not be fetched): .*", "", text)
    return text.replace(f"this is agent-eval {__version__}", "this is agent-eval VERSION")


async def test_artifact__what_is_ignored_or_refused_and_why() -> None:
    said = []
    for name, happens in (IGNORED | REFUSED).items():
        with FakeGitHub() as fake:
            bench = Bench(fake)
            happens(bench)
            if name in REFUSED:
                bench.record(1)
            baseline = await bench.find(limits=ArchiveLimits(archive_bytes=50_000))
            said.append(f"{name}\n    {plain(baseline).replace(fake.server_url, 'https://github.example')}\n")
            if name in IGNORED:
                bench.record(2, results(case("earlier")))
                earlier = await bench.found()
                assert [item.eval_id for item in earlier.report.cases] == ["earlier"], name
                assert f"2 commits before the tested base {bench.short()}" in earlier.message
    check("golden_artifacts.txt", "".join(said))


async def test_artifact__results_that_say_the_right_things_of_themselves(bench: Bench) -> None:
    run = bench.fake.state.run(bench.commits[0])
    origin = Origin(repository="Octo/Shop", commit=bench.commits[0], run_id=run.id, event="push", ref="refs/heads/main")
    bench.fake.state.artifact(run, artifact(results(origin=origin)))

    await bench.found()


def _status(status: int) -> Fault:
    return Fault(status=status, body=b'{"message": "Nope", "documentation_url": "x"}', times=10**6)


FAILED = "The base branch's results could not be fetched: "
FAULTS: dict[str, tuple[Fault, str, str]] = {
    "forbidden": (
        forbidden(),
        f"The token may not read the runs of {WORKFLOW}: GET /repos/octo/shop/actions/workflows/evals.yml/runs: "
        "GitHub answered 403",
        "Add `actions: read` to the job's `permissions`.",
    ),
    "404": (
        _status(404),
        f"GitHub knows no runs of {WORKFLOW}: ",
        "Either it has not run yet, or the token lacks `actions: read`.",
    ),
    "401": (_status(401), FAILED, "The token is wrong or has expired"),
    "500": (_status(500), FAILED, "https://www.githubstatus.com"),
    "limit": (secondary_limit(times=10**6), FAILED, "Re-run the job later"),
    "malformed": (Fault(status=200, body=b'{"workflow_runs": 7}'), FAILED, ""),
    "no JSON": (Fault(status=200, body=b"<html>"), FAILED, ""),
    "dropped": (Fault(drop="before", times=10**6), FAILED, ""),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("at", ["workflows/evals.yml/runs", "artifacts$", "zip$", "store"])
async def test_artifact__an_answer_that_does_not_come_is_no_answer(bench: Bench, name: str, at: str) -> None:
    """Also when an older commit has results: the nearer ones might be usable."""
    fault, begin, hint = FAULTS[name]
    bench.record()
    bench.record(1)
    bench.fake.faults.append(dataclasses.replace(fault, path=at))
    baseline = await bench.find()

    assert isinstance(baseline, FetchFailed)
    if at == "workflows/evals.yml/runs":
        assert baseline.message.startswith(begin)
        assert hint in (baseline.hint or "")
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
        bench.fake.state.run(bench.fake.state.commit(), branch="main")

    assert (await bench.found()).provenance.distance == 5


# `file:PATH`: from the base's commit on a pull request, from the working tree elsewhere.


PATH = "evals/baseline.json"
GOOD = results(case("one"), origin=Origin(commit="ab" * 20, run_url="https://github.com/octo/bots/actions/runs/5"))
WORSE = results(case("one", "failed"))


async def ask(
    repo: Repo, commit: str, *, is_pull_request: bool = True, path: str = PATH, root: str = ".", max_bytes: int = 10_000
) -> Baseline:
    where = repo.root / root
    source = FileSource(path=path, root=where, git=Repo(where).opened(), max_bytes=max_bytes)
    request = BaselineRequest(
        repository="", base_ref="main", commit=commit, how="the merge base", is_pull_request=is_pull_request
    )
    return await source.find(request)


FILES: dict[str, bytes | None] = {
    "no file": None,
    "no JSON": b"{",
    "too large": b"x" * 10_001,
    "in Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
    "not finished": wire(results(case("one", "not_run"))),
    "a newer schema": wire(GOOD).replace(b'"schema_version":"1"', b'"schema_version":"9"'),
    **{
        f"a link to {target}": b"->" + target.encode()
        for target in ("/etc/hostname", "../../outside.json", "baseline.json", "../.git/config")
    },
    "a link that is as old as the commit": b"->../stored/good.json",
    "a directory": b"/",
}


async def test_file__is_that_of_the_base_on_a_pull_request_and_its_own_elsewhere(repo: Repo, tmp_path: Path) -> None:
    said = []

    async def told(situation: str, asked: Repo, commit: str, **more: Any) -> None:
        for is_pull_request in (True, False):
            baseline = await ask(asked, commit, is_pull_request=is_pull_request, **more)
            text = plain(baseline)
            if isinstance(baseline, Found):
                assert baseline.report == (GOOD if is_pull_request or more else WORSE)
                text += f" {baseline.provenance}"
            where = "on a pull request" if is_pull_request else "elsewhere"
            said.append(
                f"{situation}, {where}\n    {text.replace(str(tmp_path), 'FOLDER').replace(commit[:7], 'BASE')}\n"
            )

    (tmp_path / "outside.json").write_bytes(wire(GOOD))
    for situation, content in FILES.items():
        made = new_repo(tmp_path / situation.replace("/", " "))
        files = {"README": b"", "stored/good.json": wire(GOOD)}
        if content == b"/":
            files[f"{PATH}/x"] = b"{}"
        elif content is not None and not content.startswith(b"->"):
            files[PATH] = content
        made.write(files)
        if content is not None and content.startswith(b"->"):
            (made.root / PATH).parent.mkdir()
            (made.root / PATH).symlink_to(content[2:].decode())
        base = made.commit({})
        made.branch("feature")
        made.commit({"stored/good.json": wire(WORSE)})
        await told(situation, made, base)
    base = repo.commit({PATH: wire(GOOD), f"bots/home/{PATH}": wire(GOOD)})
    repo.branch("feature")
    head = repo.commit({PATH: wire(WORSE)})
    await told("another result", repo, base)
    await told("in the directory where agent-eval works", repo, base, root="bots/home")
    await told("in a shallow clone", repo.shallow_checkout(head, tmp_path / "clone"), base)
    cut = repo.shallow_checkout(head, tmp_path / "cut")
    cut.git("remote", "set-url", "origin", str(tmp_path / "gone"))
    await told("in a shallow clone without its remote", cut, "e" * 40)
    check("golden_baseline_files.txt", "".join(said))
    source = FileSource(path=PATH, root=tmp_path, git=GitError("No git here.", hint="Install git."), remote=Remote())
    request = BaselineRequest(repository="", base_ref="main", commit="e" * 40, how="", is_pull_request=True)
    assert await source.find(request) == FetchFailed(
        message=f"{PATH} on main at eeeeeee could not be read: No git here.", hint="Install git."
    )


def test_file__a_named_file_that_is_missing_is_an_error_if_the_gate_depends_on_it(repo: Repo) -> None:
    write_evals(repo.root, "home.test.json", {"on": ["lamp"]})
    gitignore = {".gitignore": "agent-eval-results/\n"}
    repo.commit(gitignore)
    repo.branch("feature")
    gate = Repository(root=repo.root).gate

    def run(*arguments: str) -> tuple[int, str]:
        done = gate("run", "--agent", AGENT, *arguments, python=False)
        return done.code, " ".join((done.out + done.err).split())

    for mode, ref, words in (
        ("both", ("--base-ref", "main"), f"{PATH} in the checkout, nor on main at {repo.head[:7]}"),
        ("regressions", (), "`gate: regressions` has nothing to compare with"),
    ):
        code, said = run("--gate", mode, "--baseline", f"file:{PATH}", *ref)
        assert (code, words in said) == (2, True), said
        assert f"[baseline-not-found] There is no {PATH} in the checkout" in said
    assert "--baseline none" in said
    # Not asked for, or another source may have one.
    assert run("--baseline", f"file:{PATH}")[0] == 0
    assert run("--gate", "regressions", "--baseline", f"file:{PATH},artifact")[0] == 0
    # A pull request that adds the file, and one that moves it away.
    repo.commit({PATH: wire(GOOD)})
    assert run("--gate", "both", "--baseline", f"file:{PATH}", "--base-ref", "main")[0] == 0
    repo.branch("main")
    repo.branch("moves")
    repo.commit({PATH: None})
    assert run("--gate", "both", "--baseline", f"file:{PATH}", "--base-ref", "main")[0] == 0


@pytest.mark.parametrize("is_pull_request", [True, False])
async def test_file__recordings_beside_results_are_its_conversations(repo: Repo, is_pull_request: bool) -> None:
    line = b'{"case_id": "one"}\n'
    base = repo.commit({"evals/results.json": wire(GOOD), PATH: wire(GOOD)})
    (repo.root / "evals/recordings.jsonl.gz").write_bytes(gzip.compress(line))
    base = repo.commit({"evals/notes.txt": "the recordings, too"})

    beside = await ask(repo, base, path="evals/results.json", is_pull_request=is_pull_request)
    renamed = await ask(repo, base, is_pull_request=is_pull_request)

    assert isinstance(beside, Found)
    assert beside.recordings is not None
    assert list(recorded_lines(beside.recordings)) == [line]
    assert isinstance(renamed, Found)
    assert renamed.recordings is not None
    assert list(recorded_lines(renamed.recordings)) == []
