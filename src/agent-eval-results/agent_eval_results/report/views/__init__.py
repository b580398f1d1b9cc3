"""What a report says, as plain data, without markup."""

from agent_eval_results.outcome import Cause, causes, has_cause, has_crashed, never_ran, shown_word
from agent_eval_results.report.views._usage import (
    bill,
    case_usage_report,
    saved_votes,
    spending,
    usage_line,
    usage_report,
)
from agent_eval_results.report.views.case import (
    LABELS,
    CaseView,
    Finding,
    RowKind,
    TurnView,
    base_note,
    case_view,
    cases_with_low_turns,
    findings,
    first_difference,
    lines_of,
    low_turns,
    reason_lines,
    rows,
)
from agent_eval_results.report.views.detail import Detail, fitting, folded, one_line, visible
from agent_eval_results.report.views.digest import (
    MetricRow,
    answered_notes,
    case_name,
    close_vote_notes,
    failed_word,
    is_odd,
    location,
    metric_rows,
    not_run_groups,
    run_note,
)
from agent_eval_results.report.views.grouping import View, view_of
from agent_eval_results.report.views.links import Links, Reference, Reproduction, known_commit, reproduce
from agent_eval_results.report.views.numbers import (
    duration_text,
    measurement_text,
    percent_text,
    score_text,
    threshold_text,
)
