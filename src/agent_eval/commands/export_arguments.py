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


def _rows(formats: Parsers, name: str, description: str) -> None:
    parser = add_format(formats, name, description)
    add_results(parser)
    add_output(parser, "default: stdout")


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


def add_output(parser: argparse.ArgumentParser, default: str) -> None:
    """Adds `--output`."""
    parser.add_argument("--output", type=Path, metavar="FILE", help=f"file to write; {default}")
