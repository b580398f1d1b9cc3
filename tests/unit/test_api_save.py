"""`agent_eval.save_session`: sessions become cases from Python code."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from source_samples import session

import agent_eval

ROOT = Path(__file__).parents[2]


def cases(path: Path) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["eval_cases"]
    return listed


class Session(BaseModel):
    """As google-adk has it, with the fields that matter."""

    id: str
    app_name: str
    user_id: str
    state: dict[str, Any]
    events: list[dict[str, Any]]


def test_save_session__dict_object_and_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_API_KEY", "Turn off the")
    file = tmp_path / "evals" / "home.evalset.json"
    assert agent_eval.save_session(session(), file, root=tmp_path, eval_id="first") == ["first"]
    [case] = cases(file)
    assert case["session_input"] == {"app_name": "home", "user_id": "u", "state": {"room": "attic"}}
    assert case["conversation"][0]["user_content"]["parts"] == [{"text": "*** lamp"}]  # a secret of the environment
    monkeypatch.delenv("CRM_API_KEY")

    raw = session()
    made = Session(id="s", app_name="home", user_id="u", state={}, events=raw["events"])
    assert agent_eval.save_session(made, "evals/home.evalset.json", root=tmp_path, state={"k": 1}) == [
        "turn_off_the_lamp"
    ]
    assert cases(file)[1]["session_input"]["state"] == {"k": 1}

    (tmp_path / "all.json").write_text(json.dumps([session(id="a"), session(id="b")]), "utf-8")
    with pytest.raises(agent_eval.SaveError, match="has 2 conversations"):
        agent_eval.save_session("all.json", file, root=tmp_path)
    assert agent_eval.save_session("all.json", file, root=tmp_path, session="all") == []
    assert agent_eval.save_session("all.json", file, root=tmp_path, session="b", eval_id="first", replace=True) == [
        "first"
    ]
    assert [case["eval_id"] for case in cases(file)] == ["first", "turn_off_the_lamp"]
    assert cases(file)[0]["conversation"][0]["user_content"]["parts"] == [{"text": "Turn off the lamp"}]


@pytest.mark.parametrize(
    ("source", "file", "options", "says"),
    [
        (session([]), "a.evalset.json", {}, "has no turn with an answer"),
        ({"x": 1}, "a.evalset.json", {}, "not a session of ADK"),
        (session(), "a.json", {}, "does not end in"),
        (session(), "a.evalset.json", {"state": {"x": math.nan}}, "state can't be written as JSON"),
        (session(), "a.evalset.json", {"state": {"x": object()}}, "state can't be written as JSON"),
        (5, "a.evalset.json", {}, "source must be a path"),
    ],
)
def test_save_session__refuses(tmp_path: Path, source: Any, file: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError if source == 5 else agent_eval.SaveError, match=says):
        agent_eval.save_session(source, file, root=tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_docs_python_api__name_every_parameter() -> None:
    page = (ROOT / "docs" / "python-api.md").read_text("utf-8")
    listed = re.search(r"`save_session\((.*?)\)`", page)
    assert listed is not None
    assert re.findall(r"\b([a-z_]+)(?==|,|$)", listed[1].replace("=None", "=").replace("=False", "=")) == [
        "source", "file", "eval_id", "session", "state", "replace", "root",
    ]  # fmt: skip
