"""The model that every renderer reads, serialized as `results.json`.

`results.json` stays small: scores, statuses, reasons and, for cases that did not pass, short excerpts and one
conversation. The complete recordings are in `recordings.jsonl.gz`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar, Literal

from pydantic import Field, computed_field, model_validator

from agent_eval_results.data.causes import AgentChange, AgentTree, CauseReport
from agent_eval_results.data.comparison import BaselineReport, ComparisonReport, RuleChangesReport
from agent_eval_results.data.conversation import ConversationReport, JudgeReport, JudgeVerdict, dicts_of
from agent_eval_results.data.coverage import CoverageReport
from agent_eval_results.data.decision import DecisionReport, PassRates
from agent_eval_results.data.history import HistoryReport
from agent_eval_results.data.origin import NO_FACTS, GateMode, OfARun, OfSeveralRuns, OfTheGate
from agent_eval_results.data.origin import CaseStatus as CaseStatus
from agent_eval_results.data.origin import FileReport as FileReport
from agent_eval_results.data.origin import MetricStatus as MetricStatus
from agent_eval_results.data.origin import Origin as Origin
from agent_eval_results.data.origin import SelectionReport as SelectionReport
from agent_eval_results.data.origin import TargetReport as TargetReport
from agent_eval_results.data.origin import VerdictValue as VerdictValue
from agent_eval_results.data.outcome import CaseOutcome, RunOutcome
from agent_eval_scoring.core.invocation import LostToolset
from agent_eval_scoring.core.reason import Note
from agent_eval_scoring.core.reason import Reason as Reason
from agent_eval_scoring.core.recording import RunError, ToolUse, Usage
from agent_eval_scoring.core.wire import ReportModel, WireModel
from agent_eval_scoring.evalset.models import INFORMATIONAL_METRICS

SCHEMA_VERSION: Literal["1"] = "1"
SCORING_VERSION = 1
"""Incremented whenever the same recording and config would get a different score."""


SHARD_MISSING = "shard-missing"
"""The kind of a run that belongs to a part without results, and the code of that reason for a verdict."""


class ShardReport(WireModel):
    """One part of a suite: `--shard INDEX/TOTAL`."""

    index: int = Field(ge=1)
    """From 1 to `total`."""
    total: int = Field(ge=1)
    plan: str
    """Hash of the split. Parts of one run have the same."""
    suite: dict[str, str] = Field(default_factory=dict)
    """Hashes of the cases, the criteria and the agents of all parts together. Parts of one run have the same."""
    cases: list[str] = Field(default_factory=list)
    """Ids of the part's cases."""
    suite_cases: int = 0
    """Number of cases of all parts together."""
    weights_from: Literal["turns", "recorded"] = "turns"
    """What the split is balanced by: turns of the cases, or the durations of earlier runs (`--shard-plan`)."""
    files: dict[str, str] | None = None
    """Hashes that all parts must have in common: of the whole checkout (`.`); and for messages, by path, of uncommitted
    files, and of `.env` files, which may differ. None: no agent runs here, there is no git, or an older version."""
    variables: dict[str, str] | None = None
    """By name of each variable that the agent gets, a hash too short to guess the value by; empty for a secret. None:
    unknown."""
    notices: list[str] = Field(default_factory=list)
    """What the report of all parts must say, too: which tools changed after their answers were recorded."""

    @model_validator(mode="after")
    def _is_one_of_all(self) -> ShardReport:
        if self.index > self.total:
            raise ValueError("there are not as many parts")
        return self


class PartReport(WireModel):
    """The results of one part that were merged; a part that was repeated has several."""

    index: int
    attempt: int | None = None
    """Attempt of the workflow run; None outside of GitHub."""
    run_url: str | None = None
    started_at: float
    duration: float
    cases: int


class MergeReport(WireModel):
    """The parts of a merged report."""

    total: int
    """Number of parts of the run."""
    parts: list[PartReport] = Field(default_factory=list)
    """By index, then by attempt."""
    missing: list[int] = Field(default_factory=list)
    """Parts without results whose cases were not run in the merge either."""


