"""`agent-eval export FORMAT`: a run's results, or eval files, for other tools. It never changes a verdict."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agent_eval.baseline.reader import UnreadableError, check_ran, open_results
from agent_eval.commands import CliIO
from agent_eval.commands.stored_run import expected_cases, recording_store
from agent_eval.settings import BY_INPUT
from agent_eval_results import FILES
from agent_eval_scoring.core.text import harmless
from agent_eval_scoring.evalset.json import write_text
from agent_eval_workbench.exports import cozeloop
from agent_eval_workbench.exports.adk_web import write_history
from agent_eval_workbench.exports.client import InvalidTarget, otlp_target, send_batches
from agent_eval_workbench.exports.otlp import otlp_batches, otlp_lines
from agent_eval_workbench.exports.runs import StoredRun, csv_lines, json_lines

if TYPE_CHECKING:
    Parsers = argparse._SubParsersAction[argparse.ArgumentParser]

_RESULTS = BY_INPUT["output-dir"].default
_EXIT_CODES = (
    "exit codes: 0 everything was exported, 1 the service did not accept everything, 2 invalid files or settings; "
    "nothing was sent"
)


def add_export(parser: argparse.ArgumentParser) -> None:
    """Adds the formats to the parser."""
    formats = parser.add_subparsers(title="formats", metavar="FORMAT", dest="format", required=True)
    _rows_arguments(formats, "csv", "a table for spreadsheets and pandas: a row per case, run, turn and metric")
    _rows_arguments(formats, "jsonl", "the same rows as JSON Lines")
    _otlp_arguments(formats)
    _adk_arguments(formats)
    cozeloop.add_arguments(add_format(formats, "cozeloop", "eval files as items of a CozeLoop evaluation set"))


def _rows_arguments(formats: Parsers, name: str, description: str) -> None:
    parser = add_format(formats, name, description)
    add_results(parser)
    add_output(parser, "default: stdout")


def _otlp_arguments(formats: Parsers) -> None:
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


def _adk_arguments(formats: Parsers) -> None:
    parser = add_format(formats, "adk", "results for the Eval tab of `adk web`: DIR/.adk/eval_history of each agent")
    add_results(parser)
    parser.add_argument(
        "--agent", type=Path, metavar="DIR", help="directory of the agent. Default: the agents that ran"
    )


def add_format(formats: Parsers, name: str, description: str) -> argparse.ArgumentParser:
    """Adds a format."""
    return formats.add_parser(name, allow_abbrev=False, help=description, description=description, epilog=_EXIT_CODES)


def add_results(parser: argparse.ArgumentParser) -> None:
    """Adds the run to export."""
    parser.add_argument(
        "results",
        nargs="?",
        type=Path,
        default=Path(_RESULTS),
        metavar="RESULTS",
        help=f"output directory of a run, or its results.json. Default: {_RESULTS}",
    )


def add_output(parser: argparse._ActionsContainer, default: str) -> None:
    """Adds `--output`."""
    parser.add_argument("--output", type=Path, metavar="FILE", help=f"file to write; {default}")


Export = Callable[[argparse.Namespace, CliIO], int]


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code: 0 exported, 1 not accepted by the service, 2 invalid input."""
    try:
        return FORMATS[arguments.format](arguments, io)
    except (UnreadableError, InvalidTarget) as error:
        io.log(f"agent-eval: {error}")
        return 2


@contextlib.contextmanager
def stored_run(results: Path, io: CliIO) -> Iterator[StoredRun]:
    """Reads a run's results, its recordings, and its cases as they were run.

    Raises:
        UnreadableError: The results or the recordings can't be read.
    """
    with open_results(results) as stored, recording_store(stored.folder) as store:
        report = stored.report
        check_ran(report, results)
        if report.caution:
            io.log(f"agent-eval: {harmless(str(results))} is {report.caution}")
        if not store and any(case.runs for case in report.cases):
            io.log("agent-eval: there is no recordings.jsonl.gz beside the results, so most conversations are missing")
        cases = expected_cases(report.cases, stored.folder, Path.cwd())
        yield StoredRun(report=report, recording_of=store.get, cases=cases)


def _check_output(output: Path | None, results: Path) -> None:
    """Raises UnreadableError if the output would replace a file of the run that is exported."""
    if output is None or not output.is_file():
        return
    folder = results if results.is_dir() else results.parent
    files = (folder / name for name in FILES.values())
    if any(file.is_file() and file.samefile(output) for file in (results, *files)):
        raise UnreadableError(f"{harmless(str(output))} is a file of the run itself.", "Name another --output.")


def write(pieces: Iterable[str], output: Path | None, io: CliIO) -> None:
    """Writes a document to a file, or to stdout.

    Raises:
        UnreadableError: The path is not a regular file.
        OSError: It can't be written.
    """
    if output is not None:
        if os.path.lexists(output) and not output.is_file():
            raise UnreadableError(f"{harmless(str(output))} is not a regular file.", "Name another --output.")
        write_text(output, pieces)
        io.log(f"Wrote {harmless(str(output))}")
        return
    # An agent's text must not act on a terminal or on GitHub's runner. A pipe gets it unchanged.
    is_shown = io.on_github or io.terminal_width is not None
    for piece in pieces:
        sys.stdout.write(harmless(piece) if is_shown else piece)


def _rows(lines: Callable[[StoredRun], Iterable[str]]) -> Export:
    def export(arguments: argparse.Namespace, io: CliIO) -> int:
        _check_output(arguments.output, arguments.results)
        with stored_run(arguments.results, io) as stored:
            write(lines(stored), arguments.output, io)
        return 0

    return export


def _otlp(arguments: argparse.Namespace, io: CliIO) -> int:
    _check_output(arguments.output, arguments.results)
    to = to_logs = None
    if arguments.output is None:  # The addresses are checked before anything is read.
        to = otlp_target("traces", io.environ, arguments.endpoint)
        if arguments.scores == "logs":
            to_logs = otlp_target("logs", io.environ, arguments.endpoint)
    with stored_run(arguments.results, io) as stored:
        batches = otlp_batches(
            stored,
            content=not arguments.no_content,
            scores=arguments.scores,
            service=io.environ.get("OTEL_SERVICE_NAME") or "agent-eval",
        )
        if to is not None:
            return send_batches(batches, to, to_logs, io)
        write(otlp_lines(batches), arguments.output, io)
    return 0


def _adk(arguments: argparse.Namespace, io: CliIO) -> int:
    with stored_run(arguments.results, io) as stored:
        write_history(stored, arguments.agent, io)
    return 0


FORMATS: Mapping[str, Export] = {
    "csv": _rows(csv_lines),
    "jsonl": _rows(json_lines),
    "otlp": _otlp,
    "adk": _adk,
    "cozeloop": cozeloop.upload_eval_files,
}
