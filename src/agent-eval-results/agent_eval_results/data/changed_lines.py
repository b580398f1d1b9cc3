"""Which lines of a file a pull request changes, in text and in code."""

from __future__ import annotations

import ast
import copy
import difflib
import io
import re
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from agent_eval_results import Place

Lines = Sequence[tuple[int, int]]
"""Changed lines of the head's file, both ends included. Where lines were only removed, the line before them."""
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_MOST_DIFFERING_LINES = 3_000
"""A longer part of a file that differs counts as changed as a whole."""
_WORD = re.compile(r"[^\W\d]\w*|\d\w*(?:[.,:/-]\w+)*")
_LITERAL = re.compile(r"'[^']*'|\"[^\"]*\"|[\d\s.,:{}\[\]()]")
_NAMED = re.compile(r"^\s*\w+\s*=\s*")
_PROSE = re.compile(r"[^\W\d]+,? [^\W\d]+")
_CODE = re.compile(r"[\[\](){}=]|\w\.\w|^\s*(?:return|yield|raise|del|import|from|assert|global|not|await)\b")
_ALIKE = 0.75
"""Words whose letters are this alike are two spellings of one word."""
_LATER = (ast.While, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""What evaluates its parts often, or later."""
_EXACT = 28
"""Digits that decimal does not round."""
_LOGS = frozenset({"log", "logger", "logging", "_log", "_logger"})


def lines_of(text: str) -> list[str]:
    """As Python counts them: a form feed ends none."""
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")


def tree_of(text: str) -> ast.Module | None:
    """A module's code; None for what can't be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in the text
            return ast.parse(text)
    # ValueError: half of a surrogate pair. The last two: code that is nested too deeply, as a hostile file may be.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def changed_lines(base: str | None, head: str) -> list[tuple[int, int]]:
    """The lines of a file that differ from the base's; all lines if the base has no such file."""
    new = lines_of(head)
    return [(1, len(new))] if base is None else _differing(lines_of(base), new)


def changed_code(base: str | None, head: str) -> list[tuple[int, int]]:
    """The lines of a module that differ in what Python runs: not in comments, docstrings and empty lines alone."""
    old, new = _code(base or ""), _code(head)
    if base is None or old is None or new is None:
        return changed_lines(base, head)
    # One more, for code that was removed at the end.
    numbers = [*new, max(new, default=1)]
    blocks = [(numbers[a - 1], numbers[b - 1]) for a, b in _differing(list(old.values()), list(new.values()))]
    same = _same_meaning(base, head) if blocks else []
    return [(a, b) for a, b in blocks if not any(first <= a and b <= last for first, last in same)]


def _same_meaning(base: str, head: str) -> list[tuple[int, int]]:
    """The lines of the head's functions and statements that differ at most in layout and names of local variables."""
    before, now = (dict(_named(tree_of(text))) for text in (base, head))
    return [
        (min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))]), node.end_lineno or 0)
        for name, node in now.items()
        if name in before and canonical(before[name]) == canonical(node)
    ]


def _named(tree: ast.Module | None) -> Iterator[tuple[str, ast.stmt]]:
    """The functions and statements of a module by their names."""
    waiting: list[tuple[str, ast.stmt]] = [("", each) for each in (tree.body if tree is not None else ())]
    for prefix, node in waiting:
        if isinstance(node, ast.ClassDef):
            waiting += [(f"{prefix}{node.name}.", each) for each in node.body]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield prefix + ", ".join(map(ast.unparse, targets)), node


