"""Conversations as new cases of an eval file: checked, also for personal data, and scored against themselves."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval_results import is_skipped
from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.problem import Problem, Severity, has_error
from agent_eval_scoring.core.text import listed, plural, shorten
from agent_eval_scoring.evalset.models import EvalCase, EvalConfig
from agent_eval_workbench.recording.live import Take
from agent_eval_workbench.recording.stored import masks_in
from agent_eval_workbench.recording.target import Refused, Target, checked_text
from agent_eval_workbench.sources.cases import CaseForm, eval_cases, is_no_tool, tool_failures
from agent_eval_workbench.sources.conversation import Conversation

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}")
_DIGITS = re.compile(r"(?<![\w.])\+?\d(?:[ /()-]{0,2}\d){7,18}(?![\w])")
"""Eight to nineteen digits with the separators of phone and card numbers."""
_CARD = range(13, 20)
"""Digits of a card number (ISO/IEC 7812-1)."""
_RANDOM = re.compile(
    r"(?<![A-Za-z0-9])(?:(?=[A-Za-z0-9]{6})(?:[A-Za-z]+\d+[A-Za-z]|\d+[A-Za-z]+\d)[A-Za-z0-9]*|[A-Za-z]*(?!(?:19|20)\d\d\b)\d{4,}"
    r"|\d\d:\d\d:\d\d)(?![A-Za-z0-9])"
)
"""Words of digits between letters, or the other way round, numbers that are no years, and times with seconds."""
_LONGEST = 100_000
_PLACES = 10
_LONGEST_ERROR = 300


def _found(message: str, hint: str, name: str, severity: Severity = Severity.WARNING, *, code: str) -> Problem:
    return Problem(severity=severity, code=code, message=message, hint=hint, file=name)


def personal_data(cases: Sequence[EvalCase], name: str) -> list[Problem]:
    """A notice for each case that seems to contain e-mail addresses, phone numbers or card numbers.

    Args:
        cases: New cases.
        name: Their file.
    """
    problems = []
    for case in cases:
        places = [
            f"{where}: {', '.join(plural(count, kind, _MANY[kind]) for kind, count in counts.items())}"
            for where, text in _texts(case)
            if (counts := _kinds(text))
        ]
        if places:
            message = f"The case `{case.eval_id}` has what looks like personal data ({listed(places, _PLACES)})."
            hint = "Replace it with invented data before you commit the file."
            problems.append(_found(message, hint, name, Severity.NOTICE, code="record-personal-data"))
    return problems


_MANY = {"e-mail address": "e-mail addresses", "phone number": "phone numbers", "card number": "card numbers"}


def _kinds(text: str) -> Counter[str]:
    text = text[:_LONGEST]
    counts = Counter({"e-mail address": len(set(_EMAIL.findall(text)))})
    for number in set(_DIGITS.findall(text)):
        digits = re.sub(r"\D", "", number)
        # One in ten numbers has a valid check digit, so this is a notice and no error.
        if len(digits) in _CARD and _is_luhn(digits):
            counts["card number"] += 1
        # 15 digits at most (E.164). Plain digits are ids and amounts more often than phone numbers.
        elif len(digits) <= 15 and (number.startswith(("+", "0")) or not number.isdigit()) and not _DATE.match(number):
            counts["phone number"] += 1
    return +counts


_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}")


def _is_luhn(digits: str) -> bool:
    """Whether the check digit is right (ISO/IEC 7812-1, annex B)."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 * (value > 9)
    return total % 10 == 0


def _texts(case: EvalCase) -> Iterator[tuple[str, str]]:
    if case.session_input is not None:
        yield "user id", case.session_input.user_id
        yield "state", " \n".join(_strings(case.session_input.state))
    yield "final state", " \n".join(_strings(case.expected_state))
    for number, turn in enumerate(case.conversation or (), 1):
        yield f"turn {number}, message", " \n".join(_strings(turn.user_content.model_dump(exclude={"role"})))
        if turn.intermediate_data is not None:
            yield f"turn {number}, calls", " \n".join(_strings(turn.intermediate_data.model_dump()))
        if turn.final_response is not None:
            yield f"turn {number}, answer", " \n".join(_strings(turn.final_response.model_dump(exclude={"role"})))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            # base64 has digits of any length.
            if key != "inline_data":
                yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


@dataclass(kw_only=True)
class Draft:
    """A conversation with the agent."""

    turns: list[Invocation]
    calls_visible: bool = True
    """False if the agent's interface does not show its tool calls."""
    eval_id: str = ""
    """The id that the user has chosen; "" for none."""


_LONG = 50
"""Turns; each run of a case asks all of them."""


