"""Two reports compared: cases that changed their status, metrics that moved."""

from agent_eval.gate.diff.cases import compare

__all__ = ["compare"]
