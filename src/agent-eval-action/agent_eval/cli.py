"""The command line: arguments, help, streams and exit codes. The commands are modules of `commands/`."""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from agent_eval import __version__
from agent_eval.commands import CliIO
from agent_eval.commands.arguments import add_compare, add_settings, add_show, add_view, seconds
from agent_eval.settings import BY_INPUT, FORMER, SETTINGS
from agent_eval_scoring.core.streams import open_missing_streams
from agent_eval_scoring.core.text import harmless

_FILES = ("exclude", "config")
_NOT_OF_PLAN = {"paths", "shard", "shard-plan"}
_NOT_OF_MERGE = {"paths", "shard", "mode", "fail-fast", "resume"}
INTERNAL_ERROR = 70
"""EX_SOFTWARE of sysexits.h. A bug of agent-eval must differ from the four verdicts."""

_EXAMPLES = """\
examples:
  agent-eval run
      all eval files below the current directory, each with the nearest agent
  agent-eval run evals/weather.test.json:rain --agent agents/weather --num-runs 3
      one case, three times, with the given agent
  agent-eval run --baseline rerun --base-ref origin/main
      compare with main by running its agent, too; fails only for regressions
"""

COMMANDS: Mapping[str, Mapping[str, str]] = {
    "start": {
        "init": "set up evals for the agents in this repository",
        "record": "make an eval case from a conversation, live or stored",
        "run": "run eval cases, score the answers and give a verdict",
        "show": "show what the agent did in a case, turn by turn",
        "accept": "accept what the agent did as the new expectation",
        "view": "open the report of a run in the browser",
    },
    "CI": {
        "validate": "check eval files and settings; --plan also shows agents, calls and cost",
        "compare": "show what differs between two runs",
        "merge": "combine the parts of a sharded run into one verdict",
        "flaky": "find flaky cases and propose quarantine entries",
    },
    "files": {
        "edit": "change one eval case",
        "migrate": "convert eval files in older formats, and conformance tests of ADK",
        "tapes": "list recorded answers; remove unused ones",
    },
    "more": {
        "mutate": "show which mistakes the criteria of stored runs would miss",
        "calibrate": "measure how well a judge agrees with people",
        "export": "export results to other tools",
    },
}
"""The commands that `--help` lists, with their help."""
_HELP = {name: text for group in COMMANDS.values() for name, text in group.items()}
_WORKBENCH = {"calibrate", "flaky", "accept", "edit", "export", "migrate", "mutate", "init", "record"}
"""The commands of `agent_eval_workbench`, which is imported when one of them is called."""
_EVAL_FILES = {"accept", "edit", "init", "mutate", "record"}
"""Commands that write into the repository, and not into an output directory."""
_ERROR_HINTS = {
    errno.ENOSPC: ". Free space there, or set another --output-dir or --cache-dir.",
    errno.EDQUOT: ". Free space there, or set another --output-dir or --cache-dir.",
    errno.EROFS: ". Set a writable --output-dir and --cache-dir.",
    errno.EAGAIN: ". The machine or the container (--pids-limit) has no process ids left. Raise the limit, or lower"
    " --concurrency and --workers.",
    errno.EMFILE: ". Raise the limit on open files (ulimit -n), or lower --concurrency.",
}
"""Appended to the message of the operating system, by errno."""
_FEATURES = "Set the variable ADK_{}_NAME=1: variables that begin with ADK_ reach the agent"
_OF_OTHER_TOOLS = {
    # adk eval
    "--eval_storage_uri": "Only local files are read and written: download the eval sets first",
    "--enable_features": _FEATURES.format("ENABLE"),
    "--disable_features": _FEATURES.format("DISABLE"),
    "--log_level": "What the agent logs is in `logs/` of the output directory",
    # pytest, and others
    "--parallel": "Use --concurrency N",
    "--jobs": "Use --concurrency N",
    "--repeat": "Use --num-runs N",
    "--model": "The agent's model is set in its code; that of judges is --judge-model",
    "-n": "Use --num-runs N for the runs of each case, or --concurrency N for how many are run at once",
    # veadk
    "--agent-dir": "Use --agent DIRECTORY",
    "--agent-a2a-url": "Use --agent a2a:URL",
    "--evaluator": "The criteria of test_config.json choose the metrics, DeepEval's too",
    "--evalset-file": "Give the files without a flag",
    "--volcengine-access-key": "Set the judge's key as a variable, e.g. AGENT_EVAL_JUDGE_API_KEY",
    "--volcengine-secret-key": "Set the judge's key as a variable, e.g. AGENT_EVAL_JUDGE_API_KEY",
}
"""What to do instead of a flag of `adk eval` or `veadk` that no command has."""


