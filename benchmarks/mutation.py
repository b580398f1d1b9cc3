"""What `agent-eval mutate` finds, and what its advice is worth: python benchmarks/mutation.py [--seed N] [--show].

The examples of this repository, run as `make demo` does, and the six agents of changed_answers.toml with three runs of
each case, two of them in other words. Each is measured, its advice applied, and measured again: goals are 80% of the
missed mutants killed, and no stored run newly red. Time: CPU of the survey, in scorings of the same runs by the gate.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from changed_answers import AGENTS, DAY, NOW, Agents, Noise, Wording, expected, files_of, run_of

from agent_eval.baseline.reader import open_results
from agent_eval.gate.policy import PolicyReader
from agent_eval.pipeline import load
from agent_eval.runner import make_plan
from agent_eval.runner.scoring import report_run
from agent_eval.settings import read_settings
from agent_eval_scoring.evalset.models import EvalCase, EvalSet
from agent_eval_workbench.mutation.report import LeftOut
from agent_eval_workbench.mutation.subjects import Rules, find_subjects
from agent_eval_workbench.mutation.survey import survey

ROOT = Path(__file__).resolve().parents[1]
GOAL_KILLED, GOAL_TIME = 0.8, 20
CRITERIA: Mapping[str, Mapping[str, Any]] = {
    "ADK's defaults": {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8},
    "trajectory in order, half of the words": {
        "tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"},
        "response_match_score": 0.5,
    },
    "init's": {
        "tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"},
        "response_facts": {"threshold": 1.0, "names": True, "states": True, "negation": True},
        "response_match_score": 0.3,
    },
}
EXAMPLES: Mapping[str, Sequence[str]] = {
    "home_automation": ("{agent_eval}", "run", "{folder}"),
    "similarity": ("{agent_eval}", "run", "{folder}", "--agent", "recorded:{folder}/answers.json"),
    "hotel_concierge": ("{python}", "{folder}/serve.py", "{agent_eval}", "run", "{folder}"),
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was measured of one suite."""

    name: str
    runs: int
    mutants: int
    missed: int
    """By today's criteria."""
    killed: int
    """Of these, with the advice."""
    red: int
    """Stored runs that passed before and do not with the advice."""
    scoring: float
    """CPU seconds of scoring the runs once."""
    survey: float
    """CPU seconds of the mutants and the advice."""

    def __str__(self) -> str:
        share = f"{self.killed / self.missed:.0%}" if self.missed else "-"
        cells = (self.runs, self.mutants, f"{self.missed} ({self.missed / max(self.mutants, 1):.0%})", share, self.red)
        return f"| {self.name} | {' | '.join(map(str, cells))} | {self.survey / self.scoring:.1f} |"


def agent_eval(root: Path, *arguments: str, codes: Sequence[int] = (0,)) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "agent_eval", *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode in codes, (arguments, done.stdout[-2000:] + done.stderr[-2000:])
    return done.stdout


def statuses(root: Path) -> dict[str, str]:
    """Of each stored run."""
    report = json.loads((root / "agent-eval-results" / "results.json").read_text("utf-8"))
    return {run["run_id"]: run["status"] for case in report["cases"] for run in case["runs"]}


def measured(root: Path, name: str, seed: int, *, show: bool) -> Row:
    """Measures the suite of a repository whose results are stored, and changes its configs by the advice."""
    scoring, survey_time = asyncio.run(_seconds(root, seed))
    green = statuses(root)
    first = json.loads(agent_eval(root, "mutate", "--format", "json", "--apply", "--seed", str(seed)))
    recorded = root / "recorded"
    shutil.rmtree(recorded, ignore_errors=True)
    shutil.move(root / "agent-eval-results", recorded)
    # The same stored runs, scored as a run scores them: without judges, which the advice does not concern.
    agent_eval(root, "run", "--agent", "recorded:recorded", "--num-runs", _runs(green), "--without-keys",
               "deterministic-only", codes=(0, 1, 3))  # fmt: skip
    now = statuses(root)
    red = [run for run, status in green.items() if status == "passed" and now.get(run) == "failed"]
    again = json.loads(agent_eval(root, "mutate", "--format", "json", "--seed", str(seed), codes=(0, 3)))
    after = {_key(mutant): mutant["outcome"] for mutant in again["mutants"]}
    missed = [mutant for mutant in first["mutants"] if mutant["outcome"] == "survived"]
    if show:
        for mutant in missed:
            if after.get(_key(mutant)) != "killed":
                print(
                    f"still missed: {name}: {mutant['case_id']}: {mutant['kind']}: {mutant['old']} -> {mutant['new']}"
                )
        print("".join(f"red: {run}\n" for run in red), end="")
    return Row(
        name=name,
        runs=first["runs"],
        mutants=len(first["mutants"]),
        missed=len(missed),
        killed=sum(after.get(_key(mutant)) == "killed" for mutant in missed),
        red=len(red),
        scoring=scoring,
        survey=survey_time,
    )


