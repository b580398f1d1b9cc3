"""Criteria, which score recorded conversations."""

from agent_eval.criteria._alignment import Alignment, align
from agent_eval.criteria._literal import literal, name_of, render_call
from agent_eval.criteria._literal import literal, name_of, render_call, visible