class _Parser(argparse.ArgumentParser):
    """A parser that knows a command of the workbench by name, and asks for its arguments when it parses."""

    workbench_command = ""

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        """As in argparse."""
        self.complete()
        return super().parse_known_args(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Prints what the command needs on one line, and what is wrong."""
        required = [action for action in self._actions if action.required and action.option_strings]
        if (value := re.match(r"argument (--[\w-]+): expected one argument", message)) is not None:
            action = self._option_string_actions[value[1]]
            name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
            message = f"{value[1]} needs a value: `{value[1]} {name}`"
        if (value := re.match(r"argument (--[\w-]+): expected \d arguments", message)) is not None:
            names = self._option_string_actions[value[1]].metavar or ()
            message = f"{value[1]} takes {' and '.join(names)}: `{' '.join((value[1], *names))}`"
        if (value := re.match(r"argument (--[\w-]+): ignored explicit argument (.+)", message)) is not None:
            is_off = value[2].strip("'").lower() in ("false", "no", "off", "0")
            todo = "leave it out" if is_off else f"write `{value[1]}`"
            message = f"{value[1]} takes no value, not {value[2]}: {todo}"
        if (value := re.match(r"argument (--[\w-]+): invalid int value: (.+)", message)) is not None:
            message = f"{value[1]} must be a whole number, not {value[2]}"
        if formats := next(
            (action for action in self._actions if isinstance(action, argparse._SubParsersAction)), None
        ):
            message = message.replace("required: FORMAT", f"required: FORMAT, one of {', '.join(formats.choices)}")
        if required or (self.usage is None and self.format_usage().count("\n") > 2):
            words = [f"{action.option_strings[-1]} {action.metavar}" for action in required]
            words += [_as_typed(action) for action in self._actions if not action.option_strings]
            self.usage = f"{self.prog} {' '.join(words)} [options]     (options: {self.prog} --help)"
        super().error(message)

    def complete(self) -> None:
        """Adds the arguments of the workbench's command, once."""
        if name := self.workbench_command:
            self.workbench_command = ""
            importlib.import_module("agent_eval_workbench.commands.arguments").add_arguments(name, self)


def _as_typed(action: argparse.Action) -> str:
    """An argument without a flag, in brackets if it can be left out."""
    metavar = action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar or ())
    more = " ..." if action.nargs in ("*", "+") and "..." not in metavar else ""
    return f"[{metavar}{more}]" if action.nargs in ("*", "?") and "[" not in metavar else f"{metavar}{more}"