def _runs(runs: Mapping[str, str]) -> str:
    return str(max(int(run.rpartition("#")[2]) for run in runs))


def _key(mutant: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(mutant[name] for name in ("case_id", "turn", "kind", "old", "new"))


async def _seconds(root: Path, seed: int) -> tuple[float, float]:
    settings, _ = read_settings(root)
    suite = load(settings)
    rules = Rules(policy=PolicyReader(settings.policy), tool_args=settings.tool_args)
    left_out: list[LeftOut] = []
    with open_results(root / "agent-eval-results") as stored:
        subjects = list(find_subjects(stored, stored.report.cases, suite, rules, left_out))
    # As a run scores them, where no judge and no agent are needed.
    plan = make_plan(suite.files, {file.path: "" for file in suite.files}, {}, 1)
    planned = {case.case_id: case for case in plan.cases}
    subjects = [subject for subject in subjects if subject.case_id in planned]
    scoring, surveys = [], []
    for _ in range(4):  # The first reads tables and builds models.
        begun = time.process_time()
        for subject in subjects:
            for run in subject.runs:
                await report_run(planned[subject.case_id], run)
        scoring.append(time.process_time() - begun)
        begun = time.process_time()
        await survey(subjects, suite, rules, root, seed, left_out)
        surveys.append(time.process_time() - begun)
    return min(scoring), min(surveys)


def six_agents(folder: Path, seed: int) -> Iterator[tuple[str, Path]]:
    """A repository for each agent and each set of criteria, with its stored runs."""
    agents = Agents(folder / "imported")
    (folder / "imported").mkdir()
    for name in AGENTS:
        agent = agents.of(files_of(name))
        for title, criteria in CRITERIA.items():
            root = folder / f"{name}-{len(title)}"
            (root / "evals").mkdir(parents=True)
            lines, cases = [], []
            for case in agent.cases:
                file = f"evals/{name}.evalset.json"
                for number in range(3):
                    rng = random.Random(f"{seed} {case} {number}")
                    noise = (Wording if number else Noise)(rng, NOW)
                    run = run_of(agent, case, number, NOW - DAY, noise)
                    if not number:
                        cases.append(EvalCase(eval_id=case, conversation=expected(run)))
                    facts = {"file": file, "case_id": f"{file}:{case}", "run_id": f"{file}:{case}#{number + 1}"}
                    lines.append(run.model_copy(update=facts).model_dump_json(exclude_none=True))
            text = EvalSet(eval_set_id=name, eval_cases=cases).model_dump_json(exclude_none=True, exclude_unset=True)
            (root / "evals" / f"{name}.evalset.json").write_text(text, "utf-8")
            (root / "evals" / "test_config.json").write_text(json.dumps({"criteria": criteria}), "utf-8")
            (root / "answers.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
            agent_eval(root, "run", "--agent", "recorded:answers.jsonl", "--num-runs", "3", codes=(0, 1))
            yield f"{name}, {title}", root


def examples(folder: Path) -> Iterator[tuple[str, Path]]:
    """The examples, each in a repository of its own."""
    for name, command in EXAMPLES.items():
        root = folder / name
        root.mkdir()
        shutil.copytree(ROOT / "examples", root / "examples")
        words = {
            "folder": f"examples/{name}",
            "python": sys.executable,
            "agent_eval": Path(sys.executable).with_name("agent-eval"),
        }
        line = [word.format(**words) for word in command]
        done = subprocess.run(line, cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        for other in (root / "examples").iterdir():  # What others expect is not this run's.
            if other.is_dir() and other.name != name:
                shutil.rmtree(other / "evals", ignore_errors=True)
        yield f"example {name}", root


def main() -> int:
    """Prints a table; whether the goals are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-examples", action="store_true", help="only the six agents: needs no package index")
    parser.add_argument("--show", action="store_true", help="print what is still missed")
    arguments = parser.parse_args()
    print("| suite | stored runs | mutants | missed today | of these killed after the advice | newly red | time |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    with tempfile.TemporaryDirectory(prefix="agent-eval-mutation-") as name:
        folder = Path(name)
        suites = [*([] if arguments.no_examples else [examples(folder)]), six_agents(folder, arguments.seed)]
        for title, root in (pair for suite in suites for pair in suite):
            rows.append(measured(root, title, arguments.seed, show=arguments.show))
            print(rows[-1], flush=True)
    total = Row(
        name="all",
        runs=sum(row.runs for row in rows),
        mutants=sum(row.mutants for row in rows),
        missed=sum(row.missed for row in rows),
        killed=sum(row.killed for row in rows),
        red=sum(row.red for row in rows),
        scoring=sum(row.scoring for row in rows),
        survey=sum(row.survey for row in rows),
    )
    print(total)
    met = total.killed >= GOAL_KILLED * total.missed and not total.red and total.survey <= GOAL_TIME * total.scoring
    print(f"Goals: {GOAL_KILLED:.0%} killed, none red, {GOAL_TIME} times: {'met' if met else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
