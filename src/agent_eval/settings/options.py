"""The table of settings. Flags, action inputs and keys of agent-eval.toml are derived from it."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent_eval.settings.baseline_sources import parse_order

FILES = "eval files"
AGENT = "agent"
RUNS = "execution"
JUDGES = "judges and simulated users"
VERDICT = "verdict"
BASELINE = "baseline"
RESULTS = "output"
CI = "CI only"
GROUPS = (FILES, AGENT, RUNS, JUDGES, VERDICT, BASELINE, RESULTS, CI)
"""In the order of `agent-eval run --help`."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One row of the table."""

    input: str
    """Name of the action input and of the key in agent-eval.toml; the flag is `--NAME`."""
    group: str
    """The heading above it in `agent-eval run --help`."""
    help: str
    """One or two sentences, shown in `--help`, action.yml and docs/configuration.md."""
    default: str = ""
    """As a user writes it; "" for none."""
    parse: Callable[[str], Any]
    """Converts the text to a value. Raises ValueError with the expected form."""
    metavar: str = "VALUE"
    in_file: bool = True
    """False if agent-eval.toml must not set it. A pull request can change that file, and these settings name a command
    that runs outside the sandbox, variables that the agent gets, directories we write to, and where keys are sent."""
    secret: str | None = None
    """The environment variable that sets it on the command line. Secrets are not flags, because every user of a machine
    can read the arguments of a process."""

    @property
    def field(self) -> str:
        """Name of the field in Settings."""
        return self.input.replace("-", "_")

    def parsed_default(self) -> Any:
        """The value if no source sets it."""
        return self.parse(self.default)

    @property
    def variable(self) -> str:
        """The variable in which GitHub's runner passes the input: upper case, dashes kept."""
        return f"INPUT_{self.input.upper()}"

    @property
    def choices(self) -> tuple[str, ...]:
        """All values it can have; empty if the set is open."""
        return self.parse.words if isinstance(self.parse, _Choice) else ()

    @property
    def is_switch(self) -> bool:
        """Whether the flag takes no value."""
        return self.parse is _switch


def _text(value: str) -> str | None:
    return value.strip() or None


def words(value: str) -> tuple[str, ...]:
    """Splits a text into values as a shell does."""
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise ValueError(f"a quotation mark is not closed ({error})") from error


def _variables(value: str) -> str | None:
    from agent_eval.agents.sandbox import allow_list

    allow_list(_text(value))
    return _text(value)


def _headers(value: str) -> Mapping[str, str]:
    if not value.strip():
        return {}
    from agent_eval.agents.http import parse_headers

    return parse_headers(value)


def _path(value: str) -> Path | None:
    return Path(value.strip()) if value.strip() else None


def _directory_name(value: str) -> str:
    return str(_directory(value))


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


def _auto(parse: Callable[[str], int]) -> Callable[[str], int | None]:
    def parse_or_auto(value: str) -> int | None:
        if value.strip() == "auto":
            return None
        try:
            return parse(value)
        except ValueError as error:
            raise ValueError(str(error).replace("must be", "must be auto or", 1)) from None

    return parse_or_auto


def _number(unit: str, is_valid: Callable[[float], bool]) -> Callable[[str], float]:
    def parse(value: str) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not is_valid(number):  # No comparison with NaN is true.
            raise ValueError(f"must be a number {unit}")
        return number

    return parse


_seconds = _number("of seconds above 0", lambda number: 0 < number <= 1e9)
_dollars = _number("of US dollars above 0", lambda number: 0 < number <= 1e9)
_rate = _number("from 0 to 1", lambda number: 0 <= number <= 1)