def new_cases(
    target: Target, conversations: Sequence[Conversation], form: CaseForm
) -> tuple[list[EvalCase], str, list[Problem]]:
    """Makes a case of each conversation.

    Args:
        target: The eval file.
        conversations: At least one.
        form: What the cases expect.

    Returns:
        The cases, the text of the whole file with them, and warnings and notices.

    Raises:
        Refused: A conversation can't become a case, or the file would be invalid.
    """
    # The id that is replaced is free.
    taken = [name for name in target.taken if name != target.eval_id]
    cases, problems = eval_cases(conversations, form=form, taken=taken)
    if target.eval_id and len(cases) == 1:
        cases = [cases[0].model_copy(update={"eval_id": target.eval_id})]
    if has_error(problems) or not cases:
        raise Refused(problems)
    text = checked_text(target, cases)
    for case in cases:
        if (turns := len(case.conversation or ())) > _LONG:
            message = f"The case `{case.eval_id}` has {turns:,} turns, and each run of it asks the agent all of them."
            hint = "A shorter case that shows the same costs less."
            problems.append(_found(message, hint, target.name, Severity.NOTICE, code="record-long"))
    problems += masks_in(cases, target.name) + personal_data(cases, target.name)
    return cases, text, problems


def failed_tools(
    cases: Sequence[EvalCase], conversations: Sequence[Conversation], name: str, logs: str
) -> list[Problem]:
    """A warning for each case in which tools or toolsets failed.

    Args:
        cases: New cases.
        conversations: What they are made of.
        name: Their file.
        logs: Where the agent's logs are.
    """
    problems = []
    for case, conversation in zip(cases, conversations, strict=False):
        # The last error of each tool: a tool that fails fails in every turn.
        found = dict(failure for turn in conversation.turns for failure in tool_failures(turn))
        if any(turn.lost_toolsets for turn in conversation.turns):
            # That a toolset's tools are missing then says nothing more.
            found = {each: error for each, error in found.items() if not is_no_tool(error)}
        failures = [f"{each}: {shorten(error.split(chr(10))[0], _LONGEST_ERROR)}" for each, error in found.items()]
        if failures:
            message = f"In the case `{case.eval_id}` tools failed: {listed(failures, _PLACES)}"
            hint = "If that is not what the case is about, fix it and record it again: "
            hint += f"`{name}:{case.eval_id} --replace`. The agent's log: {logs}"
            problems.append(_found(message, hint, name, code="record-tool-failed"))
    return problems


def seemingly_random(case: EvalCase) -> set[str]:
    """The values that a case expects and that may be others in each process: ids, tokens, long numbers."""
    turns = case.conversation or ()
    # What the user or the state gives is the same in each process.
    given = [turn.user_content.model_dump_json() for turn in turns] + [str(case.session_input)]
    expected = [turn.model_dump_json(exclude={"user_content"}) for turn in turns] + [str(case.expected_state)]
    return {*_RANDOM.findall(" ".join(expected))} - {*_RANDOM.findall(" ".join(given))}


def random_values(case: EvalCase, again: Sequence[Invocation], name: str) -> list[Problem]:
    """A warning if the same conversation in another process has other values than a case expects.

    Args:
        case: A new case.
        again: The other conversation.
        name: The file.
    """
    # Anywhere in the other conversation: a value that only moved is not random.
    seen = {value for turn in again for value in _RANDOM.findall(turn.model_dump_json())}
    if not (others := sorted(seemingly_random(case) - seen)):
        return []
    message = f"In the case `{case.eval_id}` values are others in a new process: {listed(others, _PLACES)}"
    hint = "Give the agent fixed ones for evals, or leave them out (--expect, `ignore_args`)."
    return [_found(message, hint, name, code="record-random")]


@dataclass(frozen=True, kw_only=True)
class SelfCheck:
    """The scores of the recorded conversation, measured by the criteria of the file."""

    config: str
    """The config, or a phrase for ADK's defaults."""
    scores: tuple[tuple[str, float | None, float | None], ...] = ()
    """Name, score and threshold of each criterion that needs no model. None: there is no score."""
    reasons: tuple[str, ...] = ()
    """Why criteria have no score, or turns a low one."""
    others: tuple[str, ...] = ()
    """Criteria that need a judge or the agent's code."""
    unseen: tuple[str, ...] = ()
    """Facts of the expected answers that no criterion compares."""

    @property
    def passes(self) -> bool:
        """Whether each score reaches its threshold."""
        return all(
            score is not None and (threshold is None or score >= threshold) for _, score, threshold in self.scores
        )


