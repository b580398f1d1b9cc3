"""Custom metrics and packages' criteria in a plan: who scores them, and what is refused before anything runs."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from test_runner_plan import case, loaded

from agent_eval.criteria.custom import CustomMetric
from agent_eval.evalset.models.schema import CriterionConfig
from agent_eval.runner.fingerprints import function_source
from agent_eval.runner.plan import Plan, make_plan

POLITE = CriterionConfig(metric="polite", threshold=0.5, options={"words": ["please"]})


def planned(
    *, without_code: Collection[str] = (), source: str = "s", code: str | None = "agent.metrics.polite"
) -> Plan:
    custom = {} if code is None else {"polite": {"code_config": {"name": code}}}
    file = loaded("a.test.json", case(), criteria=(POLITE,), custom_metrics=custom)
    return make_plan([file], {"a.test.json": "agent"}, {}, 1, without_code=without_code, sources=lambda *_: source)


def test_plan_custom__a_custom_metric_is_scored_by_its_function() -> None:
    [case] = planned().cases

    assert case.criteria[0] == CustomMetric(
        name="polite", threshold=0.5, function="agent.metrics.polite", options={"words": ["please"]}
    )


def test_plan_custom__a_recording_has_no_environment_for_a_custom_metric() -> None:
    plan = planned(without_code={"agent"})

    assert plan.cases == ()
    assert [(problem.code, problem.file) for problem in plan.problems] == [
        ("custom-metric-without-agent", "test_config.json")
    ]


def test_plan_custom__a_metric_without_a_definition_is_refused() -> None:
    plan = planned(code=None)

    assert [(problem.code, problem.message) for problem in plan.problems] == [
        ("criterion-package-broken", "No installed package has the metric `polite`.")
    ]


def test_plan_custom__scores_of_another_function_or_another_source_are_not_compared() -> None:
    prints = {
        planned(source=source, code=code).cases[0].identities["polite"].fingerprint
        for source, code in (("s", "agent.metrics.polite"), ("t", "agent.metrics.polite"), ("s", "agent.metrics.rude"))
    }

    assert len(prints) == 3


def test_plan_custom__the_source_of_a_function_is_found_without_importing_it(tmp_path: Path) -> None:
    package = tmp_path / "agents" / "home"
    (package / "metrics").mkdir(parents=True)
    (tmp_path / "shared.py").write_text("raise SystemExit")
    (package / "polite.py").write_text("raise SystemExit(1)")
    (package / "metrics" / "__init__.py").write_text("raise SystemExit(2)")

    def found(function: str) -> str:
        return function_source(function, tmp_path, package)

    assert found("agent.polite.fn") == found("home.polite.fn") == found("agents.home.polite.fn") != ""
    assert len({found("agent.polite.fn"), found("home.metrics.fn"), found("shared.fn"), ""}) == 4
    assert found("nowhere.fn") == found("fn") == ""
