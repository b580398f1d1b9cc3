"""A run's results as documents for other tools. Pure: reads no files, sends nothing."""

from agent_eval_workbench.exports._runs import ExportedRun, StoredRun, Turn, TurnScore, runs_of, turn_scores
from agent_eval_workbench.exports.adk_web import AdkExport, adk_exports, adk_json
from agent_eval_workbench.exports.cozeloop import cozeloop_items, cozeloop_schema
from agent_eval_workbench.exports.otlp import Batch, otlp_batches, otlp_lines
from agent_eval_workbench.exports.rows import COLUMNS, csv_lines, json_lines, rows

__all__ = [
    "COLUMNS",
    "AdkExport",
    "Batch",
    "ExportedRun",
    "StoredRun",
    "Turn",
    "TurnScore",
    "adk_exports",
    "adk_json",
    "cozeloop_items",
    "cozeloop_schema",
    "csv_lines",
    "json_lines",
    "otlp_batches",
    "otlp_lines",
    "rows",
    "runs_of",
    "turn_scores",
]
