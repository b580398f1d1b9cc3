"""Simulated users, and the fixed users of cases without a scenario.

`persona_rendering.py` and `simulated.py` are imported by those who have a scenario.
"""

from agent_eval.simulation._static import with_call_ids
from agent_eval.simulation.options import CODES, PURPOSE, simulator_options
from agent_eval.simulation.protocol import SimulatorFailure, Stop
from agent_eval.simulation.users import user_of

__all__ = ["CODES", "PURPOSE", "SimulatorFailure", "Stop", "simulator_options", "user_of", "with_call_ids"]
