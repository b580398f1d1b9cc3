"""A run from the settings to the report: discover, validate, run, score, compare, decide, write."""

from agent_eval.pipeline.ci_context import (
    Situation,
    decides,
    for_artifact,
    gating_files_changed,
    rules,
    survey,
    told_changes,
)
from agent_eval.pipeline.context import Clients, default_model, misnamed_models, model_settings, model_uses
from agent_eval.pipeline.output import links_of
from agent_eval.pipeline.pipeline import Outcome, find, load, policy_problems

__all__ = [
    "Clients",
    "Outcome",
    "Situation",
    "decides",
    "default_model",
    "find",
    "for_artifact",
    "gating_files_changed",
    "links_of",
    "load",
    "misnamed_models",
    "model_settings",
    "model_uses",
    "policy_problems",
    "rules",
    "survey",
    "told_changes",
]
