"""Plays a pull request through history, statistics and policy, with runs that were decided beforehand."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from history_samples import FILE, case, comparable, history_of, report
from policy_texts import policy_of

from agent_eval.gate.diff import compare
from agent_eval.gate.evaluation import Compared, evaluate
from agent_eval.gate.policy import Gate
from agent_eval.gate.regression import with_replayed
from agent_eval.gate.regression.gathering import MoreEvidence, gather
from agent_eval.gate.regression.rescoring import apply_policy
from agent_eval.gate.regression.sequential import next_step
from agent_eval.gate.stats.decision import Budget, Rules
from agent_eval.gate.verdict import Verdict
from agent_eval.pipeline._regression import decision_report
from agent_eval.pipeline.output import _finish
from agent_eval_results.data.decision import DecisionReport
from agent_eval_results.data.history import HistoryReport
from agent_eval_results.data.pairing import pair_up
from agent_eval_results.data.report import CaseReport, Reason, RunReport
from agent_eval_results.report.phrases import numbers_in_words, text
from agent_eval_results.report.views.grouping import NO_NAME

MOST_STEPS = 50


TEN = "1" * 10
STEADY = {f"ok{number}": TEN for number in range(9)}
FINE = dict.fromkeys(STEADY, "1")
X = f"{FILE}:x"


def by_outcome(name: str, outcome: str, run: int) -> CaseReport:
    return case(name, outcome, first_run=run)


def by_score(name: str, score: float, run: int) -> CaseReport:
    return case(name, scores=[score], first_run=run)


@dataclass(kw_only=True)
class Story:
    """What every case did and would do: a value a run, by default the letters of history_samples."""

    base: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Runs on the base, a day each, the newest last; all end on the last day."""
    head: Mapping[str, Any] = field(default_factory=dict)
    """The head's run."""
    more: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """What extra runs of the head would do, repeated as often as needed; "1" if nothing is said."""
    base_more: Mapping[str, Sequence[Any]] | None = None
    """The same of the base; None: it can't be run."""
    make: Callable[[str, Any, int], CaseReport] = by_outcome
    """A case with one run, by its name, value and number."""
    heads: Sequence[CaseReport] = ()
    """Cases of the head that are more than a value."""
    bases: Sequence[CaseReport] = ()
    """The same in the base's last run, for which the history has a text all the same."""
    policy: str = ""
    gate: Gate = "regressions"
    pull_request: bool = True
    extra_runs: int = 40
    base_name: str = NO_NAME
    base_outage: Reason | None = None
    same_day: bool = False
    """Whether the base's last run is one of today (`baseline: rerun`)."""

    @property
    def last(self) -> list[CaseReport]:
        """The base branch's last run."""
        return [*(self.make(name, values[-1], 0) for name, values in self.base.items()), *self.bases]

    def history(self) -> HistoryReport | None:
        stored = _stored(self.make, tuple((name, tuple(values)) for name, values in self.base.items()))
        return HistoryReport.model_validate_json(stored) if stored else None


@functools.cache
def _stored(make: Callable[[str, Any, int], CaseReport], base: tuple[tuple[str, tuple[Any, ...]], ...]) -> str:
    """The history of the base as JSON; "" without one. Many stories have the same."""
    made = functools.cache(lambda name, value: make(name, value, 0))
    days = max((len(values) for _, values in base), default=0)
    runs = [
        [made(name, values[day - days]) for name, values in base if days - day <= len(values)] for day in range(days)
    ]
    return history_of(*(report(*cases, day=day) for day, cases in enumerate(runs))).model_dump_json() if runs else ""


def story(base: str, head: str, more: str = "1", **others: Any) -> Story:
    """One case `x` among nine that always pass, with as many runs on the base."""
    there = {name: "1" * len(base) for name in STEADY}
    return Story(base={**there, "x": base}, head={**FINE, "x": head}, more={"x": more}, **others)


