"""The command line and the action: reads the environment, makes the context, turns outcomes into exit codes."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import errno
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import EllipsisType

from agent_eval import __version__
from agent_eval.calibration.arguments import add_arguments
from agent_eval.core.problem import Problem, has_error
from agent_eval.core.text import harmless
from agent_eval.gate.policy import Policy
from agent_eval.settings import BY_INPUT, GROUPS, SETTINGS, Setting, Settings, read_settings

_FINDING = ("include", "exclude", "config", "initial-session")
_CHOOSING = (*_FINDING, "agent")
_JUDGING = ("judge-model", "judge-base-url", "judge", "judge-cache", "max-judge-calls", "max-tokens", "max-cost")
_CALIBRATING = ("config", *_JUDGING, "run-timeout", "num-runs")
INTERNAL_ERROR = 70
"""sysexits.h, EX_SOFTWARE: a bug of ours is none of the four verdicts."""

_EXAMPLES = """\
examples:
  agent-eval run
      every eval file of the repository, each with the agent nearest to it
  agent-eval run evals/weather.test.json:rain --agent agents/weather --num-runs 3
      one case, three times, with an agent that is named
  agent-eval run --baseline rerun --base-ref origin/main
      compare with main, whose agent runs again: fails for regressions only
"""

_WHAT_TO_DO = {
    errno.ENOSPC: ". Free space there, or name another --output-dir or --cache-dir.",
    errno.EDQUOT: ". Free space there, or name another --output-dir or --cache-dir.",
    errno.EROFS: ". Name an --output-dir, and a --cache-dir, that can be written.",
    errno.EAGAIN: ". The machine, or this container (--pids-limit), has no process ids left: raise the limit, or lower"
    " --concurrency and --workers.",
    errno.EMFILE: ". Raise the limit of open files (ulimit -n), or lower --concurrency.",
}
"""Behind what the system says of an error."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Returns:
        0 passed, 1 a criterion failed, 2 invalid files or settings, 3 inconclusive; 70 for a bug of ours.
    """
    open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # A C locale must not make us fail on an agent's words.
            stream.reconfigure(encoding="utf-8", errors="replace")
    parser, commands = _parser()
    typed = list(sys.argv[1:] if arguments is None else arguments)
    if not typed or (typed[0] not in commands and typed[0] not in {"-h", "--help", "--version"}):
        parser.error(_unknown_command(typed[0] if typed else "", commands))
    given, rest = parser.parse_known_args(typed)
    if rest and (not hasattr(given, "paths") or any(word.startswith("-") for word in rest)):
        commands[typed[0]].error(_unrecognized(rest, typed[0], commands))
    elif rest:  # Paths behind a flag that stands behind paths: argparse takes only the first group.
        given.paths += rest
    try:
        code = int(given.command(given))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _close_stdout()
        return 141  # as a shell tells SIGPIPE
    except OSError as error:
        _say(f"agent-eval: {error}{_what_to_do(error)}")
        return 2
    except Exception as error:
        if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
            _say(f"agent-eval: {error}{_WHAT_TO_DO[errno.EAGAIN]}")
            return 2
        import traceback

        _say(traceback.format_exc())
        _say("agent-eval: this is a bug of agent-eval, not a verdict. Please report it with the lines above.")
        return INTERNAL_ERROR


def _what_to_do(error: OSError) -> str:
    if isinstance(error, PermissionError) and error.filename is not None and hasattr(os, "geteuid"):
        from agent_eval.results import why_unwritable

        whose = why_unwritable(Path(os.path.abspath(os.fsdecode(error.filename))))  # noqa: PTH100
        return f". {whose} Name another --output-dir or --cache-dir, or give that user the permission."
    return _WHAT_TO_DO.get(error.errno or 0, "")


def open_missing_streams() -> None:
    """Opens /dev/null in the place of standard streams that are closed (`>&-`).

    Python has no stream to print to then, and the first file that we open would take the number and get what others
    print.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    # Text files, for the whole of the process.
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def _unknown_command(word: str, commands: Mapping[str, argparse.ArgumentParser]) -> str:
    listed = f"The commands are {', '.join(commands)}."
    if not word or word.startswith("-"):
        return f"a command must come first. {listed}"
    if Path(word.partition(":")[0]).exists():
        return f"`{word}` is a path, not a command. Did you mean `agent-eval run {word}`?"
    near = ["run"] if word in {"eval", "evaluate", "test"} else difflib.get_close_matches(word, commands, n=1)
    return f"there is no command `{word}`. " + (f"Did you mean `{near[0]}`?" if near else listed)


