"""What can be wrong with a valid eval file: duplicate ids, criteria that lack their reference, unused rubrics."""

from agent_eval.evalset.checks.cases import check_against_config, check_cases
from agent_eval.evalset.checks.references import idle_weights, lacks_rubrics
