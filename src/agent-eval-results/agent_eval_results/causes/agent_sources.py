"""The code behind an agent and its tools: found by parsing the repository's modules, which are never imported.

The text is the pull request's: what can't be parsed has no place, and sizes are bounded.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from agent_eval_results import Place
from agent_eval_results.data.changed_lines import lines_of, tree_of

MAX_FILE = 400_000
"""Characters of a module."""
_MOST_MODULES = 200
_MOST_DEFINITIONS = 300
"""That one tool uses."""
_MOST_STEPS = 30_000
"""Imports that are followed, for all names: modules may import each other's names in a million ways."""
_LONGEST_STRING = 300
_Imports = dict[str, list[tuple[ast.Import | ast.ImportFrom, ast.alias]]]
"""Imports by the name that they define; `*` for those of all names."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Module:
    file: str
    lines: list[str]
    tree: ast.Module
    definitions: dict[str, list[ast.AST]] = field(default_factory=dict)
    imports: _Imports = field(default_factory=dict)
    digests: dict[ast.AST, str] = field(default_factory=dict)

    @functools.cached_property
    def functions(self) -> dict[int, tuple[ast.AST, ast.ClassDef | None]]:
        """All functions by their first line, each with its class if it is a method."""
        found: dict[int, tuple[ast.AST, ast.ClassDef | None]] = {}
        for node, owner in _functions(self.tree):
            found.setdefault(_first(node), (node, owner))
        return found


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A function, a class, or a statement that gives a variable its value."""

    module: _Module
    node: ast.AST
    symbol: str
    owner: ast.ClassDef | None = None
    """The class of a method."""

    @property
    def place(self) -> Place:
        """Its lines, with decorators."""
        first, last = self._lines
        return Place(file=self.module.file, first=first, last=last, symbol=self.symbol)

    @property
    def _lines(self) -> tuple[int, int]:
        if isinstance(self.node, ast.Module):
            return 1, len(self.module.lines)
        return _first(self.node), _last(self.node)

    @property
    def digest(self) -> str:
        """A hash of its lines, without white space at their ends."""
        digests, (first, last) = self.module.digests, self._lines
        if self.node not in digests:
            text = "\n".join(line.rstrip() for line in self.module.lines[first - 1 : last])
            digests[self.node] = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
        return digests[self.node]

    @property
    def strings(self) -> set[str]:
        """Short texts in it, some of which name files."""
        return {
            node.value
            for node in ast.walk(self.node)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and 0 < len(node.value) <= _LONGEST_STRING
        }


def _first(node: Any) -> int:
    return min(int(each.lineno) for each in (node, *getattr(node, "decorator_list", ())))


def _last(node: Any) -> int:
    return int(node.end_lineno or node.lineno)


