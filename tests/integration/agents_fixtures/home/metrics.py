"""Imported as `home.metrics` and as `agent.metrics`: one module, loaded once."""

loaded: list[str] = []
loaded.append(__name__)
