"""Reads YAML as PyYAML does, with the position of every value. Imported only where there is a YAML file."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.composer import Composer, ComposerError
from ruamel.yaml.error import YAMLError
from ruamel.yaml.resolver import VersionedResolver
from ruamel.yaml.tag import Tag

from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.files import MAX_SETTINGS, read_regular
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.core.text import first_line
from agent_eval_scoring.evalset.json.positions import JsonPath, Position, Positions
from agent_eval_scoring.evalset.json.reading import Document, parse_value


class _Texts(VersionedResolver):
    """ruamel.yaml takes `y`, `n`, `1e3` and dates for something else than PyYAML does."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        tag = super().resolve(kind, value, implicit)
        name = str(tag).rpartition(":")[2]
        text = {"timestamp": ".", "bool": ".$", "float": r"[^.]*$|.*[eE]\d"}.get(name)
        return Tag(suffix="tag:yaml.org,2002:str") if text and re.match(text, value) else tag


class _NoAliases(Composer):
    def return_alias(self, a: Any) -> Any:
        """A few aliases of aliases make terabytes."""
        raise ComposerError(None, None, "anchors and aliases are not read", a.start_mark)


def _reader() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)
    yaml.Resolver, yaml.Composer = _Texts, _NoAliases
    return yaml


class NotYaml(AgentEvalError, ValueError):
    """A text that can't be read. The message is a clause without a full stop."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


def parse_yaml(text: str) -> Any:
    """The value of a YAML document.

    Raises:
        NotYaml: It is malformed, or has a value that JSON can't have.
    """
    try:
        return parse_value(json.dumps(_reader().load(text), allow_nan=False))
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = (None, None) if mark is None else (mark.line + 1, mark.column + 1)
        raise NotYaml(f"is not YAML: {getattr(error, 'problem', None) or first_line(str(error))}", *where) from error
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise NotYaml(f"has a value that JSON can't have: {first_line(str(error))}") from error


class _YamlPositions(Positions):
    """The positions of nodes."""

    def of(self, path: JsonPath, *, key: bool = False) -> Position:
        node: Node | None = _reader().compose(self._text)
        if node is None:  # No text, or comments only.
            return Position(1, 1)
        for number, step in enumerate(path, start=1):
            child = _child(node, step)
            if child is None:
                break
            node = child[0] if key and number == len(path) else child[1]
        return Position(node.start_mark.line + 1, node.start_mark.column + 1)


def _child(node: Node, step: str | int) -> tuple[Node, Node] | None:
    """The key and the value of a member, or an item twice."""
    if isinstance(node, MappingNode):
        pairs = (pair for pair in node.value if isinstance(pair[0], ScalarNode) and pair[0].value == step)
        return next(pairs, None)
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None


@dataclass(frozen=True, kw_only=True)
class YamlDocument(Document):
    """A well-formed YAML file."""

    @cached_property
    def positions(self) -> Positions:
        """The positions of its values."""
        return _YamlPositions(self.text)


def read_yaml_document(path: Path, file: str) -> tuple[Document | None, list[Problem]]:
    """Reads a YAML file; see `read_document`."""
    try:
        text = read_regular(path, MAX_SETTINGS).decode("utf-8-sig")
        return YamlDocument(file=file, text=text, value=parse_yaml(text)), []
    except NotYaml as error:
        message = f"The file {error}."
        hint = "Indent with spaces, and put texts with `: ` or `#` in quotes."
        line, column = error.line, error.column
        return None, [Problem(code="not-yaml", message=message, hint=hint, file=file, line=line, column=column)]
    except UnicodeDecodeError:
        return None, [Problem(code="not-utf8", message="The file is not UTF-8.", hint="Save it as UTF-8.", file=file)]
    except OSError as error:
        message = f"The file can't be read: {error.strerror or error}."
        return None, [Problem(code="unreadable-file", message=message, file=file)]
