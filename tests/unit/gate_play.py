"""Plays a pull request through history, statistics and policy, with runs that were decided beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from history_samples import FILE, case, comparable, report
from policy_texts import policy_of

from agent_eval.gate.evaluation import evaluate
from agent_eval.gate.failures import Compared
from agent_eval.gate.history.records import extend
from agent_eval.gate.pairing import pair_up
from agent_eval.gate.policy import Gate
from agent_eval.gate.regression.gathering import Gathered, MoreEvidence, gather
from agent_eval.gate.regression.rescoring import apply_policy
from agent_eval.gate.regression.sequential import next_step
from agent_eval.gate.stats.decision import Budget, Rules
from agent_eval.gate.verdict import Verdict
from agent_eval.report.phrases import numbers_in_words, text
from agent_eval.report.views.grouping import NO_NAME
from agent_eval.results.decision import DecisionReport
from agent_eval.results.history import HistoryReport
from agent_eval.results.report import CaseReport

MOST_STEPS = 50


@dataclass(kw_only=True)
class Story:
    """What every case did and would do; the texts are those of history_samples."""

    base: Mapping[str, str] = field(default_factory=dict)
    """Runs on the base, a day each, the newest last; all end on the last day."""
    head: Mapping[str, str] = field(default_factory=dict)
    """The head's run."""
    more: Mapping[str, str] = field(default_factory=dict)
    """What extra runs of the head would do, repeated as often as needed; "1" if nothing is said."""
    more_score: float | None = None
    """The score of all extra runs of the head instead."""
    base_more: Mapping[str, str] | None = None
    """The same of the base; None: it can't be run."""
    heads: Sequence[CaseReport] = ()
    """Cases of the head that are more than a text."""
    bases: Sequence[CaseReport] = ()
    """The same in the base's last run, for which the history has a text all the same."""
    policy: str = ""
    gate: Gate = "regressions"
    pull_request: bool = True
    extra_runs: int = 40
    base_name: str = NO_NAME


@dataclass(kw_only=True)
class Played:
    cases: list[CaseReport]
    confirmations: list[CaseReport]
    history: HistoryReport | None
    decision: DecisionReport | None
    gathered: Gathered | None
    verdict: Verdict
    spent: int

    @property
    def notes(self) -> dict[str, str]:
        """The notes by their code."""
        return {note.code: note.message for note in self.verdict.notes}


class _Source:
    """Deals the runs of each case in their order."""

    def __init__(self, texts: Mapping[str, str], score: float | None = None) -> None:
        self._texts, self._score, self._made = texts, score, dict[str, int]()

    def deal(self, case_id: str, count: int) -> CaseReport:
        name = case_id.removeprefix(f"{FILE}:")
        made = self._made.get(name, 0)
        text = self._texts.get(name, "1")
        self._made[name] = made + count
        if self._score is not None:
            return case(name, scores=[self._score] * count, first_run=1 + made)
        return case(name, "".join(text[(made + at) % len(text)] for at in range(count)), first_run=1 + made)


def history_of(base: Mapping[str, str]) -> HistoryReport | None:
    days = max(map(len, base.values()), default=0)
    history = None
    for day in range(days):
        there = [case(name, outcomes[day - days]) for name, outcomes in base.items() if day - days >= -len(outcomes)]
        history = extend(history, report(*there, day=day))
    return history


def play(story: Story) -> Played:
    policy, problems = policy_of(story.policy)
    assert problems == []
    history = history_of(story.base)
    heads = [*[case(name, outcomes) for name, outcomes in story.head.items()], *story.heads]
    cases = apply_policy(heads, policy, min_pass_rate=1.0)
    sources = _Source(story.more, story.more_score), _Source(story.base_more or {})
    made: tuple[list[CaseReport], list[CaseReport]] = ([], [])
    rounds: dict[tuple[str, int], int] = {}
    spent = 0
    compared = None
    rules = Rules()
    for number in range(MOST_STEPS if history is not None else 0):
        rounds |= {
            (case.case_id, run.run): rounds.get((case.case_id, run.run), number)
            for case in made[0]
            for run in case.runs
        }
        assert history is not None
        more = MoreEvidence(head=made[0], rounds=rounds, base=made[1])
        gathered = gather(cases, history, comparable(cases, history), policy, num_runs=1, more=more, rules=rules)
        budget = Budget(extra_runs=story.extra_runs - spent, can_run_base=story.base_more is not None)
        step = next_step(gathered.evidence, gathered.rules, budget, gathered.retrials)
        if isinstance(step, DecisionReport):
            last = [case(name, outcomes[-1]) for name, outcomes in story.base.items()]
            compared = Compared(
                decision=step,
                gathered=gathered,
                base=history,
                confirmations=made[0],
                base_runs=made[1],
                pairing=pair_up(cases, [*last, *story.bases], history=history.cases),
            )
            break
        for side, requested, source in zip(made, (step.head, step.base), sources, strict=True):
            side += [source.deal(case_id, count) for case_id, count in requested.items()]
        spent += sum(step.head.values()) + sum(step.base.values())
    assert history is None or compared is not None, "it never decides"
    verdict = evaluate(cases, policy, gate=story.gate, pull_request=story.pull_request, compared=compared)
    decision = compared.decision if compared is not None else None
    for reason in (*verdict.reasons, *verdict.notes, *(decision.reasons if decision is not None else ())):
        reason.message = text(reason, story.base_name)
    for decided in decision.cases if decision is not None else ():
        numbers_in_words(decided, story.base_name)
    return Played(
        cases=cases,
        confirmations=made[0],
        history=history,
        decision=decision,
        gathered=compared.gathered if compared is not None else None,
        verdict=verdict,
        spent=spent,
    )
