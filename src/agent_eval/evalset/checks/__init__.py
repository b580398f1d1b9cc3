"""What can be wrong with a valid eval file: duplicate ids, criteria that lack their reference, unused rubrics."""

from agent_eval.evalset.checks.cases import check_against_config, check_cases
from agent_eval.evalset.checks.rubric_scope import lacks_rubrics
from agent_eval.evalset.checks.rubric_weights import idle_weights

__all__ = ["check_against_config", "check_cases", "idle_weights", "lacks_rubrics"]