def _unrecognized(rest: Sequence[str], command: str, commands: Mapping[str, argparse.ArgumentParser]) -> str:
    """What is wrong with arguments that a command doesn't know, and what may have been meant."""
    word = next((one for one in rest if one.startswith("-")), None)
    if word is None:
        return f"`{command}` takes no argument {' '.join(rest)}"
    flag = word.partition("=")[0]
    setting = BY_INPUT.get(flag.removeprefix("--"))
    if setting is not None and setting.secret is not None:
        return (
            f"{flag} can't be a flag, since other users of a machine can read flags. Set the variable {setting.secret}"
        )
    message = f"`{command}` has no flag {flag}"
    if near := difflib.get_close_matches(flag, commands[command]._option_string_actions, n=1):
        return f"{message}. Did you mean {near[0]}?"
    others = [f"`{name}`" for name, parser in commands.items() if flag in parser._option_string_actions]
    return f"{message}. It is a flag of {', '.join(others)}." if others else message


def _parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser of everything, and those of the commands by name."""
    parser = argparse.ArgumentParser(
        prog="agent-eval",
        description="Runs Google ADK eval files against an agent and turns the scores into one verdict.",
        epilog="Exit codes: 0 passed, 1 failed, 2 invalid files or settings, 3 inconclusive.",
    )
    parser.add_argument("--version", action="version", version=f"agent-eval {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    run = commands.add_parser(
        "run",
        allow_abbrev=False,
        help="run the agents on the eval files and judge them",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_settings(run, [setting for setting in SETTINGS if setting.input != "paths"])
    run.set_defaults(command=_run)

    validate = commands.add_parser(
        "validate", allow_abbrev=False, help="check eval files and configs; needs no agent and no key"
    )
    _add_settings(validate, [BY_INPUT[name] for name in _FINDING])
    validate.add_argument("--format", choices=("text", "json", "github"), default="text", help="default: text")
    validate.set_defaults(command=_validate)

    agents = commands.add_parser(
        "agents", allow_abbrev=False, help="tell which agent every eval file would get, and why"
    )
    _add_settings(agents, [BY_INPUT[name] for name in _CHOOSING])
    agents.set_defaults(command=_agents)

    plan = commands.add_parser(
        "plan", allow_abbrev=False, help="tell what a run would ask and cost; needs no key and calls nothing"
    )
    _add_settings(plan, [setting for setting in SETTINGS if setting.input != "paths"])
    plan.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    plan.set_defaults(command=_plan)

    calibrate = commands.add_parser(
        "calibrate", allow_abbrev=False, help="tell how far a judge agrees with people, or suggest thresholds"
    )
    add_arguments(calibrate)
    _add_settings(calibrate, [BY_INPUT[name] for name in _CALIBRATING], paths=False)
    calibrate.set_defaults(command=_calibrate)

    flaky = commands.add_parser(
        "flaky", allow_abbrev=False, help="tell which cases pass and fail by chance, and how to quarantine them"
    )
    flaky.add_argument(
        "results", nargs="+", type=Path, metavar="RESULTS", help="results.json files of the base branch, or directories"
    )
    flaky.add_argument("--format", choices=("toml", "json"), default="toml", help="default: toml, for agent-eval.toml")
    flaky.add_argument("--owner", default="", metavar="NAME", help="who will mend the cases")
    flaky.add_argument("--days", type=_natural, default=30, metavar="N", help="how long they wait. Default: 30")
    flaky.set_defaults(command=_flaky)

    compare = commands.add_parser("compare", allow_abbrev=False, help="tell what changed between two results.json")
    one = "results.json of a run, or its output directory"
    compare.add_argument("head", type=Path, metavar="HEAD", help=one)
    compare.add_argument("base", type=Path, metavar="BASE", help=f"what it is compared with: {one}")
    compare.add_argument("--format", choices=("text", "markdown", "json"), default="text", help="default: text")
    compare.add_argument(
        "--source-url", type=_web_address, metavar="URL", help="where HEAD's files can be browsed, for links"
    )
    compare.set_defaults(command=_compare)

    show = commands.add_parser(
        "show", allow_abbrev=False, help="show what the agent did in a case: calls, answers, scores, judges' votes"
    )
    show.add_argument(
        "words",
        nargs="*",
        metavar="RESULTS CASE",
        help="the output directory of a run or its results.json (default: agent-eval-results), then the cases as `run` "
        "takes them: eval id, FILE:EVAL_ID, FILE, or a glob of ids. Without one: those that did not pass",
    )
    show.add_argument("--run", type=_natural, metavar="N", help="which run, from 1. Default: the first that failed")
    show.set_defaults(command=_show_cases)

    migrate = commands.add_parser(
        "migrate", allow_abbrev=False, help="write an eval file of an older format in the present one"
    )
    migrate.add_argument("old", type=Path, metavar="OLD")
    migrate.add_argument("new", type=Path, metavar="NEW")
    migrate.add_argument("--initial-session", type=Path, metavar="FILE", help=BY_INPUT["initial-session"].help)
    migrate.set_defaults(command=_migrate)

    action = commands.add_parser("action", help="run as the GitHub action does, from INPUT_* variables")
    action.set_defaults(command=_action)
    for name in ("run", "plan", "validate", "agents"):
        commands.choices[name].usage = f"agent-eval {name} [options] [PATH ...]     (options: agent-eval {name} --help)"
    return parser, commands.choices


def _add_settings(parser: argparse.ArgumentParser, settings: Sequence[Setting], *, paths: bool = True) -> None:
    if paths:
        parser.add_argument("paths", nargs="*", metavar="PATH", help=BY_INPUT["paths"].help)
    for name in GROUPS:
        if members := [setting for setting in settings if setting.group == name and setting.secret is None]:
            group = parser.add_argument_group(name)
            for setting in members:
                _add_setting(group, setting)


def _add_setting(group: argparse._ArgumentGroup, setting: Setting) -> None:
    if setting.input == "config":  # As `adk eval` calls them.
        group.add_argument("--config_file_path", dest=setting.field, help=argparse.SUPPRESS)
    elif setting.input == "details":
        group.add_argument(
            "--print_detailed_results", action="store_const", const="all", dest=setting.field, help=argparse.SUPPRESS
        )
    default = f" Default: {setting.default}." if setting.default and not setting.is_switch else ""
    text = setting.help.replace("%", "%%") + default
    flag = f"--{setting.input}"
    metavar = f"{{{','.join(setting.choices)}}}" if setting.choices else setting.metavar
    if setting.is_switch:
        group.add_argument(flag, action="store_const", const="true", dest=setting.field, help=text)
    elif setting.metavar == "PATTERN":
        group.add_argument(flag, action="append", dest=setting.field, metavar=metavar, help=text)
    else:
        group.add_argument(flag, dest=setting.field, metavar=metavar, help=text)


def _settings(
    given: argparse.Namespace, environ: Mapping[str, str] | None = None, *, text: str | EllipsisType | None = ...
) -> tuple[Settings, list[Problem]]:
    flags = {
        setting.input: value
        for setting in SETTINGS
        if (value := getattr(given, setting.field, None)) is not None and value != []
    }
    return read_settings(Path.cwd(), flags=flags, environ=environ, secrets=os.environ, text=text)


def _run(given: argparse.Namespace) -> int:
    _say_where()
    return _gate(given, None)


def _say_where() -> None:
    """Says what paths are relative to where that is not the root of the git repository."""
    from agent_eval.evalset.paths import repository_of

    here = Path.cwd()
    top = repository_of(here)
    if top is not None and top != here:
        _say(
            f"agent-eval: started in {here.relative_to(top).as_posix()}/ of the repository {top}. Eval files, agents "
            "and agent-eval.toml are looked for there, and paths are relative to it."
        )


def _action(given: argparse.Namespace) -> int:
    return _gate(given, os.environ)


def _gate(given: argparse.Namespace, environ: Mapping[str, str] | None) -> int:
    if not hasattr(os, "geteuid"):
        _say("agent-eval: `run` needs Linux or macOS. On Windows, use WSL or the container image (README.md, Systems);")
        _say("`validate`, `agents`, `plan`, `compare` and `flaky` work here.")
        return 2
    from agent_eval.commands.run import World, gate

    def read(text: str | EllipsisType | None = ...) -> tuple[Settings, list[Problem]]:
        return _settings(given, environ, text=text)

    on_terminal = sys.stdout.isatty()
    world = World(
        environ=os.environ,
        say=_say,
        show=_show,
        terminal_width=os.get_terminal_size().columns if on_terminal else None,
        watched=sys.stderr.isatty(),
    )
    return gate(read, world)


def _say(line: str) -> None:
    """Tells what is going on. Whatever an agent or an installer had to say in it, nobody obeys it."""
    # Who reads our log may have gone; the verdict does not depend on being watched.
    with contextlib.suppress(OSError):
        print(harmless(line), file=sys.stderr, flush=True)


def _show(text: str) -> None:
    """Prints the result. If it can't be printed (a closed pipe, a full disk) the files still say everything, and the
    verdict stands.
    """
    try:
        print(text, flush=True)
    except OSError as error:
        _close_stdout()
        if not isinstance(error, BrokenPipeError):
            _say(f"agent-eval: the result could not be printed: {error}")


def _close_stdout() -> None:
    """Nothing is left to tell, not even what is still buffered when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _validate(given: argparse.Namespace) -> int:
    from agent_eval.commands.problems_text import summary_line

    _say_where()
    settings, problems = _settings(given)
    if has_error(problems):
        _list(problems, given.format)
        return 2
    from agent_eval.pipeline import load, misnamed_models, policy_problems

    suite = load(settings)
    found = misnamed_models(suite.files, settings, os.environ)
    if settings.policy != Policy():
        found += policy_problems(settings, suite)
    suite = dataclasses.replace(suite, problems=(*suite.problems, *found))
    _list(suite.problems, given.format)
    if given.format == "text":
        print(summary_line(suite))
    elif given.format == "github":
        _say(summary_line(suite))
    return 2 if suite.errors else 0


