"""Checks that each declared metric has a scorer."""

from __future__ import annotations

from collections.abc import Mapping

from agent_eval.evalset.models import METRICS, Family


def check_complete(scorers: Mapping[Family, set[str]]) -> None:
    """Checks that the metrics with a scorer are exactly the declared ones.

    Args:
        scorers: Names by family.

    Raises:
        ImportError: A metric is declared without a scorer, or a scorer has no declaration in its family.
    """
    for family, names in scorers.items():
        declared = {name for name, spec in METRICS.items() if spec.family is family}
        if declared != names:
            differing = ", ".join(sorted(declared ^ names))
            raise ImportError(
                f"a {family.value} metric needs a declaration in METRICS (evalset/models/criteria.py) and a scorer in "
                f"criteria/registry.py, or for a judged one in criteria/judged/building.py; check {differing}"
            )