class _ComputingReport(ReportModel):
    """Base class of models with computed fields, which are in their JSON and are ignored when it is read."""

    former: ClassVar[frozenset[str]] = frozenset()
    """Fields of earlier results, which are ignored, too."""

    @model_validator(mode="before")
    @classmethod
    def _without_computed(cls, value: Any) -> Any:
        ignored = cls.__pydantic_computed_fields__.keys() | cls.former
        # Unknown keys are errors: a model would refuse what it has written itself.
        return {key: value[key] for key in value if key not in ignored} if isinstance(value, dict) else value


class TurnEvidence(ReportModel):
    """Excerpts of a turn that lowered a score which failed, or that is below the threshold of a score which passed."""

    turn: int
    """0-based."""
    score: float | None = None
    user: str = ""
    expected: str = ""
    actual: str = ""
    why: list[Note] = Field(default_factory=list)
    """One finding per line, e.g. "missing: turn_on(device='lamp')"."""


class RunScore(OfARun, ReportModel):
    """The score of a metric in one run."""

    run: int
    score: float | None = None
    status: MetricStatus
    reason: Reason | None = None
    turn_scores: list[float | None] = Field(default_factory=list, exclude_if=lambda value: not value)
    """The score of each turn, if there are several; empty if the criterion scores the conversation as a whole."""
    evidence: list[TurnEvidence] = Field(default_factory=list)
    details: dict[str, Any] = Field(default_factory=dict)
    """Numbers behind an informational score, e.g. token counts."""
    error: RunError | None = Field(default=None, exclude_if=lambda value: value is None)
    """The failure of a custom metric, with its traceback."""

    @property
    def may_be_scored(self) -> bool:
        """Whether it lacks a score that may be there another time, e.g. with a key; not for want of facts to expect."""
        return self.lacks_result and (self.reason is None or self.reason.code != NO_FACTS)

    @property
    def judge(self) -> JudgeReport | None:
        """The judge, as far as `details` have it; None for a metric without one."""
        judge = self.details.get("judge")
        return JudgeReport.model_validate(judge if isinstance(judge, dict) else {}) if judge is not None else None

    @property
    def backend(self) -> str | None:
        """`vertex` or `judge`, of a metric for which ADK uses Vertex AI."""
        return self.details.get("backend")

    @property
    def verdicts(self) -> list[JudgeVerdict]:
        """What a judge says, as far as `details` have it."""
        return list(map(JudgeVerdict.model_validate, dicts_of(self.details.get("judgements")))) if self.details else []

    @property
    def verdicts_left_out(self) -> int:
        """How many more there were."""
        left = self.details.get("judgements_left_out")
        return left if isinstance(left, int) else 0


class MetricReport(OfSeveralRuns, ReportModel):
    """A metric of a case over all its runs."""

    name: str
    score: float | None = None
    """Mean over the runs that have a score."""
    threshold: float | None = None
    """None for informational metrics, and for those that are only compared with the base branch."""
    status: MetricStatus
    reason: Reason | None = None
    judge: str | None = None
    """The judge model, e.g. `gemini-2.5-flash`; None for a metric without a judge."""
    fingerprint: str = ""
    """Hash of the criterion's options, the judge model and the version of its prompt. Scores with different
    fingerprints are not compared. The threshold does not count."""
    blocking: bool = Field(default=True, exclude_if=bool)
    """False: the metric is reported but never fails the case (`[[policy]]` in agent-eval.toml)."""
    direction: Literal["higher", "lower"] = Field(default="higher", exclude_if=lambda value: value == "higher")
    """Which side of the threshold passes. Like `blocking`, written only if it is not the default."""
    runs: list[RunScore]

    @property
    def lower_is_better(self) -> bool:
        """Whether scores up to the threshold pass, instead of those from it."""
        return self.direction == "lower"

    @property
    def compared_only(self) -> bool:
        """Whether it can fail its case only by a comparison."""
        return self.threshold is None and self.blocking and self.is_configured

    @property
    def is_configured(self) -> bool:
        """Whether a config or the policy asks for it: it has a threshold, or is none of those that every case has."""
        return self.threshold is not None or self.name not in INFORMATIONAL_METRICS

    @property
    def measure(self) -> str:
        """How it is measured: scores with equal measures are comparable in different reports."""
        return f"{SCORING_VERSION}-{self.fingerprint}"


