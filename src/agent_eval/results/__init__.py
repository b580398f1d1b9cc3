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
from agent_eval.results.origin import Origin
from agent_eval.results.recording import Recording, RunError, ToolUse, Usage
from agent_eval.results.status import GateMode, VerdictValue

if TYPE_CHECKING:
    from agent_eval.results._merge import WITHOUT_KEY, merge, reaches, status_of_run
    from agent_eval.results._usage import sum_case_usage, sum_model_usage
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
        PassRates,
        ProblemReport,
        Reason,
        RunReport,
        RunResult,
        RunScore,
        SelectionReport,
        TargetReport,
        TurnEvidence,
        UnaffectedReport,
    )
    from agent_eval.results.rule_changes import Removal, RemovedCases, RuleChange, RuleChangeKind, RuleChangesReport
    from agent_eval.results.shard import SHARD_MISSING, MergeReport, PartReport, ShardReport

__all__ = [
    "BASE",
    "BASELINE_RECORDINGS",
    "BASE_RECORDINGS",
    "BROKE",
    "DEFAULT",
    "FAILED",
    "FILES",
    "JOURNAL",
    "JUDGE_REPLIES",
    "LOGS",
    "NOT_COMPARED",
    "NO_SCORE",
    "PASSED",
    "SCHEMA_VERSION",
    "SCORING_VERSION",
    "SHARD_MISSING",
    "UNAFFECTED",
    "UNKNOWN",
    "WITHOUT_KEY",
    "AdkCaseResult",
    "AdkMetricResult",
    "AdkSetResult",
    "AdkStatus",
    "AdkTurnResult",
    "BaselineReport",
    "BaselineSource",
    "BaselineStatus",
    "BaselineStep",
    "CaseComparison",
    "CaseDecisionReport",
    "CaseHistory",
    "CaseMetricComparison",
    "CaseReport",
    "CaseRunsReport",
    "CaseStatus",
    "CaseUsageReport",
    "Change",
    "ComparisonReport",
    "ConversationReport",
    "DecisionReasonReport",
    "DecisionReport",
    "Delta",
    "FileReport",
    "FlakinessReport",
    "GateMode",
    "HistoryMetric",
    "HistoryRecord",
    "HistoryReport",
    "HistoryRule",
    "InUse",
    "MergeReport",
    "MetricComparison",
    "MetricReport",
    "MetricStatus",
    "ModelUsageReport",
    "Move",
    "Origin",
    "PartReport",
    "PassRates",
    "ProblemReport",
    "Reason",
    "Recording",
    "Removal",
    "RemovedCases",
    "RuleChange",
    "RuleChangeKind",
    "RuleChangesReport",
    "RunError",
    "RunReport",
    "RunResult",
    "RunScore",
    "SelectionReport",
    "ShardReport",
    "StepReport",
    "SuiteTestReport",
    "TargetReport",
    "ToolUse",
    "TrendRow",
    "TurnEvidence",
    "TurnReport",
    "UnaffectedReport",
    "Usage",
    "VerdictValue",
    "adk_result_value",
    "adk_set_result",
    "file_in",
    "give_to_owner",
    "link_in",
    "locked",
    "merge",
    "reaches",
    "relative",
    "remove_logs",
    "status_of_run",
    "sum_case_usage",
    "sum_model_usage",
    "why_unwritable",
]

_MODULES = (
    "report",
    "_merge",
    "_usage",
    "adk_results",
    "comparison",
    "conversation",
    "decision",
    "history",
    "rule_changes",
    "shard",
)
"""Imported when they are used. `__all__` names what they have."""

if not TYPE_CHECKING:  # For type checkers the names are imported above.

    def __getattr__(name: str) -> Any:
        if name in __all__:
            for module in _MODULES:
                members = vars(importlib.import_module(f"{__name__}.{module}"))
                if name in members:
                    globals()[name] = members[name]  # so that this function is not called again for it
                    return members[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
