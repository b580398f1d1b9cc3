"""The agent's host process: its life cycle, its protocol, its log, and the owner of its failures."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_eval_agents.host._facts import HostSpec, Turn, exit_description
    from agent_eval_agents.host._log import HostLog
    from agent_eval_agents.host._program import PROGRAM
    from agent_eval_agents.host.connection import ConnectionLost, ProtocolError, RemoteError
    from agent_eval_agents.host.metric_hosts import MetricHosts
    from agent_eval_agents.host.outage import ModelOutages
    from agent_eval_agents.host.process import ADAPTERS, HostProcess
else:
    _PLACES = {
        **dict.fromkeys(("HostSpec", "Turn", "exit_description"), "_facts"),
        **{"HostLog": "_log", "PROGRAM": "_program", "MetricHosts": "metric_hosts", "ModelOutages": "outage"},
        **dict.fromkeys(("ConnectionLost", "ProtocolError", "RemoteError"), "connection"),
        **dict.fromkeys(("ADAPTERS", "HostProcess"), "process"),
    }

    def __getattr__(name: str) -> Any:
        """Imports what is used: a parent of hosts starts before the rest is imported."""
        if name in _PLACES:
            return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
