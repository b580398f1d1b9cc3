"""What speaks for a changed place: the words, numbers and rows that a cause and a change have in common."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import product
from pathlib import PurePosixPath

from agent_eval_results import AgentTree, CauseReport
from agent_eval_results.data.changed_lines import Edit, lines_of, tokens

VALUE, WORD, ROW, TIED, NONE, UNTIED, WEAK = range(7)
"""Evidence for a place, the best first: it has the old and the new value, a name, or numbers in the same proportion; a
word; it is a row of data with an argument; it has an argument, or the name of a value; nothing; it adds what no case
asks for; only the spelling of words differs.
"""
ANSWERS = frozenset({"answer", "answer-change"})
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"|`([^`]*)`")
_STATE = re.compile(r"\{([\w:.]+)\??\}")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SHORT = 2
"""Characters of words that say nothing alone."""
_MOST = 200
"""Arguments."""
_ROW = 12
"""Lines of an object in a file of data."""
_ROUNDED = 0.0051


@dataclass(frozen=True, kw_only=True)
class Before:
    """What all of a cause's cases did before it shows."""

    tools: Set[str] = frozenset()
    agents: Set[str] = frozenset()
    arguments: Set[str] = frozenset()
    """The texts in the arguments of the cause's calls, in any of the cases."""
    by_code: bool = False
    """Whether no model took part, as in a workflow of functions."""


@dataclass(frozen=True, kw_only=True)
class Clues:
    """What a cause says about where it comes from: its words, names and numbers."""

    gone: Set[str] = frozenset()
    """What only the base's side has."""
    new: Set[str] = frozenset()
    named: Set[str] = frozenset()
    """Names that matter on either side of a change: of tools, arguments, keys, files, and the agents' state."""
    arguments: Sequence[Set[str]] = ()
    """The words of each of the calls' arguments."""
    names: Set[str] = frozenset()
    """Of the values that differ."""
    numbers: Sequence[tuple[float, float]] = ()
    """Values before and now."""
    symbols: Set[str] = frozenset()
    """Names of the tools that models call or miss: their declarations may be the place."""
    is_said: bool = False
    """Whether models said it: others may have one of the words by chance."""

    def weight(self, edit: Edit, row: Set[str] | None = None) -> int:
        """How much speaks for lines that changed; `row`: of a file of data, the words of what they are a part of."""
        gone, new = edit.words
        words = gone | new
        same = self.gone & gone | self.new & new
        both = bool(self.gone & gone and self.new & new)
        if self.is_said:
            sides = ((self.gone, edit.old), (self.new, edit.new))
            whole = [said for said, lines in sides if said and said <= tokens(lines).keys()]
            both = bool(same) and (len(whole) > 1 or any(len(said) > 1 for said in whole))
        there = row or tokens([*edit.old, *edit.new]).keys()
        is_row = row is not None and any(each <= there for each in self.arguments)
        if both or (self.named | self.names) & words or (same and is_row) or self._is_proportional(edit):
            return VALUE
        if long((self.gone | self.new) & words):
            return WORD
        if is_row:
            return ROW
        if same or long(self.names & there) or any(each <= there for each in self.arguments):
            return TIED
        return WEAK if edit.is_spelling else UNTIED if edit.only_adds else NONE

    def _is_proportional(self, edit: Edit) -> bool:
        """Whether values differ as numbers of the code, or of the data, do."""
        sides = [[float(word) for word in words if word.replace(".", "", 1).isdecimal()] for words in edit.words]
        if [len(side) for side in sides] != [1, 1]:
            return False
        [[old], [new]] = sides
        pairs = [(old, new), (100 - old, 100 - new), (100 + old, 100 + new)]
        return any(
            abs(now - before * b / a) <= _ROUNDED * (1 + abs(b / a)) or abs((now - before) - (b - a)) <= _ROUNDED / 10
            for (before, now), (a, b) in product(self.numbers, [*pairs, (new, old)])
            if a and b and a != b
        )


def clues_of(cause: CauseReport, trees: Iterable[AgentTree], earlier: Before, *, about_code: bool) -> Clues:
    """The words, names and numbers in which a cause differs from what was before.

    Args:
        cause: The cause.
        trees: The agents that it is about.
        earlier: What its cases did.
        about_code: Whether it is what code does, rather than what a model does.
    """
    data, named = cause.data, list[str]()
    gone, new = tokens(data.gone), tokens(data.new)
    if cause.code == "exception":
        quoted = [text for match in _QUOTED.findall(data.actual or "") for text in match if text]
        named += quoted + [PurePosixPath(text).name for text in quoted]
    elif cause.code == "sub-agent":
        named += [data.actual or "", data.expected or ""]
    elif data.actual is not None and data.expected is not None and cause.code != "tool-error":
        before, now = tokens([data.expected]), tokens([data.actual])
        gone, new = gone + (before - now), new + (now - before)
    else:
        new += tokens([data.actual or ""])
    if cause.code in {"call-missing", "call-extra", "tool-error"}:
        named.append(data.tool)
    if cause.code == "call-missing" and data.agent not in earlier.agents:
        named.append(data.agent)
    if cause.code == "call-argument":
        named += [*data.gone, *data.new]
    if cause.code in ANSWERS:
        instructions = (agent.instruction for tree in trees for agent in tree.agents)
        named += [key.rpartition(":")[2] for text in instructions for key in _STATE.findall(text)]
    return Clues(
        gone=gone.keys(),
        new=new.keys(),
        named=long([*tokens(named), *(text.casefold() for text in named)]),
        arguments=[words for text in sorted(earlier.arguments)[:_MOST] if long(words := {*tokens([text])})],
        names=tokens(data.names).keys(),
        numbers=[*_numbers(data.expected, data.actual)] if about_code else (),
        symbols={data.tool.casefold()} - {""} if cause.code.startswith("call-") else set(),
        is_said=not about_code,
    )


def row_of(text: str, edit: Edit) -> set[str]:
    """The words of lines of a file of data, and of the small object that they are a part of."""
    lines, (first, last) = lines_of(text), (edit.first - 1, edit.last)
    start, depth = first, 0
    while start > 0 and depth <= 0 and "{" not in "".join(lines[first:last]):
        start -= 1
        depth += lines[start].count("{") - lines[start].count("}")
    end = last
    while end < len(lines) and depth > 0:
        depth += lines[end].count("{") - lines[end].count("}")
        end += 1
    whole = lines[start:end] if end - start <= _ROW else lines[first:last]
    return {*tokens(whole), *tokens(edit.old)}


def long(words: Iterable[str]) -> set[str]:
    """The words that say something alone."""
    return {word for word in words if len(word) > _SHORT}


def _numbers(before: str | None, now: str | None) -> Iterator[tuple[float, float]]:
    """The numbers that differ in two JSON values, or have another type: no model does that by chance."""
    try:
        sides = [json.loads(text or "null") for text in (before, now)]
    except (ValueError, RecursionError):  # Words around numbers.
        sides = [dict(enumerate(map(float, _NUMBER.findall(text or "")))) for text in (before, now)]
        if len(sides[0]) != len(sides[1]):
            return
    one, other = (side if isinstance(side, dict) else {"": side} for side in sides)
    for name in one.keys() & other.keys():
        pair = one[name], other[name]
        if repr(pair[0]) != repr(pair[1]) and {*map(type, pair)} <= {int, float}:
            yield float(pair[0]), float(pair[1])