class _MainParser(_Parser):
    """The parser of `agent-eval`, whose help lists the commands by purpose."""

    def format_help(self) -> str:
        """As in argparse, with groups of commands, for which it has no place."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        lines = [formatter.format_help()]
        for title, commands in COMMANDS.items():
            lines += [f"{title}:", *(f"  {name:<11}{text}" for name, text in commands.items()), ""]
        return "\n".join([*lines, f"{self.epilog}\n"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Returns:
        The exit code: 0 passed, 1 failed, 2 invalid files or settings, 3 inconclusive, 70 for a bug of agent-eval.
    """
    prepare_streams()
    parser, commands = _parser()
    typed = list(sys.argv[1:] if arguments is None else arguments)
    if not typed or (typed[0] not in commands and typed[0] not in {"-h", "--help", "--version"}):
        parser.error(_unknown_command(typed[0] if typed else "", commands))
    parsed, rest = parser.parse_known_args(typed)
    words = next((getattr(parsed, name) for name in ("paths", "words", "directories") if hasattr(parsed, name)), None)
    if rest and (words is None or any(word.startswith("-") for word in rest)):
        for parser in commands.values():
            parser.complete()
        parsers = {**commands, **_formats(commands["export"])}
        command = next(name for name in (" ".join(typed[:2]), typed[0]) if name in parsers)
        parsers[command].error(_unrecognized(rest, command, parsers))
    elif rest and words is not None:  # argparse accepts only the first group of paths: `PATH --flag PATH` has two.
        words += rest
    return run_command(parsed.module, parsed)


def run_command(module: str, arguments: argparse.Namespace) -> int:
    """Runs a command and maps its errors to exit codes.

    Args:
        module: Name of its module in `commands/`, here or in the workbench.
        arguments: As the module expects them.

    Returns:
        The exit code; see `main`.
    """
    try:
        # Imported here, because `--help` must not wait for it.
        package = "agent_eval_workbench" if module in _WORKBENCH else "agent_eval"
        code = int(importlib.import_module(f"{package}.commands.{module}").execute(arguments, _cli_io()))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _close_stdout()
        return 141  # as a shell reports SIGPIPE
    except OSError as error:
        _log(f"agent-eval: {error}{_hint(error, module)}")
        return 2
    except Exception as error:
        if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
            _log(f"agent-eval: {error}{_ERROR_HINTS[errno.EAGAIN]}")
            return 2
        if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop from "):  # Python 3.11 and 3.12
            _log(f"agent-eval: {error}: the symbolic link leads to itself. Remove it, or name another path.")
            return 2
        import traceback

        _log(traceback.format_exc())
        _log("agent-eval: this is a bug in agent-eval, not a verdict. Please report it with the lines above.")
        return INTERNAL_ERROR


def prepare_streams() -> None:
    """Makes the standard streams usable for any text, even if they are closed."""
    open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # An agent's text must not fail in a C locale.
            stream.reconfigure(encoding="utf-8", errors="replace")


def _hint(error: OSError, module: str) -> str:
    if isinstance(error, PermissionError) and error.filename is not None and hasattr(os, "geteuid"):
        from agent_eval_results import why_unwritable

        reason = why_unwritable(Path(os.path.abspath(os.fsdecode(error.filename))))  # noqa: PTH100
        other = "G" if module in _EVAL_FILES else "Name another --output-dir or --cache-dir, or g"
        return f". {reason} {other}ive that user the permission."
    if module in _EVAL_FILES and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS}:
        return ""
    return _ERROR_HINTS.get(error.errno or 0, "")


def _unknown_command(word: str, commands: Mapping[str, _Parser]) -> str:
    listed = f"The commands are {', '.join(_HELP)}."
    if word.strip("-").lower() in {"v", "version"}:
        return f"there is no command `{word}`. Did you mean `agent-eval --version`?"
    if not word or word.startswith("-"):
        return f"a command must come first. {listed}"
    if Path(word.partition(":")[0]).exists():
        return f"`{word}` is a path, not a command. Did you mean `agent-eval run {word}`?"
    if word in ("publish", "link"):
        return f"there is no command `{word}`. It is `mode: {word}` of the action"
    import difflib  # Only mistakes need it.

    near = ["run"] if word in {"eval", "evaluate", "test"} else difflib.get_close_matches(word, commands, n=1)
    return f"there is no command `{word}`. " + (f"Did you mean `{near[0]}`?" if near else listed)


