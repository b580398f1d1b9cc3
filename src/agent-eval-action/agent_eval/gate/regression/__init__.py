"""Regression detection: collect the runs of each case, request more runs, and decide which cases got worse."""

from agent_eval.gate.regression._decide import OUTAGE
from agent_eval.gate.regression.gathering import (
    Comparable,
    Gathered,
    MoreEvidence,
    comparable_cases,
    earlier_runs,
    gather,
    held_against,
)
from agent_eval.gate.regression.rescoring import (
    apply_policy,
    as_recorded,
    fails_alone,
    quarantine_notes,
    replayed_scores,
    with_replayed,
)
from agent_eval.gate.regression.retrial import Outcome
from agent_eval.gate.regression.sequential import base_differs, next_step
