"""Our personas beside those of google-adk 2.13.0: each speaks of the stop signal where ADK's does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from agent_eval.evalset.models.personas import PERSONAS

pytestmark = pytest.mark.conformance
_ADKS = """
import json
from google.adk.evaluation.simulation.pre_built_personas import get_default_persona_registry
registry = get_default_persona_registry()
print(json.dumps({p.id: [b.model_dump() for b in p.behaviors] for p in registry.get_registered_personas()}))
"""
_SIGNAL = "{{ stop_signal }}"


def test_personas__use_the_stop_signal_where_adks_do(adk_interpreter: Path) -> None:
    adks = json.loads(
        subprocess.run([str(adk_interpreter), "-c", _ADKS], capture_output=True, check=True, text=True).stdout
    )
    assert set(adks) == set(PERSONAS)
    for persona, behaviors in adks.items():
        ours = sorted(_uses(vars(behavior)) for behavior in PERSONAS[persona].behaviors)
        assert ours == sorted(_uses(behavior) for behavior in behaviors), persona


def _uses(behavior: dict[str, object]) -> tuple[bool, bool, bool]:
    """Whether the stop signal occurs in the description, the instructions, the violations."""
    return (
        _SIGNAL in str(behavior["description"]),
        _SIGNAL in str(behavior["behavior_instructions"]),
        _SIGNAL in str(behavior["violation_rubrics"]),
    )
