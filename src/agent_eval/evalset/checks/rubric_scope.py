"""Rubric metrics whose rubrics stand in some cases of a file only: they judge those cases, as in ADK."""

from __future__ import annotations

from agent_eval.evalset.models import METRICS, CriterionConfig, EvalCase


def lacks_rubrics(criterion: CriterionConfig, case: EvalCase) -> bool:
    """Whether a rubric metric has nothing at all to judge the case by: no rubric of its own, and none of its type in
    the case or one of its turns. False for other metrics.
    """
    spec = METRICS.get(criterion.metric)
    if spec is None or spec.rubric_type is None or criterion.options.get("rubrics"):
        return False
    of_turns = [rubric for turn in case.conversation or () for rubric in turn.rubrics or ()]
    return not any(rubric.type == spec.rubric_type for rubric in [*(case.rubrics or ()), *of_turns])
