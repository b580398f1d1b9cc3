"""The public API for packages with their own criteria; `agent_eval_scoring.criteria.api` without the gate."""

from agent_eval_scoring.criteria.api import *  # noqa: F403 - all that is public there
