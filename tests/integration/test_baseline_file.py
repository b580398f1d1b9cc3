"""`file:PATH`: from the base's commit on a pull request, from the working tree elsewhere."""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path

import pytest
from base_repos import Repo, new_repo
from gate_runs import Repository
from recorded_evals import AGENT, write_evals

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from baseline_samples import case, results, wire

from agent_eval.baseline.file import FileSource
from agent_eval.baseline.git import GitError, Remote
from agent_eval.baseline.lookup import Baseline, BaselineRequest, FetchFailed, Found, Incompatible, NoneYet
from agent_eval.baseline.recordings import recorded_lines
from agent_eval.results.report import Origin

PATH = "evals/baseline.json"
GOOD = results(case("one"), origin=Origin(commit="ab" * 20, run_url="https://github.com/octo/bots/actions/runs/5"))
WORSE = results(case("one", "failed"))


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return new_repo(tmp_path / "repo")


async def ask(
    repo: Repo, commit: str, *, is_pull_request: bool = True, path: str = PATH, root: str = ".", max_bytes: int = 10_000
) -> Baseline:
    where = repo.root / root
    source = FileSource(path=path, root=where, git=Repo(where).opened(), max_bytes=max_bytes)
    request = BaselineRequest(
        repository="", base_ref="main", commit=commit, how="the merge base", is_pull_request=is_pull_request
    )
    return await source.find(request)


async def test_file__a_pull_request_is_compared_with_the_bases_file_and_other_runs_with_their_own(repo: Repo) -> None:
    base = repo.commit({PATH: wire(GOOD)})
    repo.branch("feature")
    repo.commit({PATH: wire(WORSE)})

    baseline = await ask(repo, base)
    own = await ask(repo, base, is_pull_request=False)

    assert isinstance(baseline, Found) and isinstance(own, Found)
    assert (baseline.report, own.report) == (GOOD, WORSE)
    assert baseline.message == (
        f"The base branch's results come from {PATH} on main at {base[:7]}, recorded for abababa."
    )
    assert (baseline.provenance.commit, baseline.provenance.distance) == ("ab" * 20, None)
    assert baseline.provenance.run_url == "https://github.com/octo/bots/actions/runs/5"
    assert own.message == f"The base branch's results come from {PATH} in the checkout."


async def test_file__paths_start_where_agent_eval_works(repo: Repo) -> None:
    base = repo.commit({f"bots/home/{PATH}": wire(GOOD), PATH: wire(WORSE)})

    committed = await ask(repo, base, root="bots/home")
    lying = await ask(repo, base, root="bots/home", is_pull_request=False)

    assert [item.report for item in (committed, lying) if isinstance(item, Found)] == [GOOD, GOOD]


async def test_file__a_shallow_clone_fetches_the_bases_commit(repo: Repo, tmp_path: Path) -> None:
    base = repo.commit({PATH: wire(GOOD)})
    repo.branch("feature")
    head = repo.commit({PATH: wire(WORSE)})
    clone = repo.shallow_checkout(head, tmp_path / "clone")

    baseline = await ask(clone, base)

    assert isinstance(baseline, Found)
    assert baseline.report == GOOD


async def test_file__a_commit_that_can_not_be_fetched(repo: Repo, tmp_path: Path) -> None:
    clone = repo.shallow_checkout(repo.commit({PATH: wire(GOOD)}), tmp_path / "clone")
    clone.git("remote", "set-url", "origin", str(tmp_path / "gone"))

    baseline = await ask(clone, "e" * 40)

    assert isinstance(baseline, FetchFailed)
    assert baseline.message.startswith(
        f"{PATH} on main at eeeeeee could not be read: The commit eeeeeee is not in this clone and could not be fetched"
    )
    assert baseline.hint is not None
    assert "fetch-depth: 0" in baseline.hint


async def test_file__without_a_checkout(tmp_path: Path) -> None:
    source = FileSource(path=PATH, root=tmp_path, git=GitError("No git here.", hint="Install git."), remote=Remote())
    request = BaselineRequest(repository="", base_ref="main", commit="e" * 40, how="", is_pull_request=True)

    assert await source.find(request) == FetchFailed(
        message=f"{PATH} on main at eeeeeee could not be read: No git here.", hint="Install git."
    )


@pytest.mark.parametrize("is_pull_request", [True, False])
@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (None, NoneYet, "There is no evals/baseline.json"),
        (b"{", FetchFailed, "is not used: it is not JSON"),
        (b"x" * 10_001, FetchFailed, "is not used: it is larger than"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
            FetchFailed,
            "is not used: it is stored in Git LFS",
        ),
        (wire(results(case("one", "not_run"))), FetchFailed, "is not used: 1 of its 1 case did not finish"),
        (wire(GOOD).replace(b'"schema_version":"1"', b'"schema_version":"9"'), Incompatible, "in version 9 of the"),
    ],
)
async def test_file__what_is_no_baseline(
    repo: Repo, content: bytes | None, kind: type[Baseline], message: str, is_pull_request: bool
) -> None:
    base = repo.commit({"README": "", **({} if content is None else {PATH: content})})

    baseline = await ask(repo, base, is_pull_request=is_pull_request)

    assert type(baseline) is kind
    assert message in baseline.message
    assert ("on main at" in baseline.message) is is_pull_request


@pytest.mark.parametrize("is_pull_request", [True, False])
@pytest.mark.parametrize("target", ["/etc/hostname", "../../outside.json", "baseline.json", "../.git/config"])
async def test_file__a_link_is_no_baseline(repo: Repo, target: str, is_pull_request: bool) -> None:
    (repo.root.parent / "outside.json").write_bytes(wire(GOOD))
    link = repo.root / PATH
    link.parent.mkdir()
    link.symlink_to(target)
    base = repo.commit({})

    baseline = await ask(repo, base, is_pull_request=is_pull_request)

    assert isinstance(baseline, FetchFailed)
    message = "regular file" if is_pull_request else "regular file|could not be read|it is not JSON"
    assert re.search(message, baseline.message)


async def test_file__a_link_is_as_old_as_the_base_commit(repo: Repo) -> None:
    repo.write({"stored/good.json": wire(GOOD)})
    (repo.root / "evals").symlink_to("links")
    (repo.root / "links").mkdir()
    (repo.root / "links/baseline.json").symlink_to("../stored/good.json")
    base = repo.commit({})
    repo.branch("feature")
    repo.commit({"stored/good.json": wire(WORSE)})

    baseline = await ask(repo, base)
    own = await ask(repo, base, is_pull_request=False)

    assert isinstance(baseline, Found) and isinstance(own, Found)
    assert (baseline.report, own.report) == (GOOD, WORSE)


async def test_file__a_directory_is_no_baseline(repo: Repo) -> None:
    base = repo.commit({f"{PATH}/x": "{}"})

    for is_pull_request in (True, False):
        baseline = await ask(repo, base, is_pull_request=is_pull_request)
        assert isinstance(baseline, FetchFailed)
        assert "regular file" in baseline.message
        assert baseline.hint is not None
        assert "`file:DIRECTORY/results.json`" in baseline.hint


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
