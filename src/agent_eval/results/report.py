"""The one model that every renderer reads, and its wire form `results.json`.

`results.json` stays small: scores, statuses, reasons and, for what did not pass, short excerpts and one conversation.
All that the agent did is beside it in `recordings.jsonl.gz`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, computed_field, model_validator

from agent_eval.core.wire import WireModel
from agent_eval.results.comparison import BaselineReport, ComparisonReport
from agent_eval.results.conversation import ConversationReport
from agent_eval.results.decision import DecisionReport
from agent_eval.results.history import HistoryReport
from agent_eval.results.recording import RunError, Usage
from agent_eval.results.rule_changes import RuleChangesReport
from agent_eval.results.status import CaseStatus as CaseStatus
from agent_eval.results.status import GateMode
from agent_eval.results.status import MetricStatus as MetricStatus
from agent_eval.results.status import VerdictValue as VerdictValue

SCHEMA_VERSION: Literal["1"] = "1"
SCORING_VERSION = 1
"""Rises whenever the same recording and config would get another score."""


_UNUSED: set[str] = set()


class _Report(WireModel):
    """What the models of a report have in common.

    Their JSON also tells what follows from the fields; when it is read again that is computed anew. Which fields were
    set explicitly matters to none of them, but to remember it would be most of the memory of 10,000 cases: they share
    one set.
    """

    @model_validator(mode="before")
    @classmethod
    def _without_computed(cls, value: Any) -> Any:
        if isinstance(value, dict) and not cls.model_computed_fields.keys().isdisjoint(value):
            return {key: item for key, item in value.items() if key not in cls.model_computed_fields}
        return value

    def model_post_init(self, context: Any, /) -> None:
        """Lets go of the set of fields."""
        object.__setattr__(self, "__pydantic_fields_set__", _UNUSED)


class Reason(_Report):
    """Why something has the status it has: a code for machines, words for people."""

    code: str
    message: str


class TurnEvidence(_Report):
    """What to show of a turn that lowered a score, each text cut to size."""

    turn: int
    """0-based."""
    score: float | None = None
    user: str = ""
    expected: str = ""
    actual: str = ""
    why: list[str] = Field(default_factory=list)
    """One finding a line, e.g. "missing: turn_on(device='lamp')"."""


class RunScore(_Report):
    """A metric in one run."""

    run: int
    score: float | None = None
    status: MetricStatus
    reason: Reason | None = None
    evidence: list[TurnEvidence] = Field(default_factory=list)
    details: dict[str, Any] = Field(default_factory=dict)
    """Numbers behind an informational score, e.g. token counts."""
    error: RunError | None = Field(default=None, exclude_if=lambda value: value is None)
    """What broke while it was evaluated: a custom metric, with its traceback. Written only where something did."""


class MetricReport(_Report):
    """A metric of a case over all its runs."""

    name: str
    score: float | None = None
    """Mean over the runs that have a score."""
    threshold: float | None = None
    """None for informational metrics."""
    status: MetricStatus
    reason: Reason | None = None
    judge: str | None = None
    """Who judges it, e.g. `gemini-2.5-flash`; None for a metric that is computed."""
    fingerprint: str = ""
    """Hash of what decides the score of an answer: the criterion's options, the judge's model, the version of what it
    is asked. Scores with different fingerprints are not compared. The threshold is not in it."""
    blocking: bool = Field(default=True, exclude_if=bool)
    """False: shown, never a reason for the case to fail (`[[policy]]` in agent-eval.toml)."""
    direction: Literal["higher", "lower"] = Field(default="higher", exclude_if=lambda value: value == "higher")
    """Which side of the threshold is good. Like `blocking` it is written only when it is not the usual one."""
    runs: list[RunScore]


class RunResult(_Report):
    """One run of a case, without its scores."""

    run_id: str
    run: int
    status: CaseStatus
    error: RunError | None = None
    started_at: float | None = None
    duration: float = 0.0
    usage: Usage = Field(default_factory=Usage)
    turns: int = 0
    attempts: int = 1
    stop_reason: str | None = None
    """Why a simulated conversation ended: `stop-signal` or `turn-limit`; None for fixed turns."""


class CaseReport(_Report):
    """A case over all its runs."""

    case_id: str
    """Stable: file and eval_id."""
    file: str
    line: int | None = None
    eval_set_id: str
    eval_id: str
    status: CaseStatus
    reason: Reason | None = None
    """Why it is not `passed`."""
    fingerprint: str = ""
    """Hash of the eval case: what is asked and expected. Cases with different fingerprints are not compared."""
    metrics: list[MetricReport] = Field(default_factory=list)
    runs: list[RunResult] = Field(default_factory=list)
    conversation: ConversationReport | None = Field(default=None, exclude_if=lambda value: value is None)
    """What the agent did in a run that did not pass, cut to size. There for cases that did not pass, as far as the
    file has room (docs/results.md), and where the agent was asked at all."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def duration(self) -> float:
        """Wall seconds of all runs together."""
        return sum(run.duration for run in self.runs)


