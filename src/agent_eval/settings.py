"""What a user can set: one table from which flags, action inputs and agent-eval.toml keys follow.

The nearest wins: a flag, then an action input (`INPUT_*`), then agent-eval.toml, then the default. All mistakes are
told at once.
"""

from __future__ import annotations

import difflib
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agent_eval.core.problem import Problem, Severity
from agent_eval.models.prices import read_prices

CONFIG_FILE = "agent-eval.toml"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One row of the table."""

    input: str
    """Its name as an action input and as a key of agent-eval.toml; `--NAME` on the command line."""
    help: str
    """One or two sentences, the same everywhere."""
    default: str = ""
    """As one would write it; "" for none."""
    parse: Callable[[str], Any]
    """Text to value. Raises ValueError that says what is wanted."""
    metavar: str = "VALUE"
    in_file: bool = True
    """False for what agent-eval.toml must not say: on a pull request that file is the author's, and these name a
    command that runs as ourselves, variables that the agent gets, directories that we write to, and where keys go."""
    secret: str | None = None
    """The variable that gives it outside of the action. A secret is no flag: everybody on a machine can read those."""

    @property
    def field(self) -> str:
        """Its name in Settings."""
        return self.input.replace("-", "_")

    @property
    def variable(self) -> str:
        """The variable in which GitHub's runner passes the input: upper case, dashes kept."""
        return f"INPUT_{self.input.upper()}"

    @property
    def is_switch(self) -> bool:
        """A flag without a value."""
        return self.parse is _switch


def _text(value: str) -> str | None:
    return value.strip() or None


