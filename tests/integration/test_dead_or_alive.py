"""What the gate says of a run that evaluates nothing: dead_or_alive.md has the table, and here it is measured.

Each trouble is run once as a user runs it, without a baseline. What other gates and baselines make of these results is
decided by the functions that the pipeline calls, on the same results; some of them are run as a whole too.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from base_repos import new_repo
from dead_or_alive import TROUBLES, Trouble, healthy_run, suite
from fake_github import FakeGitHub
from gate_runs import Done
from pull_requests import BOT, Lab

from agent_eval.agents.sandbox.isolation import NO_PROCESS
from agent_eval.baseline.file import FileSource
from agent_eval.baseline.git import GitError
from agent_eval.baseline.lookup import BaselineRequest, resolve
from agent_eval.core.limiter import Limiter
from agent_eval.gate.history.answers import is_scored
from agent_eval.gate.verdict import exit_code
from agent_eval.pipeline._checkout import Checkout
from agent_eval.pipeline._decision import decide_on
from agent_eval.pipeline._regression import compare_with_base, pair_with_base
from agent_eval.pipeline.ci_context import LOCAL
from agent_eval.pipeline.context import RunContext
from agent_eval.report.phrases import headline, put_into_words
from agent_eval.report.views import view_of
from agent_eval.results.report import RunReport
from agent_eval.runner.journal import Journal
from agent_eval.runner.plan import Plan
from agent_eval.settings import read_settings

pytestmark = pytest.mark.slow

PAGE = Path(__file__).with_name("dead_or_alive.md")
HEAD = "| what happened | on the base branch | `gate` | exit code | first line |\n|---|---|---|---|---|\n"
BASES = ("no baseline", "the same", "healthy")
GATES: Mapping[str, Mapping[str, str]] = {
    "auto": {"gate": "auto"},
    "thresholds": {"gate": "thresholds"},
    "regressions": {"gate": "regressions"},
    "both": {"gate": "both"},
    "advisory": {"gate": "advisory"},
    "on-inconclusive: pass": {"gate": "auto", "on-inconclusive": "pass"},
}
ASKED_TO_PASS = {"advisory", "on-inconclusive: pass"}
WANTED = BaselineRequest(repository="", base_ref="main", commit="0" * 40, how="of the test", is_pull_request=False)

Cell = tuple[int, str]
"""The exit code and the first line."""


async def decided(head: bytes, base: Path | None, root: Path, flags: Mapping[str, str]) -> Cell:
    """What the pipeline makes of a head's results, beside a baseline."""
    report = RunReport.model_validate_json(head)
    settings, problems = read_settings(root, flags={**flags, "max-extra-runs": "0"})
    assert problems == []
    if report.verdict != "invalid":
        ci = replace(LOCAL, baseline_request=WANTED)
        with closing(Journal(root / "decided.jsonl", resume=False)) as journal:
            bench = Checkout(
                settings=settings,
                context=RunContext(environ={}, log=lambda _: None, ci=ci),
                agents={},
                isolation=NO_PROCESS,
                journal=journal,
                limiter=Limiter(1),
                models=None,
                until=time.monotonic() + 60,
            )
            recorded = any(file.agent.startswith("recorded:") for file in report.files)
            outcome = None
            if base is not None:
                source = FileSource(path=str(base.relative_to(root)), root=root, git=GitError("no checkout"))
                outcome = await resolve([source], WANTED)
            plan = Plan(cases=(), num_runs=1)
            paired = pair_with_base(report, outcome, settings.history)
            compared = await compare_with_base(report, outcome, paired, bench, plan, None, repeatable=not recorded)
            decide_on(report, bench, compared, repeatable=not recorded)
    report.exit_code = exit_code(report.verdict, settings.on_inconclusive, not_run=report.totals.not_run)
    put_into_words(report)
    line = headline(view_of(report), brief=True)
    if report.exit_code == 0 and not (flags["gate"] == "advisory" or "on-inconclusive" in flags):
        assert any(map(is_scored, report.cases)), f"green, and nothing was scored: {line}"
    assert not line.startswith("Passed") or report.totals.passed, line
    return report.exit_code, steady(line)


