"""The settings of one run, read from flags, action inputs and agent-eval.toml.

Precedence: a flag, an action input (`INPUT_*`), agent-eval.toml, the default. All mistakes are reported at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal

from agent_eval.agents.driver import ServerSpec
from agent_eval.agents.tape_rules import Miss, Mode, ToolRule
from agent_eval.core.files import MAX_SETTINGS, read_regular
from agent_eval.core.problem import Problem, Severity
from agent_eval.gate.policy import Policy
from agent_eval.settings.options import BY_INPUT, SETTINGS, Setting
from agent_eval.settings.toml_file import CONFIG_FILE, FileSettings, nearest, read_settings_file, unknown, unreadable

if TYPE_CHECKING:
    from agent_eval.runner import Part


def _option(name: str) -> Any:
    """The field of a row of SETTINGS. It takes the row's default."""
    setting = BY_INPUT[name]
    return field(default_factory=setting.parsed_default, repr=setting.secret is None)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one run. Each row of SETTINGS has a field, which adds the type of the parsed value."""

    root: Path
    """The repository: the current directory. Paths are relative to it."""
    paths: tuple[str, ...] = _option("paths")
    include: tuple[str, ...] = _option("include")
    exclude: tuple[str, ...] = _option("exclude")
    config: Path | None = _option("config")
    initial_session: Path | None = _option("initial-session")
    agent: str | None = _option("agent")
    agents: Mapping[str, str] = field(default_factory=dict)
    """`[agents]` of agent-eval.toml: patterns of eval files to agents."""
    agent_python: str | None = _option("agent-python")
    agent_requirements: Path | None = _option("agent-requirements")
    agent_cwd: str = _option("agent-cwd")
    agent_setup: str | None = _option("agent-setup")
    agent_env: str | None = _option("agent-env")
    a2a_ignore_state: bool = _option("a2a-ignore-state")
    agent_headers: Mapping[str, str] = _option("agent-headers")
    remote_user_id: Literal["unique", "as-given"] = _option("remote-user-id")
    keep_sessions: bool = _option("keep-sessions")
    workers: int | None = _option("workers")
    num_runs: int = _option("num-runs")
    min_pass_rate: float = _option("min-pass-rate")
    concurrency: int | None = _option("concurrency")
    """None: `auto`; also for `workers`."""
    turn_timeout: float = _option("turn-timeout")
    case_timeout: float = _option("case-timeout")
    run_timeout: float = _option("run-timeout")
    fail_fast: bool = _option("fail-fast")
    only_affected: bool = _option("only-affected")
    tools: Mode = _option("tools")
    tools_miss: Miss = _option("tools-miss")
    tools_stale: Literal["error", "warn"] = _option("tools-stale")
    tool_rules: tuple[ToolRule, ...] = ()
    """`[[tool]]` of agent-eval.toml, in order."""
    shard: Part | None = _option("shard")
    shard_plan: Path | None = _option("shard-plan")
    shards: tuple[str, ...] = _option("shards")
    run_missing: bool = _option("run-missing")
    on_inconclusive: Literal["fail", "pass"] = _option("on-inconclusive")
    judge_model: str | None = _option("judge-model")
    judge_api_key: str | None = _option("judge-api-key")
    judge_base_url: str | None = _option("judge-base-url")
    judge: str = _option("judge")
    judge_cache: str = _option("judge-cache")
    max_judge_calls: int | None = _option("max-judge-calls")
    max_tokens: int | None = _option("max-tokens")
    max_cost: float | None = _option("max-cost")
    servers: Mapping[str, ServerSpec] = field(default_factory=dict)
    """`[servers.NAME]` of agent-eval.toml, by name."""
    prices: Mapping[str, Any] = field(default_factory=dict)
    """`[prices]` of agent-eval.toml, as written."""
    policy: Policy = field(default_factory=Policy)
    """`[[policy]]`, `[[quarantine]]` and `max-quarantined` of agent-eval.toml."""
    gate: Literal["auto", "thresholds", "regressions", "both", "advisory"] = _option("gate")
    gate_jobs: int = _option("gate-jobs")
    baseline: str = _option("baseline")
    rule_changes: Literal["block", "report"] = _option("rule-changes")
    removed_cases: Literal["report", "block"] = _option("removed-cases")
    base_ref: str | None = _option("base-ref")
    base_branches: tuple[str, ...] = _option("base-branches")
    baseline_evals: Literal["head", "base"] = _option("baseline-evals")
    artifact_name: str = _option("artifact-name")
    max_extra_runs: int | None = _option("max-extra-runs")
    confirm_on_base: Literal["auto", "always", "never"] = _option("confirm-on-base")
    history: int = _option("history")
    comment: Literal["always", "on-change", "on-failure", "never"] = _option("comment")
    comment_key: str = _option("comment-key")
    comment_author: str | None = _option("comment-author")
    mode: Literal["auto", "gate", "publish", "merge", "link"] = _option("mode")
    github_token: str | None = _option("github-token")
    without_keys: Literal["auto", "invalid", "inconclusive", "deterministic-only"] = _option("without-keys")
    allow_pull_request_target: bool = _option("allow-pull-request-target")
    details: Literal["failed", "all"] = _option("details")
    report: Literal["full", "failing", "scores", "off"] = _option("report")
    report_size: float = _option("report-size")
    report_url: str | None = _option("report-url")
    output_dir: Path = _option("output-dir")
    cache_dir: Path | None = _option("cache-dir")
    resume: bool = _option("resume")
    sources: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Where each setting was given, in words, by input name. Defaults are not listed."""

    @property
    def output(self) -> Path:
        """The output directory, absolute."""
        return self.root.absolute() / self.output_dir

    def in_checkout(self, root: Path, move: Callable[[str], str]) -> Settings:
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
            agent_requirements=moved(self.agent_requirements),
            agent_cwd=move(self.agent_cwd),
        )


