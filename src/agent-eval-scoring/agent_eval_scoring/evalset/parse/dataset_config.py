"""Reads agents-cli's `eval_config.yaml`: which metrics score a dataset, and the thresholds that it lacks.

agents-cli has neither thresholds nor directions: they come from the test_config.json of the dataset, or from keys that
agents-cli ignores. A metric without a threshold is compared with the base branch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.files import MAX_SETTINGS, read_regular
from agent_eval_scoring.core.problem import Problem, Severity, has_error
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.core.text import listed
from agent_eval_scoring.evalset.json import Document, JsonPath, read_document
from agent_eval_scoring.evalset.models import CRITERION_MODELS, METRICS, CriterionConfig, EvalConfig
from agent_eval_scoring.evalset.parse._code import line_in, mistake_in
from agent_eval_scoring.evalset.parse.criteria import criterion
from agent_eval_scoring.evalset.parse.dataset import GROUP_KEY
from agent_eval_scoring.evalset.parse.shape import ignored_key, near_miss, near_miss_of, shape_problems
from agent_eval_scoring.evalset.paths import name_of

NAMES = ("eval_config.yaml", "eval_config.yml", "eval_config.json")
"""The first one has precedence. The last one is also the name of a config of ADK's: `is_dataset_config`."""
_KEYS = ("metrics_to_run", "custom_metrics", "thresholds")
_OWN_KEYS = re.compile(r'"(?:metrics_to_run|custom_metrics)"\s*:\s*\[')
_BODIES = ("custom_function", "custom_function_file", "prompt_template", "remote_custom_function")
_DEFAULT_THRESHOLDS = {"safety": 1.0, "safety_v1": 1.0}
"""A violation of a policy is never noise."""
_SERVICE = {
    "safety": "safety_v1",
    "multi_turn_task_success": "multi_turn_task_success_v1",
    "multi_turn_trajectory_quality": "multi_turn_trajectory_quality_v1",
    "multi_turn_tool_use_quality": "multi_turn_tool_use_quality_v1",
}
"""Built-in metrics with the same specification: exact with `"backend": "vertex"`."""
_SIMILAR = {
    "final_response_match": "final_response_match_v2",
    "hallucination": "hallucinations_v1",
    "grounding": "hallucinations_v1",
}
_RUBRICS = {
    **dict.fromkeys(
        ("final_response_quality", "final_response_reference_free", "general_quality", "text_quality"),
        "rubric_based_final_response_quality_v1",
    ),
    "instruction_following": "rubric_based_final_response_quality_v1",
    "tool_use_quality": "rubric_based_tool_use_quality_v1",
}
"""Those that score the share of a case's rubrics that are met: the same formula by another judge."""
_COMPUTED: Mapping[str, Mapping[str, Any]] = {
    "exact_match": {"algorithm": "exact", "normalize": False, "ignore_case": False},
    "rouge_1": {"algorithm": "rouge1"},
    "rouge_l_sum": {"algorithm": "rougeL"},
}
_OPTIONS: Mapping[str, Mapping[str, Any]] = {**_COMPUTED, "grounding": {"only_context": True}}
_JUDGE_KEYS = {
    "judge_model": "judge_model",
    "judge_model_sampling_count": "num_samples",
    "judge_model_generation_config": "judge_model_config",
}
"""Keys of a metric with a `prompt_template`, and the fields of `judge_model_options`."""
_NO_PROMPT = {
    "result_parsing_function": "is code that reads the judge's answer. Here it answers with a score: remove it.",
    "return_raw_output": "has no score. Remove it.",
}
_ENTRY = (
    *("name", *_BODIES, *_JUDGE_KEYS, *_NO_PROMPT, "judge_model_system_instruction", "metric_spec_parameters"),
    *("metric_resource_name", "threshold", "direction", "execution"),
)
"""Keys of a metric."""
_MAPPED = {**_SERVICE, **_SIMILAR, **_RUBRICS, **dict.fromkeys(_COMPUTED, "response_similarity")}
_ELSEWHERE = {
    **dict.fromkeys(
        ("multi_turn_general_quality", "multi_turn_text_quality"),
        "Google's service refuses it for the traces of agents. Use `multi_turn_task_success`.",
    ),
    **dict.fromkeys(("gecko_text2image", "gecko_text2video", "bleu"), "It has no counterpart here."),
}
_BUILT_IN = (*_MAPPED, *_ELSEWHERE)


