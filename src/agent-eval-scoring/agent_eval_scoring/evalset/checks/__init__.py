"""Problems of valid eval files: duplicate ids, criteria that lack their reference, unused rubrics."""

from agent_eval_scoring.evalset.checks.arguments import idle_rules
from agent_eval_scoring.evalset.checks.cases import check_against_config, check_cases
from agent_eval_scoring.evalset.checks.references import add_rubrics, criteria_of, idle_weights
