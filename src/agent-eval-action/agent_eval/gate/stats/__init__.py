"""Statistics, independent of the pipeline: exact tests, bets, families of cases. Pure."""

from agent_eval.gate.stats.decision import Budget, ConfirmOnBase, MetricRule, Outcome, Rules, usual_extra_runs
from agent_eval.gate.stats.families import BOTH_LEVEL, CHECK_RUNS, FULL_BASE, RED_TODAY, ROUND, Family
from agent_eval.gate.stats.samples import FRESH_COLUMNS, CaseEvidence, Series, failed, is_red, look
from agent_eval.gate.stats.suspects import THRESHOLD_RUNS, WORTH_MORE, Suspect, case_e, joint_e, p_of
from agent_eval_results.data.exact_tests import detectable_drop, detectable_shift, exact_p, holm, pass_rates, wilson
