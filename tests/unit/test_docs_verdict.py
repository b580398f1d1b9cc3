"""docs/verdict.md lists every status, docs/problems.md every kind of error, and the examples are correct."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import history_samples
import pytest
from docs_pages import codes, page, rows, section

from agent_eval.agents.protocol import FailureKind, MetricFailureKind
from agent_eval.gate import caveats
from agent_eval.gate.verdict import EXIT_CODES, decide, exit_code
from agent_eval.results._merge import WITHOUT_KEY, merge
from agent_eval.results.report import CaseReport, CaseStatus, MetricStatus
from agent_eval.results.shard import SHARD_MISSING
from agent_eval.runner import execution
from agent_eval.simulation.protocol import CODES
from agent_eval.simulation.simulated import TEMPLATE_CODE

PAGE = page("verdict.md")


def first_codes(heading: str) -> set[str]:
    return {code for row in rows(section(PAGE, heading)) for code in codes(row[0])}


def runner_error_kinds() -> set[str]:
    """The first arguments of `_halt_runs` and the constants that stand for them."""
    tree = ast.parse(Path(execution.__file__).read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    kinds = [node.args[0] for node in calls if getattr(node.func, "attr", "") == "_halt_runs"]
    return {
        str(kind.value) if isinstance(kind, ast.Constant) else str(vars(execution)[ast.unparse(kind)]) for kind in kinds
    }


def test_errors__every_kind_is_described() -> None:
    ours = runner_error_kinds() | {WITHOUT_KEY, SHARD_MISSING}
    kinds = {str(kind) for kind in [*FailureKind, *MetricFailureKind]}

    assert "run-timeout" in ours
    failures = section(page("problems.md"), "## Failures of a run")
    listed = re.findall(r"^### `([a-z-]+)`\n(?:Agent|Provider|Gate)[.;]", failures, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == kinds | ours | {*CODES.values(), TEMPLATE_CODE}


def test_statuses__every_status_has_a_row() -> None:
    assert first_codes("## A metric") == set(get_args(MetricStatus))
    assert first_codes("## A case and its runs") == set(get_args(CaseStatus))


def test_caveats__every_code_has_a_row() -> None:
    documented = {code for row in rows(section(PAGE, "## When nothing was evaluated")) for code in codes(row[2])}
    assert documented >= {caveats.NOTHING_SCORED, caveats.NOTHING_GATED, caveats.NO_CASE_PASSES, "advisory"}


def test_exit_codes__are_those_of_the_code() -> None:
    table = {row[1].strip("`"): int(row[0].strip("`")) for row in rows(section(PAGE, "## Exit codes"))}
    assert {verdict: table[verdict] for verdict in EXIT_CODES} == EXIT_CODES
    assert exit_code("inconclusive", "pass", not_run=0) == 0


OUTCOMES = {"no score": "?", "agent error": "x", "provider error": "p", "not run": "-"}
EXAMPLES = rows(section(PAGE, "### Examples"))


@pytest.mark.parametrize(("runs", "rate", "case", "code"), [row[:4] for row in EXAMPLES])
def test_examples__have_the_documented_outcome(runs: str, rate: str, case: str, code: str) -> None:
    parts = [
        history_samples.case("e", OUTCOMES[outcome], threshold=0.8, first_run=run)
        if outcome in OUTCOMES
        else history_samples.case("e", scores=[float(outcome)], threshold=0.8, first_run=run)
        for run, outcome in enumerate(runs.split(", "))
    ]
    [merged] = merge(parts, min_pass_rate=float(rate))

    assert len(EXAMPLES) >= 8
    assert merged.status == case.strip("`")
    assert (merged.reason.code if merged.reason else "") == code.strip("`")


@pytest.mark.parametrize(
    "row", rows(section(PAGE, "## From the cases to the verdict")), ids=lambda row: row[1].strip("`")
)
def test_verdicts__follow_from_the_cases(row: list[str]) -> None:
    statuses = [status for status in get_args(CaseStatus) if f"`{status}`" in row[0]]
    cases = [
        CaseReport(case_id=status, file="f", eval_set_id="s", eval_id=status, status=status) for status in statuses
    ]

    # Nothing is decided about what may not run.
    assert row[1].strip("`") == (decide(cases).value if cases else "invalid")
