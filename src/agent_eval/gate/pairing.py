"""Which case of the head is which case of the base, for the comparison and for the statistics alike. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from agent_eval.core.selectors import covers
from agent_eval.results import CaseReport, SelectionReport


class BaseCase(Protocol):
    """What identifies a case of the base: a `CaseReport` or a `CaseHistory`."""

    @property
    def case_id(self) -> str:
        """File and eval id."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hash of its content; empty if it is unknown."""
        ...


B = TypeVar("B", bound=BaseCase)


def match(head: Sequence[CaseReport], base: Iterable[B], selection: SelectionReport | None = None) -> dict[str, B]:
    """The case of the base that each case of the head is, by the head's id.

    The same id is the same case, even if its content has changed. A case whose id is gone and a new one with the same
    content are one case that was renamed or whose file was moved, unless there are several of either and their
    `eval_id`s are ambiguous.

    Args:
        head: The head's cases.
        base: The base's.
        selection: What the head's run was limited to. A case that it leaves out is not gone.
    """
    olds = {case.case_id: case for case in base}
    there = {case.case_id for case in head}
    matches = {case.case_id: olds[case.case_id] for case in head if case.case_id in olds}
    fresh: dict[str, list[CaseReport]] = {}
    for case in head:
        if case.case_id not in olds and case.fingerprint:
            fresh.setdefault(case.fingerprint, []).append(case)
    if fresh:
        in_scope = scope(selection)
        gone: dict[str, list[B]] = {}
        for old in olds.values():
            if old.fingerprint in fresh and old.case_id not in there and in_scope(old.case_id):
                gone.setdefault(old.fingerprint, []).append(old)
        for fingerprint in fresh.keys() & gone.keys():
            matches |= _renamed(fresh[fingerprint], gone[fingerprint])
    return matches


def same_cases(
    head: Sequence[CaseReport], base: Iterable[BaseCase], selection: SelectionReport | None = None
) -> dict[str, str]:
    """The id on the base branch of each case of the head that has the same content there; see `match`."""
    contents = {case.case_id: case.fingerprint for case in head}
    matches = match(head, base, selection)
    return {case_id: old.case_id for case_id, old in matches.items() if old.fingerprint == contents[case_id]}


def scope(selection: SelectionReport | None) -> Callable[[str], bool]:
    """A predicate of case ids: whether the selection includes the case."""
    if selection is None:
        return lambda case_id: True
    targets = [(target.path, tuple(target.ids)) for target in selection.targets]
    return covers(targets, selection.exclude)


def _renamed(fresh: Sequence[CaseReport], gone: Sequence[B]) -> dict[str, B]:
    """Renamed cases of the base branch, by their new id. All given cases have the same content."""
    renamed: dict[str, B] = {}
    remaining = list(gone)
    for case in fresh:
        same_name = [old for old in remaining if old.case_id.endswith(f":{case.eval_id}")]
        if len(same_name) == 1 and sum(other.eval_id == case.eval_id for other in fresh) == 1:
            renamed[case.case_id] = same_name[0]
            remaining.remove(same_name[0])
    rest = [case for case in fresh if case.case_id not in renamed]
    if len(rest) == len(remaining) == 1:
        renamed[rest[0].case_id] = remaining[0]
    return renamed


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The same case on both sides."""

    head: CaseReport
    base: CaseReport

    @property
    def renamed(self) -> bool:
        """Whether the case's id (its name or its file) has changed."""
        return self.head.case_id != self.base.case_id


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """All cases of both sides, each in one place."""

    pairs: tuple[Pair, ...]
    """The same content, in the head's order."""
    changed: tuple[tuple[CaseReport, CaseReport], ...]
    """The same id with another content: head, base."""
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


def pair_up(
    head: Sequence[CaseReport],
    base: Sequence[CaseReport],
    selection: SelectionReport | None = None,
    base_selection: SelectionReport | None = None,
) -> Pairing:
    """Pairs the cases of both sides; see `match`.

    Args:
        head: The head's cases.
        base: The base's.
        selection: What the head's run was limited to.
        base_selection: What the base's run was limited to.
    """
    matches = match(head, base, selection)
    pairs: list[Pair] = []
    changed: list[tuple[CaseReport, CaseReport]] = []
    added: list[CaseReport] = []
    not_on_base: list[CaseReport] = []
    bare = 0
    on_base = scope(base_selection)
    for case in head:
        old = matches.get(case.case_id)
        if old is None:
            (added if on_base(case.case_id) else not_on_base).append(case)
        elif case.fingerprint and old.fingerprint and case.fingerprint != old.fingerprint:
            changed.append((case, old))
        else:
            pairs.append(Pair(head=case, base=old))
            bare += not (case.fingerprint and old.fingerprint)
    taken = {old.case_id for old in matches.values()}
    here = scope(selection)
    removed = {case.case_id: case for case in base if case.case_id not in taken}
    return Pairing(
        pairs=tuple(pairs),
        changed=tuple(changed),
        added=tuple(added),
        removed=tuple(case for case in removed.values() if here(case.case_id)),
        left_out=sum(not here(case_id) for case_id in removed),
        not_on_base=tuple(not_on_base),
        without_fingerprints=bare,
    )
