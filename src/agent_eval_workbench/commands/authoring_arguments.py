"""Arguments of the commands that change eval files."""

from __future__ import annotations

import argparse


def add_accept(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `agent-eval accept`."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="RESULTS CASE",
        help="the output directory of a run, its results.json, or the zip of an artifact (default: "
        "agent-eval-results), then cases: eval id, FILE:EVAL_ID, FILE, or a glob of ids. Default: the cases that did "
        "not pass",
    )
    parser.add_argument("--list", action="store_true", help="list what may be accepted, and what not and why")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of --list. Default: text")
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
        "--run", type=_run_number, metavar="N", help="take this run. Default: the one that is most like the others"
    )
    parser.add_argument(
        "--calls",
        choices=("run", "common"),
        help="expect the calls of one run, or only those that all runs made. Default: common if match_type is IN_ORDER "
        "or ANY_ORDER and there are several runs, else run",
    )
    parser.add_argument("--no-rescore", action="store_true", help="do not score the runs with the new expectations")


def add_edit(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `agent-eval edit`."""
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
        ("--drop-intermediate", "TURN.N", "remove an expected response before the answer of a turn"),
    ):
        parser.add_argument(flag, action="append", default=[], metavar=place, help=text)
    parser.add_argument("--rename", metavar="EVAL_ID", help="another id for the case")
    parser.add_argument("--delete", action="store_true", help="remove the case")
    parser.add_argument("--dry-run", action="store_true", help="print the change as a unified diff, and write nothing")


def _run_number(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError("must be the number of a run, from 1")
    return int(text)
