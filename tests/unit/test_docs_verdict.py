"""docs/verdict.md lists every status, docs/problems.md every kind of error, and the examples are correct."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

from agent_eval.agents.protocol import FailureKind, MetricFailureKind
from agent_eval.gate import caveats
from agent_eval.gate.verdict import EXIT_CODES, decide, exit_code
from agent_eval.results._merge import WITHOUT_KEY, merge
from agent_eval.results.recording import RunError
from agent_eval.results.report import CaseReport, CaseStatus, MetricReport, MetricStatus, Reason, RunResult, RunScore
from agent_eval.results.shard import SHARD_MISSING
from agent_eval.simulation.protocol import CODES
from agent_eval.simulation.simulated import TEMPLATE_CODE

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "verdict.md").read_text(encoding="utf-8")
PROBLEMS = (ROOT / "docs" / "problems.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    section = PAGE.split(f"# {heading}\n", 1)[1]
    table = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert table is not None, f"no table below {heading}"
    return [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in table[0].splitlines()[2:]]


def first_codes(heading: str) -> set[str]:
    return {code for row in rows(heading) for code in re.findall(r"`([^`]+)`", row[0])}


def runner_error_kinds() -> set[str]:
    """The first arguments of `_halt_runs` and the constants that stand for them."""
    tree = ast.parse((ROOT / "src/agent_eval/runner/execution.py").read_text(encoding="utf-8"))
    constants = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    kinds = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "_halt_runs":
            kind = node.args[0]
            kinds.add(str(kind.value) if isinstance(kind, ast.Constant) else constants[getattr(kind, "id", "")])
    return kinds


def test_errors__every_kind_is_described() -> None:
    ours = runner_error_kinds() | {WITHOUT_KEY, SHARD_MISSING}
    kinds = {str(kind) for kind in [*FailureKind, *MetricFailureKind]}

    assert "run-timeout" in ours
    section = PROBLEMS.partition("\n## Failures of a run\n")[2]
    listed = re.findall(r"^### `([a-z-]+)`\n(?:Agent|Provider|Gate)[.;]", section, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == kinds | ours | {*CODES.values(), TEMPLATE_CODE}


def test_statuses__every_status_has_a_row() -> None:
    assert first_codes("A metric") == set(get_args(MetricStatus))
    assert first_codes("A case and its runs") == set(get_args(CaseStatus))


def test_caveats__every_code_has_a_row() -> None:
    codes = {code for row in rows("When nothing was evaluated") for code in re.findall(r"`([^`]+)`", row[2])}
    assert codes >= {caveats.NOTHING_SCORED, caveats.NOTHING_GATED, caveats.NO_CASE_PASSES, "advisory"}


def test_exit_codes__are_those_of_the_code() -> None:
    table = {re.sub("`", "", row[1]): int(re.sub("`", "", row[0])) for row in rows("Exit codes")}

    assert {verdict: table[verdict] for verdict in EXIT_CODES} == EXIT_CODES
    assert exit_code("inconclusive", "pass", not_run=0) == 0


THRESHOLD = 0.8


def part(run: int, outcome: str) -> CaseReport:
    """A run as the examples write it: a score, `no score`, `agent error`, `provider error` or `not run`."""
    error: RunError | None = None
    scores: list[RunScore] = []
    status: CaseStatus
    if outcome == "not run":
        status, error = "not_run", RunError(kind="stopped", owner="gate", message="stopped")
    elif outcome == "agent error":
        status, error = "failed", RunError(kind="agent-exception", owner="agent", message="raised")
    elif outcome == "provider error":
        status, error = "errored", RunError(kind="provider-unavailable", owner="provider", message="429")
    elif outcome == "no score":
        reason = Reason(code="turn-count", message="a turn is missing")
        status, scores = "errored", [RunScore(run=run, status="not_evaluated", reason=reason)]
    else:
        passed = float(outcome) >= THRESHOLD
        status = "passed" if passed else "failed"
        scores = [RunScore(run=run, score=float(outcome), status="passed" if passed else "failed")]
    metrics = [MetricReport(name="m", threshold=THRESHOLD, status=score.status, runs=[score]) for score in scores]
    result = RunResult(run_id=f"f:e#{run + 1}", run=run, status=status, error=error)
    return CaseReport(
        case_id="f:e", file="f", eval_set_id="s", eval_id="e", status=status, metrics=metrics, runs=[result]
    )


@pytest.mark.parametrize(("runs", "rate", "case", "code"), [row[:4] for row in rows("Examples")])
def test_examples__have_the_documented_outcome(runs: str, rate: str, case: str, code: str) -> None:
    [merged] = merge(
        [part(run, outcome.strip()) for run, outcome in enumerate(runs.split(","))], min_pass_rate=float(rate)
    )

    assert merged.status == case.strip("`")
    assert (merged.reason.code if merged.reason else "") == code.strip("`")


def test_examples__are_enough() -> None:
    assert len(rows("Examples")) >= 8


@pytest.mark.parametrize("row", rows("From the cases to the verdict"), ids=lambda row: row[1].strip("`"))
def test_verdicts__follow_from_the_cases(row: list[str]) -> None:
    statuses = [status for status in get_args(CaseStatus) if f"`{status}`" in row[0]]
    cases = [
        CaseReport(case_id=status, file="f", eval_set_id="s", eval_id=status, status=status) for status in statuses
    ]

    # Nothing is decided about what may not run.
    assert row[1].strip("`") == (decide(cases).value if cases else "invalid")
