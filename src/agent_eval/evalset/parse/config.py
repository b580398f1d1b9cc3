"""Which criteria apply to an eval file: the nearest `test_config.json`, read and checked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from pydantic import ValidationError

from agent_eval.core.problem import MAX_PROBLEMS, Problem, Severity
from agent_eval.evalset.json import Document, JsonPath, read_document
from agent_eval.evalset.models import CRITERION_MODELS, ConfigFile, EvalConfig, LlmAudioUserSimulatorConfig
from agent_eval.evalset.parse.criteria import criterion, read_criteria
from agent_eval.evalset.parse.scenarios import check_simulator
from agent_eval.evalset.parse.shape import did_you_mean, keys_of, shape_problems, spellings
from agent_eval.evalset.paths import dangling_link, name_of

CONFIG_NAMES = ("test_config.json", "eval_config.json")
"""What config files are called: by ADK, and by Google's agent-starter-pack. The first one wins."""


def default_config() -> EvalConfig:
    """What ADK applies when there is no config file."""
    thresholds = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
    return EvalConfig(
        source=None,
        criteria=tuple(
            criterion(metric, CRITERION_MODELS[metric](threshold=threshold)) for metric, threshold in thresholds.items()
        ),
    )


def read_config(path: Path, name: str) -> tuple[EvalConfig | None, list[Problem]]:
    """Reads a config file.

    Args:
        path: Where it is.
        name: What to call it: its path relative to the root.

    Returns:
        The config, or None when an error is among the findings.
    """
    document, problems = read_document(path, name)
    if document is None:
        return None, problems
    return parse_config(document, problems)


def parse_config(document: Document, problems: list[Problem]) -> tuple[EvalConfig | None, list[Problem]]:
    """Checks a config file and gives it its form; see `read_config`.

    Args:
        document: The file.
        problems: What was already found in it.
    """
    if not isinstance(document.value, dict):
        found = document.error("wrong-type", "A config file must hold an object.", hint='Write {"criteria": {...}}.')
        return None, [*problems, found]
    problems = [*problems, *islice(_unknown_keys(document), MAX_PROBLEMS)]
    parsed: ConfigFile | None = None
    try:
        parsed = ConfigFile.model_validate(document.value)
    except ValidationError as error:
        problems += shape_problems(document, error, ConfigFile, ())
    problems += check_simulator(document)
    criteria, found_in_criteria = read_criteria(document)
    problems += found_in_criteria
    if parsed is None or any(problem.severity is Severity.ERROR for problem in problems):
        return None, problems
    simulator, live = parsed.user_simulator_config, parsed.live_model_config
    return EvalConfig(
        source=document.file,
        criteria=tuple(criteria),
        custom_metrics={name: metric.model_dump() for name, metric in (parsed.custom_metrics or {}).items()},
        user_simulator_config=None if simulator is None else simulator.model_dump(),
        live_model_config=None if live is None else live.model_dump(),
    ), problems


@dataclass(kw_only=True)
class ConfigFinder:
    """Finds and reads the config of each file; a config is read once, whatever number of files it applies to."""

    root: Path
    override: Path | None = None
    """Applies to every file."""
    problems: list[Problem] = field(default_factory=list)
    """What was found wrong with the configs so far."""
    _read: dict[Path, EvalConfig | None] = field(default_factory=dict)
    _nearest: dict[Path, Path | None] = field(default_factory=dict)
    _default: EvalConfig = field(default_factory=default_config)

    def for_file(self, path: Path) -> EvalConfig | None:
        """The config that applies to an eval file; None when it has an error."""
        found = self.override or self._find(path.parent)
        if found is None:
            return self._default
        if found not in self._read:
            self._read[found], problems = self._load(found)
            self.problems += problems
        return self._read[found]

    def _load(self, path: Path) -> tuple[EvalConfig | None, list[Problem]]:
        if path.is_symlink() and not path.exists():
            return None, [dangling_link(path, self.root)]
        if path == self.override and not path.exists():
            name = name_of(path, self.root)
            return None, [
                Problem(
                    severity=Severity.ERROR,
                    code="config-not-found",
                    message=f"The config file `{name}` does not exist.",
                    hint="Give the path of a test_config.json; without one, the nearest file of that name applies.",
                )
            ]
        return read_config(path, name_of(path, self.root))

    def _find(self, directory: Path) -> Path | None:
        if directory not in self._nearest:
            # Whatever is there under the name, e.g. a link that leads nowhere: defaults must not apply instead.
            here = [directory / name for name in CONFIG_NAMES if os.path.lexists(directory / name)]
            if len(here) > 1:
                self._warn_of_two(here)
            inside = directory != self.root and directory.is_relative_to(self.root)
            self._nearest[directory] = here[0] if here else self._find(directory.parent) if inside else None
        return self._nearest[directory]

    def _warn_of_two(self, here: list[Path]) -> None:
        self.problems.append(
            Problem(
                severity=Severity.WARNING,
                code="two-configs",
                message=f"`{here[1].name}` is not read: `{here[0].name}` in the same directory comes first.",
                hint="Keep one of them.",
                file=name_of(here[1], self.root),
            )
        )


def _unknown_keys(document: Document) -> Iterator[Problem]:
    """Warnings for keys that nothing reads."""
    yield from _unknown_keys_in(document, (), keys_of(ConfigFile), "a config file")
    for key in spellings(["user_simulator_config"]):
        if isinstance(document.value.get(key), dict):
            yield from _unknown_keys_in(
                document, (key,), keys_of(LlmAudioUserSimulatorConfig), "a user simulator's config"
            )


def _unknown_keys_in(document: Document, path: JsonPath, known: list[str], owner: str) -> Iterator[Problem]:
    value = document.value[path[0]] if path else document.value
    for key in value:
        if key not in spellings(known) and not key.startswith("$"):
            yield document.warning(
                "unknown-config-key",
                f"`{key}` is not a key of {owner}; nothing reads it.",
                path=(*path, key),
                key=True,
                hint=did_you_mean(key, known),
            )
