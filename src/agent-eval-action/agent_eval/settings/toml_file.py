"""Reads agent-eval.toml strictly: settings, agents, prices and policy, and all problems."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent_eval.gate.policy import Policy
from agent_eval.settings import parsers
from agent_eval.settings._agents_file import read_servers, read_tool_rules, read_volatile_rules
from agent_eval.settings._policy_file import POLICY_KEYS, read_policy
from agent_eval.settings._tables import OTHER_KEYS
from agent_eval.settings.options import Setting
from agent_eval.settings.parsers import words
from agent_eval.settings.settings import BY_INPUT
from agent_eval_agents.driver import ServerSpec
from agent_eval_agents.tape_rules import ToolRule, VolatileRule
from agent_eval_scoring.core.problem import MAX_PROBLEMS, Problem, capped, docs_page
from agent_eval_scoring.core.text import shorten
from agent_eval_scoring.core.toml_lines import Path as KeyPath
from agent_eval_scoring.core.toml_lines import TomlError, line_at, lines_of, read_toml

CONFIG_FILE = "agent-eval.toml"


@dataclass(frozen=True, kw_only=True)
class FileSettings:
    """The content of the file."""

    values: Mapping[str, str | list[str]] = field(default_factory=dict)
    """Settings by name, as texts or lists of texts."""
    agents: Mapping[str, str] = field(default_factory=dict)
    servers: Mapping[str, ServerSpec] = field(default_factory=dict)
    prices: Mapping[str, Any] = field(default_factory=dict)
    tool_rules: tuple[ToolRule, ...] = ()
    """`[[tool]]`, in order."""
    volatile_rules: tuple[VolatileRule, ...] = ()
    """`[[volatile]]`, in order."""
    policy: Policy = field(default_factory=Policy)
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    """The lines of keys and tables, from 1."""
    problems: tuple[Problem, ...] = ()


def read_settings_file(text: str) -> FileSettings:
    """Reads the file.

    Args:
        text: The content of the file.

    Returns:
        The valid part of the file, and all problems.
    """
    text = text.removeprefix("\ufeff")  # Some editors write a byte order mark. TOML 1.1 ignores it.
    try:
        table = read_toml(text)
    except TomlError as error:
        return FileSettings(problems=(_not_toml(error, text),))
    problems: list[Problem] = []
    lines = lines_of(text)
    # Tables are taken out first; of what is left, all but the policy's must be settings.
    agents = _agents(table.pop("agents", {}), lines, problems)
    servers, server_problems = read_servers(table.pop("servers", {}), lines, CONFIG_FILE)
    problems += server_problems
    tool_rules, tool_problems = read_tool_rules(table.pop("tool", []), lines, CONFIG_FILE)
    problems += tool_problems
    volatile_rules, volatile_problems = read_volatile_rules(table.pop("volatile", []), lines, CONFIG_FILE)
    problems += volatile_problems
    prices = table.pop("prices", {})
    split = [
        f"{name}.{inner}"
        for name, parts in (prices.items() if isinstance(prices, dict) else ())
        for inner, price in (parts.items() if isinstance(parts, dict) else ())
        if isinstance(price, dict)
    ]
    if split:
        line = line_at(lines, ("prices", split[0].partition(".")[0]))
        problem = _invalid(f"`{split[0]}` in [prices]", "has dots, so it needs quotes", line)
        problems.append(replace(problem, hint=f'Write "{split[0]}" = {{input = 0.3, output = 2.5}}.'))
        prices = {}
    try:
        if prices:
            from agent_eval_scoring.models import read_prices  # Imports the providers, which `--help` does not need.

            read_prices(prices)
    except ValueError as error:
        model = getattr(error, "model", "gemini-2.5-flash")
        line = lines.get(("prices", model), lines.get(("prices",)))
        hint = f"Write {json.dumps(model)} = {{input = 0.3, output = 2.5}}, in US dollars per million tokens."
        problems.append(replace(_invalid(str(error).rstrip("."), "", line), hint=hint))
        prices = {}
    policy, policy_problems = read_policy(table, lines, CONFIG_FILE)
    problems += policy_problems
    values: dict[str, str | list[str]] = {}
    for name, value in table.items():
        line = lines.get((name,))
        if name in POLICY_KEYS:
            continue
        if name not in BY_INPUT:
            near = nearest(name) if len(problems) < MAX_PROBLEMS else None  # The search takes a millisecond.
            found = unknown(name, f"`{name}`", near, CONFIG_FILE, line)
            if isinstance(value, dict) and not BY_INPUT.keys().isdisjoint(value):
                found = replace(found, hint=f"Settings are keys at the top of the file: delete the line [{name}].")
            problems.append(found)
        elif not BY_INPUT[name].in_file:
            problems.append(_not_in_file(name, line))
        elif isinstance(value, list) and BY_INPUT[name].parse is words and all(isinstance(item, str) for item in value):
            values[name] = value
        # Before numbers: a bool of Python is an int.
        elif isinstance(value, str) or (isinstance(value, bool | int | float) and not _takes_text(BY_INPUT[name])):
            values[name] = str(value).lower() if isinstance(value, bool) else str(value)
        elif isinstance(value, dict):
            what = f"is a setting, not a table{'; the table of patterns is [agents]' if name == 'agent' else ''}"
            problems.append(_invalid(f"`{name}`", what, line, name))
        else:
            form, example = _form(BY_INPUT[name])
            what = f"must be {form}, not {shorten(json.dumps(value, default=str), 40)}"
            problem = _invalid(f"`{name}`", what, line, name)
            # Of any text, what it is for says more than an example.
            is_open = example == '"..."'
            problems.append(problem if is_open else replace(problem, hint=f"Write e.g. `{name} = {example}`."))
    return FileSettings(
        values=values,
        agents=agents,
        servers=servers,
        prices=prices,
        tool_rules=tool_rules,
        volatile_rules=volatile_rules,
        policy=policy,
        lines=lines,
        problems=tuple(capped(problems)),
    )


def _not_toml(error: TomlError, text: str) -> Problem:
    """The problem of a file with an error of syntax: what is in its line, and what to write."""
    problem = unreadable(re.sub(r" \(at line .*\)$", "", str(error)), error.line, error.column)
    if error.line is None:
        return problem
    row = text.split("\n")[error.line - 1].strip()
    if _MAY_BE_SECRET.search(row):
        return problem  # Its value must not get into reports.
    problem = replace(problem, message=f"{problem.message}: `{shorten(row, 60)}`")
    hint = _hint_for_row(row, str(error))
    return problem if hint is None else replace(problem, hint=hint)


def _hint_for_row(row: str, error: str) -> str | None:
    """What to write instead of a row that is not TOML, or None."""
    word = re.match(r"(?:([\w-]+)\s*=\s*)?\[?\s*([A-Za-z][\w./*-]*)\s*[],]?\s*(?:#.*)?$", row)
    if error.startswith("Invalid value") and word is not None:
        name, text = word[1], word[2]
        setting = BY_INPUT.get(name or "")
        form, example = _form(setting) if setting is not None else ("", "")
        if text in ("True", "False"):
            return f"Write it in lower case: {text.lower()}."
        if form == "true or false" or (setting is None and text.lower() in ("yes", "no", "on", "off")):
            return f"Write true or false: `{name or 'blocking'} = {'false' if text.lower() in _NO else 'true'}`."
        if setting is not None and not form.endswith(("text", "texts")) and not setting.choices:
            return f"`{name}` must be {form}: `{name} = {example}`."
        return f'Texts need quotes: "{text}".'
    key, equals, _ = row.partition("=")
    if error.startswith(("Expected '=' after a key", "Invalid initial character", "Invalid statement")):
        if equals and re.search(r"[^\w\s.-]", key) and not re.search(r"[\"':\[]", key):
            return f'A key with other characters than letters, digits, - and _ needs quotes: "{key.strip()}" = ...'
        if (pair := re.fullmatch(r"([\w-]+)\s*:\s*([^=]*)", row)) is not None:
            return f"Write `=` instead of the colon: `{pair[1]} = {pair[2]}`."
    if error.startswith("Illegal character '\\n'"):
        return "A quote is not closed: add one at the end of the text."
    return None


_NO = ("no", "off")


def _takes_text(setting: Setting) -> bool:
    """Whether a number or a truth value is certainly a mistake."""
    return setting.parse in (parsers.text, parsers.path, words, parsers.directory_name, parsers.variables)


def _form(setting: Setting) -> tuple[str, str]:
    """What the value of a setting must be, and an example of it as TOML."""
    if setting.is_switch:
        return "true or false", "true"
    if setting.parse is words:
        return "a list of texts", '["evals"]' if setting.input == "paths" else '["evals/slow/"]'
    if setting.choices:
        return " or ".join(f'"{word}"' for word in setting.choices), f'"{setting.default}"'
    for text in ("3", "0.8"):
        try:
            if isinstance(setting.parse(text), int | float):
                return "a number", setting.default if re.fullmatch(r"[\d.]+", setting.default) else text
        except ValueError:
            continue
    return "a text", f'"{setting.default or "..."}"'


_MAY_BE_SECRET = re.compile("key|token|secret|passw|headers|credential|auth", re.IGNORECASE)
_TOML = "The file must be TOML, e.g. `num-runs = 3`."
_BACKSLASH = "In double quotes, a backslash begins an escape: write `/`, two backslashes, or single quotes."
_REMEDIES = {
    "Unescaped": _BACKSLASH,
    "Invalid hex value": _BACKSLASH,
    "Invalid value": 'Texts need quotes, e.g. `gate = "both"`.',
    "Cannot overwrite": "A key may occur only once: delete one of the lines.",
    "Cannot declare": "A table may occur only once: join the two.",
}
"""What to do about errors of the parser, by their beginnings."""


def unreadable(why: str, line: int | None = None, column: int | None = None) -> Problem:
    """The problem of a file that can't be read."""
    return Problem(
        code="settings-file-unreadable",
        message=f"The file can't be read: {why}",
        hint=next((hint for start, hint in _REMEDIES.items() if why.startswith(start)), _TOML),
        file=CONFIG_FILE,
        line=line,
        column=column,
    )


