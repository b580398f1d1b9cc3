"""Finds and parses the config of an eval file: the nearest `test_config.json`."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from agent_eval_scoring.core.files import MAX_SETTINGS, read_regular
from agent_eval_scoring.core.patterns import PathPatterns
from agent_eval_scoring.core.problem import MAX_PROBLEMS, Problem, Severity, has_error
from agent_eval_scoring.core.selectors import nearby, nearby_file
from agent_eval_scoring.core.text import listed
from agent_eval_scoring.evalset.json import Document, JsonPath, read_document
from agent_eval_scoring.evalset.models import (
    CRITERION_MODELS,
    METRICS,
    ConfigFile,
    EvalConfig,
    LlmAudioUserSimulatorConfig,
)
from agent_eval_scoring.evalset.parse.criteria import criterion, hint_for_key, read_criteria
from agent_eval_scoring.evalset.parse.dataset import FOLDER
from agent_eval_scoring.evalset.parse.dataset_config import NAMES as DATASET_CONFIGS
from agent_eval_scoring.evalset.parse.dataset_config import (
    DatasetMetrics,
    criteria_in,
    is_dataset_config,
    read_dataset_config,
)
from agent_eval_scoring.evalset.parse.foreign import why_not_read
from agent_eval_scoring.evalset.parse.scenarios import check_simulator
from agent_eval_scoring.evalset.parse.shape import did_you_mean, keys_of, shape_problems, spellings, without_renamed
from agent_eval_scoring.evalset.paths import dangling_link, name_of

CONFIG_NAMES = ("test_config.json", "eval_config.json")
"""File names of configs of ADK and of Google's agent-starter-pack. The first one has precedence."""
_OF_AGENTS_CLI = ("agents-cli-manifest.yaml", "datasets", "../datasets")
"""Beside a config in YAML, or in a directory above it: agents-cli's datasets are scored with it."""
_IN_YAML = re.compile(r"^(?:criteria|metrics|metrics_to_run|custom_metrics)[ \t]*:", re.MULTILINE)
_LIMIT_IN_YAML = re.compile(rf"^\s+({'|'.join(METRICS)}): *(\d[\d.]*)", re.MULTILINE)
_MOST_OTHERS = 50
"""Most files that are looked at beside a config."""
_ALIKE = 0.75
"""How alike a config's name and that of a file must be for a warning: `config.json` and `test-config.jsonc` are."""