class Sources:
    """The modules of a checkout."""

    def __init__(self, read: Callable[[str], str | None], *, folder: str = "") -> None:
        """Parses nothing yet.

        Args:
            read: The text of a file by its path relative to the root; None if there is none, or if it can't be read.
            folder: The agent's directory, relative to the root. Its parent and the root are importable, as in the host.
        """
        self._read = read
        self._folder = PurePosixPath(folder)
        self._modules: dict[str, _Module | None] = {}
        self._left = _MOST_STEPS
        self._found: dict[tuple[str, int, str], _Module | None] = {}
        self._used: dict[ast.AST, list[Definition]] = {}
        self._calls_in: dict[ast.AST, list[tuple[_Module, ast.Call, ast.expr]]] = {}

    def locate(self, file: str, symbol: str, line: int | None = None) -> list[Definition]:
        """What a qualified name of a file stands for; of a function with its first line, that one only; for no name
        the whole module.
        """
        module = self._module(file)
        if module is None:
            return []
        if line is not None:
            node, owner = module.functions.get(line, (None, None))
            return [] if node is None else [Definition(module=module, node=node, symbol=symbol, owner=owner)]
        if not symbol:
            return [Definition(module=module, node=module.tree, symbol="")]
        name, *members = symbol.split(".")
        return [found for each in self._defined(module, name) for found in _member(each, members)]

    def used(self, start: Iterable[Definition]) -> list[Definition]:
        """The definitions, and what they use by name, directly or not, of all modules of the repository."""
        found: list[Definition] = []
        seen: set[ast.AST] = set()
        waiting = list(start)
        for each in waiting:
            if each.node not in seen and len(found) < _MOST_DEFINITIONS:
                seen.add(each.node)
                found.append(each)
                waiting += self.named(each)
        return found

    def named(self, code: Definition) -> list[Definition]:
        """What a definition uses itself."""
        if code.node not in self._used:
            self._used[code.node] = list(self._uses(code))
        return self._used[code.node]

    def keywords(self, start: Sequence[Definition], name: str, keywords: Sequence[str]) -> list[Definition]:
        """What the call that makes an agent passes for some keywords.

        Args:
            start: Where the agent is defined, or one that has it as a sub-agent or tool.
            name: The agent's name.
            keywords: E.g. `instruction`; none for all.
        """
        return [
            Definition(module=module, node=keyword.value, symbol=keyword.arg)
            for module, call in self._calls(start, name)
            for keyword in call.keywords
            if keyword.arg is not None and (keyword.arg in keywords or not keywords)
        ]

    def passed(self, code: Iterable[Definition], keyword: str) -> list[Definition]:
        """What the calls in some code pass for a keyword."""
        return [
            Definition(module=each.module, node=found.value, symbol=keyword)
            for each in code
            for node in ast.walk(each.node)
            for found in (node.keywords if isinstance(node, ast.Call) else ())
            if found.arg == keyword
        ]

    def around(self, place: Place) -> list[Definition]:
        """The innermost function that has a line."""
        module, line = self._module(place.file), place.first or 0
        around = (
            []
            if module is None
            else [first for first, (node, _) in module.functions.items() if first <= line <= _last(node)]
        )
        return self.locate(place.file, place.symbol, max(around)) if around else []

    def agent(self, start: Sequence[Definition], name: str) -> list[Place]:
        """The calls that make an agent of this name."""
        return [
            Place(file=module.file, first=_first(call), last=_last(call), symbol=name)
            for module, call in self._calls(start, name)
        ]

    def _calls(self, start: Sequence[Definition], name: str) -> list[tuple[_Module, ast.Call]]:
        calls = []
        for each in self.used(start):
            if each.node not in self._calls_in:
                self._calls_in[each.node] = [
                    (each.module, node, keyword.value)
                    for node in ast.walk(each.node)
                    if isinstance(node, ast.Call)
                    for keyword in node.keywords
                    if keyword.arg == "name"
                ]
            for module, call, value in self._calls_in[each.node]:
                if name in self._constants(module, value):
                    calls.append((module, call))
        return calls

    def _constants(self, module: _Module, value: ast.expr) -> list[Any]:
        """The value of a constant, also of a variable that has one."""
        if isinstance(value, ast.Constant):
            return [value.value]
        if isinstance(value, ast.Name):
            values = [getattr(each.node, "value", None) for each in self._defined(module, value.id)]
            return [each.value for each in values if isinstance(each, ast.Constant)]
        return []

    # -- names

    def _uses(self, code: Definition) -> Iterator[Definition]:
        names, chains, imports = _names(code.node)
        for name in names:
            yield from self._imported(code.module, imports, name, ())
            yield from self._defined(code.module, name)
        for root, *members in chains:
            # A class is known here; what another variable holds is not, so its attributes are looked for by name alone.
            if root in {"self", "cls"} and code.owner is not None:
                yield from self._of_self(code, members[0])
            else:
                yield from self._imported(code.module, imports, root, members)
                yield from self._defined(code.module, root, members)

    def _of_self(self, code: Definition, name: str) -> Iterator[Definition]:
        owner = code.owner
        assert owner is not None
        whole = Definition(module=code.module, node=owner, symbol=owner.name)
        # An attribute that no statement of the class binds is set there, in most classes.
        members = _member(whole, [name]) or _member(whole, ["__init__"])
        yield from members
        if not members:  # A base class may have it.
            for base in owner.bases:
                if isinstance(base, ast.Name):
                    for each in self._defined(code.module, base.id):
                        yield from _member(each, [name])

    def _defined(
        self, module: _Module, name: str, members: Sequence[str] = (), asked: set[tuple[str, str]] | None = None
    ) -> list[Definition]:
        """What a name of a module stands for, in that module or in the one from which it is imported.

        `asked` has what is being looked for already: modules may import each other.
        """
        here = [Definition(module=module, node=node, symbol=name) for node in module.definitions.get(name, ())]
        asked = set() if asked is None else asked
        if here or (module.file, name) in asked:
            return here
        asked.add((module.file, name))
        return list(self._imported(module, module.imports, name, members, asked))

    def _imported(
        self,
        module: _Module,
        imports: _Imports,
        name: str,
        members: Sequence[str],
        asked: set[tuple[str, str]] | None = None,
    ) -> Iterator[Definition]:
        asked = set() if asked is None else asked
        for statement, alias in (*imports.get(name, ()), *imports.get("*", ())):
            self._left -= 1
            if self._left < 0:
                return
            if isinstance(statement, ast.Import):
                path = alias.name.split(".")
                yield from self._of_module(module, 0, path if alias.asname else path[:1], members, asked)
                continue
            dotted = (statement.module or "").split(".")
            if alias.name != "*":
                yield from self._of_module(module, statement.level, dotted, [alias.name, *members], asked)
            elif (target := self._find(module, statement.level, dotted)) is not None:
                yield from self._defined(target, name, members, asked)

    def _of_module(
        self, module: _Module, level: int, dotted: list[str], members: Sequence[str], asked: set[tuple[str, str]]
    ) -> Iterator[Definition]:
        """What `dotted.members` stands for; the first members may be modules, too. A module as such is no code."""
        for count in range(len(members) - 1, -1, -1):
            target = self._find(module, level, [*dotted, *members[:count]])
            found = [] if target is None else self._defined(target, members[count], members[count + 1 :], asked)
            if found:
                yield from found
                return

    # -- modules

    def _find(self, module: _Module, level: int, dotted: Sequence[str]) -> _Module | None:
        parts = [part for part in dotted if part]
        here = PurePosixPath(module.file).parent
        key = (str(here), level, ".".join(parts))
        if key not in self._found:
            self._found[key] = self._look_up(here, level, parts)
        return self._found[key]

    def _look_up(self, here: PurePosixPath, level: int, parts: Sequence[str]) -> _Module | None:
        if level:
            folders = [here.parents[level - 2] if level > 1 and len(here.parents) >= level - 1 else here]
        else:
            folders = [self._folder.parent, PurePosixPath()]
            if parts[:1] == ["agent"]:  # The host's alias of the agent's package.
                folders.append(self._folder)
                if (found := self._file(self._folder, parts[1:])) is not None:
                    return found
        return next((found for folder in folders if (found := self._file(folder, parts)) is not None), None)

    def _file(self, folder: PurePosixPath, parts: Sequence[str]) -> _Module | None:
        path = folder.joinpath(*parts)
        names = [f"{path}/__init__.py"] if not parts else [f"{path}.py", f"{path}/__init__.py"]
        return next((module for name in names if (module := self._module(name.removeprefix("./"))) is not None), None)

    def _module(self, file: str) -> _Module | None:
        if file not in self._modules:
            # A name of the agent's may lead through a whole repository, or one that was made to be slow to read.
            if sum(module is not None for module in self._modules.values()) >= _MOST_MODULES:
                return None
            text = self._read(file) if file.endswith(".py") else None
            self._modules[file] = None if text is None or len(text) > MAX_FILE else _parsed(file, text)
        return self._modules[file]


