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
from agent_eval.baseline.lookup import Baseline, BaselineRequest, FetchFailed, Found
from agent_eval_results.data.report import Origin, RunReport

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

    async def told(self, **options: Any) -> str:
        """What is found, or what is said."""
        baseline = await self.find(**options)
        text = plain(baseline).replace(self.fake.server_url, "https://github.example")
        for distance in range(len(self.commits) - 1, -1, -1):
            text = text.replace(self.commits[distance][:7], f"main~{distance}")
        assert self.fake.token not in f"{baseline}"
        if not isinstance(baseline, Found):
            return text
        where = baseline.provenance
        assert where.commit == self.commits[where.distance or 0]
        assert where.run_url is not None and where.run_url.endswith(f"/{where.run_id}")
        return f"{text} ({', '.join(item.eval_id for item in baseline.report.cases)} of run {where.run_id})"

    def asked(self, part: str) -> int:
        return sum(part in request.path for request in self.fake.requests)


@pytest.fixture
def bench() -> Iterator[Bench]:
    with FakeGitHub() as fake:
        yield Bench(fake)


@pytest.mark.parametrize("shallow", [False, True])
async def test_artifact__github_is_asked_for_the_first_parents_that_a_clone_lacks(
    bench: Bench, tmp_path: Path, shallow: bool
) -> None:
    repo = new_repo(tmp_path / "repo")
    bench.commits = [repo.commit({"a": str(number)}) for number in range(5)][::-1]
    bench.fake.state.take_git(repo.root)
    bench.record(4)
    clone = repo.shallow_checkout(bench.commits[0], tmp_path / "clone") if shallow else repo

    assert "4 commits before the tested base" in await bench.told(git=clone.opened())
    assert bench.asked("/commits") == shallow


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
    text = re.sub(
        r"(?<=not JSON) \(.*?\)|(?<=could not be read): Symlink.*|(?<=clone and could not be fetched): .*", "", text
    )
    return text.replace(f"this is agent-eval {__version__}", "this is agent-eval VERSION")


def _expired(bench: Bench) -> None:
    bench.fake.state.artifact(bench.fake.state.run(bench.commits[0]), artifact(RED), expired=True)


def _expires(bench: Bench) -> None:
    """Between the look and the download."""
    bench.record()
    bench.fake.faults.append(Fault(path="/zip", status=410))


def _of_a_merged_branch(bench: Bench) -> None:
    """Commits of merged branches lie between those of main; their runs are of other branches."""
    state = bench.fake.state
    side = state.commit(bench.commits[0])
    bench.commits.insert(0, state.commit(bench.commits[0], side, branch="main"))
    state.artifact(state.run(side, branch="main"), artifact(results(case("side"))))
    bench.record(3)


def _strangers(bench: Bench, branch: str, distance: int = 2) -> None:
    """They start runs on the base's commit, which hide nothing."""
    bench.record(distance)
    commit = bench.commits[distance]
    for _ in range(310):
        bench.fake.state.run(commit, event="pull_request", branch=branch, head_repository="mallory/shop")


def _other_runs(bench: Bench) -> None:
    bench.record(5)
    for _ in range(230):
        bench.fake.state.run(bench.fake.state.commit(), branch="main")


def _says_so(bench: Bench) -> None:
    run = bench.fake.state.run(bench.commits[0])
    facts = {"repository": "Octo/Shop", "commit": bench.commits[0], "run_id": run.id}
    origin = Origin(**facts, event="push", ref="refs/heads/main")
    bench.fake.state.artifact(run, artifact(results(origin=origin)))


