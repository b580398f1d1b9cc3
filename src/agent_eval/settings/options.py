"""What can be set: one table from which flags, action inputs and agent-eval.toml keys follow."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILES = "which eval files"
AGENT = "the agent"
RUNS = "how it runs"
JUDGES = "judges and simulated users"
VERDICT = "what decides"
BASELINE = "the base branch's results"
RESULTS = "results"
CI = "only in CI"
GROUPS = (FILES, AGENT, RUNS, JUDGES, VERDICT, BASELINE, RESULTS, CI)
"""In the order of `agent-eval run --help`."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One row of the table."""

    input: str
    """Its name as an action input and as a key of agent-eval.toml; `--NAME` on the command line."""
    group: str
    """The heading above it in `agent-eval run --help`."""
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
    def choices(self) -> tuple[str, ...]:
        """The words that it may be; none where other values are possible."""
        return self.parse.words if isinstance(self.parse, _Choice) else ()

    @property
    def is_switch(self) -> bool:
        """A flag without a value."""
        return self.parse is _switch


def _text(value: str) -> str | None:
    return value.strip() or None


def words(value: str) -> tuple[str, ...]:
    """Several values in one text, split as a shell does."""
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise ValueError(f"a quotation mark is not closed ({error})") from error


def _variables(value: str) -> str | None:
    from agent_eval.agents.sandbox import allow_list

    allow_list(_text(value))
    return _text(value)


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


def _number(what: str, fits: Callable[[float], bool]) -> Callable[[str], float]:
    def parse(value: str) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not fits(number):  # Nothing fits what is not a number.
            raise ValueError(f"must be a number {what}")
        return number

    return parse


_seconds = _number("of seconds above 0", lambda number: 0 < number <= 1e9)
_dollars = _number("of US dollars above 0", lambda number: 0 < number <= 1e9)
_rate = _number("from 0 to 1", lambda number: 0 <= number <= 1)


