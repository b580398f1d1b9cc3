"""Compiled templates are kept beside the bytecode of their package."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment

from agent_eval_results.report.renderers.markdown import environment


def _compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The templates that an environment compiles."""
    compiled, compile_ = list[str](), Environment.compile

    def noted(self: Environment, source: Any, name: str, *rest: Any, **more: Any) -> Any:
        compiled.append(name)
        return compile_(self, source, name, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Environment, "compile", noted)
        templates = environment.__wrapped__()
        for name in templates.list_templates():
            templates.get_template(name)
    return sorted(compiled)


def test_environment__templates_are_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = sorted(environment().list_templates())
    assert names == ["comment.md.j2", "parts.md.j2", "summary.md.j2"]
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert _compiled(monkeypatch) == names
    assert not [*tmp_path.iterdir()]
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert _compiled(monkeypatch) == names
    assert _compiled(monkeypatch) == []
    [summary] = tmp_path.rglob("summary.md.j2.*")
    with monkeypatch.context() as patch:
        patch.setattr("jinja2.__version__", "0")
        assert _compiled(monkeypatch) == names, "another Jinja may make other code"
    other = environment().overlay(autoescape=False, cache_size=0)
    other.get_template("summary.md.j2")
    assert len([*tmp_path.rglob("summary.md.j2.*")]) == 3, "the code of other options is another file"
    summary.write_bytes(summary.read_bytes()[:-100])
    assert _compiled(monkeypatch) == ["summary.md.j2"]
    assert _compiled(monkeypatch) == []


def test_environment__compiled_templates_have_nothing_of_our_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    templates = environment().overlay(bytecode_cache=None, cache_size=0)

    called: list[object] = []
    ours = set(templates.filters) - set(Environment(autoescape=True).filters)
    monkeypatch.setattr(templates, "filters", templates.filters | dict.fromkeys(ours, called.append))
    monkeypatch.setattr(templates, "finalize", called.append)
    for name in templates.list_templates():
        templates.get_template(name)
    assert not called, "bytecode would keep what a function says today"
