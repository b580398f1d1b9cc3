"""A CI gate for LLM agents that speaks Google ADK's eval format."""

__version__ = "1.0.0.dev0"
