"""From the p-values of the families to what is significant. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from agent_eval.gate.stats.decision import Rules
from agent_eval.gate.stats.exact_tests import holm
from agent_eval.gate.stats.families import Family


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A family with what is significant in it."""

    family: Family
    alpha: float
    """Its error rate, shared with others unless the rule has its own."""
    level: float
    """What its own p-value is held to: Holm's step if it is rejected, else its part if no other family were."""
    adjusted: float
    """Its p-value after Holm."""
    case_p: dict[int, float]
    """By index of the suspicious cases: their p-values after allowing for all cases and families."""
    named: tuple[int, ...]
    """Indices of the cases that got significantly worse, each by itself."""

    @property
    def rejected(self) -> bool:
        """Whether something in it got worse."""
        return self.adjusted <= self.alpha


def judge(families: Sequence[Family], rules: Rules) -> list[Judged]:
    """Applies Holm over the families that share an error rate, and over the suspicious cases of each.

    Families that block and those that only inform are adjusted apart: what is only told takes nothing from the gate.
    """
    results: dict[int, Judged] = {}
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
            named = (
                index
                for index, value in case_p.items()
                if value <= alpha and drop_of(family, index) > family.drops[index]
            )
            results[id(family)] = Judged(
                family=family,
                alpha=alpha,
                level=alpha / (sum(value >= family.p_value for value in raw) if p_value <= alpha else len(group)),
                adjusted=p_value,
                case_p=case_p,
                named=tuple(named),
            )
    return [results[id(family)] for family in families]


def _cases(family: Family) -> dict[int, float]:
    suspects = [suspect for suspect in family.suspects if suspect.trial.made and suspect.trial.base_planned]
    if family.binary:
        values = holm([suspect.p_value for suspect in suspects])
        return {suspect.index: value for suspect, value in zip(suspects, values, strict=True)}
    return {suspect.index: min(1.0, suspect.p_value / suspect.weight) for suspect in suspects}


def drop_of(family: Family, index: int) -> float:
    """How much lower a case is on the head: of its confirmation runs if there are any; 0 without runs of the base."""
    series = family.series[index]
    head, base = series.head_confirm or series.head_screen, family.base_of(series)
    return fsum(base) / len(base) - fsum(head) / len(head) if head and base else 0.0
