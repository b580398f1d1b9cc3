"""The agent's host process: its life cycle, its protocol, its log, and the owner of its failures."""

from agent_eval_agents.host._facts import HostSpec, Turn, exit_description
from agent_eval_agents.host._log import HostLog
from agent_eval_agents.host._program import PROGRAM
from agent_eval_agents.host.connection import ConnectionLost, ProtocolError, RemoteError
from agent_eval_agents.host.metric_hosts import MetricHosts
from agent_eval_agents.host.outage import ModelOutages
from agent_eval_agents.host.process import ADAPTERS, HostProcess
