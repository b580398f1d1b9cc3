"""Isolates the agent: its own user, an allow-list of variables, sealed directories, and the end of all processes."""

from agent_eval_agents.sandbox.forwarding import (
    BASE_VARIABLES,
    CREDENTIALS,
    MODEL_VARIABLES,
    allow_list,
    child_environment,
    installer_environment,
    is_base_variable,
    missing_key_hint,
    missing_variable_hint,
    secrets_in,
    without_github_identity,
)
from agent_eval_agents.sandbox.isolation import NO_PROCESS, Isolation, isolated
from agent_eval_agents.sandbox.sealing import blocked_at
from agent_eval_agents.sandbox.spawn import AGENT_USER, Account, Child, Sandbox, close_pipe, kill_group, kill_now
from agent_eval_agents.sandbox.uids import STATE_DIR, AgentNotEnded, missing_capabilities
