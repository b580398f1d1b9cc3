"""The arguments of `agent-eval record`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

EXPECTATIONS = ("calls", "final", "responses", "intermediate")
MOST_RUNS = 20


def add_arguments(parser: argparse.ArgumentParser, scopes: Callable[[str], tuple[str, ...]]) -> None:
    """Adds the arguments.

    Args:
        parser: The parser of the command.
        scopes: Parses `--state-scopes`.
    """
    parser.add_argument(
        "target",
        nargs="?",
        metavar="FILE[:EVAL_ID]",
        help="the eval set (.evalset.json or .test.json) to make or to add to, and the id of the case. Default id: the "
        "words of the first message",
    )
    _add_sources(
        parser.add_argument_group("where the conversation comes from (default: a chat in the terminal)"), scopes
    )
    _add_case(parser.add_argument_group("the case"))


def _add_sources(group: argparse._ArgumentGroup, scopes: Callable[[str], tuple[str, ...]]) -> None:
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
    group.add_argument(
        "--again", action="store_true", help="ask the messages of FILE:EVAL_ID again, and expect the new answers"
    )
    group.add_argument("--session", metavar="ID", help="with --from: the id of a session, `latest`, or `all`")
    group.add_argument("--case", metavar="CASE", help="with --from: only this eval id, FILE:EVAL_ID, or glob of ids")
    group.add_argument("--run", type=int, metavar="N", help="with --from: only this run of a case")
    group.add_argument("--list", action="store_true", help="with --from: show the conversations, and write nothing")
    group.add_argument(
        "--state-scopes",
        type=scopes,
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
        type=_runs,
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
        "before the answer), separated by commas, or none. Default: calls,final",
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


def _runs(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_RUNS:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {MOST_RUNS}")
    return int(text)