def canonical(node: ast.stmt) -> str:
    """Code without docstring, layout, logging, names of local variables, and variables that are used once, at once."""
    made = copy.deepcopy(node)
    if not isinstance(made, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return ast.dump(made)
    if ast.get_docstring(made, clean=False) is not None:
        del made.body[0]
    names = [each for each in ast.walk(made) if isinstance(each, ast.Name)]
    shared = {name for each in ast.walk(made) if isinstance(each, (ast.Global, ast.Nonlocal)) for name in each.names}
    stored = Counter(each.id for each in names if not isinstance(each.ctx, ast.Load))
    once = {name for name, count in Counter(each.id for each in names).items() if count == 2 and stored[name] == 1}
    for block in (value for each in ast.walk(made) for _, value in ast.iter_fields(each) if isinstance(value, list)):
        block[:] = [each for each in block if not _is_logging(each)]
        # Backwards: what is deleted moves no line that is still to be looked at, and a chain of variables ends in one.
        for at in range(len(block) - 2, -1, -1):
            match block[at]:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in once - shared and _inline(
                    block[at + 1], name, value
                ):
                    del block[at]
    order: dict[str, str] = {}
    for each in ast.walk(made):
        if isinstance(each, ast.Name) and each.id in stored.keys() - shared:
            each.id = order.setdefault(each.id, f"*{len(order)}")
    return ast.dump(made)


def _is_logging(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name.casefold() in _LOGS
    return False


def _inline(statement: ast.AST, name: str, value: ast.expr) -> bool:
    """Puts a value in the place of a variable, if that is where a statement evaluates it, once."""
    waiting = [] if isinstance(statement, _LATER) else [statement]
    for each in waiting:
        for key, held in ast.iter_fields(each):
            for at, item in enumerate(held if isinstance(held, list) else [held]):
                if isinstance(item, ast.Name) and item.id == name:
                    if isinstance(held, list):
                        held[at] = value
                    else:
                        setattr(each, key, value)
                    return True
                if isinstance(item, ast.AST) and not isinstance(item, (ast.stmt, *_LATER)):
                    waiting.append(item)
    return False


@dataclass(frozen=True, kw_only=True)
class Edit:
    """Lines that a pull request changes together."""

    first: int
    last: int
    """Of the head's file, as in `Lines`."""
    old: Sequence[str]
    new: Sequence[str]

    @property
    def words(self) -> tuple[set[str], set[str]]:
        """The words, names and numbers that the base's lines have more often, and those that the head's have."""
        old, new = (Counter(map(plain_number, _WORD.findall("\n".join(lines)))) for lines in (self.old, self.new))
        return {word.casefold() for word in old - new}, {word.casefold() for word in new - old}

    @property
    def only_adds(self) -> bool:
        """Whether it adds values to others, or rows to a table."""
        before, after = (_LITERAL.sub("", "\n".join(lines)) for lines in (self.old, self.new))
        is_row = not self.old and all("," in line and not _CODE.search(line) for line in self.new)
        return not self.words[0] and bool(self.words[1]) and (before == after or is_row)

    @property
    def is_spelling(self) -> bool:
        """Whether words of a sentence are only written otherwise."""
        old, new = (_words(lines) for lines in (self.old, self.new))
        lines = [_NAMED.sub("", line) for line in (*self.old, *self.new)]
        if len(old) != len(new) or any(_CODE.search(line) or not _PROSE.search(line) for line in lines):
            return False
        pairs = [(one, other) for one, other in zip(old, new, strict=True) if one != other]
        return all(
            min(len(one), len(other)) > 3 and difflib.SequenceMatcher(None, one, other).ratio() >= _ALIKE
            for one, other in pairs
        )


def tokens(texts: Iterable[str]) -> Counter[str]:
    """The words, names and numbers of some texts. Equal numbers are equal words; a time is one."""
    return Counter(map(plain_number, _words(texts)))


def plain_number(word: str) -> str:
    """A word; a number without the zeros that don't count."""
    is_number = len(word) <= _EXACT and word.replace(".", "", 1).isdecimal()
    # No float: with six digits, or with 17, one order number would be another.
    return f"{Decimal(word).normalize():f}" if is_number else word


def _words(texts: Iterable[str]) -> list[str]:
    return _WORD.findall("\n".join(texts).casefold())


def edits(base: str, head: str) -> list[Edit]:
    """What differs between two texts."""
    old, new = lines_of(base), lines_of(head)
    if max(len(old), len(new)) > _MOST_DIFFERING_LINES:
        return []
    return [
        Edit(first=first + 1 if last > first else max(first, 1), last=max(last, 1), old=old[a:b], new=new[first:last])
        # autojunk would ignore what a file of 200 lines often has, e.g. empty lines, and find larger edits.
        for kind, a, b, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if kind != "equal"
    ]


def _code(text: str) -> dict[int, str] | None:
    """The lines with code, by number; None for what can't be parsed."""
    tree = tree_of(text)
    if tree is None:
        return None
    written = lines_of(text)
    lines = dict(enumerate((line.rstrip() for line in written), 1))
    try:
        tokens = [*tokenize.generate_tokens(io.StringIO("\n".join(written) + "\n").readline)]
    except (tokenize.TokenError, SyntaxError):
        return None
    for token in tokens:
        if token.type == tokenize.COMMENT:
            lines[token.start[0]] = lines[token.start[0]][: token.start[1]].rstrip()
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            for number in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1):
                lines[number] = ""
    return {number: line for number, line in lines.items() if line}


def _differing(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    # Most of a file is equal, and difflib's time is quadratic.
    start = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    if start is None:
        start = min(len(old), len(new))
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if not old and not new:
        return []
    if max(len(old), len(new)) > _MOST_DIFFERING_LINES:
        return [(start + 1, start + max(len(new), 1))]
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [
        (start + first + 1, start + last) if last > first else (max(start + first, 1),) * 2
        for kind, _, _, first, last in blocks
        if kind != "equal"
    ]


def within(places: Iterable[Place], changed: Callable[[str], Lines | None], *, apart: bool = False) -> list[Place]:
    """The changed lines of some places, those close together as one.

    Args:
        places: Of the head's files.
        changed: The changed lines of a file; None if they are unknown.
        apart: Keep apart what is not changed together.
    """
    found: dict[tuple[str, int | None], Place] = {}
    for place in places:
        first, last = place.first or 1, place.last or place.first
        hits = [
            (max(a, first), b if last is None or place.first is None else min(b, last))
            for a, b in changed(place.file) or ()
            if place.first is None or (a <= (last or a) and b >= first)
        ]
        if hits and not (apart and place.first is not None):
            hits = [(hits[0][0], max(b for _, b in hits))]
        for low, high in hits:
            lines = {} if place.first is None else {"first": low, "last": high}
            found.setdefault((place.file, lines.get("first")), Place(file=place.file, symbol=place.symbol, **lines))
    return list(found.values())
