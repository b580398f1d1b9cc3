"""The package that runs beside the agent: what it sends can still be masked, and which files are a tool's own."""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_eval.core.masking import Masker
from agent_eval_host import frames, values
from agent_eval_host.tool_objects import ToolObjects
from agent_eval_host.tool_sources import installed_from_repository


@pytest.mark.parametrize(
    "secret", ["correct horse battery staple", "AccountName=shop;AccountKey=Zm9vYmFy", 'quoted "value", with marks']
)
@pytest.mark.parametrize("shown", [str, lambda value: json.dumps(value)[1:-1]])
def test_cut__never_inside_a_value_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, secret: str, shown: type[str]
) -> None:
    monkeypatch.setattr(values, "_ENVIRONMENT", (secret, "battery staple and more"))
    for before in range(80, 101):
        cut = values.cut("x " * (before // 2) + "x" * (before % 2) + shown(secret) + " y" * 100, 100)
        masked = Masker([secret]).text(cut)
        assert len(cut) <= 100
        assert not [secret[at : at + 5] for at in range(len(secret) - 4) if secret[at : at + 5] in masked], (
            before,
            cut,
        )


def test_cut__between_words() -> None:
    assert values.cut("one two three", 9) == "one two "
    assert values.cut("one two", 9) == "one two"


def test_tool_objects__files_of_a_function_below_a_decorator_that_hides_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    decorator = "def counted(body):\n    def count():\n        return body()\n    return count\n"
    (tmp_path / "hiding_decorators.py").write_text(decorator)
    (tmp_path / "hidden_tools.py").write_text(
        "from hiding_decorators import counted\n\n@counted\ndef switch(): return switch\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(frames, "agent_places", [f"{tmp_path}/"])
    tool = SimpleNamespace(func=importlib.import_module("hidden_tools").switch)

    assert {Path(file).name for file in ToolObjects().of(tool)[1]} == {"hidden_tools.py", "hiding_decorators.py"}


def test_tool_objects__files_that_a_function_imports_when_it_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "late_tools.py").write_text("def switch():\n    from late_lib.lamps import on\n    return on\n")
    (tmp_path / "late_lib").mkdir()
    (tmp_path / "late_lib" / "lamps.py").write_text("raise RuntimeError('it was imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(frames, "agent_places", [f"{tmp_path}/"])
    tool = SimpleNamespace(func=importlib.import_module("late_tools").switch)

    assert {Path(file).name for file in ToolObjects().of(tool)[1]} == {"late_tools.py", "lamps.py"}


@pytest.mark.parametrize(("source", "own"), [("repo/my lib", True), ("elsewhere/lib", False)])
def test_tool_objects__files_of_a_package_that_was_installed_from_the_repository(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str, own: bool
) -> None:
    site = tmp_path / "venv" / "site-packages"
    about = site / "installed_lamps-1.dist-info"
    about.mkdir(parents=True)
    (site / "installed_lamps.py").write_text("def switch(): ...\n")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-lamps\nVersion: 1\n")
    (about / "RECORD").write_text("installed_lamps.py,,\n")
    (about / "direct_url.json").write_text(json.dumps({"url": (tmp_path / source).as_uri(), "dir_info": {}}))
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(frames, "agent_places", [f"{tmp_path}/repo/"])
    installed_from_repository.cache_clear()
    tool = SimpleNamespace(func=importlib.import_module("installed_lamps").switch)
    del sys.modules["installed_lamps"]

    assert ToolObjects().of(tool)[1] == ({str(site / "installed_lamps.py")} if own else set())
    installed_from_repository.cache_clear()


def test_own_place__names_the_function_around_a_comprehension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "agent_places", ["/repo/home/", "/repo/"])
    stack = [
        traceback.FrameSummary("/venv/site-packages/google/adk/tools.py", 5, "run"),
        traceback.FrameSummary("/repo/home/tools.py", 30, "find"),
        traceback.FrameSummary("/repo/home/tools.py", 33, "<listcomp>"),
        traceback.FrameSummary("/usr/lib/python3/json.py", 3, "loads"),
    ]
    assert frames.own_place(stack) == {"file": "home/tools.py", "line": 33, "symbol": "find"}
    assert frames.own_place(stack[:1]) is None
    lambda_ = [traceback.FrameSummary("/repo/lib/a.py", 2, "<lambda>")]
    assert frames.own_place(lambda_) == {"file": "lib/a.py", "line": 2, "symbol": "<lambda>"}
