"""Arguments of `agent-eval export`, one parser per format."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from agent_eval.settings import BY_INPUT

if TYPE_CHECKING:
    Parsers = argparse._SubParsersAction[argparse.ArgumentParser]

_DEFAULT = BY_INPUT["output-dir"].default
_EXIT_CODES = (
    "exit codes: 0 everything was exported, 1 the service did not accept everything, 2 invalid files or settings; "
    "nothing was sent"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the formats to the parser."""
    formats = parser.add_subparsers(title="formats", metavar="FORMAT", dest="format", required=True)
    _rows(formats, "csv", "a table for spreadsheets and pandas: a row per case, run, turn and metric")
    _rows(formats, "jsonl", "the same rows as JSON Lines")
    _otlp(formats)
    _adk(formats)
    _cozeloop(formats)


def _rows(formats: Parsers, name: str, description: str) -> None:
    parser = add_format(formats, name, description)
    add_results(parser)
    add_output(parser, "default: stdout")


def _otlp(formats: Parsers) -> None:
    parser = add_format(formats, "otlp", "OpenTelemetry traces with the scores, sent to a service or written to a file")
    add_results(parser)
    target = parser.add_mutually_exclusive_group()
    target.add_argument(
        "--endpoint",
        metavar="URL",
        help="OTLP/HTTP endpoint, without /v1/traces. Default: OTEL_EXPORTER_OTLP_ENDPOINT. Credentials are read from "
        "OTEL_EXPORTER_OTLP_HEADERS",
    )
    add_output(target, "JSON Lines instead of sending")
    parser.add_argument(
        "--no-content",
        action="store_true",
        help="leave out all texts: messages, arguments and results of tools, explanations, error messages",
    )
    parser.add_argument(
        "--scores",
        choices=("logs", "events", "none"),
        default="logs",
        help="send scores as log records, as span events (for services without logs), or not at all. Default: logs",
    )


def _adk(formats: Parsers) -> None:
    parser = add_format(formats, "adk", "results for the Eval tab of `adk web`: DIR/.adk/eval_history of each agent")
    add_results(parser)
    parser.add_argument(
        "--agent", type=Path, metavar="DIR", help="directory of the agent. Default: the agents that ran"
    )


def _cozeloop(formats: Parsers) -> None:
    parser = add_format(formats, "cozeloop", "eval files as items of a CozeLoop evaluation set")
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="eval files, directories and globs, also FILE:EVAL_ID, as for `run`"
    )
    variable = "Default: OBSERVABILITY_OPENTELEMETRY_COZELOOP_"
    parser.add_argument("--workspace-id", metavar="ID", help=f"workspace. {variable}SERVICE_NAME")
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--evalset-id", metavar="ID", help=f"existing evaluation set. {variable}EVALSET_ID")
    target.add_argument("--create", type=_set_name, metavar="NAME", help="create an evaluation set with this name")
    parser.add_argument(
        "--trajectory", action="store_true", help="add the expected tool calls in a column `trajectory`"
    )


def _set_name(text: str) -> str:
    if not 1 <= len(text) <= 255:
        raise argparse.ArgumentTypeError("must have 1 to 255 characters")
    return text


def add_format(formats: Parsers, name: str, description: str) -> argparse.ArgumentParser:
    """Adds a format."""
    return formats.add_parser(name, allow_abbrev=False, help=description, description=description, epilog=_EXIT_CODES)


def add_results(parser: argparse.ArgumentParser) -> None:
    """Adds the run to export."""
    parser.add_argument(
        "results",
        nargs="?",
        type=Path,
        default=Path(_DEFAULT),
        metavar="RESULTS",
        help=f"output directory of a run, or its results.json. Default: {_DEFAULT}",
    )


def add_output(parser: argparse._ActionsContainer, default: str) -> None:
    """Adds `--output`."""
    parser.add_argument("--output", type=Path, metavar="FILE", help=f"file to write; {default}")
