"""The package that runs beside the agent: what it sends can still be masked, and which files are a tool's own."""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import BaseModel, Field, PrivateAttr

from agent_eval.core.masking import Masker
from agent_eval_host import frames, values
from agent_eval_host.model_answers import ModelAnswers
from agent_eval_host.tool_objects import ToolObjects
from agent_eval_host.tool_sources import installed_from_repository


@pytest.mark.parametrize(
    "secret", ["correct horse battery staple", "AccountName=shop;AccountKey=Zm9vYmFy", 'quoted "value", with marks']
)
@pytest.mark.parametrize("shown", [str, lambda value: json.dumps(value)[1:-1]])
def test_cut__never_inside_a_value_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, secret: str, shown: type[str]
) -> None:
    assert (values.cut("one two three", 9), values.cut("one two", 9)) == ("one two ", "one two"), "between words"
    monkeypatch.setattr(values, "_ENVIRONMENT", (secret, "battery staple and more"))
    for before in range(80, 101):
        cut = values.cut("x " * (before // 2) + "x" * (before % 2) + shown(secret) + " y" * 100, 100)
        masked = Masker([secret]).text(cut)
        assert len(cut) <= 100
        assert not [secret[at : at + 5] for at in range(len(secret) - 4) if secret[at : at + 5] in masked], (
            before,
            cut,
        )


@pytest.mark.parametrize(
    "files",
    [
        {
            "hiding_decorators.py": "def counted(body):\n    def count():\n        return body()\n    return count\n",
            "hidden_tools.py": "from hiding_decorators import counted\n\n@counted\ndef switch(): return switch\n",
        },
        {
            "late_lib/lamps.py": "raise RuntimeError('it was imported')\n",
            "late_tools.py": "def switch():\n    from late_lib.lamps import on\n    return on\n",
        },
    ],
    ids=["below a decorator that hides it", "imported when it runs"],
)
def test_tool_objects__files_of_a_function(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, str]
) -> None:
    (tmp_path / "late_lib").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(frames, "agent_places", [f"{tmp_path}/"])
    tool = SimpleNamespace(func=importlib.import_module([*files][-1].removesuffix(".py")).switch)

    assert {Path(file).relative_to(tmp_path).as_posix() for file in ToolObjects().of(tool)[1]} == {*files}


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


class Config(BaseModel):
    """As much of google-genai's as there is to leave out."""

    system_instruction: str = "Be brief."
    temperature: float | None = None
    response_schema: Any = None
    labels: dict[str, str] = Field(default_factory=dict)
    http_options: dict[str, Any] = Field(default_factory=dict)
    tools: list[Any] = Field(default_factory=list)


class Access(BaseModel):
    """A tool that a provider runs."""

    name: str = "maps"
    url_context: dict[str, str] = Field(default_factory=dict)
    auth_config: str = "key-1"
    headers: dict[str, str] = Field(default_factory=lambda: {"x": "key-2"})


class Answer(BaseModel):
    stars: int = 3


class Asked(BaseModel):
    """As ADK's request."""

    model: str | None = None
    contents: list[Any] = Field(default_factory=list)
    config: Config
    cache_metadata: dict[str, str] = Field(default_factory=lambda: {"name": "cache-1"})
    service_tier: str | None = None


@dataclass(slots=True)
class Options:
    penalty: Decimal = Decimal("0.1")


class Model(BaseModel):
    """As LiteLLM's in ADK, which keeps what it got and looks up the rest later."""

    model: str
    max_tokens: int = 100
    api_key: str = "key-3"
    llm_client: Any = Field(default_factory=object)
    _additional_args: dict[str, Any] = PrivateAttr(default_factory=dict)
    _resolved: dict[str, Any] = PrivateAttr(default_factory=dict)


def asked_of(model: Model, **request: Any) -> dict[str, Any]:
    answers = cast("Any", ModelAnswers)(None, None)
    return dict(answers._asked(model, Asked(**{"config": Config(), **request}), stream=False))


def test_model_asked__shows_what_a_model_is_asked_not_where_nor_with_which_key() -> None:
    model = Model(model="lite/large")
    model._additional_args = {
        **{"temperature": 0.3, "max_tokens": 7, "top_k": 3, "extra_body": {"reasoning": None}},
        **{"kept": [1, (2.5, True)], "api_key": "key-4", "api_base": "http://key-5"},
        **{"extra_headers": {"a": "key-6"}, "aws_secret_access_key": "key-7", "num_retries": 3},
        **{"timeout": 9, "vertex_credentials": "key-8", "callback": print, "options": Options()},
    }
    config = Config(
        temperature=0.5,
        response_schema=list[Answer],
        labels={"adk_agent_name": "clerk", "team": "label-1"},
        http_options={"headers": {"a": "key-9"}, "timeout": 1, "extra_body": {"seed": 1}},
        tools=[Access(url_context={"page": "1"}), print],
    )
    odd: list[Any] = [object(), 1j]
    odd.append(odd)
    content = {"parts": [{"data": b"\xff", "args": {"b": None, "a": float("nan")}, "of": {"y", "x"}, "odd": odd}]}
    asked = asked_of(model, config=config, contents=[content], service_tier="flex")
    request = asked["request"]
    assert (asked["agent"], asked["model"]) == ("clerk", "lite/large")
    assert asked["settings"] == {
        "max_tokens": 100,
        "_additional_args": {
            **{"temperature": 0.3, "max_tokens": 7, "top_k": 3, "extra_body": {"reasoning": None}},
            **{"kept": [1, [2.5, True]], "callback": "print", "options": {"penalty": "0.1"}},
        },
        "_resolved": {},
    }
    assert request["instruction"] == "Be brief."
    assert request["tools"] == [{"name": "maps", "url_context": {"page": "1"}}, "print"]
    assert request["config"]["temperature"] == 0.5
    assert request["config"]["response_schema"]["items"] == {"$ref": "#/$defs/Answer"}
    assert request["config"]["http_options"] == {"extra_body": {"seed": 1}}
    [part] = request["contents"][0]["parts"]
    assert part["data"].startswith("sha256:a8100ae6aa1940d0")
    assert (part["args"], list(part["args"]), part["of"]) == ({"b": None, "a": "nan"}, ["b", "a"], ["x", "y"])
    assert part["odd"] == ["object", "1j", "list"]
    assert request["service_tier"] == "flex"
    assert not [word for word in ("key-", "label-", "cache-1", "timeout", "object at") if word in json.dumps(asked)]


def test_model_asked__settings_are_those_of_the_first_call_but_fields_may_change() -> None:
    answers = cast("Any", ModelAnswers)(None, None)
    model = Model(model="m")
    first = answers._settings(model)
    model._resolved["m"] = 1
    assert answers._settings(model) == first
    model.max_tokens = 50
    assert answers._settings(model) == {**first, "max_tokens": 50}
    del model
    assert not answers._private, "nothing is kept of a model that is gone"
