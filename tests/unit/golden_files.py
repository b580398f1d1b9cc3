"""Texts that people read, kept as files: a change of a text is seen, and reviewed, as such."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import fields
from difflib import unified_diff
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agent_eval_scoring.core.problem import docs_page

DATA = Path(__file__).parents[1] / "data"


def check(name: str, actual: str) -> None:
    """Compares a text with its file below `tests/data`, byte by byte; UPDATE_GOLDEN=1 writes the file.

    The address of the documentation is DOCS: it changes with the repository's name.
    """
    file, actual = DATA / name, actual.replace(docs_page("").removesuffix("/"), "DOCS/")
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(actual, encoding="utf-8", newline="\n")
    assert file.exists(), "UPDATE_GOLDEN=1 writes it"
    expected = file.read_bytes().decode("utf-8")
    changes = unified_diff(expected.splitlines(), actual.splitlines(), name, "now", n=1, lineterm="")
    assert actual == expected, "\n".join(["if it reads well: UPDATE_GOLDEN=1", *changes])


def check_part(file: Path, current: str, expected: str) -> None:
    """Compares a generated part of a file with what it should be; UPDATE_GOLDEN=1 writes it."""
    if os.environ.get("UPDATE_GOLDEN"):
        assert "PYTEST_XDIST_WORKER" not in os.environ, "run it without -n: workers would write over each other"
        file.write_text(file.read_text("utf-8").replace(current, expected, 1), "utf-8")
    else:
        assert current == expected, "UPDATE_GOLDEN=1 writes it"


def check_names(folder: str, names: Iterable[str]) -> None:
    """No file of a folder is left over."""
    assert {file.name for file in (DATA / folder).iterdir()} == set(names)


def rounded(dumped: str) -> Any:
    """What JSON says, without digits that depend on the machine."""
    return json.loads(dumped, parse_float=lambda digits: round(float(digits), 6))


def as_lines(model: BaseModel) -> list[str]:
    """What is not as by default: a line for each item of a list, and one for the rest."""
    facts = rounded(model.model_dump_json(exclude_defaults=True))
    lists = {name: facts.pop(name) for name in list(facts) if isinstance(facts[name], list)}
    items = [(name, item) for name, values in lists.items() for item in values]
    return [f"{name}: {plain(item) or 'all by default'}" for name, item in [("in all", facts), *items]]


def plain(value: Any) -> str:
    """A value of JSON as a reader wants it: names and values without quotes, inner ones in brackets."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_inner(each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(_inner, value))
    return value if isinstance(value, str) and value == value.strip() != "" else json.dumps(value, ensure_ascii=False)


def _inner(value: Any) -> str:
    if isinstance(value, str) and any(sign in value for sign in ",()\n"):
        return json.dumps(value, ensure_ascii=False)
    return f"({plain(value)})" if isinstance(value, dict | list) else plain(value)


def names_in(names: Iterable[str]) -> str:
    """Names, those that count up from one to the next as a range: `steady0 to steady28`."""
    runs: list[list[str]] = []
    for name in names:
        stem = name.rstrip("0123456789")
        number = name[len(stem) :]
        is_next = bool(runs) and number.isdecimal() and runs[-1][-1] == f"{stem}{int(number) - 1}"
        runs[-1].append(name) if is_next else runs.append([name])
    return " ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else " ".join(run) for run in runs)


def facts_of(item: Any) -> str:
    """The fields of a dataclass that are not as by default."""
    facts = [(field, getattr(item, field.name)) for field in fields(item)]
    return ", ".join(f"{field.name} {value!r}" for field, value in facts if value != field.default) or "all by default"
