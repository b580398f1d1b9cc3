"""What is the same only letter by letter: addresses, codes and ids, masked secrets, quoted strings."""

from __future__ import annotations

from collections.abc import Iterator

from agent_eval_scoring.criteria.facts._fact import Fact
from agent_eval_scoring.criteria.facts._numbers import is_quantity
from agent_eval_scoring.criteria.facts._words import months, pattern, units

_LOCAL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._%+-"
"""Characters before the @ of an e-mail address."""
_LONGEST = 200


def addresses(text: str) -> Iterator[Fact]:
    """URLs, without scheme and last slash, and e-mail addresses."""
    for match in pattern("url").finditer(text):
        url = match[0].rstrip(".,;:!?*_")
        short = url.removeprefix("https://").removeprefix("http://").removeprefix("www.").rstrip("/")
        yield Fact.within("url", text, (match.start(), match.start() + len(url)), {short})
    for match in pattern("host").finditer(text):
        before = text[max(match.start() - 64, 0) : match.start()]
        start = match.start() - len(before) + len(before.rstrip(_LOCAL))
        if start < match.start():
            yield Fact.within("email", text, (start, match.end()), {text[start : match.end()].rstrip("-").lower()})


def codes(text: str) -> Iterator[Fact]:
    """Codes, ids, versions, phone numbers, IBANs and masked secrets of a plain text, in any case."""
    for match in pattern("masked").finditer(text):
        yield Fact.within("code", text, match.span(), {match[1].lower()})
    for match in pattern("compact").finditer(text):
        value = "".join(character for character in match[0] if character.isalnum() or character == "+").lower()
        if sum(map(str.isdigit, value)) >= 8:
            values, country = {value}, set[str]()
            if value[0] == "+":  # From abroad: known by what follows the country's digits, by a number that has none.
                country = {value}
                values |= {value[1 + digits :] for digits in (1, 2, 3) if value[1 + digits] != "0"}
            elif value.isdecimal():
                values.add(value.lstrip("0"))
            yield Fact.within("code", text, match.span(), values, country)
    for match in pattern("versioned").finditer(text):  # As a number, 2.10 were 2.1.
        yield Fact.within("code", text, match.span(), {match[1]})
    for match in pattern("token").finditer(text):
        token = match[0]
        label = pattern("labelled").match(token)
        if label and len(token) <= _LONGEST and _is_code(token):
            start = match.start() + label.end()
            yield Fact.within("code", text, (start, match.end()), {token[label.end() :].lower()})
        elif len(token) <= _LONGEST and _is_code(token):
            is_version = token[0] in "vV" and token[1:2].isdigit() and "." in token
            yield Fact.within("code", text, match.span(), {token[is_version:].lower()})


def _is_code(token: str) -> bool:
    count = sum(map(str.isdigit, token))
    if not count or pattern("no_code").fullmatch(token) or token in units():
        return False
    if not any(map(str.isalpha, token)):
        return ("-" in token and count >= 6) or pattern("version").fullmatch(token) is not None
    return not is_quantity(token) and token.lstrip("0123456789.,-/").lower() not in months()


def quotes(text: str) -> Iterator[Fact]:
    """Quoted strings; code in backticks is one."""
    for match in pattern("quoted").finditer(text):
        inner = " ".join(match[match.lastindex or 0].split()).casefold()
        if inner:
            yield Fact.within("quote", text, match.span(match.lastindex or 0), {inner})
