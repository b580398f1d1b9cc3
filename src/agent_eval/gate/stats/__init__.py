"""Statistics, independent of the pipeline: exact tests, families of cases, interim analyses. Pure."""

from agent_eval.gate.stats.decision import (
    NO_NAME,
    Budget,
    CaseDecision,
    ConfirmOnBase,
    Decision,
    MetricRule,
    NoMoreRuns,
    Outcome,
    Rules,
    Runs,
    usual_extra_runs,
)
from agent_eval.gate.stats.exact_tests import exact_p, holm, wilson
from agent_eval.gate.stats.families import ROUND, Family, failed, is_red
from agent_eval.gate.stats.looks import first_look, second_look
from agent_eval.gate.stats.multiplicity import FamilyResult, drop_of, family_results
from agent_eval.gate.stats.precision import detectable_drop, detectable_shift, mean_interval
from agent_eval.gate.stats.repeats import pass_rates, pass_rates_notices
from agent_eval.gate.stats.samples import PASS, CaseEvidence, Series
from agent_eval.gate.stats.suspect import THRESHOLD_RUNS, Suspect

__all__ = [
    "NO_NAME",
    "PASS",
    "ROUND",
    "THRESHOLD_RUNS",
    "Budget",
    "CaseDecision",
    "CaseEvidence",
    "ConfirmOnBase",
    "Decision",
    "Family",
    "FamilyResult",
    "MetricRule",
    "NoMoreRuns",
    "Outcome",
    "Rules",
    "Runs",
    "Series",
    "Suspect",
    "detectable_drop",
    "detectable_shift",
    "drop_of",
    "exact_p",
    "failed",
    "family_results",
    "first_look",
    "holm",
    "is_red",
    "mean_interval",
    "pass_rates",
    "pass_rates_notices",
    "second_look",
    "usual_extra_runs",
    "wilson",
]