_LIMITS = ("threshold", "thresholds", "criteria", "metrics")
_AS_TABLES = {name: f"[[{name}]]" for name in ("policy", "quarantine", "tool", "volatile")}
_AS_TABLES |= {"servers": "[servers.NAME]", "agents": "[agents]", "prices": "[prices]"}


def nearest(name: str) -> str | None:
    """The most similar name of a setting or table, or None."""
    names = [*BY_INPUT, *OTHER_KEYS]
    if singular := next((each for each in OTHER_KEYS if name in (f"{each}s", f"{each[:-1]}ies")), None):
        return singular
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=0.7)), None)


FORMER: Mapping[str, str] = {
    "artifact-name": "`name`: the artifact is `agent-eval-results-NAME`",
    "baseline-evals": "nothing: the base branch's agent runs the eval files of this checkout",
    "comment-key": "`name`",
    "include": "a glob in `paths`, e.g. `evals/**/smoke_*.json`",
    "details": "the flag `-v`",
    "a2a-ignore-state": "`remote-sessions: ignore-state`",
    "initial-session": "`agent-eval migrate --initial-session FILE`, which writes it into the eval file",
    "judge": "`replay: all`",
    "keep-sessions": "`remote-sessions: keep`",
    "remote-user-id": "`remote-sessions: as-given`",
    "only-affected": "`paths`: the workflow can choose it by the changed files",
    "removed-cases": "`rule-changes: block-removals`",
    "report-url": "the variable AGENT_EVAL_REPORT_URL, which the action sets for `mode: link`",
    "run-missing": "`mode: merge-and-run`, or `agent-eval merge --run-missing`",
    "shards": "`agent-eval merge DIR ...`; the action reads `shards`",
    "tools": "`replay: tools`, `record: all` or `record: missing`",
    "tools-miss": "`miss` of a [[tool]] in agent-eval.toml; its `name` may be `*`",
    "tools-stale": "`stale` of a [[tool]] in agent-eval.toml; its `name` may be `*`",
    "report-size": "`agent-eval view --size MB`",
}
"""Settings of versions before 1.0, with what replaces them."""


