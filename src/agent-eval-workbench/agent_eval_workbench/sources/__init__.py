"""Recorded conversations (ADK sessions and results, traces) as eval cases. Import the modules."""
