"""Which case of the head is which case of the base: one `Pairing` for everything that compares the two. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from agent_eval_results import CaseHistory, CaseReport, SelectionReport
from agent_eval_scoring.core.selectors import covers

Pair = tuple[CaseReport, CaseReport]
"""The same case of head and base. Its id differs if the case was renamed or its file was moved."""


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """All cases of both sides, each in one place."""

    pairs: tuple[Pair, ...]
    """The same content, in the head's order."""
    changed: tuple[Pair, ...]
    """The same id with another content."""
    added: tuple[CaseReport, ...]
    """In the head only."""
    removed: tuple[CaseReport, ...]
    """In the base only."""
    left_out: int
    """Cases of the base outside the head's selection."""
    not_on_base: tuple[CaseReport, ...]
    """Cases of the head outside the base's selection."""
    without_fingerprints: int
    """Number of pairs matched by id alone, because one side has no fingerprint."""
    stored: Mapping[str, CaseHistory]
    """Stored runs of the same content on the base branch, by the head's id."""

    @cached_property
    def counterparts(self) -> dict[str, CaseReport]:
        """The case of the base of each pair, by the head's id."""
        return {head.case_id: base for head, base in self.pairs}


def pair_up(
    head: Sequence[CaseReport],
    base: Sequence[CaseReport],
    selection: SelectionReport | None = None,
    base_selection: SelectionReport | None = None,
    history: Iterable[CaseHistory] = (),
) -> Pairing:
    """Pairs the cases of both sides.

    Cases with the same content are one case, even if it was renamed, its file was moved or ids were swapped, unless
    there are several of either and their ids are ambiguous. Of the others, the same id is the same case.

    Args:
        head: The head's cases.
        base: The base's.
        selection: What the head's run was limited to. A case that it leaves out is not gone.
        base_selection: What the base's run was limited to.
        history: Stored runs of the base branch: of the base's cases, and of others that its last run left out.
    """
    reports = {case.case_id: case for case in base}
    stored = {case.case_id: case for case in history}
    base_ids = _match(head, {**stored, **reports}, selection)
    pairs: list[Pair] = []
    changed: list[Pair] = []
    added: list[CaseReport] = []
    not_on_base: list[CaseReport] = []
    bare = 0
    on_base = scope(base_selection)
    for case in head:
        old = reports.get(base_ids.get(case.case_id, ""))
        if old is None:
            (added if on_base(case.case_id) else not_on_base).append(case)
        elif case.fingerprint and old.fingerprint and case.fingerprint != old.fingerprint:
            changed.append((case, old))
        else:
            pairs.append((case, old))
            bare += not (case.fingerprint and old.fingerprint)
    here = scope(selection)
    taken = set(base_ids.values())
    removed = [case for case_id, case in reports.items() if case_id not in taken]
    return Pairing(
        pairs=tuple(pairs),
        changed=tuple(changed),
        added=tuple(added),
        removed=tuple(case for case in removed if here(case.case_id)),
        left_out=sum(not here(case.case_id) for case in removed),
        not_on_base=tuple(not_on_base),
        without_fingerprints=bare,
        stored={
            case.case_id: runs
            for case in head
            if (runs := stored.get(base_ids.get(case.case_id, ""))) and runs.fingerprint == case.fingerprint
        },
    )


def scope(selection: SelectionReport | None) -> Callable[[str], bool]:
    """A predicate of case ids: whether the selection includes the case."""
    if selection is None:
        return lambda case_id: True
    targets = [(target.path, tuple(target.ids)) for target in selection.targets]
    return covers(targets, selection.exclude)


def _match(
    head: Sequence[CaseReport], base: Mapping[str, CaseReport | CaseHistory], selection: SelectionReport | None
) -> dict[str, str]:
    """The base's id of each case of the head that the base has."""
    here = {case.case_id for case in head}
    base_ids = {
        case.case_id: case.case_id
        for case in head
        if (old := base.get(case.case_id)) is not None and case.fingerprint == old.fingerprint
    }
    fresh: dict[str, list[CaseReport]] = {}
    for case in head:
        if case.case_id not in base_ids and case.fingerprint:
            fresh.setdefault(case.fingerprint, []).append(case)
    if fresh:
        in_scope = scope(selection)
        gone: dict[str, list[str]] = {}
        for case_id, old in base.items():
            if old.fingerprint in fresh and case_id not in base_ids and (case_id in here or in_scope(case_id)):
                gone.setdefault(old.fingerprint, []).append(case_id)
        for fingerprint in fresh.keys() & gone.keys():
            base_ids |= _renamed(fresh[fingerprint], gone[fingerprint])
    taken = set(base_ids.values())
    changed = (case.case_id for case in head if case.case_id not in base_ids)
    return base_ids | {case_id: case_id for case_id in changed if case_id in base and case_id not in taken}


def _renamed(fresh: Sequence[CaseReport], gone: Sequence[str]) -> dict[str, str]:
    """The old id of renamed cases, by their new one. All given cases have the same content."""
    renamed: dict[str, str] = {}
    remaining = list(gone)
    for case in fresh:
        same_name = [old for old in remaining if old.endswith(f":{case.eval_id}")]
        if len(same_name) == 1 and sum(other.eval_id == case.eval_id for other in fresh) == 1:
            renamed[case.case_id] = same_name[0]
            remaining.remove(same_name[0])
    rest = [case for case in fresh if case.case_id not in renamed]
    if len(rest) == len(remaining) == 1:
        renamed[rest[0].case_id] = remaining[0]
    return renamed
