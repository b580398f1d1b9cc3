"""The agents that are evaluated: found, installed, isolated, run."""
