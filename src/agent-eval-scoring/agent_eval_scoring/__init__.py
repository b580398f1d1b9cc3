"""Scores recorded conversations of agents: eval files, criteria, judges, simulated users."""
