"""Compiled templates are kept beside the bytecode of their package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from jinja2 import Environment

from agent_eval_results.report.renderers.markdown import environment

_COMPILE = """
import sys
from jinja2 import Environment
from agent_eval_results.report.renderers.markdown import environment
compiled, compile_ = [], Environment.compile
Environment.compile = lambda self, source, name, *rest, **more: compiled.append(name) or compile_(
    self, source, name, *rest, **more
)
templates = environment()
for name in templates.list_templates():
    templates.get_template(name)
print(*sorted(compiled))
"""


def _compiled(prefix: Path, **more: str) -> list[str]:
    """The templates that a process compiles whose bytecode is kept below a directory."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    variables |= {"PYTHONPYCACHEPREFIX": str(prefix), **more}
    done = subprocess.run([sys.executable, "-c", _COMPILE], env=variables, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_environment__templates_are_compiled_once(tmp_path: Path) -> None:
    names = sorted(environment().list_templates())
    assert names == ["comment.md.j2", "parts.md.j2", "summary.md.j2"]
    assert _compiled(tmp_path, PYTHONDONTWRITEBYTECODE="1") == names
    assert not [*tmp_path.rglob("*.j2.*")]
    assert _compiled(tmp_path) == names
    assert _compiled(tmp_path) == []
    [summary] = tmp_path.rglob("summary.md.j2.*")
    summary.write_bytes(summary.read_bytes()[:-100])
    assert _compiled(tmp_path) == ["summary.md.j2"]
    assert _compiled(tmp_path) == []


def test_environment__compiled_templates_have_nothing_of_our_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    templates = environment().overlay(bytecode_cache=None, cache_size=0)

    called: list[object] = []
    ours = set(templates.filters) - set(Environment(autoescape=True).filters)
    monkeypatch.setattr(templates, "filters", templates.filters | dict.fromkeys(ours, called.append))
    monkeypatch.setattr(templates, "finalize", called.append)
    for name in templates.list_templates():
        templates.get_template(name)
    assert not called, "bytecode would keep what a function says today"