def steady(line: str) -> str:
    """Without what differs from run to run."""
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", line)


def first_line(done: Done) -> str:
    """The verdict on the console, without the time."""
    report = done.report
    line = headline(view_of(report), brief=True)
    shown = " ".join(done.out.split())
    assert f"{line} (" in shown, f"{line!r} is not on the console:\n{done.out}"
    return steady(line)


def rows_of(trouble: Trouble, cells: Mapping[tuple[str, str], Cell]) -> list[str]:
    """The trouble's rows: bases and gates with the same answer share one."""
    by_base: dict[tuple[tuple[tuple[str, ...], Cell], ...], list[str]] = {}
    for base in BASES:
        by_cell: dict[Cell, list[str]] = {}
        for gate in GATES:
            by_cell.setdefault(cells[base, gate], []).append(gate)
        key = tuple((tuple(gates), cell) for cell, gates in by_cell.items())
        by_base.setdefault(key, []).append(base)
    rows = []
    for result, bases in by_base.items():
        for gates, (code, line) in result:
            which = "any" if len(gates) == len(GATES) else ", ".join(f"`{gate}`" for gate in gates)
            where = "any" if len(bases) == len(BASES) else ", ".join(bases)
            rows.append(f"| {trouble.name} | {where} | {which} | {code} | {line.replace('|', '&#124;')} |\n")
    return rows