class FileReport(_Report):
    """A file: which config and which agent applied to it."""

    file: str
    eval_set_id: str
    config: str | None = None
    """None: ADK's defaults."""
    criteria: dict[str, float] = Field(default_factory=dict)
    """Thresholds by metric."""
    agent: str
    agent_reason: str = ""
    legacy: bool = False


class TargetReport(_Report):
    """A file, a directory or a glob that a run was limited to."""

    path: str
    """Relative to the root, with forward slashes."""
    ids: list[str] = Field(default_factory=list)
    """Eval ids or globs of them; none for all cases."""


class SelectionReport(_Report):
    """What a run was limited to. Cases outside of it are not missing."""

    targets: list[TargetReport] = Field(default_factory=list)
    """None: the whole repository."""
    include: list[str] = Field(default_factory=list)
    exclude: list[str] = Field(default_factory=list)
    """Patterns as in a .gitignore."""


class ProblemReport(_Report):
    """A Problem on the wire."""

    severity: Literal["error", "warning", "notice"]
    code: str
    message: str
    hint: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    path: str | None = None


class Origin(_Report):
    """Which state of which repository was tested, and by what."""

    repository: str = ""
    """`owner/name`; "" outside of a forge."""
    commit: str = ""
    ref: str = ""
    """E.g. `refs/heads/main`."""
    event: str = ""
    """GitHub's name of what started the run; "" elsewhere."""
    base_commit: str | None = None
    """The tip of the base branch that a pull request was tested on top of."""
    pull_request: int | None = None
    head_commit: str | None = None
    """The pull request's own last commit; `commit` is GitHub's merge of it with the base."""
    workflow: str = ""
    """Path of the workflow's file, e.g. `.github/workflows/evals.yml`."""
    run_id: int | None = None
    run_attempt: int | None = None
    run_url: str | None = None


class Totals(_Report):
    """Counts of cases by status."""

    cases: int = 0
    passed: int = 0
    failed: int = 0
    errored: int = 0
    not_run: int = 0
    quarantined: int = 0

    @computed_field  # type: ignore[prop-decorator]
    @property
    def pass_rate(self) -> float | None:
        """Passed cases among those that passed or failed, 0..1; None when there are none."""
        judged = self.passed + self.failed
        return self.passed / judged if judged else None