def default_config() -> EvalConfig:
    """ADK's criteria if there is no config file."""
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
        path: The file.
        name: Its path relative to the root.

    Returns:
        The config, or None if a problem is an error; and the problems.
    """
    document, problems = read_document(path, name)
    if document is None:
        return None, problems
    return parse_config(document, problems)


def parse_config(
    document: Document, problems: list[Problem], skip: Collection[str] = ()
) -> tuple[EvalConfig | None, list[Problem]]:
    """Parses a config file; see `read_config`.

    Args:
        document: The file.
        problems: Its earlier problems, which the result includes.
        skip: Metrics that are read elsewhere.
    """
    if not isinstance(document.value, dict):
        problem = document.error("wrong-type", "A config must be an object.", hint='Write {"criteria": {...}}.')
        return None, [*problems, problem]
    problems = [*problems, *islice(_unknown_keys(document), MAX_PROBLEMS)]
    parsed: ConfigFile | None = None
    try:
        parsed = ConfigFile.model_validate(document.value)
    except ValidationError as error:
        problems += shape_problems(document, error, ConfigFile, ())
    problems += check_simulator(document)
    problems += _ignored_live_mode(document)
    criteria, criteria_problems = read_criteria(document, skip)
    for name, metric in ((parsed and parsed.custom_metrics) or {}).items():
        # ADK splits the name at its last point: without a module, its import fails when the metric is scored, after the
        # agent ran.
        if parsed is not None and name in parsed.criteria and "." not in metric.code_config.name.strip("."):
            place: JsonPath = ("custom_metrics", name, "code_config", "name")
            message, hint = "`name` must name the module, too.", 'E.g. "evals.metrics.polite".'
            problems.append(document.error("invalid-value", message, path=place, hint=hint))
        elif parsed is not None and name not in parsed.criteria:
            message, at = f"No criterion names `{name}`, so it scores nothing.", ("custom_metrics", name)
            hint = f'Add it to the criteria with a threshold: "criteria": {{"{name}": 0.5}}.'
            problems.append(document.warning("custom-metric-unused", message, path=at, key=True, hint=hint))
    problems = without_renamed([*problems, *criteria_problems])
    if parsed is None or has_error(problems):
        return None, problems
    simulator = parsed.user_simulator_config
    paths: dict[str, JsonPath] = {
        name: ("custom_metrics", name, "code_config", "name") for name in parsed.custom_metrics or {}
    }
    # These are only read where no turn or no weight is left.
    if simulator is not None and simulator.max_allowed_invocations == 0:
        paths["max_allowed_invocations"] = ("user_simulator_config", "max_allowed_invocations")
    for each in criteria:
        if 0 in (each.options.get("rubric_weights") or {}).values():
            paths[f"{each.metric}.rubric_weights"] = ("criteria", each.metric, "rubric_weights")
    lines = {name: document.positions.of(document.spelled(path)).line for name, path in paths.items()}
    return EvalConfig(
        source=document.file,
        criteria=tuple(criteria),
        custom_metrics={name: metric.model_dump() for name, metric in (parsed.custom_metrics or {}).items()},
        user_simulator_config=None if simulator is None else simulator.model_dump(),
        places={name: f"{document.file}:{line}" for name, line in lines.items()},
    ), problems


@dataclass(kw_only=True)
class ConfigFinder:
    """Finds and reads the config of each file. Each config is read once."""

    root: Path
    override: Path | None = None
    """Applies to every file."""
    exclude: PathPatterns = field(default_factory=lambda: PathPatterns([]))
    """Of configs that don't apply to files that it does not match, too."""
    problems: list[Problem] = field(default_factory=list)
    """The problems of the configs read so far."""
    _read: dict[Path, EvalConfig | None] = field(default_factory=dict)
    _nearest: dict[tuple[Path, bool], Path | None] = field(default_factory=dict)
    _of_datasets: dict[tuple[Path | None, Path | None], EvalConfig | None] = field(default_factory=dict)
    _default: EvalConfig = field(default_factory=default_config)

    def for_file(self, path: Path) -> EvalConfig | None:
        """The config of an eval file; None if it has an error."""
        # The directory of a file that is run although it is excluded may be excluded with its config.
        config = self.override or self._find(path.parent, not self.exclude.match(name_of(path, self.root)))
        if config is None:
            return self._default
        if config not in self._read:
            self._read[config], problems = self._load(config)
            self.problems += problems
        return self._read[config]

    def for_dataset(self, path: Path) -> EvalConfig | None:
        """The config of a dataset of agents-cli; None if it has an error. ADK's default criteria don't apply."""
        override = self.override
        # `config` may name a file of either kind: agents-cli's says which metrics, ADK's only their thresholds.
        given = override if override is not None and is_dataset_config(override) else self._nearest_of_dataset(path)
        # Where agents-cli looks for a config: beside `datasets/`, not in it.
        folder = path.parent.parent if path.parent.name == FOLDER[-1] else path.parent
        beside = path if given is None or path.is_relative_to(given.parent) else given
        limits = override if override not in {None, given} else self._find(beside.parent, True)
        if (given, limits) not in self._of_datasets:
            self._of_datasets[given, limits], problems = self._load_dataset_config(given, limits)
            config = name_of(folder / DATASET_CONFIGS[0], self.root)
            self.problems += [
                problem
                if problem.file
                else replace(problem, file=name_of(path, self.root), hint=f"Write `{config}`: {problem.hint}")
                for problem in problems
            ]
        return self._of_datasets[given, limits]

    def unused(self, configs: Iterable[Path], files: Collection[Path]) -> Iterator[Problem]:
        """Warnings for configs that apply to none of the files, after `for_file` of each; none with an override."""
        read = {os.path.realpath(path) for path in self._nearest.values() if path is not None}  # Links, too.
        for path in configs if self.override is None else ():
            used = os.path.realpath(path) in read or any(file.is_relative_to(path.parent) for file in files)
            if not used and '"criteria"' in _text_of(path):  # The name is common in other tools.
                yield Problem(
                    severity=Severity.WARNING,
                    code="config-unused",
                    message="The config applies to no eval file: none is in its directory or below it.",
                    hint="Move it to the eval files or above them, set `config` to its path, or delete it.",
                    file=name_of(path, self.root),
                )

    def _nearest_of_dataset(self, path: Path) -> Path | None:
        """The config above a dataset; for one elsewhere, e.g. traces, that of the project, as agents-cli finds it."""
        folders = [folder for folder in path.parents if folder.is_relative_to(self.root)] or [path.parent]
        # After all folders above: a config nearer to the dataset has precedence over one at its usual place.
        folders += [folder / place for folder in folders for place in ("tests/eval", "eval")]
        configs = (folder / name for folder in folders for name in DATASET_CONFIGS)
        return next((path for path in configs if path.is_file() and is_dataset_config(path)), None)

    def _load_dataset_config(self, given: Path | None, limits: Path | None) -> tuple[EvalConfig | None, list[Problem]]:
        own, problems = (None, []) if limits is None else read_document(limits, name_of(limits, self.root))
        # A test_config.json alone may name agents-cli's metrics with their thresholds.
        metrics: DatasetMetrics | None = DatasetMetrics.none(self.root)
        if given is not None:
            metrics, found = read_dataset_config(given, self.root)
            problems += found
        if metrics is None or has_error(problems):
            return None, problems
        base: EvalConfig | None = None
        if own is not None:
            # Names of agents-cli's metrics would be unknown metrics of ADK.
            base, problems = parse_config(own, problems, metrics.names(criteria_in(own)))
            if base is None:
                return None, problems
        config, found = metrics.config(own, base)
        return config, [*problems, *found]

    def _load(self, path: Path) -> tuple[EvalConfig | None, list[Problem]]:
        if path.is_symlink() and not path.exists():
            return None, [dangling_link(path, self.root)]
        # Of a file that is named, "not found" is a mistake in the settings; others were found by a search.
        if path == self.override and not path.exists():
            message = f"`config` names `{name_of(path, self.root)}`, which does not exist."
            hint = "Set the path of a test_config.json. By default, the nearest one applies."
            if (close := nearby_file(path)) is not None:
                hint = f"Did you mean `{name_of(path.with_name(close), self.root)}`?"
            return None, [Problem(code="config-not-found", message=message, hint=hint)]
        return read_config(path, name_of(path, self.root))

    def _find(self, directory: Path, filtered: bool) -> Path | None:
        if (directory, filtered) not in self._nearest:
            # Includes broken links, so that the defaults don't apply instead.
            found = [directory / name for name in CONFIG_NAMES if os.path.lexists(directory / name)]
            # Both tools have an eval_config.json; agents-cli's has a list `metrics_to_run` and no `criteria`.
            found = [path for path in found if path.name not in DATASET_CONFIGS or not is_dataset_config(path)]
            excluded = [path for path in found if filtered and self.exclude.match(name_of(path, self.root))]
            others = {path: why_not_read(path, name_of(path, self.root), excluded=path in excluded) for path in found}
            self.problems += filter(None, others.values())
            configs = [path for path in found if path not in excluded and others[path] is None]
            if len(configs) > 1:
                message = f"`{configs[1].name}` is ignored: `{configs[0].name}` in the same directory has precedence."
                file, hint = name_of(configs[1], self.root), "Keep one of them."
                self.problems.append(
                    Problem(severity=Severity.WARNING, code="two-configs", message=message, hint=hint, file=file)
                )
            if not found:
                self.problems += _misnamed(directory, self.root)
            elif configs:
                self.problems += self._not_applied(configs[0])
            # Never above the root: another checkout's or the home directory's config must not decide.
            inside = directory != self.root and directory.is_relative_to(self.root)
            above = self._find(directory.parent, filtered) if inside and not configs else None
            self._nearest[directory, filtered] = configs[0] if configs else above
        return self._nearest[directory, filtered]

    def _not_applied(self, config: Path) -> Iterator[Problem]:
        """A notice for configs beside one, as people have them for `adk eval --config_file_path`."""
        # Any name that says config: people have `safety_config.json` and the like for `adk eval --config_file_path`.
        others = sorted(path for path in config.parent.glob("*config*.json") if path.name not in CONFIG_NAMES)
        names = [
            f"`{path.name}`"
            for path in islice(others, _MOST_OTHERS)
            if not self.exclude.match(name_of(path, self.root)) and _has_metrics(path)
        ]
        if names:
            yield Problem(
                severity=Severity.NOTICE,
                code="config-not-applied",
                message=f"`{config.name}` applies, and no eval file has the criteria of {listed(names, 3)} beside it.",
                hint=f"Move it with its eval files to a directory, as `{CONFIG_NAMES[0]}`, or run these with `config`.",
                file=name_of(config, self.root),
            )