def _optional(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda value: parse(value) if value.strip() else None


_megabytes = _number("of megabytes from 1 to 100", lambda number: 1 <= number <= 100)


def _part(value: str) -> Any:
    if not value.strip():
        return None
    from agent_eval.runner import parse_part  # imports what only runs need

    return parse_part(value)


def _web_address(value: str) -> str | None:
    """Accepts an https address, or an http one, without credentials; "" for none."""
    address = value.strip()
    if not address:
        return None
    try:
        parts = urlsplit(address)
        valid = parts.scheme in {"https", "http"} and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        valid = False
    if not valid or not address.isascii() or not address.isprintable() or " " in address:
        raise ValueError("must be an https:// address without a user name")
    return address


def _judge(value: str) -> str:
    if not re.fullmatch(r"live|replay:.*\S", value.strip()):
        raise ValueError("must be live or replay:DIR")
    return value.strip()


def _baseline(value: str) -> str:
    parse_order(value)
    return value.strip()


def _name(value: str) -> str:
    """Accepts a name that is safe in a file name, a URL and an HTML comment."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}|", value.strip()):
        raise ValueError("must be letters, digits, dots, dashes and underscores, at most 100")
    return value.strip()


@dataclass(frozen=True)
class _Choice:
    """Parser for an enumerated value."""

    words: tuple[str, ...]

    def __call__(self, value: str) -> str:
        if value.strip() not in self.words:
            raise ValueError(f"must be {' or '.join(self.words)}")
        return value.strip()


def _choice(*words: str) -> _Choice:
    return _Choice(words)


SETTINGS: tuple[Setting, ...] = (
    Setting(
        input="paths",
        group=FILES,
        help="Eval files, directories or globs, separated by spaces or newlines; `file.json:case1,case2` selects "
        "cases. Default: every *.test.json and *.evalset.json in the repository.",
        parse=words,
        metavar="PATH",
    ),
    Setting(
        input="include",
        group=FILES,
        help="Only eval files that match one of these patterns (.gitignore syntax). Separate patterns with spaces "
        "in the input; repeat the flag.",
        parse=words,
        metavar="PATTERN",
    ),
    Setting(
        input="exclude",
        group=FILES,
        help="Skip files and directories that match one of these patterns (.gitignore syntax). Separate patterns "
        "with spaces in the input; repeat the flag.",
        parse=words,
        metavar="PATTERN",
    ),
    Setting(
        input="config",
        group=FILES,
        help="A test_config.json for all eval files, instead of the nearest one to each file.",
        parse=_path,
        metavar="FILE",
    ),
    Setting(
        input="initial-session",
        group=FILES,
        help="A JSON file with the initial session for legacy test files (lists of turns).",
        parse=_path,
        metavar="FILE",
    ),
    Setting(
        input="agent",
        group=AGENT,
        help="The agent for all eval files: a directory, a dotted module name, adk:URL for a server with ADK's REST "
        "interface, a2a:URL for an agent behind A2A, or recorded:FILE to score a recording. Default: selected for each "
        "file.",
        parse=_text,
        metavar="AGENT",
    ),
    Setting(
        input="agent-python",
        group=AGENT,
        help="The Python interpreter for the agent, if its environment already exists. Default: uv creates an "
        "environment.",
        parse=_text,
        metavar="PYTHON",
    ),
    Setting(
        input="agent-requirements",
        group=AGENT,
        help="The requirements.txt, pyproject.toml or uv.lock to create the agent's environment from. Default: the "
        "one nearest to the agent.",
        parse=_path,
        metavar="FILE",
    ),
    Setting(
        input="agent-cwd",
        group=AGENT,
        help="Working directory of the agent's process: project (the nearest directory above the agent with a "
        "pyproject.toml, requirements.txt, setup.py or setup.cfg, else the root), root, agent (its own "
        "directory), or a path.",
        default="project",
        parse=_directory_name,
        metavar="DIR",
    ),
    Setting(
        input="agent-setup",
        group=AGENT,
        help="A shell command to run first, e.g. to install system packages. Runs as the gate's user (root in the "
        "image), outside the agent's sandbox.",
        parse=_text,
        in_file=False,
        metavar="COMMAND",
    ),
    Setting(
        input="agent-env",
        group=AGENT,
        help="Names or globs of environment variables to pass to the agent, separated by commas. A leading + adds "
        "to the default list (model credentials and base URLs).",
        parse=_variables,
        in_file=False,
        metavar="NAMES",
    ),
    Setting(
        input="agent-headers",
        group=AGENT,
        help="Headers for the server of a remote agent (`adk:URL`), one `Name: value` on each line. They go only to "
        "the origin of the URL in `agent`. On the command line: the variable AGENT_EVAL_AGENT_HEADERS.",
        parse=_headers,
        in_file=False,
        secret="AGENT_EVAL_AGENT_HEADERS",  # noqa: S106 - a variable's name
        metavar="HEADERS",
    ),
    Setting(
        input="remote-user-id",
        group=AGENT,
        help="User ids of sessions on the server of a remote agent: unique (a random suffix, because state with the "
        "prefix `user:` is shared by all sessions of a user) or as-given (as in the case, for servers that know their "
        "users).",
        default="unique",
        parse=_choice("unique", "as-given"),
    ),
    Setting(
        input="keep-sessions",
        group=AGENT,
        help="Keep the sessions on the server of a remote agent, instead of deleting each after its run.",
        default="false",
        parse=_switch,
        metavar="BOOL",
    ),
    Setting(
        input="a2a-ignore-state",
        group=AGENT,
        help="For agents behind A2A (`a2a:URL`), which can't begin with the state of `session_input`: run such cases "
        "without it instead of refusing them.",
        default="false",
        parse=_switch,
        metavar="BOOL",
    ),
    Setting(
        input="workers",
        group=AGENT,
        help="Processes per agent, or auto: one, a second one if the agent loads quickly and has several sessions, and "
        "further ones up to the number of cores while it keeps them busy. Each serves many sessions concurrently.",
        default="auto",
        parse=_auto(_count(1)),
        metavar="N",
    ),
    Setting(
        input="num-runs",
        group=RUNS,
        help="Number of runs of each case.",
        default="1",
        parse=_count(1),
        metavar="N",
    ),
    Setting(
        input="min-pass-rate",
        group=RUNS,
        help="Minimum share of a case's runs that must pass, from 0 to 1, in addition to its mean scores.",
        default="1.0",
        parse=_rate,
        metavar="RATE",
    ),
    Setting(
        input="concurrency",
        group=RUNS,
        help="Number of concurrent runs, or auto: 8 at first (4 if an agent answers through a server), up to 64 while "
        "the model provider neither refuses requests nor becomes slower. Reduced temporarily when it answers 429 or "
        "503.",
        default="auto",
        parse=_auto(_count(1)),
        metavar="N",
    ),
    Setting(
        input="turn-timeout",
        group=RUNS,
        help="Maximum time for one turn, in seconds.",
        default="180",
        parse=_seconds,
        metavar="SECONDS",
    ),
    Setting(
        input="case-timeout",
        group=RUNS,
        help="Maximum time for all turns of one run of a case, in seconds.",
        default="900",
        parse=_seconds,
        metavar="SECONDS",
    ),
    Setting(
        input="run-timeout",
        group=RUNS,
        help="Maximum time for the whole run, in seconds; the remaining cases are reported as not run.",
        default="3600",
        parse=_seconds,
        metavar="SECONDS",
    ),
    Setting(
        input="fail-fast",
        group=RUNS,
        help="Stop at the first failed case.",
        default="false",
        parse=_switch,
        metavar="BOOL",
    ),
    Setting(
        input="only-affected",
        group=RUNS,
        help="On a pull request, run only the eval files of agents that its changed files can affect; the others are "
        "reported as unchanged.",
        default="false",
        parse=_switch,
        metavar="BOOL",
    ),
    Setting(
        input="tools",
        group=RUNS,
        help="How tool calls are answered: live (tools run), replay (from the tapes beside the eval files; no tool "
        "runs), record (tools run, and each case's tape is written again), or record-missing (replay, and record what "
        "is missing).",
        default="live",
        parse=_choice("live", "record", "record-missing", "replay"),
    ),
    Setting(
        input="tools-miss",
        group=RUNS,
        help="With `tools: replay`, a call that is not on the tape: error (the run says nothing), or live (the tool "
        "runs).",
        default="error",
        parse=_choice("error", "live"),
    ),
    Setting(
        input="tools-stale",
        group=RUNS,
        help="With `tools: replay`, a tool that was changed after its answers were recorded: error (the run says "
        "nothing), or warn.",
        default="error",
        parse=_choice("error", "warn"),
    ),
    Setting(
        input="shard",
        group=RUNS,
        help="Run only part I of N of the cases, e.g. 2/5. `agent-eval merge` (`mode: merge`) makes one verdict of all "
        "parts. The exit code of a part is 0 if all of its runs were judged, passed or not, and 3 if it is incomplete.",
        parse=_part,
        in_file=False,
        metavar="I/N",
    ),
    Setting(
        input="shard-plan",
        group=RUNS,
        help="The output of `agent-eval plan --durations RESULTS --format json`: parts are balanced by the recorded "
        "durations of the cases instead of their turns. Every part needs the same file.",
        parse=_path,
        in_file=False,
        metavar="FILE",
    ),
    Setting(
        input="shards",
        group=RUNS,
        help="With `mode: merge`, the directories that contain the results of the parts, separated by spaces. They are "
        "searched two levels deep.",
        default="shards",
        parse=words,
        in_file=False,
        metavar="DIR",
    ),
    Setting(
        input="run-missing",
        group=RUNS,
        help="With `mode: merge`, run the cases of parts without results here, instead of reporting them as not run.",
        default="false",
        parse=_switch,
        in_file=False,
        metavar="BOOL",
    ),
    Setting(
        input="judge-model",
        group=JUDGES,
        help="The judge model for criteria that don't name one: a Gemini model, a full Vertex AI name, or "
        "provider/model. Default: gemini-2.5-flash, as in ADK.",
        parse=_text,
        metavar="MODEL",
    ),
    Setting(
        input="judge-api-key",
        group=JUDGES,
        help="API key for the judge model, so that the agent doesn't need it. On the command line: the variable "
        "AGENT_EVAL_JUDGE_API_KEY. Default: the provider's own variable, e.g. GOOGLE_API_KEY.",
        parse=_text,
        in_file=False,
        secret="AGENT_EVAL_JUDGE_API_KEY",  # noqa: S106 - a variable's name
        metavar="KEY",
    ),
    Setting(
        input="judge-base-url",
        group=JUDGES,
        help="Base URL of the judge model's API, e.g. for a gateway or your own server.",
        parse=_text,
        in_file=False,
        metavar="URL",
    ),
    Setting(
        input="judge",
        group=JUDGES,
        help="live, or replay:DIR to take every judge reply from a cache directory instead of a model; criteria "
        "whose reply is missing are not evaluated.",
        default="live",
        parse=_judge,
        in_file=False,
        metavar="live|replay:DIR",
    ),
    Setting(
        input="judge-cache",
        group=JUDGES,
        help="Directory that caches the judge's replies, so that the same question is paid for once; off disables it.",
        default="off",
        parse=_text,
        in_file=False,
        metavar="DIR",
    ),
    Setting(
        input="max-judge-calls",
        group=JUDGES,
        help="Maximum number of judge and simulator calls; remaining criteria are reported as not evaluated.",
        parse=_optional(_count(1)),
        metavar="N",
    ),
    Setting(
        input="max-tokens",
        group=JUDGES,
        help="Maximum number of tokens for judge and simulator calls; remaining criteria are reported as not "
        "evaluated.",
        parse=_optional(_count(1)),
        metavar="N",
    ),
    Setting(
        input="max-cost",
        group=JUDGES,
        help="Maximum cost of judge and simulator calls in US dollars, by the price table; remaining criteria are "
        "reported as not evaluated.",
        parse=_optional(_dollars),
        metavar="USD",
    ),
    Setting(
        input="gate",
        group=VERDICT,
        help="What decides the verdict: thresholds, regressions (against the base branch), both, or advisory "
        "(reports, but never fails). auto: regressions if there is a baseline, else thresholds.",
        default="auto",
        parse=_choice("auto", "thresholds", "regressions", "both", "advisory"),
    ),
    Setting(
        input="gate-jobs",
        group=VERDICT,
        help="Number of jobs that each gate the same pull request, e.g. one per agent of a matrix. The error rate "
        "`alpha` is divided by it, so that it holds for all jobs together.",
        default="1",
        parse=_count(1),
        metavar="N",
    ),
    Setting(
        input="baseline",
        group=BASELINE,
        help="Source of the base branch's results: artifact, file:PATH, rerun, or several of them in order. auto: "
        "artifact on a pull request, none elsewhere.",
        default="auto",
        parse=_baseline,
        metavar="SOURCE",
    ),
    Setting(
        input="rule-changes",
        group=VERDICT,
        help="Which criteria apply if a pull request changes them for existing cases. block: the stricter of both, "
        "until someone sets the label `agent-eval: accept rules`. report: the pull request's.",
        default="block",
        parse=_choice("block", "report"),
    ),
    Setting(
        input="removed-cases",
        group=VERDICT,
        help="Whether a pull request that removes eval cases fails until someone sets the label `agent-eval: accept "
        "rules`: report (it passes) or block (it fails).",
        default="report",
        parse=_choice("report", "block"),
    ),
    Setting(
        input="base-ref",
        group=BASELINE,
        help="Branch or commit to compare with outside of pull requests: locally, in GitLab, in Jenkins.",
        parse=_text,
        in_file=False,
        metavar="REF",
    ),
    Setting(
        input="base-branches",
        group=CI,
        help="Names or globs of branches, besides the default branch, whose runs record baselines, e.g. release/*.",
        parse=words,
        in_file=False,
        metavar="PATTERN",
    ),
    Setting(
        input="baseline-evals",
        group=BASELINE,
        help="Eval files and criteria for runs of the base branch's agent (`rerun` and confirmation runs): head "
        "(the pull request's, so that only the agent differs) or base.",
        default="head",
        parse=_choice("head", "base"),
    ),
    Setting(
        input="artifact-name",
        group=CI,
        help="Name of the artifact that the workflow uploads the output directory as, and that baselines are "
        "downloaded from.",
        default="agent-eval-results",
        parse=_name,
        metavar="NAME",
    ),
    Setting(
        input="max-extra-runs",
        group=BASELINE,
        help="Maximum number of additional runs, of head and base branch together, to confirm suspected "
        "regressions. Default: up to eight times the suite, at least 100; few pull requests need more than "
        "half a suite.",
        parse=_optional(_count(0)),
        metavar="N",
    ),
    Setting(
        input="confirm-on-base",
        group=BASELINE,
        help="Whether suspected regressions also run again on the base branch: auto (if its stored runs are too few "
        "to decide), always, or never.",
        default="auto",
        parse=_choice("auto", "always", "never"),
    ),
    Setting(
        input="history",
        group=BASELINE,
        help="Number of recorded runs of the base branch that a baseline keeps of each case, to tell flaky cases "
        "from regressions. With `num-runs: 3` each recorded run has three runs of the case.",
        default="20",
        parse=_count(1),
        metavar="N",
    ),
    Setting(
        input="comment",
        group=CI,
        help="When to write the pull-request comment: always, on-change (only if results differ from the base "
        "branch), on-failure, or never.",
        default="always",
        parse=_choice("always", "on-change", "on-failure", "never"),
    ),
    Setting(
        input="comment-key",
        group=CI,
        help="Distinguishes several comments on one pull request, e.g. one per matrix job.",
        parse=_name,
        metavar="NAME",
    ),
    Setting(
        input="comment-author",
        group=CI,
        help="Login that the token comments as, e.g. my-app[bot]. Detected automatically except for GitHub Apps.",
        parse=_text,
        in_file=False,
        metavar="LOGIN",
    ),
    Setting(
        input="mode",
        group=CI,
        help="gate runs the evals; publish writes the comment for the finished run of a fork's pull request, in a "
        "workflow_run job; auto selects one of them by the event; merge makes one verdict of the parts of a run "
        "(`shard`); link runs nothing, but adds the address of the uploaded report.html (`report-url`) to the comment "
        "of the gate that ran before in the same job.",
        default="auto",
        parse=_choice("auto", "gate", "publish", "merge", "link"),
        in_file=False,
    ),
    Setting(
        input="github-token",
        group=CI,
        help="Token to read the base branch's results and to write the comment. On the command line: the variable "
        "GITHUB_TOKEN.",
        parse=_text,
        in_file=False,
        secret="GITHUB_TOKEN",  # noqa: S106 - a variable's name
        metavar="TOKEN",
    ),
    Setting(
        input="without-keys",
        group=JUDGES,
        help="If a judge has no API key: invalid (end the run), inconclusive (report it at the end), or "
        "deterministic-only (gate on the criteria that need no key). auto: deterministic-only for forks and "
        "Dependabot, else invalid.",
        default="auto",
        parse=_choice("auto", "invalid", "inconclusive", "deterministic-only"),
    ),
    Setting(
        input="allow-pull-request-target",
        group=CI,
        help="Dangerous: run a fork's code on pull_request_target, where it can reach your secrets. Only for jobs "
        "that a maintainer approves.",
        default="false",
        parse=_switch,
        in_file=False,
        metavar="BOOL",
    ),
    Setting(
        input="on-inconclusive",
        group=VERDICT,
        help="Exit code of an inconclusive run: fail (3) or pass (0).",
        default="fail",
        parse=_choice("fail", "pass"),
    ),
    Setting(
        input="details",
        group=RESULTS,
        help="Cases that the console shows turn by turn: failed (every case that did not pass) or all (every case, as "
        "`agent-eval show` prints it).",
        default="failed",
        parse=_choice("failed", "all"),
    ),
    Setting(
        input="report",
        group=RESULTS,
        help="What report.html shows: full (every conversation), failing (conversations only of cases that did not "
        "pass or changed), scores (no conversation and no text of agents or users) or off (no page).",
        default="full",
        parse=_choice("full", "failing", "scores", "off"),
    ),
    Setting(
        input="report-size",
        group=RESULTS,
        help="Megabytes that report.html may have, from 1 to 100. What does not fit is left out, passing cases first; "
        "recordings.jsonl.gz has everything.",
        default="15",
        parse=_megabytes,
        metavar="MB",
    ),
    Setting(
        input="report-url",
        group=CI,
        help="Web address of the uploaded report.html, for `mode: link`.",
        parse=_web_address,
        in_file=False,
        metavar="URL",
    ),
    Setting(
        input="output-dir",
        group=RESULTS,
        help="Directory for results.json, recordings.jsonl.gz, report.html, junit.xml, summary.md and logs.",
        default="agent-eval-results",
        parse=_directory,
        in_file=False,
        metavar="DIR",
    ),
    Setting(
        input="cache-dir",
        group=RESULTS,
        help="Directory for the agents' environments. Default: the user's cache directory; "
        "/var/lib/agent-eval/cache in the image.",
        parse=_path,
        in_file=False,
        metavar="DIR",
    ),
    Setting(
        input="resume",
        group=RUNS,
        help="Continue a killed run that had the same output-dir; recorded runs are not repeated.",
        default="false",
        parse=_switch,
        metavar="BOOL",
    ),
)
"""Every setting, in the order of the documentation."""

BY_INPUT: Mapping[str, Setting] = {setting.input: setting for setting in SETTINGS}
