"""How often the whole gate fails pull requests: a real repository, agent, command line and history of artifacts.

    python benchmarks/gate_end_to_end.py                     # three seeds, writes the table into RESULTS.md
    python benchmarks/gate_end_to_end.py --seeds 1 --pulls 5 --print
    python benchmarks/gate_end_to_end.py --main              # days on which main itself is not as it was

Where gate_error_rates.py draws runs and asks the gate's core, nothing is left out here: each pull request is a commit
in a git repository; `agent-eval run` is started as GitHub starts it and talks to a stand-in for GitHub's API;
google-adk runs the agent of city_guide.py, whose model is a server on loopback that errs by chance, with a seed; and
what the gate compares with are the artifacts that earlier runs on the base branch have left. First the base branch
gets a history. Then come pull requests that change nothing and pull requests that break one tool, in random order, and
between them pushes to the base.

With `--main` it is main that changes: one of its cases breaks, and pull requests come after 1, 3, 5 and 12 records of
that; or the model is stricter today on both sides. And a pull request that halves one case is started up to three times
until it is green, with the artifacts of its attempts, with its comment alone, and without either.

Exit code 0 when the promise is kept with every seed, 1 when it isn't, 2 when a run was not what it should have been,
for instance without a baseline.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "integration"))

from base_repos import Repo
from city_guide import AGENT, SUBJECTS, TOOLS, ErringModel, break_tool, cases_of, eval_set, halve_tool
from fake_gemini import FakeGemini
from fake_github import FakeGitHub
from gate_error_rates import insert, share
from gate_runs import Done, Repository
from pull_requests import Lab

from agent_eval_results.data.report import CaseReport, RunReport

DOCS = Path(__file__).resolve().with_name("RESULTS.md")
SEEDS = (1, 2, 3)
PULLS = 40
"""Of each kind."""
HISTORY = 10
"""Runs of the base before the first pull request."""
PULLS_BETWEEN_PUSHES = 8
RECORDS = (1, 3, 5, 12)
"""Records of main since one of its cases is broken."""
STRICTER = 0.05
ATTEMPTS = 3
MOST_FAILED, LEAST_CAUGHT = 0.1, 0.95
"""What is promised, as shares."""


class Void(Exception):
    """A run was not what was to be measured."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A pull request and what the gate made of it."""

    seed: int
    number: int
    broken: str | None
    """The tool that it broke."""
    verdict: str
    blamed: tuple[str, ...]
    """Ids of the cases that the gate called broken or worse."""
    red: int
    """Cases that failed the first run of everything."""
    runs: int
    """Of all cases together, with those that the gate added."""
    base_depth: int
    """Runs of the base that each case was compared with, at least."""
    seconds: float

    @property
    def failed(self) -> bool:
        return self.verdict == "failed"

    @property
    def blames_right(self) -> bool:
        """Whether each case that it names needs the broken tool, and it names one."""
        return bool(self.blamed) and self.broken is not None and set(self.blamed) <= cases_of(self.broken)


