"""Arguments of commands: the settings, and those of compare, show and view."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent_eval.settings import BY_INPUT, GROUPS, Setting

_LISTS = ("NAMES", "WORDS", "SOURCE")
"""Metavariables of settings whose values are separated by commas."""
_DEFAULT = BY_INPUT["output-dir"].default


def add_settings(
    parser: argparse.ArgumentParser, settings: Sequence[Setting], *, paths: bool = True, everything: bool = True
) -> None:
    """Adds settings as flags.

    Args:
        parser: The parser of a command.
        settings: The settings. Those with a secret are left out, because other users could read the command line.
        paths: Whether to add the eval files as positional arguments.
        everything: Whether the help shows all of them; otherwise those that are basic.
    """
    if paths:
        parser.add_argument("paths", nargs="*", metavar="PATH", help=BY_INPUT["paths"].help)
    basic = None if everything else parser.add_argument_group("settings that most need (all of them: --help-all)")
    for name in GROUPS:
        if members := [setting for setting in settings if setting.group == name and setting.secret is None]:
            group = basic or parser.add_argument_group(name)
            for setting in members:
                _add_setting(group, setting, is_shown=everything or setting.basic)


def _add_setting(group: argparse._ArgumentGroup, setting: Setting, *, is_shown: bool) -> None:
    if setting.input == "config":  # The flags of `adk eval`.
        group.add_argument("--config_file_path", dest=setting.field, help=argparse.SUPPRESS)
    default = f" Default: {setting.default}." if setting.default and not setting.is_switch else ""
    text = setting.help.replace("%", "%%") + default if is_shown else argparse.SUPPRESS
    flag = f"--{setting.input}"
    metavar = f"{{{','.join(setting.choices)}}}" if setting.choices else setting.metavar
    if setting.is_switch:
        group.add_argument(flag, action="store_const", const="true", dest=setting.field, help=text)
    elif setting.metavar == "PATTERN":
        group.add_argument(flag, action="append", dest=setting.field, metavar=metavar, help=text)
    else:
        action = _Joined if setting.metavar in _LISTS else "store"
        group.add_argument(flag, action=action, dest=setting.field, metavar=metavar, help=text)


class _Joined(argparse.Action):
    """A flag with a list that is separated by commas: further ones add to it."""

    def __call__(
        self, parser: object, namespace: argparse.Namespace, values: Any, option_string: object = None
    ) -> None:
        before = getattr(namespace, self.dest, None)
        setattr(namespace, self.dest, values if before is None else f"{before},{values}")


def add_compare(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `agent-eval compare`."""
    parser.usage = "agent-eval compare [options] [HEAD] BASE"
    parser.add_argument(
        "words",
        nargs="+",
        metavar="[HEAD] BASE",
        help=f"results.json or output directory of the newer run (default: {_DEFAULT}), and the same of the older run, "
        "or an .evalset_result.json of ADK",
    )
    parser.add_argument("--format", choices=("text", "markdown", "json"), default="text", help="default: text")
    parser.add_argument(
        "--source-url", type=_web_address, metavar="URL", help="address at which HEAD's files can be browsed, for links"
    )


def add_show(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `agent-eval show`."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="RESULTS CASE",
        help="the output directory of a run, its results.json, or the zip of an artifact (default: "
        f"{_DEFAULT}), then cases as for `run`: eval id, FILE:EVAL_ID, FILE, or a glob of ids. Default: the "
        "cases that did not pass",
    )
    parser.add_argument(
        "--run",
        type=natural,
        metavar="N",
        help="number of the run. Default: the first failed run, else the first with an error",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def add_view(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `agent-eval view`."""
    parser.add_argument(
        "results",
        nargs="*",
        type=Path,
        metavar="RESULTS",
        help=f"an output directory, its results.json, or an artifact's zip (default: {_DEFAULT}). Of several, "
        "the newest is shown, and the others give the trend",
    )
    parser.add_argument("--base", type=Path, metavar="RESULTS", help="another run, shown beside it as the base")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="the page. Default: agent-eval-view.html beside the results"
    )
    parser.add_argument(
        "--no-open",
        dest="open",
        action="store_false",
        help="don't open a browser; implied by CI and without a terminal",
    )
    report = BY_INPUT["report"]
    parser.add_argument(
        "--report",
        choices=[choice for choice in report.choices if choice != "off"],
        default=report.default,
        help=f"the conversations of the page, as for `run`. Default: {report.default}",
    )
    parser.add_argument(
        "--size",
        type=_megabytes,
        default=15.0,
        metavar="MB",
        help="megabytes that the page may have, from 1 to 100. What does not fit is left out, passing cases first. "
        "Default: 15",
    )


def natural(text: str, most: int = 3650) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {most}")
    return int(text)


def seconds(text: str) -> int:
    """Seconds, at most a day."""
    return natural(text, most=86_400)


def _megabytes(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 1 <= number <= 100:
        raise argparse.ArgumentTypeError("must be a number of megabytes from 1 to 100")
    return number


def _web_address(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise argparse.ArgumentTypeError(f"{value!r} is not a web address")
    return value
