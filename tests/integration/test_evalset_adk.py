"""What we write, google-adk 2.13.0 loads; what it refuses, we refuse, and more (docs/problems.md)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from adk_envs import adk_python
from evalset_samples import (
    BAD_CONFIGS,
    BAD_EVAL_SETS,
    GOOD_CONFIGS,
    GOOD_EVAL_SETS,
    GOOD_SCENARIOS,
    LEGACY_EVALS,
    LEGACY_TURNS,
)

from agent_eval_scoring.core.content import FunctionCall, Part, model_message, text_of, user_message
from agent_eval_scoring.core.invocation import IntermediateData, Invocation, intermediate_responses, tool_calls
from agent_eval_scoring.evalset.json import patched_text, replaced
from agent_eval_scoring.evalset.json.patching import eval_set_text, write_text
from agent_eval_scoring.evalset.loading import load_suite
from agent_eval_scoring.evalset.models.schema import EvalSet
from agent_eval_workbench.authoring.expectation import NewTurn, accept_turns
from agent_eval_workbench.commands.migrate import migrate

pytestmark = pytest.mark.conformance

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def adk() -> Iterator[Ask]:
    worker = Path(__file__).with_name("adk_reads_evalsets.py")
    process = subprocess.Popen(
        [str(adk_python(extra="eval")), "-W", "ignore", str(worker)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None and stdout is not None

    def ask(kind: str, value: Any, **more: Any) -> dict[str, Any]:
        stdin.write(json.dumps({"kind": kind, "value": value, **more}) + "\n")
        stdin.flush()
        reply: dict[str, Any] = json.loads(stdout.readline())
        return reply

    with process:
        yield ask
        stdin.close()
        process.wait(timeout=20)


def normal(value: Any) -> Any:
    """Without nulls, times and what ADK fills in."""
    if isinstance(value, dict):
        dropped = ("creation_timestamp", "final_session_state")
        kept = {key: normal(item) for key, item in value.items() if key not in dropped and item is not None}
        return {key: item for key, item in kept.items() if item not in ([], {})}
    return [normal(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("value", [LEGACY_TURNS, LEGACY_EVALS], ids=["turns", "evals"])
def test_adk__loads_what_migrate_writes(value: Any, adk: Ask, tmp_path: Path) -> None:
    old = tmp_path / "old.test.json"
    old.write_text(json.dumps(value), encoding="utf-8")
    new = tmp_path / "app" / "lamp.evalset.json"
    assert migrate(old, new) == []
    reply = adk("file", str(new))
    ours = EvalSet.model_validate(json.loads(new.read_text()))
    assert normal(reply["ok"]) == normal(ours.model_dump(mode="json", exclude_none=True))
    assert adk("agents_dir", str(tmp_path), id="lamp") == {"ok": [case.eval_id for case in ours.eval_cases]}


def test_adk__conversion_of_evals_is_adks(adk: Ask, tmp_path: Path) -> None:
    old = tmp_path / "old.evalset.json"
    old.write_text(json.dumps(LEGACY_EVALS), encoding="utf-8")
    theirs = adk("file", str(old))["ok"]
    (file,) = load_suite(tmp_path).files

    def comparable(eval_set: dict[str, Any]) -> Any:
        cases = normal(eval_set)["eval_cases"]
        for case in cases:
            for turn in case["conversation"]:
                del turn["invocation_id"]
        return cases

    assert comparable(file.eval_set.model_dump(mode="json", exclude_none=True)) == comparable(theirs)


def test_adk__loads_files_in_which_every_turn_was_accepted(adk: Ask, tmp_path: Path) -> None:
    """As `agent-eval accept` changes them, in flat lists and in events, in both spellings."""
    uses = [FunctionCall(id="1", name="find", args={"room": "bedroom"}), FunctionCall(name="switch", args={})]
    actual = Invocation(
        user_content=user_message("Off."),
        final_response=model_message("It is off \U0001f4a1"),
        intermediate_data=IntermediateData(
            tool_uses=uses, intermediate_responses=[("helper", [Part(text="One moment.")])]
        ),
    )
    new = NewTurn(actual=actual, fields=frozenset({"calls", "final", "intermediate"}))
    conversations = 0
    for number, sample in enumerate(GOOD_EVAL_SETS.values()):
        value = sample
        for place, case in enumerate(value["eval_cases"]):
            if turns := case.get("conversation"):
                changed = accept_turns(case, dict.fromkeys(range(len(turns)), new))
                value = replaced(value, ("eval_cases", place), changed)
                conversations += 1
        path = tmp_path / f"{number}.evalset.json"
        text = patched_text(json.dumps(sample, indent=2), sample, value)
        write_text(path, text)
        theirs = EvalSet.model_validate(adk("file", str(path))["ok"])
        for case, ours in zip(theirs.eval_cases, EvalSet.model_validate(value).eval_cases, strict=True):
            for turn, own in zip(case.conversation or (), ours.conversation or (), strict=True):
                for read in (turn, own):
                    calls = [(call.name, call.args) for call in tool_calls(read.intermediate_data)]
                    assert calls == [(call.name, call.args) for call in uses]
                    assert text_of(read.final_response) == "It is off \U0001f4a1"
                    assert intermediate_responses(read) == [("helper", "One moment.")]
    assert conversations > 3


def test_adk__loads_what_the_writer_writes(adk: Ask, tmp_path: Path) -> None:
    for name, sample in {**GOOD_EVAL_SETS, **GOOD_SCENARIOS}.items():
        path = tmp_path / "x.evalset.json"
        write_text(path, eval_set_text(EvalSet.model_validate(sample)))
        written, direct = adk("eval_set", json.loads(path.read_text())), adk("eval_set", sample)
        assert "ok" in direct, (name, direct)
        assert normal(written) == normal(direct), name


LENIENT = {
    "a state at the end is a warning",
    "empty conversation", "rubric twice in a case", "rubric of case and turn", "duplicate eval id", "no cases at all",
    "misspelt optional keys are warnings", "both spellings", "turn without reference", "case without reference",
    "scenario with default criteria", "scenario that ends at once", "persona with a broken template",
    "keys of the session in the case", "an empty eval id is a warning",
    "an expected call without a name is a warning",
}  # fmt: skip
"""ADK loads these, and fails, passes or falls silent later."""


def test_adk__refuses_what_has_the_wrong_shape(adk: Ask) -> None:
    assert {name for name, sample in BAD_EVAL_SETS.items() if "ok" in adk("eval_set", sample)} == LENIENT


def test_adk__loads_good_configs(adk: Ask) -> None:
    for name, sample in GOOD_CONFIGS.items():
        assert set(adk("config", sample)["ok"]["criteria"]) == set(sample["criteria"]), name


REFUSED_CONFIGS = {
    "a list", "criteria a list", "null criterion", "word", "no threshold", "unknown simulator", "code config",
    "instructions in the old style", "instructions without plan", "instructions that are no template",
    "instructions with an unknown filter", "percent", "a custom metric as text",
    "options of another tool's metric",
}  # fmt: skip
"""The other mistakes ADK finds while it scores, or never."""


def test_adk__refuses_few_bad_configs(adk: Ask) -> None:
    assert {name for name, sample in BAD_CONFIGS.items() if "error" in adk("config", sample)} == REFUSED_CONFIGS
