"""Which case of the head is which case of the base. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_eval.results.report import CaseReport


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The same case on both sides."""

    head: CaseReport
    base: CaseReport

    @property
    def renamed(self) -> bool:
        """Whether its id has changed: another name, or another file."""
        return self.head.case_id != self.base.case_id


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """All cases of both sides, each in one place."""

    pairs: tuple[Pair, ...]
    """The same content, in the head's order."""
    changed: tuple[tuple[CaseReport, CaseReport], ...]
    """The same id with another content: head, base."""
    added: tuple[CaseReport, ...]
    removed: tuple[CaseReport, ...]
    without_fingerprints: int
    """Pairs that were made by their id alone, since one side doesn't tell what the case was."""


def pair_up(head: Sequence[CaseReport], base: Sequence[CaseReport]) -> Pairing:
    """Finds each case of the head on the base.

    A case whose id is gone and a new one with the same content are taken for one case that was renamed, unless there
    are several of either and their `eval_id`s don't tell them apart.
    """
    olds = {case.case_id: case for case in base}
    news = {case.case_id for case in head}
    gone: dict[str, list[CaseReport]] = {}
    for case in olds.values():
        if case.case_id not in news and case.fingerprint:
            gone.setdefault(case.fingerprint, []).append(case)
    fresh: dict[str, list[CaseReport]] = {}
    for case in head:
        if case.case_id not in olds and case.fingerprint:
            fresh.setdefault(case.fingerprint, []).append(case)
    renamed: dict[str, CaseReport] = {}
    for fingerprint in fresh.keys() & gone.keys():
        renamed |= _renamed(fresh[fingerprint], gone[fingerprint])

    pairs, changed, added, bare = [], [], [], 0
    for case in head:
        old = olds.get(case.case_id) or renamed.get(case.case_id)
        if old is None:
            added.append(case)
        elif case.fingerprint and old.fingerprint and case.fingerprint != old.fingerprint:
            changed.append((case, old))
        else:
            pairs.append(Pair(head=case, base=old))
            bare += not (case.fingerprint and old.fingerprint)
    taken = {old.case_id for old in renamed.values()}
    return Pairing(
        pairs=tuple(pairs),
        changed=tuple(changed),
        added=tuple(added),
        removed=tuple(case for case in olds.values() if case.case_id not in news and case.case_id not in taken),
        without_fingerprints=bare,
    )


def _renamed(fresh: Sequence[CaseReport], gone: Sequence[CaseReport]) -> dict[str, CaseReport]:
    """Cases of the base by the new id; all of these have the same content."""
    found: dict[str, CaseReport] = {}
    left = list(gone)
    for case in fresh:
        same_name = [old for old in left if old.eval_id == case.eval_id]
        if len(same_name) == 1 and sum(other.eval_id == case.eval_id for other in fresh) == 1:
            found[case.case_id] = same_name[0]
            left.remove(same_name[0])
    rest = [case for case in fresh if case.case_id not in found]
    if len(rest) == len(left) == 1:
        found[rest[0].case_id] = left[0]
    return found
