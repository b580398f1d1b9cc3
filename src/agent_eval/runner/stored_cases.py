"""The eval cases of a run as they were run: the lines of cases.jsonl.gz.

Recordings have what happened. Only these lines have in full what was expected, whatever becomes of the eval files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from agent_eval.core.wire import WireModel
from agent_eval.evalset.models import EvalCase
from agent_eval.runner.plan import PlannedCase


class StoredCase(WireModel):
    """One case, a line of cases.jsonl.gz."""

    schema_version: Literal["1"] = "1"
    case_id: str
    """As in results.json and in the recordings."""
    file: str
    eval_set_id: str
    fingerprint: str
    """`CaseReport.fingerprint`: a line with another one does not belong to the report."""
    case: EvalCase
    user_simulator_config: dict[str, Any] | None = None
    """Options of the simulated user of a scenario."""


def case_lines(cases: Iterable[PlannedCase]) -> Iterator[bytes]:
    """The lines of planned cases, in their order."""
    for planned in cases:
        simulated = planned.case.conversation_scenario is not None and planned.user_config is not None
        stored = StoredCase(
            schema_version="1",
            case_id=planned.case_id,
            file=planned.file,
            eval_set_id=planned.eval_set_id,
            fingerprint=planned.content,
            case=planned.case,
            **({"user_simulator_config": dict(planned.user_config or {})} if simulated else {}),
        )
        yield stored.model_dump_json(exclude_unset=True, exclude_none=True).encode() + b"\n"
