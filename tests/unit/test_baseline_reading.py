"""Somebody else's results.json: what is read, what is another version's, what is not to be trusted."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from baseline_samples import case, measured, results, wire

from agent_eval import __version__
from agent_eval.baseline.lookup import FetchFailed, Incompatible
from agent_eval.baseline.reader import incomplete, read_report
from agent_eval.results._merge import WITHOUT_KEY
from agent_eval.results.decision import DecisionReport
from agent_eval.results.recording import RunError
from agent_eval.results.report import SCORING_VERSION, CaseReport, Reason, RunReport, RunResult

WHERE = "The artifact of run 7"


def _changed(**changes: Any) -> bytes:
    content = json.loads(wire(results()))
    return json.dumps(content | changes).encode()


def _with_drop(drop: float) -> dict[str, Any]:
    return {"outcome": "passed", "alpha": 0.05, "suites": [{"metric": "pass", "cases": 2, "drop": drop}]}


@pytest.mark.parametrize("decision", [None, DecisionReport.model_validate(_with_drop(0.5))])
def test_reading__what_we_write_is_read(decision: DecisionReport | None) -> None:
    report = results(case("one"), case("two", "failed"), decision=decision)
    assert read_report(wire(report), WHERE) == report


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it is not JSON"),
        (b'{"schema_version": "1"', "it is not JSON"),
        (b"[]", "it is not a results.json of agent-eval"),
        (b'{"coverage": 17}', "it is not a results.json of agent-eval"),
        (b"[" * 100_000, "it is not JSON"),
        (_changed(verdict="fine"), "it does not fit the schema of results.json (verdict: "),
        (_changed(cases="none", num_runs="x"), "and 1 more mistake)"),
        (wire(results(case("one"), case("one"))), "it has the case evals/a.test.json:one 2 times or more"),
        (wire(results()).replace(b'"score":1.0', b'"score":NaN', 1), "it has a score that is not a number"),
        (wire(results()).replace(b'"score":1.0', b'"score":1e999', 1), "it has a score that is not a number"),
        (wire(results()).replace(b'"duration":0.5', b'"duration":-Infinity', 1), "it has a score that is not a number"),
        (_changed(pass_rates=[{"k": 1, "cases": 1, "any": math.nan, "all": 1}]), "it has a score that is not a number"),
        (
            _changed(comparison={"compared": 1, "unchanged": 0, "cost": {"head": math.inf}}),
            "a score that is not a numb",
        ),
        (_changed(decision=_with_drop(math.nan)), "it has a score that is not a number"),
        (_changed(num_runs=10**4_000), "it has a number out of range"),
        (_changed(duration=1e300), "it has a number out of range"),
    ],
)
def test_reading__what_is_no_report_is_not_used(data: bytes, message: str) -> None:
    baseline = read_report(data, WHERE)

    assert isinstance(baseline, FetchFailed)
    assert baseline.message.startswith(f"{WHERE} is not used: ")
    assert message in baseline.message


def test_reading__another_version_of_the_schema_is_reported_with_both_versions() -> None:
    baseline = read_report(_changed(schema_version="2", tool_version="3.1.0", unheard_of=1), WHERE)

    assert baseline == Incompatible(
        message=f"{WHERE} was written by agent-eval 3.1.0 in version 2 of the results' schema; "
        f"this is agent-eval {__version__}, which reads version 1.",
        hint="The next run of the base branch records comparable results.",
    )


@pytest.mark.parametrize(
    ("changes", "texts"),
    [
        (
            {"tool_version": "1.9.0", "weather": {"sun": 1}},
            ["written by agent-eval 1.9.0, which has a field that this version", "weather"],
        ),
        (
            {"scoring_version": SCORING_VERSION + 1},
            [f"(scoring version {SCORING_VERSION + 1}; this is {SCORING_VERSION})"],
        ),
    ],
)
def test_reading__results_of_a_newer_version(changes: dict[str, Any], texts: list[str]) -> None:
    baseline = read_report(_changed(**changes), WHERE)
    assert isinstance(baseline, Incompatible)
    assert all(text in baseline.message for text in texts)


def test_reading__hostile_words_stay_words() -> None:
    baseline = read_report(_changed(schema_version="2", tool_version="\x1b[31m1\n::error::x" + "y" * 500), WHERE)

    assert isinstance(baseline, Incompatible)
    assert "\x1b" not in baseline.message
    assert "\n" not in baseline.message
    assert len(baseline.message) < 400


def _cut_off() -> CaseReport:
    half = case("two", "failed")
    half.runs.append(RunResult(run_id="two#2", run=1, status="not_run"))
    return half


def _dead(eval_id: str, *, turns: int = 0) -> CaseReport:
    """A case in which the agent ended with an error, after some answers or none."""
    made = case(eval_id, "failed")
    made.metrics = []
    made.runs[0].error = RunError(kind="agent-import", owner="agent", message="KeyError: 'TOKEN'\nmore")
    made.runs[0].turns = turns
    return made


def _without_key() -> CaseReport:
    """Nothing but a judge looks at it, and the gate was told to do without judges that have no key."""
    return case("two", "not_run").model_copy(update={"reason": Reason(code=WITHOUT_KEY, message="no key")})


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (results(), None),
        (results(case("one", "failed"), case("two", "failed")), None),
        (results(case("one"), case("two", "errored")), None),
        (results(case("one", "quarantined")), None),
        (results(verdict="invalid", cases=[]), "its eval files or settings were invalid, so nothing was run"),
        (results(cases=[]), "it has no cases"),
        (results(case("one"), case("two", "not_run")), "1 of its 2 cases did not finish, so the run was interrupted"),
        (results(case("one"), _cut_off()), "1 of its 2 cases did not finish, so the run was interrupted"),
        (results(case("one"), _without_key()), None),
        (results(_without_key()), "because of errors none of its cases was evaluated"),
        (results(_dead("one"), _dead("two")), "its agent never answered (agent-import: KeyError: 'TOKEN')"),
        (results(_dead("one"), _dead("two", turns=1)), None),
        (results(case("one"), _dead("two")), None),
        (results(case("one", "errored", measured(None))), "because of errors none of its cases was evaluated"),
    ],
)
def test_reading__red_results_serve_and_partial_ones_do_not(report: RunReport, reason: str | None) -> None:
    assert incomplete(report) == reason