def is_dataset_config(path: Path) -> bool:
    """Whether a file with one of NAMES is agents-cli's, not ADK's."""
    # ADK has no config in YAML.
    if path.suffix != ".json":
        return True
    try:
        text = read_regular(path, MAX_SETTINGS).decode("utf-8", "replace")
    except OSError:
        return False
    # By text, since the file may have a mistake, which its own reader then reports.
    return bool(_OWN_KEYS.search(text)) and '"criteria"' not in text


def read_dataset_config(path: Path, root: Path) -> tuple[DatasetMetrics | None, list[Problem]]:
    """Reads a config of agents-cli; None if it can't be read.

    Args:
        path: The file.
        root: What names in problems are relative to.
    """
    name = name_of(path, root)
    if path.suffix == ".json":
        document, problems = read_document(path, name)
    else:
        try:
            from agent_eval_scoring.evalset.json.yaml import read_yaml_document
        except ImportError:
            message = "The config is YAML, and ruamel.yaml is not installed."
            hint = "Install `agent-eval-action[yaml]`; the action's image has it. Or write it as eval_config.json."
            return None, [Problem(code="not-yaml", message=message, hint=hint, file=name)]
        document, problems = read_yaml_document(path, name)
    if document is None:
        return None, problems
    metrics = DatasetMetrics(document=document, folder=path.parent, root=root)
    problems += metrics.shape()
    return (None if has_error(problems) else metrics), problems