def _words(value: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise ValueError(f"a quotation mark is not closed ({error})") from error


def _variables(value: str) -> str | None:
    from agent_eval.agents.forwarding import allow_list

    allow_list(_text(value))
    return _text(value)


def _path(value: str) -> Path | None:
    return Path(value.strip()) if value.strip() else None


def _directory(value: str) -> Path:
    if not value.strip():
        raise ValueError("must name a directory")
    return Path(value.strip())


def _switch(value: str) -> bool:
    word = value.strip().lower()
    if word not in {"true", "false"}:
        raise ValueError("must be true or false")
    return word == "true"


def _count(low: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        if not re.fullmatch(r"\s*\d{1,9}\s*", value) or int(value) < low:
            raise ValueError(f"must be a whole number, at least {low}")
        return int(value)

    return parse


def _seconds(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 < number <= 1e9:
        raise ValueError("must be a number of seconds above 0")
    return number


def _dollars(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 < number <= 1e9:
        raise ValueError("must be a number of US dollars above 0")
    return number


def _optional(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda value: parse(value) if value.strip() else None


def _judge(value: str) -> str:
    if not re.fullmatch(r"live|replay:.*\S", value.strip()):
        raise ValueError("must be live or replay:DIR")
    return value.strip()


def _rate(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ValueError("must be a number from 0 to 1")
    return number


def _choice(*words: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value.strip() not in words:
            raise ValueError(f"must be {' or '.join(words)}")
        return value.strip()

    return parse


SETTINGS: tuple[Setting, ...] = (
    Setting(
        input="paths",
        help="Eval files, directories or globs, separated by blanks or lines; `file.json:case1,case2` picks cases. "
        "Default: every *.test.json and *.evalset.json of the repository.",
        parse=_words,
        metavar="PATH",
    ),
    Setting(
        input="include",
        help="Only eval files that match one of these patterns (as in .gitignore). An input separates them by blanks; "
        "the flag is repeated.",
        parse=_words,
        metavar="PATTERN",
    ),
    Setting(
        input="exclude",
        help="No files or directories that match one of these patterns (as in .gitignore). An input separates them by "
        "blanks; the flag is repeated.",
        parse=_words,
        metavar="PATTERN",
    ),
    Setting(
        input="config",
        help="A test_config.json for all files, instead of the one nearest to each.",
        parse=_path,
        metavar="FILE",
    ),
    Setting(
        input="initial-session",
        help="A JSON file with the session that older test files (lists of turns) start in.",
        parse=_path,
        metavar="FILE",
    ),
    Setting(
        input="agent",
        help="The agent of all files: a directory, a dotted module, or recorded:FILE to score what was recorded. "
        "Default: found for each file.",
        parse=_text,
        metavar="AGENT",
    ),
    Setting(
        input="agent-python",
        help="The interpreter to run the agent with, if it has an environment already. Default: uv makes one.",
        parse=_text,
        metavar="PYTHON",
    ),
    Setting(
        input="agent-requirements",
        help="The requirements.txt, pyproject.toml or uv.lock to make the agent's environment from. "
        "Default: the nearest to the agent.",
        parse=_path,
        metavar="FILE",
    ),
    Setting(
        input="agent-setup",
        help="A shell command to run first, e.g. to install system packages. It runs as ourselves, not as the agent.",
        parse=_text,
        in_file=False,
        metavar="COMMAND",
    ),
    Setting(
        input="agent-env",
        help="Names or globs of variables to pass to the agent, separated by commas; a leading + adds to the default "
        "list (model credentials and base URLs).",
        parse=_variables,
        in_file=False,
        metavar="NAMES",
    ),
    Setting(
        input="workers",
        help="Processes per agent. One serves many sessions at once; more help agents that compute.",
        default="1",
        parse=_count(1),
        metavar="N",
    ),
    Setting(input="num-runs", help="How often each case runs.", default="1", parse=_count(1), metavar="N"),
    Setting(
        input="min-pass-rate",
        help="The share of a case's runs that must pass, 0 to 1, besides its mean scores.",
        default="1.0",
        parse=_rate,
        metavar="RATE",
    ),
    Setting(
        input="concurrency",
        help="Runs in flight at once; lowered for a while when the model provider answers 429.",
        default="8",
        parse=_count(1),
        metavar="N",
    ),
    Setting(input="turn-timeout", help="Seconds a turn may take.", default="180", parse=_seconds, metavar="SECONDS"),
    Setting(
        input="case-timeout",
        help="Seconds all turns of one run of a case may take.",
        default="900",
        parse=_seconds,
        metavar="SECONDS",
    ),
    Setting(
        input="run-timeout",
        help="Seconds after which no more is run; what is missing is reported as not run.",
        default="3600",
        parse=_seconds,
        metavar="SECONDS",
    ),
    Setting(
        input="fail-fast", help="Stop at the first case that fails.", default="false", parse=_switch, metavar="BOOL"
    ),
    Setting(
        input="judge-model",
        help="The model of criteria that name none: a Gemini model, a full Vertex AI name, or provider/model. "
        "Default: gemini-2.5-flash, as in ADK.",
        parse=_text,
        metavar="MODEL",
    ),
    Setting(
        input="judge-api-key",
        help="The key for the judge's model, so that the agent needn't get it. Elsewhere the variable "
        "AGENT_EVAL_JUDGE_API_KEY. Default: the provider's own variable, e.g. GOOGLE_API_KEY.",
        parse=_text,
        in_file=False,
        secret="AGENT_EVAL_JUDGE_API_KEY",  # noqa: S106 - a variable's name
        metavar="KEY",
    ),
    Setting(
        input="judge-base-url",
        help="The address of the judge's model, for a gateway or a server of your own.",
        parse=_text,
        in_file=False,
        metavar="URL",
    ),
    Setting(
        input="judge",
        help="live, or replay:DIR to take every reply from a cache directory and fail where one is missing.",
        default="live",
        parse=_judge,
        in_file=False,
        metavar="WORD",
    ),
    Setting(
        input="judge-cache",
        help="A directory that keeps the judge's replies, so that the same question is paid for once; off for none.",
        default="off",
        parse=_text,
        in_file=False,
        metavar="DIR",
    ),
    Setting(
        input="max-judge-calls",
        help="Calls to judges and simulated users after which none is made; what is missing is not evaluated.",
        parse=_optional(_count(1)),
        metavar="N",
    ),
    Setting(
        input="max-tokens",
        help="The same for the tokens of those calls.",
        parse=_optional(_count(1)),
        metavar="N",
    ),
    Setting(
        input="max-cost",
        help="The same for what they cost in US dollars, by the price table.",
        parse=_optional(_dollars),
        metavar="USD",
    ),
    Setting(
        input="on-inconclusive",
        help="fail or pass: what the exit code says when errors kept cases from being judged.",
        default="fail",
        parse=_choice("fail", "pass"),
        metavar="WORD",
    ),
    Setting(
        input="output-dir",
        help="Where results.json, recordings.jsonl.gz, junit.xml, summary.md and logs go.",
        default="agent-eval-results",
        parse=_directory,
        in_file=False,
        metavar="DIR",
    ),
    Setting(
        input="cache-dir",
        help="Where the agents' environments are kept. Default: the user's cache; in the image /var/lib/agent-eval.",
        parse=_path,
        in_file=False,
        metavar="DIR",
    ),
    Setting(
        input="resume",
        help="Go on where a killed run with the same output-dir stopped; what is recorded is not run again.",
        default="false",
        parse=_switch,
        metavar="BOOL",
    ),
)
"""Every setting, in the order in which people read about them."""

BY_INPUT: Mapping[str, Setting] = {setting.input: setting for setting in SETTINGS}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What holds for one run; the fields are those of SETTINGS, parsed."""

    root: Path
    """The repository: the current directory. Relative paths start here."""
    paths: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    config: Path | None = None
    initial_session: Path | None = None
    agent: str | None = None
    agents: Mapping[str, str] = field(default_factory=dict)
    """`[agents]` of agent-eval.toml: patterns of eval files to agents."""
    agent_python: str | None = None
    agent_requirements: Path | None = None
    agent_setup: str | None = None
    agent_env: str | None = None
    workers: int = 1
    num_runs: int = 1
    min_pass_rate: float = 1.0
    concurrency: int = 8
    turn_timeout: float = 180.0
    case_timeout: float = 900.0
    run_timeout: float = 3600.0
    fail_fast: bool = False
    on_inconclusive: Literal["fail", "pass"] = "fail"
    judge_model: str | None = None
    judge_api_key: str | None = field(default=None, repr=False)
    judge_base_url: str | None = None
    judge: str = "live"
    judge_cache: str = "off"
    max_judge_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    prices: Mapping[str, Any] = field(default_factory=dict)
    """`[prices]` of agent-eval.toml, as written."""
    output_dir: Path = Path("agent-eval-results")
    cache_dir: Path | None = None
    resume: bool = False

    @property
    def output(self) -> Path:
        """The output directory, absolute."""
        return self.root.absolute() / self.output_dir


def read_settings(
    root: Path,
    *,
    flags: Mapping[str, str | Sequence[str]] | None = None,
    environ: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> tuple[Settings, list[Problem]]:
    """Reads all sources.

    Args:
        root: The repository, where agent-eval.toml may lie.
        flags: Given on the command line, by input name; lists are already split.
        environ: Where to look for `INPUT_*`; None outside of the action.
        secrets: Where to look for secrets by the variables of their own.

    Returns:
        The settings and all problems. If one of those is an error nothing must be run: what is wrong has its default,
        so that the rest (the output directory above all) still says where to tell it.
    """
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    table, agents, prices = _read_file(root / CONFIG_FILE, problems)
    for setting in SETTINGS:
        raw, source = _given(setting, flags or {}, environ or {}, secrets or {}, table)
        if not isinstance(raw, str):
            values[setting.field] = tuple(raw)
            continue
        try:
            values[setting.field] = setting.parse(raw)
        except ValueError as error:
            values[setting.field] = setting.parse(setting.default)
            in_file = source.endswith(CONFIG_FILE)
            problems.append(
                Problem(
                    severity=Severity.ERROR,
                    code="setting-invalid",
                    message=f"{source}: {raw!r} {error}." if str(error).startswith("must") else f"{source}: {error}.",
                    hint=setting.help,
                    file=CONFIG_FILE if in_file else None,
                    line=_line_of(root / CONFIG_FILE, setting.input) if in_file else None,
                )
            )
    for name in environ or {}:
        # GitHub warns about unknown inputs itself, but only in the log; a misspelt one would gate with a default.
        known = name.removeprefix("INPUT_").lower()
        if name.startswith("INPUT_") and known not in BY_INPUT and (near := _near(known)):
            problems.append(_unknown(f"the input `{known}`", near, None, None))
    return Settings(root=root, agents=agents, prices=prices, **values), problems


def _given(
    setting: Setting,
    flags: Mapping[str, str | Sequence[str]],
    environ: Mapping[str, str],
    secrets: Mapping[str, str],
    table: Mapping[str, str | list[str]],
) -> tuple[str | Sequence[str], str]:
    """What was given for a setting, by the nearest source, and that source's name."""
    if setting.input in flags:
        return flags[setting.input], f"--{setting.input}"
    # An input that was left out arrives as an empty text (actions/runner).
    if (text := environ.get(setting.variable, "")).strip():
        return text, f"input {setting.input}"
    if setting.secret is not None and (text := secrets.get(setting.secret, "")):
        return text, setting.secret
    if setting.input in table:
        return table[setting.input], f"{setting.input} in {CONFIG_FILE}"
    return setting.default, setting.input


def _near(name: str) -> str | None:
    return next(iter(difflib.get_close_matches(name, [*BY_INPUT, "agents", "prices"], n=1, cutoff=0.7)), None)


def _unknown(what: str, near: str | None, file: str | None, line: int | None) -> Problem:
    return Problem(
        severity=Severity.ERROR,
        code="setting-unknown",
        message=f"There is no setting for {what}.",
        hint=f"Did you mean `{near}`?"
        if near
        else f"Known settings: {', '.join(BY_INPUT)}, and the tables [agents] and [prices].",
        file=file,
        line=line,
    )


def _read_file(
    path: Path, problems: list[Problem]
) -> tuple[dict[str, str | list[str]], dict[str, str], dict[str, Any]]:
    """The settings in agent-eval.toml, as text or lists of texts, its mapping of agents, and its prices."""
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}, {}, {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        found = re.search(r"line (\d+), column (\d+)", str(error))
        problems.append(
            Problem(
                severity=Severity.ERROR,
                code="settings-file-unreadable",
                message=f"{CONFIG_FILE} can't be read: {error}",
                hint="It is TOML, e.g. `num-runs = 3`.",
                file=CONFIG_FILE,
                line=int(found[1]) if found else None,
                column=int(found[2]) if found else None,
            )
        )
        return {}, {}, {}
    values: dict[str, str | list[str]] = {}
    agents = table.pop("agents", {})
    if isinstance(agents, dict) and (strayed := [name for name in agents if name in BY_INPUT]):
        # In TOML a table goes on to the end of the file; as a pattern the setting would do nothing.
        problems += [
            _wrong_type(f"`{name}`", "stands below [agents], so it is taken for a pattern; move it up", path, name)
            for name in strayed
        ]
        agents = {name: agent for name, agent in agents.items() if name not in BY_INPUT}
    if not isinstance(agents, dict) or not all(isinstance(agent, str) for agent in agents.values()):
        problems.append(_wrong_type("[agents]", 'must map patterns to agents, e.g. "evals/**" = "my_agent"', path))
        agents = {}
    prices = table.pop("prices", {})
    try:
        read_prices(prices)
    except ValueError as error:
        problems.append(_wrong_type(str(error).rstrip("."), "", path, "prices"))
        prices = {}
    for name, value in table.items():
        if name not in BY_INPUT:
            problems.append(_unknown(f"`{name}`", _near(name), CONFIG_FILE, _line_of(path, name)))
        elif not BY_INPUT[name].in_file:
            problems.append(_not_in_file(path, name))
        elif isinstance(value, list) and BY_INPUT[name].parse is _words and all(isinstance(one, str) for one in value):
            values[name] = value
        elif isinstance(value, bool):
            values[name] = str(value).lower()
        elif isinstance(value, str | int | float):
            values[name] = str(value)
        else:
            problems.append(_wrong_type(f"`{name}`", "has a value of the wrong type", path, name))
    return values, agents, prices


def _not_in_file(path: Path, name: str) -> Problem:
    secret = BY_INPUT[name].secret
    elsewhere = f"the flag `--{name}`" if secret is None else f"the variable {secret}"
    return Problem(
        severity=Severity.ERROR,
        code="setting-not-in-file",
        message=f"`{name}` can't be set in {CONFIG_FILE}: a pull request could change it.",
        hint=f"Give it in the workflow, as the input `{name}`, or as {elsewhere}.",
        file=CONFIG_FILE,
        line=_line_of(path, name),
    )


def _wrong_type(what: str, message: str, path: Path, name: str = "agents") -> Problem:
    return Problem(
        severity=Severity.ERROR,
        code="setting-invalid",
        message=f"{what} {message}".rstrip() + ".",
        hint=BY_INPUT[name].help if name in BY_INPUT else None,
        file=CONFIG_FILE,
        line=_line_of(path, name),
    )


def _line_of(path: Path, name: str) -> int | None:
    """Where a key of the file stands; tomllib doesn't tell."""
    pattern = re.compile(rf"""\s*\[?\s*["']?{re.escape(name)}["']?\s*[\]=]""")
    lines = path.read_text("utf-8").splitlines()
    return next((number for number, line in enumerate(lines, 1) if pattern.match(line)), None)