def _optional(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda value: parse(value) if value.strip() else None


def _judge(value: str) -> str:
    if not re.fullmatch(r"live|replay:.*\S", value.strip()):
        raise ValueError("must be live or replay:DIR")
    return value.strip()


def _baseline(value: str) -> str:
    from agent_eval.baseline import parse_order

    parse_order(value.strip())
    return value.strip()


def _name(value: str) -> str:
    """A name that is safe in a file, a URL and an HTML comment."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}|", value.strip()):
        raise ValueError("must be letters, digits, dots, dashes and underscores, at most 100")
    return value.strip()


@dataclass(frozen=True)
class _Choice:
    """Parses one of a few words."""

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
        help="Eval files, directories or globs, separated by blanks or lines; `file.json:case1,case2` picks cases. "
        "Default: every *.test.json and *.evalset.json of the repository.",
        parse=words,
        metavar="PATH",
    ),
    Setting(
        input="include",
        group=FILES,
        help="Only eval files that match one of these patterns (as in .gitignore). An input separates them by blanks; "
        "the flag is repeated.",
        parse=words,
        metavar="PATTERN",
    ),
    Setting(
        input="exclude",
        group=FILES,
        help="No files or directories that match one of these patterns (as in .gitignore). An input separates them by "
        "blanks; the flag is repeated.",
        parse=words,
        metavar="PATTERN",
    ),
    Setting(
        input="config",
        group=FILES,
        help="A test_config.json for all files, instead of the one nearest to each.",
        parse=_path,
        metavar="FILE",
    ),
    Setting(
        input="initial-session",
        group=FILES,
        help="A JSON file with the session that older test files (lists of turns) start in.",
        parse=_path,
        metavar="FILE",
    ),
    Setting(
        input="agent",
        group=AGENT,
        help="The agent of all files: a directory, a dotted module, or recorded:FILE to score what was recorded. "
        "Default: found for each file.",
        parse=_text,
        metavar="AGENT",
    ),
    Setting(
        input="agent-python",
        group=AGENT,
        help="The interpreter to run the agent with, if it has an environment already. Default: uv makes one.",
        parse=_text,
        metavar="PYTHON",
    ),
    Setting(
        input="agent-requirements",
        group=AGENT,
        help="The requirements.txt, pyproject.toml or uv.lock to make the agent's environment from. "
        "Default: the nearest to the agent.",
        parse=_path,
        metavar="FILE",
    ),
    Setting(
        input="agent-cwd",
        group=AGENT,
        help="The directory that the agent's process starts in: project, the nearest directory above the agent with a "
        "pyproject.toml, requirements.txt, setup.py or setup.cfg, else the root; root; agent, its own; or a path.",
        default="project",
        parse=_directory_name,
        metavar="DIR",
    ),
    Setting(
        input="agent-setup",
        group=AGENT,
        help="A shell command to run first, e.g. to install system packages. It runs as ourselves, not as the agent.",
        parse=_text,
        in_file=False,
        metavar="COMMAND",
    ),
    Setting(
        input="agent-env",
        group=AGENT,
        help="Names or globs of variables to pass to the agent, separated by commas; a leading + adds to the default "
        "list (model credentials and base URLs).",
        parse=_variables,
        in_file=False,
        metavar="NAMES",
    ),
    Setting(
        input="workers",
        group=AGENT,
        help="Processes per agent. One serves many sessions at once; more help agents that compute.",
        default="1",
        parse=_count(1),
        metavar="N",
    ),
    Setting(
        input="num-runs",
        group=RUNS,
        help="How often each case runs.",
        default="1",
        parse=_count(1),
        metavar="N",
    ),
    Setting(
        input="min-pass-rate",
        group=RUNS,
        help="The share of a case's runs that must pass, 0 to 1, besides its mean scores.",
        default="1.0",
        parse=_rate,
        metavar="RATE",
    ),
    Setting(
        input="concurrency",
        group=RUNS,
        help="Runs in flight at once; lowered for a while when the model provider answers 429.",
        default="8",
        parse=_count(1),
        metavar="N",
    ),
    Setting(
        input="turn-timeout",
        group=RUNS,
        help="Seconds a turn may take.",
        default="180",
        parse=_seconds,
        metavar="SECONDS",
    ),
    Setting(
        input="case-timeout",
        group=RUNS,
        help="Seconds all turns of one run of a case may take.",
        default="900",
        parse=_seconds,
        metavar="SECONDS",
    ),
    Setting(
        input="run-timeout",
        group=RUNS,
        help="Seconds after which no more is run; what is missing is reported as not run.",
        default="3600",
        parse=_seconds,
        metavar="SECONDS",
    ),
    Setting(
        input="fail-fast",
        group=RUNS,
        help="Stop at the first case that fails.",
        default="false",
        parse=_switch,
        metavar="BOOL",
    ),
    Setting(
        input="judge-model",
        group=JUDGES,
        help="The model of criteria that name none: a Gemini model, a full Vertex AI name, or provider/model. "
        "Default: gemini-2.5-flash, as in ADK.",
        parse=_text,
        metavar="MODEL",
    ),
    Setting(
        input="judge-api-key",
        group=JUDGES,
        help="The key for the judge's model, so that the agent needn't get it. Elsewhere the variable "
        "AGENT_EVAL_JUDGE_API_KEY. Default: the provider's own variable, e.g. GOOGLE_API_KEY.",
        parse=_text,
        in_file=False,
        secret="AGENT_EVAL_JUDGE_API_KEY",  # noqa: S106 - a variable's name
        metavar="KEY",
    ),
    Setting(
        input="judge-base-url",
        group=JUDGES,
        help="The address of the judge's model, for a gateway or a server of your own.",
        parse=_text,
        in_file=False,
        metavar="URL",
    ),
    Setting(
        input="judge",
        group=JUDGES,
        help="live, or replay:DIR to take every reply from a cache directory and fail where one is missing.",
        default="live",
        parse=_judge,
        in_file=False,
        metavar="WORD",
    ),
    Setting(
        input="judge-cache",
        group=JUDGES,
        help="A directory that keeps the judge's replies, so that the same question is paid for once; off for none.",
        default="off",
        parse=_text,
        in_file=False,
        metavar="DIR",
    ),
    Setting(
        input="max-judge-calls",
        group=JUDGES,
        help="Calls to judges and simulated users after which none is made; what is missing is not evaluated.",
        parse=_optional(_count(1)),
        metavar="N",
    ),
    Setting(
        input="max-tokens",
        group=JUDGES,
        help="The same for the tokens of those calls.",
        parse=_optional(_count(1)),
        metavar="N",
    ),
    Setting(
        input="max-cost",
        group=JUDGES,
        help="The same for what they cost in US dollars, by the price table.",
        parse=_optional(_dollars),
        metavar="USD",
    ),
    Setting(
        input="gate",
        group=VERDICT,
        help="What decides: thresholds, regressions (against the base branch), both, or advisory for nothing. auto is "
        "regressions where there is a baseline, else thresholds.",
        default="auto",
        parse=_choice("auto", "thresholds", "regressions", "both", "advisory"),
        metavar="WORD",
    ),
    Setting(
        input="baseline",
        group=BASELINE,
        help="Where the base branch's results come from: artifact, file:PATH, rerun, or several of them in order; auto "
        "is artifact on a pull request, none elsewhere.",
        default="auto",
        parse=_baseline,
        metavar="WHERE",
    ),
    Setting(
        input="rule-changes",
        group=VERDICT,
        help="What holds for cases that the base branch has, where a pull request changes their criteria: block, the "
        "stricter of both until somebody sets the label `agent-eval: accept rules`, or report, the pull request's.",
        default="block",
        parse=_choice("block", "report"),
        metavar="WORD",
    ),
    Setting(
        input="removed-cases",
        group=VERDICT,
        help="report or block: whether a pull request that removes eval cases of the base branch fails until that is "
        "accepted with the same label.",
        default="report",
        parse=_choice("report", "block"),
        metavar="WORD",
    ),
    Setting(
        input="base-ref",
        group=BASELINE,
        help="The branch or commit to compare with where no pull request says it: on a laptop, in GitLab, in Jenkins.",
        parse=_text,
        in_file=False,
        metavar="REF",
    ),
    Setting(
        input="base-branches",
        group=CI,
        help="Names or globs of branches besides the default one whose runs record baselines, e.g. release/*.",
        parse=words,
        in_file=False,
        metavar="PATTERN",
    ),
    Setting(
        input="baseline-evals",
        group=BASELINE,
        help="Whose eval files and criteria `rerun` and confirmations on the base use: head, so that only the agent "
        "differs, or base.",
        default="head",
        parse=_choice("head", "base"),
        metavar="WORD",
    ),
    Setting(
        input="artifact-name",
        group=CI,
        help="The artifact that the workflow uploads the output directory as, and that baselines are taken from.",
        default="agent-eval-results",
        parse=_name,
        metavar="NAME",
    ),
    Setting(
        input="max-extra-runs",
        group=BASELINE,
        help="Runs that may be added, on head and base together, to confirm cases that look worse than on the base. "
        "Default: up to eight times the suite, at least 100; few need more than half a suite.",
        parse=_optional(_count(0)),
        metavar="N",
    ),
    Setting(
        input="confirm-on-base",
        group=BASELINE,
        help="auto, always or never: whether suspicious cases also run again on the base. auto does where its stored "
        "runs are too few to decide.",
        default="auto",
        parse=_choice("auto", "always", "never"),
        metavar="WORD",
    ),
    Setting(
        input="history",
        group=BASELINE,
        help="Recorded runs of the base branch that a baseline keeps of each case (with `num-runs: 3` each of them has "
        "three runs of the case), so that the next gate knows what is normal.",
        default="20",
        parse=_count(1),
        metavar="N",
    ),
    Setting(
        input="comment",
        group=CI,
        help="When to write the pull-request comment: always, on-change (once something is not as on the base), "
        "on-failure, or never.",
        default="always",
        parse=_choice("always", "on-change", "on-failure", "never"),
        metavar="WORD",
    ),
    Setting(
        input="comment-key",
        group=CI,
        help="Tells several comments on one pull request apart, e.g. one for each matrix job.",
        parse=_name,
        metavar="NAME",
    ),
    Setting(
        input="comment-author",
        group=CI,
        help="Who the token writes as, e.g. my-app[bot] for a GitHub App of your own. Default: found out, which an App "
        "can't.",
        parse=_text,
        in_file=False,
        metavar="LOGIN",
    ),
    Setting(
        input="mode",
        group=CI,
        help="auto, gate, or publish: in a workflow_run job, write the comment for the finished run of a fork.",
        default="auto",
        parse=_choice("auto", "gate", "publish"),
        in_file=False,
        metavar="WORD",
    ),
    Setting(
        input="github-token",
        group=CI,
        help="Reads the base branch's results and writes the comment. Elsewhere the variable GITHUB_TOKEN.",
        parse=_text,
        in_file=False,
        secret="GITHUB_TOKEN",  # noqa: S106 - a variable's name
        metavar="TOKEN",
    ),
    Setting(
        input="without-keys",
        group=JUDGES,
        help="When a judge has no key: invalid ends the run, inconclusive says so at its end, deterministic-only gates "
        "on what needs none. auto is deterministic-only for forks and Dependabot, else invalid.",
        default="auto",
        parse=_choice("auto", "invalid", "inconclusive", "deterministic-only"),
        metavar="WORD",
    ),
    Setting(
        input="allow-pull-request-target",
        group=CI,
        help="Run a fork's code on pull_request_target, where it can reach your secrets. Don't.",
        default="false",
        parse=_switch,
        in_file=False,
        metavar="BOOL",
    ),
    Setting(
        input="on-inconclusive",
        group=VERDICT,
        help="fail or pass: what the exit code says when errors kept cases from being judged.",
        default="fail",
        parse=_choice("fail", "pass"),
        metavar="WORD",
    ),
    Setting(
        input="details",
        group=RESULTS,
        help="Which cases the console shows turn by turn: failed, those that did not pass, or all, each in full as "
        "`agent-eval show` prints it.",
        default="failed",
        parse=_choice("failed", "all"),
        metavar="WORD",
    ),
    Setting(
        input="output-dir",
        group=RESULTS,
        help="Where results.json, recordings.jsonl.gz, junit.xml, summary.md and logs go.",
        default="agent-eval-results",
        parse=_directory,
        in_file=False,
        metavar="DIR",
    ),
    Setting(
        input="cache-dir",
        group=RESULTS,
        help="Where the agents' environments are kept. Default: the user's cache; in the image /var/lib/agent-eval.",
        parse=_path,
        in_file=False,
        metavar="DIR",
    ),
    Setting(
        input="resume",
        group=RUNS,
        help="Go on where a killed run with the same output-dir stopped; what is recorded is not run again.",
        default="false",
        parse=_switch,
        metavar="BOOL",
    ),
)
"""Every setting, in the order in which people read about them."""

BY_INPUT: Mapping[str, Setting] = {setting.input: setting for setting in SETTINGS}
