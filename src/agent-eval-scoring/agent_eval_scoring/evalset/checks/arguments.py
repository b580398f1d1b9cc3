"""Rules for args that no expected call needs: the name of the tool or of the argument is probably misspelt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from agent_eval_scoring.core.content import FunctionCall
from agent_eval_scoring.core.invocation import tool_calls
from agent_eval_scoring.core.problem import Problem, Severity
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.evalset.checks.references import by_config
from agent_eval_scoring.evalset.json import JsonPath, read_document
from agent_eval_scoring.evalset.models import CALL_METRICS, CriterionConfig, LoadedFile
from agent_eval_scoring.evalset.models.argument_rules import applies, paths
from agent_eval_scoring.evalset.parse import did_you_mean

_CODE = "idle-argument-rule"
_STATE = "final_session_state"
Calls = Sequence[tuple[int, FunctionCall]]
"""Expected calls with their 1-based places in their turns."""


def idle_rules(
    files: Sequence[LoadedFile], root: Path, defaults: Mapping[str, Mapping[str, Any]], *, complete: bool
) -> Iterator[Problem]:
    """Problems of rules for tools and arguments that no expected call has.

    Args:
        files: All files of a run, without errors. Cases that are not selected count, too.
        root: The directory that the names of configs are relative to.
        defaults: The rules of agent-eval.toml. Theirs are warnings: a pull request is checked with those of its base.
        complete: Whether the files are all that there are. If not, others may need the rules.
    """
    for source, group in by_config(files).items():
        idle = [
            (criterion.metric, *problem)
            for criterion in group[0].config.criteria
            if criterion.metric in CALL_METRICS and criterion.options["args"]
            for problem in _idle(criterion.options["args"], _calls(group))
        ]
        idle += [
            (criterion.metric, (name,), f"There is a rule for the key `{name}`, but no case expects it.", hint)
            for criterion in group[0].config.criteria
            if criterion.metric == _STATE and (states := _states(group))
            for (_, name), _, hint in _idle({_STATE: criterion.options["keys"]}, states)
        ]
        misspelt = [
            ((criterion.metric, *place), name, near)
            for criterion in group[0].config.criteria
            for place, name in _named_tools(criterion)
            if (near := _same_name(name, [call.name or "" for _, call in _calls(group)]))
        ]
        # Read again only for the position, because such problems are rare.
        document = read_document(root / source, source)[0] if idle or misspelt else None
        if document is not None:
            for keys, name, near in misspelt:
                message = f"No case expects a call of `{name}`, but of `{near}`."
                hint = f"Did you mean `{near}`?"
                yield document.warning("tool-name-differs", message, path=("criteria", *keys), hint=hint)
            report = document.error if complete else document.warning
            for metric, keys, message, hint in idle:
                place = "keys" if metric == _STATE else "args"
                yield report(_CODE, message, path=("criteria", metric, place, *keys), key=True, hint=hint)
    for _, message, hint in _idle(defaults, _calls(files)) if complete and defaults else ():
        message = f"[[tool]] of agent-eval.toml: {message}"
        yield Problem(severity=Severity.WARNING, code=_CODE, message=message, hint=hint, file="agent-eval.toml")


def _named_tools(criterion: CriterionConfig) -> Iterator[tuple[JsonPath, str]]:
    """The tools that a criterion names, with their paths below it."""
    if isinstance(name := criterion.options.get("tool_name"), str):
        yield ("tool_name",), name
    for index, rule in enumerate(criterion.options.get("rules") or ()):
        for kind, value in rule.items():
            if isinstance(value, str):
                yield ("rules", index, kind), value
            for key in value if isinstance(value, list | dict) else ():
                yield ("rules", index, kind), key


def _same_name(name: str, tools: Sequence[str]) -> str | None:
    """The tool that has this name in another spelling, such as camelCase; None if a tool has the name itself."""
    if name in tools:
        return None

    def letters(text: str) -> str:
        return re.sub(r"[\W_]", "", text).lower()

    return next((tool for tool in tools if letters(tool) == letters(name)), None)


def _states(files: Sequence[LoadedFile]) -> Calls:
    """The expected states, each as a call that has it as its args."""
    return [
        (1, FunctionCall(name=_STATE, args=case.expected_state)) for file in files for case in file.eval_set.eval_cases
    ]


def _calls(files: Sequence[LoadedFile]) -> Calls:
    cases = (case for file in files for case in file.eval_set.eval_cases)
    turns = (turn for case in cases for turn in case.conversation or ())
    return [item for turn in turns for item in enumerate(tool_calls(turn.intermediate_data), 1)]


def _idle(rules: Mapping[str, Mapping[str, Any]], calls: Calls) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """The keys of an idle rule, what is wrong, and a hint."""
    tools = list(dict.fromkeys(call.name or "" for _, call in calls))
    for tool, of_tool in rules.items():
        fitting = [call for at, call in calls if applies(tool, call.name, at)]
        if not fitting:
            hint = did_you_mean(tool.partition("#")[0], tools) if tools else "Remove it."
            yield (tool,), f"There are rules for the args of `{tool}`, but no case expects such a call.", hint
            continue
        known = list(dict.fromkeys(path for call in fitting for path in paths(call.args or {})))
        for path, rule in of_tool.items():
            # What is ignored may be there only in what agents do.
            if any(fnmatchcase(each, path) for each in known) or (rule == "ignore" and not nearby(path, known)):
                continue
            hint = did_you_mean(path, known) if known else "Remove it."
            yield ((tool, path), f"There is a rule for `{path}`, but no expected call of `{tool}` has it.", hint)
