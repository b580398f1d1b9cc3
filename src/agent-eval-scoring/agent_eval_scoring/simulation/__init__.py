"""Simulated users, and the fixed users of cases without a scenario.

`persona_rendering.py` and `simulated.py` are imported by those who have a scenario.
"""

from agent_eval_scoring.simulation.protocol import CODES, PURPOSE, SimulatorFailure, Stop, simulator_options
from agent_eval_scoring.simulation.users import user_of, with_call_ids
