"""What the files of a repository amount to once they are read: the cases to run, and what gates them."""

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
    """Its name in reports where another criterion of the case has the metric's name; "" for the metric's name."""

    @property
    def name(self) -> str:
        """What reports call it."""
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
    live_model_config: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class SelectedCase:
    """A case that will run."""

    case: EvalCase
    line: int | None
    """Where the case begins in its file, 1-based; known for every case of a file that is well formed."""


@dataclass(frozen=True, kw_only=True)
class LoadedFile:
    """One eval file, read and validated, with the cases that were selected from it."""

    path: str
    """Relative to the root, with forward slashes."""
    eval_set: EvalSet
    config: EvalConfig
    cases: tuple[SelectedCase, ...]
    legacy: bool = False
    """Converted in memory from one of ADK's older forms."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """All files of one run, in path order, and everything that was found wrong with them."""

    files: tuple[LoadedFile, ...]
    problems: tuple[Problem, ...]
    """In file, line, column order. A file with an error is not in `files`."""
    found: int = 0
    """How many eval files were found, with errors or without."""

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that forbid a run."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)
