"""Our personas beside those of google-adk 2.13.0: each speaks of the stop signal where ADK's does."""

from __future__ import annotations

import pytest
from adk_reference import Reference

from agent_eval.evalset.models.personas import PERSONAS

pytestmark = pytest.mark.conformance
_SIGNAL = "{{ stop_signal }}"


def test_personas__use_the_stop_signal_where_adks_do(reference: Reference) -> None:
    adks = reference.ask("personas")
    assert set(adks) == set(PERSONAS)
    for persona, behaviors in adks.items():
        ours = sorted(_uses(vars(behavior)) for behavior in PERSONAS[persona].behaviors)
        assert ours == sorted(_uses(behavior) for behavior in behaviors), persona


def _uses(behavior: dict[str, object]) -> list[bool]:
    """Whether the stop signal occurs in each of the texts."""
    return [_SIGNAL in str(behavior[name]) for name in ("description", "behavior_instructions", "violation_rubrics")]