def _list(problems: Sequence[Problem], format: str = "text") -> None:
    from agent_eval.commands import problems_text as render

    if format == "json":
        print(render.render_json(problems), end="")
    elif format == "github":
        print(render.render_github(problems), end="")
    elif problems:
        print(render.render_text(problems))


def _agents(given: argparse.Namespace) -> int:
    _say_where()
    settings, problems = _settings(given)
    if has_error(problems):
        _list(problems)
        return 2
    from agent_eval.agents.discovery import render_choices
    from agent_eval.pipeline import find

    suite, choices = find(settings)
    _list(suite.errors)
    print(render_choices(choices), end="")
    return 2 if suite.errors or has_error(choices.problems) else 0


def _plan(given: argparse.Namespace) -> int:
    _say_where()
    settings, problems = _settings(given)
    if has_error(problems):
        _list(problems)
        return 2
    from agent_eval.commands.plan import make_report
    from agent_eval.commands.plan import render_text as render_plan
    from agent_eval.commands.problems_text import render_text
    from agent_eval.pipeline import find, policy_problems

    suite, choices = find(settings)
    report, found = make_report(settings, os.environ, suite, choices)
    found += policy_problems(settings, suite)
    if told := render_text([*problems, *found]):
        _say(told.rstrip())
    if has_error(found):
        return 2
    print(report.model_dump_json(indent=2) if given.format == "json" else render_plan(report).rstrip())
    return 0