def unknown(name: str, what: str, near: str | None, file: str | None, line: int | None) -> Problem:
    """The problem of a setting that doesn't exist."""
    hint = f"All settings and tables: {docs_page('configuration')}."
    if name in _LIMITS:
        hint = 'Thresholds are set per metric: in test_config.json, {"criteria": {"response_match_score": 0.8}}.'
    elif name in FORMER:
        hint = f"Use {FORMER[name]}."
    elif near is not None:
        hint = f"Did you mean `{_AS_TABLES.get(near, near)}`?"
    return Problem(
        code="setting-unknown",
        message=f"There is no setting for {what}.",
        hint=hint,
        file=file,
        line=line,
    )


def _agents(agents: Any, lines: Mapping[KeyPath, int], problems: list[Problem]) -> dict[str, str]:
    if isinstance(agents, dict) and (misplaced := [name for name in agents if name in BY_INPUT]):
        # A TOML table extends to the next one. As a pattern, the setting would have no effect.
        message = "is below [agents], so it is read as a pattern; move it above"
        problems += [_invalid(f"`{name}`", message, lines.get(("agents", name)), name) for name in misplaced]
        agents = {name: agent for name, agent in agents.items() if name not in BY_INPUT}
    wrong = [name for name, agent in agents.items() if not isinstance(agent, str)] if isinstance(agents, dict) else []
    if wrong and (whole := _dotted(wrong[0], agents[wrong[0]])):
        problem = _invalid(
            f"`{whole}` in [agents]", "has dots, so it needs quotes", line_at(lines, ("agents", wrong[0]))
        )
        problems.append(replace(problem, hint=f'Write "{whole}" = "my_agent".'))
        return {}
    if wrong or not isinstance(agents, dict):
        message = 'must map patterns to agents, e.g. "evals/**" = "my_agent"'
        if wrong:
            message = (
                f"must map each pattern to one text, not to {shorten(json.dumps(agents[wrong[0]], default=str), 40)}"
            )
        problem = _invalid("[agents]", message, line_at(lines, ("agents", *wrong[:1])))
        problems.append(replace(problem, hint=f'Write "{wrong[0]}" = "my_agent".') if wrong else problem)
        return {}
    return agents


def _dotted(name: str, value: Any) -> str:
    """The key that TOML has split at its dots, e.g. `gemini-2.5-flash`; "" if it has not."""
    if not isinstance(value, dict) or len(value) != 1:
        return ""
    [(inner, rest)] = value.items()
    return f"{name}.{inner}" if not isinstance(rest, dict) else _dotted(f"{name}.{inner}", rest)


def _not_in_file(name: str, line: int | None) -> Problem:
    secret = BY_INPUT[name].secret
    elsewhere = f"the flag `--{name}`" if secret is None else f"the variable {secret}"
    return Problem(
        code="setting-not-in-file",
        message=f"`{name}` can't be set in {CONFIG_FILE}, because a pull or merge request could change it.",
        hint=f"Set it in the workflow as the input `{name}`, or with {elsewhere}.",
        file=CONFIG_FILE,
        line=line,
    )


def _invalid(what: str, message: str, line: int | None, name: str = "") -> Problem:
    return Problem(
        code="setting-invalid",
        message=f"{what} {message}".rstrip() + ".",
        hint=f"`{name}`: {BY_INPUT[name].help}" if name in BY_INPUT else None,
        file=CONFIG_FILE,
        line=line,
    )