def _has_metrics(path: Path) -> bool:
    """Whether a file has criteria of ADK's, as a config has them."""
    document = read_document(path, path.name)[0]
    criteria = document.value.get("criteria") if document is not None and isinstance(document.value, dict) else None
    return isinstance(criteria, dict) and not METRICS.keys().isdisjoint(criteria)


def _misnamed(directory: Path, root: Path) -> Iterator[Problem]:
    """Warnings for files with criteria in a directory without a config, whose names are almost that of one.

    Their criteria don't apply, so the gate requires less than their author believes.
    """
    try:
        names = sorted(os.listdir(directory))  # noqa: PTH208
    except OSError:
        return  # Discovery warns of it.
    for name in names:
        is_yaml = name.endswith((".yaml", ".yml"))
        # agents-cli's own config is YAML and right where it is.
        upwards = (folder for folder in (directory, *directory.parents) if folder.is_relative_to(root))
        if is_yaml and any(os.path.lexists(folder / other) for folder in upwards for other in _OF_AGENTS_CLI):
            continue
        if not nearby(name, CONFIG_NAMES, cutoff=_ALIKE):
            continue
        text = _text_of(directory / name)
        if (
            is_yaml
            and (directory / name).is_file()
            and (Path(name).with_suffix(".json").name in CONFIG_NAMES or _IN_YAML.search(text))
        ):
            message = "The file is not read: ADK's eval files have a config in JSON. (agents-cli's datasets have YAML.)"
            limits = [f'"{metric}": {limit}' for metric, limit in _LIMIT_IN_YAML.findall(text)]
            criteria = ", ".join(limits) or '"response_match_score": 0.8'
            target = name_of(directory / CONFIG_NAMES[0], root)
            hint = f'Write `{target}` instead: {{"criteria": {{{criteria}}}}}.'
        # Other tools have files of such names, too: the name alone says little.
        elif '"criteria"' in text:
            message = "The file has criteria but is not read, because of its name."
            hint = f"Rename it to `{CONFIG_NAMES[0]}`, or set `config` to its path."
        else:
            continue
        yield Problem(
            severity=Severity.WARNING,
            code="config-misnamed",
            message=message,
            hint=hint,
            file=name_of(directory / name, root),
        )


