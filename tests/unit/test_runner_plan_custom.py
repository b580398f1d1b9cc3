"""A custom metric is never scored by one of ours that has its name."""

from __future__ import annotations

from test_runner_plan import case, loaded, plan

CUSTOM = {"response_match_score": {"code_config": {"name": "agent.metrics.polite"}}}


def test_a_custom_metric_with_the_name_of_a_known_one_is_refused() -> None:
    made = plan(loaded("a.test.json", case(), custom_metrics=CUSTOM))

    assert made.cases == ()
    assert [(one.code, one.message) for one in made.problems] == [
        ("metric-unsupported", "This version has no scorer for the custom metric `response_match_score`.")
    ]
