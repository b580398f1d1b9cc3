"""The settings of one run: each is declared once, as a field of `Settings`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from agent_eval.gate.policy import Policy
from agent_eval.settings import parsers
from agent_eval.settings.options import (
    AGENT,
    BASELINE,
    CI,
    FILES,
    JUDGES,
    RESULTS,
    RUNS,
    VERDICT,
    Setting,
    declare,
    option,
)
from agent_eval_agents.driver import ServerSpec
from agent_eval_agents.tape_rules import Mode, ToolRule, VolatileRule


@dataclass(frozen=True, kw_only=True)
@declare
class Settings:
    """The settings of one run, with their parsed values."""

    root: Path
    """The repository: the current directory. Paths are relative to it."""
    paths: tuple[str, ...] = option(
        FILES,
        "Eval files, directories or globs; `file.json:case1,case2` selects cases. Default: all eval files "
        "below the current directory.",
        metavar="PATH",
        basic=True,
    )
    exclude: tuple[str, ...] = option(
        FILES,
        "Skip files, configs and directories that match one of these patterns (.gitignore syntax). Separate "
        "patterns with spaces in the input; repeat the flag.",
    )
    config: Path | None = option(
        FILES, "A test_config.json for all eval files, instead of the nearest one to each file."
    )
    agent: str | None = option(
        AGENT,
        "The agent: a directory, a dotted module name, adk:URL, a2a:URL or recorded:FILE. Default: selected "
        "for each file.",
        metavar="AGENT",
        basic=True,
    )
    agent_python: str | None = option(
        AGENT,
        "The Python interpreter for the agent, if its environment already exists. Default: uv creates an environment.",
        metavar="PYTHON",
    )
    agent_requirements: Path | None = option(
        AGENT,
        "The requirements.txt, pyproject.toml or uv.lock to create the agent's environment from. Default: the "
        "one nearest to the agent.",
    )
    agent_cwd: str = option(
        AGENT,
        "Working directory of the agent's process: project (the nearest directory above the agent with a "
        "pyproject.toml, requirements.txt, setup.py or setup.cfg, else the root), root, agent, or a path.",
        default="project",
        parse=parsers.directory_name,
        metavar="DIR",
    )
    agent_setup: str | None = option(
        AGENT,
        "A shell command to run first, e.g. to install system packages. Runs as the gate's user (root in the "
        "image), outside the agent's sandbox.",
        metavar="COMMAND",
        in_file=False,
    )
    agent_env: str | None = option(
        AGENT,
        "Environment variables for the agent, names or globs separated by commas; a leading + adds to the "
        "default list.",
        parse=parsers.variables,
        metavar="NAMES",
        in_file=False,
        basic=True,
    )
    agent_headers: Mapping[str, str] = option(
        AGENT,
        "Headers for the server of a remote agent (`adk:URL`), one `Name: value` on each line, sent only to the "
        "origin of the URL in `agent`. On the command line: the variable AGENT_EVAL_AGENT_HEADERS.",
        parse=parsers.headers,
        metavar="HEADERS",
        in_file=False,
        secret="AGENT_EVAL_AGENT_HEADERS",  # noqa: S106 - a variable's name
    )
    remote_sessions: frozenset[str] = option(
        AGENT,
        "Exceptions for sessions of remote agents, separated by commas: as-given (user ids without a random suffix), "
        "keep (sessions are not deleted), ignore-state (cases run without an initial state that A2A can't pass).",
        parse=parsers.some_of("as-given", "keep", "ignore-state"),
        metavar="WORDS",
    )
    workers: int | None = option(
        AGENT,
        "Processes per agent, each with many sessions; or auto: one, a second one if the agent loads quickly and has "
        "many sessions, and further ones up to the number of cores while they are busy.",
        default="auto",
        parse=parsers.auto,
    )
    num_runs: int = option(RUNS, "Number of runs of each case.", default="1", basic=True)
    min_pass_rate: float = option(
        RUNS,
        "Minimum share of a case's runs that must pass, from 0 to 1, in addition to its mean scores.",
        default="1.0",
        parse=parsers.rate,
        metavar="RATE",
        basic=True,
    )
    concurrency: int | None = option(
        RUNS,
        "Number of concurrent runs, or auto: 8 at first (4 if an agent answers through a server), up to 64 while the "
        "model provider neither refuses requests nor becomes slower.",
        default="auto",
        parse=parsers.auto,
    )
    """None: `auto`; also for `workers`."""
    turn_timeout: float = option(RUNS, "Maximum time for one turn, in seconds.", default="180")
    case_timeout: float = option(RUNS, "Maximum time for all turns of one run of a case, in seconds.", default="900")
    run_timeout: float = option(
        RUNS, "Maximum time for the whole run, in seconds; the remaining cases are reported as not run.", default="3600"
    )
    fail_fast: bool = option(RUNS, "Stop at the first failed case.")
    replay: Literal["off", "tools", "all", "missing-live"] = option(
        RUNS,
        "What is answered from the tapes beside the eval files: off (nothing), tools (no tool runs), all (no tool "
        "runs and no model is asked; a case that needs more is inconclusive), or missing-live (the same, but such a "
        "case runs live).",
        default="off",
    )
    record: Literal["off", "all", "missing"] = option(
        RUNS,
        "What is recorded on the tapes: off (nothing), all (each case's calls of tools and models), or missing "
        "(tools that are on the tape are answered from it; the other calls run and are added).",
        default="off",
    )
    shard: parsers.Shard | None = option(
        RUNS,
        "Run only part I of N of the cases, e.g. 2/5. `agent-eval merge` (`mode: merge`) makes one verdict of all "
        "parts. The exit code of a part is 0 if it is complete, passed or not, else 3.",
        parse=parsers.part,
        metavar="I/N",
        in_file=False,
    )
    shard_plan: Path | None = option(
        RUNS,
        "The output of `agent-eval validate --plan --durations RESULTS --format json`, to balance parts by recorded "
        "durations. Every part needs the same file.",
        in_file=False,
    )
    judge_model: str | None = option(
        JUDGES,
        "The judge model for criteria that don't name one, e.g. openai/gpt-4o. Default: gemini-2.5-flash, as in ADK.",
        metavar="MODEL",
        basic=True,
    )
    judge_api_key: str | None = option(
        JUDGES,
        "API key of the judge model. Default: the provider's own variable, e.g. GOOGLE_API_KEY.",
        metavar="KEY",
        in_file=False,
        secret="AGENT_EVAL_JUDGE_API_KEY",  # noqa: S106 - a variable's name
        basic=True,
    )
    judge_base_url: str | None = option(
        JUDGES,
        "Base URL of the judge model's API, e.g. for a gateway or your own server.",
        metavar="URL",
        in_file=False,
    )
    judge_cache: str = option(
        JUDGES,
        "Directory that caches the judge's replies, so that the same question is paid for once; off disables it.",
        default="off",
        parse=parsers.text,
        metavar="DIR",
        in_file=False,
    )
    max_judge_calls: int | None = option(
        JUDGES, "Maximum number of judge and simulator calls; remaining criteria are reported as not evaluated."
    )
    max_tokens: int | None = option(
        JUDGES,
        "Maximum number of tokens for judge and simulator calls; remaining criteria are reported as not evaluated.",
    )
    max_cost: float | None = option(
        JUDGES,
        "Maximum cost in US dollars of agent, judges and simulated users together, where tokens and price are known.",
        parse=parsers.optional(parsers.dollars),
        metavar="USD",
        basic=True,
    )
    gate: Literal["auto", "thresholds", "regressions", "both", "advisory"] = option(
        VERDICT,
        "What decides: thresholds, regressions, both, or advisory (never fails). auto: regressions if there "
        "is a baseline, else thresholds.",
        default="auto",
        basic=True,
    )
    gate_jobs: int = option(
        VERDICT,
        "Number of jobs that each gate the same pull request, e.g. one per agent of a matrix. The error rate `alpha` "
        "is divided by it.",
        default="1",
    )
    baseline: str = option(
        BASELINE,
        f"Source of the base branch's results: {parsers.SOURCES}, or several. auto: artifact on pull requests, else "
        "none.",
        default="auto",
        parse=parsers.baseline,
        metavar="SOURCE",
        basic=True,
    )
    rule_changes: Literal["block", "block-removals", "report"] = option(
        VERDICT,
        "If a pull request changes criteria of existing cases, or removes cases, until someone sets the label "
        "`agent-eval: accept rules`. block: the stricter criteria decide. block-removals: the same, and removed "
        "cases fail it. report: its own criteria decide.",
        default="block",
    )
    base_ref: str | None = option(
        BASELINE,
        "Branch or commit to compare with outside of pull requests: in Jenkins, locally (there with baseline: rerun).",
        metavar="REF",
        in_file=False,
        basic=True,
    )
    base_branches: tuple[str, ...] = option(
        CI,
        "Names or globs of branches, besides the default branch, whose runs record baselines, e.g. release/*.",
        in_file=False,
    )
    name: str = option(
        CI,
        "Name of this gate if several jobs gate one pull request, e.g. one per agent of a matrix: each has its own "
        "comment and artifact, `agent-eval-results-NAME`.",
        parse=parsers.identifier,
        metavar="NAME",
        in_file=False,
    )
    max_extra_runs: int | None = option(
        BASELINE,
        "Maximum number of additional runs, of head and base branch together, to confirm suspected regressions. "
        "Default: up to eight times the suite, at least 100; few pull requests need more than half a suite.",
        parse=parsers.optional(parsers.count(0)),
    )
    confirm_on_base: Literal["auto", "always", "never"] = option(
        BASELINE,
        "Whether suspected regressions also run again on the base branch: auto (if its stored runs are too few "
        "to decide), always, or never.",
        default="auto",
    )
    history: int = option(
        BASELINE,
        "Number of recorded runs of the base branch that a baseline keeps of each case, to tell flaky cases from "
        "regressions.",
        default="20",
    )
    comment: Literal["always", "on-change", "on-failure", "never"] = option(
        CI,
        "When to write the pull-request comment: always, on-change (only if results differ), on-failure, or never.",
        default="always",
        basic=True,
    )
    comment_author: str | None = option(
        CI,
        "Login that the token comments as, e.g. my-app[bot]. Detected automatically except for GitHub Apps.",
        metavar="LOGIN",
        in_file=False,
    )
    mode: Literal["auto", "gate", "publish", "merge", "merge-and-run", "link"] = option(
        CI,
        "gate runs the evals; publish writes the comment for the finished run of a fork's pull request, in a "
        "workflow_run job; auto selects one of them by the event; merge makes one verdict of the parts of a run "
        "(`shard`) in `shards`; merge-and-run also runs the cases of parts without results; link adds the address of "
        "the uploaded report.html to the comment of the gate that ran before in the same job.",
        default="auto",
        in_file=False,
    )
    github_token: str | None = option(
        CI,
        "Token to read the base branch's results and to write the comment. On the command line: the variable "
        "GITHUB_TOKEN; on GitLab GITLAB_TOKEN.",
        metavar="TOKEN",
        in_file=False,
        secret="GITHUB_TOKEN",  # noqa: S106 - a variable's name
    )
    without_keys: Literal["auto", "invalid", "inconclusive", "deterministic-only"] = option(
        JUDGES,
        "If a judge has no API key: invalid (end the run), inconclusive (report it at the end), or "
        "deterministic-only (use the criteria that need no key). auto: deterministic-only for forks and Dependabot, "
        "else invalid.",
        default="auto",
    )
    allow_pull_request_target: bool = option(
        CI,
        "Dangerous: run a fork's code on pull_request_target, where it can reach your secrets. Only for jobs "
        "that a maintainer approves.",
        in_file=False,
    )
    on_inconclusive: Literal["fail", "pass"] = option(
        VERDICT, "Exit code of an inconclusive run: fail (3) or pass (0).", default="fail"
    )
    report: Literal["full", "failing", "scores", "off"] = option(
        RESULTS,
        "What report.html shows: full (every conversation), failing (conversations only of cases that did not "
        "pass or changed), scores (no conversation and no text of agents or users) or off (no page).",
        default="full",
    )
    output_dir: Path = option(
        RESULTS,
        "Directory for results.json, recordings.jsonl.gz, report.html, junit.xml, summary.md and logs.",
        default="agent-eval-results",
        parse=parsers.directory,
        metavar="DIR",
        in_file=False,
    )
    cache_dir: Path | None = option(
        RESULTS,
        "Directory for the agents' environments. Default: the user's cache directory; "
        "/var/lib/agent-eval/cache in the image.",
        metavar="DIR",
        in_file=False,
    )
    resume: bool = option(RUNS, "Continue a killed run that had the same output-dir; recorded runs are not repeated.")
    initial_session: Path | None = None
    """A JSON file with the initial session of legacy test files (lists of turns); from Python only."""
    shards: tuple[str, ...] = ("shards",)
    """What `agent-eval merge` reads the results of the parts from, relative to the root: directories, which are
    searched two levels deep, or files."""
    agents: Mapping[str, str] = field(default_factory=dict)
    """`[agents]` of agent-eval.toml: patterns of eval files to agents."""
    servers: Mapping[str, ServerSpec] = field(default_factory=dict)
    """`[servers.NAME]` of agent-eval.toml, by name."""
    tool_rules: tuple[ToolRule, ...] = ()
    """`[[tool]]` of agent-eval.toml, in order."""

    @property
    def tool_args(self) -> dict[str, dict[str, Any]]:
        """How criteria compare the args of tools: of several entries with a name, the last one counts."""
        rules: dict[str, dict[str, Any]] = {}
        for rule in self.tool_rules:
            if rule.args:
                rules[rule.name] = {**rules.pop(rule.name, {}), **rule.args}
        return rules

    volatile_rules: tuple[VolatileRule, ...] = ()
    """`[[volatile]]`, in order."""
    prices: Mapping[str, Any] = field(default_factory=dict)
    """`[prices]` of agent-eval.toml, as written."""
    policy: Policy = field(default_factory=Policy)
    """`[[policy]]`, `[[quarantine]]` and `max-quarantined` of agent-eval.toml."""
    sources: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Where each setting was given, in words, by input name. Defaults are not listed."""

    @property
    def artifact(self) -> str:
        """Name of the artifact that the workflow uploads the output directory as; baselines are downloaded from it."""
        return "-".join(filter(None, ("agent-eval-results", self.name)))

    @property
    def tape_mode(self) -> Mode:
        """What this run does with tapes, by `replay` and `record`; `live`: nothing."""
        # Of both, at most one is not off, or the settings are invalid (`reading`).
        recording: Mapping[str, Mode] = {"all": "record", "missing": "record-missing"}
        replaying: Mapping[str, Mode] = {"off": "live", "tools": "replay"}
        return recording.get(self.record) or replaying.get(self.replay, "all")

    @property
    def merges(self) -> bool:
        """Whether the results of parts are read, instead of running the cases."""
        return self.mode in {"merge", "merge-and-run"}

    @property
    def output(self) -> Path:
        """The output directory, absolute."""
        return self.root.absolute() / self.output_dir

    @property
    def written_directories(self) -> list[Path]:
        """Where this run, and the parts that it belongs to, write."""
        folders = [] if self.judge_cache == "off" else [self.judge_cache]
        folders += self.shards if self.merges or self.shard is not None else ()
        folders += [] if self.cache_dir is None else [str(self.cache_dir)]
        return [self.output, *(self.root / folder for folder in folders)]

    def in_checkout(self, root: Path, move: Callable[[str], str]) -> "Settings":
        """The same settings for another checkout of the repository.

        Args:
            root: The directory of that checkout that corresponds to `root`.
            move: Maps an absolute path inside this checkout into the other one and returns other texts unchanged, so
                that the other checkout never runs with files of this one.
        """

        def moved(path: Path | None) -> Path | None:
            return None if path is None else Path(move(str(path)))

        return replace(
            self,
            root=root,
            paths=tuple(move(path) for path in self.paths),
            config=moved(self.config),
            initial_session=moved(self.initial_session),
            agent=None if self.agent is None else move(self.agent),
            agents={pattern: move(agent) for pattern, agent in self.agents.items()},
            # Not `agent_python`: both sides share the interpreter (`interpreter_for_base`).
            agent_requirements=moved(self.agent_requirements),
            agent_cwd=move(self.agent_cwd),
        )


SETTINGS: tuple[Setting, ...] = tuple(each.metadata["setting"] for each in fields(Settings) if each.metadata)
"""Every setting, in the order of the documentation."""
BY_INPUT: Mapping[str, Setting] = {setting.input: setting for setting in SETTINGS}