@dataclass(frozen=True, kw_only=True)
class DatasetMetrics:
    """The metrics of a config."""

    document: Document
    folder: Path
    root: Path
    pool: dict[str, tuple[int, Mapping[str, Any]]] = field(default_factory=dict)
    """The definitions by name, with their places in the file."""

    def shape(self) -> Iterator[Problem]:
        """What is wrong with the structure. Fills `pool`."""
        value = self.document.value
        if not isinstance(value, dict):
            message = "The config must be a mapping with `metrics_to_run` and `custom_metrics`."
            message = "The file is empty." if value is None else message
            yield self.document.error("wrong-type", message, hint="Write `metrics_to_run: [...]`.")
            return
        for key, what in (("metrics_to_run", "names of metrics"), ("custom_metrics", "metrics, each with a `name`")):
            items = value.get(key) or []
            kind = str if key == "metrics_to_run" else dict
            if not isinstance(items, list):
                hint = f"Write `{key}: [{items}]`." if isinstance(items, str) else "Begin each with `- name: `."
                yield self.document.error("wrong-type", f"`{key}` must be a list of {what}.", path=(key,), hint=hint)
                return
            for index, item in enumerate(items):
                if not isinstance(item, kind):
                    yield self.document.error("wrong-type", f"`{key}` is a list of {what}.", path=(key, index))
                elif isinstance(item, dict) and isinstance(item.get("name"), str):
                    self.pool[item["name"]] = (index, item)
        if isinstance(value.get("thresholds"), dict) or any("threshold" in entry for _, entry in self.pool.values()):
            yield self.document.problem(
                Severity.NOTICE,
                "agents-cli-differs",
                "The config has thresholds: they are applied here; agents-cli itself ignores them and exits 0.",
                path=("thresholds",) if "thresholds" in value else ("custom_metrics",),
            )

    @classmethod
    def none(cls, root: Path) -> DatasetMetrics:
        """Those of a dataset without a config."""
        return cls(document=Document(file="", text="{}", value={}), folder=root, root=root)

    def config(self, own: Document | None, base: EvalConfig | None) -> tuple[EvalConfig | None, list[Problem]]:
        """The criteria of the datasets of this config.

        Args:
            own: A test_config.json, which may have thresholds of these metrics.
            base: What else it has.
        """
        problems: list[Problem] = []
        result: dict[str, CriterionConfig] = {}
        custom: dict[str, Any] = {}
        given = criteria_in(own)
        mine = self.names(given)
        selected: list[str] = self.document.value.get("metrics_to_run") or []
        # A threshold in test_config.json selects its metric, too: else it would be required of nothing.
        for name in dict.fromkeys([*selected, *(name for name in given if name in mine)]):
            path: JsonPath = ("metrics_to_run", selected.index(name)) if name in selected else ("custom_metrics",)
            value = given[name] if name in mine else {}
            settings = value if isinstance(value, dict) else {"threshold": value}
            try:
                config, source = self._criterion(name, settings)
                result[name] = self._limited(config, name, settings, own or self.document)
            except _Refused as refused:
                at = refused.document or self.document
                problems.append(at.error(refused.code, str(refused), path=refused.path or path, hint=refused.hint))
                continue
            if source is not None:
                custom[name] = source
                problems += self._syntax(name, source["code"])
            problems += self._remarks(result[name], path)
        # ADK's criteria of the test_config.json come after those of agents-cli.
        result |= {each.name: each for each in (base.criteria if base is not None else ())}
        if not result and not has_error(problems):
            problems.append(self._nothing_selected())
        # Without any metric, the misspelt `metrics_to_run` is the finding.
        problems += self._misspelt() if result else ()
        if has_error(problems):
            return None, problems
        base = base or EvalConfig(source=self.document.file, criteria=())
        return replace(
            base,
            source=self.document.file or base.source,
            criteria=tuple(result.values()),
            custom_metrics={**base.custom_metrics, **custom},
        ), problems

    def _nothing_selected(self) -> Problem:
        message = "No metric is selected, so nothing would be gated."
        hint = "`metrics_to_run: [NAME]`, with a built-in metric, such as `final_response_quality`, or one of your own."
        if not self.document.file:  # There is no config: who asks for it knows the dataset.
            return Problem(code="no-criteria", message="No config selects a metric for this dataset.", hint=hint)
        keys = self.document.value
        if "metrics_to_run" in keys or (key := near_miss_of("metrics_to_run", keys)) is None:
            others = [f"`{key}`" for key in keys if key not in _KEYS]
            unread = f" agents-cli does not read {listed(others, 3)}." if others else ""
            path = ("metrics_to_run",)
            return self.document.error("no-criteria", message, path=path, hint=f"Write {hint}{unread}")
        hint = f"Rename `{key}` to `metrics_to_run`."
        return self.document.error("no-criteria", message, path=(key,), key=True, hint=hint)

    def _misspelt(self) -> Iterator[Problem]:
        """Warnings for keys that agents-cli does not read, and that are almost one that it does."""
        pool: list[tuple[JsonPath, Mapping[str, Any], tuple[str, ...]]]
        pool = [(("custom_metrics", index), entry, _ENTRY) for index, entry in self.pool.values()]
        for path, value, known in [((), self.document.value, _KEYS), *pool]:
            for key in value:
                close = near_miss(key, [*known]) if key not in known else None
                if close is not None and close not in value:
                    owner = "a metric" if path else "this config"
                    yield ignored_key(self.document, (*path, key), owner, f"Rename it to `{close}`.")

    def names(self, criteria: Mapping[str, Any]) -> set[str]:
        """Those criteria of a test_config.json that mean metrics of agents-cli."""
        return {name for name in criteria if name in self.pool or (name not in METRICS and _base(name) in _BUILT_IN)}

    def _criterion(self, name: str, settings: Mapping[str, Any]) -> tuple[CriterionConfig, Any]:
        """The criterion without its threshold, and the source of its function."""
        index, entry = self.pool.get(name, (None, {}))
        path: JsonPath = () if index is None else ("custom_metrics", index)
        base = _base(name)
        bodies = [key for key in _BODIES if key in entry]
        if "rubric_group_name" in entry:
            message = f"`{name}` has `rubric_group_name`, which agents-cli refuses."
            hint = "Write `metric_spec_parameters: {rubric_group_key: GROUP}`, without a `prompt_template`."
            raise _Refused("metric-unsupported", message, hint, (*path, "rubric_group_name"))
        # `safety_v1`: with a version the name is the service's, whatever the entry defines.
        if bodies and base != name.lower() and base in _BUILT_IN:
            message = f"`{name}` is reserved by Google's service, which would ignore this definition."
            raise _Refused("custom-metric-name-taken", message, f"Rename it, e.g. to `my_{name}`.", (*path, "name"))
        # Reports and baselines would show its scores as those of ADK's metric.
        if bodies and name in METRICS:
            message = f"`{name}` is the name of a metric of ADK."
            raise _Refused("custom-metric-name-taken", message, "Rename it.", (*path, "name"))
        if "custom_function" in bodies or "custom_function_file" in bodies:
            reference, code = self._code(name, entry, path)
            return CriterionConfig(metric=name, threshold=None), {"code_config": {"name": reference}, "code": code}
        if "prompt_template" in bodies:
            return self._prompt(name, entry, path, settings), None
        if bodies:
            message = f"`{name}` is code that runs in Google's service, which can't be asked here."
            hint = "Write it as `custom_function` or `custom_function_file`."
            raise _Refused("metric-unsupported", message, hint, (*path, bodies[0]))
        return self._built_in(name, base, entry, path, settings), None

    def _code(self, name: str, entry: Mapping[str, Any], path: JsonPath) -> tuple[str, str]:
        """The name and the source of a function."""
        file = entry.get("custom_function_file")
        if file is not None and "custom_function" in entry:
            message = f"`{name}` has both `custom_function` and `custom_function_file`."
            raise _Refused("metric-unsupported", message, "Keep one.", (*path, "custom_function"))
        if file is None:
            source, reference, key = entry["custom_function"], f"{self.document.file}:{name}", "custom_function"
        else:
            key, target = "custom_function_file", self.folder / str(file)
            reference = name_of(target, self.root)
            try:
                source = read_regular(target, MAX_SETTINGS).decode("utf-8")
            except (OSError, ValueError) as error:
                message = f"`{reference}` can't be read: {getattr(error, 'strerror', None) or error}."
                hint = "`custom_function_file` is relative to the config's directory."
                raise _Refused("custom-metric-source", message, hint, (*path, key)) from error
        # The name alone: it may be imported or assigned instead of defined.
        if not isinstance(source, str) or not re.search(r"\bevaluate\b", source):
            what = f"`{key}` of `{name}`" if file is None else f"`{reference}`"
            hint = 'Write the function: `def evaluate(instance): return {"score": 1.0}`.'
            if defined := re.search(r"^def (\w+)", str(source), re.MULTILINE):
                hint = f"Rename `{defined[1]}` to `evaluate`."
            elif str(source).strip().endswith(".py"):
                hint = f"For a file write `custom_function_file: {str(source).strip()}`, relative to this config."
            message = f"{what} defines no `evaluate(instance)`, which is called."
            raise _Refused("custom-metric-source", message, hint, (*path, key))
        return reference, source

    def _syntax(self, name: str, code: str) -> Iterator[Problem]:
        """A warning for code that this Python can't read: the agent's, which runs it, may be a newer one."""
        index, entry = self.pool[name]
        key = "custom_function" if "custom_function" in entry else "custom_function_file"
        at: JsonPath = ("custom_metrics", index, key)
        if (mistake := mistake_in(code)) is not None:
            what, hint, line = mistake
            problem = self.document.warning("custom-metric-source", f"`{name}` {what}.", path=at, hint=hint)
            inside = None if line is None else line_in(self.document.text, problem.line or 1, code, line)
            if key == "custom_function_file" and line is not None:
                file = name_of(self.folder / str(entry[key]), self.root)
                problem = replace(problem, file=file, line=line, column=None)
            elif inside is not None:
                problem = replace(problem, line=inside, column=None)
            elif line is not None:
                problem = replace(problem, message=f"`{name}` {what} (its line {line}).")
            yield problem

    def _prompt(
        self, name: str, entry: Mapping[str, Any], path: JsonPath, settings: Mapping[str, Any]
    ) -> CriterionConfig:
        """A judge with a prompt: the product's own, instead of Google's service."""
        for key, why in _NO_PROMPT.items():
            if key in entry:
                raise _Refused("metric-unsupported", f"`{name}` has `{key}`, which {why}", None, (*path, key))
        judge = {ours: entry[theirs] for theirs, ours in _JUDGE_KEYS.items() if theirs in entry}
        options = {
            # One vote unless the entry says more: each costs a call, and agents-cli has a key of its own for it.
            "judge_model_options": {"num_samples": 1, **judge},
            "prompt_template": entry["prompt_template"],
            "system_instruction": entry.get("judge_model_system_instruction", ""),
        }
        return replace(self._configured("judge_prompt", options | _own(settings), path, entry), label=name)

    def _configured(
        self, metric: str, options: Mapping[str, Any], path: JsonPath = (), entry: Mapping[str, Any] | None = None
    ) -> CriterionConfig:
        try:
            # The threshold is set by `_limited`: agents-cli has none, and the model requires one.
            model = CRITERION_MODELS[metric].model_validate({"threshold": 0.0, **options})
        except ValidationError as error:
            # Options are made of keys of several places, so only the key, not the position, can be looked up in the
            # file.
            [problem, *_] = shape_problems(
                Document(file="", text="{}", value=options), error, CRITERION_MODELS[metric], ()
            )
            field = str(problem.path).rpartition(".")[2]
            key = next((theirs for theirs, ours in _JUDGE_KEYS.items() if ours == field), field)
            message = problem.message.replace(f"`{field}`", f"`{key}`")
            at = (*path, key) if key in (entry or {}) else path
            raise _Refused(problem.code, message, problem.hint, at) from error
        return criterion(metric, model)

    def _built_in(
        self, name: str, base: str, entry: Mapping[str, Any], path: JsonPath, settings: Mapping[str, Any]
    ) -> CriterionConfig:
        if base in _ELSEWHERE:
            raise _Refused("metric-unsupported", f"`{name}` can't be scored here.", _ELSEWHERE[base], path)
        # agents-cli needs an entry in `custom_metrics` for these.
        if base in _COMPUTED and not entry:
            message = f"`{name}` is no metric without an entry in `custom_metrics`."
            raise _Refused("unknown-metric", message, f"Add `- name: {name}` there, as agents-cli needs it.")
        if base not in _MAPPED:
            if name in self.pool:
                message = (
                    f"`{name}` has nothing that computes a score: {listed([f'`{key}`' for key in _BODIES[:3]], 3)}."
                )
                hint = f"Add one to this entry, or choose a built-in metric, such as `{_BUILT_IN[0]}`."
                raise _Refused("metric-unsupported", message, hint, (*path, "name") if path else ())
            if name in METRICS:
                message = f"`{name}` is a criterion of ADK, not a metric of agents-cli."
                hint = f'Set it in a test_config.json, e.g. "criteria": {{"{name}": 0.8}}, and remove it here.'
                raise _Refused("unknown-metric", message, hint, (*path, "name") if path else ())
            close = nearby(name, [*_BUILT_IN, *self.pool], count=1)
            guess = f"Did you mean `{close[0]}`? " if close else ""
            hint = f"{guess}Own metrics are defined in `custom_metrics`."
            raise _Refused("unknown-metric", f"There is no metric `{name}`.", hint, (*path, "name") if path else ())
        metric = _MAPPED[base]
        found = replace(self._configured(metric, {**_OPTIONS.get(base, {}), **_own(settings)}), label=name)
        parameters = entry.get("metric_spec_parameters")
        group = parameters.get(GROUP_KEY) if isinstance(parameters, dict) else None
        # Kept as an option: which group that is depends on the case (checks/references.py).
        return replace(found, options={**found.options, GROUP_KEY: group}) if base in _RUBRICS else found

    def _limited(
        self, config: CriterionConfig, name: str, settings: Mapping[str, Any], own: Document
    ) -> CriterionConfig:
        """The criterion with its threshold and its direction. test_config.json has precedence."""
        index, entry = self.pool.get(name, (0, {}))
        at_criterion: JsonPath = ("criteria", name)
        listed = self.document.value.get("thresholds")
        places: list[tuple[Any, Document, JsonPath]] = [
            # In order of precedence: the gate's own config before keys that agents-cli ignores.
            (settings.get("threshold"), own, at_criterion),
            (entry.get("threshold"), self.document, ("custom_metrics", index, "threshold")),
            (listed.get(name) if isinstance(listed, dict) else None, self.document, ("thresholds", name)),
            (_DEFAULT_THRESHOLDS.get(config.label), self.document, ()),
        ]
        threshold, where, at = next((place for place in places if place[0] is not None), (None, own, at_criterion))
        # Read by hand: YAML has `.inf`, `yes` and texts, which pydantic would take.
        number = isinstance(threshold, int | float) and not isinstance(threshold, bool) and math.isfinite(threshold)
        if threshold is not None and not number:
            hint = f"Write e.g. 0.8, or no threshold: then `{name}` is compared with the base branch."
            raise _Refused("wrong-type", f"The threshold of `{name}` must be a number.", hint, at, where)
        spec = METRICS.get(config.metric)
        if threshold is not None and spec is not None and not spec.low <= threshold <= spec.high:
            message = f"The threshold {threshold:g} of `{name}` can't be used: its scores go from {spec.low:g} to "
            raise _Refused("threshold-out-of-range", f"{message}{spec.high:g}.", None, at, where)
        direction = settings.get("direction", entry.get("direction", "higher"))
        # Only a prompt or a function of the repository's may measure something of which less is better.
        known = spec is not None and config.metric != "judge_prompt"
        if direction not in ("higher", "lower", "none") or (known and direction == "lower"):
            message = f"The `direction` of `{name}` must be `higher`, `lower` or `none` (only reported)."
            message = f"Of `{name}`, higher is better." if known else message
            raise _Refused("invalid-value", message, None, at_criterion, own)
        # Without a threshold the score is compared with the base branch's, or only reported.
        return replace(config, threshold=None if direction == "none" else threshold, direction=direction)

    def _remarks(self, config: CriterionConfig, path: JsonPath) -> Iterator[Problem]:
        """What is different here."""
        name, base = config.name, _base(config.name)
        index, entry = self.pool.get(name, (0, {}))
        if entry.get("execution") == "remote":
            at: JsonPath = ("custom_metrics", index, "execution")
            message = f"`{name}` runs here, not in Google's sandbox."
            yield self.document.problem(Severity.NOTICE, "agents-cli-differs", message, path=at)
        if config.metric == "judge_prompt":
            message = f"`{name}` is judged by our judge, not by Google's service: scores are similar, not equal."
            at = ("custom_metrics", index, "prompt_template")
            yield self.document.problem(Severity.NOTICE, "agents-cli-differs", message, path=at)
        # Only of names of agents-cli (they have a label): ADK's metrics are scored as ADK does.
        elif base in _MAPPED and config.options.get("backend") != "vertex" and config.label:
            exact = ' With `"backend": "vertex"` in test_config.json it is asked.' if base in _SERVICE else ""
            message = (
                f"`{name}` is scored by `{_MAPPED[base]}`, not by Google's service: scores are similar, not equal."
            )
            at = path if path[0] == "metrics_to_run" else ()
            yield self.document.problem(
                Severity.NOTICE, "agents-cli-differs", message, path=at, hint=exact.strip() or None
            )


def criteria_in(own: Document | None) -> Mapping[str, Any]:
    """The criteria of a test_config.json; none if it has another shape, which is reported elsewhere."""
    criteria = own.value.get("criteria") if own is not None and isinstance(own.value, dict) else None
    return criteria if isinstance(criteria, dict) else {}


class _Refused(AgentEvalError):
    def __init__(
        self, code: str, message: str, hint: str | None, path: JsonPath = (), document: Document | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.path = path
        self.document = document


def _own(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a criterion in a test_config.json."""
    return {key: value for key, value in settings.items() if key not in ("threshold", "direction")}


def _base(name: str) -> str:
    """The name of a built-in metric without its version."""
    return re.sub(r"_v\d+$", "", name.lower())
