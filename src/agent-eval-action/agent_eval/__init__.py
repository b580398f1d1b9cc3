"""A CI gate for LLM agents that speaks Google ADK's eval format.

The names in `__all__` are the Python API (docs/python-api.md). They are imported when they are used, because
`agent-eval --help` and a pytest session without evals must not wait for them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_eval.api import (
        AgentEvalError,
        AgentEvaluator,
        CaseResult,
        EvalFailed,
        EvalInconclusive,
        EvalInvalid,
        EvalResult,
        InvalidOptions,
        SaveError,
        evaluate,
        run,
        save_session,
    )

__version__ = "1.0.0.dev0"
__all__ = [
    "AgentEvalError",
    "AgentEvaluator",
    "CaseResult",
    "EvalFailed",
    "EvalInconclusive",
    "EvalInvalid",
    "EvalResult",
    "InvalidOptions",
    "SaveError",
    "evaluate",
    "run",
    "save_session",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("agent_eval.api"), name)
    hint = ": it is in agent_eval_workbench.veadk" if name in {"ADKEvaluator", "DeepevalEvaluator"} else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
