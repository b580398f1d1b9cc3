"""Before a pull request fails: is the base still today what its stored runs say? Pure.

Dealing runs again takes for granted that a run of today is like one of last week. On a day on which a tool or the
provider is down it isn't, and every case that depends on it looks like a regression. So a finding that rests on stored
runs is checked before it blocks: the cases that it rests on run a few times on the base today. If these runs are
lower than the stored ones, only runs of today are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from agent_eval.gate.stats import DecisionReason, Family, Judged

CHECK_RUNS = 4
"""Runs of the base today, of each named case of a metric that got worse; of each suspicious one if none is named."""
DIFFERS = 0.02
"""Today's base runs are lower than the stored ones where chance makes them so in at most one check of fifty. A wrong
alarm costs runs and some power, never a wrong verdict."""
_SOME = 8
REASON = DecisionReason(
    code="base-differs-today",
    message="The base branch fails more often today than its stored runs did, so only runs of today were compared",
    blocking=False,
)


def runs_to_check(judged: Sequence[Judged]) -> dict[str, int]:
    """Runs of the base that are missing for the check, by case id; none once it can be made."""
    missing: dict[str, int] = {}
    for one in _findings(judged):
        for index in one.named or [suspect.index for suspect in one.family.suspects] or _some(one.family):
            series, case_id = one.family.series[index], one.family.case_ids[index]
            count = CHECK_RUNS - len(series.base_confirm)
            if series.base and count > 0:
                missing[case_id] = max(count, missing.get(case_id, 0))
    return missing


def _some(family: Family) -> list[int]:
    """Cases to check where scores got worse all together and none is suspicious; any will do."""
    return sorted(range(len(family.series)), key=lambda index: crc32(family.case_ids[index].encode()))[:_SOME]


def differs(judged: Sequence[Judged]) -> bool:
    """Whether the base of today is lower than its stored runs in a metric that got worse."""
    for one in _findings(judged):
        # Of all cases that were run there, so that the answer stays when one of them gets its name meanwhile.
        p_value = one.family.suite_test(
            [(series.base_confirm[:CHECK_RUNS], series.base) for series in one.family.series]
        )
        if p_value is not None and p_value <= DIFFERS:
            return True
    return False


def _findings(judged: Sequence[Judged]) -> list[Judged]:
    return [one for one in judged if one.rejected and one.family.rule.blocking]