FOUND: dict[str, Callable[[Bench], object]] = {
    "the wanted commit's": lambda bench: bench.record(),
    "of the event schedule": lambda bench: bench.record(event="schedule"),
    "of the event workflow_dispatch": lambda bench: bench.record(event="workflow_dispatch"),
    "a cancelled run's that are complete": lambda bench: bench.record(conclusion="cancelled"),
    "those that say the right things of themselves": _says_so,
    "the newest ones of a run": lambda bench: [bench.record(report=results(case("old"))), bench.record()],
    "along first parents": _of_a_merged_branch,
    "the twentieth commit's": lambda bench: [bench.record(21), bench.record(20)],
    "beside runs of strangers on main": lambda bench: _strangers(bench, "main"),
    "beside runs of strangers on a branch": lambda bench: _strangers(bench, "feature"),
    "beside runs of strangers on the wanted commit": lambda bench: _strangers(bench, "main", 0),
    "beside hundreds of other runs": _other_runs,
    "expired ones'": _expired,
    "those that expire meanwhile": _expires,
}


async def test_artifact__what_is_found_ignored_or_refused_and_why() -> None:
    said = []
    for name, happens in (FOUND | IGNORED | REFUSED).items():
        with FakeGitHub() as fake:
            bench = Bench(fake)
            happens(bench)
            if name in REFUSED:
                bench.record(1)
            said.append(f"{name}\n    {await bench.told(limits=ArchiveLimits(archive_bytes=50_000))}\n")
            if name in IGNORED or happens is _expired:
                bench.record(2, results(case("earlier")))
                said.append(f"    {await bench.told()}\n")
    check("golden_artifacts.txt", "".join(said))


async def test_artifact__of_which_run_name_and_depth(bench: Bench) -> None:
    newest = bench.record(report=results(case("one")))
    bench.fake.state.artifact(newest, artifact(PARTIAL))
    bench.record(3, results(case("three")))
    bench.fake.state.artifact(newest, artifact(results(case("mine"))), name="home-results")
    gone = hashlib.sha1(b"gone").hexdigest()
    told = [
        await bench.told(),
        await bench.told(own_run=newest.id),
        await bench.told(own_run=newest.id, depth=2),
        await bench.told(own_run=newest.id, depth=0),
        await bench.told(artifact="home-results"),
        (await bench.told(commit=gone)).replace(gone[:7], "GONE"),
    ]
    asked = len(bench.fake.requests)
    told += [await bench.told(token=""), await bench.told(workflow="")]
    nobody = await ArtifactSource(forge=None, git=NO_GIT).find(bench.request)
    assert nobody.message == (await bench.find(token="")).message
    assert len(bench.fake.requests) == asked
    check("golden_artifact_requests.txt", "".join(f"{line}\n" for line in told))


def _status(status: int) -> Fault:
    return Fault(status=status, body=b'{"message": "Nope", "documentation_url": "x"}', times=10**6)


FAULTS = {
    "forbidden": forbidden(),
    "404": _status(404),
    "401": _status(401),
    "500": _status(500),
    "limit": secondary_limit(times=10**6),
    "malformed": Fault(status=200, body=b'{"workflow_runs": 7}'),
    "no JSON": Fault(status=200, body=b"<html>"),
    "dropped": Fault(drop="before", times=10**6),
}


async def test_artifact__an_answer_that_does_not_come_is_no_answer(bench: Bench) -> None:
    """Also when an older commit has results: the nearer ones might be usable."""
    bench.record()
    bench.record(1)
    said = []
    for at in ("workflows/evals.yml/runs", "artifacts$", "zip$", "store"):
        for name, fault in FAULTS.items():
            bench.fake.faults[:] = [dataclasses.replace(fault, path=at)]
            said.append(f"{at}, {name}\n    {await bench.told()}\n")
    check("golden_artifact_faults.txt", "".join(said))


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
    (tmp_path / "baseline.json").write_text("{}", "utf-8")
    wanted = BaselineRequest(repository="", base_ref="main", commit=base, how="", is_pull_request=False)
    missing = await FileSource(path="basline.json", root=tmp_path, git=GitError("No git here.")).find(wanted)
    assert (missing.hint or "").startswith("Did you mean `baseline: file:baseline.json`? To record one, commit")
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
