"""The arguments of the workbench's commands, added when a command is called."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from agent_eval.commands.arguments import add_settings, natural
from agent_eval.settings import BY_INPUT, SETTINGS
from agent_eval_workbench.commands import (
    authoring_arguments,
    calibrate_arguments,
    export_arguments,
    record_arguments,
)

_JUDGES = ("judge-model", "judge-base-url", "judge", "judge-cache", "max-judge-calls", "max-tokens", "max-cost")
_CALIBRATION = ("config", *_JUDGES, "run-timeout", "num-runs")
_RECORDING = {
    "config", "agent", "agent-python", "agent-requirements", "agent-cwd", "agent-setup", "agent-env", "agent-headers",
    "remote-user-id", "keep-sessions", "a2a-ignore-state", "concurrency", "turn-timeout", "case-timeout", "cache-dir",
    "tools",
}  # fmt: skip
_ACCEPT_EXAMPLES = """\
examples:
  agent-eval accept
      asks about each failed case of agent-eval-results, on a terminal
  agent-eval accept agent-eval-results.zip evals/home.test.json --dry-run
      what would change in one file, from the artifact of a CI run, as a diff
  agent-eval accept --all --only calls
      all calls, unseen
"""


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of a command to its parser."""
    _COMMANDS[command](parser)


def _accept(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _ACCEPT_EXAMPLES
    authoring_arguments.add_accept(parser)
    add_settings(parser, [BY_INPUT[name] for name in ("include", "exclude", "config")], paths=False)


def _edit(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Numbers begin at 1 and mean the case as it is in the file. Flags can be repeated and combined."
    authoring_arguments.add_edit(parser)


def _calibrate(parser: argparse.ArgumentParser) -> None:
    calibrate_arguments.add_arguments(parser)
    add_settings(parser, [BY_INPUT[name] for name in _CALIBRATION], paths=False)


def _flaky(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="RESULTS",
        help=f"results.json files of the base branch, or directories. Default: {BY_INPUT['output-dir'].default}",
    )
    parser.add_argument("--format", choices=("toml", "json"), default="toml", help="default: toml, for agent-eval.toml")
    parser.add_argument("--owner", default="", metavar="NAME", help="owner of the quarantine entries")
    parser.add_argument("--days", type=natural, default=30, metavar="N", help="days until they expire. Default: 30")


def _migrate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "old",
        type=Path,
        metavar="OLD",
        help="a legacy eval file, a file of scenarios, a session or a result of ADK, a trace (OTLP, VeADK), or the "
        "directory of an agent with sessions in .adk/session.db",
    )
    parser.add_argument("new", type=Path, metavar="NEW", help="the eval set to write")
    parser.add_argument(
        "--session", action="append", default=[], metavar="ID", help="only this session of OLD; repeatable"
    )
    parser.add_argument(
        "--state-scopes",
        type=_scopes,
        default=(),
        metavar="LIST",
        help="also write state of these scopes to the cases: `app`, `user`, or `app,user`",
    )
    parser.add_argument("--initial-session", type=Path, metavar="FILE", help=BY_INPUT["initial-session"].help)


def _init(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory", nargs="?", type=Path, default=Path(), metavar="DIR", help="default: this directory"
    )
    parser.add_argument("--yes", action="store_true", help="ask nothing")
    parser.add_argument("--dry-run", action="store_true", help="show what would be done, and write nothing")
    parser.add_argument("--no-workflow", action="store_true", help="do not set up CI")


def _record(parser: argparse.ArgumentParser) -> None:
    record_arguments.add_arguments(parser, _scopes)
    add_settings(parser, [setting for setting in SETTINGS if setting.input in _RECORDING], paths=False)


def _scopes(text: str) -> tuple[str, ...]:
    scopes = tuple(scope.strip() for scope in text.split(",") if scope.strip())
    if not scopes or not {*scopes} <= {"app", "user"}:
        raise argparse.ArgumentTypeError("must be `app`, `user`, or `app,user`")
    return scopes


_COMMANDS: Mapping[str, Callable[[argparse.ArgumentParser], None]] = {
    "accept": _accept,
    "edit": _edit,
    "calibrate": _calibrate,
    "flaky": _flaky,
    "export": export_arguments.add_arguments,
    "migrate": _migrate,
    "init": _init,
    "record": _record,
}
