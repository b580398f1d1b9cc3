"""Parts of a run as processes: a killed one, a repeated one, the comparison in the merge, and what judges are asked."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from base_repos import new_repo
from fake_gemini import FakeGemini
from gate_runs import Done, Repository, repository_in, wait_until
from judged_gate import BAD, KEY, Judge, answers, criteria
from pull_requests import Lab

pytestmark = pytest.mark.slow

CASES = {"milk": "milk", "tea": "tea", "bread": "bread", "long": ["wait:3", "salt"]}


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """A pull request that breaks one of four cases; the agent notes every turn."""
    with repository_in(tmp_path / "repo", "counted") as made:
        repo = new_repo(made.root)
        made.evals("evals/shop.test.json", CASES)
        repo.write({".gitignore": "shards/\n__pycache__/\n"})
        repo.commit({})
        repo.branch("feature")
        agent = (made.root / "counted/agent.py").read_text("utf-8")
        broken = 'return reply(text("nothing of the kind" if said == "milk" else said))'
        repo.commit({"counted/agent.py": agent.replace("return reply(text(said))", broken)})
        yield made


def turns(path: Path) -> list[str]:
    return sorted(path.read_text("utf-8").splitlines()) if path.exists() else []


def test_parts__killed_then_repeated_and_merged_as_one_run(repository: Repository, tmp_path: Path) -> None:
    compared = ("--base-ref", "main", "--baseline", "rerun", "--num-runs", "2")
    noted = tmp_path / "turns.txt"
    environment = {"RUNS_FILE": str(noted)}

    def gate(*arguments: str) -> Done:
        return repository.gate(*arguments, *compared, environment=environment)

    process = repository.start("run", "--shard", "1/2", "--output-dir", "shards/1", *compared, environment=environment)
    wait_until(lambda: "wait:3" in turns(noted), seconds=60)
    process.kill()
    process.communicate(timeout=60)
    noted.unlink()
    second = gate("run", "--shard", "2/2", "--output-dir", "shards/2")
    incomplete = gate("merge")

    assert second.code == 0, second.err
    assert "part 2 of 2: 2 of 4 cases" in second.err
    assert (incomplete.code, incomplete.report.verdict) in {(3, "inconclusive"), (1, "failed")}, incomplete.err
    assert incomplete.report.merged_from is not None
    assert incomplete.report.merged_from.missing == [1]
    assert any(reason.code == "shard-missing" for reason in incomplete.report.reasons)
    noted.unlink()

    again = gate("run", "--shard", "2/2", "--output-dir", "shards/2")
    first = gate("run", "--shard", "1/2", "--output-dir", "shards/1")
    shutil.copytree(repository.root / "shards/2", repository.root / "shards/2-again")
    of_parts = turns(noted)
    merged = gate("merge")
    sharded = turns(noted)
    noted.unlink()
    whole = gate("run", "--output-dir", "whole")

    assert (again.code, first.code) == (0, 0), first.err
    assert of_parts == sorted(2 * ["milk", "tea", "bread", "wait:3", "salt"]), "a part runs nothing of the base branch"
    assert (merged.code, whole.code) == (1, 1), merged.err
    assert sharded == turns(noted), "as many runs as in one job: those of the base branch and confirmation runs, too"
    one, other = merged.report, Done(code=0, out="", err="", output=repository.root / "whole", seconds=0.0).report
    assert one.reasons == other.reasons
    assert one.blocking == other.blocking == ["evals/shop.test.json:milk"]
    assert one.decision is not None
    assert one.decision == other.decision
    assert [len(case.runs) for case in one.confirmations] == [len(case.runs) for case in other.confirmations]
    assert one.merged_from is not None
    assert [part.index for part in one.merged_from.parts] == [1, 2], "the copy of a part is no second attempt"
    assert {recording.run_id for recording in merged.recordings} == {
        run.run_id for case in (*one.cases, *one.confirmations) for run in case.runs
    }
    assert repository.left_behind() == []


def usage(done: Done) -> dict[str, Any]:
    [model] = done.results["model_usage"]
    return {name: model[name] for name in ("calls", "input_tokens", "output_tokens", "cost", "saved_votes")}


def test_parts__ask_judges_as_often_as_one_run_and_share_the_budget(tmp_path: Path) -> None:
    with repository_in(tmp_path / "repo") as repository, FakeGemini(Judge()) as server:
        criteria(repository, "final_response_match_v2", "hallucinations_v1", samples=3)
        said = {f"case {number}": [["Paris.", "Paris."], BAD][number % 2] for number in range(9)}
        answers(repository, said)
        shared = ("--agent", "recorded:answers.json", "--judge-base-url", server.url)
        environment = {"AGENT_EVAL_JUDGE_API_KEY": KEY}

        def gate(*arguments: str) -> tuple[Done, int]:
            before = server.stats.requests
            done = repository.gate(*arguments, *shared, python=False, environment=environment)
            return done, server.stats.requests - before

        def parts(folder: str, *arguments: str) -> list[int]:
            asked = []
            for index in range(1, 5):
                place = ("--output-dir", f"{folder}/{index}", "--judge-cache", f"cache-{index}")
                done, calls = gate("run", "evals", "--shard", f"{index}/4", *place, *arguments)
                assert done.code in {0, 3}, done.err
                asked.append(calls)
            return asked

        whole, calls = gate("run", "evals")
        of_parts = parts("shards")
        merged, in_merge = gate("merge", "--paths", "evals", "--judge-cache", "merged-cache")

        assert sum(of_parts) == calls
        assert in_merge == 0
        assert usage(merged) | {"saved_votes": 0} == usage(whole) | {"saved_votes": 0}
        assert merged.results["case_usage"] == whole.results["case_usage"]
        assert (merged.code, merged.report.verdict) == (whole.code, whole.report.verdict)
        replies = {path.name for path in (repository.root / "merged-cache").glob("*/*.json")}
        assert replies == {path.name for path in repository.root.glob("cache-*/*/*.json")}
        assert replies
        _, in_cache = gate("run", "evals", "--judge-cache", "merged-cache")
        assert in_cache == 0, "the merge has the replies of all parts"

        limit = calls // 2
        for cache in repository.root.glob("cache-*"):
            shutil.rmtree(cache)
        limited = parts("limited", "--max-judge-calls", str(limit))
        over, more = gate("merge", "limited", "--paths", "evals", "--max-judge-calls", str(limit))

        assert 0 < sum(limited) + more <= limit
        assert over.code == 3 or over.report.verdict == "failed"
        # An attempt that was cancelled before it was sent counts as a call.
        assert sum(limited) <= usage(over)["calls"] <= limit


def test_parts__on_a_pull_request_only_the_merge_comments_and_a_second_attempt_completes_it(lab: Lab) -> None:
    assert lab.base_run().code == 0
    first = lab.pull_request(7, {"tea": 0.0}, "--shard", "1/2", "--output-dir", "shards/1")
    environment = lab.environments[lab.runs[-1].id]

    assert first.code == 0, first.err
    assert lab.github.state.comments_of(7) == []
    assert "::error" not in first.out
    assert Path(environment["GITHUB_STEP_SUMMARY"]).read_text("utf-8").startswith("Part 1 of 2;")

    incomplete = lab.repository.gate("merge", environment=environment)
    [comment] = lab.github.state.comments_of(7)

    assert incomplete.code == 3, incomplete.err
    assert "part 2 of 2 left no results" in comment.body

    again = {**environment, "GITHUB_RUN_ATTEMPT": "2"}
    second = lab.repository.gate("run", "--shard", "2/2", "--output-dir", "shards/2", environment=again)
    merged = lab.repository.gate("merge", environment=again)
    [comment] = lab.github.state.comments_of(7)

    assert second.code == 0, second.err
    assert (merged.code, merged.report.verdict, merged.report.gate) == (1, "failed", "regressions"), merged.err
    assert "tea" in comment.body.splitlines()[1]
    assert merged.report.merged_from is not None
    assert [part.attempt for part in merged.report.merged_from.parts] == [1, 2]