class RunResult(OfARun, ReportModel):
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
    ran_before: list[str] = Field(default_factory=list, exclude_if=lambda value: not value)
    """See `Recording.ran_before`."""
    tools: ToolUse | None = Field(default=None, exclude_if=lambda value: value is None)
    """How its tool calls were answered; None: all tools ran (neither `replay` nor `record`)."""
    stop_reason: str | None = None
    """Why a simulated conversation ended: `stop-signal` or `turn-limit`; None for fixed turns."""
    lost_toolsets: list[LostToolset] = Field(default_factory=list, exclude_if=lambda value: not value)
    """Toolsets without which its agents ran, since they raised."""

    @property
    def replayed(self) -> bool:
        """Whether the case's tape had every answer of models and tools that the agent asked for."""
        missed = self.error is not None and self.error.owner == "gate"
        return self.tools is not None and self.tools.mode == "all" and not missed


class CaseReport(OfSeveralRuns, _ComputingReport):
    """A case over all its runs."""

    case_id: str
    """`file:eval_id`."""
    file: str
    line: int | None = None
    eval_set_id: str
    eval_id: str
    status: CaseStatus
    reason: Reason | None = None
    """Why the case did not pass."""
    fingerprint: str = ""
    """Hash of the eval case's messages and expectations. Cases with different fingerprints are not compared."""
    outcome: CaseOutcome | None = Field(default=None, exclude_if=lambda value: value is None)
    """What the case is to the gate; None in results of older versions, and in those of a part."""
    metrics: list[MetricReport] = Field(default_factory=list)
    runs: list[RunResult] = Field(default_factory=list)
    conversation: ConversationReport | None = Field(default=None, exclude_if=lambda value: value is None)
    """A run that did not pass, in bounded size. Only for cases that did not pass and whose agent was called, as far as
    the file has room (docs/results.md)."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def duration(self) -> float:
        """Wall-clock seconds of all runs."""
        return sum(run.duration for run in self.runs)

    @property
    def is_quarantined(self) -> bool:
        """Whether a quarantine of the policy covers it: whatever its runs are, it does not block."""
        return self.status == "quarantined"

    def had_in_quarantine(self, status: CaseStatus) -> bool:
        """Whether this would be its status without its quarantine."""
        return self.is_quarantined and self.reason is not None and self.reason.data.get("result") == status

    @property
    def counts_inner_calls(self) -> bool:
        """Whether no criterion says that an expected call was only made inside of another one."""
        evidence = (low for metric in self.metrics for run in metric.runs for low in run.evidence)
        return all(line.code != "call-inside" for low in evidence for line in low.why)

    @property
    def failing_metrics(self) -> list[MetricReport]:
        """The metrics that keep it from passing: below their threshold, or without a score."""
        return [metric for metric in self.metrics if metric.blocking and (metric.failed or metric.lacks_result)]

    @property
    def by_hand(self) -> int:
        """Calls of tools that what a person wrote into the eval case has answered, in all runs."""
        return sum(run.tools.by_hand for run in self.runs if run.tools is not None)

    @property
    def replayed(self) -> bool:
        """Whether it was replayed from its tape: such a case is run once, and compared without statistics."""
        return any(run.replayed for run in self.runs)

    @property
    def failed_when_recorded(self) -> bool:
        """Whether a replayed case failed when its tape was recorded, too."""
        return all(run.tools is not None and run.tools.recorded_status == "failed" for run in self.runs)


NOT_COMPARED = "not-compared"
"""Code of the reason of a run that was stopped when its cases had been judged, before it looked at the base branch."""


class ProblemReport(ReportModel):
    """A `Problem` in results.json."""

    severity: Literal["error", "warning", "notice"]
    code: str
    message: str
    hint: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    path: str | None = None

    @property
    def location(self) -> str:
        """`file:line:column`, as far as it is known."""
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)

    @property
    def is_error(self) -> bool:
        """Whether nothing runs because of it."""
        return self.severity == "error"

    @property
    def is_notice(self) -> bool:
        """Whether nobody has to act on it."""
        return self.severity == "notice"


class Totals(_ComputingReport):
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
        """Passed cases as a share of those that passed or failed, 0..1; None if there are none."""
        # An error or an outage is no score: it must not lower the rate.
        completed = self.passed + self.failed
        return self.passed / completed if completed else None


class ModelUsageReport(WireModel):
    """Usage of one model by judges and simulated users."""

    model: str
    versions: list[str] = Field(default_factory=list)
    """Model versions that replied, as reported by the provider."""
    calls: int
    """Attempts that were sent."""
    cached_replies: int = 0
    """Replies from the cache or a tape, which cost nothing."""
    failures: int = 0
    """Requests without a usable reply."""
    saved_votes: int = 0
    """Votes that were not needed, because the earlier votes had decided."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    thought_tokens: int | None = None
    cost: float | None = None
    """US dollars; None if the model has no price."""


