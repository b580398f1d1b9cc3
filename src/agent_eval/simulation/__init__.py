"""Simulated users, and the fixed users of cases without a scenario."""

from agent_eval.simulation.persona_rendering import Persona, persona_of
from agent_eval.simulation.protocol import SimulatorFailure, Stop
from agent_eval.simulation.simulated import CODES, PURPOSE, simulator_options, user_of

__all__ = ["CODES", "PURPOSE", "Persona", "SimulatorFailure", "Stop", "persona_of", "simulator_options", "user_of"]
