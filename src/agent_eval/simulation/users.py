"""The user of each run: fixed turns, or a simulated user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent_eval.evalset.models import EvalCase
from agent_eval.simulation._static import StaticUser
from agent_eval.simulation.options import simulator_options
from agent_eval.simulation.protocol import User

if TYPE_CHECKING:
    from agent_eval.models import Model


def user_of(
    case: EvalCase, config: Mapping[str, Any] | None, model: Model | None, *, case_id: str, run: int = 0
) -> User:
    """The user of a run of a case.

    Args:
        case: The case.
        config: The `user_simulator_config` that applies to it.
        model: Plays the user of a scenario; None if no case has one.
        case_id: Attributes the calls to the case.
        run: 0-based.

    Raises:
        ValueError: The case has a scenario, but there is no model.
    """
    if case.conversation_scenario is None:
        return StaticUser(conversation=case.conversation or ())
    if model is None:
        raise ValueError(f"{case_id} has a scenario, but there is no model for its user")
    from agent_eval.simulation.simulated import SimulatedUser

    return SimulatedUser(
        scenario=case.conversation_scenario,
        options=simulator_options(config),
        model=model,
        case_id=case_id,
        run=run,
    )
