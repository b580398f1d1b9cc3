"""Multiple testing: Holm's adjustment over the families, and over the cases of each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from agent_eval.gate.stats.decision import Rules
from agent_eval.gate.stats.exact_tests import holm
from agent_eval.gate.stats.families import Family


@dataclass(frozen=True, kw_only=True)
class FamilyResult:
    """A family and its significant results."""

    family: Family
    alpha: float
    """The family-wise error rate, shared with other families unless the rule has its own."""
    level: float
    """The level of the family's p-value: Holm's step if rejected, else alpha divided by the number of families."""
    adjusted: float
    """The family's Holm-adjusted p-value."""
    case_p: dict[int, float]
    """Adjusted p-values of the suspected regressions, by index."""
    named: tuple[int, ...]
    """Indices of the cases that individually got significantly worse."""

    @property
    def rejected(self) -> bool:
        """Whether the metric got significantly worse."""
        return self.adjusted <= self.alpha


def family_results(families: Sequence[Family], rules: Rules) -> list[FamilyResult]:
    """Applies Holm's method over the families that share an error rate, and over the suspected regressions of each.

    Blocking and informational families are adjusted separately: informational ones must not reduce the gate's power.
    """
    results: dict[int, FamilyResult] = {}
    groups: dict[tuple[object, ...], list[Family]] = {}
    for family in families:
        own = family.rule.alpha
        groups.setdefault((family.rule.blocking, None if own is None else (own, family.metric)), []).append(family)
    for group in groups.values():
        raw = [family.p_value for family in group]
        adjusted = holm(raw)
        for family, p_value in zip(group, adjusted, strict=True):
            alpha = rules.alpha if family.rule.alpha is None else family.rule.alpha
            p_value = min(p_value, *family.repeated.values(), 1.0)
            case_p = {index: max(p_value, min(1.0, len(group) * value)) for index, value in _cases(family).items()}
            case_p |= {index: min(value, case_p[index]) for index, value in family.repeated.items()}
            seen = {suspect.index for suspect in family.suspects if family.may_be_named(suspect)}
            named = (
                index
                for index, value in case_p.items()
                if value <= alpha and index in seen and drop_of(family, index) > family.drops[index]
            )
            results[id(family)] = FamilyResult(
                family=family,
                alpha=alpha,
                level=alpha / (sum(value >= family.p_value for value in raw) if p_value <= alpha else len(group)),
                adjusted=p_value,
                case_p=case_p,
                named=tuple(named),
            )
    return [results[id(family)] for family in families]


def _cases(family: Family) -> dict[int, float]:
    suspects = [suspect for suspect in family.suspects if suspect.made and suspect.base_planned]
    if family.binary:
        values = holm([suspect.p_value for suspect in suspects])
        return {suspect.index: value for suspect, value in zip(suspects, values, strict=True)}
    return {suspect.index: min(1.0, suspect.p_value / suspect.weight) for suspect in suspects}


def drop_of(family: Family, index: int) -> float:
    """Base mean minus head mean of a case: of its confirmation runs if there are any; 0 without base runs."""
    series = family.series[index]
    head, base = series.head_confirm or series.head_screen, family.base_of(series)
    return fsum(base) / len(base) - fsum(head) / len(head) if head and base else 0.0