class CaseUsageReport(ReportModel):
    """Usage of one model by the agent, a criterion or the simulated user, for one case, including the base's runs."""

    case_id: str
    purpose: str
    """The metric, or `user-simulator`. The agent's own calls are `agent`, those in extra runs `agent-again`, those in
    runs of the base branch `agent-base`."""
    model: str
    calls: int
    """Attempts that were sent."""
    cached_replies: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    thought_tokens: int | None = None
    cost: float | None = None
    """US dollars; None if the model has no price, or nothing was sent."""


class RunReport(OfTheGate, _ComputingReport):
    """One run of the gate."""

    former: ClassVar[frozenset[str]] = frozenset({"opened", "unaffected"})

    schema_version: Literal["1"] = SCHEMA_VERSION
    scoring_version: int = SCORING_VERSION
    tool_version: str
    verdict: VerdictValue
    reasons: list[Reason] = Field(default_factory=list)
    """Why the verdict is what it is, most important reason first. A `passed` verdict has a reason only if it does not
    show that the agent works: nothing is gated, no case passes, or the gate is advisory."""
    exit_code: int | None = Field(default=None, exclude_if=lambda value: value is None)
    """The gate's exit code; None for results that no gate produced."""
    outcome: RunOutcome | None = Field(default=None, exclude_if=lambda value: value is None)
    """What the run is to a reader; None in results of older versions."""
    started_at: float
    """Unix time in seconds."""
    duration: float
    num_runs: int
    min_pass_rate: float
    provenance: dict[str, str] = Field(default_factory=dict)
    """Versions and commit, for information only."""
    origin: Origin | None = None
    """What was tested; None if unknown."""
    selection: SelectionReport | None = Field(default=None, exclude_if=lambda value: value is None)
    """None: all eval files of the repository."""
    shard: ShardReport | None = Field(default=None, exclude_if=lambda value: value is None)
    """Only in the results of a part (`--shard`), which have no verdict of their own: `agent-eval merge` decides."""
    merged_from: MergeReport | None = Field(default=None, exclude_if=lambda value: value is None)
    """Only in merged results."""
    taken_from: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """URL of the merge queue's run of the same files whose results these are; None: this run has made them."""
    conditions: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Only in results of a merge queue: a hash of settings that its push must have, to take them over."""
    options: dict[str, str] = Field(default_factory=dict, exclude_if=lambda value: not value)
    """Settings that are needed to repeat the run on another machine: `agent`, `config`, `agent-python`."""
    files: list[FileReport] = Field(default_factory=list)
    cases: list[CaseReport] = Field(default_factory=list)
    """In file order, then case order."""
    gate: GateMode = "thresholds"
    """The rule that decided the verdict."""
    blocking: list[str] = Field(default_factory=list)
    """Ids of the cases that fail the gate, or with `advisory` would. On a pull request: the regressions, not all failed
    cases."""
    causes: list[CauseReport] = Field(default_factory=list, exclude_if=lambda value: not value)
    """What failing cases have in common, the largest group first. A failing case without a shared cause is in none."""
    agent_changes: list[AgentChange] = Field(default_factory=list, exclude_if=lambda value: not value)
    """Differences between the base branch's agents and these; empty also if the base's are unknown."""
    agents: list[AgentTree] = Field(default_factory=list, exclude_if=lambda value: not value)
    """The agents as they were loaded, for the comparison of later runs with this one."""
    coverage: list[CoverageReport] = Field(default_factory=list, exclude_if=lambda value: not value)
    """By agent, what it declares and what its cases reach; none of an agent whose calls are not visible."""
    baseline: BaselineReport | None = None
    """Where the base branch's results come from, or why there are none; None if no comparison was requested."""
    comparison: ComparisonReport | None = None
    decision: DecisionReport | None = None
    """The statistically significant changes; None if nothing was compared."""
    confirmations: list[CaseReport] = Field(default_factory=list)
    """Extra runs that confirm or refute a regression; not included in `cases`."""
    base_runs: list[CaseReport] = Field(default_factory=list)
    """Runs of the base branch's agent that were made for this comparison."""
    rule_changes: RuleChangesReport | None = None
    """Changes of a pull request to the gate's rules; None without a base branch."""
    problems: list[ProblemReport] = Field(default_factory=list)
    model_usage: list[ModelUsageReport] = Field(default_factory=list)
    """By model, sorted by name; empty if no model was called."""
    case_usage: list[CaseUsageReport] = Field(default_factory=list)
    """By case, purpose and model, in this sort order."""
    warnings: list[str] = Field(default_factory=list)
    """Sentences for the top of every report, e.g. about a quarantined case that is broken now."""
    notices: list[str] = Field(default_factory=list)
    """Other information for the reader, e.g. that recordings were reused."""
    base_worse: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether a notice says that the base branch, or a case there, got worse over its last runs."""
    pass_rates: list[PassRates] = Field(default_factory=list)
    """For k from 1 to `num_runs`; empty if every case runs once."""
    history: HistoryReport | None = None
    """Only in a run of the base branch: the runs that the next gate compares with, including this one."""
    base_history: HistoryReport | None = Field(default=None, exclude_if=lambda value: value is None)
    """Only in a run that was compared: the base branch's trend, and the outcomes of its runs, by the ids of this
    report's cases. Cases that did not pass or differ from the base branch also have their scores."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def totals(self) -> Totals:
        """Counts of cases by status."""
        # Each status is the name of a field of Totals.
        counts: Counter[str] = Counter(case.status for case in self.cases)
        return Totals(cases=len(self.cases), **counts)

    @property
    def is_advisory(self) -> bool:
        """Whether no result of it can fail the job."""
        return self.gate == "advisory"

    def has_reason(self, *codes: str) -> bool:
        """Whether one of these is among the reasons of the verdict."""
        return any(reason.code in codes for reason in self.reasons)

    @property
    def agents_by_file(self) -> dict[str, str]:
        """The agent of each eval file."""
        return {file.file: file.agent for file in self.files}

    @property
    def every_case(self) -> list[CaseReport]:
        """The cases, with the extra runs of both sides as cases of their own."""
        return [*self.cases, *self.confirmations, *self.base_runs]

    @property
    def has_verdict(self) -> bool:
        """Whether a gate has decided on it: on a part of a run only the merge does, unless the part is invalid."""
        return self.shard is None or self.is_invalid

    @property
    def caution(self) -> str | None:
        """What these results are, as a clause, if a reader may take them for something else."""
        if self.shard is None:
            return None
        part = f"part {self.shard.index} of {self.shard.total} of a run (`shard`)"
        return f"{part}, without a verdict: `agent-eval merge` decides"

    @property
    def is_for_merge(self) -> bool:
        """Whether the run is for a pull request or a merge queue."""
        return self.origin is not None and (self.origin.pull_request is not None or self.origin.event == "merge_group")

    def runs_of(self, case: CaseReport) -> list[RunResult]:
        """All runs of a case, including those that confirm or refute a regression."""
        return [*case.runs, *(run for part in self.confirmations if part.case_id == case.case_id for run in part.runs)]