@dataclass(kw_only=True)
class Played:
    verdict: Verdict
    spent: int
    compared: Compared | None
    story: Story
    cases: Sequence[CaseReport]
    """The head's, with the policy applied."""

    @property
    def decision(self) -> DecisionReport:
        assert self.compared is not None
        return self.compared.decision

    def __str__(self) -> str:
        """What the gate says; of the cases only what is not as ever."""
        verdict = self.verdict
        blocking = f", blocked by {', '.join(verdict.blocking)}" * bool(verdict.blocking)
        lines = [f"{verdict.value} by {verdict.mode}, after {self.spent} extra runs{blocking}"]
        lines += [f"  because: {reason.message} <{reason.code}>" for reason in verdict.reasons]
        lines += [f"  besides: {note.message} <{note.code}>" for note in (*verdict.warnings, *verdict.notes)]
        for decided in self.decision.cases if self.compared is not None else ():
            if decided.word != "unchanged":
                needs = f"; {decided.would_decide}" * bool(decided.would_decide)
                numbers = f" [p {decided.p_value:.4f}]" if decided.p_value is not None else ""
                name = f"{decided.case_id.removeprefix(FILE + ':')}, {decided.metric}"
                lines.append(f"  {name}: {decided.word} ({decided.evidence}){needs}{numbers}")
        return "\n".join(lines) + "\n"


def play(story: Story) -> Played:
    policy, problems = policy_of(story.policy)
    assert problems == []
    history = story.history()
    heads = [*[story.make(name, value, 0) for name, value in story.head.items()], *story.heads]
    cases = apply_policy(heads, policy, min_pass_rate=1.0)
    made: dict[str, list[CaseReport]] = {"head": [], "base": []}
    rounds: dict[tuple[str, int], int] = {}
    compared = None
    for number in range(MOST_STEPS if history is not None else 0):
        assert history is not None
        more = MoreEvidence(head=made["head"], rounds=rounds, base=made["base"])
        gathered = gather(cases, history, comparable(cases, history), policy, num_runs=1, more=more, rules=Rules())
        spent = sum(map(len, made.values()))
        budget = Budget(extra_runs=story.extra_runs - spent, can_run_base=story.base_more is not None)
        step = next_step(gathered.evidence, gathered.rules, budget, gathered.retrials)
        if isinstance(step, DecisionReport):
            compared = Compared(
                decision=with_replayed(step, cases, policy),
                gathered=gathered,
                base=history,
                confirmations=made["head"],
                base_runs=made["base"],
                same_day=story.same_day,
                pairing=pair_up(cases, story.last, history=history.cases),
            )
            break
        for side, requested, source in (("head", step.head, story.more), ("base", step.base, story.base_more or {})):
            for case_id, count in requested.items():
                name = case_id.removeprefix(f"{FILE}:")
                before = sum(report.case_id == case_id for report in made[side])
                for at in range(before, before + count):
                    values = source.get(name, "1")
                    made[side].append(story.make(name, values[at % len(values)], 1 + at))
                    if side == "head":
                        rounds[case_id, 1 + at] = number
    assert history is None or compared is not None, "it never decides"
    verdict = evaluate(
        cases,
        policy,
        gate=story.gate,
        pull_request=story.pull_request,
        compared=compared,
        base_outage=story.base_outage,
    )
    decided_reasons = compared.decision.reasons if compared is not None else ()
    for reason in (*verdict.reasons, *verdict.warnings, *verdict.notes, *decided_reasons):
        reason.message = text(reason, story.base_name)
    for decided in compared.decision.cases if compared is not None else ():
        numbers_in_words(decided, story.base_name)
    return Played(verdict=verdict, spent=sum(map(len, made.values())), compared=compared, story=story, cases=cases)


def report_of(played: Played, *, on_inconclusive: Literal["fail", "pass"] = "fail", **facts: Any) -> RunReport:
    """What was played as the report that a run of the gate makes of it."""
    verdict, compared = played.verdict, played.compared
    made = report(*played.cases).changed(
        verdict=verdict.value,
        reasons=list(verdict.reasons),
        gate=verdict.mode,
        blocking=list(verdict.blocking),
        warnings=[text(warning, "main") for warning in verdict.warnings],
        notices=[text(note, "main") for note in verdict.notes],
        **facts,
    )
    if compared is not None:
        made.comparison = compare(made, report(*played.story.last), compared.pairing, compared.base)
        made.decision = decision_report(compared.decision, compared.gathered, compared.base)
        made.confirmations, made.base_runs = list(compared.confirmations), list(compared.base_runs)
    _finish(on_inconclusive, made)
    return made