class Guide(Lab):
    """The repository of city_guide.py."""

    model: ErringModel
    environment: dict[str, str]

    @classmethod
    def found(cls, root: Path, github: FakeGitHub, model: ErringModel, url: str) -> Guide:
        """Its first commit."""
        root.mkdir()
        repository, repo = Repository(root=root, new_hosts=True), Repo(root)
        repo.git("init", "-q", "-b", "main")
        lab = cls(repository=repository, github=github, repo=repo)
        lab.model = model
        lab.environment = {"GOOGLE_GEMINI_BASE_URL": url, "GOOGLE_API_KEY": "any"}
        criteria = {"criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}}
        lab.commit(
            None,
            **{
                "guide/__init__.py": "from . import agent\n",
                "guide/agent.py": AGENT,
                "guide/tools.py": TOOLS,
                "guide/guide.evalset.json": json.dumps(eval_set()),
                "guide/test_config.json": json.dumps(criteria),
                ".gitignore": "agent-eval-results/\n__pycache__/\n",
            },
        )
        return lab

    def commit(self, rates: Mapping[str, Any] | None = None, **files: str | None) -> str:
        """Commits files by path. The pass rates are the model's, not the repository's."""
        sha = self.repo.commit(files)
        self.github.state.take_git(self.repo.root)
        return sha

    def push(self, number: int) -> RunReport:
        """A change of the base branch that changes nothing for the agent, and its run."""
        self.repo.git("checkout", "-q", "main")
        self.commit(None, **{"NEWS.md": f"News number {number}\n"})
        self.model.begin(f"push {number}")
        return _checked(self.base_run(environment=self.environment))

    def judge(self, number: int, broken: str | None) -> tuple[RunReport, float]:
        """A pull request and its run."""
        files = {f"notes/{number}.md": "A note\n", **({"guide/tools.py": break_tool(broken)} if broken else {})}
        self.model.begin(f"pull request {number}")
        done = self.pull_request(number, files=files, environment=self.environment)
        return _checked(done), done.seconds


def _checked(done: Done) -> RunReport:
    """The report of a run that was judged.

    Raises:
        Void: It wasn't.
    """
    if done.code not in {0, 1, 3} or not (done.output / "results.json").exists():
        raise Void(f"exit code {done.code}\n{done.out}\n{done.err}")
    report = done.report
    wrong = [case.reason for case in report.cases if case.status not in {"passed", "failed"}]
    if wrong or len(report.cases) != sum(len(subject.rates) for subject in SUBJECTS):
        raise Void(f"cases that were not judged: {wrong}\n{done.err}")
    return report


def _depth(report: RunReport) -> int:
    """The least runs of the base that a case of it has."""
    return min(len(case.outcomes) for case in report.history.cases) if report.history else 0


def _runs(cases: Sequence[CaseReport]) -> int:
    return sum(len(case.runs) for case in cases)


def schedule(seed: int, pulls: int) -> list[str | None]:
    """The tool that each pull request breaks: each tool about as often, None for half of them, in random order."""
    tools = [subject.tool for subject in SUBJECTS]
    broken: list[str | None] = [tools[index % len(tools)] for index in range(pulls)]
    order = [*broken, *[None] * pulls]
    random.Random(seed).shuffle(order)
    return order


def trials(seed: int, pulls: int, root: Path) -> Iterator[Trial]:
    """All pull requests of a seed.

    Raises:
        Void: One was not compared with the base's history.
    """
    model = ErringModel(seed)
    with FakeGemini(model) as gemini, FakeGitHub() as github:
        lab = Guide.found(root / "guide", github, model, gemini.url)
        for push in range(HISTORY):
            base = lab.push(push)
        for number, broken in enumerate(schedule(seed, pulls), 1):
            report, seconds = lab.judge(number, broken)
            if report.gate != "regressions" or report.baseline is None or report.baseline.distance != 0:
                raise Void(f"pull request {number} was not compared with the newest base: {report.baseline}")
            decided = report.decision.cases if report.decision else []
            yield Trial(
                seed=seed,
                number=number,
                broken=broken,
                verdict=report.verdict,
                blamed=tuple(sorted({case.case_id.rpartition(":")[2] for case in decided if case.blocking})),
                red=sum(case.status == "failed" for case in report.cases),
                runs=_runs(report.cases) + _runs(report.confirmations) + _runs(report.base_runs),
                base_depth=_depth(base),
                seconds=round(seconds, 2),
            )
            if number % PULLS_BETWEEN_PUSHES == 0:
                base = lab.push(HISTORY + number)
        if gemini.stats.refused:
            raise Void(f"the model refused requests: {gemini.stats.refused[:3]}")
        lab.repository.end()


def _blamed(report: RunReport) -> set[str]:
    cases = report.decision.cases if report.decision else []
    return {case.case_id.rpartition(":")[2] for case in cases if case.blocking}


def main_breaks(seed: int, root: Path) -> Iterator[tuple[str, bool, str]]:
    """What comes of pull requests while a case of main is broken: what was done, whether it is right, what was seen."""
    model = ErringModel(seed)
    with FakeGemini(model) as gemini, FakeGitHub() as github:
        lab = Guide.found(root / "guide", github, model, gemini.url)
        for push in range(HISTORY):
            lab.push(push)
        pull = 0
        for records in range(1, max(RECORDS) + 1):
            lab.repo.git("checkout", "-q", "main")
            lab.commit(None, **{"guide/tools.py": break_tool("get_fare")})
            lab.push(HISTORY + records)
            if records not in RECORDS:
                continue
            for other in (None, "find_museum"):
                pull += 1
                broken = break_tool("get_fare") if other is None else break_tool(other, break_tool("get_fare"))
                model.begin(f"pull request {pull}")
                files = {f"notes/{pull}.md": "A note\n", "guide/tools.py": broken}
                done = lab.pull_request(pull, files=files, environment=lab.environment)
                blamed = _blamed(_checked(done))
                said = "fails on main today, too" in lab.comment(pull)
                wanted = (done.code == 1 and blamed and blamed <= cases_of(other)) if other else done.code == 0 and said
                seen = f"exit {done.code}" + (", said" if said else "") + f" {' '.join(sorted(blamed))}".rstrip()
                what = "another tool broken" if other else "nothing changed"
                yield f"main broken for {records} records, {what}", bool(wanted), seen
        lab.repository.end()


def stricter_day(seed: int, pulls: int, root: Path) -> Iterator[tuple[str, bool, str]]:
    """What comes of pull requests that change nothing while a model is stricter on both sides."""
    model = ErringModel(seed)
    with FakeGemini(model) as gemini, FakeGitHub() as github:
        lab = Guide.found(root / "guide", github, model, gemini.url)
        for push in range(HISTORY):
            lab.push(push)
        model.stricter = STRICTER
        for number in range(1, pulls + 1):
            report, _ = lab.judge(number, None)
            what = f"all cases pass {STRICTER:.0%} less today, both sides"
            yield what, report.verdict == "passed", f"{report.verdict} {' '.join(sorted(_blamed(report)))}".rstrip()
        lab.repository.end()


def laundering(seed: int, pulls: int, memory: str, root: Path) -> Iterator[tuple[str, bool, str]]:
    """What comes of a pull request that halves a case, if its job is started again until it is green."""
    model = ErringModel(seed)
    with FakeGemini(model) as gemini, FakeGitHub() as github:
        lab = Guide.found(root / "guide", github, model, gemini.url)
        for push in range(HISTORY):
            lab.push(push)
        for number in range(1, pulls + 1):
            model.begin(f"pull request {number}, attempt 1")
            files = {f"notes/{number}.md": "A note\n", "guide/tools.py": halve_tool("get_fare")}
            options: dict[str, Any] = {"environment": lab.environment, "upload": memory == "artifacts"}
            codes = [lab.pull_request(number, files=files, **options).code]
            while codes[-1] == 1 and len(codes) < ATTEMPTS:
                if memory == "nothing":
                    lab.github.state.comments.clear()
                model.begin(f"pull request {number}, attempt {len(codes) + 1}")
                codes.append(lab.again(upload=memory == "artifacts").code)
            laundered = codes[0] == 1 and codes[-1] == 0
            yield f"one case 1 to .5, up to {ATTEMPTS} attempts, by {memory}", not laundered, str(codes)
        lab.repository.end()


def run_main(seed: int, kind: str, pulls: int) -> list[tuple[str, bool, str]]:
    """One kind of day, reported on stderr."""
    results = []
    with tempfile.TemporaryDirectory(prefix="agent-eval-bench-") as directory:
        root = Path(directory)
        days = {"breaks": lambda: main_breaks(seed, root), "stricter": lambda: stricter_day(seed, pulls, root)}
        for row in days[kind]() if kind in days else laundering(seed, pulls, kind, root):
            results.append(row)
            print(f"{'ok' if row[1] else 'NOT'}  {row[0]}: {row[2]}", file=sys.stderr)
    return results


def main_table(results: Sequence[tuple[str, bool, str]]) -> str:
    """A row for each kind of pull request."""
    kinds = dict.fromkeys(what for what, _, _ in results)
    lines = ["| pull requests | right |", "|---|---|"]
    for kind in kinds:
        right = [is_right for what, is_right, _ in results if what == kind]
        lines.append(f"| {kind} | {sum(right)} of {len(right)} |")
    return "\n".join(lines)


def run_seed(seed: int, pulls: int) -> list[Trial]:
    """All pull requests of a seed, reported on stderr as they are judged."""
    results = []
    with tempfile.TemporaryDirectory(prefix="agent-eval-bench-") as directory:
        begun = time.monotonic()
        for trial in trials(seed, pulls, Path(directory)):
            results.append(trial)
            print(
                f"{time.monotonic() - begun:5.0f} s  seed {seed}, #{trial.number}, "
                f"{trial.broken or 'nothing'} broken: {trial.verdict} {' '.join(trial.blamed)}",
                file=sys.stderr,
            )
    return results


def kept(results: Sequence[Trial]) -> bool:
    """Whether a seed's pull requests keep the promise."""
    same, broken = ([trial for trial in results if bool(trial.broken) is kind] for kind in (False, True))
    few = sum(trial.failed for trial in same) <= MOST_FAILED * len(same)
    return few and sum(trial.failed for trial in broken) >= LEAST_CAUGHT * len(broken)


def table(results: Sequence[Trial]) -> str:
    """A row for each seed, and one for all."""
    lines = [
        "| seed | nothing changed: failed | one tool broken: failed | of these, only its cases named "
        "| runs paid | nothing changed, but a case was red |",
        "|---|---|---|---|---|---|",
    ]
    cases = sum(len(subject.rates) for subject in SUBJECTS)
    seeds = sorted({trial.seed for trial in results})
    for name, of in [*((str(seed), {seed}) for seed in seeds), ("all", set(seeds))]:
        kinds = [
            [trial for trial in results if trial.seed in of and (trial.broken is not None) is kind]
            for kind in (False, True)
        ]
        same, broken = kinds
        caught = [trial for trial in broken if trial.failed]
        cells = [
            *(_failed(kind, interval=name == "all") for kind in kinds),
            f"{sum(item.blames_right for item in caught)} of {len(caught)}",
            " and ".join(f"{sum(item.runs for item in kind) / len(kind) / cases:.2f}" for kind in kinds),
            f"{sum(item.red > 0 for item in same)} of {len(same)}",
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _failed(kind: Sequence[Trial], *, interval: bool) -> str:
    failed = sum(trial.failed for trial in kind)
    return f"{failed} of {len(kind)}" + (f": {share(failed, len(kind))}" if interval else "")


def main() -> int:
    """Measures, and writes or prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--pulls", type=int, default=PULLS, help=f"pull requests of each kind ({PULLS})")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="seeds at a time")
    parser.add_argument("--json", type=Path, help="where to write every single pull request")
    parser.add_argument("--print", action="store_true", help="print the table instead of writing it into the docs")
    parser.add_argument("--main", action="store_true", help="days on which main is not as it was")
    arguments = parser.parse_args()
    if arguments.main:
        return _main_days(arguments)
    with ProcessPoolExecutor(arguments.workers) as pool:
        futures = [pool.submit(run_seed, seed, arguments.pulls) for seed in arguments.seeds]
        try:
            results = [trial for future in futures for trial in future.result()]
        except Void as error:
            pool.shutdown(cancel_futures=True)
            print(f"Not measured: {error}", file=sys.stderr)
            return 2
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(trial) for trial in results], indent=1), encoding="utf-8")
    print(table(results))
    if not arguments.print:
        DOCS.write_text(insert(DOCS.read_text(encoding="utf-8"), "end to end", table(results)), encoding="utf-8")
    return 0 if all(kept([trial for trial in results if trial.seed == seed]) for seed in arguments.seeds) else 1


def _main_days(arguments: argparse.Namespace) -> int:
    kinds = ("breaks", "stricter", "artifacts", "the comment alone", "nothing")
    pulls = min(arguments.pulls, 20)
    with ProcessPoolExecutor(arguments.workers) as pool:
        futures = [pool.submit(run_main, arguments.seeds[0], kind, pulls) for kind in kinds]
        results = [row for future in futures for row in future.result()]
    made = main_table(results)
    print(made)
    if not arguments.print:
        DOCS.write_text(insert(DOCS.read_text(encoding="utf-8"), "main", made), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
