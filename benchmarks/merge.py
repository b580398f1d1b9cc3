"""What parts of a run cost: the merge of 10,000 cases, and how even the parts of a run with real processes are.

    python benchmarks/merge.py                                        # merge of 10,000 recorded cases in 5 parts
    python benchmarks/merge.py --earlier CHECKOUT                     # pairs with another checkout: merge, and one run
    python benchmarks/merge.py --agent-python PYTHON --cases 2000     # and 5 parts of an agent, models at 200 ms
    python benchmarks/merge.py --only-agent --agent-python PYTHON --cases 2000 --durations    # without the first

PYTHON is an interpreter with google-adk. The agent is the weather example, against a Gemini on loopback. The cases have
1 to 5 turns. All runs are jobs of a pull request on a stand-in for GitHub. An unsplit run without a comment comes
first: the merge must have its verdict and scores, with as many calls of the model, and write the only comment.
Parts run one after another, so that they do not share the machine's cores; with `--durations` they are balanced by
the durations of the unsplit run. Exit code 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import workload
from environments import PROJECT, gate_of
from measuring import Measurement, Spread, measure, peak_of_all

sys.path.insert(0, str(PROJECT / "tests" / "integration"))

from base_repos import new_repo
from fake_github import FakeGitHub

PARTS = 5
FILES, CASES_PER_FILE = 100, 100
MERGE_SECONDS, MERGE_MB = 12.0, 450.0
SLOWEST_TO_MEAN = 1.15
LONGEST = 3600
"""Seconds of one command: 2,000 cases of an agent take many minutes on a machine with other work."""
AGENT_EVAL = [sys.executable, "-m", "agent_eval"]


def environment() -> dict[str, str]:
    """Ours without what makes a job of GitHub's, and without what makes Python compile everything at every start."""
    left_out = ("GITHUB_", "INPUT_", "RUNNER_", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}


def gate(cwd: Path, *arguments: str, variables: dict[str, str] | None = None, codes: Sequence[int]) -> Measurement:
    command = [*AGENT_EVAL, *arguments]
    return measure(command, cwd=cwd, environment=variables or environment(), exit_codes=codes, timeout=LONGEST)


def results(cwd: Path, folder: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((cwd / folder / "results.json").read_text("utf-8"))
    return content


def outcome(cwd: Path, folder: str) -> dict[str, Any]:
    """The verdict, and of each case its status and all its scores but the one that is a time."""
    content = results(cwd, folder)
    cases = {
        case["case_id"]: (case["status"], {metric["name"]: metric["score"] for metric in case["metrics"]})
        for case in content["cases"]
    }
    for _, scores in cases.values():
        scores.pop("invocation_duration_v1", None)
    return {"verdict": content["verdict"], "cases": cases}


def merge_of_recorded(directory: Path) -> bool:
    """The merge of 10,000 recorded cases; true if the goals are met."""
    cwd = workload.recorded_workspace(directory / "recorded", files=FILES, cases_per_file=CASES_PER_FILE)
    recorded = ("--agent", "recorded:recording/actual.json")
    whole = gate(cwd, "run", "evals", *recorded, "--output-dir", "whole", codes=(1,))
    for index in range(1, PARTS + 1):
        place = ("--shard", f"{index}/{PARTS}", "--output-dir", f"shards/{index}")
        gate(cwd, "run", "evals", *recorded, *place, codes=(0,))
    without_page = gate(cwd, "merge", "--paths", "evals", *recorded, "--report", "off", codes=(1,))
    merge = gate(cwd, "merge", "--paths", "evals", *recorded, codes=(1,))
    peak = peak_of_all([*AGENT_EVAL, "merge", "--paths", "evals", *recorded], cwd=cwd, environment=environment())
    same = outcome(cwd, "agent-eval-results") == outcome(cwd, "whole")
    print(
        f"merge of {FILES * CASES_PER_FILE:,} cases in {PARTS} parts: {merge.seconds:.1f} s ({merge.cpu_seconds:.1f} s "
        f"of CPU), {without_page.seconds:.1f} s without report.html ({without_page.cpu_seconds:.1f} s of CPU), "
        f"peak {peak:.0f} MB of all its processes; "
        f"one run of all: {whole.seconds:.1f} s ({whole.cpu_seconds:.1f} s of CPU), {whole.peak_mb:.0f} MB; "
        f"same results: {same}"
    )
    # Wall seconds: other work on the machine stretches them.
    return same and merge.seconds <= MERGE_SECONDS and peak <= MERGE_MB


def against(earlier: Path, directory: Path, pairs: int, files: int) -> None:
    """Prints CPU and peak memory of the largest process as shares of those of another checkout, run in turn."""
    sides, recorded = [gate_of(earlier), gate_of(PROJECT)], ("--agent", "recorded:recording/actual.json")
    # Each in a workspace of its own: a build can't read the parts of every other.
    cwds = [
        workload.recorded_workspace(directory / name, files=files, cases_per_file=CASES_PER_FILE)
        for name in ("earlier", "later")
    ]
    for index in range(1, PARTS + 1):
        place = ("--shard", f"{index}/{PARTS}", "--output-dir", f"shards/{index}")
        for program, cwd in zip(sides, cwds, strict=True):
            measure([*program, "run", "evals", *recorded, *place], cwd=cwd, environment=environment())
    for name, command in (("merge", ["merge", "--paths", "evals"]), ("run", ["run", "evals"])):
        cpu, memory = [], []
        for number in range(pairs):
            done = {}
            for side in (0, 1) if number % 2 else (1, 0):
                argv = [*sides[side], *command, *recorded, "--output-dir", "results"]
                done[side] = measure(argv, cwd=cwds[side], environment=environment(), exit_codes=(1,))
            cpu.append(done[1].cpu_seconds / done[0].cpu_seconds)
            memory.append(done[1].peak_mb / done[0].peak_mb)
        same = outcome(cwds[0], "results") == outcome(cwds[1], "results")
        print(f"{name}: CPU {Spread.of(cpu)}; memory {Spread.of(memory)}; same results: {same}", flush=True)


def workspace(directory: Path, cases: int) -> Path:
    """The weather example with cases of 1 to 5 turns."""
    cwd = workload.weather_workspace(directory, cases=cases)
    path = cwd / "weather.test.json"
    content = json.loads(path.read_text("utf-8"))
    chance = random.Random(cases)
    for case in content["eval_cases"]:
        case["conversation"] *= chance.randint(1, 5)
    workload.write_json(path, content)
    return cwd


PULL = 7


def pull_request(cwd: Path, github: FakeGitHub) -> dict[str, str]:
    """Commits the workspace as the change of a pull request; returns the variables of the pull request's jobs."""
    repo = new_repo(cwd)
    repo.commit({".gitignore": "/event.json\n/plan.json\n/agent-eval-results/\n/shards/\n/whole/\n__pycache__/\n"})
    repo.branch("feature")
    (cwd / "README.md").write_text("Weather.\n", "utf-8")
    head = repo.commit({})
    github.state.take_git(cwd)
    merged = repo.merge("feature", "main")
    github.state.take_git(cwd)
    github.state.pull(PULL, head_sha=head, head_ref="feature")
    run = github.state.run(head, event="pull_request", branch="feature")
    event = cwd / "event.json"
    event.write_text(json.dumps(github.state.event_of(PULL)), "utf-8")
    ref = f"refs/pull/{PULL}/merge"
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_SHA": merged,
        "GITHUB_REF": ref,
        "GITHUB_REPOSITORY": github.state.repository,
        "GITHUB_RUN_ID": str(run.id),
        "GITHUB_RUN_ATTEMPT": str(run.attempt),
        "GITHUB_SERVER_URL": github.server_url,
        "GITHUB_API_URL": github.api_url,
        "GITHUB_WORKFLOW_REF": f"{github.state.repository}/{run.path}@{ref}",
        "GITHUB_TOKEN": github.token,
    }


