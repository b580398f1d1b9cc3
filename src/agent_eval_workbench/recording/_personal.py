"""Counts what looks like personal data in new cases. Nothing is changed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from agent_eval.core.problem import Problem, Severity
from agent_eval.core.text import listed, plural
from agent_eval.evalset.models import EvalCase

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}")
_DIGITS = re.compile(r"(?<![\w.])\+?\d(?:[ /()-]{0,2}\d){7,18}(?![\w])")
"""Eight to nineteen digits with the separators of phone and card numbers."""
_CARD = range(13, 20)
"""Digits of a card number (ISO/IEC 7812-1)."""
_LONGEST = 100_000
_PLACES = 10


def personal_data(cases: Sequence[EvalCase], name: str) -> list[Problem]:
    """A notice for each case with what looks like e-mail addresses, phone numbers or card numbers.

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
            problems.append(
                Problem(
                    severity=Severity.NOTICE,
                    code="record-personal-data",
                    message=f"The case `{case.eval_id}` has what looks like personal data ({listed(places, _PLACES)}).",
                    hint="Replace it with invented data before you commit the file.",
                    file=name,
                )
            )
    return problems


_MANY = {"e-mail address": "e-mail addresses", "phone number": "phone numbers", "card number": "card numbers"}


def _kinds(text: str) -> Counter[str]:
    text = text[:_LONGEST]
    counts = Counter({"e-mail address": len(set(_EMAIL.findall(text)))})
    for number in set(_DIGITS.findall(text)):
        digits = re.sub(r"\D", "", number)
        if len(digits) in _CARD and _is_luhn(digits):
            counts["card number"] += 1
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
            if key != "inline_data":
                yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
