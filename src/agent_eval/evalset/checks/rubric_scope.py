"""Rubric metrics judge only the cases that have rubrics for them, as in ADK."""

from __future__ import annotations

from agent_eval.evalset.models import METRICS, CriterionConfig, EvalCase


def lacks_rubrics(criterion: CriterionConfig, case: EvalCase) -> bool:
    """Whether a rubric metric has no rubric for a case: neither its own, nor one in the case or in its turns.

    False for other metrics.
    """
    spec = METRICS.get(criterion.metric)
    if spec is None or spec.rubric_type is None or criterion.options.get("rubrics"):
        return False
    of_turns = [rubric for turn in case.conversation or () for rubric in turn.rubrics or ()]
    return not any(rubric.type == spec.rubric_type for rubric in [*(case.rubrics or ()), *of_turns])