def read_settings(
    root: Path,
    *,
    flags: Mapping[str, str | Sequence[str]] | None = None,
    environ: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    text: str | EllipsisType | None = ...,
) -> tuple[Settings, list[Problem]]:
    """Reads all sources.

    Args:
        root: The repository, which may contain agent-eval.toml.
        flags: Values from the command line, by input name. Lists are split already.
        environ: The environment with the `INPUT_*` variables; None outside the action.
        secrets: The environment with the variables of the secrets.
        text: The content of agent-eval.toml, None if there is no such file, or `...` to read the file in `root`. On a
            pull request, the base branch's file applies.

    Returns:
        The settings and all problems. Nothing must be run after an error. Invalid settings have their default, so that
        the error can be reported to the configured output directory.
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    in_file = _read_file(root / CONFIG_FILE) if isinstance(text, EllipsisType) else read_settings_file(text or "")
    problems = list(in_file.problems)
    for setting in SETTINGS:
        raw, source = _raw_value(setting, flags or {}, environ or {}, secrets or {}, in_file.values)
        if source != setting.input:
            sources[setting.input] = source
        if not isinstance(raw, str):
            values[setting.field] = tuple(raw)
            continue
        try:
            values[setting.field] = setting.parse(raw)
        except ValueError as error:
            values[setting.field] = setting.parsed_default()
            from_file = source.endswith(CONFIG_FILE)
            problems.append(
                Problem(
                    severity=Severity.ERROR,
                    code="setting-invalid",
                    message=f"{source}: {raw!r} {error}." if str(error).startswith("must") else f"{source}: {error}.",
                    hint=setting.help,
                    file=CONFIG_FILE if from_file else None,
                    line=in_file.lines.get((setting.input,)) if from_file else None,
                )
            )
    for name in environ or {}:
        # GitHub warns about unknown inputs only in the log, and the run would use the default of a misspelt one.
        input = name.removeprefix("INPUT_").lower()
        if name.startswith("INPUT_") and input not in BY_INPUT and (near := nearest(input)):
            problems.append(unknown(f"the input `{input}`", near, None, None))
    problems += _headers_for_file(values, sources, in_file)
    problems += _unknown_servers(values["agent"], in_file)
    problems += _part_conflicts(values, sources)
    settings = Settings(
        root=root,
        agents=in_file.agents,
        servers=in_file.servers,
        prices=in_file.prices,
        tool_rules=in_file.tool_rules,
        policy=replace(in_file.policy, jobs=values["gate_jobs"]),
        sources=sources,
        **values,
    )
    return settings, problems


def _headers_for_file(values: Mapping[str, Any], sources: Mapping[str, str], in_file: FileSettings) -> list[Problem]:
    """An error for each remote agent that agent-eval.toml names while the workflow gives headers: a pull request could
    change the address, and get the credentials.
    """
    if not values["agent_headers"]:
        return []
    from agent_eval.agents.registry import driver_of

    named: dict[tuple[str | int, ...], str] = {("agents", pattern): agent for pattern, agent in in_file.agents.items()}
    if sources.get("agent", "").endswith(CONFIG_FILE):
        named["agent",] = values["agent"]
    return [
        Problem(
            severity=Severity.ERROR,
            code="remote-agent-headers",
            message=f"`agent-headers` is set, but the address {agent} is in {CONFIG_FILE}, which a pull request can "
            "change. The headers would go to any address that it names.",
            hint="Name the agent in the workflow: the input `agent`, or the flag `--agent`.",
            file=CONFIG_FILE,
            line=in_file.lines.get(key),
        )
        for key, agent in named.items()
        if agent and driver_of(agent).remote
    ]


def _unknown_servers(agent: str | None, in_file: FileSettings) -> list[Problem]:
    """An error for each agent `server:NAME` without its table."""
    from agent_eval.agents.servers import PREFIX

    named: dict[tuple[str | int, ...], str] = {("agents", pattern): name for pattern, name in in_file.agents.items()}
    named["agent",] = agent or ""
    declared = {key[1] for key in in_file.lines if len(key) > 1 and key[0] == "servers"}  # valid or not
    return [
        Problem(
            severity=Severity.ERROR,
            code="server-unknown",
            message=f"The agent `{name}` has no table [servers.{name.removeprefix(PREFIX)}] in {CONFIG_FILE}.",
            hint=f"Known servers: {', '.join(in_file.servers) or 'none'} (docs/remote-agents.md).",
            file=CONFIG_FILE,
            line=in_file.lines.get(key),
        )
        for key, name in named.items()
        if name.startswith(PREFIX) and name.removeprefix(PREFIX) not in {*in_file.servers, *declared}
    ]


def _part_conflicts(values: Mapping[str, Any], sources: Mapping[str, str]) -> list[Problem]:
    """An error for each setting that contradicts `shard`."""
    if values["shard"] is None:
        return []
    conflicts = {
        "fail-fast": values["fail_fast"]
        and "the other parts would not end with it, and the results depend on the split",
        "mode": values["mode"] in {"merge", "publish"} and "a part is run before the parts are merged",
    }
    return [
        Problem(
            severity=Severity.ERROR,
            code="setting-invalid",
            message=f"{sources.get(name, name)} and {sources['shard']} exclude each other: {reason}.",
            hint=f"Remove `{name}` or `shard`.",
        )
        for name, reason in conflicts.items()
        if reason
    ]


def _read_file(path: Path) -> FileSettings:
    try:
        return read_settings_file(read_regular(path, MAX_SETTINGS).decode("utf-8"))
    except FileNotFoundError:
        if path.is_symlink():
            return FileSettings(problems=(unreadable("it is a broken symbolic link"),))
        return FileSettings()
    except OSError as error:
        return FileSettings(problems=(unreadable(error.strerror or str(error)),))
    except UnicodeDecodeError as error:
        return FileSettings(problems=(unreadable(str(error)),))


def _raw_value(
    setting: Setting,
    flags: Mapping[str, str | Sequence[str]],
    environ: Mapping[str, str],
    secrets: Mapping[str, str],
    table: Mapping[str, str | list[str]],
) -> tuple[str | Sequence[str], str]:
    """The text for a setting from the source with the highest precedence, and the name of that source."""
    if setting.input in flags:
        return flags[setting.input], f"--{setting.input}"
    # The runner passes an omitted input as an empty text (actions/runner).
    if (text := environ.get(setting.variable, "")).strip():
        return text, f"input {setting.input}"
    if setting.secret is not None and (text := secrets.get(setting.secret, "")):
        return text, setting.secret
    if setting.input in table:
        return table[setting.input], f"{setting.input} in {CONFIG_FILE}"
    return setting.default, setting.input
