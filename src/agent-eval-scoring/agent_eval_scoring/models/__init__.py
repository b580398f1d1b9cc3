"""Calls to language models: providers, budgets, cache, retries, prices.

`check.py`, `pool.py`, `cache.py` and `vertex_eval.py` are imported by those who call a model.
"""

from agent_eval_scoring.models._limits import Health, Meter, Spent
from agent_eval_scoring.models.names import VERTEX_EVAL, parse_model
from agent_eval_scoring.models.protocol import (
    FailureKind,
    Model,
    ModelFailure,
    ModelReply,
    ModelRequest,
    ModelUsage,
    Replies,
    TapedReply,
)
from agent_eval_scoring.models.settings import Budget, ModelSettings, ModelUse
from agent_eval_scoring.models.usage import Ledger, Price, UsageEntry, price_of_agent, read_prices
