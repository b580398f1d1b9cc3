"""How much of a report the page keeps, so that it fits `report-size`: five steps, each leaving out more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Detail = Literal["full", "failing", "scores"]
"""The setting `report`: conversations of all cases, of the cases that need attention, or none."""

LAST = 5
_ALL = 200_000


@dataclass(frozen=True, kw_only=True)
class CaseDetail:
    """How much of a case the page keeps. Lengths in characters."""

    conversations: bool = True
    base: bool = True
    """The base branch's side."""
    runs: int | None = None
    """The first runs only; None for all."""
    events: bool = True
    """False: texts and calls stay; tool responses, thoughts, data and spans are left out."""
    requests: bool = True
    """Whether system instructions and the names of tools are kept."""
    response: int = _ALL
    """A tool's response."""
    text: int = _ALL
    """Any other text."""
    turns: int = 1_000
    """Turns of a run, and steps of a turn."""
    words: bool = True
    """Whether texts of agents, tools, users and judges may appear at all, e.g. as the reason for a score."""


_NONE = CaseDetail(conversations=False)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much the page keeps of the cases that pass as before (`quiet`) and of the others."""

    level: int
    quiet: CaseDetail
    others: CaseDetail
    left_out: tuple[str, ...]
    """What is left out, a sentence each."""

    def detail(self, *, quiet: bool) -> CaseDetail:
        """How much of a case is kept, by whether it passes as before."""
        return self.quiet if quiet else self.others


def plans(detail: Detail) -> Sequence[Plan]:
    """The steps from everything that the setting `report` allows to scores only."""
    if detail == "scores":
        only = replace(_NONE, words=False)
        sentence = "Conversations and reasons are left out: the setting `report` is `scores`."
        return [Plan(level=LAST, quiet=only, others=only, left_out=(sentence,))]
    full = CaseDetail()
    first_run = CaseDetail(response=2_000, requests=False, base=False, runs=1)
    short = (
        "Of cases that pass as before, only the first run is shown, with tool responses cut to 2,000 characters, "
        "without system instructions and the base branch's side."
    )
    calls = "Of cases that pass as before, only texts and calls are shown."
    none = "Of cases that pass as before, the conversations are left out."
    if detail == "failing":
        none = "Conversations of cases that pass as before are left out: the setting `report` is `failing`."
        steps = [Plan(level=0, quiet=_NONE, others=full, left_out=(none,))]
    else:
        steps = [
            Plan(level=0, quiet=full, others=full, left_out=()),
            Plan(level=1, quiet=first_run, others=full, left_out=(short,)),
            Plan(level=2, quiet=replace(first_run, events=False), others=full, left_out=(short, calls)),
            Plan(level=3, quiet=_NONE, others=full, left_out=(none,)),
        ]
    cut = CaseDetail(response=20_000, base=False)
    others = "Of the other cases, tool responses are cut to 20,000 characters, and the base branch's side is left out."
    return [
        *steps,
        Plan(level=4, quiet=_NONE, others=cut, left_out=(none, others)),
        Plan(level=LAST, quiet=_NONE, others=_NONE, left_out=("All conversations are left out.",)),
    ]
