"""Criteria of installed packages: entry points of the group `agent_eval.criteria`.

The operator installs such a package, and it runs in this process. It is imported only if a config names a metric
that is neither built in nor custom.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.recording import RunError
from agent_eval_scoring.core.text import first_line, shorten
from agent_eval_scoring.criteria.base import Conversation, Criterion, NotEvaluated, Result, Scored
from agent_eval_scoring.criteria.custom import number
from agent_eval_scoring.evalset.models import GROUP, CriterionConfig


class PackageFault(AgentEvalError, ValueError):
    """A package can't provide its criterion. The message is a clause without a full stop."""


@dataclass(frozen=True, kw_only=True)
class Packaged:
    """Validates the results of a package's criterion. Implements `Criterion`."""

    name: str
    threshold: float
    package: str
    """Name and version."""
    inner: Criterion

    async def score(self, conversation: Conversation) -> Result:
        """The package's result; NotEvaluated if it raises or returns an invalid score."""
        try:
            result = await self.inner.score(conversation)
        except Exception as error:
            message = f"{self.package} raised {type(error).__name__}: {first_line(str(error), 500) or 'no message'}"
            return self._failed(message, shorten("".join(traceback.format_exception(error)), 4_000))
        if isinstance(result, NotEvaluated):
            return result
        if not isinstance(result, Scored) or number(result.score) is None:  # type: ignore[redundant-expr]
            shown = repr(getattr(result, "score", None)) if type(result) is Scored else type(result).__name__
            return self._failed(f"{self.package} returned {shorten(shown, 100)}, which is not a finite score")
        return result

    def _failed(self, message: str, trace: str | None = None) -> NotEvaluated:
        error = RunError(kind="package-failed", owner="gate", message=message, traceback=trace)
        return NotEvaluated(code="package-failed", message=message, error=error)


def build_packaged(config: CriterionConfig) -> Packaged:
    """Builds the criterion of an installed package.

    Args:
        config: Validated; `options` are the fields as written.

    Raises:
        PackageFault: None or several packages have the metric, the import fails, or the config is refused.
    """
    points = list(entry_points(group=GROUP, name=config.metric))
    if not points:
        raise PackageFault(f"no installed package has the metric `{config.metric}`")
    if len(points) > 1:
        names = ", ".join(sorted(_package(point) for point in points))
        raise PackageFault(f"several packages have the metric `{config.metric}`: {names}")
    package = _package(points[0])
    what = f"the package {package} with the metric `{config.metric}`"
    try:
        factory = points[0].load()
    except (Exception, SystemExit) as error:
        raise PackageFault(f"{what} can't be imported: {_describe(error)}") from error
    try:
        inner = factory(config)
    except (Exception, SystemExit) as error:
        raise PackageFault(f"{what} refuses its config: {_describe(error)}") from error
    if not callable(getattr(inner, "score", None)):
        raise PackageFault(f"{what} returned a {type(inner).__name__} without `score`")
    return Packaged(name=config.metric, threshold=config.bound, package=package, inner=inner)


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(str(error), 300) or 'no message'}"