class ModelUsageReport(WireModel):
    """What the judges and simulated users of one model spent."""

    model: str
    versions: list[str] = Field(default_factory=list)
    """What answered, as the provider names it."""
    calls: int
    """Attempts that were sent."""
    cached_replies: int = 0
    """Questions that our cache answered; they cost nothing."""
    failures: int = 0
    """Questions without a usable reply."""
    saved_votes: int = 0
    """Votes that were not asked for, since those before them had decided."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    thought_tokens: int | None = None
    cost: float | None = None
    """US dollars; None when there is no price for the model."""


class CaseUsageReport(_Report):
    """What one criterion, or the simulated user, spent on one case with one model, runs of the base included."""

    case_id: str
    purpose: str
    """The metric, or `user-simulator`."""
    model: str
    calls: int
    """Attempts that were sent."""
    cached_replies: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    thought_tokens: int | None = None
    cost: float | None = None
    """US dollars; None when there is no price for the model, or nothing was sent."""


class PassRates(_Report):
    """What to expect of a case that is tried several times, averaged over the cases."""

    k: int
    """How often it is tried."""
    cases: int
    """Cases with at least that many judged runs."""
    any: float
    """pass@k: the share of the cases of which at least one of k runs passes, 0..1."""
    all: float
    """pass^k: the share of the cases of which all of k runs pass, 0..1."""


class RunReport(_Report):
    """One run of the gate."""

    schema_version: Literal["1"] = SCHEMA_VERSION
    scoring_version: int = SCORING_VERSION
    tool_version: str
    verdict: VerdictValue
    reasons: list[Reason] = Field(default_factory=list)
    """Why the verdict is what it is, the weightiest first. One that is `passed` has a reason only where it does not
    show that the agent works: nothing is gated, no case passes, or the gate only advises."""
    exit_code: int | None = Field(default=None, exclude_if=lambda value: value is None)
    """What the gate ends with; None for results that are no gate's own."""
    started_at: float
    """Unix time in seconds."""
    duration: float
    num_runs: int
    min_pass_rate: float
    provenance: dict[str, str] = Field(default_factory=dict)
    """Versions and commit: shown, never compared."""
    origin: Origin | None = None
    """What was tested; None when nobody knows."""
    selection: SelectionReport | None = Field(default=None, exclude_if=lambda value: value is None)
    """None: all eval files of the repository."""
    options: dict[str, str] = Field(default_factory=dict, exclude_if=lambda value: not value)
    """Settings that a run on another machine must be given to repeat this one: `agent`, `config`, `agent-python`."""
    files: list[FileReport] = Field(default_factory=list)
    cases: list[CaseReport] = Field(default_factory=list)
    """In file order, then case order, whatever finished first."""
    gate: GateMode = "thresholds"
    """What decided."""
    blocking: list[str] = Field(default_factory=list)
    """Ids of the cases that fail the gate: on a pull request those that got worse, not all that failed."""
    baseline: BaselineReport | None = None
    """Where the base's results come from, or why there are none; None when nobody asked for a comparison."""
    comparison: ComparisonReport | None = None
    decision: DecisionReport | None = None
    """What of the comparison is more than noise; None when nothing was compared."""
    confirmations: list[CaseReport] = Field(default_factory=list)
    """Runs that were added to see whether a case got worse. `cases` don't count them."""
    base_runs: list[CaseReport] = Field(default_factory=list)
    """The base's runs of today."""
    rule_changes: RuleChangesReport | None = None
    """What a pull request changes about the gate; None when there is no base branch to hold it to."""
    problems: list[ProblemReport] = Field(default_factory=list)
    model_usage: list[ModelUsageReport] = Field(default_factory=list)
    """By model, sorted by name; empty when nothing was judged by one."""
    case_usage: list[CaseUsageReport] = Field(default_factory=list)
    """The same by case, criterion and model, sorted by these."""
    notices: list[str] = Field(default_factory=list)
    """What else the reader should know, e.g. that recordings were reused."""
    pass_rates: list[PassRates] = Field(default_factory=list)
    """For k from 1 to `num_runs`; empty when every case runs once."""
    history: HistoryReport | None = None
    """Only in a run of the base branch: what the next gate compares with, this run included."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def totals(self) -> Totals:
        """Counts of cases by status."""
        counts = Totals(cases=len(self.cases))
        for case in self.cases:
            setattr(counts, case.status, getattr(counts, case.status) + 1)
        return counts