def golden(trouble: Trouble, rows: list[str]) -> list[str]:
    """The rows of the page; with UPDATE_GOLDEN they are written first."""
    mine = f"| {trouble.name} |"
    if os.environ.get("UPDATE_GOLDEN"):
        with PAGE.open("r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            before, table, after = _parts(file.read())
            names = [f"| {item.name} |" for item in TROUBLES]
            kept = [row for row in table if not row.startswith(mine)] + rows
            kept = [row for name in names for row in kept if row.startswith(name)]
            file.seek(0)
            file.write(before + "".join(kept) + after)
            file.truncate()
    return [row for row in _parts(PAGE.read_text("utf-8"))[1] if row.startswith(mine)]


def _parts(text: str) -> tuple[str, list[str], str]:
    """The page up to the table's rows, the rows, and the rest."""
    before, result, rest = text.partition(HEAD)
    assert result, "dead_or_alive.md has no table"
    lines = rest.splitlines(keepends=True)
    end = next((at for at, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return before + HEAD, lines[:end], "".join(lines[end:])


@contextmanager
def base_results(root: Path, results: bytes) -> Iterator[Path]:
    path = root / "base.json"
    path.write_bytes(results)
    yield path
    path.unlink()


_HEALTHY: dict[bool, bytes] = {}


@pytest.fixture
def healthy(tmp_path_factory: pytest.TempPathFactory, trouble: Trouble) -> bytes:
    """Results of the same cases with an agent that passes them; made once."""
    if trouble.judged not in _HEALTHY:
        repository = suite(tmp_path_factory.mktemp("healthy") / "repo")
        done = healthy_run(repository, judged=trouble.judged)
        assert (done.code, first_line(done)) == (0, first_line(done)), done.out + done.err
        _HEALTHY[trouble.judged] = (done.output / "results.json").read_bytes()
    return _HEALTHY[trouble.judged]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.name)
async def test_dead_or_alive__dead_or_alive(trouble: Trouble, tmp_path: Path, healthy: bytes) -> None:
    repository = suite(tmp_path / "repo")
    with trouble.prepare(repository) as started:
        done = started.run(repository)
    head = (done.output / "results.json").read_bytes()

    cells: dict[tuple[str, str], Cell] = {}
    for base, results in zip(BASES, (None, head, healthy), strict=True):
        for gate, flags in GATES.items():
            if results is None:
                cells[base, gate] = await decided(head, None, repository.root, flags)
                continue
            with base_results(repository.root, results) as path:
                cells[base, gate] = await decided(head, path, repository.root, flags)

    assert cells["no baseline", "auto"] == (done.code, first_line(done)), done.out + done.err
    rows = rows_of(trouble, cells)
    assert golden(trouble, rows) == rows


def cell_of(trouble: str, base: str, gate: str) -> Cell:
    """What the page says."""
    for row in _parts(PAGE.read_text("utf-8"))[1]:
        name, bases, gates, code, line = (cell.strip() for cell in row.strip()[1:-1].split("|"))
        in_row = base in bases.split(", ") or bases == "any"
        if name == trouble and in_row and (f"`{gate}`" in gates.split(", ") or gates == "any"):
            return int(code), line
    raise AssertionError(f"no row for {trouble}, {base}, {gate}")


WHOLE = ("import error", "all quarantined", "agent that always raises")


@pytest.mark.parametrize("trouble", [item for item in TROUBLES if item.name in WHOLE], ids=lambda trouble: trouble.name)
def test_dead_or_alive__a_whole_run_beside_a_baseline_says_what_the_page_says(
    trouble: Trouble, tmp_path: Path, healthy: bytes
) -> None:
    repository = suite(tmp_path / "repo")
    repo = new_repo(repository.root)
    # A file where results are, so that only the base branch's is taken for a baseline.
    repo.commit({"base.json": healthy, ".gitignore": "agent-eval-results/\n__pycache__/\n"})
    flags = ("--baseline", "file:base.json", "--base-ref", "main", "--max-extra-runs", "0")
    with trouble.prepare(repository) as started:
        if (repository.root / "agent-eval.toml").exists():  # Main's rules apply, not those of the branch.
            repo.git("add", "agent-eval.toml")
            repo.git("commit", "-q", "-m", "Quarantine")
        repo.git("checkout", "-q", "-b", "change")
        repo.commit({})
        beside_healthy = started.run(repository, *flags)
        said = {"healthy": (beside_healthy.code, first_line(beside_healthy))}
        baseline = beside_healthy.report.baseline
        repo.git("checkout", "-q", "main")
        repo.commit({"base.json": (beside_healthy.output / "results.json").read_bytes()})
        repo.git("checkout", "-q", "change")
        repo.git("merge", "-q", "-m", "Take main over", "main")
        beside_the_same = started.run(repository, *flags)
        said["the same"] = (beside_the_same.code, first_line(beside_the_same))
    assert said == {base: cell_of(trouble.name, base, "auto") for base in said}, beside_the_same.out
    assert baseline is not None
    assert baseline.status == "found"


def test_dead_or_alive__a_base_branch_that_was_dead_once_excuses_no_pull_request(tmp_path: Path) -> None:
    needs_token = {"bot__agent.py": "import os\n\nos.environ['WEATHER_TOKEN']\n" + BOT}
    with FakeGitHub() as github:
        lab = Lab.make(tmp_path / "shop", github, "lamp_on", "lamp_off")
        alive = lab.base_run().code
        lab.commit(None, **needs_token)
        dead = lab.base_run()
        history = dead.report.history
        readme = lab.pull_request(7, files={**needs_token, "README.md": "# Shop\n"})
        unchanged = readme.report
        repaired = lab.pull_request(8)
        lab.repository.end()

    assert (alive, dead.code) == (0, 1), dead.out
    assert history is not None
    assert [case.outcomes for case in history.cases] == ["1", "1"]
    assert readme.code == 1, readme.out + readme.err
    last = unchanged.reasons[-1].message
    assert last == "Nothing was evaluated: none of 2 cases was scored (2 agent-import)"
    assert repaired.code == 0, repaired.out + repaired.err
    for baseline in (unchanged.baseline, repaired.report.baseline):
        assert baseline is not None
        assert (baseline.status, baseline.distance) == ("found", 1)
        assert "is not usable: its agent never answered (agent-import: " in baseline.message
