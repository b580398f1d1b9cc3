"""Whether a metric that we don't know comes from an installed package. Nothing of the package is imported."""

from __future__ import annotations

GROUP = "agent_eval.criteria"
"""The entry points' group."""


def is_packaged(metric: str) -> bool:
    """Whether an installed package has an entry point of that name."""
    from importlib.metadata import entry_points

    return bool(entry_points(group=GROUP, name=metric))
