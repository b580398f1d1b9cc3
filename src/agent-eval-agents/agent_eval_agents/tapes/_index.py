"""Looks up calls that were recorded, or that a person has written into an eval case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from agent_eval_agents.tape_rules import ToolRules
from agent_eval_agents.tapes._tape import ModelExchange, RecordedCall, Tape, canonical, masked
from agent_eval_scoring.core.invocation import answered
from agent_eval_scoring.evalset.models import EvalCase


class TapeIndex:
    """A tape as it is looked up."""

    def __init__(self, tape: Tape, rules: ToolRules) -> None:
        self.tape = tape
        self._rules = rules
        self._calls: dict[tuple[str, str], list[RecordedCall]] = {}
        self._of_agents: dict[tuple[str, str, str], list[RecordedCall]] = {}
        for call in tape.calls:
            key = (call.tool, canonical(call.args, rules.of(call.tool)))
            self._calls.setdefault(key, []).append(call)
            if call.done is not None:
                self._of_agents.setdefault((call.agent, *key), []).append(call)
        for calls in self._of_agents.values():
            calls.sort(key=lambda call: call.occurrence)
        self.exchanges = {(call.fingerprint, call.occurrence): call for call in tape.model_calls}
        """The calls of models."""

    def conversation(self) -> list[RecordedCall | ModelExchange]:
        """The calls of the run whose model calls are on the tape, in the order of their answers."""
        calls = [call for call in self.tape.calls if call.done is not None and self._rules.of(call.tool).is_taped]
        return sorted([*self.tape.model_calls, *calls], key=_place)

    def made(self, agent: str, tool: str, key: str, number: int) -> RecordedCall | None:
        """The nth of an agent's equal calls in the conversation; None if there is none."""
        calls = self._of_agents.get((agent, tool, key), [])
        return calls[number] if number < len(calls) else None

    def find(self, tool: str, key: str, occurrence: int, *, repeat: bool) -> RecordedCall | None:
        """The recorded call that answers; None if there is none.

        With `repeat`, more calls than recorded get the last answer, if all recorded answers are the same.
        """
        calls = self._calls.get((tool, key), [])
        for call in calls:
            if call.occurrence == occurrence:
                return call
        if not repeat:
            return None
        repeatable = all(call.replayable and call.answers_like(calls[0]) for call in calls)
        return calls[-1] if calls and repeatable else None

    def nearest(self, tool: str, args: Mapping[str, Any]) -> RecordedCall | None:
        """The recorded call of a tool with the most equal arguments, which are masked; the first of several."""
        policy = self._rules.of(tool)
        calls = [
            call.model_copy(update={"args": masked(call.args, policy)}) for call in self.tape.calls if call.tool == tool
        ]
        return max(calls, key=lambda call: _equal_args(call.args, args), default=None)


def _equal_args(recorded: Mapping[str, Any], args: Mapping[str, Any]) -> int:
    same: int = sum(key in args and args[key] == value for key, value in recorded.items())
    return 2 * same - len(recorded.keys() ^ args.keys())


def _place(call: RecordedCall | ModelExchange) -> int:
    assert call.done is not None, "filtered before"
    return call.done


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
