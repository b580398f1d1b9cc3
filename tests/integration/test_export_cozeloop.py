"""`agent-eval export cozeloop` and a CozeLoop on loopback, written after the contract of its server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_cozeloop import KEY, NO_PERMISSION, PASS_ON, WORKSPACE, FakeCozeLoop, failure, fake_cozeloop, size_of, success
from upload_server import Reply

from agent_eval.cli import main
from agent_eval.net.retry import Retry

VARIABLE = "OBSERVABILITY_OPENTELEMETRY_COZELOOP_"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCozeLoop]:
    for name in os.environ:
        if name.startswith((VARIABLE, "COZELOOP_", "GITHUB_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr("agent_eval_workbench.exports.client._RETRY", Retry(attempts=3, first=0.01))
    monkeypatch.chdir(tmp_path)
    write("home.evalset.json", [case("lamp", turns=2), case("fan")])
    with fake_cozeloop() as service:
        monkeypatch.setenv("COZELOOP_API_BASE_URL", service.server.url)
        monkeypatch.setenv(f"{VARIABLE}API_KEY", KEY)
        monkeypatch.setenv(f"{VARIABLE}SERVICE_NAME", WORKSPACE)
        monkeypatch.setenv(f"{VARIABLE}EVALSET_ID", "9001")
        yield service


def case(eval_id: str, *, turns: int = 1) -> dict[str, Any]:
    turn = {
        "user_content": {"role": "user", "parts": [{"text": f"{eval_id} on"}, {"text": "please"}]},
        "final_response": {"role": "model", "parts": [{"text": "done"}]},
        "intermediate_data": {"tool_uses": [{"name": "set", "args": {"on": True}}]},
    }
    conversation = [turn, *[{"user_content": {"role": "user", "parts": [{"text": "thanks"}]}}] * (turns - 1)]
    return {"eval_id": eval_id, "conversation": conversation}


def write(name: str, cases: list[dict[str, Any]]) -> None:
    Path(name).write_text(json.dumps({"eval_set_id": name.partition(".")[0], "eval_cases": cases}), "utf-8")


def test_export_cozeloop__an_item_per_turn_once(fake: FakeCozeLoop, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "cozeloop", "home.evalset.json"]) == 0
    assert capsys.readouterr().out == "3 items of 3 added (evaluation set 9001)\n"
    assert list(fake.items["9001"].values()) == [
        {"input": "lamp on\nplease", "output": "done"},
        {"input": "thanks", "output": ""},
        {"input": "fan on\nplease", "output": "done"},
    ]
    [request] = fake.server.received
    assert {"x-tt-env", "x-use-ppe"}.isdisjoint(request.headers)  # VeADK's staging lane

    assert main(["export", "cozeloop", "home.evalset.json"]) == 0
    assert capsys.readouterr().out == (
        "0 items of 3 added, 3 with the same key were there already and are unchanged (evaluation set 9001)\n"
    )
    assert len(fake.items["9001"]) == 3


def test_export_cozeloop__creates_a_set_with_the_trajectory(
    fake: FakeCozeLoop, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", "cozeloop", "home.evalset.json:fan", "--workspace-id", WORKSPACE]
    assert main([*arguments, "--create", "Home", "--trajectory"]) == 0

    assert "Created the evaluation set 9002 (Home)" in capsys.readouterr().out
    assert fake.columns["9002"] == ["input", "output", "trajectory"]
    [item] = fake.items["9002"].values()
    assert json.loads(item["trajectory"]) == [{"name": "set", "args": {"on": True}}]


def test_export_cozeloop__at_most_100_items_in_a_request(fake: FakeCozeLoop) -> None:
    write("big.evalset.json", [case(f"case_{number}") for number in range(250)])

    assert main(["export", "cozeloop", "big.evalset.json"]) == 0

    assert [size_of(request) for request in fake.server.received] == [100, 100, 50]
    assert len(fake.items["9001"]) == 250


REFUSALS = {
    "unauthorized": (Reply(401, b"bad token " + KEY.encode()), "HTTP 401: bad token ***.", 1),
    "internal": (Reply(500, b"oops"), "HTTP 500: oops.", 1),
    "business error": (
        failure(NO_PERMISSION, "no permission"),
        "CozeLoop refuses with code 601200101: no permission",
        1,
    ),
    "no code": (Reply(200, {}), "CozeLoop refuses with code None", 1),
    "item errors": (
        success(
            {"errors": [{"error_code": 4, "error_message": "ExceedDatasetCapacity", "error_count": 3, "details": []}]}
        ),
        "3 items, code 4: ExceedDatasetCapacity",
        1,
    ),
    "not acknowledged": (success({}), "0 of 3 items were acknowledged", 1),
    "reset": (None, "the connection failed", 3),
    "redirect": (Reply(307, headers={"Location": "https://evil.example/"}), "redirects to evil.example", 1),
    "no JSON": (Reply(200, b"<html>"), "not with a JSON object", 1),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_export_cozeloop__what_is_not_accepted_ends_with_1(
    name: str, fake: FakeCozeLoop, capsys: pytest.CaptureFixture[str]
) -> None:
    reply, message, requests = REFUSALS[name]
    fake.fault = lambda count: reply

    assert main(["export", "cozeloop", "home.evalset.json"]) == 1

    output = capsys.readouterr()
    assert message in output.err
    assert "not everything was accepted: 0 items of 3 added" in output.err
    assert (output.out, KEY in output.err) == ("", False)
    assert len(fake.server.received) == requests


def test_export_cozeloop__columns_that_the_set_lacks_are_named(
    fake: FakeCozeLoop, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "cozeloop", "home.evalset.json", "--trajectory"]) == 1
    assert "3 items, code 1: MismatchSchema (item 0: unknown column; item 1: " in capsys.readouterr().err


def test_export_cozeloop__a_passing_outage_adds_no_item_twice(fake: FakeCozeLoop) -> None:
    fake.fault = lambda count: Reply(503) if count == 1 else PASS_ON
    assert main(["export", "cozeloop", "home.evalset.json"]) == 0
    assert (len(fake.server.received), len(fake.items["9001"])) == (2, 3)


def test_export_cozeloop__creating_is_not_repeated(fake: FakeCozeLoop) -> None:
    fake.fault = lambda count: Reply(503)
    assert main(["export", "cozeloop", "home.evalset.json", "--create", "Home"]) == 1
    assert len(fake.server.received) == 1


@pytest.mark.parametrize(
    ("variables", "arguments", "message"),
    [
        ({"API_KEY": ""}, [], f"There is no key. Set {VARIABLE}API_KEY."),
        ({"SERVICE_NAME": ""}, [], f"Set --workspace-id or {VARIABLE}SERVICE_NAME."),
        ({"EVALSET_ID": ""}, [], f"Set --evalset-id or {VARIABLE}EVALSET_ID."),
        ({}, ["--evalset-id", "../7"], "--evalset-id (or "),
        ({}, ["--workspace-id", "my space"], "--workspace-id (or "),
    ],
)
def test_export_cozeloop__invalid_settings_end_with_2(
    variables: dict[str, str],
    arguments: list[str],
    message: str,
    fake: FakeCozeLoop,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"{VARIABLE}{name}", value)

    assert main(["export", "cozeloop", "home.evalset.json", *arguments]) == 2

    assert message in capsys.readouterr().err
    assert fake.server.received == []


def test_export_cozeloop__files_without_turns_or_with_errors_end_with_2(
    fake: FakeCozeLoop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = {"starting_prompt": "Hi", "conversation_plan": "Ask for the lamp."}
    Path("plans").mkdir()
    Path("plans/test_config.json").write_text('{"criteria": {"safety_v1": 0.5}}', "utf-8")
    write("plans/plan.evalset.json", [{"eval_id": "plan", "conversation_scenario": scenario}])
    assert main(["export", "cozeloop", "plans"]) == 2
    assert "1 scenario left out" in capsys.readouterr().err

    Path("bad.evalset.json").write_text('{"eval_set_id": "bad", "eval_cases": [{}]}', "utf-8")
    assert main(["export", "cozeloop", "bad.evalset.json"]) == 2
    assert "1:39: error [missing-field]" in capsys.readouterr().err

    monkeypatch.setenv("COZELOOP_API_BASE_URL", "http://loop.example")
    assert main(["export", "cozeloop", "home.evalset.json"]) == 2
    assert "would send the key without encryption" in capsys.readouterr().err
    assert fake.server.received == []
