"""Looks up metrics of installed packages, without importing them."""

from __future__ import annotations

GROUP = "agent_eval.criteria"
"""Group of the entry points."""


def is_packaged(metric: str) -> bool:
    """Whether an installed package has an entry point with this name."""
    from importlib.metadata import entry_points

    return bool(entry_points(group=GROUP, name=metric))
