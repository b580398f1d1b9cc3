"""What a pull request changes, as far as the answers of an agent may depend on it. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass

from agent_eval_results import AgentTree, Place
from agent_eval_results.causes.changed_here import HeadCode, definitions
from agent_eval_results.data.changed_lines import edits, lines_of, plain_number

_SHORT = 2
"""Characters of words that say nothing alone."""
_WORD = re.compile(r"[^\W\d_]+|(?:(?<!\w)-)?\d+(?:[.:]\d+)*")
_LIBRARY = re.compile(r"import |from [^.]")


@dataclass(frozen=True, kw_only=True)
class Diff:
    """What a pull request changes for an agent, as far as it is known."""

    agent: bool = True
    """Whether it changes something else than tools that an agent may read; also if that is unknown."""
    tools: Set[str] = frozenset()
    """Names of tools whose code or data it changes."""
    edits: Sequence[tuple[Set[str], Set[str]]] = ()
    """The words that go and that come in each of its edits."""
    is_known: bool = True
    """False where there is no code to compare: then anything may explain what differs."""

    @property
    def is_any(self) -> bool:
        """Whether it changes anything that an agent may read."""
        return bool(self.agent or self.tools or self.edits)

    def explains(self, before: str | None, after: str | None) -> bool:
        """Whether one edit replaces the words of the one, in which they differ, by those of the other; where only one
        of both is known, whether it has these words, if they are not too common.
        """
        sides = [words_of([said or ""]).keys() for said in (before, after)]
        old, new = sides[0] - sides[1], sides[1] - sides[0]
        return any(old <= gone and new <= come for gone, come in self.edits) and (
            bool(old and new) or len(old | new) > 1 or any(len(word) > _SHORT for word in old | new)
        )


def words_of(lines: Iterable[str]) -> Counter[str]:
    """The words and numbers of some lines; equal numbers are equal words."""
    return Counter(map(plain_number, _WORD.findall("\n".join(lines).casefold())))


def diff_of(
    code: HeadCode,
    tree: AgentTree | None,
    is_read: Callable[[str], bool] = lambda _: True,
    *,
    is_documentation: Callable[[str], bool] = lambda _: False,
    others: Iterable[tuple[str, str]] = (),
) -> Diff:
    """What a pull request changes.

    Args:
        code: The code of these agents, with changed lines of code.
        tree: The agent; None if nothing is known of it.
        is_read: Whether an agent may read a file.
        is_documentation: Whether a file is rather for people. Agents answer from such files, too, so that its words
            explain what is said otherwise; but a change of it alone does not make an agent another one.
        others: Texts before and after of changed files elsewhere in the repository, which are looked at in that way.
    """
    files = [file for file in code.changed_files or () if is_read(file)]
    texts = [*(code.texts(file) for file in files), *others]
    found = [edit for before, after in texts for edit in edits(before or "", after or "")]
    sides = [(words_of(edit.old), words_of(edit.new)) for edit in found]
    words = [({*(old - new)}, {*(new - old)}) for old, new in sides]
    if code.changed_files is None or tree is None:
        return Diff(agent=code.changed_files is None or not all(map(is_documentation, files)), edits=words)
    sources = code.sources(tree.agent)
    tools = [(tool.name, code.code_of(tree, tool.name, agent)) for agent in tree.agents for tool in agent.tools]
    start = [each for agent in tree.agents for place in agent.places for each in definitions(sources, place)]
    owned = [(each.place, name) for name, own in tools for each in own]
    used = [*owned, *((each.place, "") for each in sources.used(start))]
    changed: set[str] = set()
    is_other = False
    for file in files:
        owners = {name for name, own in tools if file in code.named_files(own)}
        changed |= owners
        if not file.endswith(".py") or (lines := code.changed(file)) is None:
            is_other |= not (owners or is_documentation(file))
            continue
        text = lines_of(code.texts(file)[1] or "")
        here = [(place, name) for place, name in used if place.file == file]
        for number in (n for first, last in lines for n in range(first, last + 1) if _is_code(text[n - 1])):
            owners = {name for place, name in here if (place.first or 0) <= number <= (place.last or 0)}
            changed |= owners - {""}
            is_other |= owners == {""} or not (owners or sources.around(Place(file=file, first=number)))
    return Diff(agent=is_other, tools=changed, edits=words)


def _is_code(line: str) -> bool:
    """Whether a line may be more than a library that is imported."""
    return bool(line.strip()) and not _LIBRARY.match(line)
