"""The agent's own virtual environment: its dependencies found, installed and cached."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agent_eval_agents.venv._activation import activation, likely_start

if TYPE_CHECKING:
    from agent_eval_agents.venv._begun import BegunEnvironment
    from agent_eval_agents.venv._compiling import Compiling
    from agent_eval_agents.venv._dependencies import dependencies_of
    from agent_eval_agents.venv.environment import (
        AgentInterpreter,
        EnvironmentRequest,
        default_cache_dir,
        discard_damaged,
        ensure_environment,
        run_setup,
    )
    from agent_eval_agents.venv.startable import AgentPlace, checked_interpreter, unreachable
else:
    _PLACES = {
        "BegunEnvironment": "_begun",
        "Compiling": "_compiling",
        "dependencies_of": "_dependencies",
        **dict.fromkeys(("AgentPlace", "checked_interpreter", "unreachable"), "startable"),
    }

    def __getattr__(name: str) -> Any:
        """Imports what is used: a parent of hosts starts before the rest is imported."""
        if name.startswith("_") or name in ("environment", "startable"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_PLACES.get(name, 'environment')}"), name)