def parts_of_an_agent(directory: Path, python: str, cases: int, durations: bool) -> bool:
    """Parts with real processes; true if the goals are met."""
    cwd = workspace(directory / "agent", cases)
    with workload.model_server(0.2) as server, FakeGitHub() as github:
        job = pull_request(cwd, github)
        variables = environment() | job | {"GOOGLE_GEMINI_BASE_URL": server.url, "GOOGLE_API_KEY": "none"}
        options = ["--agent-python", python, "--baseline", "none"]

        def run(*arguments: str) -> Measurement:
            return gate(cwd, "run", *options, *arguments, variables=variables, codes=(0,))

        whole = run("--comment", "never", "--output-dir", "whole")
        calls = server.stats()["statuses"]
        if durations:
            plan = gate(cwd, "plan", "--durations", "whole", "--shards", str(PARTS), "--format", "json", codes=(0,))
            (cwd / "plan.json").write_text(plan.output[plan.output.index("{") :], "utf-8")
            options += ["--shard-plan", "plan.json"]
        server.reset()
        parts = [run("--shard", f"{index}/{PARTS}", "--output-dir", f"shards/{index}") for index in range(1, PARTS + 1)]
        early = len(github.state.comments)
        merge = gate(cwd, "merge", *options, variables=variables, codes=(0,))
        same_calls = server.stats()["statuses"] == calls
        comments = [comment.body for comment in github.state.comments_of(PULL)]
    one_comment = not early and len(comments) == len(github.state.comments) == 1 and f"{cases:,}" in comments[0]
    same = outcome(cwd, "agent-eval-results") == outcome(cwd, "whole")
    ratio = slowest_to_mean([part.seconds for part in parts])
    of_cpu = slowest_to_mean([part.cpu_seconds for part in parts])
    print(f"{cases:,} cases in {PARTS} parts, balanced by {'durations' if durations else 'turns'}:")
    named = {"one run": whole, **{f"part {index}": part for index, part in enumerate(parts, 1)}, "merge": merge}
    for name, one in named.items():
        print(f"  {name:8} {one.seconds:7.1f} s  {one.cpu_seconds:7.1f} s of CPU  {one.peak_mb:5.0f} MB")
    print(
        f"  slowest part to the mean {ratio:.2f} (of CPU {of_cpu:.2f}); same verdict and scores: {same}; "
        f"same model calls: {same_calls}; comments of the parts: {early}, of the merge: {len(comments) - early}"
    )
    return same and same_calls and one_comment and ratio <= SLOWEST_TO_MEAN


def slowest_to_mean(seconds: Sequence[float]) -> float:
    return max(seconds) * len(seconds) / sum(seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent-python", help="an interpreter with google-adk, for parts with real processes")
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--durations", action="store_true", help="balance the parts by recorded durations")
    parser.add_argument("--earlier", type=Path, help="another checkout of the project: only the pairs with it")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--files", type=int, default=FILES, help=f"of {CASES_PER_FILE} cases, for these pairs")
    parser.add_argument("--only-agent", action="store_true", help="leave out the merge of recorded cases")
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="agent-eval-merge-"))
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    try:
        if arguments.earlier is not None:
            against(arguments.earlier.resolve(), directory, arguments.pairs, arguments.files)
            return 0
        met = arguments.only_agent or merge_of_recorded(directory)
        if arguments.agent_python is not None:
            met &= parts_of_an_agent(directory, arguments.agent_python, arguments.cases, arguments.durations)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
