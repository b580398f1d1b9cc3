"""Converts the dependencies in Poetry's own tables to standard requirements (PEP 508): projects of Poetry 1 have no
`[project]`.

Their build backend could list the dependencies, but it would have to be installed and run, which often fails: a
misspelt `build-backend`, a missing README.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_CLAUSE = re.compile(r"(\^|~=|~|===|==|!=|<=|>=|<|>|=)?\s*v?(\*|[0-9][0-9A-Za-z.+!*-]*)")


class NotTranslatable(ValueError):
    """A dependency has no equivalent in PEP 508, or is not valid in Poetry."""


def poetry_table(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """`[tool.poetry]` of a pyproject.toml, if it lists the dependencies; None if they are listed elsewhere."""
    tool = document.get("tool")
    table = tool.get("poetry") if isinstance(tool, dict) else None
    project = document.get("project")
    if not isinstance(table, dict) or not isinstance(table.get("dependencies"), dict):
        return None
    if isinstance(project, dict) and ("dependencies" in project or "dependencies" in project.get("dynamic", ())):
        return None
    return table


def requirements(table: Mapping[str, Any], directory: Path) -> tuple[str, ...]:
    """The non-optional dependencies of the main group; other groups are for development.

    Args:
        table: `[tool.poetry]`.
        directory: The base of relative paths.

    Raises:
        NotTranslatable: A dependency can't be converted.
    """
    lines: list[str] = []
    for name, value in table["dependencies"].items():
        if name.casefold() == "python":
            continue
        if not _NAME.fullmatch(name):
            raise NotTranslatable(f"`{name}` is not a package name")
        constraints = value if isinstance(value, list) else [value]
        lines += [_requirement(name, constraint, directory) for constraint in constraints]
    return tuple(line for line in lines if line)


def python_versions(table: Mapping[str, Any]) -> str | None:
    """The Python versions that the project requires, in uv's syntax; None for any."""
    constraint = table["dependencies"].get("python")
    if isinstance(constraint, str) and re.fullmatch(r"\d+\.\d+", constraint.strip()):
        return constraint.strip()  # any release of that series
    try:
        return versions(constraint) or None if isinstance(constraint, str) else None
    except NotTranslatable:
        return None


def local_sources(table: Mapping[str, Any], directory: Path) -> Iterator[Path]:
    """The local directories and files from which dependencies are installed."""
    for value in table["dependencies"].values():
        for constraint in value if isinstance(value, list) else [value]:
            if isinstance(constraint, dict) and isinstance(constraint.get("path"), str):
                yield (directory / constraint["path"]).resolve()


def versions(text: str) -> str:
    """Converts a constraint of Poetry to version specifiers (PEP 440); "" for any version.

    Raises:
        NotTranslatable: The text has alternatives (`||`), or is not a constraint.
    """
    if "|" in text:
        raise NotTranslatable(f"`{text}` has alternatives (||)")
    specifiers: list[str] = []
    remaining = text.strip()
    while remaining:
        clause = _CLAUSE.match(remaining)
        if clause is None:
            raise NotTranslatable(f"`{text}` is not a version constraint")
        specifiers += _specifiers(clause[1] or "==", clause[2])
        remaining = remaining[clause.end() :].lstrip(", \t\n")
    return ",".join(specifiers)


def _specifiers(operator: str, version: str) -> list[str]:
    if version == "*":
        return []
    if operator not in {"^", "~"}:
        return [f"{'==' if operator == '=' else operator}{version}"]
    release = re.match(r"\d+(?:\.\d+)*", version)
    if release is None:
        raise NotTranslatable(f"`{operator}{version}` is not a version constraint")
    parts = [int(part) for part in release[0].split(".")]
    return [f">={version.removesuffix('.*')}", f"<{'.'.join(map(str, _next(parts, operator)))}"]


def _next(parts: list[int], operator: str) -> list[int]:
    """The first version that `^` or `~` excludes."""
    if operator == "~":
        length = min(len(parts), 2)
    else:  # up to the first number that isn't 0
        length = next((position for position, part in enumerate(parts, 1) if part), len(parts))
    return [*parts[: length - 1], parts[length - 1] + 1]


def _requirement(name: str, value: Any, directory: Path) -> str:
    """One requirement; "" for an optional dependency."""
    if isinstance(value, str):
        return name + versions(value)
    if not isinstance(value, dict):
        raise NotTranslatable(f"`{name}` is neither a version nor a table")
    if value.get("optional") is True:
        return ""
    extras = value.get("extras") or []
    head = name + (f"[{','.join(map(str, extras))}]" if extras else "")
    marker = " and ".join(_markers(value))
    tail = f" ; {marker}" if marker else ""
    if (address := _address(value, directory)) is not None:
        return f"{head} @ {address}{tail}"
    version = value.get("version", "*")
    if not isinstance(version, str):
        raise NotTranslatable(f"the version of `{name}` is not a string")
    return f"{head}{versions(version)}{tail}"


def _address(value: Mapping[str, Any], directory: Path) -> str | None:
    if "path" in value:
        return (directory / str(value["path"])).resolve().as_uri()
    if "url" in value:
        return str(value["url"])
    if "git" not in value:
        return None
    address = re.sub(r"^git@([^:/]+):", r"ssh://git@\1/", str(value["git"]))
    revision = next((str(value[key]) for key in ("rev", "tag", "branch") if key in value), None)
    folder = f"#subdirectory={value['subdirectory']}" if "subdirectory" in value else ""
    return f"git+{address}{f'@{revision}' if revision else ''}{folder}"


def _markers(value: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(value.get("python"), str):
        for specifier in filter(None, versions(value["python"]).split(",")):
            operator, version = re.fullmatch(r"([<>=!~]+)(.+)", specifier).groups()  # type: ignore[union-attr]
            variable = "python_version" if version.count(".") == 1 or "*" in version else "python_full_version"
            yield f"{variable} {operator} '{version}'"
    if isinstance(value.get("markers"), str):
        yield f"({value['markers']})"