def config_of(path: Path, root: Path, override: Path | None) -> EvalConfig | None:
    """The config that applies to an eval file, which need not exist; None if it is invalid."""
    from agent_eval_scoring.evalset.parse import ConfigFinder
    from agent_eval_scoring.evalset.paths import absolute

    return ConfigFinder(root=absolute(root), override=None if override is None else absolute(root / override)).for_file(
        path
    )


def most_typical_take(case: EvalCase, takes: Sequence[Take], config: EvalConfig) -> tuple[int, int]:
    """Which of several conversations agrees most with the others, by the criteria of the file.

    Args:
        case: The case; its expectations do not count.
        takes: At least one conversation, all with the same messages.
        config: The criteria of the file.

    Returns:
        Its index, and how many conversations have the same calls, itself included.
    """
    from agent_eval_scoring.criteria import build, supported
    from agent_eval_workbench.authoring.choosing import most_typical, route

    # Without judges: to compare all pairs of takes by a model would cost more than the takes.
    configs = [item for item in config.criteria if item.name not in config.custom_metrics and supported(item.metric)]
    runs = [take.turns for take in takes]
    visible = all(take.calls_visible for take in takes)
    index = asyncio.run(most_typical(case, runs, [build(item) for item in configs], calls_visible=visible))
    return index, sum(route(run) == route(runs[index]) for run in runs)


def self_check(
    case: EvalCase, turns: Sequence[Invocation], config: EvalConfig, *, calls_visible: bool = True
) -> SelfCheck:
    """Scores a case against a conversation.

    Args:
        case: The new case.
        turns: What the agent did.
        config: The criteria of the file.
        calls_visible: False if the agent's tool calls are not known.
    """
    from agent_eval_results.report.phrases import text
    from agent_eval_scoring.criteria import Conversation, NotEvaluated, build, calls_not_visible, supported

    conversation = Conversation(case=case, actual=turns, expected=case.conversation, calls_visible=calls_visible)
    scores: list[tuple[str, float | None, float | None]] = []
    reasons, others = [], []
    for criterion in config.criteria:
        if criterion.name in config.custom_metrics or not supported(criterion.metric):
            others.append(criterion.name)
            continue
        scorer = build(criterion)
        # As a run does it, without calls of a model: a recorded case should pass against itself, or is wrong.
        result = calls_not_visible(scorer, conversation) or asyncio.run(scorer.score(conversation))
        # A criterion that has nothing to compare in this case is no failure of it.
        if isinstance(result, NotEvaluated) and is_skipped(result.reason):
            continue
        if isinstance(result, NotEvaluated):
            reasons.append(f"{criterion.name}: {text(result.reason)}")
            scores.append((criterion.name, None, criterion.threshold))
        else:
            scores.append((criterion.name, result.score, criterion.threshold))
            reasons += [
                f"{criterion.name}: turn {finding.turn + 1}: {why if isinstance(why, str) else text(why)}"
                for finding in result.findings
                # Turns with a low score explain nothing where the mean passes.
                if (result.score or 0.0) < (criterion.threshold or 0.0)
                for why in finding.why[:1]
            ]
    return SelfCheck(
        config=config.source or "ADK's default criteria",
        scores=tuple(scores),
        reasons=tuple(reasons),
        others=tuple(others),
        unseen=() if _COMPARES_FACTS & {item.metric for item in config.criteria} else _facts_of(case),
    )


_COMPARES_FACTS = frozenset({"response_facts", "final_response_match_v2"})


def _facts_of(case: EvalCase) -> tuple[str, ...]:
    from agent_eval_scoring.criteria import visible
    from agent_eval_scoring.criteria.facts import facts_of

    answers = (text_of(turn.final_response) for turn in case.conversation or ())
    return tuple(dict.fromkeys(visible(shorten(fact.text, 60)) for answer in answers for fact in facts_of(answer)))


def score_lines(check: SelfCheck, case: EvalCase) -> list[str]:
    """The scores of a new case as lines."""
    scores = ", ".join(f"{name} {'-' if score is None else f'{score:.2f}'}" for name, score, _ in check.scores)
    lines = [f"`{case.eval_id}` scored against itself: {scores} ({check.config})"] if scores else []
    lines += [f"  {reason}" for reason in check.reasons]
    if check.others:
        lines.append(f"  not scored here: {', '.join(check.others)}")
    if check.unseen:
        facts = listed(check.unseen, _PLACES)
        lines.append(
            f"  no criterion compares the facts of its answers: {facts}; add `response_facts` (docs/criteria.md)"
        )
    if not check.passes:
        lines.append("  The case can't pass as it is: change the criteria, or what it expects (--expect).")
    return lines
