"""Conversations as new cases of an eval file, checked but not yet written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_eval.core.problem import Problem, Severity, has_error
from agent_eval.evalset.models import EvalCase
from agent_eval_workbench.recording._personal import personal_data
from agent_eval_workbench.recording._refused import Refused
from agent_eval_workbench.recording._stored import masks_in
from agent_eval_workbench.recording._target import Target, checked_text
from agent_eval_workbench.sources import CaseForm, Conversation, eval_cases

_LONG = 50
"""Turns; each run of a case asks all of them."""


@dataclass(frozen=True, kw_only=True)
class NewCases:
    """Cases that can be written."""

    cases: Sequence[EvalCase]
    text: str
    """The whole file with the cases."""
    problems: Sequence[Problem]
    """Warnings and notices."""


def new_cases(
    target: Target, conversations: Sequence[Conversation], form: CaseForm, *, again: bool = False
) -> NewCases:
    """Makes a case of each conversation.

    Args:
        target: The eval file.
        conversations: At least one.
        form: What the cases expect.
        again: The only case has new expectations for the messages of the one that it replaces.

    Raises:
        Refused: A conversation can't become a case, or the file would be invalid.
    """
    taken = [name for name in target.taken if name != target.eval_id]
    cases, problems = eval_cases(conversations, form=form, taken=taken)
    if target.eval_id and len(cases) == 1:
        cases = [cases[0].model_copy(update={"eval_id": target.eval_id})]
    if has_error(problems) or not cases:
        raise Refused(problems)
    text = checked_text(target, cases, again=again)
    problems += [_long(case, target.name) for case in cases if len(case.conversation or ()) > _LONG]
    problems += masks_in(cases, target.name) + personal_data(cases, target.name)
    return NewCases(cases=cases, text=text, problems=problems)


def _long(case: EvalCase, name: str) -> Problem:
    turns = len(case.conversation or ())
    return Problem(
        severity=Severity.NOTICE,
        code="record-long",
        message=f"The case `{case.eval_id}` has {turns:,} turns, and each run of it asks the agent all of them.",
        hint="A shorter case that shows the same costs less.",
        file=name,
    )
