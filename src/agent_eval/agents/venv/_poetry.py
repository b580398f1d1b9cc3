"""The dependencies that Poetry's own tables name, as requirements that every installer understands (PEP 508).

Projects of Poetry 1 have no `[project]`. Their build backend could tell the dependencies too, but it would have to be
installed and run for that, and it often can't be: a misspelt `build-backend`, a README that is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_CLAUSE = re.compile(r"(\^|~=|~|===|==|!=|<=|>=|<|>|=)?\s*v?(\*|[0-9][0-9A-Za-z.+!*-]*)")


class NotTranslatable(ValueError):
    """A dependency is written in a way that has no equal in PEP 508, or not as Poetry wants it."""


def poetry_table(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """`[tool.poetry]` of a pyproject.toml whose dependencies are written there; None if they are written elsewhere."""
    tool = document.get("tool")
    table = tool.get("poetry") if isinstance(tool, dict) else None
    project = document.get("project")
    if not isinstance(table, dict) or not isinstance(table.get("dependencies"), dict):
        return None
    if isinstance(project, dict) and ("dependencies" in project or "dependencies" in project.get("dynamic", ())):
        return None
    return table


def requirements(table: Mapping[str, Any], directory: Path) -> tuple[str, ...]:
    """The main group's dependencies, without optional ones; other groups are for development.

    Args:
        table: `[tool.poetry]`.
        directory: Where relative paths start.

    Raises:
        NotTranslatable: One can't be written as a requirement.
    """
    found = []
    for name, value in table["dependencies"].items():
        if name.casefold() == "python":
            continue
        if not _NAME.fullmatch(name):
            raise NotTranslatable(f"`{name}` is no name of a package")
        found += [_requirement(name, one, directory) for one in (value if isinstance(value, list) else [value])]
    return tuple(line for line in found if line)


def python_versions(table: Mapping[str, Any]) -> str | None:
    """The versions of Python that the project wants, as uv understands them; None for any."""
    wanted = table["dependencies"].get("python")
    if isinstance(wanted, str) and re.fullmatch(r"\d+\.\d+", wanted.strip()):
        return wanted.strip()  # any of that series
    try:
        return versions(wanted) or None if isinstance(wanted, str) else None
    except NotTranslatable:
        return None


def local_sources(table: Mapping[str, Any], directory: Path) -> Iterator[Path]:
    """The directories and files that dependencies are installed from."""
    for value in table["dependencies"].values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict) and isinstance(one.get("path"), str):
                yield (directory / one["path"]).resolve()


def versions(text: str) -> str:
    """A constraint of Poetry as a list of version specifiers (PEP 440); "" for any version.

    Raises:
        NotTranslatable: It has alternatives (`||`), or is no constraint.
    """
    if "|" in text:
        raise NotTranslatable(f"`{text}` has alternatives (||)")
    specifiers: list[str] = []
    rest = text.strip()
    while rest:
        clause = _CLAUSE.match(rest)
        if clause is None:
            raise NotTranslatable(f"`{text}` is no version constraint")
        specifiers += _specifiers(clause[1] or "==", clause[2])
        rest = rest[clause.end() :].lstrip(", \t\n")
    return ",".join(specifiers)


def _specifiers(operator: str, version: str) -> list[str]:
    if version == "*":
        return []
    if operator not in {"^", "~"}:
        return [f"{'==' if operator == '=' else operator}{version}"]
    release = re.match(r"\d+(?:\.\d+)*", version)
    if release is None:
        raise NotTranslatable(f"`{operator}{version}` is no version constraint")
    parts = [int(part) for part in release[0].split(".")]
    return [f">={version.removesuffix('.*')}", f"<{'.'.join(map(str, _next(parts, operator)))}"]


def _next(parts: list[int], operator: str) -> list[int]:
    """The first version that `^` or `~` excludes."""
    if operator == "~":
        kept = min(len(parts), 2)
    else:  # up to the first number that isn't 0
        kept = next((place for place, part in enumerate(parts, 1) if part), len(parts))
    return [*parts[: kept - 1], parts[kept - 1] + 1]


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
        raise NotTranslatable(f"the version of `{name}` is no text")
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
