"""Reads the settings from flags, action inputs and agent-eval.toml.

Precedence: a flag, an action input (`INPUT_*`), agent-eval.toml, the default. All mistakes are reported at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import EllipsisType
from typing import Any

from agent_eval.settings.options import Setting
from agent_eval.settings.parsers import ExpectedError
from agent_eval.settings.settings import BY_INPUT, SETTINGS, Settings
from agent_eval.settings.toml_file import (
    CONFIG_FILE,
    FORMER,
    FileSettings,
    nearest,
    read_settings_file,
    unknown,
    unreadable,
)
from agent_eval_scoring.core.files import MAX_SETTINGS, read_regular
from agent_eval_scoring.core.problem import Problem, Severity, docs_page
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.core.toml_lines import Path as KeyPath

_IN_YAML = ("agent-eval.yaml", "agent-eval.yml", "agent-eval.json")
_FOLDERS = (".github", "eval", "evals", "tests", "tests/eval")


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
    problems = [*in_file.problems, *(_misnamed(root) if isinstance(text, EllipsisType) else ())]
    problems += _variables(secrets or {})
    # GitHub's runner keeps the dashes of a name, and then only that counts; a variable of GitLab has underscores.
    given = {name.removeprefix("INPUT_"): text for name, text in (environ or {}).items() if name.startswith("INPUT_")}
    dashed = {name: name.replace("_", "-") for name in given}
    inputs = {new.lower(): given[name] for name, new in dashed.items() if name == new or new not in given}
    for setting in SETTINGS:
        raw, source = _raw_value(setting, flags or {}, inputs, secrets or {}, in_file.values)
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
            shown = f"{raw!r} " if isinstance(error, ExpectedError) else ""
            problems.append(
                Problem(
                    code="setting-invalid",
                    message=f"{source}: {shown}{error}.",
                    hint=f"`{setting.input}`: {setting.help}",
                    file=CONFIG_FILE if from_file else None,
                    line=in_file.lines.get((setting.input,)) if from_file else None,
                )
            )
    for input in inputs:
        # GitHub warns about unknown inputs only in the log, and the run would use the default of a misspelt one.
        if input not in BY_INPUT and (input in FORMER or nearest(input)):
            problems.append(unknown(input, f"the input `{input}`", nearest(input), None, None))
    problems += _headers_for_file(values, sources, in_file)
    problems += _unknown_servers(values["agent"], in_file)
    _replay_or_record(values, sources)
    problems += _conflicts(values, sources, in_file.lines)
    settings = Settings(
        root=root,
        agents=in_file.agents,
        servers=in_file.servers,
        prices=in_file.prices,
        tool_rules=in_file.tool_rules,
        volatile_rules=in_file.volatile_rules,
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
    from agent_eval_agents.registry import driver_of

    named: dict[tuple[str | int, ...], str] = {("agents", pattern): agent for pattern, agent in in_file.agents.items()}
    if sources.get("agent", "").endswith(CONFIG_FILE):
        named["agent",] = values["agent"]
    return [
        Problem(
            code="remote-agent-headers",
            message=f"`agent-headers` is set, but the address {agent} is in {CONFIG_FILE}, which a pull or merge "
            "request can change. The headers would go to any address that it names.",
            hint="Name the agent in the workflow: the input `agent`, or the flag `--agent`.",
            file=CONFIG_FILE,
            line=in_file.lines.get(key),
        )
        for key, agent in named.items()
        if agent and driver_of(agent).remote
    ]


def _unknown_servers(agent: str | None, in_file: FileSettings) -> list[Problem]:
    """An error for each agent `server:NAME` without its table."""
    from agent_eval_agents.servers import PREFIX

    named: dict[tuple[str | int, ...], str] = {("agents", pattern): name for pattern, name in in_file.agents.items()}
    named["agent",] = agent or ""
    declared = {key[1] for key in in_file.lines if len(key) > 1 and key[0] in ("servers", "server")}  # valid or not
    return [
        Problem(
            code="server-unknown",
            message=f"The agent `{name}` has no table [servers.{name.removeprefix(PREFIX)}] in {CONFIG_FILE}.",
            hint=f"Did you mean `{PREFIX}{near[0]}`?"
            if (near := nearby(name.removeprefix(PREFIX), list(in_file.servers), 1, 0.7))
            else f"Known servers: {', '.join(in_file.servers) or 'none'} ({docs_page('remote-agents')}).",
            file=CONFIG_FILE,
            line=in_file.lines.get(key),
        )
        for key, name in named.items()
        if name.startswith(PREFIX) and name.removeprefix(PREFIX) not in {*in_file.servers, *declared}
    ]


def _conflicts(values: Mapping[str, Any], sources: Mapping[str, str], lines: Mapping[KeyPath, int]) -> list[Problem]:
    """An error for each pair of settings that contradict each other."""
    part = values["shard"] is not None
    conflicts = {
        ("fail-fast", "shard"): part
        and values["fail_fast"]
        and "the other parts would not end with it, and the results depend on the split",
        ("mode", "shard"): part
        and values["mode"] in {"merge", "merge-and-run", "publish"}
        and "a part is run before the parts are merged",
        ("replay", "record"): "off" not in {values["replay"], values["record"]}
        and "`record: missing` alone answers what is on the tape, and records the rest",
    }
    return [
        Problem(
            code="setting-invalid",
            message=f"{sources.get(name, name)} and {sources[other]} exclude each other: {reason}.",
            hint=f"Remove `{name}` or `{other}`.",
            file=CONFIG_FILE if sources[other].endswith(CONFIG_FILE) else None,
            line=lines.get((other,)) if sources[other].endswith(CONFIG_FILE) else None,
        )
        for (name, other), reason in conflicts.items()
        if reason
    ]


def _replay_or_record(values: dict[str, Any], sources: dict[str, str]) -> None:
    """Drops the weaker one of both: where agent-eval.toml says `replay`, the flag `--record` is enough."""
    ranks = {
        name: ("--" not in source, CONFIG_FILE in source)
        for name in ("replay", "record")
        if values[name] != "off" and (source := sources[name])
    }
    # Two of one rank contradict each other, which `_conflicts` reports.
    if len(set(ranks.values())) > 1:
        weaker = max(ranks, key=ranks.__getitem__)
        values[weaker] = "off"
        del sources[weaker]


_READ = ("AGENT_EVAL_REPORT_URL",)
"""Variables that are read without being the secret of a setting."""


def _variables(environ: Mapping[str, str]) -> Iterator[Problem]:
    """Warnings for variables that look like settings: only secrets are read from variables."""
    for setting in SETTINGS:
        name = f"AGENT_EVAL_{setting.input.replace('-', '_').upper()}"
        if name in environ and setting.secret is None:
            where = f" or the key `{setting.input}` of {CONFIG_FILE}" if setting.in_file else ""
            message, hint = f"The variable {name} is not read.", f"Use the flag `--{setting.input}`{where}."
            yield Problem(severity=Severity.WARNING, code="setting-unknown", message=message, hint=hint)
    # A misspelt variable of a key would only show as a key that is missing.
    known = [*_READ, *(setting.secret for setting in SETTINGS if setting.secret is not None)]
    settings = {f"AGENT_EVAL_{setting.input.replace('-', '_').upper()}" for setting in SETTINGS}
    for name in sorted(environ.keys() - settings - set(known)):
        if name.startswith("AGENT_EVAL_") and (close := nearby(name, known, 1, 0.8)):
            message, hint = f"The variable {name} is not read.", f"Did you mean {close[0]}?"
            yield Problem(severity=Severity.WARNING, code="setting-unknown", message=message, hint=hint)


def _misnamed(root: Path) -> Iterator[Problem]:
    """Warnings for files that look like the settings but are not read: by their name, their place or their table."""
    found = nearby(CONFIG_FILE, sorted({path.name for path in root.glob("*.toml")} - {CONFIG_FILE}), 1, 0.85)
    others = list(_IN_YAML)
    if not (root / CONFIG_FILE).exists():  # Otherwise the other one may be for another start directory.
        others += [f"{folder}/{CONFIG_FILE}" for folder in _FOLDERS]
    for name in [*found, *(name for name in others if (root / name).is_file())]:
        why, hint = "name", f"Rename it to `{CONFIG_FILE}`."
        if "/" in name:
            why, hint = "directory", "Move it to the directory in which `agent-eval` is started."
        elif name in _IN_YAML:
            hint = f"Write its settings into `{CONFIG_FILE}`, e.g. `num-runs = 3`."
        message = f"The file is not read, because of its {why}: its settings don't apply."
        yield Problem(severity=Severity.WARNING, code="settings-file-misnamed", message=message, hint=hint, file=name)
    try:
        rows = read_regular(root / "pyproject.toml", MAX_SETTINGS).decode("utf-8", "replace").split("\n")
    except OSError:
        return
    for line, row in enumerate(rows, 1):
        if re.match(r"\[tool\.agent[-_]eval\]", row):
            yield Problem(
                severity=Severity.WARNING,
                code="settings-file-misnamed",
                message="`[tool.agent-eval]` is not read: its settings don't apply.",
                hint=f"Move them to `{CONFIG_FILE}`, without the table's header.",
                file="pyproject.toml",
                line=line,
            )


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
    inputs: Mapping[str, str],
    secrets: Mapping[str, str],
    table: Mapping[str, str | list[str]],
) -> tuple[str | Sequence[str], str]:
    """The text for a setting from the source with the highest precedence, and the name of that source."""
    if setting.input in flags:
        return flags[setting.input], f"--{setting.input}"
    # The runner passes an omitted input as an empty text (actions/runner).
    if (text := inputs.get(setting.input, "")).strip():
        return text, f"input {setting.input}"
    if setting.secret is not None and (text := secrets.get(setting.secret, "")):
        return text, setting.secret
    if setting.input in table:
        return table[setting.input], f"{setting.input} in {CONFIG_FILE}"
    return setting.default, setting.input
