"""Decides: policy, comparison with the base branch, statistics, verdict. Pure functions."""