def _calibrate(given: argparse.Namespace) -> int:
    settings, problems = _settings(given)
    if has_error(problems):
        _list(problems)
        return 2
    from agent_eval.calibration.command import execute
    from agent_eval.commands.problems_text import render_text

    code, text, found = execute(given, settings, os.environ, _say)
    if told := render_text([*problems, *found]):
        _say(told.rstrip())
    if text:
        _show(text.rstrip("\n"))
    return code


def _natural(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 3650:
        raise argparse.ArgumentTypeError("must be a whole number from 1 to 3650")
    return int(text)


def _web_address(value: str) -> str:
    from urllib.parse import urlsplit

    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise argparse.ArgumentTypeError(f"{value!r} is not a web address")
    return value


def _compare(given: argparse.Namespace) -> int:
    from agent_eval.baseline import UnreadableError
    from agent_eval.commands.compare import compare_files, render

    try:
        report = compare_files(given.head, given.base)
    except UnreadableError as error:
        _say(f"agent-eval: {error}")
        return 2
    width = min(os.get_terminal_size().columns, 160) if sys.stdout.isatty() else 110
    _show(render(report, given.format, source_url=given.source_url, width=width).rstrip())
    return 0


def _show_cases(given: argparse.Namespace) -> int:
    from agent_eval.baseline import UnreadableError
    from agent_eval.commands.show import read_request, show

    root = Path.cwd()
    on_terminal = sys.stdout.isatty()
    width = min(os.get_terminal_size().columns, 160) if on_terminal else 110
    color = on_terminal and "NO_COLOR" not in os.environ
    try:
        text = show(read_request(given.words, root), root, run=given.run, width=width, color=color)
    except UnreadableError as error:
        _say(f"agent-eval: {error}")
        return 2
    _show(text.rstrip())
    return 0


def _flaky(given: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from agent_eval.baseline import UnreadableError
    from agent_eval.commands.flaky import find_flaky, read_results, render_toml

    try:
        report = find_flaky(read_results(given.results))
    except UnreadableError as error:
        _say(f"agent-eval: {error}")
        return 2
    today = datetime.now(UTC).date()
    toml = given.format == "toml"
    told = (
        render_toml(report, today=today, owner=given.owner, days=given.days)
        if toml
        else report.model_dump_json(indent=2)
    )
    print(told.rstrip())
    return 0


def _migrate(given: argparse.Namespace) -> int:
    from agent_eval.commands.migrate import migrate

    problems = migrate(given.old, given.new, initial_session=given.initial_session, root=Path.cwd())
    _list(problems)
    if has_error(problems):
        return 2
    print(f"Wrote {given.new}")
    return 0