def _parsed(file: str, text: str) -> _Module | None:
    tree = tree_of(text)
    if tree is None:
        return None
    module = _Module(file=file, lines=lines_of(text), tree=tree)
    for statement in _statements(tree.body):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            _note_import(module.imports, statement)
        for name in _bound(statement):
            module.definitions.setdefault(name, []).append(statement)
    return module


def _note_import(imports: _Imports, statement: ast.Import | ast.ImportFrom) -> None:
    for alias in statement.names:
        name = alias.asname or (alias.name.split(".")[0] if isinstance(statement, ast.Import) else alias.name)
        imports.setdefault(name, []).append((statement, alias))


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, also those below `if` and `try`."""
    waiting: list[ast.stmt] = list(reversed(body))
    while waiting:
        statement = waiting.pop()
        inner: list[ast.stmt] = []
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for name in ("body", "handlers", "orelse", "finalbody", "cases"):
                for each in getattr(statement, name, ()):
                    inner += getattr(each, "body", ()) if not isinstance(each, ast.stmt) else [each]
        waiting += reversed(inner)
        # These two bind names themselves, beside what is below them.
        if not inner or isinstance(statement, (ast.For, ast.With)):
            yield statement


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement of a module defines or changes."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets += statement.targets
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign, ast.For)):
        targets.append(statement.target)
    elif isinstance(statement, ast.With):
        targets += [item.optional_vars for item in statement.items if item.optional_vars is not None]
    elif isinstance(statement, ast.Expr) and isinstance(getattr(statement.value, "func", None), ast.Attribute):
        targets.append(statement.value.func)  # type: ignore[attr-defined]  # ROOMS.update(...)
    return {name for target in targets for name in _roots(target)}


def _roots(target: ast.expr) -> Iterator[str]:
    """The variables of a target: of `a, *b`, `a.b`, `a["b"]`."""
    waiting = [target]
    for each in waiting:
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, (ast.Tuple, ast.List)):
            waiting += each.elts
        elif isinstance(each, (ast.Starred, ast.Attribute, ast.Subscript)):
            waiting.append(each.value)


def _functions(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.ClassDef | None]]:
    """All functions of a module, each with its class if it is a method."""
    waiting: list[tuple[ast.AST, ast.ClassDef | None]] = [(tree, None)]
    for node, owner in waiting:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield node, owner
        inside = node if isinstance(node, ast.ClassDef) else owner
        waiting += [(child, inside) for child in ast.iter_child_nodes(node)]


def _member(code: Definition, names: Sequence[str]) -> list[Definition]:
    """A part of a class by its qualified name; the definition itself for no name."""
    found = [code]
    for name in names:
        found = [
            Definition(module=each.module, node=statement, symbol=f"{each.symbol}.{name}", owner=each.node)
            for each in found
            if isinstance(each.node, ast.ClassDef)
            for statement in each.node.body
            if name in _bound(statement)
        ]
    return found


def _names(node: ast.AST) -> tuple[list[str], list[list[str]], _Imports]:
    """The names that code uses and does not define itself, dotted names, and its own imports."""
    names: dict[str, None] = {}
    chains: dict[tuple[str, ...], None] = {}
    imports: _Imports = {}
    own: set[str] = set()
    declared: set[str] = set()
    in_chain: set[ast.AST] = set()
    is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    for each in ast.walk(node):
        if isinstance(each, (ast.Import, ast.ImportFrom)):
            _note_import(imports, each)
        elif isinstance(each, ast.Global):
            declared.update(each.names)
        elif isinstance(each, ast.arg):
            own.add(each.arg)
        elif isinstance(each, ast.Attribute) and each not in in_chain:
            chain = [each.attr]
            value: ast.expr = each.value
            while isinstance(value, ast.Attribute):
                in_chain.add(value)
                chain.append(value.attr)
                value = value.value
            if isinstance(value, ast.Name):
                in_chain.add(value)
                chains[(value.id, *reversed(chain))] = None
        elif isinstance(each, ast.Name) and each not in in_chain:
            # What a function assigns is its own; what a module or a class assigns, others use.
            if isinstance(each.ctx, ast.Store) and is_function:
                own.add(each.id)
            else:
                names[each.id] = None
    own -= declared
    used = [name for name in names if name not in own]
    return used, [list(chain) for chain in chains if chain[0] not in own or chain[0] in {"self", "cls"}], imports


def source_hash(definitions: Sequence[Definition]) -> str:
    """A hash of the text of some definitions; "" for none."""
    if not definitions:
        return ""
    return hashlib.sha256("\0".join(f"{each.symbol}\0{each.digest}" for each in definitions).encode()).hexdigest()[:16]
