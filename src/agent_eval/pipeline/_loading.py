"""Loads the second half of the gate while the agents start: an agent needs a second to import what it needs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent_eval.pipeline.output import warm_up

if TYPE_CHECKING:
    from agent_eval.settings import Settings

_STARTS = 0.1
"""Seconds in which the agents' processes are started. A second thread of ours would only delay that."""


async def load_meanwhile(settings: Settings, *, compares: bool, waits: bool, starts: bool) -> None:
    """Imports what the decision and the reports need while the agents start and answer, not when it is needed.

    Args:
        settings: The run's settings.
        compares: Whether there may be a comparison with the base branch.
        waits: Whether the run waits for agents.
        starts: Whether it starts their processes.
    """
    if starts:
        await asyncio.sleep(_STARTS)
    await asyncio.to_thread(_load, settings, compares=compares, waits=waits)


def _load(settings: Settings, *, compares: bool, waits: bool) -> None:
    from agent_eval.results import RunReport

    RunReport.model_rebuild()  # builds its validator and those of all models in it
    if compares:
        import numpy as np  # noqa: F401 - for the statistics of the comparison
    import agent_eval.gate.evaluation  # noqa: F401
    import agent_eval.gate.regression  # noqa: F401

    if waits:
        warm_up(settings)
