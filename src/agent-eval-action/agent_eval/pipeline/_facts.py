"""Holds cases to what they say on the base branch: `changed-facts = "block"` of a `[[policy]]`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from agent_eval.gate.policy import PolicyReader
from agent_eval_scoring.core.errors import AgentEvalError

if TYPE_CHECKING:
    from agent_eval.gate.verdict import Verdict
    from agent_eval.pipeline._regression import Base, Confirmation
    from agent_eval_results import CaseDecisionReport, CaseReport
    from agent_eval_results.data.comparison import ChangedAnswer
    from agent_eval_scoring.evalset.models import EvalCase

Compared = tuple[Sequence["ChangedAnswer"], Sequence[str]]
"""The cases that answer otherwise, and the ids of those that can't be compared: the base branch's runs of them were not
recorded."""
_LOG = logging.getLogger(__name__)
RUNS, MOST_CASES = 2, 10
"""Runs of each side that show whether a difference stays, and of how many cases at a time."""


class _NotCompared(AgentEvalError):
    """The comparison raised; the message is the exception's name."""


def held_cases(confirmation: Confirmation) -> list[CaseReport]:
    """The cases that may not answer otherwise: the policy says so, and both sides have them with the same content."""
    reader = PolicyReader(confirmation.checkout.settings.policy)
    return [
        case
        for case in confirmation.report.cases
        if case.is_judged
        and case.case_id in confirmation.comparable
        and reader.holds_facts(entries := reader.of_case(case.file, case.eval_id))
        and reader.blocks(entries)
    ]


async def hold_to_facts(confirmation: Confirmation, base: Base) -> tuple[Verdict | None, list[CaseDecisionReport]]:
    """Decides about the cases that answer otherwise, see `decide_on_facts`.

    Args:
        confirmation: After the decision about scores.
        base: The base branch's results.
    """
    from agent_eval.gate.verdict import Verdict
    from agent_eval.pipeline._agents import diffs_of
    from agent_eval.pipeline._causes import BothSides
    from agent_eval_results import Reason

    if not (held := held_cases(confirmation)):
        return None, []
    report, checkout, there = confirmation.report, confirmation.checkout, confirmation.base_checkout
    diff_of = diffs_of(report, checkout.context.ci, checkout.settings.root.resolve())
    cases = {planned.case_id: planned.case for planned in confirmation.plan.cases}

    def changed() -> Compared:
        report.confirmations = confirmation.head
        today = there.recordings() if there is not None else None
        sides = BothSides(
            report=report,
            plan=confirmation.plan,
            recording_of=checkout.journal.recording,
            base=base,
            output=checkout.settings.output,
            today=today,
        )
        try:
            found, unread = sides.changed_in(held, diff_of)
        except Exception as error:
            # Whatever a text of an agent does to the comparison, it must neither end the run nor let the case pass.
            _LOG.debug("The answers could not be compared", exc_info=True)
            raise _NotCompared(type(error).__name__) from error
        return [each for each in found if not _is_expected(each, cases[each.case_id])], unread

    try:
        return await decide_on_facts(confirmation, held, changed)
    except _NotCompared as error:
        ids = [case.case_id for case in held]
        reason = Reason.of("facts-open", phrase="facts-not-compared", kind=str(error), cases=ids, count=len(ids))
        return Verdict(value="inconclusive", reasons=(reason,)), []


def _is_expected(changed: ChangedAnswer, case: EvalCase) -> bool:
    """Whether the eval case expects all that is said now, and nothing of what was said before: then the pull request
    has changed it on purpose, and who reviews its eval file sees that.
    """
    from agent_eval_results.causes import mentions, words
    from agent_eval_scoring.core.content import text_of
    from agent_eval_scoring.core.invocation import tool_calls

    said = words(str(case.expected_state))
    for turn in case.conversation or ():
        said += words(text_of(turn.final_response) if turn.final_response is not None else "")
        said += [word for call in tool_calls(turn.intermediate_data) for word in words(str(call.args))]
    values = [] if changed.more else changed.values
    return bool(values) and all(
        value.after is not None
        and mentions(said, value.after)
        and (value.before is None or not mentions(said, value.before))
        for value in values
    )


async def decide_on_facts(
    confirmation: Confirmation, held: Sequence[CaseReport], changed: Callable[[], Compared]
) -> tuple[Verdict | None, list[CaseDecisionReport]]:
    """Decides about the cases that answer otherwise, after fresh runs of them on both sides.

    A difference between two single runs is often chance, so it blocks only if it is in all runs, the fresh ones too.
    What was recorded can't be run again, and doesn't vary.

    Args:
        confirmation: After the decision about scores; makes the runs.
        held: From `held_cases`.
        changed: Finds the cases that answer otherwise in all runs so far.

    Returns:
        The verdict, None if no case answers otherwise; and the cases' decisions.
    """
    from agent_eval.gate.verdict import Verdict
    from agent_eval_results import CaseDecisionReport, Reason
    from agent_eval_results.data.decision import CHANGED_FACTS
    from agent_eval_results.report.phrases import changed_note

    found, unread = changed()
    fixed = [case for case in _of(held, found) if case.replayed or confirmation.is_recorded]
    shown, tried, undecided = fixed, set[str](), list[str]()
    while not shown and not undecided:
        # A few at a time: one that stays is enough to block, and of those that were chance the next ones are tried.
        asked = [case.case_id for case in _of(held, found) if case.case_id not in tried][:MOST_CASES]
        if not asked:
            break
        tried.update(asked)
        fresh = await confirmation.run_again(asked, RUNS)
        found, _ = changed()
        shown = [case for case in _of(held, found) if case.case_id in fresh.intersection(asked)]
        undecided = [case_id for case_id in asked if case_id not in fresh]
    if not shown:
        open_ends = {"facts-not-run": undecided, "facts-not-recorded": [*unread]}
        reasons = tuple(
            Reason.of("facts-open", phrase=phrase, cases=cases, count=len(cases))
            for phrase, cases in open_ends.items()
            if cases
        )
        return (Verdict(value="inconclusive", reasons=reasons) if reasons else None), []
    ids = tuple(case.case_id for case in shown)
    reason = Reason.of(CHANGED_FACTS, cases=[*ids], count=len(ids), runs=0 if fixed else RUNS)
    decisions = [
        CaseDecisionReport(
            case_id=answer.case_id,
            metric=CHANGED_FACTS,
            word="worse",
            blocking=True,
            evidence=changed_note(answer),
            head_runs=answer.runs,
            base_runs=answer.base_runs,
        )
        for answer in found
        if answer.case_id in ids
    ]
    return Verdict(value="failed", reasons=(reason,), blocking=ids), decisions


def _of(cases: Iterable[CaseReport], changed: Sequence[ChangedAnswer]) -> list[CaseReport]:
    ids = {answer.case_id for answer in changed}
    return [case for case in cases if case.case_id in ids]
