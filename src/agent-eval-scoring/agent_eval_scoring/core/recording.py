"""The recording of one run of one case, a line of recordings.jsonl.gz; and the failures that end a run or a metric."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Generic, Literal, Self, TypeVar

from pydantic import Field, FiniteFloat, PositiveInt

from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.invocation import Invocation, Raised
from agent_eval_scoring.core.wire import WireModel

Kind = TypeVar("Kind", bound=enum.StrEnum)


class Usage(WireModel):
    """Model calls and tokens of the agent; None if no event reported the count."""

    model_calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    thought_tokens: int | None = None


RecordedScores = dict[str, tuple[FiniteFloat, str]]
"""By metric, the score and how it was measured (`MetricReport.measure`)."""


class ToolUse(WireModel):
    """How the tool calls of a run were answered, with `replay` or `record` (docs/tools.md)."""

    mode: Literal["live", "record", "record-missing", "replay", "all"]
    """`all`: models and tools are replayed; else tools alone are recorded or replayed."""
    recorded_status: str = ""
    """With `all`, the status of the run that was recorded: `passed` or `failed`; "" where the tape doesn't say it."""
    recorded_scores: RecordedScores = Field(default_factory=dict, exclude_if=lambda value: not value)
    """Its scores."""
    model_calls: int = 0
    """Calls of models answered from the tape."""
    replayed: int = 0
    """Calls of tools answered from the tape. The next three are also of tools."""
    live: int = 0
    """Calls that ran because of `replay = false` or `miss = "live"`."""
    recorded: int = 0
    """Calls that ran and were recorded."""
    missed: int = 0
    """Calls that are not on the tape."""
    by_hand: int = Field(default=0, exclude_if=lambda value: not value)
    """Calls answered by what a person wrote into the eval case."""


class Waited(WireModel):
    """The model or tool that a turn waited for when its time ran out."""

    kind: Literal["", "model", "tool"] = ""
    """"": unknown."""
    name: str = ""
    """Of the model or the tool."""
    seconds: float = 0.0
    file: str = ""
    """The repository's innermost line at that moment, relative to the root; "" if none is known. Also the next two."""
    line: PositiveInt | None = None
    symbol: str = ""
    """The function."""


class RunError(WireModel):
    """Why a run has no turns, or not all."""

    kind: str
    """A stable code, see docs/problems.md."""
    owner: Literal["agent", "provider", "gate"]
    """Who has to act: the pull request's author, an external provider, or the gate."""
    message: str
    hint: str | None = None
    traceback: str | None = None
    log_tail: str | None = None
    turn: int | None = None
    """0-based turn in which the error happened; None before the first turn."""
    no_key: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether the model got no key, or refused it."""
    raised: Raised | None = Field(default=None, exclude_if=lambda value: value is None)
    """The exception of the turn."""
    waited: Waited | None = Field(default=None, exclude_if=lambda value: value is None)
    """Only of a turn that ran out of time."""

    @property
    def by_agent(self) -> bool:
        """Whether the author of the agent has to act; not a provider, and not the gate."""
        return self.owner == "agent"


class Recording(WireModel):
    """One run of one case, complete or until its error."""

    schema_version: Literal["1"] = "1"
    run_id: str
    """`CASE_ID#NUMBER`."""
    case_id: str
    file: str
    eval_set_id: str
    eval_id: str
    run: int
    """0-based."""
    fingerprint: str
    """Hash of everything that the run depends on (case, agent). `--resume` reuses a recording only if it is equal."""
    invocations: list[Invocation] = Field(default_factory=list)
    """The actual turns, in order; fewer than expected when `error` is set."""
    error: RunError | None = None
    unfinished: Invocation | None = Field(default=None, exclude_if=lambda value: value is None)
    """The turn in which the error happened, as far as it went. It is not scored."""
    started_at: float
    """Unix time in seconds."""
    duration: float
    """Wall-clock seconds."""
    usage: Usage = Field(default_factory=Usage)
    attempts: int = 1
    """2 if the run was repeated in its own process after its shared process died."""
    ran_before: list[str] = Field(default_factory=list, exclude_if=lambda value: not value)
    """The cases that this process had served, the latest first, if the repeated run then ended without an error."""
    calls_visible: bool = True
    """False if the agent's interface does not show its tool calls, so their absence means nothing."""
    tools: ToolUse | None = Field(default=None, exclude_if=lambda value: value is None)
    """None: all tools ran (neither `replay` nor `record`)."""
    stop_reason: str | None = None
    """Why a simulated conversation ended: `stop-signal` or `turn-limit`; None for fixed turns."""

    @property
    def is_replayed(self) -> bool:
        """Whether its models were replayed, too: then it cost nothing."""
        return self.tools is not None and self.tools.mode == "all"

    @property
    def all_turns(self) -> list[Invocation]:
        """The turns, also the one that an error ended."""
        return [*self.invocations, *([self.unfinished] if self.unfinished is not None else ())]


class Owner(enum.StrEnum):
    """Who has to act on a failure (docs/verdict.md)."""

    AGENT = "agent"
    """The pull request: the run failed."""
    PROVIDER = "provider"
    """An external service: the run says nothing about the pull request."""
    GATE = "gate"
    """The evaluation itself: it must be set up again before the run says anything."""


class Failure(AgentEvalError, Generic[Kind]):
    """What the failures of agents and of their metrics have in common."""

    def __init__(
        self,
        message: str,
        *,
        kind: Kind,
        owner: Owner | None = None,
        traceback: str | None = None,
        log_tail: str | None = None,
        hint: str | None = None,
        collateral: bool = False,
        no_key: bool = False,
        served: Sequence[str] = (),
    ) -> None:
        """Describes the failure.

        Args:
            message: One sentence; of a metric without a full stop.
            kind: What happened.
            owner: Who has to act; None: the provider, if the kind names one, else the pull request.
            traceback: The agent's or the function's own traceback, or its stack if it hangs.
            log_tail: The last lines of its process's log.
            hint: What to do next.
            collateral: Other sessions may have caused it, also those that have ended: they had the same process, or
                overloaded a server. Try it once more with `isolated=True`.
            no_key: The model got no key, or refused it, and no variable of the job is withheld from the agent.
            served: The cases of all sessions that its process has had, in order.
        """
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.owner = owner or (Owner.PROVIDER if kind.name in ("PROVIDER", "SERVER") else Owner.AGENT)
        self.traceback = traceback
        self.log_tail = log_tail
        self.hint = hint
        self.collateral = collateral
        self.no_key = no_key
        self.served = served
        self.raised: Raised | None = None
        """The exception behind it."""
        self.waited: Waited | None = None
        """What a turn that ran out of time was waiting for."""
        self.unfinished: Invocation | None = None
        """The turn as far as it went."""

    def ran_before(self, case_id: str, most: int = 20) -> list[str]:
        """The cases that the process had served, other runs of this case among them; the latest first."""
        others = list(self.served)
        if case_id in others:
            others.remove(case_id)
        return list(dict.fromkeys(reversed(others)))[:most]

    def copy(self) -> Self:
        """The same failure for another task: raising one exception in many tasks would mix their Python tracebacks."""
        copied = type(self).__new__(type(self), *self.args)
        copied.__dict__.update(self.__dict__)
        return copied
