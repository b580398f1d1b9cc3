"""The loaded suite: files, configs, criteria and selected cases."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_eval.core.problem import Problem, Severity
from agent_eval.evalset.models.schema import EvalCase, EvalSet


class MatchType(enum.Enum):
    """How the actual tool calls must match the expected ones."""

    EXACT = 0
    IN_ORDER = 1
    ANY_ORDER = 2


@dataclass(frozen=True, kw_only=True)
class CriterionConfig:
    """One configured criterion, validated."""

    metric: str
    """ADK's name, e.g. `tool_trajectory_avg_score`."""
    threshold: float
    options: Mapping[str, Any] = field(default_factory=dict)
    """Every other field of the criterion in snake_case, with defaults filled in and values typed
    (`match_type` is a MatchType)."""
    label: str = ""
    """The name in reports if another criterion of the case uses the same metric; "" for the metric's name."""

    @property
    def name(self) -> str:
        """The name in reports."""
        return self.label or self.metric


@dataclass(frozen=True, kw_only=True)
class EvalConfig:
    """The criteria that apply to a file."""

    source: str | None
    """The config file, relative to the root; None for ADK's defaults."""
    criteria: tuple[CriterionConfig, ...]
    """In the order of the file."""
    custom_metrics: Mapping[str, Any] = field(default_factory=dict)
    """By the name of the criterion."""
    user_simulator_config: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class SelectedCase:
    """A case that will run."""

    case: EvalCase
    line: int | None
    """The first line of the case in its file, from 1. Every case of a well-formed file has one."""


@dataclass(frozen=True, kw_only=True)
class LoadedFile:
    """A validated eval file with its selected cases."""

    path: str
    """Relative to the root, with forward slashes."""
    eval_set: EvalSet
    config: EvalConfig
    cases: tuple[SelectedCase, ...]
    legacy: bool = False
    """Whether it was converted in memory from one of ADK's legacy formats."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """All files of a run in path order, and all problems."""

    files: tuple[LoadedFile, ...]
    problems: tuple[Problem, ...]
    """In file, line, column order. A file with an error is not in `files`."""
    file_count: int = 0
    """Number of eval files, including those with errors."""

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that prevent a run."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)
