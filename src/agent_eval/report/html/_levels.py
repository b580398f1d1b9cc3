"""How much of a report the page keeps, so that it fits `report-size`: eight steps, each leaving out more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Detail = Literal["full", "failing", "scores"]
"""The setting `report`: conversations of all cases, of the cases that need attention, or none."""

LAST = 8
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
    full = CaseDetail()
    if detail == "scores":
        only = replace(_NONE, words=False)
        sentence = "Conversations and reasons are left out: the setting `report` is `scores`."
        return [Plan(level=LAST, quiet=only, others=only, left_out=(sentence,))]
    if detail == "failing":
        setting = "Conversations of cases that pass as before are left out: the setting `report` is `failing`."
        return [Plan(level=0, quiet=_NONE, others=full, left_out=(setting,)), *_later(_NONE, (setting,))]
    steps = [Plan(level=0, quiet=full, others=full, left_out=())]
    for level, (quiet, sentence) in enumerate(_quiet_steps(), start=1):
        before = steps[-1].left_out if quiet.conversations else ()
        steps.append(Plan(level=level, quiet=quiet, others=full, left_out=(*before, sentence)))
    return [*steps, *_later(steps[-1].quiet, steps[-1].left_out)]


def _quiet_steps() -> Sequence[tuple[CaseDetail, str]]:
    """The steps that leave out parts of the cases that pass as before."""
    cut = CaseDetail(response=2_000, requests=False)
    head = replace(cut, base=False)
    first = replace(head, runs=1)
    return (
        (
            cut,
            "Of cases that pass as before, tool responses are cut to 2,000 characters, system instructions left out.",
        ),
        (head, "Of cases that pass as before, the base branch's side is left out."),
        (first, "Of cases that pass as before, only the first run is shown."),
        (replace(first, events=False), "Of cases that pass as before, only texts and calls are shown."),
        (_NONE, "Of cases that pass as before, the conversations are left out."),
    )


def _later(quiet: CaseDetail, sentences: tuple[str, ...]) -> Sequence[Plan]:
    """The steps that leave out parts of the other cases, too."""
    cut = CaseDetail(response=20_000)
    responses = "Of the other cases, tool responses are cut to 20,000 characters."
    base = "Of the other cases, the base branch's side is left out."
    return [
        Plan(level=6, quiet=quiet, others=cut, left_out=(*sentences, responses)),
        Plan(level=7, quiet=quiet, others=replace(cut, base=False), left_out=(*sentences, responses, base)),
        Plan(level=LAST, quiet=_NONE, others=_NONE, left_out=("All conversations are left out.",)),
    ]
