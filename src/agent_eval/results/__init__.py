"""The models of a run's output: report, recordings, comparison, decision; and the output directory.

The models of reports are imported when one of them is used: a run starts its agent first, which needs none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agent_eval.results.folder import (
    BASE,
    BASE_RECORDINGS,
    BASELINE_RECORDINGS,
    DEFAULT,
    FILES,
    JOURNAL,
    JUDGE_REPLIES,
    LOGS,
    InUse,
    file_in,
    give_to_owner,
    link_in,
    locked,
    relative,
    remove_logs,
    why_unwritable,
)
from agent_eval.results.origin import GateMode, NoMoreRuns, Origin, VerdictValue
from agent_eval.results.recording import Recording, RunError, ToolUse, Usage

if TYPE_CHECKING:
    from agent_eval.results._merge import WITHOUT_KEY, merge, reaches, status_of_run, sum_case_usage, sum_model_usage
    from agent_eval.results.adk_results import (
        AdkCaseResult,
        AdkMetricResult,
        AdkSetResult,
        AdkStatus,
        AdkTurnResult,
        adk_result_value,
        adk_set_result,
    )
    from agent_eval.results.comparison import (
        BaselineReport,
        BaselineSource,
        BaselineStatus,
        BaselineStep,
        CaseComparison,
        CaseMetricComparison,
        Change,
        ComparisonReport,
        Delta,
        MetricComparison,
        Move,
        Removal,
        RemovedCases,
        RuleChange,
        RuleChangeKind,
        RuleChangesReport,
    )
    from agent_eval.results.conversation import ConversationReport, StepReport, TurnReport
    from agent_eval.results.decision import (
        CaseDecisionReport,
        CaseRunsReport,
        DecisionReasonReport,
        DecisionReport,
        FlakinessReport,
        SuiteTestReport,
    )
    from agent_eval.results.history import (
        BROKE,
        FAILED,
        NO_SCORE,
        PASSED,
        UNKNOWN,
        CaseHistory,
        HistoryMetric,
        HistoryRecord,
        HistoryReport,
        HistoryRule,
        TrendRow,
    )
    from agent_eval.results.reason import Facts, Numbers, Reason
    from agent_eval.results.report import (
        NOT_COMPARED,
        SCHEMA_VERSION,
        SCORING_VERSION,
        UNAFFECTED,
        CaseReport,
        CaseStatus,
        CaseUsageReport,
        FileReport,
        MetricReport,
        MetricStatus,
        ModelUsageReport,
        OpenedReport,
        PassRates,
        ProblemReport,
        RunReport,
        RunResult,
        RunScore,
        SelectionReport,
        TargetReport,
        TurnEvidence,
        UnaffectedReport,
    )
    from agent_eval.results.shard import SHARD_MISSING, MergeReport, PartReport, ShardReport


_MODULES = ("reason", "report", "_merge", "adk_results", "comparison", "conversation", "decision", "history", "shard")
"""Imported in this order when a name is used that is not imported above."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        for module in _MODULES if not name.startswith("_") and name not in _MODULES else ():
            members = vars(importlib.import_module(f"{__name__}.{module}"))
            if name in members:
                globals()[name] = members[name]  # so that this function is not called again for it
                return members[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
