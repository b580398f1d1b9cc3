"""Compares two reports: cases with another status, metrics with other scores."""

from agent_eval.gate.diff.cases import compare
