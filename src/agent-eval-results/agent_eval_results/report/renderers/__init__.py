"""One module per output: comment, summary, console, JUnit, annotations, JSON."""

from agent_eval_results.report.renderers._case_text import RunView, case_text
from agent_eval_results.report.renderers._comparison_text import comparison_text
from agent_eval_results.report.renderers._console import console
from agent_eval_results.report.renderers.annotations import annotation_commands, notice_command, stop_commands
from agent_eval_results.report.renderers.junit import explanation_lines, junit_pieces, junit_xml, score_lines
from agent_eval_results.report.renderers.markdown import (
    comment_markdown,
    environment,
    part_summary,
    report_link,
    summary_markdown,
)
from agent_eval_results.report.renderers.outputs import github_outputs, one_output
from agent_eval_results.report.renderers.results_json import results_pieces
