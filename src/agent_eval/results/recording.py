"""What an agent did in one run of one case: a line of recordings.jsonl.gz."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agent_eval.core.invocation import Invocation
from agent_eval.core.wire import WireModel


class Usage(WireModel):
    """What the agent's model calls amounted to; None where no event reported the count."""

    model_calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    thought_tokens: int | None = None


class RunError(WireModel):
    """Why a run has no, or not all, turns."""

    kind: str
    """A stable code, see docs/verdict.md."""
    owner: Literal["agent", "provider", "gate"]
    """Who has to act: the pull request's author, the world, or ourselves."""
    message: str
    hint: str | None = None
    traceback: str | None = None
    log_tail: str | None = None
    turn: int | None = None
    """0-based turn in which it happened; None before the first."""


class Recording(WireModel):
    """One run of one case, complete or as far as it came."""

    schema_version: Literal["1"] = "1"
    run_id: str
    """Stable: the case's id and the run's number."""
    case_id: str
    file: str
    eval_set_id: str
    eval_id: str
    run: int
    """0-based."""
    fingerprint: str
    """Hash of what the run depended on (case content, agent): a resumed run reuses it only if it is the same."""
    invocations: list[Invocation] = Field(default_factory=list)
    """The actual turns, in order; fewer than expected when `error` is set."""
    error: RunError | None = None
    started_at: float
    """Unix time in seconds."""
    duration: float
    """Wall seconds."""
    usage: Usage = Field(default_factory=Usage)
    attempts: int = 1
    """2 when the run was repeated in a process of its own after another run took its process down."""
    stop_reason: str | None = None
    """Why a simulated conversation ended well: `stop-signal` or `turn-limit`; None for fixed turns."""
