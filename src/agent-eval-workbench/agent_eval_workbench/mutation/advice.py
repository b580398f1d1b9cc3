"""Which changes of a config would kill surviving mutants, and keep every stored run green that is green today."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_eval_scoring.core.invocation import tool_responses
from agent_eval_scoring.evalset.json import patched_text, read_document, write_if_unchanged, write_text
from agent_eval_scoring.evalset.models import CALL_METRICS, CRITERION_MODELS, METRICS, EvalConfig, LoadedFile
from agent_eval_scoring.evalset.models.argument_rules import with_defaults
from agent_eval_scoring.evalset.parse import CONFIG_NAMES, criterion
from agent_eval_workbench.authoring.expectation import spelled
from agent_eval_workbench.mutation.mutants import expects_answer
from agent_eval_workbench.mutation.report import AdviceReport, LeftOut
from agent_eval_workbench.mutation.subjects import Rules, Scene

_FACTS: Sequence[Mapping[str, Any]] = (
    {"threshold": 1.0, "names": True, "states": True, "negation": True},
    {"threshold": 1.0, "names": True, "states": True},
    {"threshold": 1.0, "states": True},
    {"threshold": 1.0},
)
_ALL_ARGS: Mapping[str, Any] = {"threshold": 1.0, "ignore_args": False, "args_match": "exact"}
_CALLS: Sequence[Mapping[str, Any]] = (
    {**_ALL_ARGS, "match_type": "EXACT"},
    {"threshold": 1.0, "match_type": "EXACT"},
    {**_ALL_ARGS, "match_type": "IN_ORDER"},
    {**_ALL_ARGS, "match_type": "ANY_ORDER"},
)
_WORDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Thresholds of `response_match_score`. Above the last one, ADK's own default, most rewordings fail."""


@dataclass(frozen=True, kw_only=True)
class ConfigText:
    """A config file: what it says, and what it could say."""

    path: str
    """Relative to the root."""
    config: EvalConfig
    files: Sequence[LoadedFile] = field(repr=False)
    """The files to which it applies."""
    text: str | None = field(default=None, repr=False)
    """None: there is no such file yet, or it is no JSON."""
    value: Mapping[str, Any] = field(default_factory=dict, repr=False)
    writable: bool = True

    @property
    def criteria(self) -> Mapping[str, Any]:
        """As in the file; ADK's defaults without one."""
        present: Mapping[str, Any] = self.value.get("criteria", {})
        return present if self.text is not None else {each.name: each.threshold for each in self.config.criteria}


def read_config_text(root: Path, config: EvalConfig, folder: str, files: Sequence[LoadedFile]) -> ConfigText:
    """The config of some files, or that which would be theirs.

    Args:
        root: The repository.
        config: As it was loaded.
        folder: Where the eval files are, if they have no config.
        files: The files.
    """
    if config.source is None:
        return ConfigText(path=f"{folder}/{CONFIG_NAMES[0]}".lstrip("/"), config=config, files=files)
    document = read_document(root / config.source, config.source)[0] if config.source.endswith(".json") else None
    if document is None or not isinstance(document.value.get("criteria"), dict):
        return ConfigText(path=config.source, config=config, files=files, writable=False)
    return ConfigText(path=config.source, config=config, files=files, text=document.text, value=document.value)


@dataclass(frozen=True, kw_only=True)
class Change:
    """Another criterion in a config."""

    config: ConfigText = field(repr=False)
    report: AdviceReport
    kills: frozenset[int]
    """Positions among the survivors."""


async def find_changes(
    config: ConfigText, rules: Rules, good: Sequence[Scene], survivors: Sequence[Scene], left_out: list[LeftOut]
) -> list[Change]:
    """What would kill survivors without making a stored run fail: changes, each for what those before leave alive.

    Args:
        config: The config of all scenes.
        rules: How cases are scored.
        good: The stored runs that pass.
        survivors: Mutants that pass.
        left_out: Gets criteria that the config can't have.
    """
    left = frozenset(range(len(survivors)))
    checked = {scene.subject.case_id for scene in good}
    unchecked = sum(f"{file.path}:{case.eval_id}" not in checked for file in config.files for case in file.cases)
    found: list[Change] = []
    for metric, values in {
        "response_facts": [_merged(config, "response_facts", new) for new in _FACTS],
        "tool_trajectory_avg_score": [_merged(config, "tool_trajectory_avg_score", new) for new in _CALLS],
        "tool_rules": list(_success_rules(config, good)),
        "final_session_state": [_merged(config, "final_session_state", {"threshold": 1.0})],
        "response_match_score": list(_thresholds(config, "response_match_score")),
    }.items():
        is_labelled = any(each.metric == metric != each.name for each in config.config.criteria)
        if not left or is_labelled or _is_impossible(config, metric, left_out):
            continue
        best: tuple[Any, frozenset[int]] = None, frozenset()
        for value in values:
            if value == config.criteria.get(metric):
                continue
            alive = {at: survivors[at] for at in sorted(left)}
            decisions = await _decisions(config, rules, metric, value, [*alive.values()])
            kills = frozenset(at for at, decision in zip(alive, decisions, strict=True) if decision == "failed")
            if kills and "failed" in await _decisions(config, rules, metric, value, good):
                continue
            best = (value, kills) if len(kills) > len(best[1]) else best
            if metric != "response_match_score":
                break  # The first is the strictest. Of thresholds, the lowest counts that kills most.
        if best[1]:
            left -= best[1]
            report = AdviceReport(
                config=config.path,
                metric=metric,
                before=config.criteria.get(metric),
                after=best[0],
                kills=len(best[1]),
                good_runs=len(good),
                unchecked=unchecked,
                writable=config.writable,
            )
            found.append(Change(config=config, report=report, kills=best[1]))
    return found


