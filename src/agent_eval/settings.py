"""What holds for one run, read from flags, action inputs and agent-eval.toml.

The nearest wins: a flag, then an action input (`INPUT_*`), then agent-eval.toml, then the default. All mistakes are
told at once.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agent_eval.core.problem import Problem, Severity
from agent_eval.core.toml_lines import lines_of
from agent_eval.gate.policy import Policy
from agent_eval.models.prices import read_prices
from agent_eval.options import BY_INPUT, SETTINGS, Setting, words
from agent_eval.policy_file import POLICY_KEYS, read_policy

CONFIG_FILE = "agent-eval.toml"


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
    policy: Policy = field(default_factory=Policy)
    """`[[policy]]`, `[[quarantine]]` and `max-quarantined` of agent-eval.toml."""
    gate: Literal["auto", "thresholds", "regressions", "both", "advisory"] = "auto"
    baseline: str = "auto"
    base_ref: str | None = None
    base_branches: tuple[str, ...] = ()
    baseline_evals: Literal["head", "base"] = "head"
    artifact_name: str = "agent-eval-results"
    max_extra_runs: int | None = None
    confirm_on_base: Literal["auto", "always", "never"] = "auto"
    history: int = 10
    comment: Literal["always", "on-change", "on-failure", "never"] = "always"
    comment_key: str = ""
    mode: Literal["auto", "gate", "publish"] = "auto"
    github_token: str | None = field(default=None, repr=False)
    without_keys: Literal["auto", "invalid", "inconclusive", "deterministic-only"] = "auto"
    allow_pull_request_target: bool = False
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
    table, agents, prices, policy = _read_file(root / CONFIG_FILE, problems)
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
    return Settings(root=root, agents=agents, prices=prices, policy=policy, **values), problems


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
    known = [*BY_INPUT, "agents", "prices", *POLICY_KEYS]
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.7)), None)


def _unknown(what: str, near: str | None, file: str | None, line: int | None) -> Problem:
    return Problem(
        severity=Severity.ERROR,
        code="setting-unknown",
        message=f"There is no setting for {what}.",
        hint=f"Did you mean `{near}`?"
        if near
        else f"Known settings: {', '.join(BY_INPUT)}, and the tables [agents], [prices], policy and quarantine.",
        file=file,
        line=line,
    )


def _read_file(
    path: Path, problems: list[Problem]
) -> tuple[dict[str, str | list[str]], dict[str, str], dict[str, Any], Policy]:
    """The settings in agent-eval.toml, as text or lists of texts, its mapping of agents, its prices, and its policy."""
    try:
        text = path.read_text("utf-8")
        table = tomllib.loads(text)
    except FileNotFoundError:
        return {}, {}, {}, Policy()
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
        return {}, {}, {}, Policy()
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
    policy, wrong = read_policy(table, lines_of(text), CONFIG_FILE)
    problems += wrong
    for name, value in table.items():
        if name in POLICY_KEYS:
            continue
        if name not in BY_INPUT:
            problems.append(_unknown(f"`{name}`", _near(name), CONFIG_FILE, _line_of(path, name)))
        elif not BY_INPUT[name].in_file:
            problems.append(_not_in_file(path, name))
        elif isinstance(value, list) and BY_INPUT[name].parse is words and all(isinstance(one, str) for one in value):
            values[name] = value
        elif isinstance(value, bool):
            values[name] = str(value).lower()
        elif isinstance(value, str | int | float):
            values[name] = str(value)
        else:
            problems.append(_wrong_type(f"`{name}`", "has a value of the wrong type", path, name))
    return values, agents, prices, policy


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