def _text_of(path: Path) -> str:
    try:
        return read_regular(path, MAX_SETTINGS).decode("utf-8", "replace")
    except OSError:
        return ""  # A directory, for example. Nothing depends on it but a warning.


def _ignored_live_mode(document: Document) -> Iterator[Problem]:
    for key in spellings(["live_model_config"]):
        if document.value.get(key) is not None:
            yield document.warning(
                "live-mode-ignored",
                f"`{key}` is set, but this version runs agents in the ordinary mode only.",
                path=(key,),
                key=True,
                hint="Scores may differ from those of `adk eval`.",
            )


def _unknown_keys(document: Document) -> Iterator[Problem]:
    """Warnings for unknown keys, which are ignored."""
    known = METRICS.keys() | {"eval_cases"}
    # Without criteria, but with metrics or cases beside them, `no-criteria` says what all keys are.
    is_config = "criteria" in document.value or known.isdisjoint(document.value)
    objects: list[tuple[JsonPath, Any, type[BaseModel], str]]
    objects = [((), document.value, ConfigFile, "a config file")] if is_config else []
    for key in spellings(["user_simulator_config"]):
        objects.append(((key,), document.value.get(key), LlmAudioUserSimulatorConfig, "a user simulator's config"))
    for path, value, model, owner in objects:
        keys = keys_of(model)
        for key in value if isinstance(value, dict) else ():
            if key not in spellings(keys) and not key.startswith(("$", "_", "//")):  # Comments, as people write them.
                message = f"`{key}` is not a key of {owner} and is ignored."
                hint = (None if path else hint_for_key(key)) or did_you_mean(key, keys)
                yield document.warning("unknown-config-key", message, path=(*path, key), key=True, hint=hint)