async def _decisions(config: ConfigText, rules: Rules, metric: str, value: Any, scenes: Sequence[Scene]) -> list[str]:
    """What a criterion decides of scenes; "": it is idle there."""
    new = criterion(
        metric, CRITERION_MODELS[metric].model_validate(value if isinstance(value, dict) else {"threshold": value})
    )
    if metric in CALL_METRICS:
        new = replace(new, options={**new.options, "args": with_defaults(new.options["args"], rules.tool_args)})
    alone = replace(config.config, criteria=(new,), custom_metrics={})
    decisions: list[str] = []
    for scene in scenes:
        criteria, _ = rules.criteria(scene.subject.file, scene.subject.case, alone)
        decisions.append((await scene.outcome(criteria[0]))[0] if criteria else "")
    return decisions


def _is_impossible(config: ConfigText, metric: str, left_out: list[LeftOut]) -> bool:
    """Whether a case to which a config applies could not pass with a metric. The first one is named."""
    spec = METRICS[metric]
    for file in config.files:
        for case in file.cases:
            answers = any(map(expects_answer, case.conversation or ()))
            lacks = spec.needs_reference and case.conversation is None
            if lacks or (spec.needs_final_response and not answers):
                why = f"can't get {metric}: {case.eval_id} of {file.path} expects no answer"
                left_out.append(LeftOut(name=config.path, why=why))
                return True
    return False


def _merged(config: ConfigText, metric: str, new: Mapping[str, Any]) -> dict[str, Any]:
    """The present criterion with other options; what is default and was not said stays unsaid."""
    present = config.criteria.get(metric)
    raw = dict(present) if isinstance(present, dict) else {}
    fields = CRITERION_MODELS[metric].model_fields
    said = {
        spelled(raw, name): value
        for name, value in new.items()
        if value != fields[name].get_default() or spelled(raw, name) in raw
    }
    return {**raw, **said}


def _success_rules(config: ConfigText, good: Sequence[Scene]) -> Iterator[Any]:
    """That every tool succeeds in the end; else those that never fail in the stored runs."""
    present = config.criteria.get("tool_rules")
    raw = present if isinstance(present, dict) else {}
    turns = [turn for scene in good for turn in scene.run.invocations]
    answers = [answer for turn in turns for answer in tool_responses(turn.intermediate_data) if answer.name]
    fine = {answer.name for answer in answers} - {answer.name for answer in answers if answer.is_error}
    for names in filter(None, (["*"], sorted(filter(None, fine)))):
        yield {**raw, "threshold": 1.0, "rules": [*raw.get("rules", []), *({"succeeds": name} for name in names)]}


def _thresholds(config: ConfigText, metric: str) -> Iterator[Any]:
    present = config.criteria.get(metric)
    before = present.get("threshold") if isinstance(present, dict) else present
    for threshold in _WORDS:
        if before is None or threshold > before:
            yield {**present, "threshold": threshold} if isinstance(present, dict) else threshold


def new_text(changes: Sequence[Change]) -> str:
    """The text of a config with all its changes.

    Raises:
        PatchError: The text can't be changed as intended.
    """
    config = changes[0].config
    criteria = {**config.criteria, **{change.report.metric: change.report.after for change in changes}}
    value = {**config.value, "criteria": criteria}
    return json.dumps(value, indent=2) + "\n" if config.text is None else patched_text(config.text, config.value, value)


def write(root: Path, changes: Sequence[Change]) -> None:
    """Writes a config with its changes.

    Raises:
        PatchError: The file was changed meanwhile, or can't be changed as intended.
        OSError: It can't be written.
    """
    config, text = changes[0].config, new_text(changes)
    if config.text is None:
        write_text(root / config.path, text)
    else:
        write_if_unchanged(root / config.path, config.text, text)
