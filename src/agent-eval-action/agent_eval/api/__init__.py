"""The Python API: runs evals from a test, a script or a notebook. Documented in docs/python-api.md."""

from agent_eval.api._agent_evaluator import AgentEvaluator, agent_location, evaluate
from agent_eval.api._engine import EngineInterrupted, EngineOutcome, EngineRequest, run_engine
from agent_eval.api._result import (
    CaseResult,
    Cases,
    EvalFailed,
    EvalInconclusive,
    EvalInvalid,
    EvalResult,
    Finished,
    result_of,
)
from agent_eval.api._run import (
    InvalidOptions,
    default_options,
    engine_request,
    option_text,
    run,
    setting_named,
    test_files,
)
from agent_eval.api._save import SaveError, save_session
from agent_eval_scoring.core.errors import AgentEvalError

__all__ = [
    "AgentEvalError",
    "AgentEvaluator",
    "CaseResult",
    "Cases",
    "EngineInterrupted",
    "EngineOutcome",
    "EngineRequest",
    "EvalFailed",
    "EvalInconclusive",
    "EvalInvalid",
    "EvalResult",
    "Finished",
    "InvalidOptions",
    "SaveError",
    "agent_location",
    "default_options",
    "engine_request",
    "evaluate",
    "option_text",
    "result_of",
    "run",
    "run_engine",
    "save_session",
    "setting_named",
    "test_files",
]
