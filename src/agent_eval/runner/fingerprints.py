"""Whether two scores measure the same thing: hashes of what a case asks and of how a metric is computed."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agent_eval.criteria.judged.judge import DEFAULT_JUDGE
from agent_eval.criteria.judged.version import QUESTIONS_VERSION
from agent_eval.criteria.registry import judge_of
from agent_eval.evalset.schema import EvalCase
from agent_eval.evalset.suite import CriterionConfig

_LENGTH = 16
_OF_NO_INTEREST = {"eval_id", "creation_timestamp", "invocation_id", "duration", "model_duration", "tool_duration"}
"""What a case says that no agent and no criterion gets to see. Without its id a renamed case is found again."""


@dataclass(frozen=True, kw_only=True)
class MetricIdentity:
    """By what a metric's scores are known."""

    judge: str | None
    """The model that judges; None for a metric that is computed."""
    fingerprint: str


def case_fingerprint(case: EvalCase, user_config: Mapping[str, Any] | None) -> str:
    """Hash of what is asked and expected.

    Args:
        case: The case.
        user_config: `user_simulator_config`, which decides how the user of a scenario speaks.
    """
    content = _without(case.model_dump(mode="json", exclude_none=True, exclude_defaults=True))
    simulated = dict(user_config or {}) if case.conversation_scenario is not None else None
    return _hash([content, simulated])


def metric_identity(
    config: CriterionConfig, default_model: str = DEFAULT_JUDGE, source: str | None = None
) -> MetricIdentity:
    """By what the scores of a configured criterion are known.

    Args:
        config: Validated. Its threshold plays no part: the same score is measured, only judged otherwise.
        default_model: The judge of criteria that name none.
        source: Of a custom metric: which code it is.
    """
    judge = judge_of(config, default_model) if source is None else None
    options = {name: value for name, value in config.options.items() if name != "judge_model_options"}
    asked = None
    if judge is not None:
        asked = [QUESTIONS_VERSION, judge.model, judge.samples, dict(judge.config)]
    return MetricIdentity(
        judge=judge.model if judge is not None else None,
        fingerprint=_hash([config.metric, options, asked if source is None else source]),
    )


def function_source(function: str, root: Path, package: Path | None) -> str:
    """Hash of the file that a custom metric stands in; "" where it can't be found without importing anything.

    Args:
        function: `package.module.function`.
        root: The repository's.
        package: The agent's directory, which is known as `agent` too; None for a module.
    """
    *module, _ = function.split(".")
    candidates = [Path(root, *module)]
    if package is not None:
        candidates.insert(0, Path(package.parent, *module))
        if module[:1] == ["agent"]:
            candidates.insert(0, Path(package, *module[1:]))
    for path in candidates:
        for file in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
            with contextlib.suppress(OSError):
                return hashlib.sha256(file.read_bytes()).hexdigest()[:_LENGTH]
    return ""


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(item) for key, item in value.items() if key not in _OF_NO_INTEREST}
    return [_without(item) for item in value] if isinstance(value, list) else value


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=_plain)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"an option of type {type(value).__name__} has no fingerprint")
