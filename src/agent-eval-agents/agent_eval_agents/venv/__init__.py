"""The agent's own virtual environment: its dependencies found, installed and cached."""

from agent_eval_agents.venv._dependencies import dependencies_of
from agent_eval_agents.venv.environment import (
    AgentInterpreter,
    EnvironmentRequest,
    default_cache_dir,
    discard_damaged,
    ensure_environment,
    run_setup,
)
from agent_eval_agents.venv.startable import AgentPlace, checked_interpreter, likely_start, unreachable
