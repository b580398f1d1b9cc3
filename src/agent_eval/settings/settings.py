"""What holds for one run, read from flags, action inputs and agent-eval.toml.

The nearest wins: a flag, then an action input (`INPUT_*`), then agent-eval.toml, then the default. All mistakes are
told at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import EllipsisType
from typing import Any, Literal

from agent_eval.core.files import MAX_SETTINGS, read_regular
from agent_eval.core.problem import Problem, Severity
from agent_eval.gate.policy import Policy
from agent_eval.settings.options import BY_INPUT, SETTINGS, Setting
from agent_eval.settings.toml_file import CONFIG_FILE as CONFIG_FILE
from agent_eval.settings.toml_file import FileSettings, nearest, read_settings_file, unknown, unreadable


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
    agent_cwd: str = "project"
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
    rule_changes: Literal["block", "report"] = "block"
    removed_cases: Literal["report", "block"] = "report"
    base_ref: str | None = None
    base_branches: tuple[str, ...] = ()
    baseline_evals: Literal["head", "base"] = "head"
    artifact_name: str = "agent-eval-results"
    max_extra_runs: int | None = None
    confirm_on_base: Literal["auto", "always", "never"] = "auto"
    history: int = 20
    comment: Literal["always", "on-change", "on-failure", "never"] = "always"
    comment_key: str = ""
    comment_author: str | None = None
    mode: Literal["auto", "gate", "publish"] = "auto"
    github_token: str | None = field(default=None, repr=False)
    without_keys: Literal["auto", "invalid", "inconclusive", "deterministic-only"] = "auto"
    allow_pull_request_target: bool = False
    details: Literal["failed", "all"] = "failed"
    output_dir: Path = Path("agent-eval-results")
    cache_dir: Path | None = None
    resume: bool = False
    sources: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """By input name where a setting was given, in words; without those that have their default."""

    @property
    def output(self) -> Path:
        """The output directory, absolute."""
        return self.root.absolute() / self.output_dir

    def in_checkout(self, root: Path, move: Callable[[str], str]) -> Settings:
        """The same settings for another checkout of the repository.

        Args:
            root: The directory of that checkout that corresponds to `root`.
            move: Maps an absolute path inside this checkout into the other one, and leaves other texts alone. Without
                it the other checkout would be run with files of this one.
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
        root: The repository, where agent-eval.toml may lie.
        flags: Given on the command line, by input name; lists are already split.
        environ: Where to look for `INPUT_*`; None outside of the action.
        secrets: Where to look for secrets by the variables of their own.
        text: What agent-eval.toml says, None if there is none; `...` reads the root's. On a pull request the base's
            counts.

    Returns:
        The settings and all problems. If one of those is an error nothing must be run: what is wrong has its default,
        so that the rest (the output directory above all) still says where to tell it.
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    in_file = _read_own(root / CONFIG_FILE) if isinstance(text, EllipsisType) else read_settings_file(text or "")
    problems = list(in_file.problems)
    for setting in SETTINGS:
        raw, source = _given(setting, flags or {}, environ or {}, secrets or {}, in_file.values)
        if source != setting.input:
            sources[setting.input] = source
        if not isinstance(raw, str):
            values[setting.field] = tuple(raw)
            continue
        try:
            values[setting.field] = setting.parse(raw)
        except ValueError as error:
            values[setting.field] = setting.parse(setting.default)
            told_there = source.endswith(CONFIG_FILE)
            problems.append(
                Problem(
                    severity=Severity.ERROR,
                    code="setting-invalid",
                    message=f"{source}: {raw!r} {error}." if str(error).startswith("must") else f"{source}: {error}.",
                    hint=setting.help,
                    file=CONFIG_FILE if told_there else None,
                    line=in_file.lines.get((setting.input,)) if told_there else None,
                )
            )
    for name in environ or {}:
        # GitHub warns about unknown inputs itself, but only in the log; a misspelt one would gate with a default.
        known = name.removeprefix("INPUT_").lower()
        if name.startswith("INPUT_") and known not in BY_INPUT and (near := nearest(known)):
            problems.append(unknown(f"the input `{known}`", near, None, None))
    settings = Settings(
        root=root, agents=in_file.agents, prices=in_file.prices, policy=in_file.policy, sources=sources, **values
    )
    return settings, problems


def _read_own(path: Path) -> FileSettings:
    try:
        return read_settings_file(read_regular(path, MAX_SETTINGS).decode("utf-8"))
    except FileNotFoundError:
        if path.is_symlink():
            return FileSettings(problems=(unreadable("it is a link that leads nowhere"),))
        return FileSettings()
    except OSError as error:
        return FileSettings(problems=(unreadable(error.strerror or str(error)),))
    except UnicodeDecodeError as error:
        return FileSettings(problems=(unreadable(str(error)),))


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
