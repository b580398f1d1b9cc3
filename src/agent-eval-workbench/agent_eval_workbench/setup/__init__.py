"""Sets up evals in a repository with an agent: criteria, a workflow, and what git ignores."""

from agent_eval_workbench.setup._plan import MOST_AGENTS, Setup, Step, apply, plan_setup, record_command
