"""The sources one after the other, as they are: GitHub's artifacts, a committed file, the base's own agent."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from base_repos import new_repo
from fake_github import FakeGitHub, Fault, forbidden

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from baseline_samples import WORKFLOW, artifact, case, measured, results, wire

from agent_eval.baseline.artifact import ArtifactSource
from agent_eval.baseline.compatibility import checked
from agent_eval.baseline.file import FileSource
from agent_eval.baseline.lookup import BaselineOutcome, BaselineRequest, Found, Resolver, resolve, to_report
from agent_eval.baseline.rerun import BaseWorktree, RerunSource
from agent_eval.github.client import Waiting
from agent_eval.github.forge import GitHub
from agent_eval.pipeline._regression import pair_with_base
from agent_eval.results.report import RunReport
from agent_eval.settings import parse_order

STORED, COMMITTED, FRESH = (results(case(name)) for name in ("stored", "committed", "fresh"))


class Bench:
    """A base branch with two commits, known to GitHub."""

    def __init__(self, fake: FakeGitHub, root: Path) -> None:
        self.fake = fake
        self.repo = new_repo(root / "repo")
        self.older = self.repo.commit({"bot/agent.py": "root_agent = 1\n"})
        self.base = self.repo.commit({"evals/baseline.json": wire(COMMITTED)})
        self.rerun_gives = FRESH
        fake.state.take_git(self.repo.root)

    def record(self, report: RunReport = STORED, *, expired: bool = False) -> None:
        self.fake.state.artifact(self.fake.state.run(self.base), artifact(report), expired=expired)

    async def ask(self, order: str) -> BaselineOutcome:
        git = self.repo.opened()
        github = GitHub(
            api_url=self.fake.api_url,
            repository=self.fake.state.repository,
            token=self.fake.token,
            waiting=Waiting(sleep=lambda _: None, jitter=lambda: 0.0),
        )

        async def run(checkout: BaseWorktree) -> RunReport:
            assert (checkout.root / "bot" / "agent.py").is_file()
            return self.rerun_gives

        sources: list[Resolver] = []
        for choice in parse_order(order):
            if choice.source == "artifact":
                sources.append(ArtifactSource(forge=github, git=git))
            elif choice.source == "file":
                sources.append(FileSource(path=choice.path or "", root=self.repo.root, git=git))
            else:
                sources.append(RerunSource(git=git, run=run))
        return await resolve(sources, self.request)

    @property
    def request(self) -> BaselineRequest:
        return BaselineRequest(
            repository=self.fake.state.repository,
            base_ref="main",
            commit=self.base,
            how="the merge base",
            is_pull_request=True,
            workflow=WORKFLOW,
        )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with FakeGitHub() as fake:
        yield Bench(fake, tmp_path)


@pytest.mark.parametrize(
    ("order", "wins", "asked"),
    [
        ("auto", "stored", ["artifact"]),
        ("artifact,file:evals/baseline.json,rerun", "stored", ["artifact"]),
        ("file:evals/baseline.json,artifact", "committed", ["file"]),
        ("file:none.json,artifact,rerun", "stored", ["file", "artifact"]),
        ("rerun,artifact", "fresh", ["rerun"]),
        ("file:none.json,file:evals/baseline.json", "committed", ["file", "file"]),
    ],
)
async def test_sources__the_first_that_has_one(bench: Bench, order: str, wins: str, asked: list[str]) -> None:
    bench.record()

    outcome = await bench.ask(order)

    assert isinstance(outcome.baseline, Found)
    assert [item.eval_id for item in outcome.baseline.report.cases] == [wins]
    assert [step.source for step in outcome.steps] == asked


async def test_sources__each_step_says_why_it_is_passed_over(bench: Bench) -> None:
    bench.record(expired=True)

    report = to_report(await bench.ask("artifact,file:none.json,rerun"), bench.request)

    assert [(step.source, step.status) for step in report.steps] == [
        ("artifact", "fetch-failed"),
        ("file", "none-yet"),
        ("rerun", "found"),
    ]
    assert "has expired or was deleted." in report.steps[0].message
    assert report.steps[1].message.startswith(f"There is no none.json on main at {bench.base[:7]}.")
    assert report.steps[2].message == report.message
    assert (report.source, report.commit, report.distance) == ("rerun", bench.base, 0)


@pytest.mark.parametrize("fault", [forbidden(), Fault(status=502, times=99)])
async def test_sources__without_github_the_next_source_is_asked(bench: Bench, fault: Fault) -> None:
    bench.record()
    bench.fake.faults.append(fault)

    outcome = await bench.ask("artifact,file:evals/baseline.json")

    assert [type(step.baseline).__name__ for step in outcome.steps] == ["FetchFailed", "Found"]


async def test_sources__when_none_has_one_all_reasons_are_reported(bench: Bench) -> None:
    bench.fake.state.run(bench.base, event="pull_request", branch="feature")
    bench.rerun_gives = results(case("one", "not_run"))

    report = to_report(await bench.ask("artifact,file:none.json,rerun"), bench.request)

    assert report.status == "fetch-failed"
    assert report.message == (
        f"main at {bench.base[:7]} was re-run, but 1 of its 1 case did not finish, so the run was interrupted."
    )
    assert [step.status for step in report.steps] == ["none-yet", "none-yet", "fetch-failed"]
    assert (report.source, report.commit, report.wanted_commit) == (None, None, bench.base)


async def test_sources__a_changed_judge_gives_no_delta(bench: Bench) -> None:
    judged = measured(1.0, judge="gemini-2.5-flash", fingerprint="old")
    bench.record(results(case("one", "passed", judged)))
    head = results(case("one", "passed", measured(0.5, judge="gemini-3-flash", fingerprint="new")))

    found = await bench.ask("auto")
    base = pair_with_base(head, found, 20)
    assert base is not None
    outcome = checked(found, head, base.report, base.pairing)
    report = to_report(outcome, bench.request)

    assert outcome.report is None
    assert report.status == "incompatible"
    assert report.message == (
        "The judge model has changed (gemini-2.5-flash on the base branch, gemini-3-flash now), so no score "
        "can be compared."
    )
