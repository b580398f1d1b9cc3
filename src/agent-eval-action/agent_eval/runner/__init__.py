"""Plans and runs: plan, execution, scoring, journal, conversations for reports.

`scoring.py` and `bill.py` are imported by those who need them.
"""

from agent_eval.runner.execution import Execution, Limits, Progress
from agent_eval.runner.journal import Journal, case_lines
from agent_eval.runner.plan import MissingModels, Plan, PlannedCase, given_by, make_plan
from agent_eval.runner.replay import REPLAY_MISSES, Chosen, Tapes
