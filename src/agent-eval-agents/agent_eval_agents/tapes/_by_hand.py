"""Answers of tools that a person has written into an eval case."""

from __future__ import annotations

from collections import Counter

from agent_eval_agents.tape_rules import ToolRules
from agent_eval_agents.tapes._index import TapeIndex
from agent_eval_agents.tapes._tape import RecordedCall, Tape, canonical
from agent_eval_scoring.core.invocation import answered
from agent_eval_scoring.evalset.models import EvalCase


def by_hand(case: EvalCase, rules: ToolRules) -> TapeIndex:
    """The `tool_responses` of a case as a tape, for the tools whose rule asks for it (`answers = "case"`)."""
    counts: Counter[tuple[str, str]] = Counter()
    calls = []
    for turn in case.conversation or ():
        for call, response in answered(turn.intermediate_data):
            tool, args = call.name or "", call.args or {}
            if response is None or not rules.of(tool).answers:
                continue
            key = (tool, canonical(args, rules.of(tool)))
            value = response.response or {}
            calls.append(RecordedCall(tool=tool, args=args, occurrence=counts[key], response=value))
            counts[key] += 1
    tape = Tape(eval_set_id="", eval_id=case.eval_id, recorded_at=0, calls=calls)
    return TapeIndex(tape, rules)
