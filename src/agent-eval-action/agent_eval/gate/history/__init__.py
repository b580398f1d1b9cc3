"""The base branch's history: stored runs and means, answers, drift."""

from agent_eval.gate.history.records import KEEP_ROWS, broken_off, excerpt, extend, join, unfit, within
from agent_eval_results.data.answers import (
    agents_by_file,
    is_scored,
    never_started,
    silent_cases,
    unevaluated,
    without_silent,
)
from agent_eval_results.data.stored_runs import (
    MetricKey,
    PassRules,
    StoredMeans,
    StoredRun,
    outcome_of,
    rescored,
    rules_of,
    same_rules,
    scores_by_run,
    stored,
    stored_means,
    stored_rules,
    stored_runs,
)
from agent_eval_results.data.trend import CASE_ALPHA, Drift, Flakiness, drift, flakiness, suite_hash, trend_row
