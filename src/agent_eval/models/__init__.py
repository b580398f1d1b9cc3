"""Calls to language models: providers, budgets, cache, retries, prices."""

from agent_eval.models._budget import Spent
from agent_eval.models._cache import copy_replies
from agent_eval.models.check import IN_FILES, NO_KEY, ModelUse, check_models, credential_problems, shared_keys
from agent_eval.models.health import Health
from agent_eval.models.names import VERTEX_EVAL, parse_model
from agent_eval.models.pool import ModelPool, open_models
from agent_eval.models.prices import Price, read_prices
from agent_eval.models.protocol import FailureKind, Model, ModelFailure, ModelReply, ModelRequest, ModelUsage
from agent_eval.models.settings import Budget, ModelSettings
from agent_eval.models.usage import UsageEntry
from agent_eval.models.vertex_eval import JUDGED_BY_SERVICE, RESULT, metric_spec

__all__ = [
    "IN_FILES",
    "JUDGED_BY_SERVICE",
    "NO_KEY",
    "RESULT",
    "VERTEX_EVAL",
    "Budget",
    "FailureKind",
    "Health",
    "Model",
    "ModelFailure",
    "ModelPool",
    "ModelReply",
    "ModelRequest",
    "ModelSettings",
    "ModelUsage",
    "ModelUse",
    "Price",
    "Spent",
    "UsageEntry",
    "check_models",
    "copy_replies",
    "credential_problems",
    "metric_spec",
    "open_models",
    "parse_model",
    "read_prices",
    "shared_keys",
]
