"""Criteria from packages that are installed beside agent-eval: entry points of the group `agent_eval.criteria`.

Such a package is the operator's choice, as agent-eval itself is, and runs in our process. It is imported only when a
config names a metric that nobody else knows. Names of known metrics are never looked up here.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from agent_eval.core.text import first_line, shorten
from agent_eval.criteria.base import Conversation, Criterion, NotEvaluated, Result, Scored
from agent_eval.criteria.custom import number
from agent_eval.evalset.models import GROUP, CriterionConfig
from agent_eval.results import RunError


class PackageFault(ValueError):
    """A package can't give the criterion that it promises; the message is one sentence without a full stop."""


@dataclass(frozen=True, kw_only=True)
class Packaged:
    """A package's criterion, held to the contract. Implements `Criterion`."""

    name: str
    threshold: float
    package: str
    """Name and version."""
    inner: Criterion

    async def score(self, conversation: Conversation) -> Result:
        """The package's result. What it raises, or what is no score, is no measurement."""
        try:
            result = await self.inner.score(conversation)
        except Exception as error:
            message = f"{self.package} raised {type(error).__name__}: {first_line(str(error), 500) or 'no message'}"
            return self._failed(message, shorten("".join(traceback.format_exception(error)), 4_000))
        if isinstance(result, NotEvaluated):
            return result
        if not isinstance(result, Scored) or number(result.score) is None:  # type: ignore[redundant-expr]
            given = repr(getattr(result, "score", None)) if type(result) is Scored else type(result).__name__
            return self._failed(f"{self.package} gave {shorten(given, 100)}, which is no finite score")
        return result

    def _failed(self, message: str, told: str | None = None) -> NotEvaluated:
        error = RunError(kind="package-failed", owner="gate", message=message, traceback=told)
        return NotEvaluated(code="package-failed", message=message, error=error)


def build_packaged(config: CriterionConfig, found: Sequence[EntryPoint] | None = None) -> Packaged:
    """Makes the criterion of an installed package.

    Args:
        config: Validated; `options` are the fields of its object as they were written.
        found: The entry points of that name; None looks them up.

    Raises:
        PackageFault: No package has it, several have, it can't be imported, or it refuses the config.
    """
    points = list(entry_points(group=GROUP, name=config.metric)) if found is None else list(found)
    if not points:
        raise PackageFault(f"no installed package gives the metric `{config.metric}`")
    if len(points) > 1:
        names = ", ".join(sorted(_package(point) for point in points))
        raise PackageFault(f"several packages give the metric `{config.metric}`: {names}")
    package = _package(points[0])
    what = f"the package {package}, which gives the metric `{config.metric}`,"
    try:
        factory = points[0].load()
    except (Exception, SystemExit) as error:
        raise PackageFault(f"{what} can't be imported: {_told(error)}") from error
    try:
        inner = factory(config)
    except (Exception, SystemExit) as error:
        raise PackageFault(f"{what} refuses its config: {_told(error)}") from error
    if not callable(getattr(inner, "score", None)):
        raise PackageFault(f"{what} made a {type(inner).__name__}, which has no `score`")
    return Packaged(name=config.metric, threshold=config.threshold, package=package, inner=inner)


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(str(error), 300) or 'no message'}"
