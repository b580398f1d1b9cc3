"""The arguments of the workbench's commands, added when a command is called."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from agent_eval.commands.arguments import add_settings, natural
from agent_eval.settings import BY_INPUT, SETTINGS

_JUDGES = ("judge-model", "judge-base-url", "replay", "judge-cache", "max-judge-calls", "max-tokens", "max-cost")
_CALIBRATION = ("config", *_JUDGES, "run-timeout")
_RECORDING = {
    "config", "agent", "agent-python", "agent-requirements", "agent-cwd", "agent-setup", "agent-env", "agent-headers",
    "remote-sessions", "concurrency", "turn-timeout", "case-timeout", "cache-dir",
    "record",
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
    parser.add_argument(
        "words",
        nargs="*",
        metavar="RESULTS CASE",
        help="the output directory of a run, its results.json, or the zip of an artifact (default: "
        "agent-eval-results), then cases: eval id, FILE:EVAL_ID, FILE, or a glob of ids. Default: the cases that did "
        "not pass",
    )
    parser.add_argument("--list", action="store_true", help="list what may be accepted, and what not and why")
    parser.add_argument("--dry-run", action="store_true", help="print the changes as a unified diff, and write nothing")
    parser.add_argument("--all", action="store_true", help="accept everything that holds, without questions")
    parser.add_argument("--yes", action="store_true", help="let --all write although the variable CI is set")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="WHAT",
        help="accept only `calls`, `final`, `intermediate`, or what a metric compares with; repeatable",
    )
    parser.add_argument(
        "--run",
        type=partial(natural, most=1_000_000),
        metavar="N",
        help="take this run. Default: the one that is most like the others",
    )
    parser.add_argument(
        "--calls",
        choices=("run", "common"),
        help="expect the calls of one run, or only those that all runs made. Default: common if match_type is IN_ORDER "
        "or ANY_ORDER and there are several runs, else run",
    )
    parser.add_argument("--no-rescore", action="store_true", help="do not score the runs with the new expectations")
    add_settings(parser, [BY_INPUT[name] for name in ("exclude", "config")], paths=False)


def _edit(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Numbers begin at 1 and mean the case as it is in the file. Flags can be repeated and combined."
    parser.add_argument("case", metavar="FILE:EVAL_ID", help="the case to edit; without flags in $VISUAL or $EDITOR")
    for flag, metavar, text in (
        ("--message", ("TURN", "TEXT"), "the user's message of a turn"),
        ("--answer", ("TURN", "TEXT"), "the expected answer of a turn"),
        ("--args", ("TURN.CALL", "JSON"), "the args of an expected call"),
    ):
        parser.add_argument(flag, nargs=2, action="append", default=[], metavar=metavar, help=text)
    for flag, place, text in (
        ("--drop-turn", "TURN", "remove a turn"),
        ("--drop-call", "TURN.CALL", "remove an expected call, and its response"),
    ):
        parser.add_argument(flag, action="append", default=[], metavar=place, help=text)
    parser.add_argument("--rename", metavar="EVAL_ID", help="another id for the case")
    parser.add_argument("--delete", action="store_true", help="remove the case")
    parser.add_argument("--dry-run", action="store_true", help="print the change as a unified diff, and write nothing")


def _calibrate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("labels", type=Path, metavar="LABELS", help="JSON Lines file with responses and human labels.")
    parser.add_argument(
        "--criterion",
        required=True,
        metavar="NAME|CONFIG",
        help="Judged metric (METRIC or METRIC=THRESHOLD; options come from --config), or a config file with one.",
    )
    parser.add_argument(
        "--min-kappa",
        type=_kappa,
        metavar="K",
        help="Minimum kappa. Exit code 1 if kappa is lower, 3 if too few labels could be judged to decide.",
    )
    parser.add_argument(
        "--show",
        type=partial(natural, most=1_000_000),
        default=10,
        metavar="N",
        help="Number of disagreements to print. Default: 10.",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    add_settings(parser, [BY_INPUT[name] for name in _CALIBRATION], paths=False)


def _mutate(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Exit codes: 0 measured, 1 below --min-score, 2 invalid files or settings, 3 nothing to mutate."
    parser.add_argument("words", nargs="*", metavar="RESULTS CASE", help="as for `accept`; default: all cases")
    parser.add_argument("--apply", action="store_true", help="write what would kill survivors to the configs")
    parser.add_argument(
        "--judges", action="store_true", help="ask judges, too (at most 200 times, or --max-judge-calls)"
    )
    parser.add_argument(
        "--min-score", type=partial(_kappa, least=0), metavar="S", help="exit code 1 if the mutation score is lower"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="choose other mutants. Default: 0")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    add_settings(parser, [BY_INPUT[name] for name in ("exclude", *_CALIBRATION)], paths=False)


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


def _export(parser: argparse.ArgumentParser) -> None:
    from agent_eval_workbench.commands.export import add_export  # not for the other commands

    add_export(parser)


def _migrate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "old",
        type=Path,
        metavar="OLD",
        help="a legacy eval file, a file of scenarios, an eval file with comments, or a directory of "
        "`adk conformance record`",
    )
    parser.add_argument("new", type=Path, nargs="?", metavar="NEW", help="the eval set to write")
    parser.add_argument(
        "--initial-session",
        type=Path,
        metavar="FILE",
        help="a JSON file with the initial session of a list of turns, or of all scenarios",
    )


def _init(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory", nargs="?", type=Path, default=Path(), metavar="DIR", help="default: this directory"
    )
    parser.add_argument("--yes", action="store_true", help="ask nothing")
    parser.add_argument("--dry-run", action="store_true", help="show what would be done, and write nothing")
    parser.add_argument(
        "--ci",
        choices=("github", "gitlab", "jenkins", "none"),
        help="your CI system; default: the one that the repository uses",
    )


def _record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        nargs="?",
        metavar="FILE[:EVAL_ID]",
        help="the eval set (.evalset.json or .test.json) to make or to add to, and the id of the case. Default id: the "
        "words of the first message",
    )
    _add_sources(parser.add_argument_group("where the conversation comes from (default: a chat in the terminal)"))
    _add_case(parser.add_argument_group("the case"))
    add_settings(parser, [setting for setting in SETTINGS if setting.input in _RECORDING], paths=False)


def _scopes(text: str) -> tuple[str, ...]:
    scopes = tuple(scope.strip() for scope in text.split(",") if scope.strip())
    if not scopes or not {*scopes} <= {"app", "user"}:
        raise argparse.ArgumentTypeError("must be `app`, `user`, or `app,user`")
    return scopes


def _kappa(text: str, least: int = -1) -> float:
    with contextlib.suppress(ValueError):
        if least <= (value := float(text)) <= 1:
            return value
    raise argparse.ArgumentTypeError(f"must be a number from {least} to 1, not {text!r}")


_COMMANDS: Mapping[str, Callable[[argparse.ArgumentParser], None]] = {
    "accept": _accept,
    "edit": _edit,
    "calibrate": _calibrate,
    "flaky": _flaky,
    "export": _export,
    "migrate": _migrate,
    "mutate": _mutate,
    "init": _init,
    "record": _record,
}


EXPECTATIONS = ("calls", "final", "responses", "intermediate", "state")
MOST_RUNS = 20


def _add_sources(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--say", action="append", metavar="TEXT", help="ask the agent this; repeatable, a turn each")
    group.add_argument(
        "--messages",
        metavar="FILE",
        help="ask the agent the lines of a file, or its JSON list of texts or contents; `-` for the standard input",
    )
    group.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="SOURCE",
        help="something recorded: a session of ADK, a database, an agent's directory with .adk/session.db, a trace, a "
        "result of ADK, the output directory of a run or its recordings.jsonl.gz",
    )
    group.add_argument("--session", metavar="ID", help="with --from: the id of a session, `latest`, or `all`")
    group.add_argument("--case", metavar="CASE", help="with --from: only this eval id, FILE:EVAL_ID, or glob of ids")
    group.add_argument("--run", type=int, metavar="N", help="with --from: only this run of a case")
    group.add_argument("--list", action="store_true", help="with --from: show the conversations, and write nothing")
    group.add_argument(
        "--state-scopes",
        type=_scopes,
        default=(),
        metavar="LIST",
        help="with --from: also take state of these scopes: `app`, `user`, or `app,user`",
    )


def _add_case(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--state", metavar="JSON", help="the state with which the session begins: JSON, or @FILE")
    group.add_argument(
        "--app-name", metavar="NAME", help="default: the name of the agent's directory, or the session's"
    )
    group.add_argument("--user-id", metavar="ID", help="default: user, or the session's")
    group.add_argument(
        "--runs",
        type=partial(natural, most=MOST_RUNS),
        default=1,
        metavar="N",
        help=f"ask N times (at most {MOST_RUNS}), and keep the run that agrees most with the others. Default: 1",
    )
    group.add_argument(
        "--expect",
        type=_expectations,
        default=frozenset({"calls", "final"}),
        metavar="LIST",
        help="what the case expects: calls, final (the answer), responses (of tools), intermediate (what is said "
        "before the answer), state (at the end, what has changed), separated by commas, or none. Default: calls,final",
    )
    group.add_argument(
        "--form",
        choices=("flat", "events"),
        help="the form of calls: lists, or ADK's events. Default: that of the file's other cases, else flat",
    )
    group.add_argument("--replace", action="store_true", help="replace the case EVAL_ID")
    group.add_argument("--dry-run", action="store_true", help="print the case, and write nothing")


def _expectations(text: str) -> frozenset[str]:
    words = frozenset(word.strip() for word in text.split(",") if word.strip())
    if words == {"none"}:
        return frozenset()
    if not words or not words <= {*EXPECTATIONS}:
        raise argparse.ArgumentTypeError(f"must be a list of {', '.join(EXPECTATIONS)}, or none")
    return words