def _formats(export: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """The parsers of `export FORMAT`, by `export FORMAT`."""
    (formats,) = (action for action in export._actions if isinstance(action, argparse._SubParsersAction))
    return {f"export {name}": parser for name, parser in formats.choices.items()}


def _unrecognized(rest: Sequence[str], command: str, parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    """The error message for unknown arguments of a command."""
    word = next((argument for argument in rest if argument.startswith("-")), None)
    if word is None:
        return f"`{command}` takes no argument {' '.join(rest)}"
    flag = word.partition("=")[0]
    setting = BY_INPUT.get(flag.removeprefix("--"))
    if setting is not None and setting.secret is not None:
        return (
            f"{flag} is not a flag, because other users of the machine could read it. Set the variable {setting.secret}"
        )
    message = f"`{command}` has no flag {flag}"
    if other := _OF_OTHER_TOOLS.get(flag):
        return f"{message}. {other}"
    if former := FORMER.get(flag.removeprefix("--")):
        return f"{message}. Use {former}"
    known = [name for name in parsers[command]._option_string_actions if name not in {"--help", "--help-all"}]
    others = [f"`{name}`" for name, parser in parsers.items() if flag in parser._option_string_actions]
    import difflib

    if near := difflib.get_close_matches(flag, known, n=1, cutoff=0.85 if others else 0.6):
        return f"{message}. Did you mean {near[0]}?"
    everything = "--help-all" if command == "run" else "--help"
    more = f"It is a flag of {', '.join(others)}" if others else f"All flags: agent-eval {command} {everything}"
    return f"{message}. {more}."


def _parser(*, everything: bool = False) -> tuple[_Parser, Mapping[str, _Parser]]:
    """The main parser, and the parsers of the commands by name.

    Args:
        everything: Whether the help of commands shows the settings that few need, too.
    """
    parser = _MainParser(
        prog="agent-eval",
        description="Runs Google ADK eval files against an agent and reports a single verdict.",
        epilog="Exit codes: 0 passed, 1 failed, 2 invalid files or settings, 3 inconclusive, 70 a bug of agent-eval.",
    )
    parser.add_argument("--version", action="version", version=f"agent-eval {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)

    def add(name: str, **options: Any) -> _Parser:
        command = commands.add_parser(name, allow_abbrev=False, description=_sentence(_HELP[name]), **options)
        command.set_defaults(module=name)
        return command

    for name in _HELP:
        if name in _WORKBENCH:
            add(name).workbench_command = name
    _add_run(add("run", epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter), everything=everything)
    _add_validate(add("validate"), everything=everything)
    _add_merge(add("merge"), everything=everything)
    tapes = add("tapes")
    add_settings(tapes, [BY_INPUT[name] for name in _FILES])
    tapes.add_argument("--show", action="store_true", help="list the calls of each tape with their answers")
    tapes.add_argument(
        "--diff", nargs="?", const="HEAD", metavar="REF", help="list calls and scores that differ from REF's (HEAD)"
    )
    tapes.add_argument("--prune", action="store_true", help="remove tapes that belong to no case")
    compared = "Exit codes: 0 the results were compared, whatever differs; 2 one of them can't be used."
    add_compare(add("compare", epilog=compared))
    add_show(add("show"))
    add_view(add("view"))
    commands.add_parser("action").set_defaults(module="run", from_inputs=True)
    for name in ("run", "validate", "tapes"):
        commands.choices[name].usage = f"agent-eval {name} [options] [PATH ...]     (options: agent-eval {name} --help)"
    return parser, commands.choices


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


class _HelpAll(argparse.Action):
    """`--help-all`: the help of the command with all settings."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "nargs": 0, "default": argparse.SUPPRESS})

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        _parser(everything=True)[1][parser.prog.split()[-1]].print_help()
        parser.exit()


def _add_run(run: _Parser, *, everything: bool) -> None:
    add_settings(run, [setting for setting in SETTINGS if setting.input != "paths"], everything=everything)
    run.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="also print every case, as `agent-eval show` does; -vv also what is decided meanwhile, and why",
    )
    run.add_argument("--print_detailed_results", action="store_const", const=1, dest="verbose", help=argparse.SUPPRESS)
    run.add_argument(
        "--threshold",
        action="append",
        default=[],
        type=_threshold,
        metavar="NAME=VALUE",
        help="try another threshold for a metric, on your machine only",
    )
    run.add_argument("--yes", action="store_true", help="record tapes (`--record`) also in CI")
    run.add_argument("--help-all", action=_HelpAll, help="show all settings")
    run.set_defaults(from_inputs=False)


def _add_validate(validate: _Parser, *, everything: bool) -> None:
    settings = [setting for setting in SETTINGS if setting.input not in _NOT_OF_PLAN]
    add_settings(validate, settings, everything=everything)
    validate.add_argument("--help-all", action=_HelpAll, help="show all settings")
    validate.add_argument("--format", choices=("text", "json", "github"), default="text", help="default: text")
    validate.add_argument(
        "--plan",
        action="store_true",
        help="also show the agent of each eval file, the calls of a run with these settings and their estimated cost; "
        "needs no key and calls nothing",
    )
    plan = validate.add_argument_group("with --plan")
    plan.add_argument(
        "--shards", type=_parts, metavar="N|auto", help="split the cases into N parts, for `run --shard I/N`"
    )
    plan.add_argument(
        "--shard-seconds",
        type=seconds,
        default=300,
        metavar="SECONDS",
        help="with --shards auto, how long a part should take. Default: 300",
    )
    plan.add_argument(
        "--durations",
        nargs="+",
        type=Path,
        default=[],
        metavar="RESULTS",
        help="results.json files of earlier runs, or directories: balance the parts by recorded durations",
    )


def _add_merge(merge: _Parser, *, everything: bool) -> None:
    merge.add_argument(
        "directories",
        nargs="*",
        metavar="DIR",
        help="the directories with the results of the parts, which are searched two levels deep. Default: shards",
    )
    merge.add_argument(
        "--paths", action="extend", nargs="+", metavar="PATH", help="the PATHs that the parts ran with, if any"
    )
    merge.add_argument(
        "--run-missing",
        action="store_true",
        help="run the cases of parts without results here, instead of reporting them as not run",
    )
    settings = [setting for setting in SETTINGS if setting.input not in _NOT_OF_MERGE]
    add_settings(merge, settings, paths=False, everything=everything)
    merge.add_argument("--help-all", action=_HelpAll, help="show all settings")
    merge.usage = "agent-eval merge [options] [DIR ...]     (options: agent-eval merge --help)"


def _cli_io() -> CliIO:
    return CliIO(
        environ=os.environ,
        log=_log,
        print_result=_print_result,
        terminal_width=os.get_terminal_size().columns if sys.stdout.isatty() else None,
        interactive=sys.stderr.isatty(),
    )


def _log(line: str) -> None:
    """Prints a line to stderr, with terminal sequences and workflow commands of agents or installers neutralised."""
    # The reader of the log may be gone. The verdict does not depend on it.
    with contextlib.suppress(OSError):
        print(harmless(line), file=sys.stderr, flush=True)


def _print_result(text: str) -> None:
    """Prints to stdout. A closed pipe or a full disk doesn't change the exit code; the files contain the result."""
    try:
        print(text, flush=True)
    except OSError as error:
        _close_stdout()
        if not isinstance(error, BrokenPipeError):
            _log(f"agent-eval: the result could not be printed: {error}")


def _close_stdout() -> None:
    """Redirects stdout to /dev/null, so that the interpreter can flush it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _threshold(text: str) -> tuple[str, float]:
    name, separator, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not (name and separator and math.isfinite(number)):
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, e.g. response_match_score=0.7, not {text!r}")
    return name, number


def _parts(text: str) -> str:
    if text != "auto" and (not text.isdecimal() or not 1 <= int(text) <= 256):
        raise argparse.ArgumentTypeError("must be auto, or a whole number from 1 to 256")
    return text
