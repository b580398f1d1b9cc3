"""What `agent-eval mutate` reports: `--format json`, and the same as text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pydantic import Field, computed_field

from agent_eval_scoring.core.text import harmless, listed, plural, shorten
from agent_eval_scoring.core.wire import WireModel
from agent_eval_workbench.mutation.mutants import KINDS, Kind

_EXAMPLES, _ROWS, _LONGEST = 10, 15, 60


class MutantReport(WireModel):
    """A stored conversation with one mistake."""

    case_id: str
    run: int
    """0-based, as the turn."""
    turn: int
    kind: Kind
    old: str
    """What was said or done."""
    new: str
    """What is there instead; "" for nothing."""
    outcome: Literal["killed", "survived", "undecided"]
    """`undecided`: it passes the criteria that were scored; others need a judge, or the agent's environment."""
    killed_by: list[str] = Field(default_factory=list)
    """The criteria that it fails."""
    scores: dict[str, float] = Field(default_factory=dict)
    """By criterion. Of a criterion that the mistake can't change: none."""


class Tally(WireModel):
    """Counts of mutants."""

    name: str
    """A kind, a case, or a criterion. Of a criterion only the mutants count that it has scored."""
    mutants: int = 0
    killed: int = 0
    survived: int = 0
    undecided: int = 0

    @computed_field  # type: ignore[prop-decorator]
    @property
    def score(self) -> float | None:
        """The share of mutants that are killed, of those that are decided, 0..1; None if there are none."""
        decided = self.killed + self.survived
        return self.killed / decided if decided else None


class AdviceReport(WireModel):
    """A change of a config that would kill survivors."""

    config: str
    """The file to change; it may not exist yet."""
    metric: str
    before: Any = None
    """The criterion as it is in the file; None if it has none."""
    after: Any
    kills: int
    """Survivors that it kills, without those that the advice before it kills."""
    good_runs: int
    """Stored runs that pass today, and with the advice, too."""
    unchecked: int = 0
    """Cases to which the config applies that have no such run."""
    writable: bool = True
    """Whether `--apply` can write it."""
    applied: bool = False


class LeftOut(WireModel):
    """What was not measured, or not proposed."""

    name: str
    """A case, or a config."""
    why: str
    """A clause whose subject is the name."""


class MutationReport(WireModel):
    """What the criteria of a run's cases notice, and what they miss."""

    seed: int
    runs: int
    """Stored runs that pass, of the cases with mutants."""
    total: Tally
    by_kind: list[Tally]
    by_case: list[Tally]
    """The lowest score first."""
    by_criterion: list[Tally]
    mutants: list[MutantReport]
    advice: list[AdviceReport] = Field(default_factory=list)
    after: Tally | None = None
    """All mutants with the advice; None without advice."""
    left_out: list[LeftOut] = Field(default_factory=list)
    """Cases without mutants, and parts of cases."""
    not_scored: dict[str, int] = Field(default_factory=dict)
    """Criteria that need a judge (`--judges`) or the agent's environment, with the number of their cases."""
    judge_calls: int | None = None
    """None: no judge was asked."""


def counted(outcomes: Iterable[tuple[str, str]]) -> list[Tally]:
    """Counts outcomes by name."""
    tallies: dict[str, Counter[str]] = {}
    for name, outcome in outcomes:
        tallies.setdefault(name, Counter())[outcome] += 1
    return [Tally(name=name, mutants=counts.total(), **counts) for name, counts in tallies.items()]


def text_of_report(report: MutationReport) -> Iterator[str]:
    """The report for a terminal, line by line."""
    if report.mutants:
        made = f"{plural(report.total.mutants, 'mutant')} of {plural(report.runs, 'stored run')}"
        yield f"{made}: {_counts(report.total)}"
    for title, rows in (
        ("by kind", {KINDS[row.name]: row for row in report.by_kind}),  # type: ignore[index]
        ("by criterion, of the mutants that it scores", {row.name: row for row in report.by_criterion}),
        ("by case", {_eval_id(row.name): row for row in report.by_case}),
    ):
        shown = list(rows.items())[:_ROWS]
        width = max((len(name) for name, _ in shown), default=0)
        yield from [f"\n{title}"] if shown else []
        yield from (f"  {harmless(name):{width}}  {_row(row)}" for name, row in shown)
        yield from [f"  and {len(rows) - _ROWS} more"] if len(rows) > _ROWS else []
    nth = Counter[str]()
    survivors = [mutant for mutant in report.mutants if mutant.outcome == "survived"]
    # Of each kind the first, then of each the second.
    ranked = sorted(survivors, key=lambda mutant: (nth.update([mutant.kind]), nth[mutant.kind])[1])
    yield from ["\nSurvivors, which pass:"] if survivors else []
    yield from map(_example, ranked[:_EXAMPLES])
    yield from [f"  and {len(ranked) - _EXAMPLES} more (--format json)"] if len(ranked) > _EXAMPLES else []
    by_reason: dict[str, list[str]] = {}
    for each in report.left_out:
        by_reason.setdefault(each.why, []).append(_eval_id(each.name))
    lines = [f"{listed(names, 5)}: {why}" for why, names in by_reason.items()]
    for name, cases in report.not_scored.items():
        lines.append(f"{name} ({plural(cases, 'case')}): needs a judge (--judges), or the agent")
    yield from ["\nNot measured:"] if lines else []
    yield from (f"  {harmless(line)}" for line in lines)
    yield from _advice(report)


def _counts(total: Tally) -> str:
    undecided = f", {total.undecided} undecided" if total.undecided else ""
    score = "" if total.score is None else f" ({total.score:.0%})"
    return f"{total.killed} killed, {total.survived} survived{undecided}{score}"


def _row(row: Tally) -> str:
    score = "   -" if row.score is None else f"{row.score:4.0%}"
    return f"{row.killed:>4} of {row.mutants:<4}{score}" + (f"  {row.undecided} undecided" if row.undecided else "")


def _example(mutant: MutantReport) -> str:
    scores = ", ".join(f"{name} {score:.2f}" for name, score in mutant.scores.items())
    what = f"{shorten(mutant.old, _LONGEST)} → {shorten(mutant.new, _LONGEST) or 'nothing'}"
    where = f"{_eval_id(mutant.case_id)}, turn {mutant.turn + 1}"
    return harmless(f"  {where}: {KINDS[mutant.kind]}: {what}" + (f" ({scores})" if scores else ""))


def _advice(report: MutationReport) -> Iterator[str]:
    """What would kill survivors."""
    if report.after is None:
        if report.total.survived:
            yield "\nNo criterion without a model would kill a survivor and keep all stored runs green."
        return
    yield "\nThese would kill most of them:"
    for place, each in enumerate(report.advice):
        if not place or report.advice[place - 1].config != each.config:
            others = f"; {plural(each.unchecked, 'other case')} not checked" if each.unchecked else ""
            others += "" if each.writable else "; write it by hand: it has no `criteria` in JSON"
            yield harmless(f"  {each.config} (green today and then: {plural(each.good_runs, 'stored run')}{others})")
        now = "" if each.before is None else f", now {json.dumps(each.before, ensure_ascii=False)}"
        new = json.dumps(each.after, ensure_ascii=False)
        yield harmless(f"    {'change' if now else 'add'} {each.metric}: {new}{now}: kills {each.kills}")
    yield f"With them {_counts(report.after)}."


def _eval_id(case_id: str) -> str:
    """The part of a case's id behind its file; other names as they are."""
    return case_id.partition(".json:")[2] or case_id
