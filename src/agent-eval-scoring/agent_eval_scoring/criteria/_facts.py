"""The criterion that compares the facts of an answer with those of its reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.reason import Reason
from agent_eval_scoring.criteria._differences import literal
from agent_eval_scoring.criteria._explain import bounded, counted
from agent_eval_scoring.criteria._responses import answer_of, finding_of_answer
from agent_eval_scoring.criteria.base import Conversation, NotEvaluated, Result, TurnResult, score_turns
from agent_eval_scoring.criteria.facts import Comparison, compare


@dataclass(frozen=True, kw_only=True)
class ResponseFacts:
    """The mean over turns of the share of the reference's facts that the answer has, 0..1.

    A turn whose reference has no fact is left out. If negation is compared or further numbers are forbidden, there is
    something to check in each turn with a reference, and it scores 1 if nothing is wrong.
    """

    threshold: float
    names: bool = False
    states: bool = False
    negation: bool = False
    extra: str = "allow"
    """Or `forbid`: of numbers that the reference lacks."""
    include_intermediate: bool = False
    """Put the intermediate responses before the final one, on both sides."""
    name: str = "response_facts"

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run; NotEvaluated without references, turns or facts."""
        return score_turns(conversation, self._score_turn, without_scores=NotEvaluated.of("no-facts"))

    def _score_turn(self, turn: int, actual: Invocation, expected: Invocation) -> TurnResult:
        reference, answer = (
            answer_of(each, with_intermediate=self.include_intermediate) for each in (expected, actual)
        )
        facts = compare(reference, answer, names=self.names, states=self.states, negation=self.negation)
        new = len(facts.new) if self.extra == "forbid" else 0
        total = len(facts.found) + len(facts.missing) + new
        if not total:
            checked = bool(reference.strip()) and (self.negation or self.extra == "forbid")
            return (1.0 if checked else None), None
        score = len(facts.found) / total
        if score >= self.threshold:
            return score, None
        why = bounded(_summary(facts), _denied(facts))
        return score, finding_of_answer(turn, score, reference, answer, why, actual)


def _summary(facts: Comparison) -> Reason:
    said = counted(fact.text for fact in facts.missing if fact.kind != "negation")
    said["others"] = list(counted(fact.text for fact in facts.new)["names"])
    said["count"], said["expected"] = len(facts.found), len(facts.found) + len(facts.missing)
    return Reason.of("facts-differ", **said)


def _denied(facts: Comparison) -> Iterator[Reason]:
    for fact in facts.missing:
        if fact.kind == "negation":
            wanted = literal(fact.text.strip())
            yield Reason.of("not-denied", wanted=wanted) if "not" in fact.values else Reason.of("denied", wanted=wanted)
